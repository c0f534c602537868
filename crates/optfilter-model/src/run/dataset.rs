//! A whole series in memory.

use super::held::Held;
use super::interpolate;
use super::layout::Layout;
use crate::file::ModelSpec;
use crate::table::Rows;
use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter::model::Step;
use optfilter_run::{Clock, Estimate, FilterSpec, Row, RowSource, SpecError};
use std::ops::Range;

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
    /// The times of the rows, from the origin, where the table has them.
    times: Option<Vec<f64>>,
    input_dim: usize,
    output_dim: usize,
    /// The number of each row's series where there are several; empty where there is one.
    lanes: Vec<usize>,
}

impl Dataset {
    /// From a table in memory; times must not run backwards.
    pub fn new(spec: &ModelSpec, layout: &Layout, batch: &Rows) -> Result<Self, (u64, f64, f64)> {
        let filled = interpolate::whole(spec, layout, batch);
        let batch = filled.as_ref().unwrap_or(batch);
        let mut clock = Clock::new(spec.dt, spec.filter.predict_first());
        let mut out = Self {
            origin: batch.calendar.then(|| layout.split(batch, 0).0).flatten(),
            times: layout.time.is_some().then(Vec::new),
            input_dim: spec.inputs.len(),
            output_dim: spec.observations.len(),
            ..Self::default()
        };
        let mut held = Held::new(spec);
        for row in 0..batch.rows {
            let (time, inputs, outputs) = layout.split(batch, row);
            let (_, step) = clock
                .next(time, batch.calendar)
                .map_err(|(before, after)| (row as u64 + 1, before, after))?;
            out.steps.push(step);
            if let Some(times) = &mut out.times {
                times.push(step.time);
            }
            out.inputs.extend_from_slice(held.fill(inputs, outputs));
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
            times: None,
            input_dim: 0,
            output_dim,
            lanes: Vec::new(),
        }
    }

    /// Several series as one data set for [`run`](Self::run) and [`trace`](Self::trace), which give each a filter of its own.
    /// Their rows take turns so that every share of the whole holds that share of each.
    pub fn merged(mut parts: Vec<Self>) -> Self {
        if parts.len() < 2 {
            return parts.pop().unwrap_or_default();
        }
        let place = |&(lane, row): &(usize, usize)| (row as f64 + 0.5) / parts[lane].len() as f64;
        let mut order: Vec<(usize, usize)> = parts
            .iter()
            .enumerate()
            .flat_map(|(lane, part)| (0..part.len()).map(move |row| (lane, row)))
            .collect();
        order.sort_by(|a, b| place(a).total_cmp(&place(b)).then(a.cmp(b)));
        let mut out = Self {
            input_dim: parts[0].input_dim,
            output_dim: parts[0].output_dim,
            ..Self::default()
        };
        for (lane, row) in order {
            let part = &parts[lane];
            out.steps.push(part.steps[row]);
            out.inputs.extend_from_slice(part.input(row));
            out.outputs.extend_from_slice(part.output(row));
            let states = part.truth.len() / part.len();
            out.truth.extend_from_slice(&part.truth[row * states..][..states]);
            out.lanes.push(lane);
        }
        out
    }

    /// The number of a row's series.
    pub(super) fn lane(&self, row: usize) -> usize {
        self.lanes.get(row).copied().unwrap_or(0)
    }

    /// How many series there are.
    pub fn series_count(&self) -> usize {
        self.lanes.iter().max().map_or(1, |last| last + 1)
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        if rows < self.len() {
            let states = self.truth.len() / self.len();
            self.steps.truncate(rows);
            if let Some(times) = &mut self.times {
                times.truncate(rows);
            }
            self.inputs.truncate(rows * self.input_dim);
            self.outputs.truncate(rows * self.output_dim);
            self.truth.truncate(rows * states);
            self.lanes.truncate(rows);
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

    /// Whether rows have times of their own.
    pub fn is_timed(&self) -> bool {
        self.times.is_some()
    }

    /// The rows of one series, as a whole-series run walks over them.
    pub fn series(&self, spec: &ModelSpec, filter: &FilterSpec) -> Result<Series<'_>, FilterError> {
        let mut series = Series::new(&self.outputs, self.output_dim)?.with_dt(spec.dt)?;
        if let Some(times) = &self.times {
            series = series.with_times(times)?;
        }
        if self.input_dim > 0 {
            series = series.with_inputs(&self.inputs, self.input_dim)?;
        }
        Ok(if filter.predict_first() { series.predict_first() } else { series })
    }

    /// A row, as a filter takes it; the steps of each series are numbered from 1.
    pub fn row(&self, row: usize, filter: &FilterSpec) -> Row<'_> {
        let step = self.steps[row];
        Row {
            step,
            inputs: self.input(row),
            measurements: self.output(row),
            is_predicted: step.index > 1 || filter.predict_first(),
        }
    }

    /// Some rows of one series, for a [`walk`](optfilter_run::walk()).
    pub fn rows<'a>(&'a self, which: Range<usize>, filter: &'a FilterSpec) -> impl RowSource + 'a {
        Part { data: self, which, filter }
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
        let start = || runner.start(runner.default_start()).map_err(SpecError::new);
        let mut lives = (0..self.series_count()).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
        let mut estimate = Estimate::default();
        for row in 0..end.min(self.len()) {
            match self.row(row, filter).take(&mut *lives[self.lane(row)], &mut estimate) {
                Ok(()) => {}
                // No other setting will do better.
                Err(e @ FilterError::Uneven { .. }) => return Err(SpecError::new(e)),
                Err(e) => return Ok(Err(e)),
            }
            visit(row, &estimate);
        }
        Ok(Ok(()))
    }
}

/// Some rows of a data set.
struct Part<'a> {
    data: &'a Dataset,
    which: Range<usize>,
    filter: &'a FilterSpec,
}

impl RowSource for Part<'_> {
    fn rows(&self) -> usize {
        self.which.len()
    }
    fn row(&self, k: usize) -> Row<'_> {
        self.data.row(self.which.start + k, self.filter)
    }
}
