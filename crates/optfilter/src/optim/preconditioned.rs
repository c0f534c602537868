//! Gradient descent preconditioned by a learning-rate matrix M.
//!
//! ```text
//! x <- x - M g
//! ```
//!
//! With M from [`crate::equivalence::learning_rate_matrix`], K such steps on a linear-Gaussian
//! likelihood land on the Kalman mean (Section 3 of the paper). Five of them:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::{equivalence::learning_rate_matrix, optim::{Optimizer, Preconditioned}};
//! let prior_cov = matrix![0.4129570876455342, -0.24828301437707034; -0.24828301437707034, 0.9568497054881688];
//! let h = matrix![1.1620081255305676, -0.9377563787668719; 1.776099733817743, 1.2023898441352874];
//! let r = matrix![0.6271815255159412, 0.335274070365199; 0.335274070365199, 0.64363458603351];
//! let y = vector![0.8895347689750995, -3.491527131234501];
//! let descent = Preconditioned::new(learning_rate_matrix(&prior_cov, &h, &r, 5)?)?;
//! let mut x = vector![-0.5999578484570015, 0.6601663130603562]; // the prediction
//! for _ in 0..5 {
//!     let g = h.transpose() * r.try_inverse().ok_or("R is singular")? * (h * x - y);
//!     descent.step(&mut x, &g, &mut ());
//! }
//! let place = format!("{:.9} {:.9}", x[0], x[1]);
//! println!("{place}");
//! assert_eq!(place, "-0.564363277 -1.538923408"); // numpy, tests/golden/implied_prior_numpy.json
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Santos 1996.

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
