//! Linear dynamics and observation: x_t = F x_{t-1} + B u_t, y_t = H x_t.

use super::{Dynamics, JacobianMut, Observation, PullBack, Step};
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};

/// A linear model with constant matrices.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear<N: Dim, M: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    f: OMatrix<f64, N, N>,
    h: OMatrix<f64, M, N>,
    inputs: alloc::vec::Vec<OVector<f64, N>>,
}

/// The matrices of a linear model do not fit together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{matrix} is {rows} x {columns}; a state of {expected} components was expected")]
pub struct LinearError {
    /// Which matrix.
    pub matrix: &'static str,
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// The dimension of the state, from F's rows.
    pub expected: usize,
}

impl<N: Dim, M: Dim> Linear<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    /// From the transition matrix F (n x n) and the observation matrix H (m x n).
    pub fn new(f: OMatrix<f64, N, N>, h: OMatrix<f64, M, N>) -> Result<Self, LinearError> {
        let expected = f.nrows();
        let fits = |matrix, rows, columns, ok| {
            if ok { Ok(()) } else { Err(LinearError { matrix, rows, columns, expected }) }
        };
        fits("F", f.nrows(), f.ncols(), f.ncols() == expected)?;
        fits("H", h.nrows(), h.ncols(), h.ncols() == expected)?;
        Ok(Self { f, h, inputs: alloc::vec::Vec::new() })
    }

    /// With control inputs: one column of B for each.
    pub fn with_inputs(
        mut self,
        columns: alloc::vec::Vec<OVector<f64, N>>,
    ) -> Result<Self, LinearError> {
        let expected = self.f.nrows();
        for column in &columns {
            if column.nrows() != expected {
                return Err(LinearError {
                    matrix: "B",
                    rows: column.nrows(),
                    columns: columns.len(),
                    expected,
                });
            }
        }
        self.inputs = columns;
        Ok(self)
    }

    /// The transition matrix.
    pub fn f(&self) -> &OMatrix<f64, N, N> {
        &self.f
    }

    /// The observation matrix.
    pub fn h(&self) -> &OMatrix<f64, M, N> {
        &self.h
    }
}

impl<N: Dim, M: Dim> Dynamics for Linear<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    type State = N;
    #[inline(always)]
    fn state_dim(&self) -> N {
        self.f.shape_generic().0
    }
    fn input_dim(&self) -> usize {
        self.inputs.len()
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], _step: &Step, out: &mut [S]) {
        for i in 0..out.len() {
            let mut sum = S::ZERO;
            for j in 0..x.len() {
                sum += x[j].scale(self.f[(i, j)]);
            }
            for (column, &u) in self.inputs.iter().zip(u) {
                sum += S::from_f64(column[i] * u);
            }
            out[i] = sum;
        }
    }
    #[inline(always)]
    fn transition_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        for j in 0..x.len() {
            for i in 0..x.len() {
                out[(i, j)] = self.f[(i, j)];
            }
        }
        true
    }
    #[inline(always)]
    fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        Some(
            #[inline(always)]
            |model, _, _, _, r, out| transposed_product(&model.f, r, out),
        )
    }
}

impl<N: Dim, M: Dim> Observation for Linear<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    type Output = M;
    #[inline(always)]
    fn output_dim(&self) -> M {
        self.h.shape_generic().0
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        for i in 0..out.len() {
            let mut sum = S::ZERO;
            for j in 0..x.len() {
                sum += x[j].scale(self.h[(i, j)]);
            }
            out[i] = sum;
        }
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        for j in 0..x.len() {
            for i in 0..self.h.nrows() {
                out[(i, j)] = self.h[(i, j)];
            }
        }
        true
    }
    #[inline(always)]
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        Some(
            #[inline(always)]
            |model, _, _, _, r, out| transposed_product(&model.h, r, out),
        )
    }
}

/// Writes A' r.
#[inline(always)]
fn transposed_product<S: Scalar, R: Dim, C: Dim>(a: &OMatrix<f64, R, C>, r: &[S], out: &mut [S])
where
    DefaultAllocator: Allocator<R, C>,
{
    for j in 0..out.len() {
        let mut sum = S::ZERO;
        for i in 0..r.len() {
            sum += r[i].scale(a[(i, j)]);
        }
        out[j] = sum;
    }
}
