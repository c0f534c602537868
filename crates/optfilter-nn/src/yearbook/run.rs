//! The whole experiment: which chains, in which order, on which threads, and what is left to do.

use super::chain::{Method, Seed, YearResult, follow};
use super::store::{Row, Store, key};
use super::summary::{Figure, TableRow, figures, table};
use super::{Dataset, Protocol, YearbookError};
use crate::network::Network;
use rayon::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where the arithmetic is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// All cores.
    #[default]
    Cpu,
    /// The graphics card (feature `cuda`).
    Cuda,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Archive folder or npz file; without it the generated stand-in.
    pub data: Option<PathBuf>,
    /// Seeds 0 to `seeds - 1`.
    pub seeds: u64,
    /// Methods with their configurations.
    pub methods: Vec<Method>,
    /// Protocols to follow.
    pub protocols: Vec<Protocol>,
    /// Where to compute.
    pub device: Device,
    /// Folder for `yearbook.csv`.
    pub out: PathBuf,
    /// Particles of the particle filter.
    pub particles: usize,
    /// First and last year.
    pub years: (i32, i32),
    /// Set to true to stop soon; finished chains are saved.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// The short run: K = 50 and 100, direct fit, static weights, variational and particle filter at sigma^2 = 0.01,
    /// 3 seeds, published protocol.
    pub fn short(out: PathBuf) -> Self {
        Self {
            data: None,
            seeds: 3,
            methods: vec![
                Method::Static,
                Method::ImplicitMap(50),
                Method::ImplicitMap(100),
                Method::DirectFit,
                Method::Variational(0.01),
                Method::Particle(0.01),
            ],
            protocols: vec![Protocol::Published],
            device: Device::Cpu,
            out,
            particles: 1000,
            years: (1931, 2010),
            stop: Arc::default(),
        }
    }

    /// Everything: all K, all sigma^2, 10 seeds, both protocols.
    pub fn full(out: PathBuf) -> Self {
        let sigma2 = [0.1, 0.05, 0.01, 0.005, 0.001];
        let mut methods = vec![Method::Static];
        methods.extend([1, 10, 25, 50, 100].map(Method::ImplicitMap));
        methods.push(Method::DirectFit);
        methods.extend(sigma2.map(Method::Variational));
        methods.extend(sigma2.map(Method::Particle));
        let protocols = vec![Protocol::Published, Protocol::Specified];
        Self { seeds: 10, methods, protocols, ..Self::short(out) }
    }
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Share of the work done, 0 to 1.
    pub done: f64,
    /// Chains finished, those of an earlier run included.
    pub finished: usize,
    /// Chains in all.
    pub units: usize,
    /// Time left, once there is something to judge by.
    pub left: Option<Duration>,
    /// What was worked on last.
    pub doing: String,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The data's name.
    pub data_name: String,
    /// Whether the data were made up.
    pub generated: bool,
    /// Number of images.
    pub images: usize,
    /// Every row of `yearbook.csv` that belongs to the methods asked for.
    pub rows: Vec<Row>,
    /// The table.
    pub table: Vec<TableRow>,
    /// Figures 6, 7 and 8.
    pub figures: Vec<Figure>,
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
        for t in &self.table {
            let steps = t.method.steps().map(|k| format!("K={k}")).unwrap_or_default();
            let sigma2 = t.method.sigma2().map(|s| format!("sigma^2={s}")).unwrap_or_default();
            // A block of no years has no mean, one of a single year no half-width.
            let cell = |(mean, half): (f64, f64)| match (mean.is_nan(), half.is_nan()) {
                (true, _) => "-".to_owned(),
                (_, true) => format!("{mean:.3}"),
                _ => format!("{mean:.3} ± {half:.3}"),
            };
            let paper = t.paper.filter(|_| !self.generated);
            let paper = paper.map(|p| format!("  paper: {} | {}", cell(p[0]), cell(p[1])));
            let chosen = if t.selected { "chosen" } else { "" };
            let line = format!(
                "{:9} {:10} {steps:6} {sigma2:14} {:16} | {:16}  {chosen:6}{}",
                t.protocol,
                t.method.name(),
                cell(t.validation_block),
                cell(t.test_block),
                paper.unwrap_or_default(),
            );
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// A chain to run, and the protocols its result counts for.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub method: Method,
    pub protocols: Vec<Protocol>,
    pub seed: usize,
}

impl Unit {
    fn label(&self) -> String {
        let sigma2 = self.method.sigma2().map(|s| format!(" sigma^2={s}")).unwrap_or_default();
        let steps = self.method.steps().map(|k| format!(" K={k}")).unwrap_or_default();
        format!("{}{steps}{sigma2}, seed {}", self.method.name(), self.seed)
    }
}

/// Shared by the workers: results, and how much is done.
pub(crate) struct Board<'a> {
    store: Mutex<Store>,
    /// Work done in this run, work of this run, chains finished.
    counts: Mutex<(f64, f64, usize)>,
    units: usize,
    begun: Instant,
    stop: &'a AtomicBool,
    report: &'a (dyn Fn(&Progress) + Sync),
}

impl Board<'_> {
    /// Notes work; false means stop.
    pub fn worked(&self, work: f64, unit: &Unit) -> bool {
        let progress = {
            let mut counts = self.counts.lock().unwrap_or_else(|e| e.into_inner());
            counts.0 += work;
            let done = (counts.0 / counts.1.max(1e-9)).min(1.0);
            let spent = self.begun.elapsed().as_secs_f64();
            let left = (done > 0.005).then(|| Duration::from_secs_f64(spent * (1.0 - done) / done));
            Progress { done, finished: counts.2, units: self.units, left, doing: unit.label() }
        };
        (self.report)(&progress);
        !self.stop.load(Ordering::Relaxed)
    }

    /// Saves a finished chain.
    pub fn finished(&self, unit: &Unit, results: &[YearResult]) -> Result<(), YearbookError> {
        let mut store = self.store.lock().unwrap_or_else(|e| e.into_inner());
        for protocol in &unit.protocols {
            store.add(key(*protocol, unit.method, unit.seed as u64), results.to_vec())?;
        }
        self.counts.lock().unwrap_or_else(|e| e.into_inner()).2 += 1;
        Ok(())
    }
}

/// Runs what is asked for and not yet done.
pub fn run(
    options: &Options,
    report: &(dyn Fn(&Progress) + Sync),
) -> Result<Outcome, YearbookError> {
    let data = match &options.data {
        Some(path) => Dataset::load(path)?,
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
    let done = |u: &Unit| {
        u.protocols.iter().all(|p| store.get(&key(*p, u.method, u.seed as u64)).is_some())
    };
    let (finished, pending): (Vec<Unit>, Vec<Unit>) = units.iter().cloned().partition(done);
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
    let mut wanted: Vec<usize> = pending.iter().map(|u| u.seed).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let seeds: Result<Vec<Seed>, _> =
        wanted.par_iter().map(|s| Seed::new(&data, &network, &present, *s as u64)).collect();
    let seeds = seeds?;

    match options.device {
        Device::Cpu => on_cpu(&data, &network, &seeds, &pending, options, &board)?,
        Device::Cuda => on_cuda(&data, &network, &seeds, &pending, options, &board)?,
    }
    let store = board.store.into_inner().unwrap_or_else(|e| e.into_inner());
    store.write()?;
    if options.stop.load(Ordering::Relaxed) {
        let finished = units.iter().filter(|u| {
            u.protocols.iter().all(|p| store.get(&key(*p, u.method, u.seed as u64)).is_some())
        });
        return Err(YearbookError::Stopped { finished: finished.count(), units: units.len() });
    }

    let mut rows = Vec::new();
    for protocol in &options.protocols {
        for unit in units.iter().filter(|u| u.protocols.contains(protocol)) {
            let (protocol_name, seed) = (protocol.name(), unit.seed as u64);
            for result in store.get(&key(*protocol, unit.method, seed)).into_iter().flatten() {
                rows.push(Row {
                    protocol: protocol_name,
                    method: unit.method,
                    seed,
                    result: *result,
                });
            }
        }
    }
    Ok(Outcome {
        table: table(&rows),
        figures: figures(&rows),
        rows,
        data_name: data.name.clone(),
        generated: data.generated,
        images: data.len(),
        reused: finished.len(),
        problems,
        csv: options.out.join("yearbook.csv"),
    })
}

/// Chains in the order of the table; what both protocols share is one chain.
fn units(options: &Options) -> Vec<Unit> {
    let mut units = Vec::new();
    for method in &options.methods {
        for seed in 0..options.seeds as usize {
            if method.shared() {
                units.push(Unit { method: *method, protocols: options.protocols.clone(), seed });
            } else {
                units.extend(options.protocols.iter().map(|p| Unit {
                    method: *method,
                    protocols: vec![*p],
                    seed,
                }));
            }
        }
    }
    units
}

fn on_cpu(
    data: &Dataset,
    network: &Network,
    seeds: &[Seed],
    pending: &[Unit],
    options: &Options,
    board: &Board<'_>,
) -> Result<(), YearbookError> {
    let one = |unit: &Unit| {
        let Some(seed) = seeds.iter().find(|s| s.seed == unit.seed as u64) else { return Ok(()) };
        let protocol = unit.protocols.first().copied().unwrap_or(Protocol::Published);
        let work = unit.method.work(options.particles);
        let year_done = || board.worked(work, unit);
        if options.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        match follow(data, network, seed, unit.method, protocol, options.particles, &year_done)? {
            Some(results) => board.finished(unit, &results),
            None => Ok(()),
        }
    };
    let (particle, mut single): (Vec<&Unit>, Vec<&Unit>) =
        pending.iter().partition(|u| matches!(u.method, Method::Particle(_)));
    // The longest first, one after the other from the queue, so that the cores end together.
    single.sort_by(|a, b| {
        b.method.work(options.particles).total_cmp(&a.method.work(options.particles))
    });
    single.par_iter().with_max_len(1).try_for_each(|unit| one(unit))?;
    // A particle filter fills all cores by itself, and holds 113 MB: one at a time.
    particle.into_iter().try_for_each(one)
}

#[cfg(feature = "cuda")]
fn on_cuda(
    data: &Dataset,
    network: &Network,
    seeds: &[Seed],
    pending: &[Unit],
    options: &Options,
    board: &Board<'_>,
) -> Result<(), YearbookError> {
    crate::cuda::yearbook::run(data, network, seeds, pending, options.particles, board)
}

#[cfg(not(feature = "cuda"))]
fn on_cuda(
    _: &Dataset,
    _: &Network,
    _: &[Seed],
    _: &[Unit],
    _: &Options,
    _: &Board<'_>,
) -> Result<(), YearbookError> {
    Err(YearbookError::Cuda("this program was built without the feature `cuda`".into()))
}
