//! The extended Kalman filter: the Kalman filter of the model linearised at the estimate.
//!
//! ```text
//! predict   m <- f(m),  P <- F P F' + Q,  F = df/dx at the previous mean
//! update    v = y - h(m),  H = dh/dx at the predicted mean;  then the shared Gaussian update
//! ```
//!
//! Derivatives are automatic unless the model has its own. Some programs linearise f at the already
//! propagated mean; that is not the textbook filter and not this one.
//!
//! Reference: Gelb 1974; Sarkka and Svensson 2023, chapter 7.

use super::{Filter, FilterError, GaussianBelief, GaussianMeasurement, Update};
use super::{check_belief, check_inputs, check_measurement, check_square, condition};
use super::{propagate, residual, with_observed};
use crate::Shapes;
use crate::model::likelihood::Observed;
use crate::model::{Dynamics, Model, Noise, Step, linearize_observation, linearize_transition};
use nalgebra::{DefaultAllocator, Dim};

/// The extended Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Extended<M, Q> {
    pub(super) model: M,
    pub(super) noise: Q,
}

impl<M: Model, Q: Noise<M::State, M::Output>> Extended<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model and its noise.
    pub fn new(model: M, noise: Q) -> Self {
        Self { model, noise }
    }
}

/// m <- f(m), P <- F P F' + Q.
#[inline(always)]
pub(crate) fn predict_linearized<D: Dynamics>(
    dynamics: &D,
    process_cov: nalgebra::OMatrix<f64, D::State, D::State>,
    belief: &mut GaussianBelief<D::State>,
    u: &[f64],
    step: &Step,
) -> Result<(), FilterError>
where
    DefaultAllocator: nalgebra::allocator::Allocator<D::State>
        + nalgebra::allocator::Allocator<D::State, D::State>,
{
    let n = dynamics.state_dim().value();
    check_inputs(dynamics.input_dim(), u, step)?;
    check_belief(belief, n, step)?;
    check_square("process_cov (Q)", n, &process_cov, Some(step.index))?;
    let (mean, f) = linearize_transition(dynamics, belief.mean.as_slice(), u, step);
    belief.mean = mean;
    propagate(&mut belief.cov, &f, process_cov);
    Ok(())
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for Extended<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = GaussianBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    #[inline]
    fn predict(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        predict_linearized(&self.model, self.noise.process_cov(step), belief, u, step)
    }

    #[inline]
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        let m = self.model.output_dim();
        check_measurement(m.value(), self.model.input_dim(), y, u, step)?;
        check_belief(belief, self.model.state_dim().value(), step)?;
        with_observed(
            m,
            y,
            #[inline(always)]
            |observed: Observed<'_>| {
                if observed.count(y.len()) == 0 {
                    return Ok(Update::nothing(m, true));
                }
                let n = self.model.state_dim();
                let (predicted, h) =
                    linearize_observation(&self.model, n, belief.mean.as_slice(), u, step);
                let residual = residual(&self.model, y, &predicted, observed);
                let r = self.noise.measurement_cov(step);
                condition(belief, GaussianMeasurement { residual, h, r }, observed, step.index)
            },
        )
    }
}
