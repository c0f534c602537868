//! Likelihoods of single components: of continuous measurements, of counts and binary ones, and mixtures of kinds.

mod continuous;
mod discrete;
mod site;

pub use continuous::{Huber, Normal, StudentT};
pub use discrete::{Bernoulli, Link, Poisson};
pub(crate) use site::Site;

use super::{Likelihood, Observed};
use crate::scalar::Scalar;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A parameter for which the likelihood is not defined.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{likelihood}: {name} = {value} is not allowed; it must be positive and finite")]
pub struct LikelihoodError {
    /// The likelihood.
    pub likelihood: &'static str,
    /// The parameter.
    pub name: &'static str,
    /// The value given.
    pub value: f64,
}

fn positive(
    likelihood: &'static str,
    name: &'static str,
    value: f64,
) -> Result<(), LikelihoodError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(LikelihoodError { likelihood, name, value })
}

/// The likelihood of one component of a measurement.
trait Single {
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

/// Writes `v` times a weight of each component that is observed; zero for the others.
fn weigh(observed: Observed<'_>, v: &[f64], out: &mut [f64], weight: impl Fn(usize) -> f64) {
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

/// The likelihood of one component, of a kind chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Component {
    /// Gaussian.
    Normal(Normal),
    /// Student's t.
    StudentT(StudentT),
    /// Huber's loss.
    Huber(Huber),
    /// Counts.
    Poisson(Poisson),
    /// Zeros and ones.
    Bernoulli(Bernoulli),
}

/// Calls a method of [`Single`] on whatever kind a component is.
macro_rules! dispatch {
    ($component:expr, $l:ident => $body:expr) => {
        match $component {
            Component::Normal($l) => $body,
            Component::StudentT($l) => $body,
            Component::Huber($l) => $body,
            Component::Poisson($l) => $body,
            Component::Bernoulli($l) => $body,
        }
    };
}

impl Component {
    /// Gaussian with the given standard deviation.
    pub fn normal(std: f64) -> Result<Self, LikelihoodError> {
        positive("Gaussian", "std", std)?;
        Ok(Self::Normal(Normal::of(std)))
    }

    /// The same with its deviation or scale times `k`; counts and binary data have none of their own.
    pub fn stretched(&self, k: f64) -> Result<Self, LikelihoodError> {
        Ok(match *self {
            Self::Normal(l) => Self::normal(k * l.std)?,
            Self::StudentT(l) => Self::StudentT(StudentT::new(l.dof, k * l.scale)?),
            Self::Huber(l) => Self::Huber(Huber::new(l.delta, k * l.scale)?),
            counted => counted,
        })
    }

    /// The same with another deviation or scale; counts and binary data have none of their own.
    pub fn with_scale(&self, scale: f64) -> Result<Self, LikelihoodError> {
        Ok(match *self {
            Self::Normal(_) => Self::normal(scale)?,
            Self::StudentT(l) => Self::StudentT(StudentT::new(l.dof, scale)?),
            Self::Huber(l) => Self::Huber(Huber::new(l.delta, scale)?),
            counted => counted,
        })
    }

    /// The variance of a measurement, where it does not depend on what is expected: infinite under Student's t of
    /// two degrees of freedom or less, `None` for counts and binary measurements.
    pub fn variance(&self) -> Option<f64> {
        (!self.is_discrete()).then(|| dispatch!(self, l => l.variance1(0.0)))
    }

    /// Whether it counts, or tells zeros from ones.
    pub fn is_discrete(&self) -> bool {
        matches!(self, Self::Poisson(_) | Self::Bernoulli(_))
    }

    /// The measurement expected at eta.
    pub fn expected(&self, eta: f64) -> f64 {
        dispatch!(self, l => l.expect1(eta))
    }
}

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

#[cfg(test)]
mod tests;
