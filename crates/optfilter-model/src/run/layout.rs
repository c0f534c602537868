//! From rows of a table to steps of a filter: which columns, which time, which order of results.

use crate::file::{Missing, ModelSpec};
use crate::table::{ColumnKind, OutputColumn, Rows, Wanted};
use optfilter_run::Estimate;

/// The columns of the input, in this order: the time if there is one, inputs, observations, the name of the series if rows
/// belong to several.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The time column, if there is one.
    pub time: Option<String>,
    /// The column that names the series of a row, if there are several.
    pub by: Option<String>,
    inputs: usize,
    outputs: usize,
}

impl Layout {
    /// The columns a model needs. `time` overrides the time column of the model file.
    pub fn new(spec: &ModelSpec, time: Option<&str>) -> Self {
        let time = time.map(str::to_owned).or_else(|| spec.time_column.clone());
        Self { time, by: None, inputs: spec.inputs.len(), outputs: spec.observations.len() }
    }

    /// The same, with the column that names the series of a row.
    pub fn by(self, column: Option<&str>) -> Self {
        Self { by: column.map(str::to_owned), ..self }
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
        let inputs = spec.inputs.iter().zip(&spec.missing_inputs).map(|(name, missing)| Wanted {
            column: spec.column(name).to_owned(),
            kind: match missing {
                Missing::Refuse => ColumnKind::Input,
                Missing::Hold => ColumnKind::Measurement,
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
}
