//! What a likelihood of one component says.

use crate::scalar::Scalar;

/// The likelihood of one component of a measurement.
pub(super) trait Single {
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S;
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S;
    /// The measurement expected at eta.
    #[inline(always)]
    fn expect1<S: Scalar>(&self, eta: S) -> S {
        eta
    }
    /// The variance of a measurement that is expected to be `mean`; infinite where there is none.
    fn variance1<S: Scalar>(&self, mean: S) -> S;
    /// Fisher's information, or the weight under which a robust loss is a square.
    fn curvature1(&self, y: f64, eta: f64) -> f64;
    /// The same for a step that may be long, and whether such a step does not lead uphill.
    fn steady1(&self, y: f64, eta: f64) -> f64 {
        self.curvature1(y, eta)
    }
    fn is_steady(&self) -> bool {
        true
    }
    fn log_normalizer1(&self, y: f64) -> f64;
    fn admits1(&self, y: f64) -> bool {
        y.is_finite()
    }
}
