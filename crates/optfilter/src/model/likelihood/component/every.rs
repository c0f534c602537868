//! The likelihood of one component as that of every component of a measurement.

use super::single::Single;
use super::{Bernoulli, Huber, Poisson, StudentT};
use crate::model::likelihood::{Likelihood, Observed};
use crate::scalar::Scalar;

/// Writes `v` times a weight of each component that is observed; zero for the others.
pub(super) fn weigh(
    observed: Observed<'_>,
    v: &[f64],
    out: &mut [f64],
    weight: impl Fn(usize) -> f64,
) {
    for i in 0..v.len() {
        out[i] = if observed.has(i) { weight(i) * v[i] } else { 0.0 };
    }
}

/// Applies a single-component likelihood to every component.
macro_rules! every_component {
    ($($t:ty),*) => {$(
        impl Likelihood for $t {
            #[inline(always)]
            fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
                let mut sum = S::ZERO;
                for i in observed.indices(y.len()) {
                    sum += self.loss1(y[i], eta[i]);
                }
                sum
            }
            #[inline(always)]
            fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
                for i in 0..y.len() {
                    out[i] = if observed.has(i) { self.score1(y[i], eta[i]) } else { S::ZERO };
                }
            }
            #[inline(always)]
            fn is_uniform(&self) -> bool {
                true
            }
            #[inline(always)]
            fn expect<S: Scalar>(&self, eta: &mut [S]) {
                for eta in eta {
                    *eta = self.expect1(*eta);
                }
            }
            #[inline(always)]
            fn variances<S: Scalar>(&self, mean: &[S], out: &mut [S]) -> bool {
                for (out, &mean) in out.iter_mut().zip(mean) {
                    *out = self.variance1(mean);
                }
                true
            }
            fn curvature(
                &self,
                y: &[f64],
                eta: &[f64],
                observed: Observed<'_>,
                v: &[f64],
                out: &mut [f64],
            ) {
                weigh(observed, v, out, |i| self.curvature1(y[i], eta[i]));
            }
            fn steady_curvature(
                &self,
                y: &[f64],
                eta: &[f64],
                observed: Observed<'_>,
                v: &[f64],
                out: &mut [f64],
            ) {
                weigh(observed, v, out, |i| self.steady1(y[i], eta[i]));
            }
            #[inline(always)]
            fn has_own_curvature(&self) -> bool {
                self.is_steady()
            }
            fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
                observed.indices(y.len()).map(|i| self.log_normalizer1(y[i])).sum()
            }
            fn admits(&self, _component: usize, value: f64) -> bool {
                self.admits1(value)
            }
        }
    )*};
}
every_component!(StudentT, Huber, Poisson, Bernoulli);
