//! How well a filter predicts a series, row by row.
//!
//! What errors are measured by (a [`Yardstick`]) comes from rows that are named, so that a verdict on other rows
//! owes nothing to them. Repeating the measurement before is judged on the same rows as the filter.

use super::dataset::Dataset;
use crate::file::ModelSpec;
use nalgebra::Dyn;
use optfilter::filter::FilterError;
use optfilter::model::likelihood::Observed;
use optfilter::model::{Likelihood, Observation};
use optfilter::scalar::Scalar;
use optfilter_run::{Estimate, FilterSpec, SpecError};
use serde::Serialize;
use std::ops::Range;

/// What errors are measured by.
#[derive(Clone, Debug, PartialEq)]
pub struct Yardstick {
    /// Rows in which filters settle.
    pub settle: usize,
    /// A size for each observation: the root mean square of its changes from row to row. It makes observations of
    /// different units comparable.
    pub outputs: Vec<f64>,
    /// The deviation of each true state, where it is known; else 1.
    pub truth: Vec<f64>,
}

/// What a filter made of each row; NaN where there is nothing to say.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Squared one-step prediction error, in units of the yardstick, of components with a measurement before them.
    pub errors: Vec<f64>,
    /// The same for repeating the measurement before.
    pub repeats: Vec<f64>,
    /// Squared error against the truth, in units of its deviation.
    pub truth: Vec<f64>,
    /// Minus the logarithm of the density that was predicted for the measurement; see [`Dataset::trace`].
    pub losses: Vec<f64>,
    log_likelihood: Vec<f64>,
    nis: Vec<f64>,
    observed: Vec<usize>,
    /// The row at which the filter failed, and how.
    pub failed: Option<(usize, FilterError)>,
}

/// How a filter did on some rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Root mean square of the one-step prediction errors, relative to repeating the measurement before on the
    /// same rows: 1 is no better.
    pub prediction: f64,
    /// Root mean square error against the truth, each state in units of its deviation; NaN without.
    pub truth: f64,
    /// Mean over rows of the logarithm of the density that was predicted; NaN if nothing was measured.
    pub log_score: f64,
    /// Sum of the filter's own log-likelihoods; NaN if it has none.
    pub log_likelihood: f64,
    /// Mean normalised innovation squared per observed component: 1 if the filter is consistent.
    pub nis: f64,
}

/// The mean of what is there.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let add = |(sum, count), v: f64| if v.is_nan() { (sum, count) } else { (sum + v, count + 1.0) };
    let (sum, count) = values.fold((0.0, 0.0), add);
    sum / count
}

impl Trace {
    /// Nothing yet, for this many rows.
    pub fn empty(rows: usize) -> Self {
        let none = || vec![f64::NAN; rows];
        Self {
            errors: none(),
            repeats: none(),
            truth: none(),
            losses: none(),
            log_likelihood: none(),
            nis: none(),
            observed: vec![0; rows],
            failed: None,
        }
    }

    /// Takes some rows of another trace of the same series.
    pub fn take(&mut self, other: &Self, rows: Range<usize>) {
        for (to, from) in [
            (&mut self.errors, &other.errors),
            (&mut self.repeats, &other.repeats),
            (&mut self.truth, &other.truth),
            (&mut self.losses, &other.losses),
            (&mut self.log_likelihood, &other.log_likelihood),
            (&mut self.nis, &other.nis),
        ] {
            to[rows.clone()].copy_from_slice(&from[rows.clone()]);
        }
        self.observed[rows.clone()].copy_from_slice(&other.observed[rows]);
    }

    /// The factor on all of a Kalman filter's noise that would make its predictions likeliest on some rows, and by
    /// how much the mean of its losses would fall: the means stay, and every S grows by the factor.
    pub fn calibration(&self, rows: Range<usize>) -> (f64, f64) {
        let measured = rows.filter(|&i| !self.nis[i].is_nan());
        let sum = |of: &dyn Fn(usize) -> f64| measured.clone().map(of).sum::<f64>();
        let (nis, components) = (sum(&|i| self.nis[i]), sum(&|i| self.observed[i] as f64));
        let factor = nis / components;
        (factor, 0.5 * (nis - components * (1.0 + factor.ln())) / measured.count() as f64)
    }

    /// Whether the filter came through the rows before `end`.
    pub fn reaches(&self, end: usize) -> bool {
        self.failed.as_ref().is_none_or(|(row, _)| *row >= end)
    }

    /// How the filter did on some rows.
    pub fn score(&self, rows: Range<usize>) -> Score {
        let of = |values: &[f64]| mean(values[rows.clone()].iter().copied());
        let measured = rows.clone().filter(|&i| self.observed[i] > 0);
        let sum = |values: &[f64]| measured.clone().map(|i| values[i]).sum::<f64>();
        let with_nis = rows.clone().filter(|&i| !self.nis[i].is_nan());
        let components: usize = with_nis.clone().map(|i| self.observed[i]).sum();
        Score {
            prediction: (of(&self.errors) / of(&self.repeats)).sqrt(),
            truth: of(&self.truth).sqrt(),
            log_score: -of(&self.losses),
            log_likelihood: sum(&self.log_likelihood),
            nis: with_nis.map(|i| self.nis[i]).sum::<f64>() / components as f64,
        }
    }
}

impl Dataset {
    /// What errors are measured by, from the rows before `end`; filters settle on the first `settle`.
    pub fn yardstick(&self, spec: &ModelSpec, settle: usize, end: usize) -> Yardstick {
        let size = |v: f64| if v > 0.0 && v.is_finite() { v.sqrt() } else { 1.0 };
        let m = spec.observations.len();
        let (mut last, mut change) =
            (vec![vec![f64::NAN; m]; self.series_count()], vec![f64::NAN; m]);
        let mut squares = Vec::new();
        for row in 0..end {
            self.change(spec, row, &mut last[self.lane(row)], &mut change);
            squares.extend(change.iter().map(|c| c * c));
        }
        let column = |i: usize| squares.iter().skip(i).step_by(m).copied();
        let outputs = (0..m).map(|i| size(mean(column(i)))).collect();
        let n = spec.states.len();
        let truth = (0..n)
            .map(|i| {
                let values = || self.truth.iter().skip(i).step_by(n).take(end).copied();
                let middle = mean(values());
                size(mean(values().map(|v| (v - middle) * (v - middle))))
            })
            .collect();
        Yardstick { settle, outputs, truth }
    }

    /// The change of each observation since it was last measured, which `last` remembers; NaN where it is not.
    fn change(&self, spec: &ModelSpec, row: usize, last: &mut [f64], change: &mut [f64]) {
        for (i, &y) in self.output(row).iter().enumerate() {
            let turn = spec.observation_angles[i].then_some(spec.observation_turns[i]);
            change[i] = super::repeat::change(y, last[i], turn);
            if !y.is_nan() {
                last[i] = y;
            }
        }
    }

    /// Runs a filter over the rows before `end`.
    ///
    /// The density that a filter predicts for a measurement is its own where it has one. Where it has none, it is
    /// the model's likelihood at the predicted state if that is no Gaussian, else a Gaussian with the spread of the
    /// filter's own errors before the row: what is known of its errors by then.
    pub fn trace(
        &self,
        spec: &ModelSpec,
        filter: &FilterSpec,
        yard: &Yardstick,
        end: usize,
    ) -> Result<Trace, SpecError> {
        let problem = spec.problem()?;
        let (n, m) = (spec.states.len(), spec.observations.len());
        let likelihood = match problem.is_gaussian() {
            true => None,
            false => Some(problem.likelihood(Dyn(m), false)?),
        };
        let runner = spec.runner(filter)?;
        let start = || runner.start(runner.default_start()).map_err(SpecError::new);
        let mut lives = (0..self.series_count()).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
        let mut out = Trace::empty(self.len());
        // One spread for all series: they are filtered alike and share what is known of the errors.
        let mut spread = Spread::new(&yard.outputs);
        let (mut last, mut change) = (vec![vec![f64::NAN; m]; lives.len()], vec![f64::NAN; m]);
        let mut eta = vec![f64::NAN; m];
        let mut estimate = Estimate::default();
        for row in 0..end.min(self.len()) {
            let (step, u, y) = (&self.steps[row], self.input(row), self.output(row));
            let lane = self.lane(row);
            let live = &mut lives[lane];
            self.change(spec, row, &mut last[lane], &mut change);
            let taken = match &likelihood {
                None => self.row(row, filter).take(&mut **live, &mut estimate),
                Some(_) => {
                    let moved = self.row(row, filter).predict(&mut **live);
                    live.estimate(&mut estimate);
                    problem.model.observe(&estimate.mean, u, step, &mut eta);
                    moved.and_then(|()| live.update(y, u, step, &mut estimate))
                }
            };
            if let Err(error @ FilterError::Uneven { .. }) = taken {
                return Err(SpecError::new(error)); // no other setting will do better
            }
            if let Err(error) = taken {
                out.failed = Some((row, error));
                break;
            }
            let squares = |values: &[f64]| {
                let seen = |&i: &usize| !change[i].is_nan() && !estimate.innovation[i].is_nan();
                mean((0..m).filter(seen).map(|i| (values[i] / yard.outputs[i]).powi(2)))
            };
            out.errors[row] = squares(&estimate.innovation);
            out.repeats[row] = squares(&change);
            out.observed[row] = estimate.observed;
            out.log_likelihood[row] = estimate.log_likelihood;
            out.nis[row] = estimate.nis;
            if !self.truth.is_empty() {
                let off = |i: usize| {
                    let e = estimate.mean[i] - self.truth[row * n + i];
                    (if spec.state_angles[i] { e.wrap(spec.state_turns[i]) } else { e }
                        / yard.truth[i])
                        .powi(2)
                };
                out.truth[row] = mean((0..n).map(off));
            }
            if estimate.observed > 0 {
                let loss = match &likelihood {
                    _ if !estimate.log_likelihood.is_nan() => -estimate.log_likelihood,
                    Some(likelihood) => {
                        let mask: Vec<bool> = y.iter().map(|v| !v.is_nan()).collect();
                        let seen = Observed::Some(&mask);
                        likelihood.loss(y, &eta, seen) + likelihood.log_normalizer(y, seen)
                    }
                    None => spread.loss(&estimate.innovation),
                };
                // What was predicted to be impossible.
                out.losses[row] = if loss.is_nan() { f64::INFINITY } else { loss };
                if row >= yard.settle {
                    spread.add(&estimate.innovation);
                }
            }
        }
        Ok(out)
    }
}

/// The spread of a filter's errors so far.
struct Spread {
    /// Sum of squares and count of each observation; its row-to-row change counts as the first error.
    sums: Vec<(f64, f64)>,
}

impl Spread {
    fn new(scales: &[f64]) -> Self {
        Self { sums: scales.iter().map(|s| (s * s, 1.0)).collect() }
    }

    /// Minus the logarithm of the Gaussian density of these errors.
    fn loss(&self, errors: &[f64]) -> f64 {
        let one = |(e, (sum, count)): (&f64, &(f64, f64))| {
            let var = sum / count;
            0.5 * ((std::f64::consts::TAU * var).ln() + e * e / var)
        };
        errors.iter().zip(&self.sums).filter(|(e, _)| !e.is_nan()).map(one).sum()
    }

    fn add(&mut self, errors: &[f64]) {
        for (e, (sum, count)) in errors.iter().zip(&mut self.sums).filter(|(e, _)| !e.is_nan()) {
            *sum += e * e;
            *count += 1.0;
        }
    }
}
