//! The part of `optfilter reproduce` that goes beyond the paper.

use super::bar::Bar;
use crate::failure::Failure;
use optfilter_paper::RunError;
use optfilter_paper::assimilation::{self, Options, Outcome, add_to_report};
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
}

/// Runs the contest and adds it to the report.
pub fn run(
    args: &AssimilationArgs,
    quick: bool,
    out: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome, Failure> {
    let options = Options {
        arrays: args.arrays.clone(),
        cycles: args.cycles.unwrap_or(if quick { 200 } else { 1000 }) as usize,
        seeds: 2,
        stop: Arc::clone(stop),
    };
    let bar = Bar::new("{spinner} {elapsed} so far  {msg}");
    let outcome = assimilation::run(&options, &|doing| bar.doing(doing));
    bar.finish();
    let failed = |error| match error {
        RunError::Stopped => Failure::interrupted(error),
        other => Failure::other(other),
    };
    let outcome = outcome.map_err(failed)?;
    add_to_report(out, args.arrays.as_deref(), &outcome).map_err(failed)?;
    Ok(outcome)
}

/// The table for scripts.
pub fn json(outcome: &Outcome) -> serde_json::Value {
    let rows = outcome.scores.iter().map(|score| {
        serde_json::json!({
            "setting": score.setting, "method": score.contender.name(), "rmse": score.mean(),
        })
    });
    rows.collect()
}
