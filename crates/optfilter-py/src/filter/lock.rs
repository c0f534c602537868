//! The moving part of a filter, which one thread at a time may step.

use super::class::CoreFilter;
use super::moving::Moving;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, TryLockError};

/// A number for this thread, never 0.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|n| *n)
}

/// The lock on a filter's moving part, which remembers its owner.
pub(super) struct Guard<'a> {
    pub(super) moving: MutexGuard<'a, Moving>,
    owner: &'a AtomicU64,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl CoreFilter {
    pub(super) fn lock(&self, py: Python<'_>) -> PyResult<Guard<'_>> {
        let broken = || PyRuntimeError::new_err("the filter was left broken by an earlier failure");
        let moving = match self.moving.try_lock() {
            Ok(moving) => moving,
            Err(TryLockError::Poisoned(_)) => return Err(broken()),
            Err(TryLockError::WouldBlock) => {
                if self.owner.load(Ordering::Relaxed) == thread_number() {
                    let message = "a callable of this filter's model stepped the filter itself";
                    return Err(PyRuntimeError::new_err(message));
                }
                // Another thread may need the interpreter to finish its step.
                self.moving.lock_py_attached(py).map_err(|_| broken())?
            }
        };
        self.owner.store(thread_number(), Ordering::Relaxed);
        Ok(Guard { moving, owner: &self.owner })
    }
}
