//! The moving part of a filter, which one thread at a time may step.

use super::CoreFilter;
use optfilter_run::{Estimate, Live};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, TryLockError};

/// What changes while a filter is stepped.
pub(super) struct Moving {
    pub(super) live: Box<dyn Live>,
    pub(super) clock: StepClock,
    pub(super) y: Vec<f64>,
    pub(super) u: Vec<f64>,
    /// Whether a measurement was taken.
    pub(super) seen: bool,
    pub(super) report: Estimate,
    /// The belief before the last measurement.
    pub(super) prior: Estimate,
    /// Whether it was predicted since.
    pub(super) predicted: bool,
}

impl Moving {
    pub(super) fn new(live: Box<dyn Live>, dt: f64, outputs: usize, inputs: usize) -> Self {
        Self {
            live,
            clock: StepClock { index: 0, time: 0.0, dt, even: true, late: false },
            y: vec![0.0; outputs],
            u: vec![0.0; inputs],
            seen: false,
            report: Estimate::default(),
            prior: Estimate::default(),
            predicted: false,
        }
    }
}

/// The time line of a filter that is stepped by hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepClock {
    /// Rows: predictions, and one more if a measurement came before the first of them.
    pub(super) index: u64,
    pub(super) time: f64,
    /// The length of the last step.
    pub(super) dt: f64,
    /// Whether every step so far had the model's own length, so that time is a product, not a sum.
    even: bool,
    /// Whether the first row was not predicted.
    late: bool,
}

/// A clock for pickling: index, time, dt, even, late.
pub(super) type SavedClock = (u64, f64, f64, bool, bool);

impl StepClock {
    /// After a prediction through `length`; `own` is the model's step.
    pub(super) fn after(self, length: f64, own: f64) -> Self {
        let index = self.index + 1;
        let even = self.even && length == own;
        let steps = index - u64::from(self.late);
        let time = if even { steps as f64 * own } else { self.time + length };
        Self { index, time, dt: length, even, ..self }
    }

    /// At a measurement: before the first prediction it is the first row.
    pub(super) fn at_measurement(self) -> Self {
        if self.index > 0 { self } else { Self { index: 1, late: true, ..self } }
    }

    pub(super) fn save(self) -> SavedClock {
        (self.index, self.time, self.dt, self.even, self.late)
    }

    pub(super) fn load((index, time, dt, even, late): SavedClock) -> Self {
        Self { index, time, dt, even, late }
    }
}

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
