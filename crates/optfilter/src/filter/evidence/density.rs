//! How measurements scatter around what is expected of them, in any scalar.
//!
//! ```text
//! Gaussian        -ln p(y | eta) = |z|^2 / 2 + ln det L + m/2 ln 2 pi,     z = L^-1 (y - eta),  L L' = R
//! independent     -ln p(y | eta) = sum_i loss_i(y_i / s_i, eta_i / s_i) + ln s_i + c_i,    s_i^2 = R_ii
//! ```
//!
//! The losses are those of [`likelihood`](crate::model::likelihood), of scale 1; counts and binary measurements have no scale,
//! s = 1. R may carry derivatives, and so may eta: that is all that the likelihood of a path depends on.

use crate::error::FilterError;
use crate::filter::gaussian::LN_TAU;
use crate::linalg::Factor;
use crate::model::likelihood::{
    Component, Independent, Likelihood, LikelihoodError, Observed, masked_cov,
};
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector};

/// p(y | eta) with measurement noise that may carry derivatives.
#[derive(Clone, Debug)]
pub struct Density<S: Scalar> {
    kind: Kind<S>,
}

#[derive(Clone, Debug)]
enum Kind<S: Scalar> {
    /// R and its lower factor L, m x m.
    Gaussian { cov: DMatrix<S>, l: DMatrix<S> },
    /// Losses of scale 1, and the scales of those components that have any.
    Independent { unit: Independent, scales: Vec<Option<S>> },
}

impl<S: Scalar> Density<S> {
    /// Gaussian of covariance R (m x m).
    pub fn gaussian(cov: DMatrix<S>) -> Result<Self, FilterError> {
        let l = lower(&cov)?;
        Ok(Self { kind: Kind::Gaussian { cov, l } })
    }

    /// Components of any kind, with the squares of their scales on the diagonal of `cov` (m x m), whatever scale each has by
    /// itself; what `cov` says of counts and binary measurements is not read.
    pub fn independent(
        components: &[Component],
        cov: &DMatrix<S>,
    ) -> Result<Self, LikelihoodError> {
        let unit = components.iter().map(|c| c.with_scale(1.0)).collect::<Result<_, _>>()?;
        let scale = |(i, c): (usize, &Component)| (!c.is_discrete()).then(|| cov[(i, i)].sqrt());
        let scales = components.iter().enumerate().map(scale).collect();
        Ok(Self { kind: Kind::Independent { unit: Independent::new(unit), scales } })
    }

    /// Whether a measurement of a component can occur at all.
    pub fn admits(&self, component: usize, value: f64) -> bool {
        match &self.kind {
            Kind::Gaussian { .. } => value.is_finite(),
            Kind::Independent { unit, .. } => unit.admits(component, value),
        }
    }

    /// -ln p(y | eta) of the observed components; `y` where `eta` is missing may be anything. `lift` takes the noise to where
    /// eta is.
    pub(super) fn loss<T: Scalar>(
        &self,
        lift: impl Fn(S) -> T,
        (y, eta): (&[T], &[T]),
        observed: Observed<'_>,
    ) -> T {
        let m = eta.len();
        match &self.kind {
            Kind::Gaussian { cov, l } => {
                let some = masked(cov, observed);
                let l = some.as_ref().unwrap_or(l);
                let mut z = vec![T::ZERO; m];
                let mut sum = T::from_f64(0.5 * LN_TAU * observed.count(m) as f64);
                for i in 0..m {
                    let mut v = if observed.has(i) { y[i] - eta[i] } else { T::ZERO };
                    for (k, &z) in z.iter().enumerate().take(i) {
                        v -= lift(l[(i, k)]) * z;
                    }
                    let pivot = lift(l[(i, i)]);
                    z[i] = v / pivot;
                    sum += z[i].square().scale(0.5) + pivot.ln();
                }
                sum
            }
            Kind::Independent { unit, scales } => {
                let (mut y, mut eta) = (y.to_vec(), eta.to_vec());
                let mut sum = T::ZERO;
                for i in observed.indices(m) {
                    if let Some(scale) = scales[i] {
                        let scale = lift(scale);
                        (y[i], eta[i]) = (y[i] / scale, eta[i] / scale);
                        sum += scale.ln();
                    }
                }
                sum + unit.loss(&y, &eta, observed)
            }
        }
    }

    /// What [`loss`](Self::loss) leaves out: the part that depends on nothing but the measurement.
    pub(super) fn constant(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        match &self.kind {
            Kind::Gaussian { .. } => 0.0,
            Kind::Independent { unit, .. } => unit.log_normalizer(y, observed),
        }
    }
}

impl Density<f64> {
    /// Adds J' score and J' W J at eta, for a curvature W that is never negative and the derivative J of eta (m x p).
    pub(super) fn bend(
        &self,
        (y, eta): (&[f64], &[f64]),
        observed: Observed<'_>,
        j: &DMatrix<f64>,
        (g, a): (&mut DVector<f64>, &mut DMatrix<f64>),
    ) {
        let (m, p) = j.shape();
        match &self.kind {
            Kind::Gaussian { cov, l } => {
                let some = masked(cov, observed);
                let l = some.as_ref().unwrap_or(l);
                let seen = |i: usize, v: f64| if observed.has(i) { v } else { 0.0 };
                let mut z = DVector::from_fn(m, |i, _| seen(i, eta[i] - y[i]));
                let mut w = DMatrix::from_fn(m, p, |i, c| seen(i, j[(i, c)]));
                if l.solve_lower_triangular_mut(&mut z) && l.solve_lower_triangular_mut(&mut w) {
                    g.gemv_tr(1.0, &w, &z, 1.0);
                    a.gemm_tr(1.0, &w, &w, 1.0);
                }
            }
            Kind::Independent { unit, scales } => {
                let scale = |i: usize| scales[i].unwrap_or(1.0);
                let y: Vec<f64> = y.iter().enumerate().map(|(i, v)| v / scale(i)).collect();
                let eta: Vec<f64> = eta.iter().enumerate().map(|(i, v)| v / scale(i)).collect();
                let (mut score, mut weight) = (vec![0.0; m], vec![0.0; m]);
                unit.score(&y, &eta, observed, &mut score);
                unit.curvature(&y, &eta, observed, &vec![1.0; m], &mut weight);
                for i in observed.indices(m) {
                    let row = j.row(i).transpose() / scale(i);
                    g.axpy(score[i], &row, 1.0);
                    a.ger(weight[i], &row, &row, 1.0);
                }
            }
        }
    }
}

/// The lower factor of R.
fn lower<S: Scalar>(cov: &DMatrix<S>) -> Result<DMatrix<S>, FilterError> {
    let quantity = "measurement covariance";
    let found = Factor::new(cov).map(|factor| factor.cholesky());
    found.ok_or(FilterError::NotPositiveDefinite { quantity, index: None })
}

/// The factor of R where components are missing: their rows and columns are those of the identity, which is the marginal over
/// the others. A principal block of a positive definite matrix is one, so that it exists.
fn masked<S: Scalar>(cov: &DMatrix<S>, observed: Observed<'_>) -> Option<DMatrix<S>> {
    match observed {
        Observed::All => None,
        some => lower(&masked_cov(cov, some)).ok(),
    }
}
