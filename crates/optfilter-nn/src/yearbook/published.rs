//! What the paper's released program did and its text does not say. Nothing outside the experiment uses this.
//!
//! - Variational filter: the predict step *adds noise* to the weights, and the configuration's sigma^2 is used as the
//!   noise's standard deviation ([`noisy_walk`]); the prior pulls to those noisy weights.
//! - Particle filter ([`BestParticle`]): sigma^2 is a standard deviation here too; a particle's weight is 1 / loss + 1e-8,
//!   the weights reported are those of the single best particle, and resampling draws N of N *without* replacement. That
//!   only permutes the particles, so it is not done here: each particle walks on by itself, whatever its weight.

use crate::evaluate::{Batch, Evaluator};
use crate::filter::{Transition, Weight, WeightFilter};
use optfilter::rng::Stream;

/// Adds noise of standard deviation `sigma2` at each time step.
pub fn noisy_walk(sigma2: f64, seed: u64) -> Transition<f32> {
    let mut time = 0;
    Transition::Custom(Box::new(move |w: &mut [f32]| {
        let mut noise = vec![0.0; w.len()];
        Stream::new(seed, time, "variational noise").fill_normal(&mut noise);
        time += 1;
        for (w, z) in w.iter_mut().zip(noise) {
            *w += (sigma2 * z) as f32;
        }
    }))
}

/// The published particle filter.
#[derive(Debug)]
pub struct BestParticle<E: Weight> {
    std: f64,
    seed: u64,
    time: u64,
    particles: Vec<E>,
    best: Vec<E>,
    evaluators: Vec<Evaluator<E>>,
}

impl<E: Weight> BestParticle<E> {
    /// `count` particles, all at `weights`.
    pub fn new(count: usize, sigma2: f64, weights: Vec<E>, seed: u64) -> Self {
        let particles = weights.repeat(count);
        Self { std: sigma2, seed, time: 0, particles, best: weights, evaluators: Vec::new() }
    }
}

impl<E: Weight> WeightFilter<E> for BestParticle<E> {
    fn predict(&mut self) {
        crate::filter::disturb(
            &mut self.particles,
            self.best.len(),
            self.std,
            self.seed,
            self.time,
        );
        self.time += 1;
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Batch<'_, E>) {
        let len = self.best.len();
        let losses =
            crate::filter::losses(&self.particles, len, evaluator, &mut self.evaluators, batch);
        // 1 / loss + 1e-8 is largest where the loss is smallest; of equal ones the first.
        let best =
            losses.iter().enumerate().filter(|l| l.1.is_finite()).min_by(|a, b| a.1.total_cmp(b.1));
        if let Some((i, _)) = best {
            self.best.copy_from_slice(&self.particles[i * len..(i + 1) * len]);
        }
    }

    fn weights(&self) -> &[E] {
        &self.best
    }
}
