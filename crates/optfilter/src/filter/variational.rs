//! The variational Kalman filter: an explicit Gaussian prior around the prediction, optimised.
//!
//! ```text
//! predict   m <- f(m)
//! update    K optimizer steps on  -ln p(y | h(x)) + 1/2 (x - m)' Sigma^-1 (x - m),  from m
//! ```
//!
//! The counterpart of the implicit filter: the same point estimate and the same optimizer, but the
//! prior is stated (the paper: Sigma = sigma^2 I) and the optimisation run to convergence.
//!
//! One measurement of the growth system, with a prior variance of 2 around the prediction:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{Filter, PointBelief, VariationalKalmanFilter};
//! use optfilter::model::{Growth, Step, likelihood::SquaredError};
//! use optfilter::optim::GradientDescent;
//! let descent = GradientDescent::new(0.5)?;
//! let filter = VariationalKalmanFilter::new(Growth, SquaredError, matrix![2.0], descent, 100)?;
//! let mut belief = PointBelief::new(vector![4.0])?;
//! filter.update(&mut belief, &[1.3], &[], &Step::even(1, 0.1))?;
//! println!("{:.9}", belief.mean[0]);
//! assert_eq!(format!("{:.9}", belief.mean[0]), "4.317679481"); // the root of the slope by scipy's brentq
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: the paper's appendix on the VKF; Auvinen et al. 2010.

use super::point::{
    MeasurementLoss, PointBelief, check_parts, check_possible, moved, predicted_measurement,
};
use super::traits::{Filter, Update, residual};
use crate::Shapes;
use crate::error::{FilterError, check_len, check_square};
use crate::model::likelihood::{Gaussian, Likelihood, Observed};
use crate::model::{Model, Step};
use crate::optim::{Bounds, Objective, Optimizer, descend_within};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// The variational Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct VariationalKalmanFilter<M: Model, L, O>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    model: M,
    likelihood: L,
    prior: Gaussian<M::State>,
    optimizer: O,
    steps: u32,
    bounds: Option<Bounds>,
    cadence: Option<f64>,
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> VariationalKalmanFilter<M, L, O>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, a likelihood, the prior covariance around each prediction (n x n, positive
    /// definite), an optimizer and its number of steps per measurement.
    pub fn new(
        model: M,
        likelihood: L,
        prior_cov: OMatrix<f64, M::State, M::State>,
        optimizer: O,
        steps: u32,
    ) -> Result<Self, FilterError> {
        let n = model.state_dim().value();
        check_square("prior_cov", n, &prior_cov, None)?;
        let prior = Gaussian::new(prior_cov)
            .map_err(|_| FilterError::NotPositiveDefinite { quantity: "prior_cov", index: None });
        Self::around(model, likelihood, prior?, optimizer, steps)
    }

    /// The same with a prior that may be of independent components, which is no matrix.
    pub fn around(
        model: M,
        likelihood: L,
        prior: Gaussian<M::State>,
        optimizer: O,
        steps: u32,
    ) -> Result<Self, FilterError> {
        if steps == 0 {
            return Err(FilterError::Zero { argument: "steps" });
        }
        check_parts(&model, &likelihood, &optimizer, None)?;
        let n = model.state_dim().value();
        check_len("prior_cov", n, prior.dim().unwrap_or(n), None)?;
        Ok(Self { model, likelihood, prior, optimizer, steps, bounds: None, cadence: None })
    }

    /// With a prior that is of a step of length `cadence`, and grows with the time since the row before that was
    /// measured. A row at the time of the one before has the prior as it is.
    #[must_use]
    pub fn with_cadence(mut self, cadence: f64) -> Self {
        self.cadence = Some(cadence);
        self
    }

    /// With the state kept inside a box: the prediction, and every point of the descent.
    pub fn with_bounds(mut self, bounds: Bounds) -> Result<Self, FilterError> {
        check_len("bounds", self.model.state_dim().value(), bounds.dim(), None)?;
        self.bounds = Some(bounds);
        Ok(self)
    }
}

/// Measurement loss plus the distance to the prediction.
struct Penalized<'a, M: Model, L>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    loss: MeasurementLoss<'a, M, L, f64>,
    prior: &'a Gaussian<M::State>,
    prediction: &'a [f64],
    /// The prior's covariance over that of a step of the usual length.
    width: f64,
    pull: OVector<f64, M::State>,
}

impl<M: Model, L: Likelihood> Objective<f64> for Penalized<'_, M, L>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    fn value(&mut self, x: &[f64]) -> f64 {
        self.loss.value(x) + self.prior.loss(self.prediction, x, Observed::All) / self.width
    }
    fn gradient(&mut self, x: &[f64], out: &mut [f64]) {
        self.loss.gradient(x, out);
        self.prior.score(self.prediction, x, Observed::All, self.pull.as_mut_slice());
        for (out, pull) in out.iter_mut().zip(self.pull.as_slice()) {
            *out += pull / self.width;
        }
    }
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> Filter for VariationalKalmanFilter<M, L, O>
where
    DefaultAllocator: Shapes<M::State, M::Output> + Allocator<M::State>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = PointBelief<M::State, ()>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let mean = moved(&self.model, belief.mean.as_slice(), u, step);
        Ok(PointBelief { mean, optimizer_state: None })
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        check_possible(&self.likelihood, y, observed, step)?;
        let (model, likelihood) = (&self.model, &self.likelihood);
        let predicted = predicted_measurement(model, likelihood, belief.mean.as_slice(), u, step);
        let innovation = residual(model, y, predicted, observed);
        let mut objective = Penalized {
            loss: MeasurementLoss { model, likelihood, y, u, step, observed },
            prior: &self.prior,
            prediction: belief.mean.as_slice(),
            width: match self.cadence.map(|cadence| step.since / cadence) {
                Some(width) if width > 0.0 => width,
                _ => 1.0,
            },
            pull: OVector::zeros_generic(self.model.state_dim(), U1),
        };
        let mut x = belief.mean.clone();
        let mut state = self.optimizer.init(&x);
        let (optimizer, bounds) = (&self.optimizer, self.bounds.as_ref());
        descend_within(optimizer, &mut objective, &mut x, &mut state, self.steps, bounds);
        Ok((PointBelief { mean: x, optimizer_state: None }, Update::point(innovation)))
    }
}
