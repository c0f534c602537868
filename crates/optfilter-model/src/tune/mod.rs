//! Choosing a filter for a series, without the truth.
//!
//! A filter that knows the state well predicts the next measurement well, so settings are compared by
//! their one-step-ahead prediction error; where true states are known, by their error instead. The
//! first tenth of the series lets filters settle, rows up to seven tenths choose, the rest only judges
//! the choice: what is reported was not searched for.
//!
//! Prediction errors carry the measurement's own noise, which no filter can remove, so good filters
//! look alike. Whether the best differs from another is therefore tested on paired errors in blocks of
//! rows, and said. Ties are broken by the log-likelihood of the predictions, where filters have one.

mod search;
mod space;

pub use search::{News, Search, Strategy, tune};
pub use space::candidates;

use crate::ModelSpec;
use crate::run::{Dataset, Score};
use optfilter_run::{FilterSpec, SpecError};
use serde::Serialize;

/// What settings are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// One-step-ahead prediction error.
    Prediction,
    /// Error against true states.
    Truth,
}

/// Settings with their scores.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The settings.
    pub filter: FilterSpec,
    /// The score on the rows that chose.
    pub chosen_by: f64,
    /// The score on the rows that only judge.
    pub judged: Score,
    /// Whether the best differs from this one by more than noise, on the rows that chose.
    pub clearly_worse: bool,
}

/// The end of a search.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Best first.
    pub board: Vec<Entry>,
    /// The default settings (implicit MAP, Adam, 50 steps at 0.1), if they run at all.
    pub default: Option<Score>,
    /// How many settings were tried.
    pub tried: usize,
    /// How many of them diverged.
    pub diverged: usize,
    /// Rows that chose: from, to.
    pub chosen_on: (usize, usize),
}

/// Rows that settle, choose and judge.
fn parts(rows: usize) -> (usize, usize) {
    (rows / 10, rows * 7 / 10)
}

/// The number that settings are compared by.
fn value(score: &Score, metric: Metric) -> f64 {
    let v = match metric {
        Metric::Prediction => score.prediction,
        Metric::Truth => score.truth,
    };
    if v.is_nan() { f64::INFINITY } else { v }
}

/// The score of a filter on rows `from .. end`, infinite where it diverges.
fn evaluate(
    spec: &ModelSpec,
    data: &Dataset,
    filter: &FilterSpec,
    from: usize,
    end: usize,
) -> Result<Option<Score>, SpecError> {
    Ok(data.score(spec, filter, from, end)?.ok())
}
