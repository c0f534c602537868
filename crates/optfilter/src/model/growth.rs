//! The univariate growth system, the classical hard case for nonlinear filters.
//!
//! ```text
//! x_t = x/2 + 25 x / (1 + x^2) + 8 cos(1.2 t),      y_t = x_t^2 / 20
//! ```
//!
//! t is the time at the end of the step (the paper: t dt with dt = 0.1). The measurement does not
//! tell the sign of the state, so the likelihood has two wells.
//!
//! References: Netto, Gimeno and Mendes 1978; Gordon, Salmond and Smith 1993; Kitagawa 1996.

use super::{Dynamics, JacobianMut, Observation, Step, Vjp};
use crate::scalar::Scalar;
use nalgebra::Const;

/// The univariate growth system.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Growth;

impl Dynamics for Growth {
    type State = Const<1>;
    #[inline(always)]
    fn state_dim(&self) -> Const<1> {
        Const
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
        let x = x[0];
        let push = 8.0 * Scalar::cos(1.2 * step.time);
        out[0] = x.scale(0.5) + x.scale(25.0) / (S::ONE + x.square()) + S::from_f64(push);
    }
    #[inline(always)]
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |_, x, _, _, r, out| {
                let square = x[0].square();
                let slope = (S::ONE - square).scale(25.0) / (S::ONE + square).square();
                out[0] = (S::from_f64(0.5) + slope) * r[0];
            },
        )
    }
}

impl Observation for Growth {
    type Output = Const<1>;
    #[inline(always)]
    fn output_dim(&self) -> Const<1> {
        Const
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0].square().scale(0.05);
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        out[(0, 0)] = 0.1 * x[0];
        true
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |_, x, _, _, r, out| out[0] = x[0].scale(0.1) * r[0],
        )
    }
}
