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
//! With the identity link nothing keeps a state inside the range of rates or probabilities, so the loss goes on
//! outside, with a continuous derivative, in a form that pushes back:
//!
//! ```text
//! ln v  becomes  2 ln e - ln(2 e - v)  below v = e = 1e-6    (as steep at a distance beyond e as before it)
//! plus  wall(o) = o^2 / e, 2 o - e from o = e on             (o: how far beyond 0, or beyond 1)
//! ```
//!
//! A negative rate that sees no count is thus pushed up with slope 1, as a positive one is pulled down; and one that
//! sees y counts, by y over its distance from zero. Inside, nothing differs from the equations above. The score
//! is the derivative of the loss everywhere, and the canonical forms keep their precision in both tails.

use super::gaussian::half_ln_tau;
use super::{Likelihood, Observed};
use crate::scalar::Scalar;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Where the logarithm of a rate or probability begins to be mirrored.
const EDGE: f64 = 1e-6;

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

/// v, or its mirror image in [`EDGE`] where it is below.
#[inline(always)]
fn mirrored<S: Scalar>(v: S) -> S {
    let edge = S::from_f64(EDGE);
    S::select_lt(v, edge, S::from_f64(2.0 * EDGE) - v, v)
}

/// ln v, continued below [`EDGE`] so that its derivative is 1 / mirrored(v).
#[inline(always)]
fn mirrored_ln<S: Scalar>(v: S) -> S {
    let ln = mirrored(v).ln();
    S::select_lt(v, S::from_f64(EDGE), S::from_f64(2.0 * Scalar::ln(EDGE)) - ln, ln)
}

/// What it costs to be `beyond` the edge of the domain; nothing inside.
#[inline(always)]
fn wall<S: Scalar>(beyond: S) -> S {
    let outside = S::ZERO.max(beyond);
    let bent = outside.min(S::from_f64(EDGE));
    bent.square().scale(1.0 / EDGE) + (outside - bent).scale(2.0)
}

/// The derivative of [`wall`]. At the edge itself nothing bends.
#[inline(always)]
fn wall_slope<S: Scalar>(beyond: S) -> S {
    S::ZERO.max(beyond).min(S::from_f64(EDGE)).scale(2.0 / EDGE)
}

/// ln(1 + e^x) without overflow.
#[inline(always)]
fn softplus<S: Scalar>(x: S) -> S {
    x.max(S::ZERO) + (-x.abs()).exp().ln_1p()
}

/// 1 / (1 + e^-x) to full precision in both tails.
#[inline(always)]
fn logistic<S: Scalar>(x: S) -> S {
    let small = (-x.abs()).exp();
    S::select_lt(x, S::ZERO, small, S::ONE) / (S::ONE + small)
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
    #[inline(always)]
    fn variance1<S: Scalar>(&self, _mean: S) -> S {
        S::from_f64(self.std * self.std)
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
    #[inline(always)]
    fn variance1<S: Scalar>(&self, _mean: S) -> S {
        let beyond = self.dof - 2.0;
        let factor = if beyond > 0.0 { self.dof / beyond } else { f64::INFINITY };
        S::from_f64(self.scale * self.scale * factor)
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
    fn variance1<S: Scalar>(&self, _mean: S) -> S {
        // The integral of z^2 exp(-loss), over that of exp(-loss).
        let (middle, edge) = self.masses();
        let inverse = 1.0 / self.delta;
        let second = middle + 4.0 * edge * (inverse + Scalar::powi(inverse, 3));
        S::from_f64(self.scale * self.scale * second / (middle + 2.0 * inverse * edge))
    }
    fn curvature1(&self, y: f64, eta: f64) -> f64 {
        let z = ((eta - y) / self.scale).abs();
        if z <= self.delta { 1.0 } else { self.delta / z }.scale(1.0 / (self.scale * self.scale))
    }
    fn log_normalizer1(&self, _y: f64) -> f64 {
        // The integral of exp(-loss): a Gaussian middle and two exponential tails.
        let (middle, edge) = self.masses();
        Scalar::ln(self.scale * (middle + 2.0 / self.delta * edge))
    }
}

impl Huber {
    /// The integral of exp(-z^2 / 2) over the middle, and its value where the tails begin.
    fn masses(&self) -> (f64, f64) {
        let d = self.delta;
        let middle =
            Scalar::sqrt(core::f64::consts::TAU) * libm::erf(d * core::f64::consts::FRAC_1_SQRT_2);
        (middle, Scalar::exp(-0.5 * d * d))
    }
}

impl Single for Poisson {
    #[inline(always)]
    fn loss1<S: Scalar>(&self, y: S, eta: S) -> S {
        match self.link {
            Link::Canonical => eta.exp() - y * eta,
            Link::Identity => eta - y * mirrored_ln(eta) + wall(-eta),
        }
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        match self.link {
            Link::Canonical => eta.exp() - y,
            Link::Identity => S::ONE - y / mirrored(eta) - wall_slope(-eta),
        }
    }
    #[inline(always)]
    fn expect1<S: Scalar>(&self, eta: S) -> S {
        if self.link == Link::Canonical { eta.exp() } else { eta }
    }
    #[inline(always)]
    fn variance1<S: Scalar>(&self, mean: S) -> S {
        mean.max(S::ZERO)
    }
    fn curvature1(&self, _y: f64, eta: f64) -> f64 {
        match self.link {
            Link::Canonical => Scalar::exp(eta),
            Link::Identity => 1.0 / mirrored(eta),
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
        let none = S::ONE - y;
        match self.link {
            Link::Canonical => y * softplus(-eta) + none * softplus(eta),
            Link::Identity => {
                let other = S::ONE - eta;
                -(y * mirrored_ln(eta) + none * mirrored_ln(other)) + wall(-eta) + wall(-other)
            }
        }
    }
    #[inline(always)]
    fn score1<S: Scalar>(&self, y: S, eta: S) -> S {
        let none = S::ONE - y;
        match self.link {
            Link::Canonical => none * logistic(eta) - y * logistic(-eta),
            Link::Identity => {
                let other = S::ONE - eta;
                none / mirrored(other) - y / mirrored(eta) + wall_slope(-other) - wall_slope(-eta)
            }
        }
    }
    #[inline(always)]
    fn expect1<S: Scalar>(&self, eta: S) -> S {
        if self.link == Link::Canonical { logistic(eta) } else { eta }
    }
    #[inline(always)]
    fn variance1<S: Scalar>(&self, mean: S) -> S {
        (mean * (S::ONE - mean)).max(S::ZERO)
    }
    fn curvature1(&self, _y: f64, eta: f64) -> f64 {
        match self.link {
            Link::Canonical => logistic(eta) * logistic(-eta),
            Link::Identity => 1.0 / (mirrored(eta) * mirrored(1.0 - eta)),
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

    /// Points all over the line, close to both edges of the domains from both sides, and far beyond.
    fn etas() -> Vec<f64> {
        let near = [1e-9, 2e-7, 5e-7, 0.9e-6, 1.1e-6, 3e-6, 1e-3, 0.3, 0.6];
        let far = [1.5, 4.0, 27.0, 40.0, 100.0, 690.0, 1e3, 1e6];
        let around = |edge: f64| near.into_iter().flat_map(move |d| [edge - d, edge + d]);
        around(0.0).chain(around(1.0)).chain(far.into_iter().flat_map(|v| [v, -v])).collect()
    }

    #[test]
    fn scores_are_the_derivatives_of_the_losses() {
        for component in all() {
            let ys: &[f64] = if matches!(component, Component::Poisson(_)) {
                &[0.0, 1.0, 7.0]
            } else {
                &[0.0, 1.0]
            };
            for (&y, eta) in ys.iter().flat_map(|y| etas().into_iter().map(move |eta| (y, eta))) {
                let at = |eta: f64| dispatch!(&component, l => l.loss1(y, eta));
                if !at(eta).is_finite() {
                    continue; // a rate of e^1000
                }
                let loss = dispatch!(&component, l => l.loss1(Dual::constant(y), Dual::<f64, 1>::variable(eta, 0)));
                let score = dispatch!(&component, l => l.score1(y, eta));
                let slack = 1e-9 * (1.0 + score.abs());
                assert!(
                    (loss.eps[0] - score).abs() < slack,
                    "{component:?} at {y}, {eta}: {score} {loss:?}"
                );
                // Differences with a step that is small beside the distance to the edges, where curvature changes.
                let h = (1e-4 * eta.abs().min((eta - 1.0).abs())).clamp(1e-11, 1e-2);
                let difference = (at(eta + h) - at(eta - h)) / (2.0 * h);
                let slack = 1e-3 * (1.0 + score.abs());
                assert!(
                    (difference - score).abs() < slack,
                    "{component:?} at {y}, {eta}: {score} {difference}"
                );
            }
        }
    }

    #[test]
    fn what_has_left_its_domain_is_pushed_back() {
        let rate = Poisson { link: Link::Identity };
        let chance = Bernoulli { link: Link::Identity };
        for o in [1e-6, 1e-3, 0.2, 5.0, 1e6] {
            for y in [0.0, 1.0, 30.0] {
                assert!(rate.score1(y, -o) <= -1.0, "{y} at {o}");
            }
            for y in [0.0, 1.0] {
                assert!(
                    chance.score1(y, -o) < -0.9 && chance.score1(y, 1.0 + o) > 0.9,
                    "{y} at {o}"
                );
            }
        }
        // Inside nothing differs from the textbook.
        assert_eq!(
            (rate.score1(2.0, 0.5), rate.loss1(2.0, 0.5)),
            (-3.0, 0.5 - 2.0 * Scalar::ln(0.5))
        );
        assert_eq!((rate.score1(0.0, 0.0), rate.loss1(0.0, 0.0)), (1.0, 0.0));
    }

    #[test]
    fn canonical_links_keep_their_precision_in_both_tails() {
        let (chance, rate) =
            (Bernoulli { link: Link::Canonical }, Poisson { link: Link::Canonical });
        for logit in [1.0, 27.0, 40.0, 300.0, 700.0, 740.0] {
            let tail = Scalar::exp(-logit) / (1.0 + Scalar::exp(-logit));
            for (score, loss) in [
                (-chance.score1(1.0, logit), chance.loss1(1.0, logit)),
                (chance.score1(0.0, -logit), chance.loss1(0.0, -logit)),
            ] {
                assert!((score - tail).abs() <= 1e-15 * tail, "{logit}: {score} {tail}");
                let expected = Scalar::ln_1p(Scalar::exp(-logit));
                assert!((loss - expected).abs() <= 1e-15 * expected, "{logit}: {loss}");
            }
            // On the wrong side the whole way is left to go, and derivatives of the score are numbers.
            assert!((chance.score1(1.0, -logit) + 1.0).abs() < 0.3);
            let score: Dual<f64, 1> = chance.score1(Dual::constant(1.0), Dual::variable(-logit, 0));
            assert!(score.is_finite() && (rate.score1(3.0, -logit) + 3.0).abs() < 0.4);
        }
    }

    #[test]
    fn variances_are_those_of_the_densities() {
        // Student's t: scipy.stats.t(4, scale=0.5).var() = 0.5; Huber's by the trapezoidal rule.
        let t = |dof| Component::StudentT(StudentT::new(dof, 0.5).unwrap()).variance();
        assert!((t(4.0).unwrap() - 0.5).abs() < 1e-15 && t(2.0) == Some(f64::INFINITY));
        for delta in [0.3, 1.345, 12.0] {
            let huber = Huber::new(delta, 2.0).unwrap();
            let (mut mass, mut second) = (0.0, 0.0);
            for i in -1_000_000..=1_000_000 {
                let y = f64::from(i) * 2e-4;
                let density = Scalar::exp(-huber.loss1(y, 0.0));
                mass += density;
                second += y * y * density;
            }
            let variance = Component::Huber(huber).variance().unwrap();
            assert!((variance - second / mass).abs() < 1e-6 * variance, "{delta}: {variance}");
        }
        let poisson = Component::Poisson(Poisson { link: Link::Canonical });
        assert_eq!((poisson.variance(), poisson.expected(0.0)), (None, 1.0));
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
