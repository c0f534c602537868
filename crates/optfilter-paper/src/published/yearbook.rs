//! What the released program did to network weights and the paper's text does not say, each quirk by name.
//!
//! - [`noise_std`]: the configuration's sigma^2 is used as a standard deviation, by both filters that have one.
//! - [`noisy_walk`]: the variational filter's predict step *adds noise* to the weights, and its prior pulls to the noisy
//!   ones.
//! - [`best`]: the weights reported by the particle filter are those of the single best particle.
//! - [`BestParticle`]: resampling draws N of N *without* replacement. That only permutes the particles, so it is not done:
//!   each particle walks on by itself, whatever its weight.

use optfilter::rng::Stream;
use optfilter_nn::filter::{Transition, WeightFilter, disturb, losses};
use optfilter_nn::{Evaluator, Minibatch};

/// Standard deviation of the noise per year: sigma^2 itself.
pub fn noise_std(sigma2: f64) -> f64 {
    sigma2
}

/// The particle of the largest weight `1 / loss + 1e-8`: that of the smallest loss, of equal ones the first; none if no
/// loss is finite.
pub fn best<T: Copy + Into<f64>>(losses: &[T]) -> Option<usize> {
    let finite = losses.iter().map(|l| (*l).into()).enumerate().filter(|(_, l)| l.is_finite());
    finite.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
}

/// Adds noise at each time step.
pub fn noisy_walk(sigma2: f64, seed: u64) -> Transition<f32> {
    let (std, mut time) = (noise_std(sigma2), 0);
    Transition::Custom(Box::new(move |w: &mut [f32]| {
        let mut noise = vec![0.0; w.len()];
        Stream::new(seed, time, "variational noise").fill_normal(&mut noise);
        time += 1;
        for (w, z) in w.iter_mut().zip(noise) {
            *w += (std * z) as f32;
        }
    }))
}

/// The published particle filter.
#[derive(Debug)]
pub struct BestParticle {
    std: f64,
    seed: u64,
    time: u64,
    particles: Vec<f32>,
    best: Vec<f32>,
    evaluators: Vec<Evaluator<f32>>,
}

impl BestParticle {
    /// `count` particles, all at `weights`.
    pub fn new(count: usize, sigma2: f64, weights: Vec<f32>, seed: u64) -> Self {
        let (std, particles) = (noise_std(sigma2), weights.repeat(count));
        Self { std, seed, time: 0, particles, best: weights, evaluators: Vec::new() }
    }
}

impl WeightFilter<f32> for BestParticle {
    fn predict(&mut self) {
        disturb(&mut self.particles, self.best.len(), self.std, self.seed, self.time);
        self.time += 1;
    }

    fn update(&mut self, evaluator: &mut Evaluator<f32>, batch: &Minibatch<'_, f32>) {
        let len = self.best.len();
        let losses = losses(&self.particles, len, evaluator, &mut self.evaluators, batch);
        if let Some(i) = best(&losses) {
            self.best.copy_from_slice(&self.particles[i * len..(i + 1) * len]);
        }
    }

    fn weights(&self) -> &[f32] {
        &self.best
    }
}
