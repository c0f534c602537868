//! The Kalman filter: exact for linear-Gaussian systems.
//!
//! ```text
//! predict   m <- F m + B u,   P <- F P F' + Q
//! update    v = y - H m;  then as in the shared Gaussian update, in Joseph form
//! ```
//!
//! Reference: Kalman 1960; Sarkka and Svensson 2023, chapter 6.

use super::{Filter, FilterError, GaussianBelief, GaussianMeasurement, Update};
use super::{check_belief, check_inputs, check_measurement, check_square, condition};
use super::{propagate, residual, with_observed};
use crate::Shapes;
use crate::model::likelihood::Observed;
use crate::model::{Dynamics, Linear, Noise, Observation, Step};
use nalgebra::{DefaultAllocator, Dim, OVector, U1};

/// The Kalman filter of a linear model.
#[derive(Clone, Debug, PartialEq)]
pub struct Kalman<N: Dim, M: Dim, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    model: Linear<N, M>,
    noise: Q,
}

impl<N: Dim, M: Dim, Q: Noise<N, M>> Kalman<N, M, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// From a linear model and its noise.
    pub fn new(model: Linear<N, M>, noise: Q) -> Self {
        Self { model, noise }
    }
}

impl<N: Dim, M: Dim, Q: Noise<N, M>> Filter for Kalman<N, M, Q>
where
    DefaultAllocator: Shapes<N, M>,
{
    type State = N;
    type Output = M;
    type Belief = GaussianBelief<N>;

    fn dims(&self) -> (N, M, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    #[inline]
    fn predict(
        &self,
        belief: &mut GaussianBelief<N>,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        check_inputs(self.model.input_dim(), u, step)?;
        check_belief(belief, self.model.state_dim().value(), step)?;
        let q = self.noise.process_cov(step);
        check_square("process_cov (Q)", self.model.state_dim().value(), &q, Some(step.index))?;
        let mut mean = OVector::zeros_generic(self.model.state_dim(), U1);
        self.model.transition(belief.mean.as_slice(), u, step, mean.as_mut_slice());
        belief.mean = mean;
        propagate(&mut belief.cov, self.model.f(), q);
        Ok(())
    }

    #[inline]
    fn update(
        &self,
        belief: &mut GaussianBelief<N>,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M>, FilterError> {
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
                let mut predicted = OVector::zeros_generic(m, U1);
                self.model.observe(belief.mean.as_slice(), u, step, predicted.as_mut_slice());
                let measurement = GaussianMeasurement {
                    residual: residual(&self.model, y, &predicted, observed),
                    h: self.model.h().clone(),
                    r: self.noise.measurement_cov(step),
                };
                condition(belief, measurement, observed, step.index)
            },
        )
    }
}
