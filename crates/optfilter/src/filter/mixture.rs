//! A belief of several Gaussians: what is believed where more than one story fits what was measured.
//!
//! ```text
//! p(x) = sum_k w_k N(x; m_k, P_k),   mean = sum w_k m_k,   cov = sum w_k (P_k + (m_k - mean)(m_k - mean)')
//! ```

use super::gaussian::GaussianBelief;
use super::traits::Belief;
use crate::error::FilterError;
use crate::optim::Bounds;
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};
use serde::{Deserialize, Serialize};

/// One Gaussian of a [`MixtureBelief`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, OMatrix<f64, N, N>: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, OMatrix<f64, N, N>: Deserialize<'de>"
))]
pub struct Part<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The logarithm of its weight.
    pub log_weight: f64,
    /// The Gaussian.
    pub belief: GaussianBelief<N>,
}

/// Several Gaussians with weights, the likeliest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, OMatrix<f64, N, N>: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, OMatrix<f64, N, N>: Deserialize<'de>"
))]
pub struct MixtureBelief<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    parts: Vec<Part<N>>,
}

impl<N: Dim> From<GaussianBelief<N>> for MixtureBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    fn from(belief: GaussianBelief<N>) -> Self {
        Self { parts: vec![Part { log_weight: 0.0, belief }] }
    }
}

impl<N: Dim> MixtureBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// From parts of any weights, of which there is at least one.
    pub(super) fn weighted(mut parts: Vec<Part<N>>) -> Self {
        let sum = log_sum(parts.iter().map(|part| part.log_weight));
        parts.iter_mut().for_each(|part| part.log_weight -= sum);
        Self { parts }
    }

    /// The Gaussians.
    pub fn parts(&self) -> &[Part<N>] {
        &self.parts
    }
}

/// ln of the sum of what these are logarithms of.
pub(super) fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let most = logs.clone().fold(f64::NEG_INFINITY, |a, b| if b > a { b } else { a });
    most + Scalar::ln(logs.map(|log| Scalar::exp(log - most)).sum::<f64>())
}

/// Mean and covariance of all parts together.
pub(super) fn joined<N: Dim>(parts: &[Part<N>]) -> Option<GaussianBelief<N>>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    let first = parts.first()?;
    if parts.len() == 1 {
        return Some(first.belief.clone());
    }
    let sum = log_sum(parts.iter().map(|part| part.log_weight));
    let weight = |part: &Part<N>| Scalar::exp(part.log_weight - sum);
    let mut mean = first.belief.mean.clone();
    for part in &parts[1..] {
        let shift = &part.belief.mean - &first.belief.mean;
        mean.axpy(weight(part), &shift, 1.0);
    }
    let mut cov = &first.belief.cov * 0.0;
    for part in parts {
        let (w, off) = (weight(part), &part.belief.mean - &mean);
        for j in 0..mean.nrows() {
            for i in 0..mean.nrows() {
                cov[(i, j)] += w * (part.belief.cov[(i, j)] + off[i] * off[j]);
            }
        }
    }
    Some(GaussianBelief { mean, cov })
}

impl<N: Dim> Belief<N> for MixtureBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = true;

    fn mean(&self) -> OVector<f64, N> {
        let first = &self.parts[0].belief.mean;
        let mut mean = first.clone();
        for part in &self.parts[1..] {
            mean.axpy(Scalar::exp(part.log_weight), &(&part.belief.mean - first), 1.0);
        }
        mean
    }

    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        joined(&self.parts).map(|whole| whole.cov)
    }

    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        // One that was read from somewhere may hold anything.
        if self.parts.is_empty() || self.parts.iter().any(|part| part.log_weight.is_nan()) {
            return Err(FilterError::Empty { argument: "belief" });
        }
        self.parts.iter().try_for_each(|part| part.belief.check_dim(n, index))
    }

    fn is_within(&self, bounds: &Bounds) -> bool {
        self.parts.iter().all(|part| part.belief.is_within(bounds))
    }

    fn confine(&mut self, bounds: &Bounds) {
        self.parts.iter_mut().for_each(|part| part.belief.confine(bounds));
    }

    fn flaw(&self) -> Option<&'static str> {
        self.parts.iter().find_map(|part| part.belief.flaw())
    }
}
