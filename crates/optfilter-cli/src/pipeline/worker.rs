//! The filter between the reader and the writer.

use super::job::{Job, Saved, Waiting, fingerprint};
use super::tally::Tally;
use crate::failure::{Failure, Place};
use crate::plot::StripChart;
use crate::{files, interrupt};
use optfilter_model::ModelSpec;
use optfilter_model::run::Layout;
use optfilter_model::table::Rows;
use optfilter_run::{FilterSpec, Flag, Session, SessionError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The filter with all that it keeps from row to row.
pub(super) struct Worker<'a> {
    spec: &'a ModelSpec,
    filter: &'a FilterSpec,
    layout: Layout,
    pub(super) session: Session,
    pub(super) tally: Tally,
    full: bool,
    lagged: bool,
    pub(super) plot: Option<StripChart>,
    pub(super) data_name: String,
    pub(super) fingerprint: u64,
    /// The table's first time; of a run that goes on from a checkpoint unknown.
    first_time: f64,
    /// Whether the run should end.
    pub(super) stop: Arc<AtomicBool>,
    row: Vec<f64>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(job: &Job<'a>) -> Result<Self, Failure> {
        let spec = job.spec;
        Ok(Self {
            spec,
            filter: job.filter,
            layout: job.layout.clone(),
            session: Session::new(&*spec.runner(job.filter)?, job.filter, spec.dt)
                .map_err(Failure::other)?,
            tally: Tally::new(spec.observations.len()),
            full: job.full,
            lagged: job.lagged,
            plot: job.plot.then(|| StripChart::new(spec)),
            data_name: files::display(job.data),
            fingerprint: fingerprint(job),
            first_time: f64::NEG_INFINITY,
            stop: interrupt::flag(),
            row: Vec::new(),
        })
    }

    /// Filters a batch and appends its results; those before a failure are there as well.
    pub(super) fn take(&mut self, batch: &Rows, results: &mut Vec<f64>) -> Result<(), Failure> {
        for row in 0..batch.rows {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::interrupted(""));
            }
            let (time, u, y) = self.layout.split(batch, row);
            let step = match self.session.take(time, batch.calendar, u, y) {
                Ok(step) => step,
                Err(error) => {
                    let line = batch.lines.get(row).copied().unwrap_or(0);
                    return Err(self.failure(line, error, batch.calendar));
                }
            };
            if step.index == 1 {
                self.first_time = time.unwrap_or(f64::NEG_INFINITY);
            }
            let estimate = &self.session.estimate;
            self.tally.add(y, estimate);
            let flag = self.session.flag;
            self.tally.outliers += u64::from(flag == Flag::Outlier);
            self.tally.runaways += u64::from(flag == Flag::Runaway);
            let time = time.unwrap_or(step.time);
            self.layout.result(
                time,
                &self.session.estimate,
                flag as usize,
                self.full,
                &mut self.row,
            );
            if self.lagged {
                // Of the oldest row in the window; the writer knows which that is.
                let states = self.spec.states.len();
                self.row.extend_from_slice(&self.session.path()[..states]);
            }
            results.extend_from_slice(&self.row);
            if let Some(plot) = &mut self.plot {
                plot.calendar = batch.calendar.then_some(self.spec.seconds_per_unit);
                plot.push(time, y, &self.session.estimate, flag == Flag::Outlier);
            }
        }
        Ok(())
    }

    fn failure(&self, line: u64, error: SessionError, calendar: bool) -> Failure {
        let file = self.data_name.as_str();
        match error {
            SessionError::Backwards(before, after) => {
                let unit = calendar.then_some(self.spec.seconds_per_unit);
                files::backwards(file, line, [self.first_time, before, after], unit)
            }
            SessionError::Filter(error) => {
                let place = Place { file, line, spec: self.spec, filter: self.filter };
                Failure::filter(&place, &error)
            }
        }
    }

    /// What a checkpoint at this row holds; the writer adds how much has been written.
    pub(super) fn save(&self) -> Result<Saved, Failure> {
        Ok(Saved {
            fingerprint: self.fingerprint,
            tally: self.tally.clone(),
            output_len: 0,
            waiting: Waiting::new(),
            session: self.session.save().map_err(Failure::other)?,
        })
    }
}
