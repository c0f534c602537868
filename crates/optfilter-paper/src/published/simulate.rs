//! The trajectories and measurements of the published program.
//!
//! Run `i` draws from the stream seeded with `seed + i`: first the initial state, then at each step the process noise and the
//! measurement noise, and last the mean at which the filters start.

use super::lanes::all;
use super::model::{LORENZ_DT, Lorenz, Toy};
use super::quirks::Quirks;
use crate::numpy_random::RandomState;
use crate::systems::{Dynamics, STEPS};
use optfilter::scalar::Lanes;
use optfilter::simd::{Kernel, dispatch};
use rayon::prelude::*;

/// Euler steps between two measurements.
const SUBSTEPS: usize = 10_000;

/// Trajectories and measurements of all runs of one system; `N` components each.
#[derive(Clone, Debug)]
pub struct Data<const N: usize> {
    /// Number of runs.
    pub runs: usize,
    /// States `x_1..x_T`, indexed by (step, component, run).
    pub x: Vec<f64>,
    /// Measurements `y_1..y_T`, indexed alike.
    pub y: Vec<f64>,
    /// Mean at which the filters start, by (component, run).
    pub start: Vec<f64>,
}

impl<const N: usize> Data<N> {
    fn zeros(runs: usize) -> Self {
        Self {
            runs,
            x: vec![0.0; STEPS * N * runs],
            y: vec![0.0; STEPS * N * runs],
            start: vec![0.0; N * runs],
        }
    }

    /// Position of a component of a run at step `t`.
    #[inline(always)]
    pub fn at(&self, t: usize, component: usize, run: usize) -> usize {
        (t * N + component) * self.runs + run
    }
}

/// The seed of a run.
pub fn seed_of(seed: u32, run: usize) -> u32 {
    seed.wrapping_add(run as u32)
}

/// Simulate a toy system.
pub fn toy(q: u32, r: u32, runs: usize, seed: u32, quirks: &Quirks) -> Data<1> {
    let model = Toy::new(quirks);
    let scale = |v: u32| {
        if quirks.toy_noise_as_deviation { f64::from(v) } else { f64::from(v).sqrt() }
    };
    let (q_std, r_std) = (scale(q), scale(r));
    let mut data = Data::zeros(runs);
    for run in 0..runs {
        let mut random = RandomState::new(seed_of(seed, run));
        let mut x = Lanes([random.normal()]);
        for t in 0..STEPS {
            x = model.transition(x, t) + all(q_std * random.normal());
            let y = Toy::measure(x) + all(r_std * random.normal());
            let at = data.at(t, 0, run);
            data.x[at] = x.0[0];
            data.y[at] = y.0[0];
        }
        data.start[run] = if quirks.start_drawn { random.normal() } else { 0.0 };
    }
    data
}

/// Simulate the Lorenz system for several strengths of the noise at once: the draws are the same for all.
pub fn lorenz(alphas: &[u32], runs: usize, seed: u32, quirks: &Quirks) -> Vec<Data<3>> {
    let measurement_std =
        if quirks.lorenz_measurement_noise_as_deviation { 2.0 } else { 2.0_f64.sqrt() };
    let trajectories: Vec<(usize, usize)> =
        (0..alphas.len()).flat_map(|a| (0..runs).map(move |run| (a, run))).collect();
    const W: usize = 32;
    let done: Vec<Vec<Trajectory>> = if quirks.lorenz_noise_once {
        let draws: Vec<Draws> =
            (0..runs).into_par_iter().map(|run| Draws::new(seed_of(seed, run))).collect();
        trajectories
            .par_chunks(W)
            .map(|chunk| {
                dispatch(NoiselessBlock::<W> {
                    lanes: chunk,
                    alphas,
                    draws: &draws,
                    quirks,
                    measurement_std,
                })
            })
            .collect()
    } else {
        trajectories
            .par_iter()
            .map(|&(a, run)| {
                vec![euler_maruyama(alphas[a], seed_of(seed, run), quirks, measurement_std)]
            })
            .collect()
    };
    let mut out = vec![Data::zeros(runs); alphas.len()];
    for ((a, run), trajectory) in trajectories.into_iter().zip(done.into_iter().flatten()) {
        let data = &mut out[a];
        for t in 0..STEPS {
            for c in 0..3 {
                let at = data.at(t, c, run);
                data.x[at] = trajectory.x[3 * t + c];
                data.y[at] = trajectory.y[3 * t + c];
            }
        }
        for c in 0..3 {
            data.start[c * runs + run] = trajectory.start[c];
        }
    }
    out
}

struct Trajectory {
    x: Vec<f64>,
    y: Vec<f64>,
    start: [f64; 3],
}

/// All normals of one run, in the order of the program.
struct Draws {
    initial: [f64; 3],
    steps: Vec<[f64; 6]>,
    start: [f64; 3],
}

impl Draws {
    fn new(seed: u32) -> Self {
        let mut random = RandomState::new(seed);
        let mut initial = [0.0; 3];
        random.fill_normal(&mut initial);
        let mut steps = vec![[0.0; 6]; STEPS];
        for step in &mut steps {
            random.fill_normal(step);
        }
        let mut start = [0.0; 3];
        random.fill_normal(&mut start);
        Self { initial, steps, start }
    }
}

fn noise_std(alpha: u32, quirks: &Quirks) -> f64 {
    if quirks.lorenz_noise_linear_in_dt {
        f64::from(alpha) * LORENZ_DT
    } else {
        f64::from(alpha) * LORENZ_DT.sqrt()
    }
}

fn start_of(draw: [f64; 3], quirks: &Quirks) -> [f64; 3] {
    draw.map(|z| if quirks.start_drawn { 10.0 + z } else { 10.0 })
}

/// Up to `W` trajectories whose noise comes once per measurement.
struct NoiselessBlock<'a, const W: usize> {
    lanes: &'a [(usize, usize)],
    alphas: &'a [u32],
    draws: &'a [Draws],
    quirks: &'a Quirks,
    measurement_std: f64,
}

impl<const W: usize> Kernel for NoiselessBlock<'_, W> {
    type Output = Vec<Trajectory>;

    #[inline(always)]
    fn run(self) -> Vec<Trajectory> {
        let h = LORENZ_DT / SUBSTEPS as f64;
        let model = Lorenz::new(Dynamics::Euler, self.quirks);
        let mut x = [all::<W>(0.0); 3];
        let mut out: Vec<Trajectory> = Vec::with_capacity(self.lanes.len());
        for (l, &(_, run)) in self.lanes.iter().enumerate() {
            for c in 0..3 {
                x[c].0[l] = 10.0 + self.draws[run].initial[c];
            }
            out.push(Trajectory {
                x: Vec::with_capacity(3 * STEPS),
                y: Vec::with_capacity(3 * STEPS),
                start: start_of(self.draws[run].start, self.quirks),
            });
        }
        for t in 0..STEPS {
            for _ in 0..SUBSTEPS {
                x = model.euler(&x, h);
            }
            for (l, &(a, run)) in self.lanes.iter().enumerate() {
                let std = noise_std(self.alphas[a], self.quirks);
                let draws = &self.draws[run].steps[t];
                for c in 0..3 {
                    x[c].0[l] += std * draws[c];
                    out[l].x.push(x[c].0[l]);
                    out[l].y.push(x[c].0[l] + self.measurement_std * draws[3 + c]);
                }
            }
        }
        out
    }
}

/// One trajectory with noise in every small step.
fn euler_maruyama(alpha: u32, seed: u32, quirks: &Quirks, measurement_std: f64) -> Trajectory {
    let h = LORENZ_DT / SUBSTEPS as f64;
    let std = noise_std(alpha, quirks) / (SUBSTEPS as f64).sqrt();
    let model = Lorenz::new(Dynamics::Euler, quirks);
    let mut random = RandomState::new(seed);
    let mut x = [0; 3].map(|_| Lanes([10.0 + random.normal()]));
    let mut out = Trajectory {
        x: Vec::with_capacity(3 * STEPS),
        y: Vec::with_capacity(3 * STEPS),
        start: [0.0; 3],
    };
    for _ in 0..STEPS {
        for _ in 0..SUBSTEPS {
            x = model.euler(&x, h);
            for v in &mut x {
                v.0[0] += std * random.normal();
            }
        }
        for v in &x {
            out.x.push(v.0[0]);
        }
        for v in &x {
            out.y.push(v.0[0] + measurement_std * random.normal());
        }
    }
    out.start = start_of([0; 3].map(|_| random.normal()), quirks);
    out
}
