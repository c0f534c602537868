//! Lorenz's 1963 model of convection, three chaotic equations seen in full.
//!
//! ```text
//! dx1 = sigma (x2 - x1),   dx2 = x1 (rho - x3) - x2,   dx3 = x1 x2 - beta x3
//! ```
//!
//! Reference: Lorenz 1963. The stochastic version adds alpha dW; see
//! [`euler_maruyama`](super::integrator::euler_maruyama).

use super::integrator::DriftVjp;
use super::random_walk::write_identity;
use super::{Drift, Integrated, Integrator, JacobianMut, Observation, Step, Vjp};
use crate::scalar::Scalar;
use nalgebra::Const;
use serde::{Deserialize, Serialize};

/// The equations and their constants. [`rk4`](Lorenz63::rk4) or [`euler`](Lorenz63::euler) make a
/// model of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lorenz63 {
    /// Prandtl number.
    pub sigma: f64,
    /// Rayleigh number over its critical value.
    pub rho: f64,
    /// Aspect ratio.
    pub beta: f64,
}

impl Default for Lorenz63 {
    fn default() -> Self {
        Self { sigma: 10.0, rho: 28.0, beta: 8.0 / 3.0 }
    }
}

impl Lorenz63 {
    /// Stepped by fourth-order Runge-Kutta.
    pub fn rk4(self) -> Integrated<Self> {
        Integrated::new(self, Integrator::Rk4)
    }

    /// Stepped by Euler's method.
    pub fn euler(self) -> Integrated<Self> {
        Integrated::new(self, Integrator::Euler)
    }
}

impl Drift for Lorenz63 {
    type State = Const<3>;
    #[inline(always)]
    fn state_dim(&self) -> Const<3> {
        Const
    }
    #[inline(always)]
    fn drift<S: Scalar>(&self, x: &[S], _u: &[f64], _time: f64, out: &mut [S]) {
        let (x1, x2, x3) = (x[0], x[1], x[2]);
        out[0] = (x2 - x1).scale(self.sigma);
        out[1] = x1 * (S::from_f64(self.rho) - x3) - x2;
        out[2] = x1 * x2 - x3.scale(self.beta);
    }
    #[inline(always)]
    fn drift_vjp<S: Scalar>(&self) -> Option<DriftVjp<Self, S>> {
        Some(
            #[inline(always)]
            |model, x, _, _, r, out| {
                out[0] =
                    r[1] * (S::from_f64(model.rho) - x[2]) + r[2] * x[1] - r[0].scale(model.sigma);
                out[1] = r[0].scale(model.sigma) - r[1] + r[2] * x[0];
                out[2] = -(r[1] * x[0]) - r[2].scale(model.beta);
            },
        )
    }
}

impl Observation for Lorenz63 {
    type Output = Const<3>;
    #[inline(always)]
    fn output_dim(&self) -> Const<3> {
        Const
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        true
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        write_identity(x.len(), out)
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |_, _, _, _, r, out| out.copy_from_slice(r),
        )
    }
}
