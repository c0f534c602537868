//! Gaussian random walk seen directly: x_t = x_{t-1} + q, y_t = x_t + r.
//!
//! The least one can say of a state: it is about where it was. In the paper's Lorenz experiment it
//! stands for dynamics that are not known at all.

use super::{Dynamics, JacobianMut, Observation, Step, Vjp};
use crate::scalar::Scalar;
use nalgebra::Dim;

/// A random walk in `N` dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RandomWalk<N: Dim> {
    dim: N,
}

impl<N: Dim> RandomWalk<N> {
    /// In `dim` dimensions.
    pub fn new(dim: N) -> Self {
        Self { dim }
    }
}

/// Writes the identity matrix.
pub(crate) fn write_identity(n: usize, out: &mut JacobianMut<'_>) -> bool {
    for i in 0..n {
        out[(i, i)] = 1.0;
    }
    true
}

impl<N: Dim> Dynamics for RandomWalk<N> {
    type State = N;
    #[inline(always)]
    fn state_dim(&self) -> N {
        self.dim
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
    #[inline(always)]
    fn transition_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        write_identity(x.len(), out)
    }
    #[inline(always)]
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |_, _, _, _, r, out| out.copy_from_slice(r),
        )
    }
}

impl<N: Dim> Observation for RandomWalk<N> {
    type Output = N;
    #[inline(always)]
    fn output_dim(&self) -> N {
        self.dim
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
