//! The Yearbook part of `optfilter-reproduce`.

use crate::bar::Bar;
use crate::failure::{Failure, remark};
use optfilter_paper::yearbook::{self, Device, Options, Outcome, Size, TableRow, add_to_report};
use optfilter_paper::{Protocol, RunError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flags of `reproduce` that concern Yearbook.
#[derive(Clone, Debug, clap::Args)]
pub struct YearbookArgs {
    /// Yearbook photographs: the original archive's folder (F/, M/) or an npz; without it, a demonstration on generated images
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Yearbook: number of seeds [default: 3, with --full 10, of the demonstration 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// Yearbook: where to compute
    #[arg(long, value_enum, default_value_t = DeviceChoice::Cpu)]
    device: DeviceChoice,
    /// Yearbook: every K and every sigma^2 of the paper, not only the best ones; hours, which it says beforehand. Assimilation: Lorenz '63, half of
    /// the states measured, and sizes (--states); minutes
    #[arg(long)]
    pub full: bool,
    /// Yearbook, beyond the paper: windows of past years, discounts and carried memory for the implicit and the variational filter
    /// and the direct fit, 10 seeds; minutes on a card, days without
    #[arg(long, conflicts_with_all = ["full", "quick"])]
    beyond: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DeviceChoice {
    /// All cores
    Cpu,
    /// An NVIDIA card (a build with `--features cuda`)
    Cuda,
}

/// Runs the experiment and adds it to the report.
pub fn run(
    args: &YearbookArgs,
    protocols: Vec<Protocol>,
    quick: bool,
    out: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome, Failure> {
    let size = match (quick, args.full, &args.data) {
        (true, ..) => Size::Quick,
        (_, true, _) => Size::Full,
        _ if args.beyond => Size::Beyond,
        (_, _, Some(_)) => Size::Short,
        _ => Size::Demonstration,
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
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    remark(&announcement(&options, size, cores));
    let bar = Bar::new("{bar:32} {percent:>3} %  {elapsed} so far  {msg}");
    let outcome = yearbook::run(&options, &|p| bar.chains(p));
    bar.finish();
    let outcome = outcome.map_err(|error| match stop.load(Ordering::Relaxed) {
        true => Failure::interrupted(RunError::Stopped),
        false => Failure::other(error),
    })?;
    add_to_report(out, &outcome).map_err(Failure::other)?;
    for problem in &outcome.problems {
        remark(&format!("yearbook: {problem}"));
    }
    Ok(outcome)
}

/// What will be run, and how long that takes.
fn announcement(options: &Options, size: Size, cores: usize) -> String {
    let seconds = options.estimate(cores).as_secs_f64();
    let time = match seconds {
        s if s < 100.0 => format!("{:.0} seconds", (s / 5.0).ceil() * 5.0),
        s if s < 6000.0 => format!("{:.0} minutes", s / 60.0),
        s => format!("{:.1} hours", s / 3600.0),
    };
    let long = match options.device {
        Device::Cpu => format!("about {time} on {cores} cores"),
        Device::Cuda => "some minutes on the card".into(),
    };
    match size {
        Size::Quick => format!("yearbook: a trial on generated images, {long}"),
        Size::Demonstration => format!(
            "yearbook: no photographs are given, so this is a demonstration on generated stripes, {long}; the experiment \
             itself: optfilter-reproduce yearbook --data PATH, with every setting of the paper: --full"
        ),
        _ => {
            let stripes = match options.data {
                None => " on generated stripes, since no photographs are given (--data PATH)",
                Some(_) => "",
            };
            format!(
                "yearbook: {} configurations, {} seeds{stripes}: {long}; finished chains are kept, so that the same command \
                 goes on after Ctrl-C",
                options.methods.len(),
                options.seeds
            )
        }
    }
}

/// The table for programs.
pub fn json(outcome: &Outcome) -> serde_json::Value {
    let row = |t: &TableRow| {
        serde_json::json!({
            "protocol": t.protocol.name(), "method": t.method.name(), "steps": t.method.steps(),
            "sigma2": t.method.sigma2(), "configuration": t.method.configuration(), "validation": t.validation_block, "test": t.test_block,
            "chosen": t.selected,
        })
    };
    serde_json::json!({
        "data": outcome.data_name, "generated": outcome.generated, "images": outcome.images,
        "seeds": outcome.seeds, "csv": outcome.csv, "rows": outcome.table.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_says_how_long_before_it_begins() {
        let of = |size| announcement(&Options::new(size, PathBuf::new()), size, 2);
        let demonstration = of(Size::Demonstration);
        assert!(demonstration.contains("demonstration") && demonstration.contains("seconds"));
        assert!(demonstration.contains("--data PATH") && demonstration.contains("--full"));
        assert!(of(Size::Full).contains("hours on 2 cores"), "{}", of(Size::Full));
        let cores = |size, n| Options::new(size, PathBuf::new()).estimate(n).as_secs_f64();
        assert!(cores(Size::Demonstration, 2) < 30.0);
        assert!((cores(Size::Full, 1) / cores(Size::Full, 4) - 4.0).abs() < 1e-9);
    }
}
