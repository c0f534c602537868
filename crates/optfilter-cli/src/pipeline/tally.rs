//! What is counted along the way: rows, prediction errors, consistency.

use optfilter_run::Estimate;
use serde::{Deserialize, Serialize};

/// What is counted along the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub rows: u64,
    pub missing: u64,
    pub partial: u64,
    pub outliers: u64,
    pub runaways: u64,
    /// The row at which an implicit filter's error bars were lost.
    pub bars_lost: Option<u64>,
    pub log_likelihood: f64,
    had_bars: bool,
    nis: f64,
    observed: u64,
    error_squares: Vec<f64>,
    change_squares: Vec<f64>,
    counts: Vec<u64>,
    /// The largest measurements.
    pub largest: Vec<f64>,
}

impl Tally {
    pub(super) fn new(outputs: usize) -> Self {
        Self {
            had_bars: true,
            error_squares: vec![0.0; outputs],
            change_squares: vec![0.0; outputs],
            counts: vec![0; outputs],
            largest: vec![0.0; outputs],
            ..Self::default()
        }
    }

    /// Counts a row; `last` are the measurements before it in its series.
    #[inline]
    pub(super) fn add(&mut self, y: &[f64], estimate: &Estimate, last: &mut [f64]) {
        self.rows += 1;
        let has_bars = !estimate.std(0).is_nan();
        if self.had_bars && !has_bars && self.bars_lost.is_none() {
            self.bars_lost = Some(self.rows);
        }
        self.had_bars = has_bars;
        if estimate.observed == 0 {
            self.missing += 1;
            return;
        }
        self.partial += u64::from(estimate.observed < y.len());
        self.log_likelihood += estimate.log_likelihood;
        self.nis += estimate.nis;
        self.observed += estimate.observed as u64;
        for i in 0..y.len() {
            let (e, change) = (estimate.innovation[i], y[i] - last[i]);
            // Both sums over the same rows: those that have a measurement before them.
            if !e.is_nan() && !change.is_nan() {
                self.error_squares[i] += e * e;
                self.change_squares[i] += change * change;
                self.counts[i] += 1;
            }
            if !y[i].is_nan() {
                last[i] = y[i];
                self.largest[i] = self.largest[i].max(y[i].abs());
            }
        }
    }

    /// Root mean square one-step prediction error of each observation.
    pub fn prediction_errors(&self) -> Vec<f64> {
        let root = |(s, n): (&f64, &u64)| (s / *n as f64).sqrt();
        self.error_squares.iter().zip(&self.counts).map(root).collect()
    }

    /// The same for a prediction that repeats the measurement before.
    pub fn repeat_errors(&self) -> Vec<f64> {
        let root = |(s, n): (&f64, &u64)| (s / *n as f64).sqrt();
        self.change_squares.iter().zip(&self.counts).map(root).collect()
    }

    /// Mean normalised innovation squared per observed component; 1 for a consistent filter.
    pub fn mean_nis(&self) -> f64 {
        self.nis / self.observed as f64
    }
}
