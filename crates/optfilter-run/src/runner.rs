//! Any filter of the library behind two small traits.
//!
//! A [`Runner`] is what does not change (model, noise, settings): any number of threads may run series
//! through it. A [`Live`] filter adds a belief that moves step by step, and can be saved.

use crate::flags::Gauge;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use optfilter::batch::Estimates;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::drive::{advance, drive};
use optfilter::filter::{
    Belief, EnsembleBelief, Filter, FilterError, GaussianBelief, ParticleBelief, PointBelief,
    Update, WindowBarsBelief, WindowBelief,
};
use optfilter::model::Step;
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter::{Series, Shapes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a trajectory starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The mean.
    pub mean: Vec<f64>,
    /// The covariance; a point estimate reads none, and may have no room for one.
    pub cov: crate::Covariance,
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
    /// Measurement less prediction; NaN where the measurement is missing.
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
}

impl Estimate {
    /// The standard deviation of state `i`; NaN where the filter has none.
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
pub struct Results<'a> {
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
}

impl Results<'_> {
    /// NaN from time `from` of `len` on: what a filter that failed there did not compute.
    fn lose(&mut self, from: usize, len: usize) {
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
fn put(rows: &mut [f64], k: usize, values: Option<&[f64]>, width: usize) {
    if !rows.is_empty() {
        match values {
            Some(values) => rows[k * width..][..width].copy_from_slice(values),
            None => rows[k * width..][..width].fill(f64::NAN),
        }
    }
}

/// A number that may not be there, as a row of one.
fn number(value: &Option<f64>) -> Option<&[f64]> {
    value.as_ref().map(std::slice::from_ref)
}

/// How a long run is watched: asked every `stride` rows whether it should end.
pub struct Watch<'a> {
    /// Rows between two looks.
    pub stride: usize,
    /// Whether to end.
    pub stop: &'a dyn Fn() -> bool,
}

impl Watch<'_> {
    /// Never ends a run.
    pub const NEVER: Watch<'static> = Watch { stride: usize::MAX, stop: &|| false };
}

/// Results of a whole series that own their memory.
pub type Owned = optfilter::drive::Trace;

/// A filter without a belief.
pub trait Runner: Send + Sync {
    /// States, measurements and inputs.
    fn dims(&self) -> (usize, usize, usize);
    /// Whether covariances, log-likelihoods and NIS come with the means.
    fn has_cov(&self) -> bool;
    /// How many rows late [`Results::lagged`] comes, for a filter with a window.
    fn lag(&self) -> Option<usize>;
    /// Where the problem starts.
    fn default_start(&self) -> &Start;
    /// A belief on its way, at a start.
    fn start(&self, start: &Start) -> Result<Box<dyn Live>, FilterError>;
    /// A belief on its way, from saved bytes.
    fn load(&self, bytes: &[u8]) -> Result<Box<dyn Live>, CheckpointError>;
    /// Runs a series into `rows`. After a failure the rows hold what went before it, and NaN. An empty error
    /// from `watch` is [`FilterError::Empty`] of "watch".
    fn run(
        &self,
        start: &Start,
        series: &Series<'_>,
        rows: &mut Results<'_>,
        watch: &Watch<'_>,
    ) -> Result<(), FilterError>;
    /// What whoever runs it should know before: standard deviations that take very long, or are left out for that.
    fn word(&self) -> Option<&str>;
    /// What the flags of a series are judged by, before its first row.
    fn gauge(&self) -> Gauge;
    /// A flag that ends any descent at once; whoever raises it throws the result away.
    fn stop_flag(&self) -> Arc<AtomicBool>;
    /// Many series side by side, where the filter can.
    fn lanes(&self) -> Option<&dyn LaneRunner>;

    /// Filters a series from the start of the problem.
    fn filter(&self, series: &Series<'_>) -> Result<Owned, FilterError> {
        let (n, m, _) = self.dims();
        let rows = series.len();
        let wanted = if self.has_cov() { rows } else { 0 };
        let mut out = Owned {
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
        let mut into = Results {
            means: &mut out.means,
            covs: &mut out.covs,
            innovations: &mut out.innovations,
            innovation_covs: &mut out.innovation_covs,
            log_likelihoods: &mut out.log_likelihoods,
            nis: &mut out.nis,
            flags: &mut [],
            lagged: &mut [],
        };
        self.run(self.default_start(), series, &mut into, &Watch::NEVER)?;
        Ok(out)
    }
}

/// Anything that filters many trajectories of one filter as lanes.
pub trait LaneRunner: Send + Sync {
    /// The estimates of every series, angles as they are.
    fn run(&self, starts: &[Start], series: &[Series<'_>]) -> Result<Estimates, FilterError>;
    /// The innovations (T x m) that belong to estimates from lanes.
    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64>;
}

/// A filter with a belief.
pub trait Live: Send + Sync {
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

/// A belief that can be started and saved.
pub(crate) trait Begin<N: Dim>:
    Belief<N> + Serialize + DeserializeOwned + Send + Sync + 'static
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// What a start needs besides mean and covariance.
    type Settings: Clone + Send + Sync + 'static;
    fn begin(settings: &Self::Settings, n: N, start: &Start) -> Result<Self, FilterError>;
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }
}

fn mean_of<N: Dim>(n: N, start: &Start) -> Result<OVector<f64, N>, FilterError>
where
    DefaultAllocator: Allocator<N>,
{
    if start.mean.len() != n.value() {
        let (argument, expected, found) = ("initial mean", n.value(), start.mean.len());
        return Err(FilterError::Size { argument, expected, found, index: None });
    }
    Ok(OVector::from_column_slice_generic(n, U1, &start.mean))
}

impl<N: Dim> Begin<N> for GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &Start) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?, start.cov.dense(n))
    }
}

impl<N: Dim, T> Begin<N> for PointBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &Start) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?)
    }
}

impl<N: Dim, T> Begin<N> for WindowBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &Start) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?)
    }
}

impl<N: Dim, T> Begin<N> for WindowBarsBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &Start) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?, start.cov.dense(n))
    }
}

impl<N: Dim> Begin<N> for ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync,
{
    /// The number of particles and the seed.
    type Settings = (usize, u64);
    fn begin(&(count, seed): &(usize, u64), n: N, start: &Start) -> Result<Self, FilterError> {
        let belief = GaussianBelief::new(mean_of(n, start)?, start.cov.dense(n))?;
        Self::new(&belief, count, Stream::new(seed, start.run, "particles"))
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let n = self.mean().nrows();
        let values = (0..self.count()).flat_map(|i| (0..n).map(move |j| self.value(i, j)));
        Some((values.collect(), self.weights().to_vec()))
    }
}

impl<N: Dim> Begin<N> for EnsembleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync,
{
    /// The number of members and the seed.
    type Settings = (usize, u64);
    fn begin(&(count, seed): &(usize, u64), n: N, start: &Start) -> Result<Self, FilterError> {
        let (mean, stream) = (mean_of(n, start)?, Stream::new(seed, start.run, "ensemble"));
        if let crate::Covariance::Dense(_) = start.cov {
            return Self::new(&GaussianBelief::new(mean, start.cov.dense(n))?, count, stream);
        }
        let variances: Vec<f64> = (0..n.value()).map(|i| start.cov.variance(i)).collect();
        Self::independent(&mean, &variances, count, stream)
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let (n, count) = (self.mean().nrows(), self.count());
        let values = (0..count).flat_map(|i| (0..n).map(move |j| self.value(i, j)));
        Some((values.collect(), vec![1.0 / count as f64; count]))
    }
}

/// The measurement that is expected of a state: state, inputs and step in, measurement out.
pub(crate) type Expected = dyn Fn(&[f64], &[f64], &Step, &mut [f64]) + Send + Sync;

/// A filter of the library with what its beliefs need.
pub(crate) struct Engine<F: Filter>
where
    F::Belief: Begin<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    pub(crate) filter: F,
    pub(crate) settings: <F::Belief as Begin<F::State>>::Settings,
    pub(crate) start: Start,
    /// Under which beliefs are saved: the filter and its sizes.
    pub(crate) kind: String,
    /// Whether the filter takes more steps after a gap.
    pub(crate) widens: bool,
    /// Whether irregular times are an error.
    pub(crate) even: bool,
    pub(crate) state_angles: Vec<bool>,
    /// Which measurements count, or tell zeros from ones.
    pub(crate) discrete: Vec<bool>,
    pub(crate) expected: Box<Expected>,
    pub(crate) gauge: Gauge,
    pub(crate) word: Option<String>,
    pub(crate) lanes: Option<Box<dyn LaneRunner>>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl<F: Filter> Engine<F>
where
    F::Belief: Begin<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// Brings angles into half a turn.
    #[inline(always)]
    fn wrap(&self, mean: &mut [f64]) {
        for (v, angle) in mean.iter_mut().zip(&self.state_angles) {
            if *angle {
                *v = v.wrap_angle();
            }
        }
    }

    fn path(&self, belief: &F::Belief) -> Vec<f64> {
        let mut path = self.filter.path(belief);
        path.chunks_mut(self.state_angles.len()).for_each(|state| self.wrap(state));
        path
    }

    #[inline(always)]
    fn write_belief(&self, belief: &F::Belief, out: &mut Estimate) {
        out.mean.clear();
        out.mean.extend_from_slice(belief.mean().as_slice());
        self.wrap(&mut out.mean);
        out.cov.clear();
        if let Some(cov) = belief.cov() {
            out.cov.extend_from_slice(cov.as_slice());
        }
    }

    /// The normalised innovation squared, of measurements for which it is chi-square.
    #[inline(always)]
    fn nis(&self, update: &Update<F::Output>) -> Option<f64> {
        let seen = |(i, discrete): (usize, &bool)| *discrete && !update.innovation[i].is_nan();
        update.nis.filter(|_| !self.discrete.iter().enumerate().any(seen))
    }

    #[inline(always)]
    fn write_update(&self, update: &Update<F::Output>, out: &mut Estimate) {
        out.innovation.clear();
        out.innovation.extend_from_slice(update.innovation.as_slice());
        out.innovation_cov.clear();
        if let Some(s) = &update.innovation_cov {
            out.innovation_cov.extend_from_slice(s.as_slice());
        }
        out.log_likelihood = update.log_likelihood.unwrap_or(f64::NAN);
        out.nis = self.nis(update).unwrap_or(f64::NAN);
        out.observed = update.observed;
    }

    /// Whether when rows came belongs to what a belief must remember.
    fn keeps_time(&self) -> bool {
        self.widens || self.even
    }

    /// An error where a raised flag has made a result worthless.
    #[inline(always)]
    fn check_stop(&self) -> Result<(), FilterError> {
        if self.stop.load(Ordering::Relaxed) { Err(stopped()) } else { Ok(()) }
    }
}

/// A run that was told to end.
#[cold]
pub(crate) fn stopped() -> FilterError {
    FilterError::Empty { argument: "watch" }
}

/// An engine that many threads share.
pub(crate) struct Shared<F: Filter>(pub(crate) Arc<Engine<F>>)
where
    F::Belief: Begin<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>;

impl<F> Runner for Shared<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: Begin<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn dims(&self) -> (usize, usize, usize) {
        let (n, m, inputs) = self.0.filter.dims();
        (n.value(), m.value(), inputs)
    }

    fn has_cov(&self) -> bool {
        F::Belief::has_cov(self.0.filter.dims().0.value())
    }

    fn lag(&self) -> Option<usize> {
        self.0.filter.lag()
    }

    fn default_start(&self) -> &Start {
        &self.0.start
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Live>, FilterError> {
        let belief = F::Belief::begin(&self.0.settings, self.0.filter.dims().0, start)?;
        Ok(Box::new(Moving { engine: self.0.clone(), belief, rhythm: Rhythm::default() }))
    }

    fn load(&self, bytes: &[u8]) -> Result<Box<dyn Live>, CheckpointError> {
        let mut live = Moving {
            engine: self.0.clone(),
            belief: F::Belief::begin(&self.0.settings, self.0.filter.dims().0, &self.0.start)
                .map_err(|e| CheckpointError::Body { message: e.to_string() })?,
            rhythm: Rhythm::default(),
        };
        live.restore(bytes)?;
        Ok(Box::new(live))
    }

    fn run(
        &self,
        start: &Start,
        series: &Series<'_>,
        rows: &mut Results<'_>,
        watch: &Watch<'_>,
    ) -> Result<(), FilterError> {
        let engine = &*self.0;
        let mut rhythm = Rhythm::default();
        let (n, m, _) = engine.filter.dims();
        let (size, outputs) = (n.value(), m.value());
        let mut belief = F::Belief::begin(&engine.settings, n, start)?;
        let (mut done, mut left) = (0, watch.stride);
        let (mut gauge, mut expected) = (engine.gauge.clone(), vec![0.0; outputs]);
        let result = drive(&engine.filter, &mut belief, series, &mut |k, step, belief, update| {
            engine.check_stop()?;
            let mean = &mut rows.means[k * size..][..size];
            mean.copy_from_slice(belief.mean().as_slice());
            engine.wrap(mean);
            if !rows.covs.is_empty() {
                let cov = belief.cov();
                put(rows.covs, k, cov.as_ref().map(|c| c.as_slice()), size * size);
            }
            put(rows.innovations, k, Some(update.innovation.as_slice()), outputs);
            let s = update.innovation_cov.as_ref().map(|s| s.as_slice());
            put(rows.innovation_covs, k, s, outputs * outputs);
            put(rows.log_likelihoods, k, number(&update.log_likelihood), 1);
            let nis = engine.nis(&update);
            put(rows.nis, k, number(&nis), 1);
            if let Some(flag) = rows.flags.get_mut(k) {
                (engine.expected)(mean, series.input(k), step, &mut expected);
                let nis = nis.unwrap_or(f64::NAN);
                *flag = f64::from(gauge.flag(series.observation(k), mean, nis, &expected) as u8);
            }
            if let Some(lag) = engine.filter.lag()
                && !rows.lagged.is_empty()
                && k >= lag
            {
                rows.lagged[(k - lag) * size..][..size]
                    .copy_from_slice(&engine.path(belief)[..size]);
            }
            done = k + 1;
            if engine.even && done < series.len() {
                rhythm.check(&series.step(done))?;
            }
            left -= 1;
            if left == 0 {
                left = watch.stride;
                if (watch.stop)() {
                    return Err(stopped());
                }
            }
            Ok(())
        });
        match result {
            Err(_) => rows.lose(done, series.len()),
            Ok(()) if !rows.lagged.is_empty() => {
                let path = engine.path(&belief);
                let from = rows.lagged.len() - path.len();
                rows.lagged[from..].copy_from_slice(&path);
            }
            Ok(()) => {}
        }
        result
    }

    fn word(&self) -> Option<&str> {
        self.0.word.as_deref()
    }

    fn gauge(&self) -> Gauge {
        self.0.gauge.clone()
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        self.0.stop.clone()
    }

    fn lanes(&self) -> Option<&dyn LaneRunner> {
        self.0.lanes.as_deref()
    }
}

/// Steps that differ by more than this share of the first are irregular; the months of a calendar are not.
const UNEVEN: f64 = 0.25;

/// When rows come, and when the last one was measured.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rhythm {
    /// The first step between two rows of different times.
    usual: f64,
    /// The time of the first row; NaN before it.
    first: f64,
    /// That of the last measured row, or of the first.
    seen_at: f64,
    /// Whether a row without a measurement came since.
    missed: bool,
    /// Whether a prediction still waits for its measurement.
    waiting: bool,
}

impl Default for Rhythm {
    fn default() -> Self {
        let nan = f64::NAN;
        Self { usual: nan, first: nan, seen_at: nan, missed: false, waiting: false }
    }
}

impl Rhythm {
    /// An error where a step is unlike the first.
    pub(crate) fn check(&mut self, step: &Step) -> Result<(), FilterError> {
        // The first row has no step of its own; rows of one time have none between them.
        if step.index < 2 || step.dt == 0.0 {
            return Ok(());
        }
        if self.usual.is_nan() {
            self.usual = step.dt;
        }
        if (step.dt - self.usual).abs() <= UNEVEN * self.usual {
            return Ok(());
        }
        Err(FilterError::Uneven { index: step.index, dt: step.dt, usual: self.usual })
    }

    /// After a prediction: if the one before it waits still, a row went by without a measurement.
    fn predicted(&mut self) {
        self.missed |= self.waiting;
        self.waiting = true;
    }

    /// The step to a row, with what the rows before say of it.
    fn since(&self, step: &Step) -> Step {
        if self.first.is_nan() {
            return *step;
        }
        let known = Step::to_row(step.index, step.time, step.dt, self.first);
        Step { since: if self.missed { step.time - self.seen_at } else { step.dt }, ..known }
    }

    /// After a row.
    fn taken(&mut self, step: &Step, measured: bool) {
        if self.first.is_nan() {
            (self.first, self.seen_at) = (step.time, step.time);
        }
        if measured {
            self.seen_at = step.time;
        }
        (self.missed, self.waiting) = (!measured, false);
    }
}

/// A belief on its way.
struct Moving<F: Filter>
where
    F::Belief: Begin<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    engine: Arc<Engine<F>>,
    belief: F::Belief,
    rhythm: Rhythm,
}

impl<F> Live for Moving<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: Begin<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError> {
        let mut rhythm = self.rhythm;
        if self.engine.even {
            rhythm.check(step)?;
        }
        rhythm.predicted();
        self.engine.filter.predict(&mut self.belief, u, step)?;
        self.rhythm = rhythm;
        Ok(())
    }

    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut Estimate,
    ) -> Result<(), FilterError> {
        self.step(false, step, u, y, out)
    }

    #[inline]
    fn step(
        &mut self,
        predict: bool,
        step: &Step,
        u: &[f64],
        y: &[f64],
        out: &mut Estimate,
    ) -> Result<(), FilterError> {
        let mut rhythm = self.rhythm;
        if self.engine.even && predict {
            rhythm.check(step)?;
        }
        let step = &rhythm.since(step);
        let update = advance(&self.engine.filter, &mut self.belief, predict, (y, u), step)?;
        rhythm.taken(step, update.observed > 0);
        self.rhythm = rhythm;
        self.engine.check_stop()?;
        self.engine.write_belief(&self.belief, out);
        self.engine.write_update(&update, out);
        Ok(())
    }

    fn expected(&self, x: &[f64], u: &[f64], step: &Step, out: &mut [f64]) {
        (self.engine.expected)(x, u, step, out);
    }

    fn estimate(&self, out: &mut Estimate) {
        self.engine.write_belief(&self.belief, out);
    }

    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        match self.engine.keeps_time() {
            true => checkpoint::save(&self.engine.kind, &(&self.belief, self.rhythm)),
            false => checkpoint::save(&self.engine.kind, &self.belief),
        }
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let (belief, rhythm): (F::Belief, _) = match self.engine.keeps_time() {
            true => checkpoint::load(&self.engine.kind, bytes)?,
            false => (checkpoint::load(&self.engine.kind, bytes)?, Rhythm::default()),
        };
        let n = self.engine.filter.dims().0.value();
        belief.check_dim(n, 0).map_err(|e| CheckpointError::Body { message: e.to_string() })?;
        (self.belief, self.rhythm) = (belief, rhythm);
        Ok(())
    }

    fn path(&self) -> Vec<f64> {
        self.engine.path(&self.belief)
    }

    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.belief.particles()
    }
}
