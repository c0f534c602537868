//! Data assimilation: what a window makes of the paper's filter, next to ensemble filters, on Lorenz '96.
//!
//! The settings of the contenders were chosen on other seeds than those reported. On arrays exported from DAPPER
//! (`bench/dapper/export.py`) the same measurements go through its filters and ours; without, on a simulation of
//! our own.

mod contest;
mod report;
mod scene;

pub use contest::Contender;
pub use report::add_to_report;
pub use scene::{ArraysError, Circle, Scene};

use crate::error::RunError;
use optfilter::model::{Dynamics, Step};
use rayon::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Arrays of DAPPER; our own simulation without.
    pub arrays: Option<PathBuf>,
    /// Measurements in time of each simulated scene.
    pub cycles: usize,
    /// Simulated scenes.
    pub seeds: u64,
    /// Raised to end early.
    pub stop: Arc<AtomicBool>,
}

/// The result of one contender on the scenes of one setting.
#[derive(Clone, Debug)]
pub struct Score {
    /// The setting.
    pub setting: String,
    /// The contender.
    pub contender: Contender,
    /// The error on each scene; NaN where it diverged.
    pub errors: Vec<f64>,
}

impl Score {
    /// The mean over the scenes.
    pub fn mean(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.errors.len() as f64
    }
}

/// What a cycle costs at some size.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// States.
    pub states: usize,
    /// Seconds of a bare model step.
    pub step: f64,
    /// Seconds of a cycle of a window.
    pub cycle: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Every contender in every setting.
    pub scores: Vec<Score>,
    /// Error against the length of the window, for some numbers of iterations.
    pub sweep: Vec<(usize, u32, f64)>,
    /// Cost against size.
    pub costs: Vec<Cost>,
    /// A scene with the estimates of a window on it, for a picture.
    pub shown: (Scene, Vec<f64>),
}

/// Rows of a window, and iterations, at which sizes are compared.
const LARGE: (usize, u32) = (24, 10);
/// Past rows and iterations of the sweep.
const LENGTHS: [usize; 7] = [0, 4, 8, 16, 24, 40, 56];
const ITERATIONS: [u32; 4] = [1, 2, 3, 5];
/// Cycles before errors count: DAPPER's twenty units of time.
const BURN_IN: usize = 400;

/// The contenders of a setting, chosen on other seeds than those reported.
fn contenders(stride: usize) -> Vec<Contender> {
    let window = |length, iterations| Contender::Window { length, iterations };
    let mut all = vec![
        Contender::Descent { rate: 0.2, steps: 1 },
        window(24, 2),
        window(40, 3),
        window(48, 4),
        window(56, 5),
        Contender::Letkf { members: 7, inflation: 1.04, radius: 4.0 },
        Contender::Etkf { members: 24, inflation: 1.02 },
    ];
    if stride > 1 {
        all.retain(|c| !matches!(c, Contender::Descent { .. }));
    }
    all
}

/// Runs the contest, the sweep and the timings; `hear` is told what is being done.
pub fn run(options: &Options, hear: &(dyn Fn(&str) + Sync)) -> Result<Outcome, RunError> {
    let scenes = match &options.arrays {
        Some(folder) => Scene::read_all(folder)?,
        None => (0..options.seeds)
            .map(|seed| {
                let scene = Scene::simulated(40, 1, options.cycles, seed);
                Scene { name: format!("own-{seed}"), ..scene }
            })
            .collect(),
    };
    let stopped = || match options.stop.load(Ordering::Relaxed) {
        true => Err(RunError::Stopped),
        false => Ok(()),
    };
    let burn_in = |scene: &Scene| BURN_IN.min(scene.cycles() / 3);
    let mut settings: Vec<&str> = scenes.iter().map(Scene::setting).collect();
    settings.dedup();
    let mut scores = Vec::new();
    for setting in settings {
        let of: Vec<&Scene> = scenes.iter().filter(|s| s.setting() == setting).collect();
        let stride = of[0].truth.len() / of[0].observations.len();
        for contender in contenders(stride) {
            stopped()?;
            hear(&format!("{setting}: {}", contender.name()));
            let score = |scene: &&Scene| contender.score(scene, burn_in(scene)).unwrap_or(f64::NAN);
            let errors = of.par_iter().map(score).collect();
            scores.push(Score { setting: setting.to_owned(), contender, errors });
        }
    }
    hear("windows of every length");
    let short = Scene::simulated(40, 1, 300, 1 << 20);
    let grid: Vec<(usize, u32)> =
        LENGTHS.iter().flat_map(|&length| ITERATIONS.map(|k| (length, k))).collect();
    let sweep = grid
        .par_iter()
        .map(|&(length, iterations)| {
            let contender = Contender::Window { length, iterations };
            let error = match stopped() {
                Ok(()) => contender.score(&short, burn_in(&short)).unwrap_or(f64::NAN),
                Err(_) => f64::NAN,
            };
            (length, iterations, error)
        })
        .collect();
    let mut costs = Vec::new();
    for states in [40, 400, 4_000, 40_000] {
        stopped()?;
        hear(&format!("cost of a cycle at D = {states}"));
        costs.push(cost(states));
    }
    stopped()?;
    let picture = Scene::simulated(40, 1, 250, 1 << 21);
    let best = Contender::Window { length: 56, iterations: 5 };
    let estimates = best
        .estimates(&picture)
        .map_err(|e| RunError::Figure { name: "assimilation".into(), reason: e.to_string() })?;
    Ok(Outcome { scores, sweep, costs, shown: (picture, estimates) })
}

/// Times a model step and a cycle of a full window, both on this thread: the fastest of a few.
fn cost(states: usize) -> Cost {
    let (length, iterations) = LARGE;
    let scene = Scene::simulated(states, 1, length + 4, 1 << 22);
    let (x, mut next) = (scene.start.clone(), scene.start.clone());
    let step = Step::even(1, scene::DT);
    let repeats = (400_000 / states).max(3);
    let fastest = |runs: usize, f: &mut dyn FnMut()| {
        let time = |f: &mut dyn FnMut()| {
            let begun = Instant::now();
            f();
            begun.elapsed().as_secs_f64()
        };
        (0..runs).map(|_| time(f)).fold(f64::INFINITY, f64::min)
    };
    let bare = fastest(5, &mut || {
        for _ in 0..repeats {
            scene.model.transition(&x, &[], &step, &mut next);
            std::hint::black_box(&mut next);
        }
    });
    let cycle = contest::cycle_seconds(&scene, length, iterations).unwrap_or(f64::NAN);
    Cost { states, step: bare / repeats as f64, cycle }
}
