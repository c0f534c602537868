//! Runs the experiments and writes what came out.

use crate::control::{Control, Event};
use crate::error::RunError;
use crate::figure;
use crate::files::{cells_csv, grid_csv, save, save_figure, tuning_csv};
use crate::options::Options;
use crate::outcome::{Outcome, compare};
use crate::pieces::{Keeper, Runs, effect_runs, work};
use crate::protocol::Protocol;
use crate::published::effects;
use crate::report;
use crate::store::Store;
use rayon::prelude::*;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Run everything that `options` asks for. `tell` hears events; the run ends soon after `stop` becomes true.
pub fn run(
    options: &Options,
    stop: &AtomicBool,
    tell: &(dyn Fn(Event) + Sync),
) -> Result<Outcome, RunError> {
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = options.threads {
        pool = pool.num_threads(threads);
    }
    let pool = pool.build()?;
    let control = Control::new(stop, tell);
    pool.install(|| run_all(options, &control))
}

fn run_all(options: &Options, control: &Control<'_>) -> Result<Outcome, RunError> {
    let begin = Instant::now();
    control.tell(Event::Plan { work: planned_work(options) });
    let mut grid = Vec::new();
    let mut effects = Vec::new();
    for &protocol in &options.protocols {
        let store = Store::new(
            &options.out.join("state"),
            &format!("{} runs {} seed {}", protocol.name(), options.runs, options.seed),
        );
        let runs = Runs { count: options.runs, seed: options.seed, particles: true };
        let keeper =
            Keeper { store: Some(store), protocol, systems: &options.systems, runs, control };
        grid.extend(keeper.rows()?);
        if protocol == Protocol::Published {
            effects = keeper.effects(&options.families())?;
        }
    }
    let cells = compare(&grid)?;
    let mut outcome = Outcome {
        grid,
        cells,
        effects,
        effect_runs: effect_runs(options.runs),
        phases: Vec::new(),
        time: begin.elapsed(),
        taken_over: control.taken_over(),
    };
    let out = &options.out;
    save(&out.join("grid.csv"), grid_csv(&outcome.grid).as_bytes())?;
    save(&out.join("cells.csv"), cells_csv(&outcome.cells).as_bytes())?;
    if options.protocols.contains(&Protocol::Specified) {
        save(&out.join("tuning.csv"), tuning_csv(&outcome.grid).as_bytes())?;
    }
    let figures = control.phase("figures", 7, 1.0, || figure::all(options.seed, &outcome.grid))?;
    control.phase("pictures", figures.len(), 1.0, || {
        figures
            .par_iter()
            .map(|figure| save_figure(out, figure))
            .collect::<Result<Vec<()>, RunError>>()
    })??;
    outcome.phases = control.phases();
    outcome.time = begin.elapsed();
    let page = report::page(options, &outcome, &figures);
    save(&out.join("index.html"), page.as_bytes())?;
    Ok(outcome)
}

fn planned_work(options: &Options) -> f64 {
    let of = |protocol: &Protocol| {
        let systems: f64 = options.systems.iter().map(|system| work(*protocol, system)).sum();
        systems + if *protocol == Protocol::Published { effects::WORK } else { 0.0 }
    };
    options.protocols.iter().map(of).sum::<f64>() + 2.0 // figures
}
