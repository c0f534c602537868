//! Choosing a filter for a series, without the truth.
//!
//! A filter that knows the state well, and knows how well, predicts the next measurement well. Settings are
//! compared by the density that they predicted for each measurement ([`Dataset::trace`] says what that is for a
//! filter without error bars); if asked, by the size of their prediction errors alone or by their errors against
//! true states.
//!
//! | rows | what for |
//! |---|---|
//! | first tenth | filters settle |
//! | up to six tenths | scales, grids, and the search for a pool of good settings |
//! | four windows of a tenth | each is predicted by whichever of the pool did best on all rows before it |
//!
//! The choice is the one made before the last window. Nothing of a window touches the choice that is judged on
//! it. Settings that cannot be told from the best are said to be so ([`clearly_worse`]).

mod search;
mod space;
mod verdict;

pub use search::{News, Search, Strategy, tune, tune_until};
pub use space::candidates;
pub use verdict::clearly_worse;

use crate::run::{Dataset, Score, Trace};
use optfilter_run::{FilterSpec, Method};
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
    fn rows(self, trace: &Trace) -> &[f64] {
        match self {
            Self::Likelihood => &trace.losses,
            Self::Prediction => &trace.errors,
            Self::Truth => &trace.truth,
        }
    }

    /// [`rows`](Self::rows) of some rows, infinite where the filter does not come through them.
    fn losses(self, trace: &Trace, rows: Range<usize>) -> Vec<f64> {
        match trace.reaches(rows.end) {
            true => self.rows(trace)[rows].to_vec(),
            false => vec![f64::INFINITY; rows.len()],
        }
    }

    /// What settings are compared by on some rows; infinite where the filter does not come through them.
    fn value(self, trace: &Trace, rows: Range<usize>) -> f64 {
        let mean = crate::run::mean(self.losses(trace, rows).into_iter());
        if mean.is_nan() { f64::INFINITY } else { mean }
    }
}

/// Settings with their scores.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The settings.
    pub filter: FilterSpec,
    /// The score on the rows that chose; none where the filter diverged there.
    pub chosen: Option<Score>,
    /// The score on the last window, which only judges; none where the filter diverged before its end.
    pub judged: Option<Score>,
    /// The row (from 0) at which it diverged.
    pub diverged_at: Option<usize>,
    /// Whether the best is better by more than noise, on the rows that chose.
    pub clearly_worse: bool,
}

/// Rows that were predicted by a choice made before them.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// The rows.
    pub rows: Range<usize>,
    /// What was chosen on the rows before.
    pub filter: FilterSpec,
    /// How that did; none where it diverged.
    pub score: Option<Score>,
    /// The row (from 0) at which it diverged.
    pub diverged_at: Option<usize>,
}

/// What tuning is measured against.
#[derive(Clone, Debug, Serialize)]
pub struct Baseline {
    /// The settings.
    pub filter: FilterSpec,
    /// The score over the windows that judged; none where the filter diverged.
    pub score: Option<Score>,
}

/// The end of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Best first.
    pub board: Vec<Entry>,
    /// The windows that judged.
    pub windows: Vec<Window>,
    /// The score over all windows whose choice came through them.
    pub judged: Option<Score>,
    /// What the model gets when nothing is chosen for it.
    pub default: Baseline,
    /// How many settings were tried.
    pub tried: usize,
    /// How many of them diverged.
    pub diverged: usize,
    /// Methods that do not fit the model, and why.
    pub left_out: Vec<(Method, String)>,
    /// Rows that the choice was made on.
    pub chosen_on: Range<usize>,
}

/// Which rows are for what.
#[derive(Clone, Debug)]
struct Parts {
    settle: usize,
    windows: Vec<Range<usize>>,
}

impl Parts {
    fn new(data: &Dataset) -> Self {
        let tenth = |k: usize| data.len() * k / 10;
        Self { settle: tenth(1), windows: (6..10).map(|k| tenth(k)..tenth(k + 1)).collect() }
    }

    /// Where the search ends and the judging begins.
    fn first(&self) -> usize {
        self.windows[0].start
    }

    /// The rows before a window, less those in which filters settle.
    fn before(&self, window: &Range<usize>) -> Range<usize> {
        self.settle..window.start
    }

    fn last(&self) -> &Range<usize> {
        &self.windows[self.windows.len() - 1]
    }
}
