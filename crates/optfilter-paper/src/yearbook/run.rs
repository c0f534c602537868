//! The whole experiment: which chains, in which order, and what is left to do.

use super::backend::{Backend, Board, ChainProgress, Job, Unit};
use super::beyond;
use super::cpu::Cpu;
use super::data::Dataset;
use super::error::YearbookError;
use super::method::YearbookMethod;
use super::options::{Device, Options};
use super::seed::Seed;
use super::store::{Row, Store, key};
use super::summary::{Curves, Interval, TableRow, curves, table};
use crate::cells::printed;
use optfilter_nn::Network;
use rayon::prelude::*;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The data's name.
    pub data_name: String,
    /// Whether the data were made up.
    pub generated: bool,
    /// Number of images.
    pub images: usize,
    /// Number of seeds.
    pub seeds: u64,
    /// Every row of `yearbook.csv` that belongs to the methods asked for.
    pub rows: Vec<Row>,
    /// The table.
    pub table: Vec<TableRow>,
    /// What Figures 6, 7 and 8 show.
    pub curves: Vec<Curves>,
    /// Chains taken from an earlier run.
    pub reused: usize,
    /// What was left out or noticed.
    pub problems: Vec<String>,
    /// Where the rows are.
    pub csv: PathBuf,
}

impl Outcome {
    /// The table as text: data and number of images first, one line per configuration, the chosen ones marked.
    pub fn text(&self) -> String {
        let mut out = format!("Yearbook: {}, {} images\n", self.data_name, self.images);
        let of_paper = |t: &&TableRow| !matches!(t.method, YearbookMethod::Beyond(_));
        for t in self.table.iter().filter(of_paper) {
            let steps = t.method.steps().map(|k| format!("K={k}")).unwrap_or_default();
            let sigma2 = t.method.sigma2().map(|s| format!("sigma^2={s}")).unwrap_or_default();
            // A block of no years has no mean, one of a single year no half-width.
            let cell = |(mean, half): Interval| match (mean.is_nan(), half.is_nan()) {
                (true, _) => "-".to_owned(),
                (_, true) => format!("{mean:.3}"),
                _ => format!("{mean:.3} ± {half:.3}"),
            };
            let paper = t.paper.filter(|_| !self.generated);
            let paper = paper.map(|p| format!("  paper: {} | {}", cell(p[0]), cell(p[1])));
            let chosen = if t.selected { "chosen" } else { "" };
            let line = format!(
                "{:9} {:10} {steps:6} {sigma2:14} {:16} | {:16}  {chosen:6}{}",
                t.protocol.name(),
                t.method.name(),
                cell(t.validation_block),
                cell(t.test_block),
                paper.unwrap_or_default(),
            );
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out + &beyond::text(&self.table, &self.rows, self.seeds)
    }
}

/// Runs what is asked for and not yet done.
pub fn run(
    options: &Options,
    report: &(dyn Fn(&ChainProgress) + Sync),
) -> Result<Outcome, YearbookError> {
    let backend = backend(options.device)?;
    let data = match &options.data {
        Some(path) => Dataset::load(path)?,
        None if options.hurried => Dataset::turning(options.years.1),
        None => Dataset::generated(),
    };
    let network = Network::paper_cnn();
    let mut problems = data.problems.clone();
    let (first, last) = options.years;
    let present: Vec<i32> = (first..=last).filter(|y| data.year.contains(y)).collect();
    let missing: Vec<String> =
        (first..=last).filter(|y| !present.contains(y)).map(|y| y.to_string()).collect();
    if present.is_empty() {
        return Err(YearbookError::NoYears { name: data.name, first, last });
    }
    if !missing.is_empty() {
        problems.push(format!("no images of {}; these years are passed over", missing.join(", ")));
    }
    // A year with one image has it as its test image and nothing to learn from; every present year has a row.
    let about = format!(
        "data={}\nimages={}\nfingerprint={:016x}\nyears={first}..{last}\nparticles={}\ndevice={:?}\n",
        data.name,
        data.len(),
        data.fingerprint(),
        options.particles,
        options.device
    );
    let store = Store::open(&options.out, &about, &present)?;
    if store.started_over {
        problems.push("the results found were for other data or sizes; started over".into());
    }

    let units = units(options);
    let (finished, pending): (Vec<Unit>, Vec<Unit>) =
        units.iter().cloned().partition(|u| u.is_in(&store));
    let work = |u: &Unit| u.method.work(options.particles) * present.len() as f64;
    let board = Board {
        counts: Mutex::new((0.0, pending.iter().map(work).sum(), finished.len())),
        store: Mutex::new(store),
        units: units.len(),
        begun: Instant::now(),
        stop: &options.stop,
        report,
    };
    // Only seeds with something left to do are pre-trained.
    let mut wanted: Vec<u64> = pending.iter().map(|u| u.seed).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let seeds: Vec<Seed> = wanted
        .par_iter()
        .map(|s| Seed::new(&data, &network, &present, *s))
        .collect::<Result<_, _>>()?;

    let (seeds, pending, particles) = (&seeds[..], &pending[..], options.particles);
    backend.run(&Job { data: &data, network: &network, seeds, pending, particles }, &board)?;
    let store = board.store.into_inner().unwrap_or_else(|e| e.into_inner());
    store.write()?;
    if options.stop.load(Ordering::Relaxed) {
        let finished = units.iter().filter(|u| u.is_in(&store)).count();
        return Err(YearbookError::Stopped { finished, units: units.len() });
    }

    let mut rows = Vec::new();
    for &protocol in &options.protocols {
        for unit in units.iter().filter(|u| u.protocols.contains(&protocol)) {
            let Unit { method, seed, .. } = *unit;
            let results = store.get(&key(protocol, method, seed)).into_iter().flatten();
            rows.extend(results.map(|&result| Row { protocol, method, seed, result }));
        }
    }
    let table = table(&rows, &printed()?);
    Ok(Outcome {
        curves: curves(&rows, &table),
        table,
        rows,
        data_name: data.name.clone(),
        generated: data.generated,
        images: data.len(),
        seeds: options.seeds,
        reused: finished.len(),
        problems,
        csv: options.out.join("yearbook.csv"),
    })
}

/// The arithmetic of a device.
fn backend(device: Device) -> Result<Box<dyn Backend>, YearbookError> {
    match device {
        Device::Cpu => Ok(Box::new(Cpu)),
        #[cfg(feature = "cuda")]
        Device::Cuda => Ok(Box::new(super::cuda::Cuda)),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda => {
            Err(YearbookError::Cuda("this program was built without the feature `cuda`".into()))
        }
    }
}

/// Chains in the order of the table; what both protocols share is one chain.
fn units(options: &Options) -> Vec<Unit> {
    let mut units = Vec::new();
    for &method in &options.methods {
        for seed in 0..options.seeds {
            let unit = |protocols| Unit { method, protocols, seed };
            if method.shared() {
                units.push(unit(options.protocols.clone()));
            } else {
                units.extend(options.protocols.iter().map(|p| unit(vec![*p])));
            }
        }
    }
    units
}
