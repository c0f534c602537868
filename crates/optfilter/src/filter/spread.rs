//! How far random numbers throw a state.

use crate::Shapes;
use crate::error::{FilterError, check_square};
use crate::linalg::psd_factor;
use crate::model::stretch::{process_cov, process_factors};
use crate::model::{Model, Noise, Step};
use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// How far members or particles are thrown: not at all, each component by itself, or by a lower factor of a covariance.
pub(super) enum Spread<N: Dim>
where
    DefaultAllocator: Allocator<N, N>,
{
    None,
    Each(Vec<f64>),
    Lower(OMatrix<f64, N, N>),
}

impl<N: Dim> Spread<N>
where
    DefaultAllocator: Allocator<N, N>,
{
    /// Of the process noise of a step: without a matrix where the noise is of independent components, else by `of` of its matrix.
    /// `None` if Q is no covariance.
    pub(super) fn of_step<M: Model<State = N>, Q: Noise<N, M::Output>>(
        (model, noise): (&M, &Q),
        of: impl Fn(&OMatrix<f64, N, N>) -> Option<Self>,
        u: &[f64],
        step: &Step,
    ) -> Result<Option<Self>, FilterError>
    where
        DefaultAllocator: Shapes<N, M::Output>,
    {
        let n = model.state_dim();
        let mut variances = OVector::<f64, N>::zeros_generic(n, U1);
        if noise.process_variances(step, variances.as_mut_slice()) {
            if let Some(factors) = process_factors(model, u, step) {
                variances.iter_mut().zip(&factors).for_each(|(v, f)| *v *= f * f);
            }
            return Ok(Self::each(variances.as_slice()));
        }
        let q = process_cov(model, noise, u, step);
        check_square("process_cov (Q)", n.value(), &q, Some(step.index))?;
        Ok(of(&q))
    }

    /// Of variances; `None` if one is negative or not finite.
    pub(super) fn each(variances: &[f64]) -> Option<Self> {
        if variances.iter().all(|v| *v == 0.0) {
            return Some(Self::None);
        }
        let good = variances.iter().all(|v| *v >= 0.0 && v.is_finite());
        good.then(|| Self::Each(variances.iter().map(|v| Scalar::sqrt(*v)).collect()))
    }

    /// Of a covariance; `None` if it is none.
    pub(super) fn of(cov: &OMatrix<f64, N, N>) -> Option<Self> {
        let n = cov.nrows();
        if (0..n).all(|j| (0..n).all(|i| i == j || cov[(i, j)] == 0.0)) {
            return Self::each(&(0..n).map(|i| cov[(i, i)]).collect::<Vec<_>>());
        }
        psd_factor(cov).map(Self::Lower)
    }

    /// Component `i` of what is thrown from `x` by standard normal numbers, `noise(j)` of component j.
    #[inline(always)]
    pub(super) fn thrown<S: Scalar>(&self, x: S, i: usize, noise: impl Fn(usize) -> S) -> S {
        let mut x = x;
        match self {
            Self::None => {}
            Self::Each(std) => x += noise(i).scale(std[i]),
            Self::Lower(factor) => {
                for j in 0..=i {
                    x += noise(j).scale(factor[(i, j)]);
                }
            }
        }
        x
    }

    /// Turns standard normal numbers, one row per component, into draws.
    pub(super) fn throw(&self, rows: &mut [f64], stride: usize) {
        match self {
            Self::None => rows.fill(0.0),
            Self::Each(std) => {
                for (row, std) in rows.chunks_exact_mut(stride).zip(std) {
                    row.iter_mut().for_each(|v| *v *= std);
                }
            }
            Self::Lower(factor) => {
                // From the last row up: each needs those above it as they were.
                for i in (0..factor.nrows()).rev() {
                    let (above, row) = rows[..(i + 1) * stride].split_at_mut(i * stride);
                    row.iter_mut().for_each(|v| *v *= factor[(i, i)]);
                    for (j, other) in above.chunks_exact(stride).enumerate() {
                        row.iter_mut().zip(other).for_each(|(v, o)| *v += factor[(i, j)] * o);
                    }
                }
            }
        }
    }
}
