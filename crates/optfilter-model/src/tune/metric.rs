//! What settings are compared by.

use crate::run::Trace;
use serde::Serialize;
use std::ops::Range;

/// What settings are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The density that was predicted for each measurement.
    Likelihood,
    /// One-step-ahead prediction error.
    Prediction,
    /// Error against true states.
    Truth,
}

impl Metric {
    /// What is compared, row by row; less is better.
    pub(super) fn rows(self, trace: &Trace) -> &[f64] {
        match self {
            Self::Likelihood => &trace.losses,
            Self::Prediction => &trace.errors,
            Self::Truth => &trace.truth,
        }
    }

    /// [`rows`](Self::rows) of some rows, infinite where the filter does not come through them.
    pub(super) fn losses(self, trace: &Trace, rows: Range<usize>) -> Vec<f64> {
        match trace.reaches(rows.end) {
            true => self.rows(trace)[rows].to_vec(),
            false => vec![f64::INFINITY; rows.len()],
        }
    }

    /// What settings are compared by on some rows; infinite where the filter does not come through them.
    pub(super) fn value(self, trace: &Trace, rows: Range<usize>) -> f64 {
        let mean = crate::run::mean(self.losses(trace, rows).into_iter());
        if mean.is_nan() { f64::INFINITY } else { mean }
    }
}
