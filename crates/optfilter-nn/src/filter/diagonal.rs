//! Filters with a diagonal belief N(m, diag v) over the weights: the decoupled and the variational extended Kalman filter, and
//! Bayesian online natural gradient (BONG).
//!
//! ```text
//! predict        m <- a m,   v <- a^2 v + q
//! per sample     H, W, g at m (linearised.rs)
//! decoupled      u = (I + W H v H')^-1 g,   m <- m + v H' u,   v <- v - diag(v H' (I + W H v H')^-1 W H v)
//! variational    the same m,                1/v <- 1/v + diag(H' W H)
//! BONG           1/v <- 1/v + diag(H' W H), m <- m + v H' g     with the new v
//! BONG sampled   b = mean over draws w ~ N(m, diag v) of d log p(y | w)/d w
//!                1/v <- 1/v + b^2,          m <- m + v b        with the new v (empirical Fisher information)
//! ```
//!
//! The square is that of the mean over the draws, as in the project's page of equations; a mean of squares over them would have the noise of the draws in it as
//! well. With one draw they are the same. The robust weight needs the linearised outputs, which the sampled form does not have.
//!
//! D C work per sample and 2 D numbers. With one weight each equals the Kalman filter on linear regression; with more, what is
//! missing is what the diagonal leaves out.
//!
//! ```
//! use optfilter_nn::filter::{Diagonal, DiagonalRule, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let mut filter = Diagonal::new(DiagonalRule::Variational, vec![0.0; 2], 10.0);
//! for i in 0..200 {
//!     let x = [f64::from(i % 7) - 3.0];
//!     let y = [1.0 + 2.0 * x[0]];
//!     let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//!     filter.predict();
//!     filter.update(&mut evaluator, &batch);
//! }
//! assert!((filter.weights()[0] - 1.0).abs() < 0.05 && (filter.weights()[1] - 2.0).abs() < 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Puskorius and Feldkamp 1991 (decoupled); Chang, Murphy and Jones 2022 (variational diagonal); Jones, Chang and
//! Murphy 2024 (BONG).

use super::linearised::{Likelihood, Linearised, solve};
use super::traits::{Resumable, Weight, WeightFilter, same_length};
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::{Loss, Reduction};
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::rng::Stream;

/// How the belief is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagonalRule {
    /// Extended Kalman filter, fully decoupled.
    Decoupled,
    /// Extended Kalman filter, variational.
    Variational,
    /// Bayesian online natural gradient, linearised.
    Bong,
    /// The same with gradients at draws of the weights and the empirical Fisher information.
    BongSampled {
        /// Draws per sample.
        draws: u32,
    },
}

/// A filter with a diagonal belief.
#[derive(Clone, Debug)]
pub struct Diagonal<E: Weight> {
    rule: DiagonalRule,
    likelihood: Likelihood,
    decay: f64,
    drift_var: f64,
    mean: Vec<E>,
    var: Vec<f64>,
    seed: u64,
    seen: u64,
    sample: Linearised<E>,
}

impl<E: Weight> Diagonal<E> {
    /// The belief N(weights, prior_var I); no drift, no decay, measurements of variance 1.
    pub fn new(rule: DiagonalRule, weights: Vec<E>, prior_var: f64) -> Self {
        Self {
            rule,
            likelihood: Likelihood::default(),
            decay: 1.0,
            drift_var: 0.0,
            var: vec![prior_var; weights.len()],
            mean: weights,
            seed: 0,
            seen: 0,
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

    /// Draws of the sampled form come from a stream of this seed.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Variance of each weight.
    pub fn variances(&self) -> &[f64] {
        &self.var
    }

    /// u = (I + W M)^-1 g and, beside it, (I + W M)^-1 W.
    fn gain(&self) -> (Vec<f64>, Vec<f64>) {
        let s = &self.sample;
        let c = s.z.len();
        let mut a = vec![0.0; c * c];
        for i in 0..c {
            for k in 0..c {
                // M_jk = sum over weights of H_j v H_k; W M, then the identity.
                a[i * c + k] = f64::from(u8::from(i == k));
                for j in 0..c {
                    let w = s.information[i * c + j];
                    if w != 0.0 {
                        let pairs = s.row(j).iter().zip(s.row(k)).zip(&self.var);
                        let m: f64 =
                            pairs.map(|((a, b), v)| a.to_double() * v * b.to_double()).sum();
                        a[i * c + k] += w * m;
                    }
                }
            }
        }
        let mut both = vec![0.0; c * (c + 1)];
        for i in 0..c {
            both[i * (c + 1)] = s.slope[i];
            both[i * (c + 1) + 1..(i + 1) * (c + 1)]
                .copy_from_slice(&s.information[i * c..(i + 1) * c]);
        }
        solve(&mut a, &mut both, c, c + 1);
        let u = (0..c).map(|i| both[i * (c + 1)]).collect();
        let inverse = (0..c).flat_map(|i| both[i * (c + 1) + 1..(i + 1) * (c + 1)].to_vec());
        (u, inverse.collect())
    }

    /// diag(H' X H) for one weight.
    fn curvature(&self, x: &[f64], weight: usize) -> f64 {
        let c = self.sample.z.len();
        let h = |o: usize| self.sample.row(o)[weight].to_double();
        let mut sum = 0.0;
        for i in 0..c {
            for k in 0..c {
                sum += h(i) * x[i * c + k] * h(k);
            }
        }
        sum
    }

    fn pull(&self, u: &[f64], weight: usize) -> f64 {
        u.iter().enumerate().map(|(o, u)| self.sample.row(o)[weight].to_double() * u).sum()
    }

    fn sampled(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>, draws: u32) {
        let d = self.mean.len();
        let (mut mean, mut g, mut noise) = (vec![0.0; d], vec![E::zero(); d], vec![0.0; d]);
        // The loss of a number is half its squared error, whatever its variance; that of a class is its log-likelihood.
        let numbers = batch.loss == Loss::SquaredError;
        let scale = if numbers { self.likelihood.noise_var } else { 1.0 };
        for k in 0..draws.max(1) {
            let number = self.seen * u64::from(draws.max(1)) + u64::from(k);
            Stream::new(self.seed, number, "belief").fill_normal(&mut noise);
            let pairs = self.mean.iter().zip(&self.var).zip(&noise);
            let w: Vec<E> = pairs.map(|((m, v), z)| *m + E::of(v.sqrt() * z)).collect();
            evaluator.gradient(&w, batch, &mut g);
            mean.iter_mut()
                .zip(&g)
                .for_each(|(m, g)| *m -= g.to_double() / (f64::from(draws.max(1)) * scale));
        }
        for ((m, v), g) in self.mean.iter_mut().zip(&mut self.var).zip(&mean) {
            *v = 1.0 / (1.0 / *v + g * g);
            *m += E::of(*v * g);
        }
    }
}

impl<E: Weight> WeightFilter<E> for Diagonal<E> {
    fn predict(&mut self) {
        let a = E::of(self.decay);
        for (m, v) in self.mean.iter_mut().zip(&mut self.var) {
            *m *= a;
            *v = self.decay * self.decay * *v + self.drift_var;
        }
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        for n in 0..evaluator.count(batch) {
            if let DiagonalRule::BongSampled { draws } = self.rule {
                let one = batch.sample(n, evaluator.sample_len(), evaluator.outputs());
                let one = Minibatch { reduction: Reduction::Sum, ..one };
                self.sampled(evaluator, &one, draws);
                self.seen += 1;
                continue;
            }
            let mut sample = std::mem::take(&mut self.sample);
            sample.at(evaluator, &self.mean, batch, n, self.likelihood);
            self.sample = sample;
            self.seen += 1;
            let (u, inverse) = match self.rule {
                DiagonalRule::Bong => (self.sample.slope.clone(), Vec::new()),
                _ => self.gain(),
            };
            for i in 0..self.mean.len() {
                let old = self.var[i];
                let new = match self.rule {
                    DiagonalRule::Decoupled => {
                        (old - old * old * self.curvature(&inverse, i)).max(0.0)
                    }
                    _ => 1.0 / (1.0 / old + self.curvature(&self.sample.information, i)),
                };
                let by = if self.rule == DiagonalRule::Bong { new } else { old };
                self.mean[i] = self.mean[i] + E::of(by * self.pull(&u, i));
                self.var[i] = new;
            }
        }
    }

    fn weights(&self) -> &[E] {
        &self.mean
    }

    fn variance_along(&self, h: &[E]) -> Option<f64> {
        Some(h.iter().zip(&self.var).map(|(h, v)| h.to_double() * h.to_double() * v).sum())
    }
}

impl<E: Weight> Resumable<E> for Diagonal<E> {
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("weights/diagonal", &(&self.mean, &self.var, self.seen))
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let (mean, var, seen): (Vec<E>, Vec<f64>, u64) =
            checkpoint::load("weights/diagonal", bytes)?;
        same_length(mean.len(), self.mean.len())?;
        same_length(var.len(), self.mean.len())?;
        (self.mean, self.var, self.seen) = (mean, var, seen);
        Ok(())
    }
}
