//! The likelihood of a model file: whatever its observations say, in one type.

use super::plan::PlanError;
use crate::file::{LikelihoodKind, ModelSpec};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};
use optfilter::model::Likelihood;
use optfilter::model::likelihood::{
    Bernoulli, Component, Gaussian, Huber, Independent, Link, Observed, Poisson, SquaredError,
    StudentT,
};
use optfilter::scalar::Scalar;

/// A likelihood known at run time.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyLikelihood<M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// Squared error: Gaussian measurements whose noise the file does not state.
    SquaredError(SquaredError),
    /// Gaussian with any covariance.
    Gaussian(Gaussian<M>),
    /// A different likelihood for each component.
    Independent(Independent),
}

impl<M: Dim> AnyLikelihood<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// Of a model file whose observations have dimension `m`.
    pub fn new(spec: &ModelSpec, m: M) -> Result<Self, PlanError> {
        let all_gaussian = spec.likelihoods.iter().all(|l| *l == LikelihoodKind::Gaussian);
        let Some(cov) = &spec.measurement_cov else {
            if all_gaussian {
                return Ok(Self::SquaredError(SquaredError));
            }
            return Self::independent(spec);
        };
        if all_gaussian {
            let cov = OMatrix::from_column_slice_generic(m, m, cov.as_slice());
            return Ok(Self::Gaussian(Gaussian::new(cov).map_err(PlanError::new)?));
        }
        Self::independent(spec)
    }

    fn independent(spec: &ModelSpec) -> Result<Self, PlanError> {
        let mut components = Vec::new();
        for (i, kind) in spec.likelihoods.iter().enumerate() {
            let name = &spec.observations[i];
            let scale = || match &spec.measurement_cov {
                Some(cov) => Ok(cov[(i, i)].sqrt()),
                None => Err(PlanError::new(format!(
                    "the likelihood of `{name}` needs a scale; add [measurement_noise] std = ..."
                ))),
            };
            components.push(match *kind {
                LikelihoodKind::Gaussian => Component::normal(scale()?).map_err(PlanError::new)?,
                LikelihoodKind::StudentT { dof } => {
                    Component::StudentT(StudentT::new(dof, scale()?).map_err(PlanError::new)?)
                }
                LikelihoodKind::Huber { delta } => {
                    Component::Huber(Huber::new(delta, scale()?).map_err(PlanError::new)?)
                }
                // Links are compiled into the equations, which give the rate and the probability.
                LikelihoodKind::Poisson { .. } => {
                    Component::Poisson(Poisson { link: Link::Identity })
                }
                LikelihoodKind::Bernoulli { .. } => {
                    Component::Bernoulli(Bernoulli { link: Link::Identity })
                }
            });
        }
        Ok(Self::Independent(Independent::new(components)))
    }
}

impl<M: Dim> Likelihood for AnyLikelihood<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    #[inline]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        match self {
            Self::SquaredError(l) => l.loss(y, eta, observed),
            Self::Gaussian(l) => l.loss(y, eta, observed),
            Self::Independent(l) => l.loss(y, eta, observed),
        }
    }
    #[inline]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        match self {
            Self::SquaredError(l) => l.score(y, eta, observed, out),
            Self::Gaussian(l) => l.score(y, eta, observed, out),
            Self::Independent(l) => l.score(y, eta, observed, out),
        }
    }
    fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        match self {
            Self::SquaredError(l) => l.log_normalizer(y, observed),
            Self::Gaussian(l) => l.log_normalizer(y, observed),
            Self::Independent(l) => l.log_normalizer(y, observed),
        }
    }
    fn admits(&self, component: usize, value: f64) -> bool {
        match self {
            Self::SquaredError(l) => l.admits(component, value),
            Self::Gaussian(l) => l.admits(component, value),
            Self::Independent(l) => l.admits(component, value),
        }
    }
}
