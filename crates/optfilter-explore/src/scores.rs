//! How a filter did on some rows: the numbers that `optfilter filter` prints, for any part of a series.

use crate::run::Run;
use crate::subject::Subject;
use optfilter::metrics::chi_square_band;
use optfilter::scalar::Scalar;
use optfilter_model::run::Repeating;
use optfilter_run::Flag;
use serde::Serialize;
use std::ops::Range;

/// How a filter did on some rows; NaN (null) where it has nothing to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// The rows, and how many of them have no measurement at all.
    pub rows: usize,
    /// Rows without a measurement.
    pub missing: usize,
    /// Rows far from their prediction.
    pub outliers: usize,
    /// Root mean square one-step prediction error of each observation.
    pub prediction: Vec<f64>,
    /// The same for repeating the measurement before.
    pub repeat: Vec<f64>,
    /// The sum of the filter's log-likelihoods.
    pub log_likelihood: f64,
    /// Mean normalised innovation squared per observed component.
    pub nis: f64,
    /// Between which it lies 19 times of 20 if the filter is consistent.
    pub nis_band: [f64; 2],
    /// Root mean square error against the truth, of each state.
    pub truth: Vec<f64>,
}

/// The scores of the rows that `counts` names. Changes are from the last measurement of the whole series.
pub fn scores(subject: &Subject, run: &Run, counts: impl Fn(usize) -> bool) -> Scores {
    let (data, spec) = (&subject.data, &subject.spec);
    let (n, m) = (spec.states.len(), spec.observations.len());
    let mut out = Scores::default();
    let mut last = vec![f64::NAN; m];
    let mut repeating = Repeating::new(spec);
    let (mut off, mut known) = (vec![0.0; n], vec![0u64; n]);
    let mut components = 0usize;
    for row in 0..run.done.min(data.len()) {
        let (y, counted) = (data.output(row), counts(row));
        let observed = y.iter().filter(|v| !v.is_nan()).count();
        if counted {
            out.rows += 1;
            out.missing += usize::from(observed == 0);
            let is = |flag: Flag| run.flags[row] == f64::from(flag as u8);
            out.outliers += usize::from(is(Flag::Outlier) || is(Flag::Lost));
            if observed > 0 {
                out.log_likelihood += run.log_likelihood(row);
                if !run.nis(row).is_nan() {
                    out.nis += run.nis(row);
                    components += observed;
                }
            }
            for i in (0..n).filter(|_| !data.truth.is_empty()) {
                let truth = data.truth[row * n + i];
                let by = run.means[row * n + i] - truth;
                let by = if spec.state_angles[i] { by.wrap(spec.state_turns[i]) } else { by };
                if !truth.is_nan() {
                    off[i] += by * by;
                    known[i] += 1;
                }
            }
        }
        repeating.add(y, &run.innovations[row * m..][..m], &mut last, counted);
    }
    let root = |sums: &[f64], counts: &[u64]| -> Vec<f64> {
        sums.iter().zip(counts).map(|(s, c)| (s / *c as f64).sqrt()).collect()
    };
    out.prediction = repeating.prediction_errors();
    out.repeat = repeating.repeat_errors();
    out.truth = if data.truth.is_empty() { Vec::new() } else { root(&off, &known) };
    out.nis /= components as f64;
    let (low, high) = chi_square_band(1, components.max(1));
    out.nis_band = [low, high];
    out
}

/// The scores of a stretch of rows, and of all others; the second is missing where there are none.
pub fn both(
    subject: &Subject,
    run: &Run,
    chosen: Option<Range<usize>>,
) -> (Scores, Option<Scores>) {
    match chosen {
        None => (scores(subject, run, |_| true), None),
        Some(rows) => (
            scores(subject, run, |row| rows.contains(&row)),
            Some(scores(subject, run, |row| !rows.contains(&row))),
        ),
    }
}
