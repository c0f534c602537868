//! Components that are independent of each other.

use super::any::{Component, dispatch};
use super::every::weigh;
use super::single::Single;
use crate::model::likelihood::{Likelihood, Observed};
use crate::scalar::Scalar;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Independent components, each with a likelihood of its own kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Independent {
    components: Vec<Component>,
}

impl Independent {
    /// One likelihood for each component of the measurement, in order.
    pub fn new(components: Vec<Component>) -> Self {
        Self { components }
    }

    /// The likelihoods.
    pub fn components(&self) -> &[Component] {
        &self.components
    }
}

impl Likelihood for Independent {
    #[inline(always)]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        let mut sum = S::ZERO;
        for i in observed.indices(y.len()) {
            sum += dispatch!(&self.components[i], l => l.loss1(y[i], eta[i]));
        }
        sum
    }
    #[inline(always)]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        for (i, component) in self.components.iter().enumerate() {
            out[i] = if observed.has(i) {
                dispatch!(component, l => l.score1(y[i], eta[i]))
            } else {
                S::ZERO
            };
        }
    }
    #[inline(always)]
    fn expect<S: Scalar>(&self, eta: &mut [S]) {
        for (eta, component) in eta.iter_mut().zip(&self.components) {
            *eta = dispatch!(component, l => l.expect1(*eta));
        }
    }
    #[inline(always)]
    fn variances<S: Scalar>(&self, mean: &[S], out: &mut [S]) -> bool {
        for (i, component) in self.components.iter().enumerate() {
            out[i] = dispatch!(component, l => l.variance1(mean[i]));
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
        let components = &self.components;
        weigh(observed, v, out, |i| dispatch!(&components[i], l => l.curvature1(y[i], eta[i])));
    }
    fn steady_curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        let components = &self.components;
        weigh(observed, v, out, |i| dispatch!(&components[i], l => l.steady1(y[i], eta[i])));
    }
    #[inline(always)]
    fn has_own_curvature(&self) -> bool {
        self.components.iter().all(|component| dispatch!(component, l => l.is_steady()))
    }
    fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        observed
            .indices(y.len())
            .map(|i| dispatch!(&self.components[i], l => l.log_normalizer1(y[i])))
            .sum()
    }
    fn dim(&self) -> Option<usize> {
        Some(self.components.len())
    }
    fn admits(&self, component: usize, value: f64) -> bool {
        self.components.get(component).is_none_or(|c| dispatch!(c, l => l.admits1(value)))
    }
}
