//! The trajectories that the paper's text describes.
//!
//! Toy system: Q and R are variances, the forcing is `cos(1.2 t dt)`. Lorenz attractor: beta = 8/3 and 10,000 Euler-Maruyama steps between
//! measurements, each with its Wiener increment. Random numbers come from named counter-based streams; the runs for tuning have streams
//! of their own.

use crate::systems::STEPS;
use optfilter::filter::{FilterError, GaussianBelief};
use optfilter::model::{Drift, GaussianNoise, Growth, Lorenz63};
use optfilter::rng::Stream;
use optfilter::scalar::Lanes;
use optfilter::simulate::{Simulation, simulate};
use rayon::prelude::*;

/// Time between measurements of the toy system.
pub const TOY_DT: f64 = 0.1;
/// Time between measurements of the Lorenz attractor.
pub const LORENZ_DT: f64 = 0.02;
/// Variance of its measurement noise.
pub const LORENZ_R_VAR: f64 = 2.0;
/// Euler-Maruyama steps between two measurements.
const SUBSTEPS: usize = 10_000;
/// Runs on which hyper-parameters are chosen.
pub const TUNING_RUNS: usize = 5;

/// Runs to report on, and separate ones to tune on.
#[derive(Clone, Debug, Default)]
pub struct Data {
    /// The runs behind the reported numbers.
    pub test: Vec<Simulation>,
    /// The runs on which hyper-parameters are chosen.
    pub tuning: Vec<Simulation>,
}

/// Which stream a run draws from: tuning runs are numbered far from all others.
fn stream_runs(runs: usize) -> Vec<u64> {
    let tuning = (0..TUNING_RUNS as u64).map(|i| (1 << 40) + i);
    (0..runs as u64).chain(tuning).collect()
}

fn split(mut all: Vec<Simulation>, runs: usize) -> Data {
    let tuning = all.split_off(runs);
    Data { test: all, tuning }
}

/// Simulate a toy system.
pub fn toy(q_var: f64, r_var: f64, runs: usize, seed: u32) -> Result<Data, FilterError> {
    let noise = GaussianNoise::new([[q_var]].into(), [[r_var]].into())
        .map_err(|_| FilterError::NotPositiveDefinite { quantity: "noise", index: None })?;
    let start = GaussianBelief::new([0.0].into(), [[1.0]].into())?;
    let all = stream_runs(runs)
        .into_iter()
        .map(|run| {
            let mut stream = Stream::new(u64::from(seed), run, "toy");
            simulate(&Growth, &noise, &start, STEPS, TOY_DT, &mut stream)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(split(all, runs))
}

/// Simulate the Lorenz attractor for up to four strengths of the noise, driven by the same Wiener paths.
pub fn lorenz(
    alphas: &[u32],
    runs: usize,
    seed: u32,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Vec<Data> {
    let all: Vec<Vec<Simulation>> = stream_runs(runs)
        .into_par_iter()
        .map(|run| lorenz_run(alphas, u64::from(seed), run, stopped))
        .collect();
    (0..alphas.len()).map(|a| split(all.iter().map(|run| run[a].clone()).collect(), runs)).collect()
}

/// One run for all strengths at once: a lane for each.
fn lorenz_run(
    alphas: &[u32],
    seed: u64,
    run: u64,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Vec<Simulation> {
    const L: usize = 4;
    let h = LORENZ_DT / SUBSTEPS as f64;
    let mut increment_std = [0.0; L];
    for (std, &alpha) in increment_std.iter_mut().zip(alphas) {
        *std = f64::from(alpha) * h.sqrt();
    }
    let mut initial = Stream::new(seed, run, "lorenz initial state");
    let mut wiener = Stream::new(seed, run, "lorenz wiener process");
    let mut measured = Stream::new(seed, run, "lorenz measurement");
    let mut x = [0; 3].map(|_| Lanes([10.0 + initial.normal(); L]));
    let mut normals = vec![0.0; 3 * SUBSTEPS];
    let mut out = vec![Simulation::default(); alphas.len()];
    for _ in 0..STEPS {
        if stopped() {
            break;
        }
        wiener.fill_normal(&mut normals);
        optfilter::simd::dispatch(
            #[inline(always)]
            || {
                for z in normals.as_chunks::<3>().0 {
                    let mut f = [Lanes([0.0; L]); 3];
                    Lorenz63::default().drift(&x, &[], 0.0, &mut f);
                    for c in 0..3 {
                        for l in 0..L {
                            x[c].0[l] += h * f[c].0[l] + increment_std[l] * z[c];
                        }
                    }
                }
            },
        );
        let noise = [0; 3].map(|_| LORENZ_R_VAR.sqrt() * measured.normal());
        for (a, simulation) in out.iter_mut().enumerate() {
            for c in 0..3 {
                simulation.states.push(x[c].0[a]);
                simulation.observations.push(x[c].0[a] + noise[c]);
            }
        }
    }
    out
}
