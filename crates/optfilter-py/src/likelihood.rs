//! Likelihoods from Python.

use crate::convert::matrix;
use crate::errors::bad;
use nalgebra::Dyn;
use optfilter::model::likelihood::{
    Bernoulli, Component, Gaussian, Huber, Independent, Likelihood, LikelihoodError, Link,
    Observed, Poisson, SquaredError, StudentT,
};
use optfilter::scalar::Scalar;
use pyo3::prelude::*;
use std::sync::Arc;

/// A likelihood of any kind.
#[derive(Clone, Debug)]
pub(crate) enum AnyLikelihood {
    Squared(SquaredError),
    Gaussian(Arc<Gaussian<Dyn>>),
    Independent(Arc<Independent>),
}

impl AnyLikelihood {
    /// How many components it is for, where it says.
    pub(crate) fn dim(&self) -> Option<usize> {
        match self {
            Self::Squared(_) => None,
            Self::Gaussian(l) => Some(l.cov().nrows()),
            Self::Independent(l) => Some(l.components().len()),
        }
    }
}

macro_rules! each {
    ($likelihood:expr, $l:ident => $body:expr) => {
        match $likelihood {
            AnyLikelihood::Squared($l) => $body,
            AnyLikelihood::Gaussian($l) => $body,
            AnyLikelihood::Independent($l) => $body,
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

impl Likelihood for AnyLikelihood {
    #[inline(always)]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        each!(self, l => l.loss(y, eta, observed))
    }
    #[inline(always)]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        match self {
            Self::Squared(l) => l.score(y, eta, observed, out),
            Self::Gaussian(l) => l.score(y, eta, observed, out),
            Self::Independent(l) => independent_score(l, y, eta, observed, out),
        }
    }
    fn log_normalizer(&self, y: &[f64], observed: Observed<'_>) -> f64 {
        each!(self, l => l.log_normalizer(y, observed))
    }
    fn admits(&self, component: usize, value: f64) -> bool {
        each!(self, l => l.admits(component, value))
    }
}

/// Reads the tuple by which `optfilter.likelihoods` describes a likelihood.
pub(crate) fn parse(spec: &Bound<'_, PyAny>) -> PyResult<AnyLikelihood> {
    let name: String = spec.get_item(0)?.extract()?;
    match name.as_str() {
        "squared" => Ok(AnyLikelihood::Squared(SquaredError)),
        "gaussian" => {
            let cov = matrix("R", &spec.get_item(1)?, None)?;
            let likelihood = Gaussian::new(cov).map_err(|e| bad("R", e))?;
            Ok(AnyLikelihood::Gaussian(Arc::new(likelihood)))
        }
        "independent" => {
            let parts: Vec<(String, f64, f64, bool)> = spec.get_item(1)?.extract()?;
            let components = parts.iter().map(component).collect::<PyResult<_>>()?;
            Ok(AnyLikelihood::Independent(Arc::new(Independent::new(components))))
        }
        _ => Err(bad("likelihood", format!("there is no likelihood called {name:?}"))),
    }
}

/// One component: kind, shape (degrees of freedom, delta), scale, canonical link.
fn component((kind, shape, scale, canonical): &(String, f64, f64, bool)) -> PyResult<Component> {
    let link = if *canonical { Link::Canonical } else { Link::Identity };
    let named = |e: LikelihoodError| bad(e.name, &e);
    Ok(match kind.as_str() {
        "gaussian" => Component::normal(*scale).map_err(named)?,
        "student_t" => Component::StudentT(StudentT::new(*shape, *scale).map_err(named)?),
        "huber" => Component::Huber(Huber::new(*shape, *scale).map_err(named)?),
        "poisson" => Component::Poisson(Poisson { link }),
        "bernoulli" => Component::Bernoulli(Bernoulli { link }),
        _ => return Err(bad("likelihood", format!("there is no likelihood called {kind:?}"))),
    })
}

/// Raises what is wrong with a likelihood, if anything is.
#[pyfunction]
pub(crate) fn check_likelihood(spec: &Bound<'_, PyAny>) -> PyResult<()> {
    parse(spec).map(|_| ())
}
