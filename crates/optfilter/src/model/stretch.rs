//! Noise that varies from row to row: a model may stretch what is stated of it.
//!
//! A covariance states the noise of a row whose factors are all 1. A model that knows better, since its inputs or the time
//! say how good a row is, names a factor for each standard deviation: Q_ij becomes s_i s_j Q_ij, and R alike.
//! Likelihoods with a scale are stretched by measuring in units of the factor: p(y | eta) = p1(y / s | eta / s) / s.

use super::{Dynamics, Noise, Observation, Step};
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

pub use super::traits::Stretch;

/// Every covariance between components, times the factors of both.
#[inline(always)]
fn stretch<N: Dim>(cov: &mut OMatrix<f64, N, N>, factors: &OVector<f64, N>)
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    let n = factors.nrows();
    for j in 0..n.min(cov.ncols()) {
        for i in 0..n.min(cov.nrows()) {
            cov[(i, j)] *= factors[i] * factors[j];
        }
    }
}

/// The factors on the process noise of a step, if it has any.
#[inline(always)]
pub(crate) fn process_factors<D: Dynamics>(
    model: &D,
    u: &[f64],
    step: &Step,
) -> Option<OVector<f64, D::State>>
where
    DefaultAllocator: Allocator<D::State>,
{
    let write = model.process_stretch()?;
    let mut factors = OVector::from_element_generic(model.state_dim(), U1, 1.0);
    write(model, u, step, factors.as_mut_slice());
    Some(factors)
}

/// The factors on the noise of a measurement, if it has any.
#[inline(always)]
pub(crate) fn measurement_factors<O: Observation>(
    model: &O,
    u: &[f64],
    step: &Step,
) -> Option<OVector<f64, O::Output>>
where
    DefaultAllocator: Allocator<O::Output>,
{
    let write = model.measurement_stretch()?;
    let mut factors = OVector::from_element_generic(model.output_dim(), U1, 1.0);
    write(model, u, step, factors.as_mut_slice());
    Some(factors)
}

/// Q over a step, as the noise states it and the model stretches it.
#[inline(always)]
pub fn process_cov<D: Dynamics, M: Dim>(
    model: &D,
    noise: &impl Noise<D::State, M>,
    u: &[f64],
    step: &Step,
) -> OMatrix<f64, D::State, D::State>
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State> + Allocator<M, M>,
{
    let mut q = noise.process_cov(step);
    if let Some(factors) = process_factors(model, u, step) {
        stretch(&mut q, &factors);
    }
    q
}

/// R of a measurement, as the noise states it and the model stretches it.
#[inline(always)]
pub fn measurement_cov<O: Observation, N: Dim>(
    model: &O,
    noise: &impl Noise<N, O::Output>,
    u: &[f64],
    step: &Step,
) -> OMatrix<f64, O::Output, O::Output>
where
    DefaultAllocator: Allocator<N, N> + Allocator<O::Output> + Allocator<O::Output, O::Output>,
{
    let mut r = noise.measurement_cov(step);
    if let Some(factors) = measurement_factors(model, u, step) {
        stretch(&mut r, &factors);
    }
    r
}

/// Whether [`measurement_cov`] may have a zero on its diagonal.
#[inline(always)]
pub(crate) fn may_be_exact<O: Observation, N: Dim>(
    model: &O,
    noise: &impl Noise<N, O::Output>,
) -> bool
where
    DefaultAllocator: Allocator<N, N> + Allocator<O::Output> + Allocator<O::Output, O::Output>,
{
    noise.may_be_exact() || model.measurement_stretch().is_some()
}

/// Numbers in units of their factors.
#[inline(always)]
pub(crate) fn shrink<S: Scalar>(values: &mut [S], factors: &[f64]) {
    for (v, factor) in values.iter_mut().zip(factors) {
        *v = v.scale(1.0 / factor);
    }
}
