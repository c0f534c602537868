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
//! # Probes
//!
//! One polynomial of K iterations serves the whole state, and the places where the curvature is largest claim most of it: of a field of
//! a thousand points K = 10 is enough where a hundred thousand want twice that, though no place knows how many others there are. With
//! [`probes`](ConjugateGradients::with_probes) the iterations are those of G scaled by its diagonal, so that every place has a curvature of about one:
//!
//! ```text
//! M = diag(G) + mean(diag(G)) / 5,    z = M^-1 r in place of r in p, and r'z in place of r'r
//! ```
//!
//! The diagonal is not known, but J' W^(1/2) e has it as its mean square for random signs e: each probe is a backward pass. A few
//! are enough, since what is left to chance in M changes the way and not the goal; the mean keeps a place whose draws happen to be
//! small from being thrown far. The implied prior is no longer alike in all states but wide where the measurements say little.
//!
//! # Likelihoods whose curvature is a guess
//!
//! Fisher's information and the weights of robust losses keep the quadratic above the loss, or near it. What the slopes of
//! somebody else's density tell of its curvature promises nothing of the kind: under an exponential tail a parabola fits at a point and leads far astray. There the
//! step d is halved until the loss has come down by a share of what its slope promises (Armijo 1966),
//!
//! ```text
//! l(x + a d) <= l(x) + a g'd / 10000,    a = 1, 1/2, 1/4, ...
//! ```
//!
//! for a pass along the window each time. Since G is never negative, g'd is.
//!
//! References: Hestenes and Stiefel 1952; Armijo 1966, "Minimization of functions having Lipschitz continuous first partial derivatives"; Bekas, Kokiopoulou and Saad 2007, "An estimator for the diagonal of a matrix".

use super::{Bounds, Objective};
use crate::metrics::{dot, sum};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

/// The share of the first squared residual below which there is nothing left to do (and 0/0 to fear).
const NOTHING: f64 = 1e-30;

/// The share of the mean curvature that is added to every estimate of its diagonal.
const SHARE_OF_MEAN: f64 = 0.2;

/// The share of the promised descent that must be seen.
const SHARE_OF_PROMISE: f64 = 1e-4;

/// How often a step is halved before it is given up.
const HALVINGS: u32 = 64;

/// Gauss-Newton conjugate gradients.
#[derive(Clone, Debug, Default)]
pub struct ConjugateGradients {
    stop: Option<Arc<AtomicBool>>,
    probes: u32,
}

impl ConjugateGradients {
    /// With a flag that ends the iterations at once; the result is then of no use.
    #[must_use]
    pub fn stopping_at(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// With directions scaled by the curvature's diagonal, as far as that many random probes tell it; none by default.
    #[must_use]
    pub fn with_probes(mut self, probes: u32) -> Self {
        self.probes = probes;
        self
    }

    /// M from as many draws of the curvature's diagonal as there are probes, which `probe` adds to a vector; `None` without any, or
    /// where nothing is curved.
    pub(crate) fn scales(&self, len: usize, mut probe: impl FnMut(&mut [f64])) -> Option<Vec<f64>> {
        if self.probes == 0 {
            return None;
        }
        let mut scales = vec![0.0; len];
        for _ in 0..self.probes {
            probe(&mut scales);
        }
        let share = SHARE_OF_MEAN * sum(&scales) / len as f64;
        scales.iter_mut().for_each(|scale| *scale += share);
        let sound = share > 0.0 && scales.iter().all(|scale| scale.is_finite());
        let per = 1.0 / f64::from(self.probes);
        scales.iter_mut().for_each(|scale| *scale *= per);
        sound.then_some(scales)
    }

    /// The step d after `iterations` on g'd + d'Gd/2, where `curve` writes G v.
    pub fn step(
        &self,
        gradient: &[f64],
        iterations: u32,
        curve: impl FnMut(&[f64], &mut [f64]),
    ) -> Vec<f64> {
        self.record(gradient, iterations, None, curve).0
    }

    /// [`step`](Self::step) with directions over `scales`, and the two numbers of each iteration: how far it went, and how much of its
    /// direction the next one kept.
    pub(crate) fn record(
        &self,
        gradient: &[f64],
        iterations: u32,
        scales: Option<&[f64]>,
        mut curve: impl FnMut(&[f64], &mut [f64]),
    ) -> (Vec<f64>, Vec<(f64, f64)>) {
        let mut r: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut scaled = Scaled::new(&r, scales);
        let (mut d, mut p) = (vec![0.0; r.len()], scaled.of(&r).to_vec());
        let mut image = vec![0.0; r.len()];
        let mut numbers = Vec::new();
        let mut size = dot(&r, scaled.of(&r));
        let enough = NOTHING * size;
        for _ in 0..iterations {
            if size.is_nan() || size <= enough || self.is_stopped() {
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
            let z = scaled.of(&r);
            let next = dot(&r, z);
            let kept = next / size;
            for i in 0..p.len() {
                p[i] = z[i] + kept * p[i];
            }
            size = next;
            numbers.push((far, kept));
        }
        (d, numbers)
    }

    /// How much of the step `d` can be taken from `x` without the loss rising, where its curvature was a guess: 1, 1/2, 1/4, ... or
    /// nothing.
    pub(crate) fn share<F: Objective<f64>>(
        &self,
        loss: &mut F,
        x: &[f64],
        (gradient, d): (&[f64], &[f64]),
        bounds: Option<&Bounds>,
    ) -> f64 {
        let before = loss.value(x);
        // Anything is better than no likelihood at all.
        let before = if before.is_nan() { f64::INFINITY } else { before };
        // At the minimum the loss is flat, but for the rounding of its sum.
        let rounding = 4.0 * f64::EPSILON * before.abs();
        let promised = SHARE_OF_PROMISE * dot(gradient, d).min(0.0);
        let mut share = 1.0;
        for _ in 0..HALVINGS {
            let mut at: Vec<f64> = x.iter().zip(d).map(|(x, d)| x + share * d).collect();
            if let Some(bounds) = bounds {
                bounds.project(&mut at);
            }
            let after = loss.value(&at);
            if after < f64::INFINITY && after <= before + share * promised + rounding {
                return share;
            }
            if self.is_stopped() {
                break;
            }
            share *= 0.5;
        }
        0.0
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Residuals over their scales; as they are without any.
struct Scaled<'a> {
    scales: Option<&'a [f64]>,
    values: Vec<f64>,
}

impl<'a> Scaled<'a> {
    fn new(r: &[f64], scales: Option<&'a [f64]>) -> Self {
        Self { scales, values: if scales.is_some() { vec![0.0; r.len()] } else { Vec::new() } }
    }

    fn of<'r>(&'r mut self, r: &'r [f64]) -> &'r [f64] {
        let Some(scales) = self.scales else { return r };
        for ((value, r), scale) in self.values.iter_mut().zip(r).zip(scales) {
            *value = r / scale;
        }
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With the diagonal of a diagonal curvature as its scales, one iteration is enough, whatever the spread.
    #[test]
    fn scales_of_a_diagonal_curvature_leave_nothing_to_do() {
        let diagonal: Vec<f64> = (0..50).map(|i| f64::from(i + 1).powi(4)).collect();
        let gradient: Vec<f64> = (0..50).map(|i| f64::sin(f64::from(i))).collect();
        let curve = |v: &[f64], out: &mut [f64]| {
            out.iter_mut().zip(v.iter().zip(&diagonal)).for_each(|(out, (v, d))| *out = v * d);
        };
        let cg = ConjugateGradients::default();
        // The first has no gradient.
        let error = |step: &[f64]| {
            (1..50).fold(0.0, |worst: f64, i| {
                worst.max((step[i] * diagonal[i] / gradient[i] + 1.0).abs())
            })
        };
        let (step, _) = cg.record(&gradient, 1, Some(&diagonal), curve);
        assert!(error(&step) < 1e-14);
        assert!(error(&cg.step(&gradient, 1, curve)) > 0.5);
    }

    /// Draws whose mean is known give it, with a fifth of their own mean on top; nothing curved gives no scales.
    #[test]
    fn scales_are_the_mean_of_the_draws() {
        let cg = ConjugateGradients::default().with_probes(2);
        let mut draws = [[1.0, 5.0], [3.0, 1.0]].into_iter();
        let scales = cg.scales(2, |out| {
            for (out, draw) in out.iter_mut().zip(draws.next().unwrap()) {
                *out += draw;
            }
        });
        // Means 2 and 3, whose own mean is 2.5.
        assert_eq!(scales, Some(vec![2.5, 3.5]));
        assert_eq!(cg.scales(2, |_| {}), None);
        assert_eq!(ConjugateGradients::default().scales(2, |out| out.fill(1.0)), None);
    }
}
