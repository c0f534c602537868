//! Gaussian beliefs, and the two operations that every Gaussian filter shares.
//!
//! ```text
//! propagate   P <- F P F' + Q
//! condition   S = H P H' + R,  G = P H' S^-1,  m <- m + G v,
//!             P <- (I - G H) P (I - G H)' + G R G'                (Joseph form)
//! ```
//!
//! S is factored, never inverted. The Joseph form is a sum of two positive semi-definite terms, so P
//! stays positive definite however small R is. A missing component is a zero row of H with residual
//! zero and a unit variance of its own, which leaves every other number as if it were not there.

use super::{Belief, FilterError, Update};
use crate::Shapes;
use crate::linalg::{
    Solver, is_symmetric_psd, noise_sandwich, product, sandwich, symmetric_product,
};
use crate::model::likelihood::Observed;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};
use serde::{Deserialize, Serialize};

/// A Gaussian belief: mean and covariance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, OMatrix<f64, N, N>: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, OMatrix<f64, N, N>: Deserialize<'de>"
))]
pub struct GaussianBelief<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The mean.
    pub mean: OVector<f64, N>,
    /// The covariance (n x n).
    pub cov: OMatrix<f64, N, N>,
}

impl<N: Dim> GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// From a finite mean and a symmetric positive semi-definite covariance.
    pub fn new(mean: OVector<f64, N>, cov: OMatrix<f64, N, N>) -> Result<Self, FilterError> {
        super::check_len("initial cov", mean.nrows() * mean.nrows(), cov.len(), None)?;
        if let Some(component) = mean.iter().position(|v| !v.is_finite()) {
            return Err(FilterError::NotFinite {
                argument: "initial mean",
                component,
                index: None,
            });
        }
        if !is_symmetric_psd(&cov) {
            return Err(FilterError::NotPositiveDefinite { quantity: "initial cov", index: None });
        }
        Ok(Self { mean, cov })
    }
}

impl<N: Dim> Belief<N> for GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    fn mean(&self) -> OVector<f64, N> {
        self.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        Some(self.cov.clone())
    }
}

/// P <- F P F' + Q.
#[inline(always)]
pub(crate) fn propagate<N: Dim>(
    cov: &mut OMatrix<f64, N, N>,
    f: &OMatrix<f64, N, N>,
    q: OMatrix<f64, N, N>,
) where
    DefaultAllocator: Allocator<N, N>,
{
    *cov = sandwich(f, cov) + q;
}

/// A linear(ised) measurement: residual, H and R.
pub(crate) struct GaussianMeasurement<N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// v: measurement less prediction.
    pub(crate) residual: OVector<f64, M>,
    /// H: m x n.
    pub(crate) h: OMatrix<f64, M, N>,
    /// R: m x m.
    pub(crate) r: OMatrix<f64, M, M>,
}

/// Conditions a Gaussian belief on a linear measurement.
#[inline(always)]
pub(crate) fn condition<N: Dim, M: Dim>(
    belief: &mut GaussianBelief<N>,
    measurement: GaussianMeasurement<N, M>,
    observed: Observed<'_>,
    index: u64,
) -> Result<Update<M>, FilterError>
where
    DefaultAllocator: Shapes<N, M>,
{
    let GaussianMeasurement { residual, mut h, mut r } = measurement;
    super::check_square("measurement_cov (R)", residual.nrows(), &r, Some(index))?;
    if observed != Observed::All {
        r = crate::model::likelihood::masked_cov(&r, observed);
        for i in 0..h.nrows() {
            if !observed.has(i) {
                h.row_mut(i).fill(0.0);
            }
        }
    }
    let hp = product(&h, &belief.cov); // m x n
    let s = symmetric_product(&hp, &h) + &r; // m x m
    let Some(factor) = Solver::new(&s) else {
        return Err(FilterError::NotPositiveDefinite {
            quantity: "innovation covariance",
            index: Some(index),
        });
    };
    let gain = factor.solve(&hp).transpose(); // G = P H' S^-1, n x m
    belief.mean += product(&gain, &residual);

    // I - G H and (I - G H) P = P - G (H P), side by side; their product is the first Joseph term.
    let mut keep = -product(&gain, &h);
    for i in 0..keep.nrows() {
        keep[(i, i)] += 1.0;
    }
    let kept = &belief.cov - product(&gain, &hp);
    belief.cov = symmetric_product(&kept, &keep) + noise_sandwich(&gain, &r);

    let count = observed.count(residual.nrows());
    let nis = factor.quadratic_form(&residual);
    let log_likelihood = gaussian_log_density(nis, &factor, count);
    Ok(Update {
        innovation: residual,
        innovation_cov: Some(s),
        log_likelihood: Some(log_likelihood),
        nis: Some(nis),
        observed: count,
    })
}

/// ln N(v; 0, S) from v' S^-1 v and the factor of S, over `count` components.
#[inline(always)]
pub(crate) fn gaussian_log_density<M: Dim>(nis: f64, factor: &Solver<M>, count: usize) -> f64
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    -0.5 * (nis + count as f64 * LN_TAU + factor.ln_det())
}

const LN_TAU: f64 = 1.837_877_066_409_345_5;
