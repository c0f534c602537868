//! The particle filter of the published program: 1000 particles, multinomial resampling at every step.
//!
//! Each step adds process noise to the moved particles, weighs them by the normalised Gaussian density plus 1e-8, and draws 1000 of them:
//! a uniform goes to the first index whose cumulative weight exceeds it. The estimate is the mean of the *resampled* particles; for the
//! Lorenz system with a real integrator, of those particles *after the next noiseless prediction*, because the program moves the stored array in place.
//!
//! The random numbers depend on the run alone, so all systems of a family advance together and share them.

use super::lanes::{all, exp_negative};
pub use super::particle_model::{LorenzParticles, ParticleModel, ToyParticles};
use super::quirks::Quirks;
use super::simulate::{Data, seed_of};
use crate::numpy_random::RandomState;
use crate::systems::STEPS;
use optfilter::scalar::Lanes;
use optfilter::simd::{Kernel, dispatch};
use rayon::prelude::*;

/// Particles in the paper's tables.
pub const PARTICLES: usize = 1000;

/// The filter of one system in the middle of a run.
struct State<const N: usize> {
    particles: [Vec<f64>; N],
    moved: [Vec<f64>; N],
    weights: Vec<f64>,
    chosen: Vec<u32>,
}

/// Sum of a slice with eight running sums: the order is fixed, so the result is, too.
struct Sum<'a>(&'a [f64]);
impl Kernel for Sum<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let mut sums = all::<8>(0.0);
        let (chunks, rest) = self.0.as_chunks();
        for chunk in chunks {
            sums += Lanes(*chunk);
        }
        sums.0.iter().sum::<f64>() + rest.iter().sum::<f64>()
    }
}

/// Divide a slice by a number.
struct Divide<'a>(&'a mut [f64], f64);
impl Kernel for Divide<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for value in self.0 {
            *value /= self.1;
        }
    }
}

/// Densities of all particles, plus the floor.
struct Densities<'a, const N: usize, P> {
    model: &'a P,
    y: &'a [f64; N],
    floor: f64,
    particles: &'a [Vec<f64>; N],
    weights: &'a mut [f64],
}
impl<const N: usize, P: ParticleModel<N>> Kernel for Densities<'_, N, P> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let constant = self.model.density_constant();
        for (block, weights) in self.weights.chunks_mut(8).enumerate() {
            let mut x = [all::<8>(0.0); N];
            for c in 0..N {
                let from = &self.particles[c][8 * block..];
                match from.first_chunk() {
                    Some(chunk) => x[c] = Lanes(*chunk),
                    None => x[c].0[..from.len()].copy_from_slice(from),
                }
            }
            let mut density = self.model.exponent(&x, self.y);
            for v in &mut density.0 {
                *v = constant * exp_negative(*v) + self.floor;
            }
            match weights.first_chunk_mut() {
                Some(chunk) => *chunk = density.0,
                None => weights.copy_from_slice(&density.0[..weights.len()]),
            }
        }
    }
}

impl<const N: usize> State<N> {
    fn mean(&self) -> [f64; N] {
        let n = self.particles[0].len() as f64;
        core::array::from_fn(|c| dispatch(Sum(&self.particles[c])) / n)
    }

    /// Weigh by the measurement and normalise.
    fn weigh<P: ParticleModel<N>>(&mut self, model: &P, y: &[f64; N], floor: f64) {
        dispatch(Densities {
            model,
            y,
            floor,
            particles: &self.particles,
            weights: &mut self.weights,
        });
        let total = dispatch(Sum(&self.weights));
        dispatch(Divide(&mut self.weights, total));
    }

    /// Mean with the normalised weights, before they are accumulated.
    fn weighted_mean(&self) -> [f64; N] {
        core::array::from_fn(|c| {
            let terms = self.weights.iter().zip(&self.particles[c]);
            terms.map(|(w, x)| w * x).sum()
        })
    }

    /// Multinomial resampling with the given uniforms.
    fn resample(&mut self, uniforms: &[f64]) {
        let mut sum = 0.0;
        for weight in &mut self.weights {
            sum += *weight;
            *weight = sum;
        }
        dispatch(Divide(&mut self.weights, sum));
        dispatch(Search { cumulative: &self.weights, uniforms, chosen: &mut self.chosen });
        for (from, to) in self.particles.iter().zip(&mut self.moved) {
            for (value, &i) in to.iter_mut().zip(&self.chosen) {
                *value = from[i as usize];
            }
        }
        core::mem::swap(&mut self.particles, &mut self.moved);
    }
}

/// For each uniform, the first index whose cumulative weight exceeds it.
struct Search<'a> {
    cumulative: &'a [f64],
    uniforms: &'a [f64],
    chosen: &'a mut [u32],
}

/// Up to this many particles the search takes ten steps without a branch, eight uniforms side by side: which way a step goes cannot be
/// predicted, and a wrong guess of the processor costs more than the step.
const SMALL: usize = 1024;

impl Kernel for Search<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let last = self.cumulative.len() - 1;
        if last >= SMALL {
            for (&u, chosen) in self.uniforms.iter().zip(self.chosen) {
                *chosen = self.cumulative.partition_point(|&c| c <= u).min(last) as u32;
            }
            return;
        }
        let mut table = [f64::INFINITY; SMALL];
        table[..=last].copy_from_slice(self.cumulative);
        for (uniforms, chosen) in self.uniforms.chunks(8).zip(self.chosen.chunks_mut(8)) {
            let mut u = [0.0; 8];
            u[..uniforms.len()].copy_from_slice(uniforms);
            // How many entries are known not to exceed u.
            let mut below = [0_u64; 8];
            let mut half = SMALL as u64 / 2;
            while half > 0 {
                for l in 0..8 {
                    let entry = table[(below[l] + half - 1) as usize % SMALL];
                    below[l] += if entry <= u[l] { half } else { 0 };
                }
                half /= 2;
            }
            for (chosen, below) in chosen.iter_mut().zip(below) {
                *chosen = below.min(last as u64) as u32;
            }
        }
    }
}

/// `x + std z` for all particles.
struct AddNoise<'a>(&'a mut [f64], &'a [f64], f64);
impl Kernel for AddNoise<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (x, z) in self.0.iter_mut().zip(self.1) {
            *x += self.2 * z;
        }
    }
}

/// Run one seed for several systems at once; returns the estimates of each, by step.
///
/// `inspect` sees the resampled particles of every system at every step.
pub fn run<const N: usize, P: ParticleModel<N>>(
    systems: &[(P, &Data<N>)],
    run: usize,
    seed: u32,
    particles: usize,
    quirks: &Quirks,
    inspect: impl FnMut(usize, usize, &[Vec<f64>; N]),
) -> Vec<Vec<[f64; N]>> {
    run_until(systems, run, seed, particles, STEPS, quirks, inspect)
}

/// Like [`run`], but only for the first `steps` measurements.
pub fn run_until<const N: usize, P: ParticleModel<N>>(
    systems: &[(P, &Data<N>)],
    run: usize,
    seed: u32,
    particles: usize,
    steps: usize,
    quirks: &Quirks,
    mut inspect: impl FnMut(usize, usize, &[Vec<f64>; N]),
) -> Vec<Vec<[f64; N]>> {
    let seed = if quirks.particles_share_stream { seed } else { seed ^ 0x8000_0000 };
    let mut random = RandomState::new(seed);
    // Drawn particle by particle, kept component by component.
    let mut drawn = vec![0.0; particles * N];
    let mut noise: [Vec<f64>; N] = core::array::from_fn(|_| vec![0.0; particles]);
    let mut uniforms = vec![0.0; particles];
    random.fill_normal(&mut drawn);
    let mut states: Vec<State<N>> = systems
        .iter()
        .map(|(model, _)| State {
            particles: core::array::from_fn(|c| {
                (0..particles).map(|i| model.center() + drawn[i * N + c]).collect()
            }),
            moved: core::array::from_fn(|_| vec![0.0; particles]),
            weights: vec![0.0; particles],
            chosen: vec![0; particles],
        })
        .collect();
    random.reseed(seed);
    let floor = if quirks.particles_weight_floor { 1e-8 } else { 0.0 };
    let mut estimates = vec![vec![[0.0; N]; steps]; systems.len()];
    for t in 0..steps {
        random.fill_normal(&mut drawn);
        random.fill_uniform(&mut uniforms);
        for c in 0..N {
            for (z, draws) in noise[c].iter_mut().zip(drawn.chunks(N)) {
                *z = draws[c];
            }
        }
        for (j, ((model, data), state)) in systems.iter().zip(&mut states).enumerate() {
            model.transition(&mut state.particles, t);
            if t > 0 && model.overwritten() {
                estimates[j][t - 1] = state.mean();
            }
            let std = model.process_std();
            for c in 0..N {
                dispatch(AddNoise(&mut state.particles[c], &noise[c], std));
            }
            let y = core::array::from_fn(|c| data.y[data.at(t, c, run)]);
            state.weigh(model, &y, floor);
            let before = (!quirks.particles_mean_after_resampling).then(|| state.weighted_mean());
            state.resample(&uniforms);
            estimates[j][t] = before.unwrap_or_else(|| state.mean());
            inspect(j, t, &state.particles);
        }
    }
    estimates
}

/// RMSE of every run of every system: `[system][run]`.
pub fn rmses<const N: usize, P: ParticleModel<N>>(
    systems: &[(P, &Data<N>)],
    seed: u32,
    quirks: &Quirks,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Vec<Vec<f64>> {
    let runs = systems.first().map_or(0, |(_, data)| data.runs);
    let by_run: Vec<Vec<f64>> = (0..runs)
        .into_par_iter()
        .map(|i| {
            if stopped() {
                return vec![f64::NAN; systems.len()]; // thrown away by the caller
            }
            let estimates = run(systems, i, seed_of(seed, i), PARTICLES, quirks, |_, _, _| {});
            systems
                .iter()
                .zip(&estimates)
                .map(|((_, data), estimates)| {
                    let mut sum = 0.0;
                    for (t, estimate) in estimates.iter().enumerate() {
                        for c in 0..N {
                            let error = estimate[c] - data.x[data.at(t, c, i)];
                            sum += error * error;
                        }
                    }
                    (sum / (STEPS * N) as f64).sqrt()
                })
                .collect()
        })
        .collect();
    (0..systems.len()).map(|j| by_run.iter().map(|run| run[j]).collect()).collect()
}
