//! Gaussian, Student-t and Huber noise of one component. With z = (y - eta) / scale:
//!
//! ```text
//! Student-t   (dof + 1)/2 ln(1 + z^2 / dof)
//! Huber       z^2 / 2 where |z| <= delta, else delta |z| - delta^2 / 2
//! ```

use super::error::{LikelihoodError, positive};
use super::single::Single;
use crate::model::likelihood::gaussian::half_ln_tau;
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// Gaussian noise of one component.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normal {
    precision: f64,
    pub(in crate::model::likelihood) std: f64,
}

impl Normal {
    /// Of a standard deviation that is known to be positive.
    pub(super) fn of(std: f64) -> Self {
        Self { precision: 1.0 / (std * std), std }
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

/// Student's t noise: like a Gaussian near the centre, with tails that forgive outliers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudentT {
    pub(in crate::model::likelihood) dof: f64,
    pub(in crate::model::likelihood) scale: f64,
}

impl StudentT {
    /// With `dof` degrees of freedom and the given scale; the variance is scale^2 dof / (dof - 2).
    pub fn new(dof: f64, scale: f64) -> Result<Self, LikelihoodError> {
        positive("Student-t", "dof", dof)?;
        positive("Student-t", "scale", scale)?;
        Ok(Self { dof, scale })
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

/// Huber's loss: quadratic within `delta` scales of the centre, linear beyond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Huber {
    pub(in crate::model::likelihood) delta: f64,
    pub(in crate::model::likelihood) scale: f64,
}

impl Huber {
    /// Linear beyond `delta` scales (1.345 gives 95 % efficiency under Gaussian noise).
    pub fn new(delta: f64, scale: f64) -> Result<Self, LikelihoodError> {
        positive("Huber", "delta", delta)?;
        positive("Huber", "scale", scale)?;
        Ok(Self { delta, scale })
    }

    /// From how many scales on it is linear.
    pub fn delta(&self) -> f64 {
        self.delta
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
