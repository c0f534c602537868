//! The Yearbook part of `optfilter reproduce`: runs the experiment of `optfilter-nn` and adds it to the report.

use indicatif::{ProgressBar, ProgressStyle};
use optfilter_nn::yearbook::{self, Device, Method, Options, Outcome, Protocol};
use optfilter_paper::RunError;
use optfilter_paper::yearbook::{Curves, Results, TableRow, add_to_report};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// Runs the experiment; returns the table as text.
pub fn run(
    args: &YearbookArgs,
    protocols: Vec<Protocol>,
    quick: bool,
    out: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<String, crate::failure::Failure> {
    let folder = out.to_path_buf();
    let mut options = if args.full { Options::full(folder) } else { Options::short(folder) };
    options.protocols = protocols;
    options.data.clone_from(&args.data);
    options.stop = Arc::clone(stop);
    options.device = match args.device {
        DeviceChoice::Cpu => Device::Cpu,
        DeviceChoice::Cuda => Device::Cuda,
    };
    if quick {
        // Seconds: one seed, few years, few particles.
        options.seeds = 1;
        options.years = (1931, 1934);
        options.particles = 50;
        options.methods = vec![Method::Static, Method::ImplicitMap(10), Method::Particle(0.01)];
    }
    if let Some(seeds) = args.seeds {
        options.seeds = seeds;
    }
    let progress = Progress::new();
    let outcome = yearbook::run(&options, &|p| progress.hear(p));
    progress.finish();
    let outcome = match outcome {
        Err(_) if stop.load(Ordering::Relaxed) => {
            return Err(crate::failure::Failure::other(RunError::Stopped));
        }
        other => other.map_err(crate::failure::Failure::other)?,
    };
    add_to_report(out, &results(&outcome, options.seeds))
        .map_err(crate::failure::Failure::other)?;
    for problem in &outcome.problems {
        eprintln!("yearbook: {problem}");
    }
    Ok(outcome.text())
}

/// The outcome as the report wants it.
fn results(outcome: &Outcome, seeds: u64) -> Results {
    let table = outcome.table.iter().map(|row| TableRow {
        protocol: row.protocol.into(),
        method: row.method.name().into(),
        steps: row.method.steps(),
        sigma2: row.method.sigma2(),
        validation: row.validation_block,
        test: row.test_block,
        selected: row.selected,
    });
    let figures = outcome.figures.iter().map(|figure| Curves {
        number: figure.number,
        protocol: figure.protocol.into(),
        title: figure.title.clone(),
        lines: figure
            .lines
            .iter()
            .map(|line| {
                let points =
                    line.points.iter().map(|&(year, accuracy, _)| (f64::from(year), accuracy));
                (line.label.clone(), points.collect())
            })
            .collect(),
    });
    Results {
        data_name: outcome.data_name.clone(),
        generated: outcome.generated,
        images: outcome.images,
        seeds,
        table: table.collect(),
        figures: figures.collect(),
    }
}

/// A bar with the time left on a terminal, a plain line every ten seconds elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    last: Mutex<Instant>,
}

impl Progress {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1000);
            if let Ok(style) =
                ProgressStyle::with_template("{bar:32} {percent:>3} %  {elapsed} so far  {msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { bar, last: Mutex::new(Instant::now()) }
    }

    fn hear(&self, p: &yearbook::Progress) {
        let left = p.left.map_or_else(String::new, |t| format!(", about {} s left", t.as_secs()));
        let text = format!("yearbook: {} of {} chains{left}; {}", p.finished, p.units, p.doing);
        match &self.bar {
            Some(bar) => {
                bar.set_position((p.done * 1000.0) as u64);
                bar.set_message(text);
            }
            None => {
                let mut last = self.last.lock().unwrap_or_else(|e| e.into_inner());
                if last.elapsed() > Duration::from_secs(10) {
                    *last = Instant::now();
                    eprintln!("{text}");
                }
            }
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
