//! What a search ends with.

use crate::run::Score;
use optfilter_run::{FilterSpec, Method};
use serde::Serialize;
use std::ops::Range;

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
