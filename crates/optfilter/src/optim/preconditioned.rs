//! Gradient descent preconditioned by a learning-rate matrix M.
//!
//! ```text
//! x <- x - M g
//! ```
//!
//! With M from [`crate::equivalence::learning_rate_matrix`], K such steps on a linear-Gaussian
//! likelihood land on the Kalman mean (Section 3 of the paper; Santos 1996).

use super::{Buffer, Optimizer, OptimizerError};
use crate::linalg;
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

/// Gradient descent with learning-rate matrix M (n x n, symmetric positive semi-definite).
#[derive(Clone, Debug, PartialEq)]
pub struct Preconditioned<N: Dim>
where
    DefaultAllocator: Allocator<N, N>,
{
    matrix: OMatrix<f64, N, N>,
}

impl<N: Dim> Preconditioned<N>
where
    DefaultAllocator: Allocator<N, N>,
{
    /// From a symmetric positive semi-definite matrix.
    pub fn new(matrix: OMatrix<f64, N, N>) -> Result<Self, OptimizerError> {
        if linalg::is_symmetric_psd(&matrix) {
            return Ok(Self { matrix });
        }
        let requirement = "square, finite, symmetric and positive semi-definite";
        Err(OptimizerError::Matrix { requirement })
    }

    /// The learning-rate matrix.
    pub fn matrix(&self) -> &OMatrix<f64, N, N> {
        &self.matrix
    }
}

impl<S: Scalar, N: Dim> Optimizer<S> for Preconditioned<N>
where
    DefaultAllocator: Allocator<N, N>,
{
    type State<V: Buffer<Elem = S>> = ();

    #[inline(always)]
    fn dim(&self) -> Option<usize> {
        Some(self.matrix.nrows())
    }

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, _x: &V) {}

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, (): &mut ()) {
        for (i, x) in x.as_mut_slice().iter_mut().enumerate() {
            let mut step = S::ZERO;
            for (j, g) in g.as_slice().iter().enumerate() {
                step += g.scale(self.matrix[(i, j)]);
            }
            *x -= step;
        }
    }
}
