//! A whole series in memory, and how well a filter predicts it.

use super::layout::Layout;
use crate::file::ModelSpec;
use crate::table::Rows;
use optfilter::filter::FilterError;
use optfilter::model::Step;
use optfilter_run::{Clock, Estimate, FilterSpec, SpecError};
use serde::Serialize;

/// Rows of a table as steps.
#[derive(Clone, Debug, Default)]
pub struct Dataset {
    /// The step to each row.
    pub steps: Vec<Step>,
    /// Inputs, row after row.
    pub inputs: Vec<f64>,
    /// Observations, row after row.
    pub outputs: Vec<f64>,
    /// True states where known, row after row, in the order of the states; NaN for those that are not.
    pub truth: Vec<f64>,
    /// The first row's time, from which calendar times are counted; none for plain numbers.
    pub origin: Option<f64>,
    input_dim: usize,
    output_dim: usize,
}

/// How a filter did on a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Root mean square of the one-step prediction errors, each observation in units of its own
    /// variation from row to row (see [`Dataset::scales`]).
    pub prediction: f64,
    /// Root mean square error against the truth, each state in units of its deviation; NaN without.
    pub truth: f64,
    /// Sum of the log-likelihoods; NaN if the filter has none.
    pub log_likelihood: f64,
    /// Mean normalised innovation squared per observed component: 1 if the filter is consistent.
    pub nis: f64,
    /// Squared prediction errors per row (mean over observed components), for comparisons in pairs;
    /// NaN where nothing was observed.
    #[serde(skip)]
    pub errors: Vec<f64>,
}

impl Dataset {
    /// From a table in memory; times must not run backwards.
    pub fn new(spec: &ModelSpec, layout: &Layout, batch: &Rows) -> Result<Self, (u64, f64, f64)> {
        let mut clock = Clock::new(spec.dt, spec.filter.predict_first());
        let mut out = Self {
            origin: batch.calendar.then(|| layout.split(batch, 0).0).flatten(),
            input_dim: spec.inputs.len(),
            output_dim: spec.observations.len(),
            ..Self::default()
        };
        for row in 0..batch.rows {
            let (time, inputs, outputs) = layout.split(batch, row);
            let (_, step) = clock
                .next(time, batch.calendar)
                .map_err(|(before, after)| (row as u64 + 1, before, after))?;
            out.steps.push(step);
            out.inputs.extend_from_slice(inputs);
            out.outputs.extend_from_slice(outputs);
        }
        Ok(out)
    }

    /// From states and observations made by [`ModelSpec::simulate`].
    pub fn simulated(spec: &ModelSpec, states: &[f64], outputs: &[f64]) -> Self {
        let output_dim = spec.observations.len();
        let mut clock = Clock::new(spec.dt, spec.filter.predict_first());
        let steps = (0..outputs.len() / output_dim)
            .filter_map(|_| clock.next(None, false).ok().map(|s| s.1))
            .collect();
        Self {
            steps,
            inputs: Vec::new(),
            outputs: outputs.to_vec(),
            truth: states.to_vec(),
            origin: None,
            input_dim: 0,
            output_dim,
        }
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        if rows < self.len() {
            let states = self.truth.len() / self.len();
            self.steps.truncate(rows);
            self.inputs.truncate(rows * self.input_dim);
            self.outputs.truncate(rows * self.output_dim);
            self.truth.truncate(rows * states);
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The time of a row as the table had it.
    pub fn time(&self, row: usize) -> f64 {
        self.steps[row].time + self.origin.unwrap_or(0.0)
    }

    /// Inputs of a row.
    pub fn input(&self, row: usize) -> &[f64] {
        &self.inputs[row * self.input_dim..(row + 1) * self.input_dim]
    }

    /// Observations of a row.
    pub fn output(&self, row: usize) -> &[f64] {
        &self.outputs[row * self.output_dim..(row + 1) * self.output_dim]
    }

    /// A size for each observation: the root mean square of its changes from row to row. Dividing by it
    /// makes observations of different units comparable, and 1 means: no better than repeating the
    /// measurement before.
    pub fn scales(&self) -> Vec<f64> {
        (0..self.output_dim)
            .map(|i| {
                let (mut sum, mut count, mut last) = (0.0, 0.0, f64::NAN);
                for row in 0..self.len() {
                    let y = self.output(row)[i];
                    if y.is_nan() {
                        continue;
                    }
                    if !f64::is_nan(last) {
                        sum += (y - last) * (y - last);
                        count += 1.0;
                    }
                    last = y;
                }
                let scale = f64::sqrt(sum / f64::max(count, 1.0));
                if scale > 0.0 { scale } else { 1.0 }
            })
            .collect()
    }

    /// Runs a filter over the rows before `end`, calling `visit` after each.
    pub fn run(
        &self,
        spec: &ModelSpec,
        filter: &FilterSpec,
        end: usize,
        mut visit: impl FnMut(usize, &Estimate),
    ) -> Result<Result<(), FilterError>, SpecError> {
        let runner = spec.runner(filter)?;
        let mut live = runner.start(runner.default_start()).map_err(SpecError::new)?;
        let mut estimate = Estimate::default();
        for row in 0..end.min(self.len()) {
            let (step, predict) = (&self.steps[row], row > 0 || filter.predict_first());
            let taken = live.step(predict, step, self.input(row), self.output(row), &mut estimate);
            match taken {
                Ok(()) => {}
                // No other setting will do better.
                Err(e @ FilterError::Uneven { .. }) => return Err(SpecError::new(e)),
                Err(e) => return Ok(Err(e)),
            }
            visit(row, &estimate);
        }
        Ok(Ok(()))
    }

    /// How well a filter predicts rows `from .. end` and, where the truth is known, estimates it.
    pub fn score(
        &self,
        spec: &ModelSpec,
        filter: &FilterSpec,
        from: usize,
        end: usize,
    ) -> Result<Result<Score, FilterError>, SpecError> {
        let scales = self.scales();
        let n = spec.states.len();
        let truth_scales: Vec<f64> = (0..n).map(|i| self.truth_scale(i, n)).collect();
        let mut errors = vec![f64::NAN; self.len()];
        let (mut log_likelihood, mut nis, mut observed) = (0.0, 0.0, 0usize);
        let (mut off, mut known) = (0.0, 0usize);
        let done = self.run(spec, filter, end, |row, estimate| {
            if row < from {
                return;
            }
            let (mut sum, mut count) = (0.0, 0.0);
            for (v, scale) in estimate.innovation.iter().zip(&scales) {
                if !v.is_nan() {
                    sum += (v / scale) * (v / scale);
                    count += 1.0;
                }
            }
            if count > 0.0 {
                errors[row] = sum / count;
                log_likelihood += estimate.log_likelihood;
                nis += estimate.nis;
                observed += estimate.observed;
            }
            if !self.truth.is_empty() {
                for i in 0..n {
                    let e = (estimate.mean[i] - self.truth[row * n + i]) / truth_scales[i];
                    if !e.is_nan() {
                        off += e * e;
                        known += 1;
                    }
                }
            }
        })?;
        if let Err(e) = done {
            return Ok(Err(e));
        }
        let seen: Vec<f64> = errors.iter().copied().filter(|e| !e.is_nan()).collect();
        let prediction = (seen.iter().sum::<f64>() / seen.len().max(1) as f64).sqrt();
        Ok(Ok(Score {
            prediction: if seen.is_empty() { f64::NAN } else { prediction },
            truth: if known == 0 { f64::NAN } else { (off / known as f64).sqrt() },
            log_likelihood,
            nis: nis / observed.max(1) as f64,
            errors,
        }))
    }

    fn truth_scale(&self, i: usize, n: usize) -> f64 {
        let values: Vec<f64> =
            self.truth.iter().skip(i).step_by(n).copied().filter(|v| !v.is_nan()).collect();
        if values.len() < 2 {
            return 1.0;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / values.len() as f64;
        if var > 0.0 { var.sqrt() } else { 1.0 }
    }
}
