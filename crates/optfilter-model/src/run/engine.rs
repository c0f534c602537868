//! A filter of any kind behind one face: rows in, estimates out, saved and resumed bit for bit.

use super::bars::Bars;
use super::likelihood::AnyLikelihood;
use super::plan::{Method, Plan, PlanError};
use crate::file::ModelSpec;
use crate::model::{Fixed, TextModel};
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use optfilter::Shapes;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::filter::{
    Belief, Extended, Filter, FilterError, GaussianBelief, ImplicitMap, Iterated, Memory, Particle,
    ParticleBelief, PointBelief, Resampling, Scheme, SigmaPoints, Unscented, Variational,
};
use optfilter::model::{Dynamics, GaussianNoise, Model, Observation, Step};
use optfilter::optim::Bounds;
use optfilter::rng::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is known after a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Estimated state.
    pub mean: Vec<f64>,
    /// Its standard deviations; NaN where the filter has none.
    pub std: Vec<f64>,
    /// Measurement less prediction; NaN where the measurement is missing.
    pub innovation: Vec<f64>,
    /// Its standard deviation; NaN where the filter has none.
    pub innovation_std: Vec<f64>,
    /// Log-likelihood of the row given those before it; NaN where the filter has none.
    pub log_likelihood: f64,
    /// Normalised innovation squared; NaN where the filter has none.
    pub nis: f64,
    /// How many components were measured.
    pub observed: usize,
}

impl Estimate {
    /// Room for a model of these sizes.
    pub fn new(states: usize, outputs: usize) -> Self {
        Self {
            mean: vec![f64::NAN; states],
            std: vec![f64::NAN; states],
            innovation: vec![f64::NAN; outputs],
            innovation_std: vec![f64::NAN; outputs],
            log_likelihood: f64::NAN,
            nis: f64::NAN,
            observed: 0,
        }
    }
}

/// A running filter.
pub trait Engine: Send {
    /// Takes a row. `predict` is false for the first one, at which the initial belief holds.
    fn step(
        &mut self,
        predict: bool,
        step: &Step,
        u: &[f64],
        y: &[f64],
        out: &mut Estimate,
    ) -> Result<(), FilterError>;

    /// The belief as bytes.
    fn save(&self) -> Result<Vec<u8>, CheckpointError>;

    /// Goes on from saved bytes.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError>;

    /// Bytes that the belief takes when saved: what a filter must remember from row to row.
    fn memory(&self) -> usize {
        self.save().map_or(0, |b| b.len())
    }
}

/// An estimate beyond this measures nothing any more: the filter has diverged, though not yet to infinity.
const LARGEST: f64 = 1e100;

struct Running<F: Filter> {
    filter: F,
    belief: F::Belief,
    kind: String,
    state_angles: Vec<bool>,
}

impl<F> Engine for Running<F>
where
    F: Filter + Send,
    F::Belief: Belief<F::State> + Serialize + DeserializeOwned + Send,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    #[inline]
    fn step(
        &mut self,
        predict: bool,
        step: &Step,
        u: &[f64],
        y: &[f64],
        out: &mut Estimate,
    ) -> Result<(), FilterError> {
        if predict {
            self.filter.predict(&mut self.belief, u, step)?;
        }
        let update = self.filter.update(&mut self.belief, y, u, step)?;
        let mean = self.belief.mean();
        if !mean.iter().all(|v| v.abs() < LARGEST) {
            let last_good = out.mean.clone();
            return Err(FilterError::Diverged { index: step.index, quantity: "mean", last_good });
        }
        out.mean.copy_from_slice(mean.as_slice());
        for (v, angle) in out.mean.iter_mut().zip(&self.state_angles) {
            if *angle {
                *v = optfilter::scalar::Scalar::wrap_angle(*v);
            }
        }
        match self.belief.cov() {
            Some(cov) => {
                for (i, s) in out.std.iter_mut().enumerate() {
                    // A variance of minus rounding error is zero; one that was lost stays NaN.
                    let var = cov[(i, i)];
                    *s = if var < 0.0 { 0.0 } else { var.sqrt() };
                }
            }
            None => out.std.fill(f64::NAN),
        }
        for i in 0..y.len() {
            let missing = y[i].is_nan();
            out.innovation[i] = if missing { f64::NAN } else { update.innovation[i] };
            out.innovation_std[i] = match &update.innovation_cov {
                Some(s) if !missing => s[(i, i)].sqrt(),
                _ => f64::NAN,
            };
        }
        out.log_likelihood = update.log_likelihood.unwrap_or(f64::NAN);
        out.nis = update.nis.unwrap_or(f64::NAN);
        out.observed = update.observed;
        Ok(())
    }

    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save(&self.kind, &self.belief)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.belief = checkpoint::load(&self.kind, bytes)?;
        Ok(())
    }
}

impl Plan {
    /// A running filter at the initial belief.
    pub fn engine(&self, spec: &ModelSpec) -> Result<Box<dyn Engine>, PlanError> {
        self.check(spec)?;
        let model = spec.compile();
        // The two filters that stream fastest also exist for fixed small sizes, where a step allocates
        // nothing: 2 to 4 times the speed, for a few kilobytes of machine code each.
        macro_rules! fixed {
            ($(($n:literal, $m:literal)),*) => {
                match (model.states(), model.outputs()) {
                    $(($n, $m) => {
                        if let Some(model) = Fixed::<$n, $m>::new(model.clone()) {
                            return self.streaming(spec, model);
                        }
                    })*
                    _ => {}
                }
            };
        }
        if matches!(self.method, Method::Imap | Method::Ekf | Method::Kf) {
            fixed!((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2));
            return self.streaming(spec, model);
        }
        self.any(spec, model)
    }

    /// Implicit MAP or extended Kalman, for a model of any size. The Kalman filter of a linear model is
    /// the extended one: its derivatives are the matrices.
    fn streaming<M>(&self, spec: &ModelSpec, model: M) -> Result<Box<dyn Engine>, PlanError>
    where
        M: Model + Clone + Send + 'static,
        DefaultAllocator: Shapes<M::State, M::Output>,
        GaussianBelief<M::State>: Serialize + DeserializeOwned,
        PointBelief<M::State, optfilter::optim::AnyState<OVector<f64, M::State>>>:
            Serialize + DeserializeOwned,
        OVector<f64, M::State>: Send,
        OMatrix<f64, M::State, M::State>: Send,
        AnyLikelihood<M::Output>: Send,
        GaussianNoise<M::State, M::Output>: Send,
    {
        let start = Start::new(spec, &model)?;
        if self.method != Method::Imap {
            let noise = self.noise(spec, &model)?;
            return self.boxed(spec, Extended::new(model, noise), start.gaussian()?);
        }
        let likelihood = AnyLikelihood::new(spec, model.output_dim())?;
        let has_noise = spec.process_noise.is_some() && spec.measurement_cov.is_some();
        let error_bars = self.error_bars && has_noise && !self.carry;
        let noise = error_bars.then(|| self.noise(spec, &model)).transpose()?;
        let mut filter = ImplicitMap::new(model, likelihood, self.optimizer()?, self.steps)
            .map_err(PlanError::new)?;
        if self.carry {
            filter = filter.with_memory(Memory::Carry);
        }
        if let Some(bounds) = &spec.bounds {
            let (lower, upper) = bounds.iter().copied().unzip();
            let bounds = Bounds::new(lower, upper).map_err(PlanError::new)?;
            filter = filter.with_bounds(bounds).map_err(PlanError::new)?;
        }
        match noise {
            Some(noise) => {
                let filter = Bars::new(filter, noise).map_err(PlanError::new)?;
                self.boxed(spec, filter, start.gaussian()?)
            }
            None => {
                let belief = PointBelief::new(start.mean).map_err(PlanError::new)?;
                self.boxed(spec, filter, belief)
            }
        }
    }

    /// Every other filter, with sizes known at run time only.
    fn any(&self, spec: &ModelSpec, model: TextModel) -> Result<Box<dyn Engine>, PlanError> {
        let start = Start::new(spec, &model)?;
        let gaussian = start.gaussian()?;
        match self.method {
            Method::Iekf => {
                let noise = self.noise(spec, &model)?;
                let filter = Iterated::new(model, noise, self.steps).map_err(PlanError::new)?;
                self.boxed(spec, filter, gaussian)
            }
            Method::Ukf => {
                let noise = self.noise(spec, &model)?;
                // Merwe's points at alpha = 1, kappa = 0: positive weights, and as wide as the belief.
                let points = SigmaPoints::merwe(1.0, 2.0, 0.0);
                let filter = Unscented::new(model, noise, points).map_err(PlanError::new)?;
                self.boxed(spec, filter, gaussian)
            }
            Method::Vkf => {
                let likelihood = AnyLikelihood::new(spec, model.output_dim())?;
                let prior = self.process_cov(spec)?;
                let filter =
                    Variational::new(model, likelihood, prior, self.optimizer()?, self.steps)
                        .map_err(|e| {
                            PlanError::new(format!(
                                "{e}; method vkf needs process noise in every state"
                            ))
                        })?;
                self.boxed(spec, filter, PointBelief::new(start.mean).map_err(PlanError::new)?)
            }
            _ => {
                let likelihood = AnyLikelihood::new(spec, model.output_dim())?;
                let noise = self.particle_noise(spec)?;
                let resampling = Resampling::Below(Scheme::Systematic, 0.5);
                let filter =
                    Particle::new(model, likelihood, noise, resampling).map_err(PlanError::new)?;
                let stream = Stream::new(self.seed, 0, "particles");
                let belief = ParticleBelief::new(&gaussian, self.particles as usize, stream)
                    .map_err(PlanError::new)?;
                self.boxed(spec, filter, belief)
            }
        }
    }

    fn boxed<F>(
        &self,
        spec: &ModelSpec,
        filter: F,
        belief: F::Belief,
    ) -> Result<Box<dyn Engine>, PlanError>
    where
        F: Filter + Send + 'static,
        F::Belief: Belief<F::State> + Serialize + DeserializeOwned + Send + 'static,
        DefaultAllocator: Shapes<F::State, F::Output>,
    {
        let kind = format!("{}/{}", self.method.name(), spec.states.join(","));
        let state_angles = spec.state_angles.clone();
        Ok(Box::new(Running { filter, belief, kind, state_angles }))
    }

    /// Q as one step's covariance or rate, times the plan's factor.
    fn process_cov(&self, spec: &ModelSpec) -> Result<nalgebra::DMatrix<f64>, PlanError> {
        let noise = spec.process_noise.as_ref();
        let cov = noise.ok_or_else(|| PlanError::new("the model has no [process_noise]"))?;
        let per = if cov.per_time { spec.dt } else { 1.0 };
        Ok(&cov.cov * (self.process_scale * if self.method == Method::Vkf { per } else { 1.0 }))
    }

    fn noise<M: Dynamics + Observation>(
        &self,
        spec: &ModelSpec,
        model: &M,
    ) -> Result<GaussianNoise<M::State, M::Output>, PlanError>
    where
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        let (n, m) = (model.state_dim(), model.output_dim());
        let q = self.process_cov(spec)?;
        let q = OMatrix::from_column_slice_generic(n, n, q.as_slice());
        let r = spec.measurement_cov.as_ref();
        let r = r.ok_or_else(|| PlanError::new("the model has no [measurement_noise]"))?;
        let r = OMatrix::from_column_slice_generic(m, m, r.as_slice());
        let per_time = spec.process_noise.as_ref().is_some_and(|q| q.per_time);
        if per_time { GaussianNoise::per_time(q, r) } else { GaussianNoise::new(q, r) }
            .map_err(PlanError::new)
    }

    /// The particle filter reads R only to report the spread of innovations; counts need not state it.
    fn particle_noise(
        &self,
        spec: &ModelSpec,
    ) -> Result<GaussianNoise<nalgebra::Dyn, nalgebra::Dyn>, PlanError> {
        let m = spec.observations.len();
        let mut with_noise = spec.clone();
        with_noise.measurement_cov.get_or_insert_with(|| nalgebra::DMatrix::identity(m, m));
        self.noise(&with_noise, &spec.compile())
    }
}

/// The initial belief in the sizes of a model.
struct Start<N: Dim>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    mean: OVector<f64, N>,
    cov: OMatrix<f64, N, N>,
}

impl<N: Dim> Start<N>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    fn new<M: Dynamics<State = N>>(spec: &ModelSpec, model: &M) -> Result<Self, PlanError> {
        let n = model.state_dim();
        Ok(Self {
            mean: OVector::from_column_slice_generic(n, U1, &spec.initial_mean),
            cov: OMatrix::from_column_slice_generic(n, n, spec.initial_cov.as_slice()),
        })
    }

    fn gaussian(&self) -> Result<GaussianBelief<N>, PlanError> {
        GaussianBelief::new(self.mean.clone(), self.cov.clone()).map_err(PlanError::new)
    }
}
