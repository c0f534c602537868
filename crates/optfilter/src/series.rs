//! A series of measurements: what a whole-series driver walks over.

use crate::error::FilterError;
use crate::model::Step;

/// Measurements in time order, with their times and control inputs, borrowed from the caller.
///
/// Measurements are rows of `output_dim` numbers, one row after the other. NaN marks a component that
/// is missing; a row of NaN is a missing measurement.
///
/// The initial belief is of the first row's own time, so nothing is predicted before it, unless the series
/// says [`predict_first`](Series::predict_first) or names the time of the belief
/// ([`start_at`](Series::start_at)).
///
/// ```
/// use optfilter::Series;
/// let y = [1.0, f64::NAN, 3.0];
/// let series = Series::new(&y, 1)?.with_times(&[0.5, 1.0, 4.0])?;
/// assert_eq!((series.len(), series.predicts(0)), (3, false));
/// assert_eq!(series.step(2).dt, 3.0);
/// assert_eq!(series.start_at(0.25)?.step(0).dt, 0.25);
/// # Ok::<(), optfilter::filter::FilterError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Series<'a> {
    observations: &'a [f64],
    output_dim: usize,
    dt: f64,
    times: Option<&'a [f64]>,
    start: Start,
    inputs: &'a [f64],
    input_dim: usize,
}

/// The time of the initial belief.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// The first row's own.
    FirstRow,
    /// One step before the first row.
    StepBefore,
    At(f64),
}

impl<'a> Series<'a> {
    /// Measurements of `output_dim` components at unit steps of time, without inputs.
    pub fn new(observations: &'a [f64], output_dim: usize) -> Result<Self, FilterError> {
        if observations.is_empty() || output_dim == 0 {
            return Err(FilterError::Empty { argument: "observations" });
        }
        if !observations.len().is_multiple_of(output_dim) {
            return Err(FilterError::Size {
                argument: "observations",
                expected: observations.len().next_multiple_of(output_dim),
                found: observations.len(),
                index: None,
            });
        }
        // NaN is a missing value; an infinite measurement is neither a value nor a gap.
        if let Some(k) = observations.iter().position(|v| v.is_infinite()) {
            let (index, component) = ((k / output_dim) as u64 + 1, k % output_dim);
            return Err(FilterError::NotFinite {
                argument: "observations",
                component,
                index: Some(index),
            });
        }
        Ok(Self {
            observations,
            output_dim,
            dt: 1.0,
            times: None,
            start: Start::FirstRow,
            inputs: &[],
            input_dim: 0,
        })
    }

    /// With steps of `dt` where there are no times.
    pub fn with_dt(mut self, dt: f64) -> Result<Self, FilterError> {
        if !(dt.is_finite() && dt > 0.0) {
            return Err(FilterError::TimeStep { dt });
        }
        self.dt = dt;
        Ok(self)
    }

    /// With a time for each measurement. Times may repeat (several measurements at once) but not run
    /// backwards.
    pub fn with_times(mut self, times: &'a [f64]) -> Result<Self, FilterError> {
        let expected = self.len();
        if times.len() != expected {
            return Err(FilterError::Size {
                argument: "times",
                expected,
                found: times.len(),
                index: None,
            });
        }
        let mut previous = f64::NEG_INFINITY;
        for (k, &time) in times.iter().enumerate() {
            let index = k as u64 + 1;
            if !time.is_finite() {
                return Err(FilterError::NotFinite {
                    argument: "times",
                    component: 0,
                    index: Some(index),
                });
            }
            if time < previous {
                return Err(FilterError::TimeBackwards { index, previous, time });
            }
            previous = time;
        }
        self.times = Some(times);
        Ok(self)
    }

    /// With a belief of one step before the first row, so that the first row is predicted too.
    #[must_use]
    pub fn predict_first(mut self) -> Self {
        self.start = Start::StepBefore;
        self
    }

    /// With a belief of time `start`, not after the first row.
    pub fn start_at(mut self, start: f64) -> Result<Self, FilterError> {
        if !start.is_finite() {
            return Err(FilterError::NotFinite { argument: "start", component: 0, index: None });
        }
        let first = self.times.map_or(0.0, |times| times[0]);
        if first < start {
            return Err(FilterError::TimeBackwards { index: 1, previous: start, time: first });
        }
        self.start = Start::At(start);
        Ok(self)
    }

    /// With `input_dim` control inputs per step, rows one after the other. Those of a row act on the step that ends at it.
    pub fn with_inputs(mut self, inputs: &'a [f64], input_dim: usize) -> Result<Self, FilterError> {
        let expected = self.len().saturating_mul(input_dim);
        if inputs.len() != expected {
            return Err(FilterError::Size {
                argument: "inputs",
                expected,
                found: inputs.len(),
                index: None,
            });
        }
        if let Some(k) = inputs.iter().position(|v| !v.is_finite()) {
            let (index, component) = ((k / input_dim) as u64 + 1, k % input_dim);
            return Err(FilterError::NotFinite {
                argument: "inputs",
                component,
                index: Some(index),
            });
        }
        (self.inputs, self.input_dim) = (inputs, input_dim);
        Ok(self)
    }

    /// Whether rows come at the same times with the same inputs as those of another series, from a belief of the same time.
    pub fn same_clock(&self, other: &Self) -> bool {
        // One slice for all is the usual case, and known without a look at its numbers.
        let alike = |a: &[f64], b: &[f64]| core::ptr::eq(a, b) || a == b;
        let times = match (self.times, other.times) {
            (Some(a), Some(b)) => alike(a, b),
            (None, None) => true,
            _ => false,
        };
        times
            && self.len() == other.len()
            && (self.dt, self.start, self.input_dim) == (other.dt, other.start, other.input_dim)
            && alike(self.inputs, other.inputs)
    }

    /// The number of measurements.
    #[allow(clippy::len_without_is_empty)] // a series is never empty
    pub fn len(&self) -> usize {
        self.observations.len() / self.output_dim
    }

    /// The number of components of a measurement.
    pub fn output_dim(&self) -> usize {
        self.output_dim
    }

    /// The number of control inputs.
    pub fn input_dim(&self) -> usize {
        self.input_dim
    }

    /// Measurement `k`, from 0.
    #[inline]
    pub fn observation(&self, k: usize) -> &'a [f64] {
        &self.observations[k * self.output_dim..(k + 1) * self.output_dim]
    }

    /// All measurements, row by row.
    #[inline]
    pub fn observations(&self) -> &'a [f64] {
        self.observations
    }

    /// The control inputs at measurement `k`.
    #[inline]
    pub fn input(&self, k: usize) -> &'a [f64] {
        &self.inputs[k * self.input_dim..(k + 1) * self.input_dim]
    }

    /// Whether measurement `k` is preceded by a prediction: not if it is of the belief's own time.
    #[inline(always)]
    pub fn predicts(&self, k: usize) -> bool {
        match (k, self.start, self.times) {
            (0, Start::FirstRow, _) => false,
            (0, Start::At(start), Some(times)) => times[0] > start,
            (0, ..) | (_, _, None) => true,
            (k, _, Some(times)) => times[k] > times[k - 1],
        }
    }

    /// The step that leads to measurement `k`. Without times the first row has time 0, or `dt` where it is
    /// predicted.
    #[inline(always)]
    pub fn step(&self, k: usize) -> Step {
        let index = k as u64 + 1;
        let before = match (k, self.start) {
            (0, Start::At(start)) => Some(start),
            (0, _) => None,
            (k, _) => self.times.map(|times| times[k - 1]),
        };
        let time = match self.times {
            Some(times) => times[k],
            None if self.start == Start::StepBefore => index as f64 * self.dt,
            None => k as f64 * self.dt,
        };
        let dt = before.map_or(self.dt, |before| time - before);
        let first = self.times.map_or(0.0, |times| times[0]);
        let first =
            if self.start == Start::StepBefore && self.times.is_none() { self.dt } else { first };
        Step { since: self.since(k, time, dt), ..Step::to_row(index, time, dt, first) }
    }

    /// The time from the last row before `k` that was measured, or from the first row; `dt` where that is the row before.
    #[inline(always)]
    fn since(&self, k: usize, time: f64, dt: f64) -> f64 {
        // Nobody asks at a row without a measurement, and looking back from each would take its time.
        match k < 2 || self.is_measured(k - 1) || !self.is_measured(k) {
            true => dt,
            false => self.since_last(k, time),
        }
    }

    #[inline(always)]
    fn is_measured(&self, k: usize) -> bool {
        self.observation(k).iter().any(|v| !v.is_nan())
    }

    #[cold]
    fn since_last(&self, k: usize, time: f64) -> f64 {
        let last = (0..k - 1).rev().find(|&k| self.is_measured(k)).unwrap_or(0);
        let early = self.start == Start::StepBefore;
        let then = self.times.map_or((last + usize::from(early)) as f64 * self.dt, |t| t[last]);
        time - then
    }
}
