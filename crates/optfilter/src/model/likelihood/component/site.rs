//! What a measurement of one component is worth to a Gaussian belief of it: Gaussian measurements that may stand in for it.
//!
//! Let eta ~ N(0, V) be what is believed of the component and v what is measured of it. Given v, eta has a mean and a variance; the
//! Gaussian measurement that leads there has
//!
//! ```text
//! 1 / (V + R) = E[psi'] - Var[psi]  and  the value  E[psi] (V + R),     psi the slope of the loss at v - eta
//! Huber       psi = r / s^2 within delta s, else delta / s;   integrated over eta
//! Student-t   a Gaussian of variance R' = s^2 / lambda, lambda ~ Gamma(dof/2, dof/2) (shape, rate): psi = v / S, psi' = 1 / S, S = V + R';
//!             integrated over lambda
//! ```
//!
//! Under Student's t the belief after a far measurement has two hills: the measurement is off, or the belief was. One Gaussian
//! for both lies between them, so each gets its own: that of the lambdas under which the measurement moves the belief by more than half
//! of the way, and that of the others.
//!
//! Reference: Lange, Little and Taylor 1989; Huber 1981; Masreliez 1975 (moments by the score); Alspach and Sorenson 1972 (sums of Gaussians).

use super::single::Single;
use super::{Component, Huber};
use crate::scalar::Scalar;
use core::f64::consts::TAU;

/// A Gaussian measurement in the place of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Site {
    /// What is measured, less the prediction.
    pub(crate) value: f64,
    /// Its variance.
    pub(crate) variance: f64,
    /// ln of the density of the measurement, as far as this Gaussian stands for it.
    pub(crate) log_evidence: f64,
}

/// Nodes of an integral.
const NODES: usize = 48;

/// Hills closer to one another than this, in standard deviations of the belief, are one.
const APART: f64 = 0.5;

/// A measurement narrows the belief by no less than this share of what it moves it: a belief that it widens is taken as it is.
const LEAST: f64 = 0.25;

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
            Self::Huber(law) => (huber(law, v, prior, square), None),
            _ => {
                let total = prior + square;
                let log_evidence = -0.5 * (v * v / total + Scalar::ln(TAU * total));
                (Site { value: v, variance: square, log_evidence }, None)
            }
        }
    }
}

impl Site {
    /// From E[psi] and E[psi'] - Var[psi], and the share of a variance of one that is left of the belief, where it is known.
    fn of(slope: f64, bend: f64, prior: f64, left: Option<f64>, log_evidence: f64, v: f64) -> Self {
        let least = LEAST * (slope / v);
        let (bend, left) = match bend >= least || v == 0.0 {
            true => (bend, left),
            false => (least, None),
        };
        let variance = left.unwrap_or(1.0 - prior * bend) / bend;
        Self { value: slope / bend, variance, log_evidence }
    }
}

/// Sums over the lambdas of one hill, all relative to e^peak.
#[derive(Clone, Copy)]
struct Hill {
    peak: f64,
    mass: f64,
    /// E[1 / S], E[1 / S^2] and E[R' / S].
    precision: f64,
    square: f64,
    share: f64,
}

impl Hill {
    fn of(terms: &[(f64, f64)], prior: f64) -> Option<Self> {
        let peak = terms.iter().fold(f64::NEG_INFINITY, |a, (log, _)| a.max(*log));
        if !peak.is_finite() {
            return None;
        }
        let mut hill = Self { peak, mass: 0.0, precision: 0.0, square: 0.0, share: 0.0 };
        for (log, noise) in terms {
            let weight = Scalar::exp(log - peak);
            let total = prior + noise;
            hill.mass += weight;
            hill.precision += weight / total;
            hill.square += weight / (total * total);
            hill.share += weight * noise / total;
        }
        hill.precision /= hill.mass;
        hill.square /= hill.mass;
        hill.share /= hill.mass;
        Some(hill)
    }

    fn site(&self, v: f64, prior: f64) -> Site {
        let spread = v * v * (self.square - self.precision * self.precision).max(0.0);
        let left = self.share + prior * spread;
        let log_evidence = self.peak + Scalar::ln(self.mass);
        let (slope, bend) = (self.precision * v, self.precision - spread);
        Site::of(slope, bend, prior, Some(left), log_evidence, v)
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
    if let (Some(out), Some(inside)) = (Hill::of(out, prior), Hill::of(inside, prior))
        && prior * (inside.precision - out.precision) * v.abs() > APART * Scalar::sqrt(prior)
    {
        return (inside.site(v, prior), Some(out.site(v, prior)));
    }
    match Hill::of(&terms, prior) {
        Some(all) => (all.site(v, prior), None),
        None => (Site { value: v, variance: square, log_evidence: f64::NEG_INFINITY }, None),
    }
}

fn huber(law: &Huber, v: f64, prior: f64, square: f64) -> Site {
    let scale = Scalar::sqrt(square);
    let of_own = Huber { delta: law.delta, scale };
    let constant = of_own.log_normalizer1(0.0);
    if prior <= 1e-12 * square {
        let slope = -of_own.score1(v, 0.0);
        let bend = if v.abs() <= law.delta * scale { 1.0 / square } else { LEAST * slope / v };
        return Site::of(slope, bend, prior, None, -of_own.loss1(v, 0.0) - constant, v);
    }
    // eta = mode + narrow sinh t, even steps of t over nine deviations of the belief either way.
    let within = v * prior / (prior + square);
    let pull = prior * law.delta / scale;
    let mode = if (v - within).abs() <= law.delta * scale { within } else { pull * v.signum() };
    let narrow = Scalar::sqrt(prior * square / (prior + square));
    let reach = libm::asinh(9.0 * Scalar::sqrt(prior) / narrow);
    let stride = 2.0 * reach / (NODES - 1) as f64;
    let loss = |eta: f64| of_own.loss1(v, eta) + 0.5 * eta * eta / prior;
    let least = loss(mode);
    let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
    let (mut slope, mut slopes, mut bend) = (0.0, 0.0, 0.0);
    for i in 0..NODES {
        let t = stride * i as f64 - reach;
        let off = narrow * libm::sinh(t);
        let weight = Scalar::exp(least - loss(mode + off)) * libm::cosh(t);
        let psi = -of_own.score1(v, mode + off);
        mass += weight;
        first += weight * off;
        second += weight * off * off;
        slope += weight * psi;
        slopes += weight * psi * psi;
        bend += if (v - mode - off).abs() <= law.delta * scale { weight / square } else { 0.0 };
    }
    for sum in [&mut first, &mut second, &mut slope, &mut slopes, &mut bend] {
        *sum /= mass;
    }
    let log_evidence =
        Scalar::ln(mass * stride * narrow / Scalar::sqrt(TAU * prior)) - least - constant;
    let after = second - first * first;
    if after < 0.9 * prior {
        // Where the belief has narrowed, its moments are known better than by the score, which jumps.
        let bend = (prior - after) / (prior * prior);
        return Site::of((mode + first) / prior, bend, prior, Some(after / prior), log_evidence, v);
    }
    Site::of(slope, bend - (slopes - slope * slope), prior, None, log_evidence, v)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::likelihood::StudentT;

    fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
        assert!((found - expected).abs() < tolerance, "{what}: {found} {expected}");
    }

    /// Evidence, mean and variance by scipy.integrate.quad (tests/golden/robust_scipy.py), over both hills. The variance is no wider than
    /// LEAST allows.
    #[test]
    fn moments_are_those_of_scipy() {
        for (dof, delta, scale, prior, v, log_evidence, mean, variance) in SCIPY {
            let law = match dof > 0.0 {
                true => Component::StudentT(StudentT::new(dof, scale).unwrap()),
                false => Component::Huber(Huber::new(delta, scale).unwrap()),
            };
            let (one, other) = law.sites(v, prior, scale * scale);
            let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
            for site in [Some(one), other].into_iter().flatten() {
                let weight = site.log_evidence.exp();
                let gain = prior / (prior + site.variance);
                let mean = gain * site.value;
                mass += weight;
                first += weight * mean;
                second += weight * (mean * mean + gain * site.variance);
            }
            let (first, second) = (first / mass, second / mass);
            let what = format!("{dof} {delta} {scale} {prior} {v}");
            let unit = prior.sqrt();
            // Nodes are sparse where hardly any of a nearly Gaussian law is left: 1 % there.
            close(mass.ln(), log_evidence, 0.02, &what);
            close(first, mean, 1e-2 * (unit + mean.abs()), &what);
            let after = second - first * first;
            if variance < 0.9 * prior {
                close(after, variance, 0.01 * prior.min(variance * 10.0), &what);
            }
        }
    }

    include!("site_scipy.rs");
}
