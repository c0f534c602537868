//! What any filter of the library is to whoever runs it: two small traits, and what they give.
//!
//! A [`DynFilter`] is what does not change (model, noise, settings): any number of threads may run series
//! through it. An [`OnlineFilter`] adds a belief that moves step by step, and can be saved. `engine` has both for
//! every filter.

use crate::error::SpecError;
use crate::flags::RowFlagger;
use crate::state_space::{DynBelief, StateSpace};
use optfilter::Series;
use optfilter::batch::Estimates;
use optfilter::checkpoint::CheckpointError;
use optfilter::drive::Trace;
use optfilter::filter::{FilterError, Followed};
use optfilter::model::Step;
use optfilter::scalar::Scalar;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a trajectory starts.
#[derive(Clone, Debug, PartialEq)]
pub struct InitialState {
    /// The mean.
    pub mean: Vec<f64>,
    /// The covariance; a point estimate reads none, and may have no room for one.
    pub cov: crate::Covariance,
    /// Which states are wholly unknown, whatever the covariance says of them; empty where none is.
    pub diffuse: Vec<bool>,
    /// The number of the trajectory, which names its random stream.
    pub run: u64,
}

/// What is known after a row. Vectors are as long as the model asks; covariances are empty where the filter has
/// none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Estimated state, angles between minus and plus half a turn.
    pub mean: Vec<f64>,
    /// Its covariance, n x n; NaN once it was given up.
    pub cov: Vec<f64>,
    /// Measurement less prediction; NaN where the measurement is missing, or where anything was as likely as anything else.
    pub innovation: Vec<f64>,
    /// Its covariance, m x m; NaN where the measurement is missing.
    pub innovation_cov: Vec<f64>,
    /// Log-likelihood of the row given those before it; NaN where the filter has none.
    pub log_likelihood: f64,
    /// Normalised innovation squared; NaN where the filter has none, and for counts and binary measurements, whose
    /// squares are not chi-square.
    pub nis: f64,
    /// How many components were measured.
    pub observed: usize,
    /// The belief, while some state is still wholly unknown.
    pub diffuse: Option<Box<DynBelief>>,
    /// Whether a gate has lost the track, or found it again.
    pub followed: Followed,
    /// How many particles count; infinite for filters without any.
    pub effective: f64,
}

impl Estimate {
    /// The standard deviation of state `i`; NaN where the filter has none, infinite where the state is still wholly unknown.
    pub fn std(&self, i: usize) -> f64 {
        deviation(&self.cov, self.mean.len(), i)
    }

    /// The standard deviation of innovation `i`; NaN where the filter has none.
    pub fn innovation_std(&self, i: usize) -> f64 {
        deviation(&self.innovation_cov, self.innovation.len(), i)
    }
}

fn deviation(cov: &[f64], n: usize, i: usize) -> f64 {
    // A variance of minus rounding error is zero; any other negative one is none.
    match cov.get(i * (n + 1)) {
        Some(&v) if v < 0.0 => {
            let largest = cov.iter().step_by(n + 1).fold(0.0f64, |a, b| a.max(b.abs()));
            if -v <= 1e-12 * largest { 0.0 } else { f64::NAN }
        }
        Some(v) => v.sqrt(),
        None => f64::NAN,
    }
}

/// Where the results of one trajectory go, rows in time order. Slices are empty for what is not asked for.
#[derive(Debug, Default)]
pub struct OutputBuffers<'a> {
    /// T x n
    pub means: &'a mut [f64],
    /// T x n x n
    pub covs: &'a mut [f64],
    /// T x m
    pub innovations: &'a mut [f64],
    /// T x m x m
    pub innovation_covs: &'a mut [f64],
    /// T
    pub log_likelihoods: &'a mut [f64],
    /// T
    pub nis: &'a mut [f64],
    /// T, each a [`Flag`](crate::Flag) by number
    pub flags: &'a mut [f64],
    /// T x n: what the rows after it have made of each estimate, as far as a window reaches.
    pub lagged: &'a mut [f64],
    /// The beliefs of the first rows, as long as some state is still wholly unknown.
    pub diffuse: Option<&'a mut Vec<DynBelief>>,
    /// Where a filter started anew.
    pub anew: Option<&'a mut Vec<Restart>>,
}

/// A new beginning in the middle of a series: the belief that took the place of the filter's own, from the row where it began to
/// the one before it was taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restart {
    /// The row of its first estimate, from 0.
    pub row: usize,
    /// n numbers a row.
    pub means: Vec<f64>,
    /// n x n numbers a row.
    pub covs: Vec<f64>,
}

impl OutputBuffers<'_> {
    /// NaN from time `from` of `len` on: what a filter that failed there did not compute.
    pub(crate) fn lose(&mut self, from: usize, len: usize) {
        let all = [
            &mut self.means,
            &mut self.covs,
            &mut self.innovations,
            &mut self.innovation_covs,
            &mut self.log_likelihoods,
            &mut self.nis,
            &mut self.flags,
            &mut self.lagged,
        ];
        for rows in all {
            let width = rows.len() / len.max(1);
            rows[from * width..].fill(f64::NAN);
        }
    }
}

/// Writes row `k` of results that may not be asked for.
#[inline(always)]
pub(crate) fn put(rows: &mut [f64], k: usize, values: Option<&[f64]>, width: usize) {
    if !rows.is_empty() {
        match values {
            Some(values) => rows[k * width..][..width].copy_from_slice(values),
            None => rows[k * width..][..width].fill(f64::NAN),
        }
    }
}

/// A number that may not be there, as a row of one.
pub(crate) fn number(value: &Option<f64>) -> Option<&[f64]> {
    value.as_ref().map(std::slice::from_ref)
}

/// How a long run is watched: asked every `stride` rows whether it should end.
pub struct CancelCheck<'a> {
    /// Rows between two looks.
    pub stride: usize,
    /// Whether to end.
    pub stop: &'a dyn Fn() -> bool,
}

impl CancelCheck<'_> {
    /// Never ends a run.
    pub const NEVER: CancelCheck<'static> = CancelCheck { stride: usize::MAX, stop: &|| false };

    /// An error after row `k`, from 0, if the run should end there.
    pub fn check(&self, k: usize) -> Result<(), FilterError> {
        match (k + 1).is_multiple_of(self.stride) && (self.stop)() {
            true => Err(stopped()),
            false => Ok(()),
        }
    }
}

/// A filter without a belief. Most of what it says is of [`Common`], by the methods below.
pub trait DynFilter: Send + Sync {
    /// What it says without knowing the type of its filter.
    fn common(&self) -> &Common;
    /// A belief on its way, at a start.
    fn start(&self, start: &InitialState) -> Result<Box<dyn OnlineFilter>, FilterError>;
    /// A belief on its way, from saved bytes.
    fn load(&self, bytes: &[u8]) -> Result<Box<dyn OnlineFilter>, CheckpointError>;
    /// Runs a series into `rows`. After a failure the rows hold what went before it, and NaN. An empty error
    /// from `watch` is [`FilterError::Empty`] of "watch".
    fn run(
        &self,
        start: &InitialState,
        series: &Series<'_>,
        rows: &mut OutputBuffers<'_>,
        watch: &CancelCheck<'_>,
    ) -> Result<(), FilterError>;
}

/// What makes the filter that goes beside another.
type Companion = dyn Fn() -> Result<Arc<dyn DynFilter>, SpecError> + Send + Sync;

/// The measurement that is expected of a state: state, inputs and step in, measurement out.
pub(crate) type Expected = dyn Fn(&[f64], &[f64], &Step, &mut [f64]) + Send + Sync;

/// What an engine needs besides its filter, whatever type that has.
pub struct Common {
    /// States, measurements and inputs.
    pub(crate) dims: (usize, usize, usize),
    pub(crate) has_cov: bool,
    pub(crate) lag: Option<usize>,
    pub(crate) start: InitialState,
    /// Under which beliefs are saved: the filter and its sizes.
    pub(crate) kind: String,
    /// Whether the filter takes more steps after a gap.
    pub(crate) widens: bool,
    /// Whether irregular times are an error.
    pub(crate) even: bool,
    /// Whether a gate decides what the filter takes, so that it may lose the track.
    pub(crate) is_gated: bool,
    /// The length of a whole turn of each state that is an angle.
    pub(crate) state_angles: Vec<Option<f64>>,
    /// Which measurements count, or tell zeros from ones.
    pub(crate) discrete: Vec<bool>,
    pub(crate) expected: Box<Expected>,
    pub(crate) state_space: Box<dyn Fn() -> Box<dyn StateSpace> + Send + Sync>,
    pub(crate) companion: Box<Companion>,
    pub(crate) flagger: RowFlagger,
    pub(crate) warning: Option<String>,
    pub(crate) form: Option<String>,
    pub(crate) lanes: Option<Box<dyn BatchFilter>>,
    pub(crate) together: Option<Box<dyn GaussianBatch>>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Common {
    /// Brings angles into half a turn.
    #[inline(always)]
    pub(crate) fn wrap(&self, mean: &mut [f64]) {
        for (v, angle) in mean.iter_mut().zip(&self.state_angles) {
            if let Some(turn) = angle {
                *v = v.wrap(*turn);
            }
        }
    }

    /// Whether when rows came belongs to what a belief must remember.
    pub(crate) fn keeps_time(&self) -> bool {
        self.widens || self.even
    }

    /// An error where a raised flag has made a result worthless.
    #[inline(always)]
    pub(crate) fn check_stop(&self) -> Result<(), FilterError> {
        if self.stop.load(Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
    }
}

/// A run that was told to end.
#[cold]
pub(crate) fn stopped() -> FilterError {
    FilterError::Empty { argument: "watch" }
}

/// Anything that filters many series at once where they have enough in common.
pub(crate) trait GaussianBatch: Send + Sync {
    /// Runs what can run together into `rows`; says of every series whether it did. The others are to be run alone.
    fn run(
        &self,
        starts: &[InitialState],
        series: &[Series<'_>],
        rows: &mut [OutputBuffers<'_>],
        stop: &dyn Fn() -> bool,
    ) -> Vec<bool>;
}

impl dyn DynFilter + '_ {
    /// States, measurements and inputs.
    pub fn dims(&self) -> (usize, usize, usize) {
        self.common().dims
    }

    /// Whether covariances, log-likelihoods and NIS come with the means.
    pub fn has_cov(&self) -> bool {
        self.common().has_cov
    }

    /// How many rows late [`OutputBuffers::lagged`] comes, for a filter with a window.
    pub fn lag(&self) -> Option<usize> {
        self.common().lag
    }

    /// Where the problem starts.
    pub fn default_start(&self) -> &InitialState {
        &self.common().start
    }

    /// Runs many series at once, where the filter can and they have enough in common, each to the bits of
    /// [`run`](DynFilter::run). Says of every series whether its rows are written; the others are to be run alone.
    pub fn run_together(
        &self,
        starts: &[InitialState],
        series: &[Series<'_>],
        rows: &mut [OutputBuffers<'_>],
        watch: &CancelCheck<'_>,
    ) -> Vec<bool> {
        let fits = starts.len() == series.len() && rows.len() == series.len();
        match &self.common().together {
            Some(together) if fits => together.run(starts, series, rows, watch.stop),
            _ => vec![false; series.len()],
        }
    }

    /// The problem, as smoothers and forecasts see it.
    pub fn state_space(&self) -> Box<dyn StateSpace> {
        (self.common().state_space)()
    }

    /// The filter of the same problem that is run where imap smooths it: for what the rows up to each say.
    pub fn companion(&self) -> Result<Arc<dyn DynFilter>, SpecError> {
        (self.common().companion)()
    }

    /// What kind of its method it is, where the problem makes it another than the textbook's: "robust: student-t".
    pub fn form(&self) -> Option<&str> {
        self.common().form.as_deref()
    }

    /// What is to be known before it is run: standard deviations that take very long, or are left out for that.
    pub fn warning(&self) -> Option<&str> {
        self.common().warning.as_deref()
    }

    /// What the flags of a series are judged by, before its first row.
    pub fn flagger(&self) -> RowFlagger {
        self.common().flagger.clone()
    }

    /// A flag that ends any descent at once; the result is then worthless.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.common().stop.clone()
    }

    /// Many series side by side, where the filter can.
    pub fn lanes(&self) -> Option<&dyn BatchFilter> {
        self.common().lanes.as_deref()
    }

    /// Filters a series from the start of the problem.
    pub fn filter(&self, series: &Series<'_>) -> Result<Trace, FilterError> {
        let (n, m, _) = self.dims();
        let rows = series.len();
        let wanted = if self.has_cov() { rows } else { 0 };
        let mut out = Trace {
            state_dim: n,
            output_dim: m,
            means: vec![0.0; rows * n],
            covs: vec![0.0; wanted * n * n],
            innovations: vec![0.0; rows * m],
            innovation_covs: vec![0.0; wanted * m * m],
            log_likelihoods: vec![0.0; wanted],
            nis: vec![0.0; wanted],
            observed: (0..rows)
                .map(|k| series.observation(k).iter().filter(|v| !v.is_nan()).count())
                .collect(),
        };
        let mut into = OutputBuffers {
            means: &mut out.means,
            covs: &mut out.covs,
            innovations: &mut out.innovations,
            innovation_covs: &mut out.innovation_covs,
            log_likelihoods: &mut out.log_likelihoods,
            nis: &mut out.nis,
            ..OutputBuffers::default()
        };
        self.run(self.default_start(), series, &mut into, &CancelCheck::NEVER)?;
        Ok(out)
    }
}

/// Anything that filters many trajectories of one filter as lanes.
pub trait BatchFilter: Send + Sync {
    /// The estimates of every series, angles as they are.
    fn run(&self, starts: &[InitialState], series: &[Series<'_>])
    -> Result<Estimates, FilterError>;
    /// The innovations (T x m) that belong to estimates from lanes.
    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64>;
}

/// A filter with a belief.
pub trait OnlineFilter: Send + Sync {
    /// Carries the belief through a step.
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError>;
    /// Improves the belief by a measurement, and says what was learnt.
    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut Estimate,
    ) -> Result<(), FilterError>;
    /// Takes a row: predicts unless the belief is of the row's own time, then updates.
    fn step(
        &mut self,
        predict: bool,
        step: &Step,
        u: &[f64],
        y: &[f64],
        out: &mut Estimate,
    ) -> Result<(), FilterError>;
    /// Writes the measurement that is expected of a state.
    fn expected(&self, x: &[f64], u: &[f64], step: &Step, out: &mut [f64]);
    /// The estimate as it stands: mean and covariance only.
    fn estimate(&self, out: &mut Estimate);
    /// The belief as bytes.
    fn save(&self) -> Result<Vec<u8>, CheckpointError>;
    /// Goes on from saved bytes.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError>;
    /// The states of the rows in a window, oldest first (n numbers each); empty without one.
    fn path(&self) -> Vec<f64>;
    /// Particles or members (count x n, row by row) and weights.
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)>;
}
