//! Gaussian likelihoods: any covariance R, and the R = I form of the paper.
//!
//! ```text
//! loss = 1/2 (y - eta)' R^-1 (y - eta),     score = R^-1 (eta - y)
//! ```
//!
//! R is factored once, R = L L', and never inverted. A missing component's row and column of R become
//! those of the identity and its residual zero, which is exactly the marginal over the others.

use super::{Likelihood, Observed};
use crate::linalg;
use crate::model::NoiseError;
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{Cholesky, DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Half the squared distance between measurement and prediction: a Gaussian with R = I.
///
/// The paper's default. An optimizer that fits it well makes up for the true R in its learning rate;
/// see [`crate::equivalence::compensated_cov`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SquaredError;

impl Likelihood for SquaredError {
    #[inline(always)]
    fn has_scale(&self) -> bool {
        false
    }
    #[inline(always)]
    fn is_uniform(&self) -> bool {
        true
    }
    #[inline(always)]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        let mut sum = S::ZERO;
        for i in observed.indices(y.len()) {
            sum += (y[i] - eta[i]).square();
        }
        sum.scale(0.5)
    }
    #[inline(always)]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        // Slices of one length: no index is looked at twice.
        let (eta, out) = (&eta[..y.len()], &mut out[..y.len()]);
        for i in 0..y.len() {
            out[i] = if observed.has(i) { eta[i] - y[i] } else { S::ZERO };
        }
    }
    fn curvature(
        &self,
        _y: &[f64],
        _eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        let out = &mut out[..v.len()];
        for i in 0..v.len() {
            out[i] = if observed.has(i) { v[i] } else { 0.0 };
        }
    }
    #[inline(always)]
    fn has_own_curvature(&self) -> bool {
        true
    }
    fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        half_ln_tau() * observed.count(y.len()) as f64
    }
}

pub(crate) fn half_ln_tau() -> f64 {
    0.5 * Scalar::ln(core::f64::consts::TAU)
}

/// A Gaussian likelihood with measurement covariance R, held no larger than it must be.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian<M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    spread: Spread<M>,
}

#[derive(Clone, Debug, PartialEq)]
enum Spread<M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// Variances and one over each: no matrix and no triangular solves.
    Diagonal { variances: OVector<f64, M>, precisions: OVector<f64, M> },
    /// R and the L of R = L L'.
    Dense { cov: OMatrix<f64, M, M>, factor: OMatrix<f64, M, M> },
}

impl<M: Dim> Gaussian<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// With measurement covariance R (symmetric positive definite).
    pub fn new(cov: OMatrix<f64, M, M>) -> Result<Self, NoiseError> {
        if !linalg::is_symmetric_pd(&cov) {
            return Err(NoiseError::MeasurementCov);
        }
        let m = cov.nrows();
        if (0..m).all(|i| (0..m).all(|j| i == j || cov[(i, j)] == 0.0)) {
            return Self::diagonal(cov.diagonal());
        }
        let factor = factor(&cov).ok_or(NoiseError::MeasurementCov)?;
        Ok(Self { spread: Spread::Dense { cov, factor } })
    }

    /// With independent components of the given variances.
    pub fn diagonal(variances: OVector<f64, M>) -> Result<Self, NoiseError> {
        if !variances.iter().all(|v| *v > 0.0 && v.is_finite()) {
            return Err(NoiseError::MeasurementCov);
        }
        let precisions = variances.map(|v| 1.0 / v);
        Ok(Self { spread: Spread::Diagonal { variances, precisions } })
    }

    /// R^-1 r of the observed components, in place.
    #[inline(always)]
    fn weigh<S: Scalar>(&self, observed: Observed<'_>, r: &mut [S]) {
        match &self.spread {
            Spread::Diagonal { precisions, .. } => {
                for (r, &p) in r.iter_mut().zip(precisions.as_slice()) {
                    *r = r.scale(p);
                }
            }
            Spread::Dense { cov, factor } => {
                let l = factor_of_observed(cov, factor, observed);
                solve_lower(&l, r);
                solve_upper(&l, r);
            }
        }
    }

    /// The variances, where the components are independent.
    pub fn own_variances(&self) -> Option<&OVector<f64, M>> {
        match &self.spread {
            Spread::Diagonal { variances, .. } => Some(variances),
            Spread::Dense { .. } => None,
        }
    }

    /// The measurement covariance R.
    pub fn cov(&self) -> OMatrix<f64, M, M> {
        match &self.spread {
            Spread::Diagonal { variances, .. } => OMatrix::from_diagonal(variances),
            Spread::Dense { cov, .. } => cov.clone(),
        }
    }
}

/// L of R with the rows and columns of missing components replaced by the identity's.
fn factor_of_observed<M: Dim>(
    cov: &OMatrix<f64, M, M>,
    whole: &OMatrix<f64, M, M>,
    observed: Observed<'_>,
) -> OMatrix<f64, M, M>
where
    DefaultAllocator: Allocator<M, M>,
{
    if observed == Observed::All {
        return whole.clone();
    }
    // A principal block of a positive definite matrix is positive definite, so the factor exists;
    // the full factor is only a fallback that keeps this function total.
    factor(&masked_cov(cov, observed)).unwrap_or_else(|| whole.clone())
}

/// The lower Cholesky factor with zeros above the diagonal.
fn factor<M: Dim>(cov: &OMatrix<f64, M, M>) -> Option<OMatrix<f64, M, M>>
where
    DefaultAllocator: Allocator<M, M>,
{
    Cholesky::new(cov.clone()).map(|c| c.unpack())
}

/// A covariance with the rows and columns of missing components replaced by the identity's.
pub(crate) fn masked_cov<S: Scalar, M: Dim>(
    cov: &OMatrix<S, M, M>,
    observed: Observed<'_>,
) -> OMatrix<S, M, M>
where
    DefaultAllocator: Allocator<M, M>,
{
    let mut out = cov.clone();
    let m = out.nrows();
    for i in 0..m {
        for j in 0..m {
            if !observed.has(i) || !observed.has(j) {
                out[(i, j)] = if i == j { S::ONE } else { S::ZERO };
            }
        }
    }
    out
}

/// Solves L z = r in place (forward substitution).
#[inline(always)]
fn solve_lower<S: Scalar, M: Dim>(l: &OMatrix<f64, M, M>, r: &mut [S])
where
    DefaultAllocator: Allocator<M, M>,
{
    for i in 0..r.len() {
        let mut v = r[i];
        for j in 0..i {
            v -= r[j].scale(l[(i, j)]);
        }
        r[i] = v.scale(1.0 / l[(i, i)]);
    }
}

/// Solves L' z = r in place (back substitution).
#[inline(always)]
fn solve_upper<S: Scalar, M: Dim>(l: &OMatrix<f64, M, M>, r: &mut [S])
where
    DefaultAllocator: Allocator<M, M>,
{
    for i in (0..r.len()).rev() {
        let mut v = r[i];
        for j in i + 1..r.len() {
            v -= r[j].scale(l[(j, i)]);
        }
        r[i] = v.scale(1.0 / l[(i, i)]);
    }
}

impl<M: Dim> Likelihood for Gaussian<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    #[inline(always)]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        let mut sum = S::ZERO;
        match &self.spread {
            Spread::Diagonal { precisions, .. } => {
                for i in observed.indices(y.len()) {
                    sum += (y[i] - eta[i]).square().scale(precisions[i]);
                }
            }
            Spread::Dense { cov, factor } => {
                let m = cov.shape_generic().0;
                let mut r = OVector::<S, M>::from_element_generic(m, U1, S::ZERO);
                for i in observed.indices(y.len()) {
                    r[i] = y[i] - eta[i];
                }
                solve_lower(&factor_of_observed(cov, factor, observed), r.as_mut_slice());
                for z in r.as_slice() {
                    sum += z.square();
                }
            }
        }
        sum.scale(0.5)
    }

    #[inline(always)]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        for i in 0..y.len() {
            out[i] = if observed.has(i) { eta[i] - y[i] } else { S::ZERO };
        }
        self.weigh(observed, out);
    }

    fn curvature(
        &self,
        _y: &[f64],
        _eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        SquaredError.curvature(v, v, observed, v, out);
        self.weigh(observed, out);
    }

    #[inline(always)]
    fn has_own_curvature(&self) -> bool {
        true
    }

    #[inline(always)]
    fn dim(&self) -> Option<usize> {
        Some(match &self.spread {
            Spread::Diagonal { variances, .. } => variances.nrows(),
            Spread::Dense { cov, .. } => cov.nrows(),
        })
    }

    fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        let half_ln_det: f64 = match &self.spread {
            Spread::Diagonal { variances, .. } => {
                observed.indices(y.len()).map(|i| Scalar::ln(Scalar::sqrt(variances[i]))).sum()
            }
            Spread::Dense { cov, factor } => {
                let l = factor_of_observed(cov, factor, observed);
                (0..l.nrows()).map(|i| Scalar::ln(l[(i, i)])).sum()
            }
        };
        half_ln_tau() * observed.count(y.len()) as f64 + half_ln_det
    }
}
