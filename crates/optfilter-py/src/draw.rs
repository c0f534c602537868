//! Measurements drawn from the likelihoods that Python can name.
//!
//! | likelihood | given eta = h(x), the measurement is |
//! |---|---|
//! | Gaussian | eta + L z with L L' = R |
//! | Student's t | eta + scale z / sqrt(c / dof), c chi-square with dof degrees of freedom |
//! | Huber | eta + scale w, w of the density whose negative logarithm is Huber's loss: normal within delta, exponential beyond |
//! | Poisson | a count with rate eta, or exp(eta); 0 where the rate is negative |
//! | Bernoulli | 1 with probability eta, or 1 / (1 + exp(-eta)) |
//!
//! The laws themselves are `optfilter_model::draw`'s.

use crate::convert::matrix;
use crate::errors::bad;
use nalgebra::{DMatrix, DVector};
use optfilter::linalg::psd_factor;
use optfilter::rng::Stream;
use optfilter_model::draw::{gamma, huber, poisson};
use pyo3::prelude::*;

/// Rates above this are not counts that anybody measured, but a model that ran away.
const LARGEST_RATE: f64 = 1e9;

/// How one component scatters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Normal,
    StudentT { dof: f64 },
    Huber { delta: f64 },
    Poisson { log_link: bool },
    Bernoulli { logit_link: bool },
}

/// How measurements scatter about h(x).
#[derive(Clone, Debug)]
pub(crate) enum Scatter {
    /// Together, by a factor of their covariance.
    Gaussian(DMatrix<f64>),
    /// Each by a law and a scale of its own.
    Independent(Vec<(Kind, f64)>),
}

/// A rate or probability that nothing can be drawn from.
#[derive(Debug)]
pub(crate) struct Impossible {
    pub(crate) component: usize,
    pub(crate) eta: f64,
}

impl Scatter {
    /// Gaussian with covariance `r`.
    pub(crate) fn gaussian(r: &DMatrix<f64>) -> PyResult<Self> {
        let factor = psd_factor(r).ok_or_else(|| bad("R", "must be positive semi-definite"))?;
        Ok(Self::Gaussian(factor))
    }

    /// From the tuple by which `optfilter.likelihoods` describes a likelihood of `m` measurements.
    pub(crate) fn parse(spec: &Bound<'_, PyAny>, m: usize) -> PyResult<Self> {
        let name: String = spec.get_item(0)?.extract()?;
        match name.as_str() {
            "squared" => Ok(Self::Gaussian(DMatrix::identity(m, m))),
            "gaussian" => Self::gaussian(&matrix("R", &spec.get_item(1)?, Some((m, m)))?),
            _ => {
                let parts: Vec<(String, f64, f64, bool)> = spec.get_item(1)?.extract()?;
                if parts.len() != m {
                    let message = format!("is for {} measurements, not {m}", parts.len());
                    return Err(bad("likelihood", message));
                }
                let kinds = parts.iter().map(|(kind, shape, scale, link)| {
                    let kind = match kind.as_str() {
                        "gaussian" => Kind::Normal,
                        "student_t" => Kind::StudentT { dof: *shape },
                        "huber" => Kind::Huber { delta: *shape },
                        "poisson" => Kind::Poisson { log_link: *link },
                        "bernoulli" => Kind::Bernoulli { logit_link: *link },
                        _ => return Err(bad("likelihood", format!("{kind:?} is not known"))),
                    };
                    Ok((kind, *scale))
                });
                Ok(Self::Independent(kinds.collect::<PyResult<_>>()?))
            }
        }
    }

    /// Turns eta = h(x) into a measurement.
    pub(crate) fn draw(&self, y: &mut DVector<f64>, stream: &mut Stream) -> Result<(), Impossible> {
        match self {
            Self::Gaussian(factor) => {
                let mut z = DVector::zeros(y.nrows());
                stream.fill_normal(z.as_mut_slice());
                *y = &*y + factor * z;
            }
            Self::Independent(kinds) => {
                for (component, (kind, scale)) in kinds.iter().enumerate() {
                    let eta = y[component];
                    let drawn = kind.draw(eta, *scale, stream);
                    y[component] = drawn.ok_or(Impossible { component, eta })?;
                }
            }
        }
        Ok(())
    }
}

impl Kind {
    fn draw(self, eta: f64, scale: f64, stream: &mut Stream) -> Option<f64> {
        Some(match self {
            Self::Normal => eta + scale * stream.normal(),
            Self::StudentT { dof } => {
                let chi_square = 2.0 * gamma(0.5 * dof, stream);
                eta + scale * stream.normal() / (chi_square / dof).sqrt()
            }
            Self::Huber { delta } => eta + scale * huber(delta, stream),
            Self::Poisson { log_link } => {
                let rate = if log_link { eta.exp() } else { eta };
                if rate.is_nan() || rate > LARGEST_RATE {
                    return None;
                }
                poisson(rate.max(0.0), stream)
            }
            Self::Bernoulli { logit_link } => {
                let probability = if logit_link { 1.0 / (1.0 + (-eta).exp()) } else { eta };
                if probability.is_nan() {
                    return None;
                }
                f64::from(u8::from(stream.uniform() < probability))
            }
        })
    }
}
