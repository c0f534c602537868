//! The likelihood of one component, of a kind chosen at run time.

use super::error::positive;
use super::single::Single;
use super::{Bernoulli, Huber, LikelihoodError, Normal, Poisson, StudentT};
use serde::{Deserialize, Serialize};

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
pub(super) use dispatch;

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
