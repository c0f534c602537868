//! States of which nothing is known before the first row, exactly.
//!
//! The covariance before a row is P + k B with k towards infinity. One component of the measurement after the other, with
//! its row h of H, its variance r, and
//!
//! ```text
//! M = P h',  N = B h',  f = h M + r,  d = h N
//! d > 0   m <- m + N v / d,  P <- P + N N' f / d^2 - (M N' + N M') / d,  B <- B - N N' / d,   ln p = -(ln 2 pi + ln d) / 2
//! d = 0   the usual update by M and f
//! ```
//!
//! The likelihood is the limit of the usual one plus half a ln k for every unknown that a component resolves. Each such
//! component takes one from the rank of B; once it is nought the usual filter goes on.
//!
//! Reference: Koopman and Durbin 2000; Durbin and Koopman 2012, sections 5.2, 6.4 and 7.2.2.

use super::{Belief, Setting};
use crate::error::FilterError;
use crate::filter::gaussian::{LN_TAU, not_positive_definite};
use crate::model::likelihood::Observed;
use crate::scalar::Scalar;
use nalgebra::{DMatrix, DVector};

/// What is infinitely uncertain.
pub(super) struct Unknown<S: Scalar> {
    /// B: n x n.
    pub(super) cov: DMatrix<S>,
    /// How many unknowns are left.
    rank: usize,
}

/// The finite part of the initial covariance, and the rest.
pub(super) fn split<S: Scalar>(setting: &Setting<S>) -> (DMatrix<S>, Option<Unknown<S>>) {
    let n = setting.mean.len();
    let is_unknown = |i: usize| setting.diffuse.get(i).copied().unwrap_or(false);
    let rank = (0..n).filter(|&i| is_unknown(i)).count();
    let mut cov = setting.cov.clone();
    for i in (0..n).filter(|&i| is_unknown(i)) {
        cov.row_mut(i).fill(S::ZERO);
        cov.column_mut(i).fill(S::ZERO);
    }
    let unit = |i, j| if i == j && is_unknown(i) { S::ONE } else { S::ZERO };
    (cov, (rank > 0).then(|| Unknown { cov: DMatrix::from_fn(n, n, unit), rank }))
}

/// a b' as a matrix, each entry times `k`.
fn outer<S: Scalar>(a: &DVector<S>, b: &DVector<S>, k: S) -> DMatrix<S> {
    DMatrix::from_fn(a.len(), b.len(), |i, j| a[i] * b[j] * k)
}

fn dot<S: Scalar>(a: &DVector<S>, b: &DVector<S>) -> S {
    a.iter().zip(b.iter()).fold(S::ZERO, |sum, (&a, &b)| sum + a * b)
}

impl<S: Scalar> Belief<S> {
    pub(super) fn update_diffuse(
        &mut self,
        setting: &Setting<S>,
        residual: &DVector<S>,
        h: &DMatrix<S>,
        observed: Observed<'_>,
        index: u64,
    ) -> Result<S, FilterError> {
        let start = self.mean.clone();
        let mut sum = S::ZERO;
        for i in observed.indices(residual.len()) {
            let h = h.row(i).transpose(); // as a column
            // What the components before have moved is no longer a surprise.
            let v = residual[i] - dot(&h, &(&self.mean - &start));
            let times = |cov: &DMatrix<S>| {
                DVector::from_fn(h.len(), |i, _| dot(&cov.row(i).transpose(), &h))
            };
            let known = times(&self.cov); // M
            let f = dot(&h, &known) + setting.measurement_cov[(i, i)];
            let unknown = self.diffuse.as_ref().map(|unknown| times(&unknown.cov)); // N
            let d = unknown.as_ref().map_or(S::ZERO, |unknown| dot(&h, unknown));
            // What rounding leaves of nought is far below what h could see of B.
            let size = self.diffuse.as_ref().map_or(S::ZERO, |unknown| {
                (0..h.len()).fold(S::ZERO, |sum, j| sum + h[j] * h[j] * unknown.cov[(j, j)])
            });
            let resolves = S::all_lt(size.scale(1e-10), d) && S::all_lt(S::from_f64(1e-200), d);
            match (&mut self.diffuse, unknown) {
                (Some(left), Some(unknown)) if resolves => {
                    let inverse = S::ONE / d;
                    let v = v * inverse;
                    self.mean = DVector::from_fn(h.len(), |i, _| self.mean[i] + unknown[i] * v);
                    let cross = outer(&known, &unknown, inverse);
                    self.cov += outer(&unknown, &unknown, f * inverse * inverse)
                        - (&cross + cross.transpose());
                    let before = left.cov.diagonal();
                    left.cov -= outer(&unknown, &unknown, inverse);
                    // What rounding leaves of nought would be resolved once more.
                    for j in 0..h.len() {
                        if !S::all_lt(before[j].scale(1e-10), left.cov[(j, j)]) {
                            left.cov.row_mut(j).fill(S::ZERO);
                            left.cov.column_mut(j).fill(S::ZERO);
                        }
                    }
                    left.rank -= 1;
                    sum -= (d.ln() + S::from_f64(LN_TAU)).scale(0.5);
                }
                _ => {
                    if !S::all_lt(S::from_f64(f64::MIN_POSITIVE), f) {
                        return Err(not_positive_definite("innovation covariance", index));
                    }
                    let inverse = S::ONE / f;
                    let scaled = v * inverse;
                    self.mean = DVector::from_fn(h.len(), |i, _| self.mean[i] + known[i] * scaled);
                    self.cov -= outer(&known, &known, inverse);
                    sum -= (f.ln() + S::from_f64(LN_TAU) + v * scaled).scale(0.5);
                }
            }
            if self.diffuse.as_ref().is_some_and(|unknown| unknown.rank == 0) {
                self.diffuse = None;
            }
        }
        Ok(sum)
    }
}
