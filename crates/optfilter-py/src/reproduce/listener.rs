//! Telling Python how far a computation is.

use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells Python how far a computation is. Python may raise, which stops the computation.
pub(super) struct Listener<'a> {
    tell: Option<Py<PyAny>>,
    stop: &'a AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl<'a> Listener<'a> {
    pub(super) fn new(tell: Option<Py<PyAny>>, stop: &'a AtomicBool) -> Self {
        Self { tell, stop, raised: Mutex::new(None) }
    }

    pub(super) fn tell(&self, work: f64) {
        let Some(tell) = &self.tell else { return };
        if let Err(error) = Python::attach(|py| tell.call1(py, (work,)).map(|_| ())) {
            self.stop.store(true, Ordering::Relaxed);
            if let Ok(mut slot) = self.raised.lock() {
                slot.get_or_insert(error);
            }
        }
    }

    /// What Python raised, if it did.
    pub(super) fn raise(&self) -> PyResult<()> {
        match self.raised.lock().ok().and_then(|mut slot| slot.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
