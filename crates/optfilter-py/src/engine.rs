//! Filters of any kind and size behind two small traits.
//!
//! A [`Runner`] is what does not change (model, noise, settings): any number of threads may run series
//! through it. A [`Live`] filter adds a belief that moves step by step.

use crate::convert::{sized, sized_vector};
use crate::errors::is_pending;
use crate::likelihood::AnyLikelihood;
use crate::optimizer::Native;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim, OMatrix, OVector};
use optfilter::batch::{Batch, Estimates};
use optfilter::checkpoint;
use optfilter::filter::{
    Belief, Filter, FilterError, GaussianBelief, ImplicitMap, ParticleBelief, PointBelief, Trace,
    Update,
};
use optfilter::model::{Model, Step};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter::{Series, Shapes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Where a trajectory starts.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) mean: Vec<f64>,
    pub(crate) cov: DMatrix<f64>,
    /// The number of the trajectory, which names its random stream.
    pub(crate) run: u64,
    /// Whether the belief is of the first measurement's own time, so that nothing is predicted before it.
    pub(crate) at_first: bool,
}

/// What the last update learnt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) innovation: Vec<f64>,
    /// S, column by column (symmetric); empty where the filter has none.
    pub(crate) innovation_cov: Vec<f64>,
    pub(crate) log_likelihood: Option<f64>,
    pub(crate) nis: Option<f64>,
}

impl Report {
    fn write<M: Dim>(&mut self, update: &Update<M>)
    where
        DefaultAllocator: Allocator<M> + Allocator<M, M>,
    {
        self.innovation.clear();
        self.innovation.extend_from_slice(update.innovation.as_slice());
        self.innovation_cov.clear();
        if let Some(s) = &update.innovation_cov {
            self.innovation_cov.extend_from_slice(s.as_slice());
        }
        self.log_likelihood = update.log_likelihood;
        self.nis = update.nis;
    }
}

/// A belief that Python can start, read, set and pickle.
pub(crate) trait State: Clone + Send + Sync + 'static {
    type Settings: Clone + Send + Sync + 'static;
    fn start(settings: &Self::Settings, start: &Start) -> Result<Self, FilterError>;
    fn mean_into(&self, out: &mut Vec<f64>);
    /// The covariance, column by column; `None` for point estimates.
    fn cov_values(&self) -> Option<Vec<f64>>;
    fn to_bytes(&self) -> Result<Vec<u8>, String>;
    fn from_bytes(bytes: &[u8]) -> Result<Self, String>;
    /// Particles (count x n, row by row) and weights.
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }
}

const KIND: &str = "python belief";

impl<N: Dim> State for GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
{
    type Settings = ();
    fn start((): &(), start: &Start) -> Result<Self, FilterError> {
        let n = N::from_usize(start.mean.len());
        Self::new(sized_vector(n, &start.mean), sized(n, n, &start.cov))
    }
    fn mean_into(&self, out: &mut Vec<f64>) {
        out.extend_from_slice(self.mean.as_slice());
    }
    fn cov_values(&self) -> Option<Vec<f64>> {
        Some(self.cov.as_slice().to_vec())
    }
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        checkpoint::save(KIND, self).map_err(|e| e.to_string())
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        checkpoint::load(KIND, bytes).map_err(|e| e.to_string())
    }
}

impl<N: Dim, T> State for PointBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn start((): &(), start: &Start) -> Result<Self, FilterError> {
        Self::new(sized_vector(N::from_usize(start.mean.len()), &start.mean))
    }
    fn mean_into(&self, out: &mut Vec<f64>) {
        out.extend_from_slice(self.mean.as_slice());
    }
    fn cov_values(&self) -> Option<Vec<f64>> {
        None
    }
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        checkpoint::save(KIND, self).map_err(|e| e.to_string())
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        checkpoint::load(KIND, bytes).map_err(|e| e.to_string())
    }
}

impl<N: Dim> State for ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync,
{
    /// The number of particles and the seed.
    type Settings = (usize, u64);
    fn start(&(count, seed): &(usize, u64), start: &Start) -> Result<Self, FilterError> {
        let n = N::from_usize(start.mean.len());
        let belief = GaussianBelief::new(sized_vector(n, &start.mean), sized(n, n, &start.cov))?;
        Self::new(&belief, count, Stream::new(seed, start.run, "particles"))
    }
    fn mean_into(&self, out: &mut Vec<f64>) {
        out.extend_from_slice(self.mean().as_slice());
    }
    fn cov_values(&self) -> Option<Vec<f64>> {
        self.cov().map(|c| c.as_slice().to_vec())
    }
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        checkpoint::save(KIND, self).map_err(|e| e.to_string())
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        checkpoint::load(KIND, bytes).map_err(|e| e.to_string())
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let n = self.mean().nrows();
        let values = (0..self.count()).flat_map(|i| (0..n).map(move |j| self.value(i, j)));
        Some((values.collect(), self.weights().to_vec()))
    }
}

/// The results of a series, as far as it went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) trace: Trace,
    pub(crate) error: Option<FilterError>,
}

/// A filter without a belief.
pub(crate) trait Runner: Send + Sync {
    fn dims(&self) -> (usize, usize, usize);
    fn start(&self, start: &Start) -> Result<Box<dyn Live>, FilterError>;
    fn load(&self, bytes: &[u8]) -> Result<Box<dyn Live>, String>;
    fn run(&self, start: &Start, series: &Series<'_>) -> Outcome;
    /// Many series as lanes, where the filter can.
    fn run_lanes(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
    ) -> Option<Result<Estimates, FilterError>>;
    /// The innovations (T x m) that belong to estimates from lanes.
    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Option<Vec<f64>>;
}

/// A filter with a belief.
pub(crate) trait Live: Send + Sync {
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError>;
    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        report: &mut Report,
    ) -> Result<(), FilterError>;
    fn mean_into(&self, out: &mut Vec<f64>);
    fn cov_values(&self) -> Option<Vec<f64>>;
    fn to_bytes(&self) -> Result<Vec<u8>, String>;
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)>;
}

/// Anything that filters many trajectories of one filter as lanes.
pub(crate) trait LaneFilter: Send + Sync {
    fn run(&self, starts: &[Start], series: &[Series<'_>]) -> Result<Estimates, FilterError>;
    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64>;
}

/// An implicit filter whose rule runs in Rust, with its model.
pub(crate) struct Packed<M> {
    pub(crate) model: M,
    pub(crate) filter: ImplicitMap<M, AnyLikelihood, Native>,
}

impl<M: Model + Clone + Send + Sync> LaneFilter for Packed<M>
where
    OVector<f64, M::State>: Send + Sync,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    fn run(&self, starts: &[Start], series: &[Series<'_>]) -> Result<Estimates, FilterError> {
        let n = self.model.state_dim();
        let starts: Vec<_> = starts.iter().map(|s| sized_vector(n, &s.mean)).collect();
        Batch::new(series.to_vec()).run(&self.filter, &starts)
    }

    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64> {
        let (n, m) = (self.model.state_dim().value(), self.model.output_dim().value());
        let mut out = vec![0.0; series.len() * m];
        let (mut prediction, mut seen) = (vec![0.0; n], vec![0.0; m]);
        for k in 0..series.len() {
            let before = if k == 0 { start } else { &means[(k - 1) * n..k * n] };
            let (step, u, y) = (series.step(k), series.input(k), series.observation(k));
            self.model.transition(before, u, &step, &mut prediction);
            self.model.observe(&prediction, u, &step, &mut seen);
            for i in 0..m {
                let difference = y[i] - seen[i];
                out[k * m + i] = match (y[i].is_nan(), self.model.is_angle(i)) {
                    (true, _) => 0.0,
                    (false, false) => difference,
                    (false, true) => difference.wrap_angle(),
                };
            }
        }
        out
    }
}

/// A filter of the library with the settings of its beliefs.
pub(crate) struct Driver<F: Filter>
where
    F::Belief: State,
{
    pub(crate) filter: F,
    pub(crate) settings: <F::Belief as State>::Settings,
    pub(crate) lanes: Option<Box<dyn LaneFilter>>,
}

/// A driver's belief on its way.
struct Moving<F: Filter>
where
    F::Belief: State,
{
    driver: Arc<Driver<F>>,
    belief: F::Belief,
    before: Vec<f64>,
}

/// The same error with the last finite estimate in it.
fn with_last_good(error: FilterError, last: &[f64]) -> FilterError {
    match error {
        FilterError::NotPositiveDefinite { quantity, index: Some(index) } => {
            FilterError::Diverged { index, quantity, last_good: last.to_vec() }
        }
        FilterError::Diverged { index, quantity, last_good }
            if last_good.is_empty() || last_good.iter().any(|v| !v.is_finite()) =>
        {
            FilterError::Diverged { index, quantity, last_good: last.to_vec() }
        }
        other => other,
    }
}

fn check_finite(
    mean: &[f64],
    step: &Step,
    quantity: &'static str,
    last: &[f64],
) -> Result<(), FilterError> {
    if mean.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(FilterError::Diverged { index: step.index, quantity, last_good: last.to_vec() })
}

/// Stands for an exception that a callable raised; the driver raises that instead.
fn check_pending() -> Result<(), FilterError> {
    if is_pending() { Err(FilterError::Empty { argument: "callable" }) } else { Ok(()) }
}

impl<F> Driver<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// Runs the series into `trace`; on failure the trace holds what went before.
    fn run_into(
        &self,
        start: &Start,
        series: &Series<'_>,
        trace: &mut Trace,
    ) -> Result<(), FilterError> {
        let mut belief = F::Belief::start(&self.settings, start)?;
        let (n, _, _) = self.filter.dims();
        let n = n.value();
        trace.means.reserve(series.len() * n);
        for k in 0..series.len() {
            let (step, u) = (series.step(k), series.input(k));
            let last = trace.means.len().checked_sub(n);
            let failed = |error, trace: &Trace| {
                with_last_good(error, last.map_or(start.mean.as_slice(), |at| &trace.means[at..]))
            };
            if k > 0 || !start.at_first {
                self.filter.predict(&mut belief, u, &step).map_err(|e| failed(e, trace))?;
            }
            let update = self
                .filter
                .update(&mut belief, series.observation(k), u, &step)
                .map_err(|e| failed(e, trace))?;
            check_pending()?;
            let at = trace.means.len();
            belief.mean_into(&mut trace.means);
            if !trace.means[at..].iter().all(|v| v.is_finite()) {
                trace.means.truncate(at);
                let (index, quantity, last_good) = (step.index, "mean", Vec::new());
                return Err(failed(FilterError::Diverged { index, quantity, last_good }, trace));
            }
            if let Some(cov) = belief.cov() {
                trace.covs.extend_from_slice(cov.as_slice());
            }
            trace.innovations.extend_from_slice(update.innovation.as_slice());
            if let Some(s) = &update.innovation_cov {
                trace.innovation_covs.extend_from_slice(s.as_slice());
            }
            trace.log_likelihoods.extend(update.log_likelihood);
            trace.nis.extend(update.nis);
            trace.observed.push(update.observed);
        }
        Ok(())
    }
}

/// A driver that many threads share.
pub(crate) struct Shared<F: Filter>(pub(crate) Arc<Driver<F>>)
where
    F::Belief: State;

impl<F> Runner for Shared<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn dims(&self) -> (usize, usize, usize) {
        let (n, m, inputs) = self.0.filter.dims();
        (n.value(), m.value(), inputs)
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Live>, FilterError> {
        let belief = F::Belief::start(&self.0.settings, start)?;
        Ok(Box::new(Moving { driver: self.0.clone(), belief, before: Vec::new() }))
    }

    fn load(&self, bytes: &[u8]) -> Result<Box<dyn Live>, String> {
        let belief = F::Belief::from_bytes(bytes)?;
        Ok(Box::new(Moving { driver: self.0.clone(), belief, before: Vec::new() }))
    }

    fn run(&self, start: &Start, series: &Series<'_>) -> Outcome {
        let (n, m, _) = self.dims();
        let mut trace = Trace { state_dim: n, output_dim: m, ..Trace::default() };
        let error = self.0.run_into(start, series, &mut trace).err();
        Outcome { trace, error }
    }

    fn run_lanes(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
    ) -> Option<Result<Estimates, FilterError>> {
        self.0.lanes.as_ref().map(|lanes| lanes.run(starts, series))
    }

    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Option<Vec<f64>> {
        self.0.lanes.as_ref().map(|lanes| lanes.innovations(start, series, means))
    }
}

impl<F> Live for Moving<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError> {
        self.before.clear();
        self.belief.mean_into(&mut self.before);
        let mut next = self.belief.clone();
        self.driver
            .filter
            .predict(&mut next, u, step)
            .map_err(|e| with_last_good(e, &self.before))?;
        check_pending()?;
        check_finite(next.mean().as_slice(), step, "prediction", &self.before)?;
        self.belief = next;
        Ok(())
    }

    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        report: &mut Report,
    ) -> Result<(), FilterError> {
        self.before.clear();
        self.belief.mean_into(&mut self.before);
        let mut next = self.belief.clone();
        let update = self
            .driver
            .filter
            .update(&mut next, y, u, step)
            .map_err(|e| with_last_good(e, &self.before))?;
        check_pending()?;
        check_finite(next.mean().as_slice(), step, "mean", &self.before)?;
        self.belief = next;
        report.write(&update);
        Ok(())
    }

    fn mean_into(&self, out: &mut Vec<f64>) {
        self.belief.mean_into(out);
    }
    fn cov_values(&self) -> Option<Vec<f64>> {
        self.belief.cov_values()
    }
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        self.belief.to_bytes()
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.belief.particles()
    }
}
