//! Rows from a stream: a filter, its clock, and all that must be kept between two rows.

use crate::error::RunError;
use crate::flags::{Flag, Judged, MeasurementRange, RowFlagger};
use crate::runner::{DynFilter, Estimate, OnlineFilter};
use crate::settings::FilterSpec;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::filter::FilterError;
use optfilter::model::Step;
use serde::{Deserialize, Serialize};

/// The time line: even steps, or the times that rows bring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    dt: f64,
    predict_first: bool,
    rows: u64,
    /// Calendar times are counted from the first row, so that no precision is lost.
    origin: f64,
    last: f64,
}

impl Clock {
    /// At the beginning, with the interval of rows without a time.
    pub fn new(dt: f64, predict_first: bool) -> Self {
        Self { dt, predict_first, rows: 0, origin: 0.0, last: f64::NAN }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The step to the next row, and whether it is predicted. An error says which times run backwards, or
    /// are no times at all.
    ///
    /// The first row is not predicted unless the clock was told to; without times it stands at 0, or at one
    /// step where it is predicted.
    #[inline]
    pub fn next(&mut self, time: Option<f64>, calendar: bool) -> Result<(bool, Step), (f64, f64)> {
        let first = self.rows == 0;
        if first && calendar {
            self.origin = time.unwrap_or(0.0);
        }
        let (time, dt) = match time {
            Some(time) => {
                let time = time - self.origin;
                (time, if first { self.dt } else { time - self.last })
            }
            None => {
                let steps = self.rows.saturating_add(u64::from(self.predict_first));
                (steps as f64 * self.dt, self.dt)
            }
        };
        if !(dt >= 0.0 && dt.is_finite() && time.is_finite()) {
            return Err((self.last + self.origin, time + self.origin));
        }
        self.rows = self.rows.saturating_add(1);
        self.last = time;
        Ok((!first || self.predict_first, Step { time, ..Step::even(self.rows, dt) }))
    }
}

/// Why a row could not be taken.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionError {
    /// Times run backwards, from the first to the second.
    Backwards(f64, f64),
    /// The filter failed; the belief is as it was.
    Filter(FilterError),
}

/// A filter on a stream of rows.
pub struct Session {
    live: Box<dyn OnlineFilter>,
    clock: Clock,
    flagger: RowFlagger,
    expected: Vec<f64>,
    /// What is known after the last row.
    pub estimate: Estimate,
    /// What is to be said of the last row.
    pub flag: Flag,
}

impl Session {
    /// At the start of the problem that `runner` was built for.
    pub fn new(runner: &dyn DynFilter, spec: &FilterSpec, dt: f64) -> Result<Self, FilterError> {
        Ok(Self {
            live: runner.start(runner.default_start())?,
            clock: Clock::new(dt, spec.predict_first()),
            flagger: runner.flagger(),
            expected: vec![0.0; runner.dims().1],
            estimate: Estimate::default(),
            flag: Flag::Ok,
        })
    }

    /// Takes a row and returns its step; [`estimate`](Self::estimate) and [`flag`](Self::flag) have the result. After an
    /// error clock and belief are as they were before the row.
    #[inline]
    pub fn take(
        &mut self,
        time: Option<f64>,
        calendar: bool,
        u: &[f64],
        y: &[f64],
    ) -> Result<Step, SessionError> {
        let mut clock = self.clock.clone();
        let (predict, step) = clock
            .next(time, calendar)
            .map_err(|(before, after)| SessionError::Backwards(before, after))?;
        self.live.step(predict, &step, u, y, &mut self.estimate).map_err(SessionError::Filter)?;
        // Only now: a row that fails has not been.
        self.clock = clock;
        self.live.expected(&self.estimate.mean, u, &step, &mut self.expected);
        let Estimate { mean, innovation, innovation_cov, nis, followed, .. } = &self.estimate;
        let judged = Judged { v: innovation, s: innovation_cov, nis: *nis, followed: *followed };
        self.flag = self.flagger.flag(y, mean, &judged, &self.expected);
        Ok(step)
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.clock.rows()
    }

    /// The step that leads to a next row of that time, which is not taken.
    pub fn next_step(&self, time: Option<f64>, calendar: bool) -> Option<Step> {
        self.clock.clone().next(time, calendar).ok().map(|(_, step)| step)
    }

    /// The interval of rows without a time.
    pub fn dt(&self) -> f64 {
        self.clock.dt
    }

    /// Does something with the belief and then puts it back where it was, whatever came of it.
    pub(crate) fn aside<T>(
        &mut self,
        what: impl FnOnce(&mut dyn OnlineFilter) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let lost = |_| FilterError::Empty { argument: "saved belief" };
        let saved = self.live.save().map_err(lost)?;
        let done = what(&mut *self.live);
        self.live.restore(&saved).map_err(lost)?;
        done
    }

    /// The states of the rows in a window, oldest first; empty without one.
    pub fn path(&self) -> Vec<f64> {
        self.live.path()
    }

    /// Clock, belief and the range of the measurements as bytes.
    pub fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("session", &(&self.clock, self.live.save()?, &self.flagger.seen))
    }

    /// Goes on from saved bytes.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let (clock, belief, seen): (Clock, Vec<u8>, MeasurementRange) =
            checkpoint::load("session", bytes)?;
        self.live.restore(&belief)?;
        self.clock = clock;
        self.flagger.seen = seen;
        Ok(())
    }

    /// Bytes that the belief takes when saved: what a filter must remember from row to row.
    pub fn memory(&self) -> usize {
        self.live.save().map_or(0, |b| b.len())
    }
}
