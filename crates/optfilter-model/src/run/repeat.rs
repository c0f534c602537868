//! One-step prediction errors beside those of repeating the measurement before: the yardstick that every summary prints.

use crate::file::ModelSpec;
use optfilter::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// Sums over the rows that were counted, of each observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeating {
    /// A whole turn of each observation that is an angle.
    turns: Vec<Option<f64>>,
    error_squares: Vec<f64>,
    change_squares: Vec<f64>,
    counts: Vec<u64>,
}

impl Repeating {
    /// Of nothing yet.
    pub fn new(spec: &ModelSpec) -> Self {
        let m = spec.observations.len();
        Self {
            turns: spec.turns(),
            error_squares: vec![0.0; m],
            change_squares: vec![0.0; m],
            counts: vec![0; m],
        }
    }

    /// Takes a row with its innovations; `last` are the measurements before it, and then its own. A row that does not count is
    /// only remembered.
    #[inline]
    pub fn add(&mut self, y: &[f64], innovation: &[f64], last: &mut [f64], counts: bool) {
        for (i, (&y, last)) in y.iter().zip(last).enumerate() {
            let (e, by) = (innovation[i], change(y, *last, self.turns[i]));
            // Both sums over the same rows: those that have a measurement before them.
            if counts && !e.is_nan() && !by.is_nan() {
                self.error_squares[i] += e * e;
                self.change_squares[i] += by * by;
                self.counts[i] += 1;
            }
            if !y.is_nan() {
                *last = y;
            }
        }
    }

    /// Root mean square one-step prediction error of each observation.
    pub fn prediction_errors(&self) -> Vec<f64> {
        self.roots(&self.error_squares)
    }

    /// The same for a prediction that repeats the measurement before.
    pub fn repeat_errors(&self) -> Vec<f64> {
        self.roots(&self.change_squares)
    }

    fn roots(&self, squares: &[f64]) -> Vec<f64> {
        squares.iter().zip(&self.counts).map(|(s, n)| (s / *n as f64).sqrt()).collect()
    }
}

/// By how much a measurement differs from the one before; of an angle the shorter way round. NaN where one is missing.
pub(super) fn change(y: f64, last: f64, turn: Option<f64>) -> f64 {
    let by = y - last;
    turn.map_or(by, |turn| by.wrap(turn))
}

impl ModelSpec {
    /// A whole turn of each observation that is an angle.
    pub(super) fn turns(&self) -> Vec<Option<f64>> {
        let angles = self.observation_angles.iter().zip(&self.observation_turns);
        angles.map(|(angle, turn)| angle.then_some(*turn)).collect()
    }
}
