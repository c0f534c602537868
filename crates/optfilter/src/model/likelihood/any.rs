//! A likelihood chosen at run time.

use super::{Foreign, Gaussian, Independent, Likelihood, Observed, SquaredError};
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim};

/// One of the library's likelihoods.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyLikelihood<M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// Squared error: Gaussian measurements whose noise is not stated.
    SquaredError(SquaredError),
    /// Gaussian with any covariance.
    Gaussian(Gaussian<M>),
    /// A different likelihood for each component.
    Independent(Independent),
    /// What somebody else computes.
    Foreign(Foreign),
}

macro_rules! each {
    ($likelihood:expr, $l:ident => $body:expr) => {
        match $likelihood {
            AnyLikelihood::SquaredError($l) => $body,
            AnyLikelihood::Gaussian($l) => $body,
            AnyLikelihood::Independent($l) => $body,
            AnyLikelihood::Foreign($l) => $body,
        }
    };
}

/// Out of line: the five kinds of components would otherwise be copied into every loop of every filter.
#[inline(never)]
fn independent_score<S: Scalar>(
    likelihood: &Independent,
    y: &[S],
    eta: &[S],
    observed: Observed<'_>,
    out: &mut [S],
) {
    likelihood.score(y, eta, observed, out);
}

impl<M: Dim> Likelihood for AnyLikelihood<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    #[inline(always)]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        each!(self, l => l.loss(y, eta, observed))
    }
    #[inline(always)]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        match self {
            Self::SquaredError(l) => l.score(y, eta, observed, out),
            Self::Gaussian(l) => l.score(y, eta, observed, out),
            Self::Independent(l) => independent_score(l, y, eta, observed, out),
            Self::Foreign(l) => l.score(y, eta, observed, out),
        }
    }
    #[inline(always)]
    fn expect<S: Scalar>(&self, eta: &mut [S]) {
        each!(self, l => l.expect(eta));
    }
    #[inline(always)]
    fn variances<S: Scalar>(&self, mean: &[S], out: &mut [S]) -> bool {
        each!(self, l => l.variances(mean, out))
    }
    fn curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        each!(self, l => l.curvature(y, eta, observed, v, out));
    }
    fn steady_curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        each!(self, l => l.steady_curvature(y, eta, observed, v, out));
    }
    #[inline(always)]
    fn has_own_curvature(&self) -> bool {
        each!(self, l => l.has_own_curvature())
    }
    fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        each!(self, l => l.log_normalizer(y, observed))
    }
    #[inline(always)]
    fn wants_many(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }
    fn losses(&self, y: &[f64], etas: &[f64], out: &mut [f64]) -> bool {
        each!(self, l => l.losses(y, etas, out))
    }
    #[inline(always)]
    fn has_scale(&self) -> bool {
        !matches!(self, Self::SquaredError(_) | Self::Foreign(_))
    }
    #[inline(always)]
    fn is_uniform(&self) -> bool {
        each!(self, l => l.is_uniform())
    }
    fn dim(&self) -> Option<usize> {
        each!(self, l => l.dim())
    }
    fn admits(&self, component: usize, value: f64) -> bool {
        each!(self, l => l.admits(component, value))
    }
}
