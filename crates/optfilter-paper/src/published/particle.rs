//! The particle filter of the published program: 1000 particles, multinomial resampling at every step.
//!
//! Each step adds process noise to the moved particles, weighs them by the normalised Gaussian density plus 1e-8, and draws 1000 of them:
//! a uniform goes to the first index whose cumulative weight exceeds it. The estimate is the mean of the *resampled* particles; for the
//! Lorenz system with a real integrator, of those particles *after the next noiseless prediction*, because the program moves the stored array in place.
//!
//! The random numbers depend on the run alone, so all systems of a family advance together and share them.

use super::lanes::{Kernel, V, dispatch};
use super::model::{Lorenz, Toy};
use super::quirks::Quirks;
use super::simulate::{Data, seed_of};
use crate::numpy_random::RandomState;
use crate::systems::{Dynamics, STEPS};
use core::f64::consts::PI;
use rayon::prelude::*;

/// Particles in the paper's tables.
pub const PARTICLES: usize = 1000;

/// What a particle filter needs of a system.
pub trait ParticleModel<const N: usize>: Copy + Send + Sync {
    /// Where the initial particles lie around.
    fn center(&self) -> f64;
    /// Move all particles of one component-major array to step `t`, without noise.
    fn transition(&self, particles: &mut [Vec<f64>; N], t: usize);
    /// Deviation of the process noise.
    fn process_std(&self) -> f64;
    /// Density of the measurement, without the constant.
    fn exponent(&self, x: &[f64; N], y: &[f64; N]) -> f64;
    /// The constant of the density.
    fn density_constant(&self) -> f64;
    /// Whether the stored particles are those that the next prediction has moved.
    fn overwritten(&self) -> bool;
}

/// Toy system with its noise as the particle filter takes it.
#[derive(Clone, Copy)]
pub struct ToyParticles<'a> {
    model: &'a Toy,
    q_std: f64,
    r_std: f64,
}

impl<'a> ToyParticles<'a> {
    /// For the toy system with noises `q` and `r`.
    pub fn new(model: &'a Toy, q: u32, r: u32, quirks: &Quirks) -> Self {
        let scale = |v: u32| {
            if quirks.toy_particles_noise_as_deviation { f64::from(v) } else { f64::from(v).sqrt() }
        };
        Self { model, q_std: scale(q), r_std: scale(r) }
    }
}

impl ParticleModel<1> for ToyParticles<'_> {
    fn center(&self) -> f64 {
        0.0
    }
    fn transition(&self, particles: &mut [Vec<f64>; 1], t: usize) {
        struct Move<'a>(&'a Toy, &'a mut [f64], usize);
        impl Kernel for Move<'_> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                for x in self.1 {
                    *x = self.0.transition(V([*x]), self.2).0[0];
                }
            }
        }
        dispatch(Move(self.model, &mut particles[0], t));
    }
    fn process_std(&self) -> f64 {
        self.q_std
    }
    #[inline(always)]
    fn exponent(&self, x: &[f64; 1], y: &[f64; 1]) -> f64 {
        let z = (y[0] - x[0] * x[0] / 20.0) / self.r_std;
        -(z * z) / 2.0
    }
    fn density_constant(&self) -> f64 {
        1.0 / (2.0 * PI).sqrt() / self.r_std
    }
    fn overwritten(&self) -> bool {
        false
    }
}

/// Lorenz system with its noise as the particle filter takes it.
#[derive(Clone, Copy)]
pub struct LorenzParticles {
    model: Lorenz,
    process_std: f64,
    overwritten: bool,
}

impl LorenzParticles {
    /// For the Lorenz system with noise `alpha` and the given integrator.
    pub fn new(alpha: u32, dynamics: Dynamics, quirks: &Quirks) -> Self {
        let model = Lorenz::new(dynamics, quirks);
        Self {
            model,
            process_std: super::lorenz_process_var(alpha, quirks).sqrt(),
            overwritten: quirks.particles_overwritten && dynamics != Dynamics::Grw,
        }
    }
}

impl ParticleModel<3> for LorenzParticles {
    fn center(&self) -> f64 {
        10.0
    }
    fn transition(&self, particles: &mut [Vec<f64>; 3], _t: usize) {
        struct Move<'a>(Lorenz, &'a mut [Vec<f64>; 3]);
        impl Kernel for Move<'_> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                let [a, b, c] = self.1;
                for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                    let next = self.0.step(&[V([*a]), V([*b]), V([*c])]);
                    *a = next[0].0[0];
                    *b = next[1].0[0];
                    *c = next[2].0[0];
                }
            }
        }
        dispatch(Move(self.model, particles));
    }
    fn process_std(&self) -> f64 {
        self.process_std
    }
    #[inline(always)]
    fn exponent(&self, x: &[f64; 3], y: &[f64; 3]) -> f64 {
        let d = [y[0] - x[0], y[1] - x[1], y[2] - x[2]];
        -(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) / 2.0 / 2.0
    }
    fn density_constant(&self) -> f64 {
        // (2 pi)^(-3/2) |2 I|^(-1/2)
        (2.0 * PI).powf(-1.5) * 8.0_f64.powf(-0.5)
    }
    fn overwritten(&self) -> bool {
        self.overwritten
    }
}

/// The filter of one system in the middle of a run.
struct State<const N: usize> {
    particles: [Vec<f64>; N],
    moved: [Vec<f64>; N],
    cumulative: Vec<f64>,
    guide: Vec<u32>,
}

impl<const N: usize> State<N> {
    fn mean(&self) -> [f64; N] {
        let n = self.particles[0].len() as f64;
        core::array::from_fn(|c| self.particles[c].iter().sum::<f64>() / n)
    }

    /// Weigh by the measurement; leaves cumulative weights and returns the weighted mean.
    fn weigh<P: ParticleModel<N>>(&mut self, model: &P, y: &[f64; N], floor: f64) -> [f64; N] {
        let constant = model.density_constant();
        let mut total = 0.0;
        for i in 0..self.cumulative.len() {
            let x = core::array::from_fn(|c| self.particles[c][i]);
            let weight = constant * model.exponent(&x, y).exp() + floor;
            self.cumulative[i] = weight;
            total += weight;
        }
        let mut mean = [0.0; N];
        for (i, weight) in self.cumulative.iter_mut().enumerate() {
            *weight /= total;
            for c in 0..N {
                mean[c] += *weight * self.particles[c][i];
            }
        }
        mean
    }

    /// Multinomial resampling with the given uniforms.
    fn resample(&mut self, uniforms: &[f64]) {
        let n = self.cumulative.len();
        let mut sum = 0.0;
        for weight in &mut self.cumulative {
            sum += *weight;
            *weight = sum;
        }
        for value in &mut self.cumulative {
            *value /= sum;
        }
        // guide[b] is the answer for u = b / 1024, a power of two, so that u * 1024 is exact and the search can start there.
        let buckets = self.guide.len() as f64;
        let mut b = 0;
        for (i, &value) in self.cumulative.iter().enumerate() {
            while b < self.guide.len() && (b as f64 / buckets) < value {
                self.guide[b] = i as u32;
                b += 1;
            }
        }
        self.guide[b..].fill(n as u32 - 1);
        for (k, &u) in uniforms.iter().enumerate() {
            let mut i = self.guide[(u * buckets) as usize] as usize;
            while i + 1 < n && self.cumulative[i] <= u {
                i += 1;
            }
            for c in 0..N {
                self.moved[c][k] = self.particles[c][i];
            }
        }
        core::mem::swap(&mut self.particles, &mut self.moved);
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
    mut inspect: impl FnMut(usize, usize, &[Vec<f64>; N]),
) -> Vec<Vec<[f64; N]>> {
    let seed = if quirks.particles_share_stream { seed } else { seed ^ 0x8000_0000 };
    let mut random = RandomState::new(seed);
    let mut noise = vec![0.0; particles * N];
    let mut uniforms = vec![0.0; particles];
    random.fill_normal(&mut noise);
    let mut states: Vec<State<N>> = systems
        .iter()
        .map(|(model, _)| State {
            particles: core::array::from_fn(|c| {
                (0..particles).map(|i| model.center() + noise[i * N + c]).collect()
            }),
            moved: core::array::from_fn(|_| vec![0.0; particles]),
            cumulative: vec![0.0; particles],
            guide: vec![0; 1024],
        })
        .collect();
    random.reseed(seed);
    let floor = if quirks.particles_weight_floor { 1e-8 } else { 0.0 };
    let mut estimates = vec![vec![[0.0; N]; STEPS]; systems.len()];
    for t in 0..STEPS {
        random.fill_normal(&mut noise);
        random.fill_uniform(&mut uniforms);
        for (j, ((model, data), state)) in systems.iter().zip(&mut states).enumerate() {
            model.transition(&mut state.particles, t);
            if t > 0 && model.overwritten() {
                estimates[j][t - 1] = state.mean();
            }
            let std = model.process_std();
            for c in 0..N {
                for (i, x) in state.particles[c].iter_mut().enumerate() {
                    *x += std * noise[i * N + c];
                }
            }
            let y = core::array::from_fn(|c| data.y[data.at(t, c, run)]);
            let weighted = state.weigh(model, &y, floor);
            state.resample(&uniforms);
            estimates[j][t] =
                if quirks.particles_mean_after_resampling { state.mean() } else { weighted };
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
) -> Vec<Vec<f64>> {
    let runs = systems.first().map_or(0, |(_, data)| data.runs);
    let by_run: Vec<Vec<f64>> = (0..runs)
        .into_par_iter()
        .map(|i| {
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
