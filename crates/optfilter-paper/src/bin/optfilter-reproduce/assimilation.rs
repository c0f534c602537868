//! The part of `optfilter-reproduce` that goes beyond the paper.

use crate::bar::Bar;
use crate::failure::Failure;
use optfilter_paper::assimilation::{self, Options, Outcome, add_to_report, is_in_report};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The flags of `reproduce` that concern data assimilation.
#[derive(Clone, Debug, clap::Args)]
pub struct AssimilationArgs {
    /// Assimilation: folders of arrays made by bench/dapper/export.py; without them, our own simulation
    #[arg(long, value_name = "DIR")]
    arrays: Option<PathBuf>,
    /// Assimilation: cycles of each simulated scene [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(60..=1_000_000))]
    cycles: Option<u32>,
    /// Assimilation, with --full: sizes of Lorenz '96 at which errors and costs are measured, 150 cycles each
    #[arg(long, value_name = "D,...", value_delimiter = ',', requires = "full", default_value = "1000,10000,100000", value_parser = clap::value_parser!(u32).range(4..=100_000_000))]
    states: Vec<u32>,
}

/// Runs the contest and adds it to the report.
pub fn run(
    args: &AssimilationArgs,
    (quick, full): (bool, bool),
    out: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome, Failure> {
    let cycles = args.cycles.unwrap_or(if quick { 200 } else { 1000 }) as usize;
    let mut options = Options::short(cycles, Arc::clone(stop));
    options.arrays.clone_from(&args.arrays);
    if full {
        options = options.full(args.states.iter().map(|n| *n as usize).collect());
    }
    let bar = Bar::new("{spinner} {elapsed} so far  {msg}");
    let outcome = assimilation::run(&options, &|doing| bar.doing(doing));
    bar.finish();
    let outcome = outcome.map_err(Failure::other)?;
    let whole = !outcome.stopped && outcome.failed.is_none();
    // What an earlier run has finished is not replaced by less.
    let kept = !whole && is_in_report(out);
    if !kept {
        add_to_report(out, args.arrays.as_deref(), &outcome).map_err(Failure::other)?;
    }
    let place = out.join("index.html");
    let rest = match kept {
        true => format!("{} is as it was", place.display()),
        false => format!("what was done is in {}; the same command begins anew", place.display()),
    };
    match outcome.failed {
        Some(error) => Err(Failure::other(format!("{error}; {rest}"))),
        None if outcome.stopped => Err(Failure::interrupted(format!("stopped; {rest}"))),
        None => Ok(outcome),
    }
}

/// The table for scripts.
pub fn json(outcome: &Outcome) -> serde_json::Value {
    let rows = outcome.scores.iter().map(|score| {
        serde_json::json!({
            "setting": score.setting, "method": score.contender.name(), "rmse": score.mean(),
        })
    });
    let attractor = outcome.attractor.iter().flat_map(|of| {
        let row = |method: &str, rmse: f64| {
            let setting = format!("Lorenz '63, {}", of.name);
            serde_json::json!({ "setting": setting, "method": method, "rmse": rmse })
        };
        [
            row("EKF, best Q", of.kalman.0.rmse),
            row(&format!("window, {}", of.strong.1), of.strong.0.rmse),
            row(&format!("weak window, {}", of.weak.1), of.weak.0.rmse),
        ]
    });
    let sizes = outcome.sizes.iter().flatten().map(|s| {
        let over = s.steps() / s.count;
        serde_json::json!({
            "setting": format!("D = {}", s.states), "method": s.filter, "rmse": s.error(), "over_the_count": over,
        })
    });
    rows.chain(attractor).chain(sizes).collect()
}
