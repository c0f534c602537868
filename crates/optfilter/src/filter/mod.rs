//! Filters: one per file, all with the same `predict` and `update`.
//!
//! | filter | belief | asks of the model |
//! |---|---|---|
//! | [`Kalman`] | Gaussian | linear, noise |
//! | [`Extended`] | Gaussian | derivatives (automatic), noise |
//! | [`Iterated`] | Gaussian | derivatives (automatic), noise |
//! | [`Unscented`] | Gaussian | values, noise |
//! | [`Particle`] | weighted samples | values, process noise, likelihood |
//! | [`Variational`] | point | gradient of the likelihood, a prior covariance |
//! | [`ImplicitMap`] | point | gradient of the likelihood, an optimizer and a number of steps |
//!
//! A filter holds the model and its settings; what it believes is passed in. So one filter serves many
//! trajectories, and a belief is all there is to save.
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{Extended, Filter, GaussianBelief};
//! use optfilter::model::{GaussianNoise, Growth, Step};
//!
//! let filter = Extended::new(Growth, GaussianNoise::new(matrix![1.0], matrix![1.0])?);
//! let mut belief = GaussianBelief::new(vector![0.1], matrix![1.0])?;
//! let step = Step::even(1, 0.1);
//! filter.predict(&mut belief, &[], &step)?;
//! let update = filter.update(&mut belief, &[4.2], &[], &step)?;
//! assert!(update.log_likelihood.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod extended;
mod gaussian;
mod implicit_map;
mod iterated;
mod kalman;
mod particle;
mod resampling;
mod unscented;
mod variational;

pub use extended::Extended;
pub(crate) use extended::predict_linearized;
pub use gaussian::GaussianBelief;
pub(crate) use gaussian::{GaussianMeasurement, condition, gaussian_log_density, propagate};
pub use implicit_map::{ImplicitMap, Memory, PointBelief};
pub(crate) use implicit_map::{MeasurementLoss, refine};
pub use iterated::Iterated;
pub use kalman::Kalman;
pub use particle::{Particle, ParticleBelief, Resampling};
pub use resampling::{Scheme, resample};
pub use unscented::{SigmaPoints, Unscented};
pub use variational::Variational;

use crate::Shapes;
use crate::model::Step;
use crate::model::likelihood::Observed;
use crate::series::Series;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// What a filter believes of the state; all kinds have a mean, some a covariance.
pub trait Belief<N: Dim>: Clone
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The estimate.
    fn mean(&self) -> OVector<f64, N>;
    /// Its error covariance (n x n), if the filter has one.
    fn cov(&self) -> Option<OMatrix<f64, N, N>>;
}

/// What an update learnt from a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Update<M: Dim>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    /// Measurement less prediction; zero where the measurement is missing.
    pub innovation: OVector<f64, M>,
    /// The innovation's covariance S; rows and columns of missing components are the identity's.
    pub innovation_cov: Option<OMatrix<f64, M, M>>,
    /// ln p(y_t | y_1 .. y_{t-1}) of the observed components.
    pub log_likelihood: Option<f64>,
    /// The normalised innovation squared v' S^-1 v, chi-square with [`observed`](Self::observed)
    /// degrees of freedom if the filter is consistent.
    pub nis: Option<f64>,
    /// How many components were observed.
    pub observed: usize,
}

impl<M: Dim> Update<M>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    /// Of a measurement that is missing altogether: nothing was learnt.
    pub(crate) fn nothing(m: M, gaussian: bool) -> Self {
        Self {
            innovation: OVector::zeros_generic(m, U1),
            innovation_cov: gaussian.then(|| OMatrix::identity_generic(m, m)),
            log_likelihood: gaussian.then_some(0.0),
            nis: gaussian.then_some(0.0),
            observed: 0,
        }
    }
}

/// A Bayesian filter: predict through a step, update by a measurement.
pub trait Filter {
    /// The dimension of the state.
    type State: Dim;
    /// The dimension of the measurement.
    type Output: Dim;
    /// What the filter believes.
    type Belief;

    /// The dimensions of state and measurement, and the number of control inputs.
    fn dims(&self) -> (Self::State, Self::Output, usize);

    /// Carries the belief through a step.
    fn predict(&self, belief: &mut Self::Belief, u: &[f64], step: &Step)
    -> Result<(), FilterError>;

    /// Improves the belief by the measurement `y` at the end of the step; NaN marks what is missing.
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<Self::Output>, FilterError>
    where
        DefaultAllocator: Allocator<Self::Output> + Allocator<Self::Output, Self::Output>;

    /// Predicts and updates through a whole series. The belief ends where the series does.
    fn run(&self, belief: &mut Self::Belief, series: &Series<'_>) -> Result<Trace, FilterError>
    where
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let (n, m, inputs) = self.dims();
        check_len("observations", m.value(), series.output_dim(), None)?;
        check_len("inputs", inputs, series.input_dim(), None)?;
        let mut trace = Trace::new(n.value(), m.value());
        for k in 0..series.len() {
            let (step, u) = (series.step(k), series.input(k));
            self.predict(belief, u, &step)?;
            let update = self.update(belief, series.observation(k), u, &step)?;
            let mean = belief.mean();
            if !mean.iter().all(|v| v.is_finite()) {
                return Err(trace.diverged(step.index, "mean"));
            }
            let cov = belief.cov();
            if !cov.iter().flat_map(|c| c.iter()).all(|v| v.is_finite()) {
                return Err(trace.diverged(step.index, "cov"));
            }
            trace.push(mean.as_slice(), cov.as_ref().map(|c| c.as_slice()), &update);
        }
        Ok(trace)
    }
}

/// The results of a whole series, as flat rows in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Components of the state.
    pub state_dim: usize,
    /// Components of a measurement.
    pub output_dim: usize,
    /// Estimates after each update, T x n.
    pub means: Vec<f64>,
    /// Their error covariances, T x n x n; empty if the filter has none.
    pub covs: Vec<f64>,
    /// Innovations, T x m.
    pub innovations: Vec<f64>,
    /// Innovation covariances, T x m x m; empty if the filter has none.
    pub innovation_covs: Vec<f64>,
    /// Log-likelihood of each measurement given those before; empty if the filter has none.
    pub log_likelihoods: Vec<f64>,
    /// Normalised innovations squared; empty if the filter has none.
    pub nis: Vec<f64>,
    /// Observed components at each time.
    pub observed: Vec<usize>,
}

impl Trace {
    fn new(state_dim: usize, output_dim: usize) -> Self {
        Self { state_dim, output_dim, ..Self::default() }
    }

    fn push<M: Dim>(&mut self, mean: &[f64], cov: Option<&[f64]>, update: &Update<M>)
    where
        DefaultAllocator: Allocator<M> + Allocator<M, M>,
    {
        self.means.extend_from_slice(mean);
        self.covs.extend_from_slice(cov.unwrap_or_default());
        self.innovations.extend_from_slice(update.innovation.as_slice());
        if let Some(s) = &update.innovation_cov {
            self.innovation_covs.extend_from_slice(s.as_slice());
        }
        self.log_likelihoods.extend(update.log_likelihood);
        self.nis.extend(update.nis);
        self.observed.push(update.observed);
    }

    /// The number of time steps.
    pub fn len(&self) -> usize {
        self.observed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.observed.is_empty()
    }

    /// The estimate at time `k`, from 0.
    pub fn mean(&self, k: usize) -> &[f64] {
        &self.means[k * self.state_dim..(k + 1) * self.state_dim]
    }

    /// The error covariance at time `k` (n x n, symmetric), if the filter has one.
    pub fn cov(&self, k: usize) -> Option<&[f64]> {
        let size = self.state_dim * self.state_dim;
        self.covs.get(k * size..(k + 1) * size)
    }

    /// The log-likelihood of the whole series, if the filter has one.
    pub fn log_likelihood(&self) -> Option<f64> {
        (!self.log_likelihoods.is_empty()).then(|| self.log_likelihoods.iter().sum())
    }

    /// The error of a filter whose `quantity` left the finite numbers after what is recorded here.
    fn diverged(&self, index: u64, quantity: &'static str) -> FilterError {
        let last = self.means.len().saturating_sub(self.state_dim);
        FilterError::Diverged { index, quantity, last_good: self.means[last..].to_vec() }
    }
}

/// What can go wrong while filtering.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// An argument has the wrong number of components.
    #[error("{argument} has {found} numbers where {expected} are needed{}", at(.index))]
    Size {
        /// The argument.
        argument: &'static str,
        /// Numbers needed.
        expected: usize,
        /// Numbers given.
        found: usize,
        /// The time index, from 1, where there is one.
        index: Option<u64>,
    },
    /// An argument is NaN or infinite where it must not be.
    #[error("{argument}: component {component} is not a finite number{}", at(.index))]
    NotFinite {
        /// The argument.
        argument: &'static str,
        /// The component.
        component: usize,
        /// The time index, where there is one.
        index: Option<u64>,
    },
    /// An argument that must hold something is empty.
    #[error("{argument} is empty")]
    Empty {
        /// The argument.
        argument: &'static str,
    },
    /// A time step that is not positive.
    #[error("dt = {dt} is not allowed; a time step must be positive and finite")]
    TimeStep {
        /// The step.
        dt: f64,
    },
    /// Times that decrease.
    #[error(
        "times run backwards at time index {index}: {time} after {previous}; sort the measurements by time"
    )]
    TimeBackwards {
        /// The time index of the later measurement.
        index: u64,
        /// The time before.
        previous: f64,
        /// The smaller time after it.
        time: f64,
    },
    /// A count that must be at least 1.
    #[error("{argument} must be at least 1")]
    Zero {
        /// The argument.
        argument: &'static str,
    },
    /// A setting outside its range.
    #[error("{argument} = {value} is not allowed; it must be {requirement}")]
    Setting {
        /// The argument.
        argument: &'static str,
        /// The value given.
        value: f64,
        /// The values allowed.
        requirement: &'static str,
    },
    /// A measurement that the likelihood says cannot occur.
    #[error(
        "measurement {value} of component {component} at time index {index} is impossible under the likelihood"
    )]
    Impossible {
        /// The time index.
        index: u64,
        /// The component.
        component: usize,
        /// The measurement.
        value: f64,
    },
    /// A matrix that should be a covariance is not positive definite.
    #[error("{quantity} is not symmetric positive definite{}", at(.index))]
    NotPositiveDefinite {
        /// The matrix.
        quantity: &'static str,
        /// The time index, where there is one.
        index: Option<u64>,
    },
    /// The filter left the finite numbers.
    #[error(
        "the filter diverged at time index {index}: {quantity} is not finite; last good state {last_good:?}"
    )]
    Diverged {
        /// The time index.
        index: u64,
        /// What became infinite or NaN.
        quantity: &'static str,
        /// The last finite estimate; empty if there was none.
        last_good: Vec<f64>,
    },
}

/// " at time index t", or nothing.
fn at(index: &Option<u64>) -> alloc::string::String {
    index.map(|t| alloc::format!(" at time index {t}")).unwrap_or_default()
}

/// Checks the length of an argument.
#[inline(always)]
pub(crate) fn check_len(
    argument: &'static str,
    expected: usize,
    found: usize,
    index: Option<u64>,
) -> Result<(), FilterError> {
    if found == expected {
        Ok(())
    } else {
        Err(FilterError::Size { argument, expected, found, index })
    }
}

/// Checks the control inputs of a step: their number, and that all are finite.
#[inline(always)]
pub(crate) fn check_inputs(expected: usize, u: &[f64], step: &Step) -> Result<(), FilterError> {
    check_len("u", expected, u.len(), Some(step.index))?;
    match u.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(component) => {
            Err(FilterError::NotFinite { argument: "u", component, index: Some(step.index) })
        }
    }
}

/// Checks that a matrix is n x n. Sizes known at compile time make this nothing.
#[inline(always)]
pub(crate) fn check_square<N: Dim>(
    argument: &'static str,
    n: usize,
    matrix: &OMatrix<f64, N, N>,
    index: Option<u64>,
) -> Result<(), FilterError>
where
    DefaultAllocator: Allocator<N, N>,
{
    check_len(argument, n, matrix.nrows(), index)?;
    check_len(argument, n * n, matrix.len(), index)
}

/// Checks that a Gaussian belief is about a state of `n` components.
#[inline(always)]
pub(crate) fn check_belief<N: Dim>(
    belief: &GaussianBelief<N>,
    n: usize,
    step: &Step,
) -> Result<(), FilterError>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    check_len("belief", n, belief.mean.nrows(), Some(step.index))?;
    check_square("belief's cov", n, &belief.cov, Some(step.index))
}

/// Checks the measurement and the inputs of an update: sizes, and no infinite number.
#[inline(always)]
pub(crate) fn check_measurement(
    m: usize,
    inputs: usize,
    y: &[f64],
    u: &[f64],
    step: &Step,
) -> Result<(), FilterError> {
    check_len("y", m, y.len(), Some(step.index))?;
    check_inputs(inputs, u, step)?;
    for (component, v) in y.iter().enumerate() {
        if v.is_infinite() {
            return Err(FilterError::NotFinite {
                argument: "y",
                component,
                index: Some(step.index),
            });
        }
    }
    Ok(())
}

/// Calls `f` with the observed components of `y`: all of them without further cost where none is
/// missing.
#[inline(always)]
pub(crate) fn with_observed<M: Dim, R>(m: M, y: &[f64], f: impl FnOnce(Observed<'_>) -> R) -> R
where
    DefaultAllocator: Allocator<M>,
{
    if !y.iter().any(|v| v.is_nan()) {
        return f(Observed::All);
    }
    let mut mask = OVector::<bool, M>::from_element_generic(m, U1, true);
    for (mask, v) in mask.as_mut_slice().iter_mut().zip(y) {
        *mask = !v.is_nan();
    }
    f(Observed::Some(mask.as_slice()))
}

/// Measurement less prediction, zero where missing, angles brought into half a turn.
#[inline(always)]
pub(crate) fn residual<O: crate::model::Observation>(
    observation: &O,
    y: &[f64],
    predicted: &OVector<f64, O::Output>,
    observed: Observed<'_>,
) -> OVector<f64, O::Output>
where
    DefaultAllocator: Allocator<O::Output>,
{
    let mut v = predicted.clone();
    for i in 0..y.len() {
        let difference = y[i] - predicted[i];
        v[i] = match (observed.has(i), observation.is_angle(i)) {
            (false, _) => 0.0,
            (true, false) => difference,
            (true, true) => crate::scalar::Scalar::wrap_angle(difference),
        };
    }
    v
}
