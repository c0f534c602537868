//! What the published program's particle filter asks of the two systems.

use super::lanes::all;
use super::model::{Lorenz, Toy, lorenz_process_var};
use super::quirks::Quirks;
use crate::systems::Dynamics;
use core::f64::consts::PI;
use optfilter::scalar::Lanes;
use optfilter::simd::{Kernel, dispatch};

/// What a particle filter needs of a system.
pub trait ParticleModel<const N: usize>: Copy + Send + Sync {
    /// Where the initial particles lie around.
    fn center(&self) -> f64;
    /// Move all particles of one component-major array to step `t`, without noise.
    fn transition(&self, particles: &mut [Vec<f64>; N], t: usize);
    /// Deviation of the process noise.
    fn process_std(&self) -> f64;
    /// Logarithm of the density of the measurement, without the constant.
    fn exponent<const W: usize>(&self, x: &[Lanes<W>; N], y: &[f64; N]) -> Lanes<W>;
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
                    *x = self.0.transition(Lanes([*x]), self.2).0[0];
                }
            }
        }
        dispatch(Move(self.model, &mut particles[0], t));
    }
    fn process_std(&self) -> f64 {
        self.q_std
    }
    #[inline(always)]
    fn exponent<const W: usize>(&self, x: &[Lanes<W>; 1], y: &[f64; 1]) -> Lanes<W> {
        let z = (all(y[0]) - Toy::measure(x[0])) / all(self.r_std);
        -(z * z) / all(2.0)
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
            process_std: lorenz_process_var(alpha, quirks).sqrt(),
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
                    let next = self.0.step(&[Lanes([*a]), Lanes([*b]), Lanes([*c])]);
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
    fn exponent<const W: usize>(&self, x: &[Lanes<W>; 3], y: &[f64; 3]) -> Lanes<W> {
        let d = [all(y[0]) - x[0], all(y[1]) - x[1], all(y[2]) - x[2]];
        -(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]) / all(2.0) / all(2.0)
    }
    fn density_constant(&self) -> f64 {
        // (2 pi)^(-3/2) |2 I|^(-1/2)
        (2.0 * PI).powf(-1.5) * 8.0_f64.powf(-0.5)
    }
    fn overwritten(&self) -> bool {
        self.overwritten
    }
}
