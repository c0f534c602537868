//! Likelihoods of single components: Student-t, Huber, Poisson, Bernoulli, and mixtures of kinds.
//!
//! With z = (y - eta) / scale:
//!
//! ```text
//! Student-t   (dof + 1)/2 ln(1 + z^2 / dof)
//! Huber       z^2 / 2 where |z| <= delta, else delta |z| - delta^2 / 2
//! Poisson     exp(eta) - y eta          (log link)     eta - y ln eta                      (identity)
//! Bernoulli   ln(1 + exp(eta)) - y eta  (logit link)   -y ln eta - (1 - y) ln(1 - eta)     (identity)
//! ```
//!
//! With the identity link a rate or probability is kept 1e-12 away from the edge of its range, so that
//! a state that strays outside is pushed back instead of giving NaN.

use super::gaussian::half_ln_tau;
use super::{Likelihood, Observed};
use crate::scalar::Scalar;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const EDGE: f64 = 1e-12;

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

/// What eta = h(x) stands for in a count or binary likelihood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// The mean itself: a rate, a probability.
    Identity,
    /// Its canonical transform: the logarithm of a rate, the logit of a probability.
    Canonical,
}

/// Gaussian noise of one component.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normal {
    precision: f64,
    pub(super) std: f64,
}

/// Student's t noise: like a Gaussian near the centre, with tails that forgive outliers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudentT {
    pub(super) dof: f64,
    pub(super) scale: f64,
}

impl StudentT {
    /// With `dof` degrees of freedom and the given scale; the variance is scale^2 dof / (dof - 2).
    pub fn new(dof: f64, scale: f64) -> Result<Self, LikelihoodError> {
        positive("Student-t", "dof", dof)?;
        positive("Student-t", "scale", scale)?;
        Ok(Self { dof, scale })
    }
}

/// Huber's loss: quadratic within `delta` scales of the centre, linear beyond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Huber {
    pub(super) delta: f64,
    pub(super) scale: f64,
}

impl Huber {
    /// Linear beyond `delta` scales (1.345 gives 95 % efficiency under Gaussian noise).
    pub fn new(delta: f64, scale: f64) -> Result<Self, LikelihoodError> {
        positive("Huber", "delta", delta)?;
        positive("Huber", "scale", scale)?;
        Ok(Self { delta, scale })
    }
}

/// Counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poisson {
    /// What eta is: the rate, or its logarithm.
    pub link: Link,
}

/// Zeros and ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bernoulli {
    /// What eta is: the probability of a one, or its logit.
    pub link: Link,
}

/// The likelihood of one component of a measurement.
trait Single {
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S;
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S;
    /// Fisher's information, or the weight under which a robust loss is a square.
    fn curvature1(&self, y: f64, eta: f64) -> f64;
    fn log_normalizer1(&self, y: f64) -> f64;
    fn admits1(&self, y: f64) -> bool {
        y.is_finite()
    }
}

impl Single for Normal {
    #[inline(always)]
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S {
        (y - eta).square().scale(0.5 * self.precision)
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        (eta - y).scale(self.precision)
    }
    fn curvature1(&self, _y: f64, _eta: f64) -> f64 {
        self.precision
    }
    fn log_normalizer1(&self, _y: f64) -> f64 {
        half_ln_tau() + Scalar::ln(self.std)
    }
}

impl Single for StudentT {
    #[inline(always)]
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S {
        let z2 = (y - eta).square().scale(1.0 / (self.dof * self.scale * self.scale));
        z2.ln_1p().scale(0.5 * (self.dof + 1.0))
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        let r = eta - y;
        r.scale(self.dof + 1.0) / (r.square() + S::from_f64(self.dof * self.scale * self.scale))
    }
    fn curvature1(&self, y: f64, eta: f64) -> f64 {
        (self.dof + 1.0) / ((eta - y).square() + self.dof * self.scale * self.scale)
    }
    fn log_normalizer1(&self, _y: f64) -> f64 {
        libm::lgamma(0.5 * self.dof) - libm::lgamma(0.5 * (self.dof + 1.0))
            + 0.5 * Scalar::ln(self.dof * core::f64::consts::PI)
            + Scalar::ln(self.scale)
    }
}

impl Single for Huber {
    #[inline(always)]
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S {
        let z = (y - eta).scale(1.0 / self.scale).abs();
        let delta = S::from_f64(self.delta);
        let linear = (z - delta.scale(0.5)) * delta;
        S::select_lt(delta, z, linear, z.square().scale(0.5))
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        let z = (eta - y).scale(1.0 / self.scale);
        let delta = S::from_f64(self.delta);
        z.max(-delta).min(delta).scale(1.0 / self.scale)
    }
    fn curvature1(&self, y: f64, eta: f64) -> f64 {
        let z = ((eta - y) / self.scale).abs();
        if z <= self.delta { 1.0 } else { self.delta / z }.scale(1.0 / (self.scale * self.scale))
    }
    fn log_normalizer1(&self, _y: f64) -> f64 {
        // The integral of exp(-loss): a Gaussian middle and two exponential tails.
        let d = self.delta;
        let middle =
            Scalar::sqrt(core::f64::consts::TAU) * libm::erf(d * core::f64::consts::FRAC_1_SQRT_2);
        let tails = 2.0 / d * Scalar::exp(-0.5 * d * d);
        Scalar::ln(self.scale * (middle + tails))
    }
}

impl Single for Poisson {
    #[inline(always)]
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S {
        match self.link {
            Link::Canonical => eta.exp() - y * eta,
            Link::Identity => {
                let rate = eta.max(S::from_f64(EDGE));
                rate - y * rate.ln()
            }
        }
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        match self.link {
            Link::Canonical => eta.exp() - y,
            Link::Identity => S::ONE - y / eta.max(S::from_f64(EDGE)),
        }
    }
    fn curvature1(&self, _y: f64, eta: f64) -> f64 {
        match self.link {
            Link::Canonical => Scalar::exp(eta),
            Link::Identity => 1.0 / Scalar::max(eta, EDGE),
        }
    }
    fn log_normalizer1(&self, y: f64) -> f64 {
        libm::lgamma(y + 1.0)
    }
    fn admits1(&self, y: f64) -> bool {
        y.is_finite() && y >= 0.0 && y == Scalar::floor(y)
    }
}

impl Single for Bernoulli {
    #[inline(always)]
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S {
        match self.link {
            // ln(1 + e^eta) without overflow
            Link::Canonical => eta.max(S::ZERO) + (-eta.abs()).exp().ln_1p() - y * eta,
            Link::Identity => {
                let p = eta.max(S::from_f64(EDGE)).min(S::from_f64(1.0 - EDGE));
                -(y * p.ln() + (S::ONE - y) * (S::ONE - p).ln())
            }
        }
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        match self.link {
            Link::Canonical => S::ONE / (S::ONE + (-eta).exp()) - y,
            Link::Identity => {
                let p = eta.max(S::from_f64(EDGE)).min(S::from_f64(1.0 - EDGE));
                (p - y) / (p * (S::ONE - p))
            }
        }
    }
    fn curvature1(&self, _y: f64, eta: f64) -> f64 {
        match self.link {
            Link::Canonical => {
                let p = 1.0 / (1.0 + Scalar::exp(-eta));
                p * (1.0 - p)
            }
            Link::Identity => {
                let p = Scalar::min(Scalar::max(eta, EDGE), 1.0 - EDGE);
                1.0 / (p * (1.0 - p))
            }
        }
    }
    fn log_normalizer1(&self, _y: f64) -> f64 {
        0.0
    }
    fn admits1(&self, y: f64) -> bool {
        y == 0.0 || y == 1.0
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
            fn curvature(
                &self,
                y: &[f64],
                eta: &[f64],
                observed: Observed<'_>,
                v: &[f64],
                out: &mut [f64],
            ) {
                for i in 0..y.len() {
                    out[i] = if observed.has(i) { self.curvature1(y[i], eta[i]) * v[i] } else { 0.0 };
                }
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

impl Component {
    /// Gaussian with the given standard deviation.
    pub fn normal(std: f64) -> Result<Self, LikelihoodError> {
        positive("Gaussian", "std", std)?;
        Ok(Self::Normal(Normal { precision: 1.0 / (std * std), std }))
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
    fn curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        for (i, component) in self.components.iter().enumerate() {
            let curvature = dispatch!(component, l => l.curvature1(y[i], eta[i]));
            out[i] = if observed.has(i) { curvature * v[i] } else { 0.0 };
        }
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
mod tests {
    use super::*;
    use crate::scalar::Dual;

    fn all() -> Vec<Component> {
        alloc::vec![
            Component::normal(0.7).unwrap(),
            Component::StudentT(StudentT::new(3.0, 0.6).unwrap()),
            Component::Huber(Huber::new(1.345, 0.8).unwrap()),
            Component::Poisson(Poisson { link: Link::Identity }),
            Component::Poisson(Poisson { link: Link::Canonical }),
            Component::Bernoulli(Bernoulli { link: Link::Identity }),
            Component::Bernoulli(Bernoulli { link: Link::Canonical }),
        ]
    }

    #[test]
    fn scores_are_the_derivatives_of_the_losses() {
        for component in all() {
            for (y, eta) in [(1.0, 0.3), (0.0, 0.6), (1.0, 0.9)] {
                let loss = dispatch!(&component, l => l.loss1(Dual::constant(y), Dual::<f64, 1>::variable(eta, 0)));
                let score = dispatch!(&component, l => l.score1(y, eta));
                assert!((loss.eps[0] - score).abs() < 1e-12, "{component:?} at {y}, {eta}");
            }
        }
    }

    #[test]
    fn densities_sum_to_one() {
        for component in all() {
            let eta = 0.4;
            let density = |y: f64| dispatch!(&component, l => (-(l.loss1(y, eta) + l.log_normalizer1(y))).exp());
            let total: f64 = match component {
                Component::Poisson(_) => (0..60).map(|k| density(f64::from(k))).sum(),
                Component::Bernoulli(_) => density(0.0) + density(1.0),
                // y = tan(angle) maps the line onto an interval, so heavy tails are integrated too.
                _ => {
                    let n = 200_000;
                    let h = core::f64::consts::PI / f64::from(n);
                    (0..n)
                        .map(|k| {
                            let y = ((f64::from(k) + 0.5) * h - core::f64::consts::FRAC_PI_2).tan();
                            density(y) * (1.0 + y * y) * h
                        })
                        .sum()
                }
            };
            assert!((total - 1.0).abs() < 1e-6, "{component:?}: {total}");
        }
    }
}
