//! IVON: an improved variational online Newton method, a belief N(m, 1/(n (h + d))) learnt as fast as Adam runs.
//!
//! ```text
//! draw      w = m + s z,  s = 1/sqrt(n (h + d)),  z ~ N(0, I)
//! gradient  g of the mean loss at w
//! momentum  k <- b1 k + (1 - b1) g
//! curvature f = n g (w - m) (h + d)
//!           h <- b2 h + (1 - b2) f + (1 - b2)^2 (h - f)^2/(2 (h + d))
//! step      m <- m - lr (h0 + d) (k/(1 - b1^t) + d m)/(h + d)        with the new h
//! ```
//!
//! n: effective sample size, d: weight decay, h0: the curvature it begins with, by which (as in the authors' program) the rate is
//! scaled. The page of equations and the paper write lr for lr (h0 + d). 3 D numbers; one gradient per draw. K steps are taken per
//! time step; drift comes from the forgetting of h.
//!
//! ```
//! use optfilter_nn::filter::{Ivon, IvonOptions, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let mut filter = Ivon::new(IvonOptions { lr: 0.3, ..IvonOptions::default() }, 1, vec![0.0; 2], 0);
//! for i in 0..2000 {
//!     let x = [f64::from(i % 7) - 3.0];
//!     let y = [1.0 + 2.0 * x[0]];
//!     let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//!     filter.predict();
//!     filter.update(&mut evaluator, &batch);
//! }
//! assert!((filter.weights()[0] - 1.0).abs() < 0.2 && (filter.weights()[1] - 2.0).abs() < 0.2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Shen et al. 2024, "Variational learning is effective for large deep networks"; checked against the authors'
//! program `ivon-opt` (`tests/golden/ivon_golden.py`).

use super::traits::{Resumable, Weight, WeightFilter, same_length};
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Reduction;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::rng::Stream;
use serde::{Deserialize, Serialize};

/// Settings of IVON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IvonOptions {
    /// Learning rate.
    pub lr: f64,
    /// Effective sample size, n.
    pub samples: f64,
    /// Curvature at the start, h0.
    pub first_curvature: f64,
    /// Decay of the momentum.
    pub beta1: f64,
    /// Decay of the curvature.
    pub beta2: f64,
    /// Weight decay, d.
    pub weight_decay: f64,
}

impl Default for IvonOptions {
    fn default() -> Self {
        Self {
            lr: 0.1,
            samples: 1e4,
            first_curvature: 0.1,
            beta1: 0.9,
            beta2: 0.999,
            weight_decay: 1e-4,
        }
    }
}

impl IvonOptions {
    /// What is wrong with them, if anything: with others the curvature leaves the positive numbers, or the memory never ends.
    pub fn check(&self) -> Result<(), String> {
        let positive = |v: f64| v > 0.0 && v.is_finite();
        let share = |v: f64| (0.0..1.0).contains(&v);
        let decay = self.weight_decay >= 0.0 && self.weight_decay.is_finite();
        for (name, value, sound, needed) in [
            ("the rate", self.lr, positive(self.lr), "positive and finite"),
            ("the sample size", self.samples, positive(self.samples), "positive and finite"),
            (
                "the first curvature",
                self.first_curvature,
                positive(self.first_curvature),
                "positive and finite",
            ),
            ("the weight decay", self.weight_decay, decay, "at least 0 and finite"),
            ("beta1", self.beta1, share(self.beta1), "at least 0 and below 1"),
            ("beta2", self.beta2, share(self.beta2), "at least 0 and below 1"),
        ] {
            if !sound {
                return Err(format!("{name} of IVON must be {needed}, not {value}"));
            }
        }
        Ok(())
    }

    /// What differs from the defaults, but for the rate, for a label.
    pub fn differences(&self) -> String {
        let usual = Self::default();
        let both = [
            ("n", self.samples, usual.samples),
            ("h0", self.first_curvature, usual.first_curvature),
            ("b1", self.beta1, usual.beta1),
            ("b2", self.beta2, usual.beta2),
            ("decay", self.weight_decay, usual.weight_decay),
        ];
        let other = both.iter().filter(|(_, is, usual)| is != usual);
        other.map(|(name, is, _)| format!(" {name}={is}")).collect()
    }
}

/// What IVON remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct State<E> {
    mean: Vec<E>,
    momentum: Vec<f64>,
    curvature: Vec<f64>,
    taken: u64,
}

/// IVON over the weights of a network.
#[derive(Clone, Debug)]
pub struct Ivon<E: Weight> {
    options: IvonOptions,
    steps: u32,
    seed: u64,
    state: State<E>,
}

impl<E: Weight> Ivon<E> {
    /// `steps` steps per time step from `weights`.
    pub fn new(options: IvonOptions, steps: u32, weights: Vec<E>, seed: u64) -> Self {
        let d = weights.len();
        let curvature = vec![options.first_curvature; d];
        let state = State { mean: weights, momentum: vec![0.0; d], curvature, taken: 0 };
        Self { options, steps, seed, state }
    }

    /// Standard deviation of each weight.
    pub fn deviations(&self) -> Vec<f64> {
        let IvonOptions { samples, weight_decay, .. } = self.options;
        self.state.curvature.iter().map(|h| 1.0 / (samples * (h + weight_decay)).sqrt()).collect()
    }

    /// One step with the given normal numbers.
    pub fn step(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>, z: &[f64]) {
        let o = self.options;
        let noise: Vec<f64> = self.deviations().iter().zip(z).map(|(s, z)| s * z).collect();
        let s = &mut self.state;
        let w: Vec<E> = s.mean.iter().zip(&noise).map(|(m, n)| *m + E::of(*n)).collect();
        let mut g = vec![E::zero(); w.len()];
        evaluator.gradient(&w, &Minibatch { reduction: Reduction::Mean, ..*batch }, &mut g);
        s.taken += 1;
        let correct = 1.0 - o.beta1.powf(s.taken as f64);
        let rate = o.lr * (o.first_curvature + o.weight_decay);
        for i in 0..w.len() {
            let g = g[i].to_double();
            s.momentum[i] = o.beta1 * s.momentum[i] + (1.0 - o.beta1) * g;
            let h = s.curvature[i];
            let f = noise[i] * g * (h + o.weight_decay) * o.samples;
            let rest = 1.0 - o.beta2;
            let h = o.beta2 * h
                + rest * f
                + 0.5 * rest * rest * (h - f) * (h - f) / (h + o.weight_decay);
            s.curvature[i] = h;
            let m = s.mean[i].to_double();
            let step = (s.momentum[i] / correct + o.weight_decay * m) / (h + o.weight_decay);
            s.mean[i] = E::of(m - rate * step);
        }
    }
}

impl<E: Weight> WeightFilter<E> for Ivon<E> {
    fn predict(&mut self) {}

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        let mut z = vec![0.0; self.state.mean.len()];
        for _ in 0..self.steps {
            Stream::new(self.seed, self.state.taken, "ivon").fill_normal(&mut z);
            self.step(evaluator, batch, &z);
        }
    }

    fn weights(&self) -> &[E] {
        &self.state.mean
    }

    fn variance_along(&self, h: &[E]) -> Option<f64> {
        let pairs = h.iter().zip(self.deviations());
        Some(pairs.map(|(h, s)| (h.to_double() * s).powi(2)).sum())
    }
}

impl<E: Weight> Resumable<E> for Ivon<E> {
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("weights/ivon", &self.state)
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let state: State<E> = checkpoint::load("weights/ivon", bytes)?;
        same_length(state.mean.len(), self.state.mean.len())?;
        same_length(state.momentum.len(), state.mean.len())?;
        same_length(state.curvature.len(), state.mean.len())?;
        self.state = state;
        Ok(())
    }
}
