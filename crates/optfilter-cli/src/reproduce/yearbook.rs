//! The Yearbook part of `optfilter reproduce`.

use super::bar::Bar;
use crate::failure::Failure;
use optfilter_paper::yearbook::{self, Device, Options, Size, add_to_report};
use optfilter_paper::{Protocol, RunError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flags of `reproduce` that concern Yearbook.
#[derive(Clone, Debug, clap::Args)]
pub struct YearbookArgs {
    /// Yearbook photographs: the original archive's folder (F/, M/) or an npz; without it, generated images
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Yearbook: number of seeds [default: 3, with --full 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// Yearbook: where to compute
    #[arg(long, value_enum, default_value_t = DeviceChoice::Cpu)]
    device: DeviceChoice,
    /// Yearbook: every K and every sigma^2 of the paper, not only the best ones
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DeviceChoice {
    /// All cores
    Cpu,
    /// An NVIDIA card (a build with `--features cuda`)
    Cuda,
}

/// Runs the experiment and adds it to the report; returns the table as text.
pub fn run(
    args: &YearbookArgs,
    protocols: Vec<Protocol>,
    quick: bool,
    out: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<String, Failure> {
    let size = match (quick, args.full) {
        (true, _) => Size::Quick,
        (_, true) => Size::Full,
        _ => Size::Short,
    };
    let usual = Options::new(size, out.to_path_buf());
    let options = Options {
        protocols,
        data: args.data.clone(),
        stop: Arc::clone(stop),
        seeds: args.seeds.unwrap_or(usual.seeds),
        device: match args.device {
            DeviceChoice::Cpu => Device::Cpu,
            DeviceChoice::Cuda => Device::Cuda,
        },
        ..usual
    };
    let bar = Bar::new("{bar:32} {percent:>3} %  {elapsed} so far  {msg}");
    let outcome = yearbook::run(&options, &|p| bar.chains(p));
    bar.finish();
    let outcome = outcome.map_err(|error| match stop.load(Ordering::Relaxed) {
        true => Failure::other(RunError::Stopped),
        false => Failure::other(error),
    })?;
    add_to_report(out, &outcome).map_err(Failure::other)?;
    for problem in &outcome.problems {
        eprintln!("yearbook: {problem}");
    }
    Ok(outcome.text())
}
