//! Data assimilation: what a window makes of the paper's filter, next to ensemble filters, on Lorenz '96.
//!
//! The settings of the contenders were chosen on other seeds than those reported. On arrays exported from DAPPER
//! (`bench/dapper/export.py`) the same measurements go through its filters and ours; without, on a simulation of
//! our own. The whole table ([`Options::full`]) has the stochastic Lorenz attractor and sizes up to any as well.

mod attractor;
mod contest;
mod outcome;
mod report;
mod scene;
mod settings;
mod size;

pub use attractor::Attractor;
pub use contest::Contender;
pub use outcome::{Outcome, Score};
pub use report::{add_to_report, is_in_report};
pub use scene::{ArraysError, Circle, Scene};
pub use size::{Shape, Size, measure};

use crate::error::RunError;
use optfilter::filter::FilterError;
use rayon::prelude::*;
use settings::{BURN_IN, ITERATIONS, LARGE, LENGTHS, LOCAL, PROBED, SWEPT, contenders};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// How much of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Arrays of DAPPER; our own simulation without.
    pub arrays: Option<PathBuf>,
    /// Measurements in time of each simulated scene.
    pub cycles: usize,
    /// Simulated scenes of each setting.
    pub seeds: u64,
    /// Whether there are simulated scenes of which only every other state is measured.
    pub half: bool,
    /// Reported runs of each of the twelve settings of Lorenz '63; 0 leaves them out.
    pub attractor: usize,
    /// States at which a cycle is timed, and the cycles of each (at least as many as fill the window); [`Size::error`] says from how many on errors count.
    pub sizes: (Vec<usize>, usize),
    /// Raised to end early.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// What a report has that is made in seconds.
    pub fn short(cycles: usize, stop: Arc<AtomicBool>) -> Self {
        let sizes = (vec![40, 400, 4_000, 40_000], 0);
        Self { arrays: None, cycles, seeds: 2, half: false, attractor: 0, sizes, stop }
    }

    /// The whole table.
    pub fn full(self, states: Vec<usize>) -> Self {
        Self { half: true, attractor: 100, sizes: (states, 150), ..self }
    }
}

/// Runs the contest, the sweep and the timings; `hear` is told what is being done.
pub fn run(options: &Options, hear: &(dyn Fn(&str) + Sync)) -> Result<Outcome, RunError> {
    let mut outcome = Outcome::default();
    let go_on = || !options.stop.load(Ordering::Relaxed);
    let last = Mutex::new(String::new());
    let tell = |doing: &str| {
        if let Ok(mut last) = last.lock()
            && *last != doing
        {
            doing.clone_into(&mut last);
            hear(doing);
        }
        go_on()
    };
    match fill(options, &tell, &mut outcome) {
        Err(error) if outcome.scores.is_empty() => return Err(error),
        done => outcome.failed = done.err().map(|error| error.to_string()),
    }
    outcome.stopped = !go_on();
    Ok(outcome)
}

/// One thing after the other, until `tell` says that it is enough.
fn fill(
    options: &Options,
    tell: &(dyn Fn(&str) -> bool + Sync),
    outcome: &mut Outcome,
) -> Result<(), RunError> {
    let failed =
        |what: &'static str| move |source: FilterError| RunError::Assimilation { what, source };
    let burn_in = |scene: &Scene| BURN_IN.min(scene.cycles() / 3);
    let scenes = scenes(options)?;
    let mut settings: Vec<&str> = scenes.iter().map(Scene::setting).collect();
    settings.dedup();
    for setting in settings {
        let of: Vec<&Scene> = scenes.iter().filter(|s| s.setting() == setting).collect();
        let stride = of[0].truth.len() / of[0].observations.len();
        for contender in contenders(stride) {
            if !tell(&format!("{setting}: {}", contender.name())) {
                return Ok(());
            }
            let score = |scene: &&Scene| contender.score(scene, burn_in(scene)).unwrap_or(f64::NAN);
            let errors = of.par_iter().map(score).collect();
            outcome.scores.push(Score { setting: setting.to_owned(), contender, errors });
        }
    }
    let short = Scene::simulated(40, 1, 1.0, SWEPT.min(options.cycles), 1 << 20);
    let grid: Vec<(usize, u32)> =
        LENGTHS.iter().flat_map(|&length| ITERATIONS.map(|k| (length, k))).collect();
    let swept = |&(length, iterations): &(usize, u32)| {
        let contender = Contender::Window { length, iterations };
        tell("windows of every length").then(|| {
            let error = contender.score(&short, burn_in(&short)).unwrap_or(f64::NAN);
            (length, iterations, error)
        })
    };
    outcome.swept = short.cycles() - burn_in(&short);
    outcome.sweep = grid.par_iter().filter_map(swept).collect();
    if !tell("a picture") {
        return Ok(());
    }
    let picture = Scene::simulated(40, 1, 1.0, 250, 1 << 21);
    let best = Contender::Window { length: 56, iterations: 5 };
    let estimates = best.estimates(&picture).map_err(failed("the picture"))?;
    outcome.local = LOCAL.cycle_seconds(&picture).ok();
    outcome.shown = Some((picture, estimates));
    if options.attractor > 0 {
        let all = &mut outcome.attractor;
        attractor::compare_all(options.attractor, tell, all).map_err(failed("Lorenz '63"))?;
    }
    let (sizes, cycles) = &options.sizes;
    for &states in sizes {
        let (length, iterations) = LARGE;
        let probes = if states > PROBED.0 { PROBED.1 } else { 0 };
        let shape = Shape { length, iterations, probes };
        match measure(states, *cycles, shape, tell).map_err(failed("sizes"))? {
            Some(size) => outcome.sizes.push(size),
            None => return Ok(()),
        }
    }
    Ok(())
}

/// DAPPER's, or our own.
fn scenes(options: &Options) -> Result<Vec<Scene>, RunError> {
    if let Some(folder) = &options.arrays {
        return Ok(Scene::read_all(folder)?);
    }
    let own = |stride: usize, variance: f64, setting: &str| -> Vec<Scene> {
        let one = |seed: u64| Scene {
            name: format!("{setting}-{seed}"),
            ..Scene::simulated(40, stride, variance, options.cycles, seed)
        };
        (0..options.seeds).map(one).collect()
    };
    let mut all = own(1, 1.0, "own");
    if options.half {
        all.extend(own(2, 1.5, "own half (variance 1.5)"));
    }
    Ok(all)
}
