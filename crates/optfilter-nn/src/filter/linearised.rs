//! What the filters with error bars share: a sample seen through the linearised network.
//!
//! At the weights m the outputs are z (C numbers) with Jacobian H (C x D). Whatever the loss, its first two derivatives by the
//! outputs are all a Gaussian filter needs:
//!
//! ```text
//! g = -d loss/d z      W = the Fisher information of the outputs (C x C)
//! numbers              g = (y - z)/r          W = I/r          r: variance of a measurement
//! two classes          g = y - p              W = p (1 - p)
//! more classes         g = onehot(y) - p      W = diag(p) - p p'
//! ```
//!
//! In the usual letters `R^-1 = W` and `R^-1 e = g`; for classes this is the log-odds form, in which R need not be inverted (it is singular).
//! With a gain M = H P H' in between, `S^-1 e = (I + W M)^-1 g`.
//!
//! **WoLF**, the robust option: a measurement counts with `w^2 = 1/(1 + e' R^-1 e/c^2)`, that is W and g are multiplied by it, so
//! that one outlier cannot move the weights far. `e' R^-1 e` is `r |g|^2` for numbers and `g' W^-1 g` for two classes; for more
//! classes the sum of `g_i^2/(p_i (1 - p_i))`.
//!
//! References: Puskorius and Feldkamp 1991 for the linearisation; Duran-Martin et al. 2024 (WoLF) for the weight.

use super::Weight;
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::{Loss, Targets};

/// How labels are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likelihood {
    /// Variance of a measurement, where labels are numbers.
    pub noise_var: f64,
    /// c of WoLF; none counts every measurement in full.
    pub robust: Option<f64>,
}

impl Default for Likelihood {
    fn default() -> Self {
        Self { noise_var: 1.0, robust: None }
    }
}

/// One sample, linearised: kept from sample to sample for its memory.
#[derive(Clone, Debug, Default)]
pub struct Linearised<E> {
    /// Outputs.
    pub z: Vec<E>,
    /// H, row by row.
    pub jacobian: Vec<E>,
    /// g.
    pub slope: Vec<f64>,
    /// W, row by row.
    pub information: Vec<f64>,
}

impl<E: Weight> Linearised<E> {
    /// Row c of H.
    pub fn row(&self, c: usize) -> &[E] {
        let d = self.jacobian.len() / self.z.len().max(1);
        &self.jacobian[c * d..(c + 1) * d]
    }

    /// Sets everything for sample `n` of a batch.
    pub fn at(
        &mut self,
        evaluator: &mut Evaluator<E>,
        weights: &[E],
        batch: &Minibatch<'_, E>,
        n: usize,
        likelihood: Likelihood,
    ) {
        let outputs = evaluator.outputs();
        let width = evaluator.sample_len();
        self.z.resize(outputs, E::zero());
        self.jacobian.resize(outputs * weights.len(), E::zero());
        let sample = &batch.samples[n * width..(n + 1) * width];
        evaluator.jacobian(weights, sample, &mut self.z, &mut self.jacobian);
        self.slope.clear();
        self.information.clear();
        self.information.resize(outputs * outputs, 0.0);
        let mut surprise = 0.0;
        let z = |c: usize| self.z[c].to_double();
        match (batch.loss, batch.targets) {
            (Loss::SquaredError, Targets::Values(y)) => {
                for c in 0..outputs {
                    let e = y[n * outputs + c].to_double() - z(c);
                    self.slope.push(e / likelihood.noise_var);
                    self.information[c * outputs + c] = 1.0 / likelihood.noise_var;
                    surprise += e * e / likelihood.noise_var;
                }
            }
            (Loss::BinaryCrossEntropy, Targets::Classes(y)) => {
                let p = 1.0 / (1.0 + (-z(0)).exp());
                let g = f64::from(y[n].min(1)) - p;
                self.slope.push(g);
                self.information[0] = p * (1.0 - p);
                surprise = g * g / (p * (1.0 - p)).max(1e-12);
            }
            (_, Targets::Classes(y)) => {
                let top = (0..outputs).map(z).fold(f64::NEG_INFINITY, f64::max);
                let e: Vec<f64> = (0..outputs).map(|c| (z(c) - top).exp()).collect();
                let sum: f64 = e.iter().sum();
                for c in 0..outputs {
                    let p = e[c] / sum;
                    let g = f64::from(u8::from(y[n] as usize == c)) - p;
                    self.slope.push(g);
                    surprise += g * g / (p * (1.0 - p)).max(1e-12);
                    for k in 0..outputs {
                        self.information[c * outputs + k] = -p * e[k] / sum;
                    }
                    self.information[c * outputs + c] += p;
                }
            }
            // Labels that do not fit the loss were refused when the batch was made.
            _ => self.slope.resize(outputs, 0.0),
        }
        if let Some(c) = likelihood.robust {
            let weight = 1.0 / (1.0 + surprise / (c * c));
            self.slope.iter_mut().for_each(|g| *g *= weight);
            self.information.iter_mut().for_each(|w| *w *= weight);
        }
    }
}

/// Solves `a x = b` for a small general matrix (row by row) by elimination with pivots; both are overwritten, `b` has `columns`
/// right-hand sides beside each other. A pivot of zero leaves that direction out.
pub(super) fn solve(a: &mut [f64], b: &mut [f64], n: usize, columns: usize) {
    for i in 0..n {
        let pivot =
            (i..n).max_by(|p, q| a[p * n + i].abs().total_cmp(&a[q * n + i].abs())).unwrap_or(i);
        for k in 0..n {
            a.swap(i * n + k, pivot * n + k);
        }
        for k in 0..columns {
            b.swap(i * columns + k, pivot * columns + k);
        }
        let top = a[i * n + i];
        if top == 0.0 {
            continue;
        }
        for r in (0..n).filter(|r| *r != i) {
            let factor = a[r * n + i] / top;
            for k in i..n {
                a[r * n + k] -= factor * a[i * n + k];
            }
            for k in 0..columns {
                b[r * columns + k] -= factor * b[i * columns + k];
            }
        }
    }
    for i in 0..n {
        let top = a[i * n + i];
        for k in 0..columns {
            b[i * columns + k] = if top == 0.0 { 0.0 } else { b[i * columns + k] / top };
        }
    }
}
