//! What a measurement of one component is worth to a Gaussian belief of it: Gaussians that may stand in for it.
//!
//! Let eta ~ N(0, V) be what is believed of the component and v what is measured of it.
//!
//! ```text
//! Gaussian    R = s^2
//! Huber       R = s^2 at the mode, else s |r| / delta, r = v less V delta / s: the reweighted square of robust regression
//! Student-t   a Gaussian of variance s^2 / lambda, lambda ~ Gamma(dof/2, dof/2) (shape, rate): given v, 1 / R = E[1 / S] / E[R' / S],
//!             R' = s^2 / lambda, S = V + R', under which the belief goes to its exact mean
//! ```
//!
//! Under Student's t the belief after a far measurement has two hills: the measurement is off, or the belief was. One Gaussian
//! for both lies between them, so each gets its own: that of the lambdas under which the measurement moves the belief by more than half
//! of the way, and that of the others.
//!
//! Reference: Lange, Little and Taylor 1989; Huber 1981; Alspach and Sorenson 1972 (sums of Gaussians).

use super::{Component, Single};
use crate::scalar::Scalar;
use core::f64::consts::TAU;

/// A Gaussian measurement in the place of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Site {
    /// Its variance.
    pub(crate) variance: f64,
    /// ln of the density of the measurement, as far as this Gaussian stands for it.
    pub(crate) log_evidence: f64,
}

/// Nodes of the integral over lambda.
const NODES: usize = 48;

/// Hills closer to one another than this, in standard deviations of the belief, are one.
const APART: f64 = 0.5;

impl Component {
    /// Whether it forgives outliers.
    pub fn is_robust(&self) -> bool {
        matches!(self, Self::StudentT(_) | Self::Huber(_))
    }

    /// Its deviation or scale; counts and binary data have none of their own.
    pub fn scale(&self) -> Option<f64> {
        match self {
            Self::Normal(l) => Some(l.std),
            Self::StudentT(l) => Some(l.scale),
            Self::Huber(l) => Some(l.scale),
            Self::Poisson(_) | Self::Bernoulli(_) => None,
        }
    }

    /// Whether a path that fits better than its neighbours fits best, where everything else is linear and Gaussian.
    pub(crate) fn is_log_concave(&self) -> bool {
        !matches!(self, Self::StudentT(_))
    }

    /// The Gaussians that stand for a measurement `v` off a belief of variance `prior`; `square` is that of the scale.
    pub(crate) fn sites(&self, v: f64, prior: f64, square: f64) -> (Site, Option<Site>) {
        match self {
            Self::StudentT(law) => student_t(law.dof, v, prior, square),
            Self::Huber(law) => {
                let scale = square.sqrt();
                let off = v.abs() - prior * law.delta / scale;
                let variance = square.max(scale * off / law.delta);
                (self.laplace(v, prior, square, variance), None)
            }
            _ => (self.laplace(v, prior, square, square), None),
        }
    }

    /// The Gaussian of that variance, with the evidence of a belief of the same mode and curvature: exact of Gaussians.
    fn laplace(&self, v: f64, prior: f64, square: f64, variance: f64) -> Site {
        let total = prior + variance;
        let rest = v * variance / total;
        let log_evidence = self.log_density(rest, square) + 0.5 * rest * rest / variance
            - 0.5 * v * v / total
            + 0.5 * Scalar::ln(variance / total);
        Site { variance, log_evidence }
    }

    /// ln p of a measurement that is `off` its centre, with another scale.
    pub(crate) fn log_density(&self, off: f64, square: f64) -> f64 {
        // The law is that of its own scale; lengths are measured in units of the other.
        let unit = Scalar::sqrt(square) / self.scale().unwrap_or(1.0);
        let of = |off: f64| match self {
            Self::Normal(l) => l.loss1(off, 0.0) + l.log_normalizer1(off),
            Self::StudentT(l) => l.loss1(off, 0.0) + l.log_normalizer1(off),
            Self::Huber(l) => l.loss1(off, 0.0) + l.log_normalizer1(off),
            Self::Poisson(l) => l.loss1(off, 0.0) + l.log_normalizer1(off),
            Self::Bernoulli(l) => l.loss1(off, 0.0) + l.log_normalizer1(off),
        };
        -of(off / unit) - Scalar::ln(unit)
    }
}

/// Sums over the lambdas of one hill, all relative to e^peak.
#[derive(Clone, Copy)]
struct Hill {
    peak: f64,
    mass: f64,
    /// E[1 / S] and E[R' / S], times the mass.
    precision: f64,
    share: f64,
}

impl Hill {
    fn of(terms: &[(f64, f64)], prior: f64) -> Option<Self> {
        let peak = terms.iter().fold(f64::NEG_INFINITY, |a, (log, _)| a.max(*log));
        if !peak.is_finite() {
            return None;
        }
        let mut hill = Self { peak, mass: 0.0, precision: 0.0, share: 0.0 };
        for (log, noise) in terms {
            let weight = Scalar::exp(log - peak);
            let total = prior + noise;
            hill.mass += weight;
            hill.precision += weight / total;
            hill.share += weight * noise / total;
        }
        Some(hill)
    }

    fn site(&self) -> Site {
        let variance = self.share / self.precision;
        Site { variance, log_evidence: self.peak + Scalar::ln(self.mass) }
    }

    /// How much of the way to the measurement the belief goes.
    fn gain(&self, prior: f64) -> f64 {
        prior * self.precision / self.mass
    }
}

fn student_t(dof: f64, v: f64, prior: f64, square: f64) -> (Site, Option<Site>) {
    // ln lambda = width sinh t, even steps of t: dense where the density of lambda is, and far enough for any measurement.
    let shape = 0.5 * dof;
    let width = Scalar::sqrt(2.0 / dof);
    let least = (1e-4 * square / (prior + v * v)).clamp(1e-290, 1e-3);
    let most = 1.0 + 8.0 * width + 20.0 / dof;
    let (from, to) =
        (libm::asinh(Scalar::ln(least) / width), libm::asinh(Scalar::ln(most) / width));
    let stride = (to - from) / (NODES - 1) as f64;
    let constant = shape * Scalar::ln(shape) - libm::lgamma(shape) + Scalar::ln(width * stride);
    let mut terms = [(0.0, 0.0); NODES];
    let mut near = NODES;
    for (i, term) in terms.iter_mut().enumerate() {
        let t = from + stride * i as f64;
        let log = width * libm::sinh(t);
        let lambda = Scalar::exp(log);
        let noise = square / lambda;
        let total = prior + noise;
        let density = constant
            + shape * (log - lambda)
            + Scalar::ln(libm::cosh(t) / Scalar::sqrt(TAU * total));
        *term = (density - 0.5 * v * v / total, noise);
        if near == NODES && prior >= noise {
            near = i;
        }
    }
    let (out, inside) = terms.split_at(near);
    let (out, inside) = (Hill::of(out, prior), Hill::of(inside, prior));
    if let (Some(out), Some(inside)) = (out, inside)
        && (inside.gain(prior) - out.gain(prior)) * v.abs() > APART * Scalar::sqrt(prior)
    {
        return (inside.site(), Some(out.site()));
    }
    match Hill::of(&terms, prior) {
        Some(all) => (all.site(), None),
        None => (Site { variance: square, log_evidence: f64::NEG_INFINITY }, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::likelihood::{Huber, StudentT};

    /// scipy.integrate.quad of t.pdf(v - x, dof, scale=s) norm.pdf(x, 0, sqrt(V)), and of x times that (tests/golden/robust_scipy.py).
    #[test]
    fn student_t_is_integrated_to_the_mean_and_the_evidence_of_scipy() {
        for (dof, scale, prior, v, log_evidence, mean) in SCIPY {
            let law = Component::StudentT(StudentT::new(dof, scale).unwrap());
            let square = scale * scale;
            let (one, other) = law.sites(v, prior, square);
            let sites = [Some(one), other];
            let (mut mass, mut first) = (0.0, 0.0);
            for site in sites.into_iter().flatten() {
                let weight = site.log_evidence.exp();
                mass += weight;
                first += weight * v * prior / (prior + site.variance);
            }
            let off = (mass.ln() - log_evidence).abs();
            assert!(off < 2e-5, "{dof} {prior} {v}: {} {log_evidence}", mass.ln());
            assert!(
                (first / mass - mean).abs() < 2e-5 * (prior.sqrt() + mean.abs()),
                "{first} {mean}"
            );
        }
    }

    include!("site_scipy.rs");

    #[test]
    fn hubers_site_is_at_the_mode() {
        let law = Huber::new(1.345, 0.5).unwrap();
        for (v, prior) in [(0.3, 0.2), (2.0, 0.2), (-60.0, 0.01), (60.0, 1e4)] {
            let site = Component::Huber(law).sites(v, prior, 0.25).0;
            let mode = v * prior / (prior + site.variance);
            // The slope of loss and prior at the mode.
            let slope = law.score1(v, mode) + mode / prior;
            assert!(slope.abs() < 1e-9, "{v} {prior}: {slope}");
        }
    }
}
