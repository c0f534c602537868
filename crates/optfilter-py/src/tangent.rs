//! Tangents of Python functions: the Jacobian at a state times a vector, for a few calls whatever the size of the state.
//!
//! By the user's function for it or the user's Jacobian, or else by a central difference along the vector,
//!
//! ```text
//! J v = (f(x + h v) - f(x - h v)) / 2h + O(h^2)
//! ```
//!
//! A vector-Jacobian product is no help here: it would take a call for every number that the function returns.

use crate::callable::{Differentiable, is_single};
use optfilter::model::Step;

/// Below which share of what the step is made for a state is near zero. Above it a root or a power errs by (cbrt(eps) / 0.01)^2,
/// which is 4e-7, at the most.
const NEAR_ZERO: f64 = 0.01;

impl Differentiable {
    /// The Jacobian at `x` times `v`.
    pub(crate) fn jvp(&self, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]) {
        match (&self.jvp, &self.jacobian, &self.vjp) {
            (Some(jvp), ..) => jvp.call(x, u, step, v, out),
            // Two rows of the Jacobian are exact, and no more calls than a difference.
            (_, None, vjp) if vjp.is_none() || out.len() > 2 => self.along(x, u, step, v, out),
            _ => {
                let mut jacobian = vec![0.0; out.len() * x.len()];
                self.jacobian_f64(x, u, step, out.len(), &mut jacobian);
                for (out, row) in out.iter_mut().zip(jacobian.chunks_exact(x.len())) {
                    *out = row.iter().zip(v).map(|(a, v)| a * v).sum();
                }
            }
        }
    }

    /// The slope along `v`, by differences.
    fn along(&self, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]) {
        if !v.iter().all(|v| v.is_finite()) {
            return out.fill(f64::NAN);
        }
        // Tangents may be of any size; the step is chosen for one whose largest number is 1.
        let size = v.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
        if size == 0.0 {
            return out.fill(0.0);
        }
        let v: Vec<f64> = v.iter().map(|v| v / size).collect();
        self.at_precision(|eps| self.along_at(eps, x, u, step, &v, out));
        out.iter_mut().for_each(|slope| *slope *= size);
    }

    /// The step is the longest that suits every state by itself, as for whole Jacobians: cbrt(eps) times |x|, or times 1 where |x| is
    /// less. Some states are much nearer to zero than such a step is long, and the function may bend there on the scale of |x| (a
    /// root, a power): then there is a second difference with a step for them, which is believed where rounding does not explain
    /// how it differs from the first.
    fn along_at(&self, eps: f64, x: &[f64], u: &[f64], step: &Step, v: &[f64], out: &mut [f64]) {
        let moved = || x.iter().zip(v).filter(|(_, v)| **v != 0.0).map(|(x, v)| (x.abs(), v.abs()));
        let least = |a: f64, b: f64| a.min(b);
        let m = out.len();
        let at_ends = |h: f64| {
            let end = |h: f64| x.iter().zip(v).map(move |(x, v)| x + h * v);
            let ends: Vec<f64> = end(h).chain(end(-h)).collect();
            let mut values = vec![0.0; 2 * m];
            self.value.call(&ends, x.len(), u, step, &mut values);
            values
        };
        let reach = moved().map(|(x, v)| x.max(1.0) / v).fold(f64::INFINITY, least);
        let h = eps.cbrt() * reach;
        let values = at_ends(h);
        if eps == f64::EPSILON && is_single(&values) {
            return self.value.notice(f64::from(f32::EPSILON));
        }
        for (i, slope) in out.iter_mut().enumerate() {
            *slope = (values[i] - values[m + i]) / (2.0 * h);
        }
        let near = |(x, v): &(f64, f64)| *x > 0.0 && *x < NEAR_ZERO * reach * v;
        let shorter = moved().filter(near).map(|(x, v)| x / v).fold(f64::INFINITY, least);
        if shorter == f64::INFINITY {
            return;
        }
        let h = eps.cbrt() * shorter;
        let values = at_ends(h);
        let largest = moved().fold(0.0, |a: f64, (x, _)| a.max(x));
        for (i, slope) in out.iter_mut().enumerate() {
            let (up, down) = (values[i], values[m + i]);
            let nearer = (up - down) / (2.0 * h);
            // Of the values, and of the states at which they were taken.
            let rounding = eps * (up.abs() + down.abs() + 2.0 * largest) / (2.0 * h);
            // The factor is for functions that lose more than the last bit. What is not a number explains nothing.
            let explained = (*slope - nearer).abs() <= 16.0 * rounding;
            if nearer.is_finite() && !explained {
                *slope = nearer;
            }
        }
    }
}
