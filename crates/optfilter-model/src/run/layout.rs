//! From rows of a table to steps of a filter: which columns, which time, which order of results.

use crate::file::{Missing, ModelSpec};
use crate::table::{ColumnKind, OutputColumn, Rows, Wanted};
use optfilter_run::forecast::LEVEL_NAMES;
use optfilter_run::{Estimate, Forecast};
use serde::Serialize;

/// The columns of the input, in this order: the time if there is one, inputs, observations, the name of the series if rows
/// belong to several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layout {
    /// The time column, if there is one.
    pub time: Option<String>,
    /// The column that names the series of a row, if there are several.
    pub by: Option<String>,
    /// Whether rows come from several tables, put in the order of their times.
    pub joined: bool,
    /// How many rows ahead results look from each row.
    pub horizon: usize,
    inputs: usize,
    outputs: usize,
}

impl Layout {
    /// The columns a model needs. `time` overrides the time column of the model file.
    pub fn new(spec: &ModelSpec, time: Option<&str>) -> Self {
        let time = time.map(str::to_owned).or_else(|| spec.time_column.clone());
        let (inputs, outputs) = (spec.inputs.len(), spec.observations.len());
        Self { time, by: None, joined: false, horizon: 0, inputs, outputs }
    }

    /// The same, with the column that names the series of a row.
    pub fn by(self, column: Option<&str>) -> Self {
        Self { by: column.map(str::to_owned), ..self }
    }

    /// The same, where rows may come from several tables, put in the order of their times.
    pub fn joined(self, joined: bool) -> Self {
        Self { joined, ..self }
    }

    /// The same, with results that look so many rows ahead.
    pub fn horizon(self, rows: usize) -> Self {
        Self { horizon: rows, ..self }
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
        let inputs = spec.inputs.iter().zip(&spec.input_rules).map(|(name, rule)| Wanted {
            column: spec.column(name).to_owned(),
            kind: match rule.missing {
                Missing::Refuse => ColumnKind::Input,
                _ => ColumnKind::Measurement,
            },
        });
        let outputs = named(&spec.observations, ColumnKind::Measurement);
        let by = self.by.iter().map(|c| Wanted { column: c.clone(), kind: ColumnKind::Label });
        time.chain(inputs).chain(outputs).chain(by).collect()
    }

    /// How many numbers a row has.
    pub fn width(&self) -> usize {
        usize::from(self.time.is_some())
            + self.inputs
            + self.outputs
            + usize::from(self.by.is_some())
    }

    /// The place of the name of a row's series among its numbers, if there are several.
    pub fn label(&self) -> Option<usize> {
        self.by.as_ref().map(|_| self.width() - 1)
    }

    /// Time, inputs and observations of a row.
    #[inline]
    pub fn split<'a>(&self, batch: &'a Rows, row: usize) -> (Option<f64>, &'a [f64], &'a [f64]) {
        let values = &batch.values[row * self.width()..(row + 1) * self.width()];
        let (time, rest) = values.split_at(usize::from(self.time.is_some()));
        let (inputs, rest) = rest.split_at(self.inputs);
        (time.first().copied(), inputs, &rest[..self.outputs])
    }

    /// The number of the series of a row, among the batch's labels; `None` where there is only one series.
    #[inline]
    pub fn series(&self, batch: &Rows, row: usize) -> Option<f64> {
        self.by.as_ref().and_then(|_| batch.values.get((row + 1) * self.width() - 1).copied())
    }

    /// The columns of the result; `full` adds spreads of innovations, likelihoods and NIS, `lagged` smoothed states at
    /// the end.
    pub fn output_columns(&self, spec: &ModelSpec, full: bool, lagged: bool) -> Vec<OutputColumn> {
        let mut columns = vec![OutputColumn::Time(self.time.clone().unwrap_or_else(|| "t".into()))];
        columns.extend(self.by.clone().map(OutputColumn::Label));
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
        for row in 1..=self.horizon {
            for name in forecast_names(spec) {
                let of = |ending: &str| OutputColumn::Number(format!("{name}_ahead_{row}{ending}"));
                columns.extend(["", "_std"].map(of));
                let levels = shown_levels(full);
                columns.extend(levels.clone().rev().map(|i| of(&format!("_lo{}", LEVEL_NAMES[i]))));
                columns.extend(levels.map(|i| of(&format!("_hi{}", LEVEL_NAMES[i]))));
            }
        }
        if lagged {
            let name = |n: &String| OutputColumn::Number(format!("{n}_lagged"));
            columns.extend(spec.states.iter().map(name));
        }
        columns
    }

    /// Writes a result in the order of [`output_columns`](Self::output_columns); `series` is the number of its series.
    #[inline]
    pub fn result(
        &self,
        (time, series): (f64, Option<f64>),
        estimate: &Estimate,
        flag: usize,
        full: bool,
        out: &mut Vec<f64>,
    ) {
        out.clear();
        out.push(time);
        out.extend(series);
        out.extend_from_slice(&estimate.mean);
        out.extend((0..estimate.mean.len()).map(|i| estimate.std(i)));
        out.extend_from_slice(&estimate.innovation);
        if full {
            out.extend((0..estimate.innovation.len()).map(|i| estimate.innovation_std(i)));
            out.push(estimate.log_likelihood);
            out.push(estimate.nis);
        }
        out.push(flag as f64);
    }

    /// Adds a forecast to a result; NaN where there is none.
    pub fn ahead(
        &self,
        spec: &ModelSpec,
        found: Option<&Forecast>,
        full: bool,
        out: &mut Vec<f64>,
    ) {
        let levels = shown_levels(full);
        let Some(found) = found else {
            let spreads = self.horizon * (spec.states.len() + spec.observations.len());
            out.extend(std::iter::repeat_n(f64::NAN, spreads * (2 + 2 * levels.len())));
            return;
        };
        for (states, measurements) in found.states.iter().zip(&found.measurements) {
            for spread in states.iter().chain(measurements) {
                out.extend([spread.mean, spread.std]);
                out.extend(levels.clone().rev().map(|i| spread.intervals[i].0));
                out.extend(levels.clone().map(|i| spread.intervals[i].1));
            }
        }
    }
}

/// Which intervals of a forecast are written beside an estimate: the widest, or all.
fn shown_levels(full: bool) -> std::ops::Range<usize> {
    if full { 0..LEVEL_NAMES.len() } else { LEVEL_NAMES.len() - 1..LEVEL_NAMES.len() }
}

/// What the columns of forecasts begin with: states, then measurements; one that is called like a state is NAME_measured.
pub fn forecast_names(spec: &ModelSpec) -> Vec<String> {
    let observed = spec
        .observations
        .iter()
        .map(|y| if spec.states.contains(y) { format!("{y}_measured") } else { y.clone() });
    spec.states.iter().cloned().chain(observed).collect()
}
