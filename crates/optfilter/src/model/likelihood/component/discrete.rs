//! Counts and binary measurements.
//!
//! ```text
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

use super::single::Single;
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// Where the logarithm of a rate or probability begins to be mirrored.
const EDGE: f64 = 1e-6;

/// What eta = h(x) stands for in a count or binary likelihood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// The mean itself: a rate, a probability.
    Identity,
    /// Its canonical transform: the logarithm of a rate, the logit of a probability.
    Canonical,
}

/// Counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poisson {
    /// What eta is: the rate, or its logarithm.
    pub link: Link,
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
    /// In logarithms: the weight under which a square about ln y is as steep, so that a step leads there from both sides.
    fn steady1(&self, y: f64, eta: f64) -> f64 {
        if self.link == Link::Identity || y <= 0.0 {
            return self.curvature1(y, eta);
        }
        let far = eta - Scalar::ln(y);
        if far == 0.0 { y } else { y * libm::expm1(far) / far }
    }
    fn is_steady(&self) -> bool {
        false
    }
    fn log_normalizer1(&self, y: f64) -> f64 {
        libm::lgamma(y + 1.0)
    }
    fn admits1(&self, y: f64) -> bool {
        y.is_finite() && y >= 0.0 && y == Scalar::floor(y)
    }
}

/// Zeros and ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bernoulli {
    /// What eta is: the probability of a one, or its logit.
    pub link: Link,
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
    /// In log-odds: that of the square that touches the loss here and at the mirror image of here, and is nowhere below it (Jaakkola and Jordan
    /// 2000).
    fn steady1(&self, y: f64, eta: f64) -> f64 {
        match self.link {
            Link::Identity => self.curvature1(y, eta),
            Link::Canonical if eta.abs() < 1e-3 => 0.25,
            Link::Canonical => Scalar::tanh(0.5 * eta) / (2.0 * eta),
        }
    }
    fn is_steady(&self) -> bool {
        false
    }
    fn log_normalizer1(&self, _y: f64) -> f64 {
        0.0
    }
    fn admits1(&self, y: f64) -> bool {
        y == 0.0 || y == 1.0
    }
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
