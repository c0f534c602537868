//! What is counted along the way: rows, prediction errors, consistency.

use optfilter_model::ModelSpec;
use optfilter_model::run::Repeating;
use optfilter_run::{Estimate, Flag, LONELY};
use serde::{Deserialize, Serialize};

/// What is counted along the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub rows: u64,
    pub missing: u64,
    pub partial: u64,
    pub outliers: u64,
    pub runaways: u64,
    /// Rows in which a gate had lost the track, and the first of them.
    pub lost: u64,
    pub lost_at: Option<u64>,
    /// Rows after which hardly one particle counted, and the fewest that ever did.
    pub lonely: u64,
    pub least_effective: Option<f64>,
    /// The row at which an implicit filter's error bars were lost.
    pub bars_lost: Option<u64>,
    pub log_likelihood: f64,
    had_bars: bool,
    nis: f64,
    observed: u64,
    repeating: Repeating,
    /// The largest measurements.
    pub largest: Vec<f64>,
}

impl Tally {
    pub(super) fn new(spec: &ModelSpec) -> Self {
        Self {
            had_bars: true,
            repeating: Repeating::new(spec),
            largest: vec![0.0; spec.observations.len()],
            ..Self::default()
        }
    }

    /// Counts the flag of the row that was added last.
    #[inline]
    pub(super) fn flag(&mut self, flag: Flag) {
        self.outliers += u64::from(flag == Flag::Outlier);
        self.runaways += u64::from(flag == Flag::Runaway);
        if flag == Flag::Lost {
            self.lost += 1;
            self.lost_at = self.lost_at.or(Some(self.rows));
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
        if estimate.effective.is_finite() {
            self.lonely += u64::from(estimate.effective < LONELY);
            let least =
                self.least_effective.map_or(estimate.effective, |v| v.min(estimate.effective));
            self.least_effective = Some(least);
        }
        if estimate.observed == 0 {
            self.missing += 1;
            return;
        }
        self.partial += u64::from(estimate.observed < y.len());
        self.log_likelihood += estimate.log_likelihood;
        // A row that says where a start was, of which nothing was known, has none.
        if !estimate.nis.is_nan() {
            self.nis += estimate.nis;
            self.observed += estimate.observed as u64;
        }
        self.repeating.add(y, &estimate.innovation, last, true);
        for (largest, y) in self.largest.iter_mut().zip(y) {
            *largest = largest.max(y.abs()); // NaN changes nothing
        }
    }

    /// Root mean square one-step prediction error of each observation.
    pub fn prediction_errors(&self) -> Vec<f64> {
        self.repeating.prediction_errors()
    }

    /// The same for a prediction that repeats the measurement before.
    pub fn repeat_errors(&self) -> Vec<f64> {
        self.repeating.repeat_errors()
    }

    /// Mean normalised innovation squared per observed component; 1 for a consistent filter.
    pub fn mean_nis(&self) -> f64 {
        self.nis / self.observed as f64
    }
}
