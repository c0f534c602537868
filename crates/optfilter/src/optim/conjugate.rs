//! Conjugate gradients on the Gauss-Newton quadratic: an optimizer without a learning rate.
//!
//! The loss is replaced once by a quadratic with its gradient g and a curvature G that is never negative
//! (J' W J for the Jacobian J of what is measured), and K iterations of Hestenes and Stiefel go towards its
//! minimum:
//!
//! ```text
//! r = -g,  p = r;    repeat   a = r'r / p'Gp,   d += a p,   r -= a G p,   p = r + (r'r now / r'r before) p
//! ```
//!
//! Stopped early they have gone along the directions of which the measurements say most and left the others
//! where the prediction put them: the number of iterations is the prior (Hanke 1995 for inverse problems). How far
//! they go depends on the data, so unlike gradient descent they imply no fixed prior covariance.
//!
//! ```
//! use optfilter::optim::ConjugateGradients;
//! // A bowl with curvatures 1 and 4, seen from a point where its slope is (1, 4): two steps to the bottom.
//! let curve = |v: &[f64], out: &mut [f64]| (out[0], out[1]) = (v[0], 4.0 * v[1]);
//! let cg = ConjugateGradients::default();
//! let one = cg.step(&[1.0, 4.0], 1, curve);
//! let two = cg.step(&[1.0, 4.0], 2, curve);
//! println!("{one:.4?} {two:.4?}");
//! assert_eq!(format!("{one:.4?} {two:.4?}"), "[-0.2615, -1.0462] [-1.0000, -1.0000]"); // by hand: a = 17/65
//! ```
//!
//! Reference: Hestenes and Stiefel 1952.

use crate::metrics::dot;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

/// The share of the first squared residual below which there is nothing left to do (and 0/0 to fear).
const NOTHING: f64 = 1e-30;

/// Gauss-Newton conjugate gradients.
#[derive(Clone, Debug, Default)]
pub struct ConjugateGradients {
    stop: Option<Arc<AtomicBool>>,
}

impl ConjugateGradients {
    /// With a flag that ends the iterations at once; the result is then of no use.
    #[must_use]
    pub fn stopping_at(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The step d after `iterations` on g'd + d'Gd/2, where `curve` writes G v.
    pub fn step(
        &self,
        gradient: &[f64],
        iterations: u32,
        curve: impl FnMut(&[f64], &mut [f64]),
    ) -> Vec<f64> {
        self.record(gradient, iterations, curve).0
    }

    /// [`step`](Self::step), with the two numbers of each iteration: how far it went, and how much of its
    /// direction the next one kept.
    pub(crate) fn record(
        &self,
        gradient: &[f64],
        iterations: u32,
        mut curve: impl FnMut(&[f64], &mut [f64]),
    ) -> (Vec<f64>, Vec<(f64, f64)>) {
        let mut r: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let (mut d, mut p, mut image) = (vec![0.0; r.len()], r.clone(), vec![0.0; r.len()]);
        let mut numbers = Vec::new();
        let mut size = dot(&r, &r);
        let enough = NOTHING * size;
        for _ in 0..iterations {
            let stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
            if size.is_nan() || size <= enough || stopped {
                break;
            }
            curve(&p, &mut image);
            let along = dot(&p, &image);
            // A direction in which nothing is measured has no minimum.
            if along.is_nan() || along <= 0.0 {
                break;
            }
            let far = size / along;
            for i in 0..d.len() {
                d[i] += far * p[i];
                r[i] -= far * image[i];
            }
            let next = dot(&r, &r);
            let kept = next / size;
            for i in 0..p.len() {
                p[i] = r[i] + kept * p[i];
            }
            size = next;
            numbers.push((far, kept));
        }
        (d, numbers)
    }
}
