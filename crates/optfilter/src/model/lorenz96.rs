//! Lorenz's 1996 model of the atmosphere on a circle of latitude, of any size.
//!
//! ```text
//! dx_i = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + forcing,     indices modulo n
//! ```
//!
//! Chaotic for forcing = 8. Reference: Lorenz 1996, "Predictability: a problem partly solved".

use super::random_walk::write_identity;
use super::{Drift, Integrated, Integrator, JacobianMut, Observation, PullBack, Step};
use crate::scalar::Scalar;
use nalgebra::Dim;

/// The equations on `N` points, seen in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lorenz96<N: Dim> {
    dim: N,
    forcing: f64,
}

impl<N: Dim> Lorenz96<N> {
    /// On `dim` points with the given forcing.
    pub fn new(dim: N, forcing: f64) -> Self {
        Self { dim, forcing }
    }

    /// Stepped by fourth-order Runge-Kutta.
    pub fn rk4(self) -> Integrated<Self> {
        Integrated::new(self, Integrator::Rk4)
    }

    /// Stepped by Euler's method.
    pub fn euler(self) -> Integrated<Self> {
        Integrated::new(self, Integrator::Euler)
    }
}

impl<N: Dim> Drift for Lorenz96<N> {
    type State = N;
    #[inline(always)]
    fn state_dim(&self) -> N {
        self.dim
    }
    #[inline(always)]
    fn drift<S: Scalar>(&self, x: &[S], _u: &[f64], _time: f64, out: &mut [S]) {
        let n = x.len();
        let forcing = S::from_f64(self.forcing);
        for i in 0..n {
            let (next, before, twice) =
                (x[(i + 1) % n], x[(i + n - 1) % n], x[(i + 2 * n - 2) % n]);
            out[i] = (next - twice) * before - x[i] + forcing;
        }
    }
}

impl<N: Dim> Observation for Lorenz96<N> {
    type Output = N;
    #[inline(always)]
    fn output_dim(&self) -> N {
        self.dim
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
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        Some(
            #[inline(always)]
            |_, _, _, _, r, out| out.copy_from_slice(r),
        )
    }
}
