//! A likelihood that somebody else computes: a callback into another language, a table, a simulator.
//!
//! It is a function of plain numbers ([`LogDensity`]); lanes call it one after the other, derivatives are its own gradient, and
//! second derivatives differences of that. A particle filter asks for all its particles at once.
//!
//! Stochastic volatility: eta is the logarithm of a variance, and what is measured has that variance.
//!
//! ```
//! use optfilter::model::likelihood::{Foreign, Likelihood, LogDensity, Observed};
//! use std::sync::Arc;
//! #[derive(Debug)]
//! struct Volatility;
//! impl LogDensity for Volatility {
//!     fn log_prob(&self, y: &[f64], etas: &[f64], out: &mut [f64]) {
//!         for (out, h) in out.iter_mut().zip(etas) {
//!             *out = -0.5 * (std::f64::consts::TAU.ln() + h + y[0] * y[0] * (-h).exp());
//!         }
//!     }
//!     fn gradient(&self, y: &[f64], eta: &[f64], out: &mut [f64]) {
//!         out[0] = 0.5 * (y[0] * y[0] * (-eta[0]).exp() - 1.0);
//!     }
//! }
//! let likelihood = Foreign::new(Arc::new(Volatility));
//! let mut slope = [0.0];
//! likelihood.score(&[2.0], &[0.0], Observed::All, &mut slope);
//! assert_eq!(slope, [-1.5]); // a surprise of two deviations asks for a larger variance
//! ```

use super::traits::reweighted;
use super::{Likelihood, Observed};
use crate::scalar::Scalar;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

/// ln p(y | eta) as a function of plain numbers. Components of `y` that are missing are NaN; one at least is there.
pub trait LogDensity: Debug + Send + Sync {
    /// Writes ln p(y | eta) for every eta of many, one after the other in `etas`.
    fn log_prob(&self, y: &[f64], etas: &[f64], out: &mut [f64]);
    /// Writes its derivative by each component of eta.
    fn gradient(&self, y: &[f64], eta: &[f64], out: &mut [f64]);
}

/// A [`LogDensity`] as a likelihood.
#[derive(Clone, Debug)]
pub struct Foreign(Arc<dyn LogDensity>);

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Foreign {
    /// From a log-density.
    pub fn new(density: Arc<dyn LogDensity>) -> Self {
        Self(density)
    }

    /// Writes the derivative of the loss.
    fn slope(&self, y: &[f64], eta: &[f64], out: &mut [f64]) {
        self.0.gradient(y, eta, out);
        for (i, out) in out.iter_mut().enumerate() {
            *out = if y[i].is_nan() { 0.0 } else { -*out };
        }
    }

    /// The second derivatives (row by row) as central differences of the first.
    fn bend(&self, y: &[f64], eta: &[f64], out: &mut [f64], stride: usize) {
        let m = eta.len();
        let (mut point, mut above, mut below) = (eta.to_vec(), vec![0.0; m], vec![0.0; m]);
        for j in 0..m {
            let h = 6e-6 * Scalar::max(eta[j].abs(), 1.0); // the cube root of the machine epsilon
            point[j] = eta[j] + h;
            self.slope(y, &point, &mut above);
            let high = point[j];
            point[j] = eta[j] - h;
            self.slope(y, &point, &mut below);
            let width = high - point[j];
            point[j] = eta[j];
            for i in 0..m {
                out[i * stride + j] = (above[i] - below[i]) / width;
            }
        }
    }
}

/// Measurement and eta as one vector, NaN where nothing was measured.
fn joined<S: Scalar>(y: &[S], eta: &[S], observed: Observed<'_>) -> Vec<S> {
    let seen = |(i, &y): (usize, &S)| if observed.has(i) { y } else { S::from_f64(f64::NAN) };
    y.iter().enumerate().map(seen).chain(eta.iter().copied()).collect()
}

impl Likelihood for Foreign {
    #[inline(never)]
    fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
        let (both, m) = (joined(y, eta, observed), y.len());
        let mut out = [S::ZERO];
        let mut plain = |point: &[f64], out: &mut [f64], jacobian: Option<&mut [f64]>| {
            let (y, eta) = point.split_at(m);
            self.0.log_prob(y, eta, out);
            out[0] = -out[0];
            if let Some(jacobian) = jacobian {
                jacobian[..m].fill(0.0);
                self.slope(y, eta, &mut jacobian[m..]);
            }
        };
        S::lift(&both, &mut plain, &mut out, None);
        out[0]
    }

    #[inline(never)]
    fn score<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>, out: &mut [S]) {
        let (both, m) = (joined(y, eta, observed), y.len());
        let mut plain = |point: &[f64], out: &mut [f64], jacobian: Option<&mut [f64]>| {
            let (y, eta) = point.split_at(m);
            self.slope(y, eta, out);
            if let Some(jacobian) = jacobian {
                jacobian.fill(0.0);
                self.bend(y, eta, &mut jacobian[m..], 2 * m);
            }
        };
        S::lift(&both, &mut plain, out, None);
    }

    /// As every likelihood has it that has no better, with the density asked no more often than that takes.
    fn curvature(
        &self,
        y: &[f64],
        eta: &[f64],
        observed: Observed<'_>,
        v: &[f64],
        out: &mut [f64],
    ) {
        let m = eta.len();
        let both = joined(y, eta, observed);
        let y = &both[..m];
        let (mut slope, mut across, mut bend) = (vec![0.0; m], vec![0.0; m], vec![0.0; m * m]);
        self.slope(y, eta, &mut slope);
        self.bend(y, eta, &mut bend, m);
        let mut mirrored = eta.to_vec();
        for i in 0..m {
            if !observed.has(i) {
                out[i] = 0.0;
                continue;
            }
            mirrored[i] = 2.0 * y[i] - eta[i];
            self.slope(y, &mirrored, &mut across);
            mirrored[i] = eta[i];
            out[i] = reweighted(eta[i] - y[i], (slope[i], across[i]), bend[i * m + i]) * v[i];
        }
    }

    fn losses(&self, y: &[f64], etas: &[f64], out: &mut [f64]) -> bool {
        self.0.log_prob(y, etas, out);
        out.iter_mut().for_each(|v| *v = -*v);
        true
    }

    #[inline(always)]
    fn wants_many(&self) -> bool {
        true
    }

    #[inline(always)]
    fn has_scale(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::likelihood::{Gaussian, SquaredError};
    use crate::scalar::{Dual, Lanes};
    use nalgebra::matrix;

    /// A Gaussian as somebody else would write it.
    #[derive(Debug)]
    struct Plain;
    impl LogDensity for Plain {
        fn log_prob(&self, y: &[f64], etas: &[f64], out: &mut [f64]) {
            for (out, eta) in out.iter_mut().zip(etas.chunks(y.len())) {
                let seen =
                    |(y, eta): (&f64, &f64)| if y.is_nan() { 0.0 } else { (y - eta).powi(2) };
                *out = y.iter().zip(eta).map(seen).sum::<f64>() * -0.5;
            }
        }
        fn gradient(&self, y: &[f64], eta: &[f64], out: &mut [f64]) {
            for i in 0..y.len() {
                out[i] = y[i] - eta[i];
            }
        }
    }

    #[test]
    fn a_gaussian_of_somebody_else_is_ours() {
        let foreign = Foreign::new(Arc::new(Plain));
        let (y, eta) = ([0.3, -1.0], [1.1, 0.4]);
        for observed in [Observed::All, Observed::Some(&[false, true])] {
            let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
            assert_eq!(foreign.loss(&y, &eta, observed), SquaredError.loss(&y, &eta, observed));
            foreign.score(&y, &eta, observed, &mut a);
            SquaredError.score(&y, &eta, observed, &mut b);
            assert_eq!(a, b);
            foreign.curvature(&y, &eta, observed, &[1.0, 2.0], &mut a);
            let unit = Gaussian::new(matrix![1.0, 0.0; 0.0, 1.0]).unwrap();
            unit.curvature(&y, &eta, observed, &[1.0, 2.0], &mut b);
            assert!((a[0] - b[0]).abs() < 1e-9 && (a[1] - b[1]).abs() < 1e-9, "{a:?} {b:?}");
        }
        let lanes = [Lanes([1.1, 2.0]), Lanes([0.4, 0.0])];
        let measured = y.map(|v| Lanes([v; 2]));
        let loss = foreign.loss(&measured, &lanes, Observed::All);
        assert_eq!(loss.0[1], SquaredError.loss(&y, &[2.0, 0.0], Observed::All));
        let dual = eta.map(|v| Dual::<f64, 1>::variable(v, 0));
        let slope = foreign.loss(&y.map(Dual::constant), &dual, Observed::All).eps[0];
        assert!((slope - (1.1 - 0.3 + 0.4 + 1.0)).abs() < 1e-15);
        let mut many = [0.0; 2];
        assert!(foreign.losses(&y, &[1.1, 0.4, 2.0, 0.0], &mut many));
        assert_eq!(many, loss.0);
    }
}
