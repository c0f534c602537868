//! From rows of a table to steps of a filter: which columns, which time, which order of results.

use super::engine::Estimate;
use crate::file::ModelSpec;
use crate::table::{ColumnKind, OutputColumn, Rows, Wanted};
use optfilter::model::Step;
use serde::{Deserialize, Serialize};

/// The columns of the input, in this order: the time if there is one, inputs, observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The time column, if there is one.
    pub time: Option<String>,
    inputs: usize,
    outputs: usize,
}

impl Layout {
    /// The columns a model needs. `time` overrides the time column of the model file.
    pub fn new(spec: &ModelSpec, time: Option<&str>) -> Self {
        let time = time.map(str::to_owned).or_else(|| spec.time_column.clone());
        Self { time, inputs: spec.inputs.len(), outputs: spec.observations.len() }
    }

    /// The columns to ask a reader for.
    pub fn wanted(&self, spec: &ModelSpec) -> Vec<Wanted> {
        let seconds_per_unit = spec.seconds_per_unit;
        let time = self.time.iter().map(|column| Wanted {
            column: column.clone(),
            kind: ColumnKind::Time { seconds_per_unit },
        });
        let named = |names: &[String], kind| -> Vec<Wanted> {
            names.iter().map(|n| Wanted { column: spec.column(n).to_owned(), kind }).collect()
        };
        let inputs = named(&spec.inputs, ColumnKind::Input);
        time.chain(inputs).chain(named(&spec.observations, ColumnKind::Measurement)).collect()
    }

    /// How many numbers a row has.
    pub fn width(&self) -> usize {
        usize::from(self.time.is_some()) + self.inputs + self.outputs
    }

    /// Time, inputs and observations of a row.
    #[inline]
    pub fn split<'a>(&self, batch: &'a Rows, row: usize) -> (Option<f64>, &'a [f64], &'a [f64]) {
        let values = &batch.values[row * self.width()..(row + 1) * self.width()];
        let (time, rest) = values.split_at(usize::from(self.time.is_some()));
        let (inputs, outputs) = rest.split_at(self.inputs);
        (time.first().copied(), inputs, outputs)
    }

    /// The columns of the result; `full` adds spreads of innovations, likelihoods and NIS.
    pub fn output_columns(&self, spec: &ModelSpec, full: bool) -> Vec<OutputColumn> {
        let mut columns = vec![OutputColumn::Time(self.time.clone().unwrap_or_else(|| "t".into()))];
        let mut numbers = |names: &[String], suffix: &str| {
            columns.extend(names.iter().map(|n| OutputColumn::Number(format!("{n}{suffix}"))));
        };
        numbers(&spec.states, "");
        numbers(&spec.states, "_std");
        numbers(&spec.observations, "_innovation");
        if full {
            numbers(&spec.observations, "_innovation_std");
            numbers(&["log_likelihood".into(), "nis".into()], "");
        }
        columns.push(OutputColumn::Flag("flag".into()));
        columns
    }

    /// Writes a result in the order of [`output_columns`](Self::output_columns).
    #[inline]
    pub fn result(
        &self,
        time: f64,
        estimate: &Estimate,
        flag: usize,
        full: bool,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        out.push(time);
        out.extend_from_slice(&estimate.mean);
        out.extend_from_slice(&estimate.std);
        out.extend_from_slice(&estimate.innovation);
        if full {
            out.extend_from_slice(&estimate.innovation_std);
            out.push(estimate.log_likelihood);
            out.push(estimate.nis);
        }
        out.push(flag as f64);
    }
}

/// The time line: even steps, or the times of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    dt: f64,
    rows: u64,
    /// Calendar times are counted from the first row, so that no precision is lost.
    origin: f64,
    last: f64,
}

impl Clock {
    /// At the beginning, with the interval of rows without a time.
    pub fn new(dt: f64) -> Self {
        Self { dt, rows: 0, origin: 0.0, last: f64::NAN }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The step to the next row, and whether there was a row before it. An error says which times run
    /// backwards.
    #[inline]
    pub fn next(&mut self, time: Option<f64>, calendar: bool) -> Result<(bool, Step), (f64, f64)> {
        let first = self.rows == 0;
        if first && calendar {
            self.origin = time.unwrap_or(0.0);
        }
        let time = match time {
            Some(time) => time - self.origin,
            None => self.rows as f64 * self.dt,
        };
        let dt = if first { self.dt } else { time - self.last };
        if dt < 0.0 {
            return Err((self.last + self.origin, time + self.origin));
        }
        self.rows += 1;
        self.last = time;
        Ok((!first, Step { index: self.rows, time, dt }))
    }
}
