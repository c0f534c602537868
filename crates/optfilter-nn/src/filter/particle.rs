//! The bootstrap particle filter over weights.
//!
//! ```text
//! predict   w_i <- f(w_i) + sqrt(s) z_i,            z_i ~ N(0, I)
//! update    l_i = sum of the losses of w_i,         p_i = exp(-l_i) / sum_j exp(-l_j)
//!           estimate = sum_i p_i w_i,               then N multinomial draws from p
//! ```
//!
//! The loss is the negative log-likelihood, so `exp(-l)` is the likelihood whatever reduction the batch asks for.
//! `s` is a variance. Requires forward passes only. In thousands of dimensions the likelihood concentrates on one
//! particle; that is the filter's nature, and the [effective number](Particle::effective) says so.
//!
//! A line that has seen one point: the Kalman filter says 1 and 1, and 20,000 particles about that.
//!
//! ```
//! use optfilter_nn::filter::{Particle, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let mut filter = Particle::new(20_000, 1.0, vec![0.0; 2], 1)?;
//! let (x, y) = ([1.0], [3.0]);
//! let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//! filter.predict();
//! filter.update(&mut evaluator, &batch);
//! println!("intercept and slope: {:.3?}; {:.0} particles count", filter.weights(), filter.effective());
//! assert!(filter.weights().iter().all(|w| (w - 1.0).abs() < 0.05));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Gordon, Salmond and Smith 1993.

use super::Transition;
use super::traits::{Resumable, Weight, WeightFilter, same_length};
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Reduction;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::filter::{Scheme, resample};
use optfilter::rng::Stream;
use rayon::prelude::*;

/// Why a particle filter cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParticleError {
    /// No particles.
    #[error("a particle filter needs at least one particle")]
    None,
    /// A variance that is none.
    #[error("the transition variance must be finite and not negative, not {0}")]
    Variance(
        /// The variance given.
        f64,
    ),
}

/// Bootstrap filter.
#[derive(Debug)]
pub struct Particle<E: Weight> {
    count: usize,
    transition_std: f64,
    transition: Transition<E>,
    seed: u64,
    time: u64,
    /// One weight vector after the other.
    particles: Vec<E>,
    estimate: Vec<E>,
    effective: f64,
    evaluators: Vec<Evaluator<E>>,
}

impl<E: Weight> Particle<E> {
    /// `count` particles, all at `weights`, moving by a random walk of variance `transition_var`.
    pub fn new(
        count: usize,
        transition_var: f64,
        weights: Vec<E>,
        seed: u64,
    ) -> Result<Self, ParticleError> {
        Self::from_particles(count, transition_var, weights.repeat(count), seed)
    }

    /// `count` particles given one after the other.
    pub fn from_particles(
        count: usize,
        transition_var: f64,
        particles: Vec<E>,
        seed: u64,
    ) -> Result<Self, ParticleError> {
        if count == 0 {
            return Err(ParticleError::None);
        }
        if !(transition_var >= 0.0 && transition_var.is_finite()) {
            return Err(ParticleError::Variance(transition_var));
        }
        let mut filter = Self {
            count,
            transition_std: transition_var.sqrt(),
            transition: Transition::Identity,
            seed,
            time: 0,
            estimate: particles[..particles.len() / count].to_vec(),
            particles,
            effective: count as f64,
            evaluators: Vec::new(),
        };
        filter.average(&vec![1.0 / count as f64; count]);
        Ok(filter)
    }

    /// With another transition function.
    pub fn with_transition(mut self, transition: Transition<E>) -> Self {
        self.transition = transition;
        self
    }

    /// The particles, one weight vector after the other.
    pub fn particles(&self) -> &[E] {
        &self.particles
    }

    /// Effective number of particles at the last update: `1 / sum p_i^2`.
    pub fn effective(&self) -> f64 {
        self.effective
    }

    fn average(&mut self, p: &[f64]) {
        let len = self.estimate.len();
        let mut mean = vec![0.0; len];
        for (w, &p) in self.particles.chunks_exact(len.max(1)).zip(p).filter(|(_, p)| **p > 0.0) {
            for (m, w) in mean.iter_mut().zip(w) {
                *m += p * w.to_double();
            }
        }
        for (e, m) in self.estimate.iter_mut().zip(mean) {
            *e = E::of(m);
        }
    }
}

/// Adds `std` times normal noise to each particle, from a stream of its own: the same on any number of threads.
pub fn disturb<E: Weight>(particles: &mut [E], len: usize, std: f64, seed: u64, time: u64) {
    let count = (particles.len() / len.max(1)) as u64;
    particles.par_chunks_exact_mut(len.max(1)).enumerate().for_each_init(
        || vec![0.0; len],
        |noise, (i, w)| {
            Stream::new(seed, time * count + i as u64, "particle noise").fill_normal(noise);
            for (w, z) in w.iter_mut().zip(noise) {
                *w += E::of(std * *z);
            }
        },
    );
}

/// The loss of each particle, on all threads.
pub fn losses<E: Weight>(
    particles: &[E],
    len: usize,
    evaluator: &Evaluator<E>,
    pool: &mut Vec<Evaluator<E>>,
    batch: &Minibatch<'_, E>,
) -> Vec<f64> {
    let threads = rayon::current_num_threads().max(1);
    while pool.len() < threads {
        pool.push(evaluator.clone());
    }
    let count = particles.len() / len.max(1);
    let share = count.div_ceil(threads).max(1);
    let mut out = vec![0.0; count];
    out.par_chunks_mut(share).zip(particles.par_chunks(share * len)).zip(pool).for_each(
        |((out, particles), evaluator)| {
            for (l, w) in out.iter_mut().zip(particles.chunks_exact(len)) {
                *l = evaluator.loss(w, batch).to_double();
            }
        },
    );
    out
}

impl<E: Weight> WeightFilter<E> for Particle<E> {
    fn predict(&mut self) {
        let len = self.estimate.len();
        for w in self.particles.chunks_exact_mut(len.max(1)) {
            self.transition.apply(w);
        }
        disturb(&mut self.particles, len, self.transition_std, self.seed, self.time);
        self.time += 1;
        self.average(&vec![1.0 / self.count as f64; self.count]);
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        let len = self.estimate.len();
        let batch = Minibatch { reduction: Reduction::Sum, ..*batch };
        let losses = losses(&self.particles, len, evaluator, &mut self.evaluators, &batch);
        // Relative to the best, so that exp neither under- nor overflows; a particle whose loss is not a number is out.
        let best = losses.iter().copied().filter(|l| l.is_finite()).fold(f64::INFINITY, f64::min);
        if !best.is_finite() {
            return; // no particle explains the labels at all: keep what there is
        }
        let mut p: Vec<f64> =
            losses.iter().map(|l| if l.is_finite() { (best - l).exp() } else { 0.0 }).collect();
        let sum: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= sum);
        self.effective = 1.0 / p.iter().map(|p| p * p).sum::<f64>();
        self.average(&p);

        let mut next = Vec::with_capacity(self.particles.len());
        let mut stream = Stream::new(self.seed, self.time, "resampling");
        for i in resample(Scheme::Multinomial, &p, &mut stream) {
            next.extend_from_slice(&self.particles[i * len..(i + 1) * len]);
        }
        self.particles = next;
    }

    fn weights(&self) -> &[E] {
        &self.estimate
    }
}

impl<E: Weight> Resumable<E> for Particle<E> {
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        let kept = (&self.particles, &self.estimate, self.time, self.effective);
        checkpoint::save("weights/pf", &kept)
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        type Kept<E> = (Vec<E>, Vec<E>, u64, f64);
        let (particles, estimate, time, effective): Kept<E> =
            checkpoint::load("weights/pf", bytes)?;
        same_length(particles.len(), self.particles.len())?;
        same_length(estimate.len(), self.estimate.len())?;
        (self.particles, self.estimate, self.time, self.effective) =
            (particles, estimate, time, effective);
        Ok(())
    }
}
