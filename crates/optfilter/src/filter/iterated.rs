//! The iterated extended Kalman filter: the update is linearised again at its own result.
//!
//! ```text
//! x0 = m-;   for i = 1..K:  H = dh/dx at x,  v = y - h(x) - H (m- - x),  x <- m- + G v
//! m = x_K,  P from the H of the last iteration, in Joseph form
//! ```
//!
//! This is Gauss-Newton on the posterior, so on a linear system every K gives the Kalman filter, mean
//! and covariance. The log-likelihood and the normalised innovation are those of the last
//! linearisation; the innovation returned is y - h(m-).
//!
//! Reference: Bell and Cathey 1993; Gelb 1974.

use super::extended::predict_linearized;
use super::{Filter, FilterError, GaussianBelief, GaussianMeasurement, Update};
use super::{check_belief, check_measurement, condition, residual, with_observed};
use crate::Shapes;
use crate::model::likelihood::Observed;
use crate::model::{Model, Noise, Step, linearize_observation};
use nalgebra::{DefaultAllocator, Dim};

/// The iterated extended Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Iterated<M, Q> {
    model: M,
    noise: Q,
    iterations: u32,
}

impl<M: Model, Q: Noise<M::State, M::Output>> Iterated<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, its noise and the number of linearisations per update (1 is the extended filter).
    pub fn new(model: M, noise: Q, iterations: u32) -> Result<Self, FilterError> {
        if iterations == 0 {
            return Err(FilterError::Zero { argument: "iterations" });
        }
        Ok(Self { model, noise, iterations })
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for Iterated<M, Q>
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
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        check_measurement(m.value(), self.model.input_dim(), y, u, step)?;
        check_belief(belief, n.value(), step)?;
        with_observed(
            m,
            y,
            #[inline(always)]
            |observed: Observed<'_>| {
                if observed.count(y.len()) == 0 {
                    return Ok(Update::nothing(m, true));
                }
                let prior = belief.clone();
                let mut innovation = None;
                let mut last = Update::nothing(m, true);
                for _ in 0..self.iterations {
                    let (predicted, h) =
                        linearize_observation(&self.model, n, belief.mean.as_slice(), u, step);
                    let mut v = residual(&self.model, y, &predicted, observed);
                    innovation.get_or_insert_with(|| v.clone());
                    let shift = &h * (&prior.mean - &belief.mean);
                    for i in observed.indices(v.nrows()) {
                        v[i] -= shift[i];
                    }
                    *belief = prior.clone();
                    let r = self.noise.measurement_cov(step);
                    last = condition(
                        belief,
                        GaussianMeasurement { residual: v, h, r },
                        observed,
                        step.index,
                    )?;
                }
                if let Some(innovation) = innovation {
                    last.innovation = innovation;
                }
                Ok(last)
            },
        )
    }
}
