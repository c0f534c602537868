//! What is to be filtered: a model with its noise, where it starts, and the box it lives in.

use crate::choice::{GapPolicy, IrregularSteps};
use crate::error::SpecError;
use crate::model::{AnyModel, TimeDependence};
use crate::settings::FilterSpec;
use crate::step_timer::StepTimer;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim, OMatrix, OVector};
use optfilter::Shapes;
use optfilter::filter::FilterError;
use optfilter::model::likelihood::{
    AnyLikelihood, Component, Foreign, Gaussian, Independent, Link, SquaredError,
};
use optfilter::model::{
    DiagonalNoise, Dynamics, GaussianNoise, Noise, NoiseError, Observation, Step,
};
use optfilter::optim::Bounds;

/// A covariance, no larger than it must be.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub enum Covariance {
    /// One variance for all components.
    Scalar(f64),
    /// A variance for each component.
    Diagonal(Vec<f64>),
    /// Any covariance.
    Dense(DMatrix<f64>),
}

impl From<f64> for Covariance {
    fn from(variance: f64) -> Self {
        Self::Scalar(variance)
    }
}

impl From<Vec<f64>> for Covariance {
    fn from(variances: Vec<f64>) -> Self {
        Self::Diagonal(variances)
    }
}

impl From<DMatrix<f64>> for Covariance {
    fn from(matrix: DMatrix<f64>) -> Self {
        Self::Dense(matrix)
    }
}

impl Covariance {
    /// As a matrix n x n; NaN where it is not of that size, so that the check of the filter names it.
    pub fn dense<N: Dim>(&self, n: N) -> OMatrix<f64, N, N>
    where
        DefaultAllocator: Allocator<N, N>,
    {
        OMatrix::from_fn_generic(n, n, |i, j| match self {
            Self::Scalar(v) if i == j => *v,
            Self::Diagonal(v) if i == j => v.get(i).copied().unwrap_or(f64::NAN),
            Self::Dense(m) => m.get((i, j)).copied().unwrap_or(f64::NAN),
            _ => 0.0,
        })
    }

    /// Variance `i`.
    pub fn variance(&self, i: usize) -> f64 {
        match self {
            Self::Scalar(v) => *v,
            Self::Diagonal(v) => v.get(i).copied().unwrap_or(f64::NAN),
            Self::Dense(m) => m.get((i, i)).copied().unwrap_or(f64::NAN),
        }
    }

    /// Whether it is of `n` components.
    pub fn fits(&self, n: usize) -> bool {
        match self {
            Self::Scalar(_) => true,
            Self::Diagonal(v) => v.len() == n,
            Self::Dense(m) => m.shape() == (n, n),
        }
    }

    /// Every entry times `k`.
    #[must_use]
    pub fn scaled(&self, k: f64) -> Self {
        match self {
            Self::Scalar(v) => Self::Scalar(v * k),
            Self::Diagonal(v) => Self::Diagonal(v.iter().map(|v| v * k).collect()),
            Self::Dense(m) => Self::Dense(m * k),
        }
    }
}

/// Process noise.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ProcessNoise {
    /// Covariance per step, or per unit of time.
    pub cov: Covariance,
    /// Whether it is per unit of time.
    pub per_time: bool,
}

/// How measurements scatter, where not by a Gaussian with the covariance R.
#[derive(Clone, Debug, PartialEq)]
pub enum LikelihoodSpec {
    /// Squared error, whatever R is.
    Squared,
    /// Gaussian with a covariance of its own.
    Gaussian(Covariance),
    /// A law for each component.
    Components(Vec<Component>),
    /// What somebody else computes of h(x).
    Foreign(Foreign),
}

/// A model and all that a filter may want to know about it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The model.
    pub model: AnyModel,
    /// The length of a step where rows have no times.
    pub dt: f64,
    /// Q, if it is known.
    pub process: Option<ProcessNoise>,
    /// R, if it is known.
    pub measurement: Option<Covariance>,
    /// The likelihood, where it is not the Gaussian with R.
    pub likelihood: Option<LikelihoodSpec>,
    /// Mean of the initial belief.
    pub mean: Vec<f64>,
    /// Its covariance.
    pub cov: Covariance,
    /// Which states are wholly unknown at the start, whatever the covariance says of them; empty where none is. Exact under kf,
    /// ekf, iekf and ukf on linear models; any other filter starts from the covariance.
    pub diffuse: Vec<bool>,
    /// A box that the state is kept in.
    pub bounds: Option<Bounds>,
    /// The prior covariance of vkf, where it is not Q.
    pub prior: Option<Covariance>,
}

impl Problem {
    /// A model of unit steps, without noise, from N(0, I).
    pub fn new(model: impl Into<AnyModel>) -> Self {
        let model = model.into();
        let mean = vec![0.0; model.state_dim().value()];
        Self {
            model,
            dt: 1.0,
            process: None,
            measurement: None,
            likelihood: None,
            mean,
            cov: Covariance::Scalar(1.0),
            diffuse: Vec::new(),
            bounds: None,
            prior: None,
        }
    }

    /// With process noise Q per step and measurement noise R.
    #[must_use]
    pub fn noise(mut self, q: impl Into<Covariance>, r: impl Into<Covariance>) -> Self {
        self.process = Some(ProcessNoise { cov: q.into(), per_time: false });
        self.measurement = Some(r.into());
        self
    }

    /// From a mean that is the same in all states, and a covariance.
    #[must_use]
    pub fn start(mut self, mean: f64, cov: impl Into<Covariance>) -> Self {
        self.mean.fill(mean);
        self.cov = cov.into();
        self
    }

    /// With steps of this length.
    #[must_use]
    pub fn dt(mut self, dt: f64) -> Self {
        self.dt = dt;
        self
    }
}

impl Problem {
    /// The same problem of another model.
    pub fn with_model(&self, model: impl Into<AnyModel>) -> Self {
        Self { model: model.into(), ..self.clone() }
    }

    /// The same problem in the canonical parameters of its counts and binary measurements, where its model has them.
    pub(crate) fn canonical(&self) -> Option<Self> {
        let (model, linked) = self.model.canonical()?;
        let Some(LikelihoodSpec::Components(parts)) = &self.likelihood else { return None };
        let mut parts = parts.clone();
        for (part, _) in parts.iter_mut().zip(linked).filter(|(_, linked)| **linked) {
            match part {
                Component::Poisson(poisson) => poisson.link = Link::Canonical,
                Component::Bernoulli(bernoulli) => bernoulli.link = Link::Canonical,
                // Another likelihood than the file's: the equation is what is expected.
                _ => return None,
            }
        }
        let likelihood = Some(LikelihoodSpec::Components(parts));
        Some(Self { likelihood, ..self.with_model(model.clone()) })
    }

    /// Writes the measurement that is expected of a state.
    pub(crate) fn expected(&self, x: &[f64], u: &[f64], step: &Step, out: &mut [f64]) {
        self.model.observe(x, u, step, out);
        if let Some(LikelihoodSpec::Components(parts)) = &self.likelihood {
            for (out, part) in out.iter_mut().zip(parts) {
                *out = part.expected(*out);
            }
        }
    }

    /// Which of `m` components count, tell zeros from ones, or are known to somebody else only.
    pub(crate) fn discrete(&self, m: usize) -> Vec<bool> {
        match &self.likelihood {
            Some(LikelihoodSpec::Components(parts)) => {
                (0..m).map(|i| parts.get(i).is_some_and(Component::is_discrete)).collect()
            }
            // What h is to the measurement is not known: no square of their difference is chi-square.
            Some(LikelihoodSpec::Foreign(_)) => vec![true; m],
            _ => Vec::new(),
        }
    }

    /// The same problem with `k` times the measurement noise, in R and in likelihoods that have a scale.
    pub fn with_measurement_scale(&self, k: f64) -> Result<Self, SpecError> {
        let likelihood = match &self.likelihood {
            Some(LikelihoodSpec::Gaussian(cov)) => Some(LikelihoodSpec::Gaussian(cov.scaled(k))),
            Some(LikelihoodSpec::Components(parts)) => {
                let parts = parts.iter().map(|c| c.stretched(k.sqrt())).collect::<Result<_, _>>();
                let wrong = |e| SpecError::of("measurement_scale", e);
                Some(LikelihoodSpec::Components(parts.map_err(wrong)?))
            }
            other => other.clone(),
        };
        let measurement = self.measurement.as_ref().map(|r| r.scaled(k));
        Ok(Self { measurement, likelihood, ..self.clone() })
    }

    /// Whether every component scatters by a Gaussian.
    pub fn is_gaussian(&self) -> bool {
        match &self.likelihood {
            None | Some(LikelihoodSpec::Squared | LikelihoodSpec::Gaussian(_)) => true,
            Some(LikelihoodSpec::Components(parts)) => {
                parts.iter().all(|c| matches!(c, Component::Normal(_)))
            }
            Some(LikelihoodSpec::Foreign(_)) => false,
        }
    }

    /// The laws of the components, where some forgive outliers and all have a scale: what makes a Gaussian filter robust.
    pub fn robust_laws(&self) -> Option<&[Component]> {
        match &self.likelihood {
            Some(LikelihoodSpec::Components(parts))
                if parts.iter().any(Component::is_robust)
                    && parts.iter().all(|part| part.scale().is_some()) =>
            {
                Some(parts)
            }
            _ => None,
        }
    }

    /// The noise of measurements under [`robust_laws`](Self::robust_laws): the squares of their scales.
    pub(crate) fn scales(laws: &[Component]) -> Covariance {
        let square = |law: &Component| law.scale().map_or(f64::NAN, |s| s * s);
        Covariance::Diagonal(laws.iter().map(square).collect())
    }

    /// The likelihood of `m` components; squared error where nothing says otherwise.
    pub fn likelihood<D: Dim>(&self, m: D, squared: bool) -> Result<AnyLikelihood<D>, SpecError>
    where
        DefaultAllocator: Allocator<D, D> + Allocator<D>,
    {
        let gaussian = |cov: &Covariance| {
            let zero = (0..m.value()).any(|i| cov.variance(i) == 0.0);
            let wrong = |_| {
                let message = match zero {
                    false => "must be finite, symmetric and positive definite",
                    true => NEEDS_NOISE,
                };
                SpecError::of("R", message)
            };
            let made = match cov {
                Covariance::Dense(_) => Gaussian::new(cov.dense(m)),
                _ => Gaussian::diagonal(OVector::from_fn_generic(m, nalgebra::U1, |i, _| {
                    cov.variance(i)
                })),
            };
            made.map(AnyLikelihood::Gaussian).map_err(wrong)
        };
        match (&self.likelihood, &self.measurement) {
            (Some(LikelihoodSpec::Components(parts)), _) if !self.is_gaussian() || !squared => {
                if parts.len() != m.value() {
                    let message =
                        format!("is for {} measurements; the model has {}", parts.len(), m.value());
                    return Err(SpecError::of("likelihood", message));
                }
                Ok(AnyLikelihood::Independent(Independent::new(parts.clone())))
            }
            (Some(LikelihoodSpec::Foreign(foreign)), _) => {
                Ok(AnyLikelihood::Foreign(foreign.clone()))
            }
            (Some(LikelihoodSpec::Squared), _) => Ok(AnyLikelihood::SquaredError(SquaredError)),
            _ if squared => Ok(AnyLikelihood::SquaredError(SquaredError)),
            (Some(LikelihoodSpec::Gaussian(cov)), _) | (_, Some(cov)) => {
                if !cov.fits(m.value()) {
                    let message = format!("is not for {} measurements", m.value());
                    return Err(SpecError::of("likelihood", message));
                }
                gaussian(cov)
            }
            (_, None) => Ok(AnyLikelihood::SquaredError(SquaredError)),
        }
    }

    /// Whether an implicit filter takes more steps after a gap.
    pub(crate) fn widens(&self, spec: &FilterSpec) -> bool {
        match spec.gaps {
            Some(gaps) => gaps == GapPolicy::Widen,
            None => self.process.as_ref().is_some_and(|q| q.per_time),
        }
    }
}

impl Problem {
    /// Whether some states are wholly unknown at the start, and a Kalman filter can say exactly what follows from that.
    pub(crate) fn is_diffuse(&self) -> bool {
        self.diffuse.contains(&true) && self.model.is_linear() && self.is_gaussian()
    }

    /// Whether neither the model nor its process noise knows how long a step is, so that irregular times mean nothing to it.
    pub fn goes_by_rows(&self) -> bool {
        match self.model.pace() {
            TimeDependence::Time => false,
            TimeDependence::Rows => true,
            TimeDependence::Still => self.process.as_ref().is_some_and(|q| !q.per_time),
        }
    }

    /// Whether irregular times are an error.
    pub(crate) fn refuses_irregular(&self, spec: &FilterSpec) -> bool {
        self.goes_by_rows() && spec.irregular != Some(IrregularSteps::PerRow)
    }

    /// An error where steps are irregular and mean nothing to the model: what every filter would find on the way.
    pub fn check_times(&self, spec: &FilterSpec, steps: &[Step]) -> Result<(), FilterError> {
        let mut timer = StepTimer::default();
        match self.refuses_irregular(spec) {
            true => steps.iter().try_for_each(|step| timer.check(step)),
            false => Ok(()),
        }
    }

    /// Q times `scale` and R as the library holds them. Noise per time is integrated exactly where the model is linear in
    /// continuous time; elsewhere it is Q dt.
    pub fn gaussian_noise<N: Dim, D: Dim>(
        &self,
        n: N,
        m: D,
        scale: f64,
        r: Option<&Covariance>,
    ) -> Result<GaussianNoise<N, D>, SpecError>
    where
        DefaultAllocator: Shapes<N, D>,
    {
        let missing =
            |what: &'static str, name| SpecError::of(what, format!("{name} is not given"));
        let q = self.process.as_ref().ok_or_else(|| missing("Q", "the process noise"))?;
        let r = r.ok_or_else(|| missing("R", "the measurement noise"))?;
        // A factor of one must not touch a bit.
        let cov = if scale == 1.0 { q.cov.dense(n) } else { q.cov.scaled(scale).dense(n) };
        let made = match (q.per_time, self.model.drift()) {
            (true, Some(a)) => {
                let a = Covariance::Dense(a.clone()).dense(n);
                GaussianNoise::continuous(a, cov, r.dense(m), self.dt)
            }
            (true, None) => GaussianNoise::per_time(cov, r.dense(m)),
            (false, _) => GaussianNoise::new(cov, r.dense(m)),
        };
        made.map_err(noise_error)
    }

    /// The same without matrices where none are given; no process noise where none is stated.
    pub(crate) fn slim_noise<N: Dim, D: Dim>(
        &self,
        n: N,
        m: D,
        scale: f64,
        r: Option<&Covariance>,
    ) -> Result<SlimNoise<N, D>, SpecError>
    where
        DefaultAllocator: Shapes<N, D>,
    {
        let none = ProcessNoise { cov: Covariance::Scalar(0.0), per_time: false };
        let q = self.process.as_ref().unwrap_or(&none);
        let r = r.ok_or_else(|| SpecError::of("R", "the measurement noise is not given"))?;
        if (0..m.value()).any(|i| r.variance(i) == 0.0) {
            return Err(SpecError::of("R", NEEDS_NOISE));
        }
        let exact = q.per_time && self.model.drift().is_some();
        if exact || [&q.cov, r].iter().any(|cov| matches!(cov, Covariance::Dense(_))) {
            if self.process.is_some() {
                return self.gaussian_noise(n, m, scale, Some(r)).map(SlimNoise::Joint);
            }
            let made = GaussianNoise::new(q.cov.dense(n), r.dense(m));
            return made.map(SlimNoise::Joint).map_err(noise_error);
        }
        let process = OVector::from_fn_generic(n, nalgebra::U1, |i, _| q.cov.variance(i) * scale);
        let measured = OVector::from_fn_generic(m, nalgebra::U1, |i, _| r.variance(i));
        let made = DiagonalNoise::new(process, measured).map_err(noise_error)?;
        Ok(SlimNoise::Each(if q.per_time { made.per_time() } else { made }))
    }
}

/// Why a filter that divides by R refuses one of zero.
const NEEDS_NOISE: &str =
    "must be positive for this filter; kf, ekf, iekf and ukf also take measurements without noise";

fn noise_error(error: NoiseError) -> SpecError {
    match error {
        NoiseError::ProcessCov => {
            SpecError::of("Q", "must be finite, symmetric and positive semi-definite")
        }
        _ => SpecError::of("R", "must be finite, symmetric and positive definite"),
    }
}

/// Noise no larger than it must be.
#[derive(Clone, Debug)]
pub(crate) enum SlimNoise<N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    Each(DiagonalNoise<N, M>),
    Joint(GaussianNoise<N, M>),
}

impl<N: Dim, M: Dim> Noise<N, M> for SlimNoise<N, M>
where
    DefaultAllocator: Shapes<N, M>,
{
    const IS_CHECKED: bool = true;
    fn process_cov(&self, step: &Step) -> OMatrix<f64, N, N> {
        match self {
            Self::Each(noise) => noise.process_cov(step),
            Self::Joint(noise) => noise.process_cov(step),
        }
    }
    fn measurement_cov(&self, step: &Step) -> OMatrix<f64, M, M> {
        match self {
            Self::Each(noise) => noise.measurement_cov(step),
            Self::Joint(noise) => noise.measurement_cov(step),
        }
    }
    fn may_be_exact(&self) -> bool {
        match self {
            Self::Each(noise) => noise.may_be_exact(),
            Self::Joint(noise) => noise.may_be_exact(),
        }
    }
    fn process_variances(&self, step: &Step, out: &mut [f64]) -> bool {
        matches!(self, Self::Each(noise) if noise.process_variances(step, out))
    }
    fn measurement_variances(&self, step: &Step, out: &mut [f64]) -> bool {
        matches!(self, Self::Each(noise) if noise.measurement_variances(step, out))
    }
}
