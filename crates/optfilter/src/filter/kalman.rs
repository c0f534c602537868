//! The Kalman filter: exact for linear-Gaussian systems.
//!
//! ```text
//! predict   m <- F m + B u,   P <- F P F' + Q
//! update    v = y - H m;  then as in the shared Gaussian update, in Joseph form
//! ```
//!
//! Reference: Kalman 1960; Sarkka and Svensson 2023, chapter 6.

use super::gaussian::{GaussianBelief, GaussianMeasurement, conditioned, propagated};
use super::traits::{Filter, Update, residual};
use crate::Shapes;
use crate::error::{FilterError, check_square};
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
    fn propagate(
        &self,
        belief: &GaussianBelief<N>,
        u: &[f64],
        step: &Step,
    ) -> Result<GaussianBelief<N>, FilterError> {
        let n = self.model.state_dim();
        let q = self.noise.process_cov(step);
        check_square("process_cov (Q)", n.value(), &q, Some(step.index))?;
        let mut mean = OVector::zeros_generic(n, U1);
        self.model.transition(belief.mean.as_slice(), u, step, mean.as_mut_slice());
        Ok(GaussianBelief { mean, cov: propagated(&belief.cov, self.model.f(), q) })
    }

    #[inline]
    fn correct(
        &self,
        belief: &GaussianBelief<N>,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(GaussianBelief<N>, Update<M>), FilterError> {
        let mut predicted = OVector::zeros_generic(self.model.output_dim(), U1);
        self.model.observe(belief.mean.as_slice(), u, step, predicted.as_mut_slice());
        let measurement = GaussianMeasurement {
            residual: residual(&self.model, y, &predicted, observed),
            h: self.model.h().clone(),
            r: self.noise.measurement_cov(step),
        };
        conditioned(belief, measurement, observed, step.index)
    }
}
