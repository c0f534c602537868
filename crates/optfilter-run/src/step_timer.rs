//! When rows come: irregular times where they mean nothing, and the time since the last measurement.

use optfilter::filter::FilterError;
use optfilter::model::Step;
use serde::{Deserialize, Serialize};

/// Steps that differ by more than this share of the first are irregular; the months of a calendar are not.
const UNEVEN: f64 = 0.25;

/// When rows come, and when the last one was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StepTimer {
    /// The first step between two rows of different times.
    usual: f64,
    /// The time of the first row; NaN before it.
    first: f64,
    /// That of the last measured row, or of the first.
    seen_at: f64,
    /// Whether a row without a measurement came since.
    missed: bool,
    /// Whether a prediction still waits for its measurement.
    waiting: bool,
}

impl Default for StepTimer {
    fn default() -> Self {
        let nan = f64::NAN;
        Self { usual: nan, first: nan, seen_at: nan, missed: false, waiting: false }
    }
}

impl StepTimer {
    /// An error where a step is unlike the first.
    pub(crate) fn check(&mut self, step: &Step) -> Result<(), FilterError> {
        // The first row has no step of its own; rows of one time have none between them.
        if step.index < 2 || step.dt == 0.0 {
            return Ok(());
        }
        if self.usual.is_nan() {
            self.usual = step.dt;
        }
        if (step.dt - self.usual).abs() <= UNEVEN * self.usual {
            return Ok(());
        }
        Err(FilterError::Uneven { index: step.index, dt: step.dt, usual: self.usual })
    }

    /// After a prediction: if the one before it waits still, a row went by without a measurement.
    pub(crate) fn predicted(&mut self) {
        self.missed |= self.waiting;
        self.waiting = true;
    }

    /// The step to a row, with what the rows before say of it.
    pub(crate) fn since(&self, step: &Step) -> Step {
        if self.first.is_nan() {
            return *step;
        }
        let known = Step::to_row(step.index, step.time, step.dt, self.first);
        Step { since: if self.missed { step.time - self.seen_at } else { step.dt }, ..known }
    }

    /// After a row.
    pub(crate) fn taken(&mut self, step: &Step, measured: bool) {
        if self.first.is_nan() {
            (self.first, self.seen_at) = (step.time, step.time);
        }
        if measured {
            self.seen_at = step.time;
        }
        (self.missed, self.waiting) = (!measured, false);
    }
}
