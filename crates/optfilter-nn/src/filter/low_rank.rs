//! The low-rank extended Kalman filter (LoFi): a belief whose precision is a diagonal and a few directions.
//!
//! ```text
//! precision      diag(U) + B B',  B: D x r
//! predict        m <- a m,  U+ = 1/(a^2/U + q),  B+ = a (U+/U) B L  with  L L' = (I + q B' (U+/U) B)^-1
//! per sample     H, W = A' A, g at m (linearised.rs);  C = [B+, H' A'] (D x (r + outputs))
//!                m <- m + P H' g  with  P = (U + C C')^-1 = 1/U - 1/U C (I + C' C/U)^-1 C' 1/U
//!                the r largest singular directions of C become B; the squared rows of the rest are added to U
//! ```
//!
//! D (r + outputs)^2 work per sample and D (r + 2) numbers. With r as large as D nothing is dropped, and on linear regression it
//! is the Kalman filter (in the form that adds information).
//!
//! The low-rank form of Bayesian online natural gradient (BONG) on the linearised model is the same filter, not a kin of it: its step on the expected
//! log-likelihood from the predicted belief adds `H' W H` to the precision and takes `m <- m + P H' g` with the new P, and a precision of that shape is
//! projected by the same singular directions. `adapt --method bong --rank R` therefore runs this, and gives the numbers of `--method lofi --rank R`.
//!
//! `B+` here keeps the shape of the source; its page multiplies by `a`, which cancels against `a^2/U` for q = 0.
//!
//! ```
//! use optfilter_nn::filter::{LowRank, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let mut filter = LowRank::new(vec![0.0; 2], 10.0, 2);
//! for i in 0..200 {
//!     let x = [f64::from(i % 7) - 3.0];
//!     let y = [1.0 + 2.0 * x[0]];
//!     let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//!     filter.predict();
//!     filter.update(&mut evaluator, &batch);
//! }
//! assert!((filter.weights()[0] - 1.0).abs() < 0.01 && (filter.weights()[1] - 2.0).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Chang, Duran-Martin, Shestopaloff, Jones and Murphy 2023 (LoFi); Jones, Chang and Murphy 2024 (BONG).

use super::linearised::{Likelihood, Linearised, solve};
use super::traits::{Resumable, Weight, WeightFilter, same_length};
use crate::evaluate::{Evaluator, Minibatch};
use optfilter::checkpoint::{self, CheckpointError};

/// A filter with a diagonal and low-rank precision.
#[derive(Clone, Debug)]
pub struct LowRank<E: Weight> {
    likelihood: Likelihood,
    decay: f64,
    drift_var: f64,
    rank: usize,
    mean: Vec<E>,
    /// U.
    diagonal: Vec<f64>,
    /// B, column after column.
    columns: Vec<Vec<f64>>,
    sample: Linearised<E>,
}

/// Inner product over the weights, divided by U.
fn inner(a: &[f64], b: &[f64], diagonal: &[f64]) -> f64 {
    a.iter().zip(b).zip(diagonal).map(|((a, b), u)| a * b / u).sum()
}

/// Eigenvectors (columns) and eigenvalues of a small symmetric matrix, by Jacobi's rotations.
fn symmetric(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut v: Vec<f64> = (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect();
    for _ in 0..60 {
        let off: f64 = (0..n * n).filter(|i| i / n != i % n).map(|i| a[i] * a[i]).sum();
        let on: f64 = (0..n).map(|i| a[i * n + i] * a[i * n + i]).sum();
        if off <= 1e-30 * on {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                if a[p * n + q] == 0.0 {
                    continue;
                }
                let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * a[p * n + q]);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let (c, s) = (1.0 / (t * t + 1.0).sqrt(), t / (t * t + 1.0).sqrt());
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                    let (x, y) = (v[k * n + p], v[k * n + q]);
                    (v[k * n + p], v[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    (v, (0..n).map(|i| a[i * n + i]).collect())
}

impl<E: Weight> LowRank<E> {
    /// The belief N(weights, prior_var I) with room for `rank` directions; no drift, no decay, measurements of variance 1.
    pub fn new(weights: Vec<E>, prior_var: f64, rank: usize) -> Self {
        Self {
            likelihood: Likelihood::default(),
            decay: 1.0,
            drift_var: 0.0,
            rank,
            diagonal: vec![1.0 / prior_var; weights.len()],
            mean: weights,
            columns: Vec::new(),
            sample: Linearised::default(),
        }
    }

    /// With other labels' noise, or robust.
    pub fn with_likelihood(mut self, likelihood: Likelihood) -> Self {
        self.likelihood = likelihood;
        self
    }

    /// Weights drift by this variance per time step, and decay by `decay` (1: not at all).
    pub fn with_drift(mut self, drift_var: f64, decay: f64) -> Self {
        (self.drift_var, self.decay) = (drift_var, decay);
        self
    }

    /// `(I + C' C/U)^-1 C' h/U`, by which P h is found.
    fn inside(&self, columns: &[Vec<f64>], h: &[f64]) -> Vec<f64> {
        let n = columns.len();
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for k in 0..n {
                a[i * n + k] =
                    inner(&columns[i], &columns[k], &self.diagonal) + f64::from(u8::from(i == k));
            }
        }
        let mut b: Vec<f64> = columns.iter().map(|c| inner(c, h, &self.diagonal)).collect();
        solve(&mut a, &mut b, n, 1);
        b
    }

    fn one(&mut self) {
        let d = self.mean.len();
        let c = self.sample.z.len();
        // A with A' A = W, by the eigenvectors of W, which may be singular.
        let mut w = self.sample.information.clone();
        let (v, values) = symmetric(&mut w, c);
        let mut columns = std::mem::take(&mut self.columns);
        for k in (0..c).filter(|k| values[*k] > 1e-300) {
            let root = values[k].sqrt();
            let mut column = vec![0.0; d];
            for o in 0..c {
                let factor = root * v[o * c + k];
                let row = self.sample.row(o);
                column.iter_mut().zip(row).for_each(|(to, h)| *to += factor * h.to_double());
            }
            columns.push(column);
        }
        let mut pull = vec![0.0; d];
        for (o, g) in self.sample.slope.iter().enumerate() {
            pull.iter_mut().zip(self.sample.row(o)).for_each(|(p, h)| *p += g * h.to_double());
        }
        let inside = self.inside(&columns, &pull);
        for i in 0..d {
            let along: f64 = columns.iter().zip(&inside).map(|(c, x)| c[i] * x).sum();
            self.mean[i] = self.mean[i] + E::of((pull[i] - along) / self.diagonal[i]);
        }
        self.compress(columns);
    }

    /// Keeps the largest singular directions; the squared rows of the rest go to the diagonal.
    fn compress(&mut self, columns: Vec<Vec<f64>>) {
        let n = columns.len();
        if n <= self.rank {
            self.columns = columns;
            return;
        }
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for k in 0..n {
                a[i * n + k] = columns[i].iter().zip(&columns[k]).map(|(a, b)| a * b).sum();
            }
        }
        let (v, values) = symmetric(&mut a, n);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        let turned = |k: usize| -> Vec<f64> {
            let mut out = vec![0.0; self.mean.len()];
            for (j, column) in columns.iter().enumerate() {
                let factor = v[j * n + k];
                out.iter_mut().zip(column).for_each(|(o, c)| *o += factor * c);
            }
            out
        };
        let kept: Vec<Vec<f64>> = order[..self.rank].iter().map(|k| turned(*k)).collect();
        let rest: Vec<Vec<f64>> = order[self.rank..].iter().map(|k| turned(*k)).collect();
        for column in rest {
            self.diagonal.iter_mut().zip(column).for_each(|(u, c)| *u += c * c);
        }
        self.columns = kept;
    }
}

impl<E: Weight> WeightFilter<E> for LowRank<E> {
    fn predict(&mut self) {
        let (a, q) = (self.decay, self.drift_var);
        self.mean.iter_mut().for_each(|m| *m *= E::of(a));
        if q == 0.0 && a == 1.0 {
            return;
        }
        let old = self.diagonal.clone();
        self.diagonal.iter_mut().for_each(|u| *u = 1.0 / (a * a / *u + q));
        let shrink: Vec<f64> = self.diagonal.iter().zip(&old).map(|(new, old)| new / old).collect();
        let n = self.columns.len();
        // L from the eigenvectors of (I + q B' (U+/U) B): one over the roots.
        let mut inner = vec![0.0; n * n];
        for i in 0..n {
            for k in 0..n {
                let pairs = self.columns[i].iter().zip(&self.columns[k]).zip(&shrink);
                let sum: f64 = pairs.map(|((a, b), s)| a * b * s).sum();
                inner[i * n + k] = q * sum + f64::from(u8::from(i == k));
            }
        }
        let (v, values) = symmetric(&mut inner, n);
        let turned = (0..n).map(|k| {
            let mut out = vec![0.0; old.len()];
            for (j, column) in self.columns.iter().enumerate() {
                let factor = a * v[j * n + k] / values[k].sqrt();
                for ((o, c), s) in out.iter_mut().zip(column).zip(&shrink) {
                    *o += factor * s * c;
                }
            }
            out
        });
        self.columns = turned.collect();
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        for n in 0..evaluator.count(batch) {
            let mut sample = std::mem::take(&mut self.sample);
            sample.at(evaluator, &self.mean, batch, n, self.likelihood);
            self.sample = sample;
            self.one();
        }
    }

    fn weights(&self) -> &[E] {
        &self.mean
    }

    fn variance_along(&self, h: &[E]) -> Option<f64> {
        let h: Vec<f64> = h.iter().map(|h| h.to_double()).collect();
        let inside = self.inside(&self.columns, &h);
        let along: f64 =
            self.columns.iter().zip(&inside).map(|(c, x)| inner(c, &h, &self.diagonal) * x).sum();
        Some((inner(&h, &h, &self.diagonal) - along).max(0.0))
    }
}

impl<E: Weight> Resumable<E> for LowRank<E> {
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("weights/lofi", &(&self.mean, &self.diagonal, &self.columns))
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        type Kept<E> = (Vec<E>, Vec<f64>, Vec<Vec<f64>>);
        let (mean, diagonal, columns): Kept<E> = checkpoint::load("weights/lofi", bytes)?;
        same_length(mean.len(), self.mean.len())?;
        same_length(diagonal.len(), self.mean.len())?;
        columns.iter().try_for_each(|c| same_length(c.len(), self.mean.len()))?;
        (self.mean, self.diagonal, self.columns) = (mean, diagonal, columns);
        Ok(())
    }
}
