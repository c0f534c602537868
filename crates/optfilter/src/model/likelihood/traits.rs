//! What every likelihood says of a measurement.

use super::observed::Observed;
use crate::scalar::{Dual, Scalar};
use alloc::vec::Vec;

/// A likelihood, as a loss of the predicted parameter eta.
pub trait Likelihood {
    /// -ln p(y | eta) over the observed components, less what does not depend on eta.
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S;

    /// Writes the derivative of the loss by each component of eta (zero where unobserved).
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        let y: Vec<Dual<S, 1>> = y.iter().map(|&v| Dual::constant(v)).collect();
        let mut point: Vec<Dual<S, 1>> = eta.iter().map(|&v| Dual::constant(v)).collect();
        for i in 0..eta.len() {
            point[i] = Dual::variable(eta[i], 0);
            out[i] = self.loss(&y, &point, observed).eps[0];
            point[i] = Dual::constant(eta[i]);
        }
    }

    /// Turns eta into the measurement that is expected there, component by component: itself, where there is no link.
    #[inline(always)]
    fn expect<S: Scalar>(&self, _eta: &mut [S]) {}

    /// Writes the variance of each component that is expected to be `mean` and returns `true`, if the likelihood has
    /// variances of its own; otherwise they are those of R.
    #[inline(always)]
    fn variances<S: Scalar>(&self, _mean: &[S], _out: &mut [S]) -> bool {
        false
    }

    /// Writes W v for a curvature W of the loss at eta that is never negative (zero where unobserved): what a
    /// Gauss-Newton method takes for the second derivative. Without a form of its own a likelihood has for each
    /// component what its slopes tell: the weight under which a square about the measurement is as steep, slope / (eta - y),
    /// or the second derivative where that is larger. Where eta is not comparable to the measurement, so that no minimum lies between
    /// eta and its mirror image in y, it is the size of the second derivative.
    fn curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        let lifted: Vec<Dual<f64, 1>> = y.iter().map(|&v| Dual::constant(v)).collect();
        let mut point: Vec<Dual<f64, 1>> = eta.iter().map(|&v| Dual::constant(v)).collect();
        let mut slope = point.clone();
        let (mut mirrored, mut across) = (eta.to_vec(), eta.to_vec());
        for i in 0..eta.len() {
            if !observed.has(i) {
                out[i] = 0.0;
                continue;
            }
            point[i] = Dual::variable(eta[i], 0);
            self.score(&lifted, &point, observed, &mut slope);
            point[i] = Dual::constant(eta[i]);
            mirrored[i] = 2.0 * y[i] - eta[i];
            self.score(y, &mirrored, observed, &mut across);
            mirrored[i] = eta[i];
            let Dual { re, eps: [bend] } = slope[i];
            out[i] = reweighted(eta[i] - y[i], (re, across[i]), bend) * v[i];
        }
    }

    /// The same for a step that may be long: [`curvature`](Self::curvature), unless that is right near the minimum only. Where a count or a
    /// probability is far off, the second derivative says next to nothing of how far the minimum is.
    fn steady_curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        self.curvature(y, eta, observed, v, out);
    }

    /// Whether a Gauss-Newton step by [`steady_curvature`](Self::steady_curvature) does not lead uphill: that of a square, or of a robust loss
    /// reweighted. A step by any other is a guess, and [`ConjugateGradients`](crate::optim::ConjugateGradients) go only as far as the loss
    /// does not rise.
    #[inline(always)]
    fn has_own_curvature(&self) -> bool {
        false
    }

    /// What must be added to the loss to make it -ln p(y | eta).
    fn log_normalizer(&self, _y: &[f64], _observed: Observed<'_>) -> f64 {
        0.0
    }

    /// Whether it would rather be asked once for many etas ([`losses`](Self::losses)); whoever has many asks here first.
    #[inline(always)]
    fn wants_many(&self) -> bool {
        false
    }

    /// Writes the loss at every eta of many, one after the other in `etas`, and returns `true`, if the likelihood
    /// [wants that](Self::wants_many). Components of `y` that are missing are NaN.
    fn losses(&self, _y: &[f64], _etas: &[f64], _out: &mut [f64]) -> bool {
        false
    }

    /// Whether it has a scale that a row's noise may [stretch](crate::model::stretch).
    #[inline(always)]
    fn has_scale(&self) -> bool {
        true
    }

    /// Whether components are independent and all alike, so that it serves any stretch of a measurement as it serves the whole.
    #[inline(always)]
    fn is_uniform(&self) -> bool {
        false
    }

    /// The number of components of a measurement, for a likelihood that is made for a certain number.
    #[inline(always)]
    fn dim(&self) -> Option<usize> {
        None
    }

    /// Whether `value` is a possible measurement of component `component` (counts are whole, say).
    fn admits(&self, _component: usize, value: f64) -> bool {
        value.is_finite()
    }
}

/// A curvature of one component, from its distance to the measurement, the slope of its loss here and at the mirror image, and the
/// second derivative.
pub(super) fn reweighted(distance: f64, (slope, across): (f64, f64), bend: f64) -> f64 {
    let weight = slope / distance;
    let between = (slope > 0.0 && across < 0.0) || (slope < 0.0 && across > 0.0);
    match between && weight > 0.0 && weight.is_finite() {
        true => weight.max(bend),
        false => bend.abs(),
    }
}
