//! Lorenz's 1996 model of the atmosphere on a circle of latitude, of any size.
//!
//! ```text
//! dx_i = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + forcing,     indices modulo n
//! ```
//!
//! Chaotic for forcing = 8. Reference: Lorenz 1996, "Predictability: a problem partly solved".

use super::integrator::DriftPullBack;
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

/// Writes `f` of the five indices around each point of a circle of `n`. Only the four points at the seam pay for
/// a division.
#[inline(always)]
fn around<S>(n: usize, out: &mut [S], f: impl Fn([usize; 5]) -> S) {
    for i in 0..n {
        if i >= 2 && i + 2 < n {
            continue;
        }
        out[i] = f([i + 2 * n - 2, i + 2 * n - 1, i, i + 1, i + 2].map(|k| k % n));
    }
    for i in 2..n.saturating_sub(2) {
        out[i] = f([i - 2, i - 1, i, i + 1, i + 2]);
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
        let forcing = S::from_f64(self.forcing);
        around(
            x.len(),
            out,
            #[inline(always)]
            |[twice, before, i, next, _]| (x[next] - x[twice]) * x[before] - x[i] + forcing,
        );
    }
    #[inline(always)]
    fn drift_pull_back<S: Scalar>(&self) -> Option<DriftPullBack<Self, S>> {
        Some(
            #[inline(always)]
            |_, x, _, _, r, out| {
                around(
                    x.len(),
                    out,
                    #[inline(always)]
                    |[twice, before, i, next, second]| {
                        r[before] * x[twice] + r[next] * (x[second] - x[before])
                            - r[second] * x[next]
                            - r[i]
                    },
                );
            },
        )
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
