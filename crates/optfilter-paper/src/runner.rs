//! Runs the experiments in pieces that can be resumed, and writes what came out.

use crate::cells::{self, DataError, Judge, Printed, Verdict};
use crate::control::{Control, Event, Phase, Stopped};
use crate::figure::{self, Picture};
use crate::grid::Method;
use crate::published::effects::{self, Effect};
use crate::published::{self, Quirks, simulate};
use crate::report;
use crate::row::Row;
use crate::specified::{self, SpecifiedError};
use crate::store::{Store, write_whole};
use crate::systems::{Dynamics, System};
use optfilter_plot::Theme;
use rayon::prelude::*;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What was run, or what the text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// What was really run.
    Published,
    /// What the text says.
    Specified,
}

impl Protocol {
    /// The name in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Specified => "specified",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The systems.
    pub systems: Vec<System>,
    /// The protocols.
    pub protocols: Vec<Protocol>,
    /// Where results go.
    pub out: PathBuf,
    /// Monte Carlo runs; the paper has 100.
    pub runs: usize,
    /// Seed of the first run; the paper has 0.
    pub seed: u32,
    /// Worker threads; `None` is one per core.
    pub threads: Option<usize>,
    /// The command, for the report.
    pub command: String,
}

impl Options {
    /// The families of systems asked for.
    pub fn families(&self) -> Vec<&'static str> {
        let mut out: Vec<&str> = self.systems.iter().map(System::family).collect();
        out.dedup();
        out
    }
}

/// A run could not be finished.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Asked to stop.
    #[error("stopped; finished systems are kept, and the same command continues from there")]
    Stopped,
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Threads could not be started.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The data files of this crate are broken.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A figure could not be drawn.
    #[error("figure {name}: {reason}")]
    Figure {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The library refused a configuration.
    #[error("specified protocol: {0}")]
    Specified(String),
}

impl From<Stopped> for RunError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<SpecifiedError> for RunError {
    fn from(error: SpecifiedError) -> Self {
        match error {
            SpecifiedError::Stopped => Self::Stopped,
            other => Self::Specified(other.to_string()),
        }
    }
}

/// All rows of one system in one protocol.
#[derive(Clone, Debug)]
pub struct SystemRows {
    /// The protocol.
    pub protocol: Protocol,
    /// The system.
    pub system: System,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A printed cell next to ours.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The protocol of our value.
    pub protocol: Protocol,
    /// The paper's cell.
    pub printed: Printed,
    /// Our configuration and value.
    pub row: Row,
    /// How they compare.
    pub verdict: Verdict,
    /// Why, where not exact.
    pub reason: String,
}

/// All that came out.
pub struct Outcome {
    /// Every configuration.
    pub grid: Vec<SystemRows>,
    /// Every printed cell, by protocol.
    pub cells: Vec<Cell>,
    /// Effect of each quirk.
    pub effects: Vec<Effect>,
    /// Number of runs behind [`Outcome::effects`].
    pub effect_runs: usize,
    /// Where the time went.
    pub phases: Vec<Phase>,
    /// Time of this run.
    pub time: Duration,
    /// Pieces that an earlier, interrupted run had finished; their time is not in [`Outcome::time`].
    pub taken_over: usize,
}

impl Outcome {
    /// Number of exact cells and of all cells of the published protocol.
    pub fn exact(&self) -> (usize, usize) {
        let published = self.cells.iter().filter(|c| c.protocol == Protocol::Published);
        let exact = published.clone().filter(|c| c.verdict == Verdict::Exact);
        (exact.count(), published.count())
    }
}

/// The effects of single quirks are shown on a fifth of the runs: the differences are large, and this keeps the cost small.
fn effect_runs(runs: usize) -> usize {
    (runs / 5).max(runs.min(5))
}

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
        let keeper = Keeper { store, protocol, options, control };
        match protocol {
            Protocol::Published => {
                grid.extend(keeper.published()?);
                effects = keeper.effects()?;
            }
            Protocol::Specified => grid.extend(keeper.specified()?),
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
    let mut work = 0.0;
    for protocol in &options.protocols {
        for system in &options.systems {
            work += match (protocol, system) {
                (Protocol::Published, System::Toy { .. }) => {
                    published::work::TOY + published::work::TOY_PARTICLES
                }
                (Protocol::Published, System::Lorenz { .. }) => {
                    published::work::LORENZ + published::work::LORENZ_PARTICLES
                }
                (Protocol::Specified, System::Toy { .. }) => specified::work::TOY,
                (Protocol::Specified, System::Lorenz { .. }) => specified::work::LORENZ,
            };
        }
        if *protocol == Protocol::Published {
            work += effects::WORK;
        }
    }
    work + 2.0 // figures
}

/// Computes the pieces of one protocol, or takes them over.
struct Keeper<'a> {
    store: Store,
    protocol: Protocol,
    options: &'a Options,
    control: &'a Control<'a>,
}

impl Keeper<'_> {
    /// A piece that consists of one list of rows per system.
    fn piece(
        &self,
        name: &str,
        work: f64,
        compute: impl FnOnce() -> Result<Vec<Row>, RunError>,
    ) -> Result<Vec<Row>, RunError> {
        let full_name = format!("{} {name}", self.protocol.name());
        // What follows a colon only tells pieces apart on disk.
        let shown = full_name.split(':').next().unwrap_or_default().to_owned();
        let tell = |event| self.control.tell(event);
        tell(Event::Begin { name: full_name.clone() });
        if let Some(rows) = self.load(&full_name) {
            tell(Event::Advance { work });
            tell(Event::End { name: shown, time: None });
            return Ok(rows);
        }
        let begin = Instant::now();
        let rows = compute()?;
        let lines: Vec<String> = rows.iter().map(|row| row.to_columns().join(",")).collect();
        self.store
            .save(&full_name, &lines)
            .map_err(|source| RunError::Write { path: self.options.out.join("state"), source })?;
        tell(Event::End { name: shown, time: Some(begin.elapsed()) });
        Ok(rows)
    }

    fn load(&self, full_name: &str) -> Option<Vec<Row>> {
        self.store
            .load(full_name)?
            .iter()
            .map(|line| Row::from_columns(&line.split(',').collect::<Vec<_>>()))
            .collect()
    }

    fn published(&self) -> Result<Vec<SystemRows>, RunError> {
        let quirks = Quirks::PUBLISHED;
        let (runs, seed, control) = (self.options.runs, self.options.seed, self.control);
        let toy: Vec<(u32, u32)> = self
            .options
            .systems
            .iter()
            .filter_map(|system| match *system {
                System::Toy { q, r } => Some((q, r)),
                System::Lorenz { .. } => None,
            })
            .collect();
        let lorenz: Vec<(u32, Dynamics)> = self
            .options
            .systems
            .iter()
            .filter_map(|system| match *system {
                System::Toy { .. } => None,
                System::Lorenz { alpha, dynamics } => Some((alpha, dynamics)),
            })
            .collect();
        let mut out = Vec::new();
        let mut push = |system, rows| {
            out.push(SystemRows { protocol: Protocol::Published, system, rows });
        };
        if !toy.is_empty() {
            let data: Vec<_> = control.phase("published simulation", toy.len(), 0.0, || {
                toy.iter().map(|&(q, r)| (q, r, simulate::toy(q, r, runs, seed, &quirks))).collect()
            })?;
            let refs: Vec<_> = data.iter().map(|(q, r, data)| (*q, *r, data)).collect();
            let name = format!("toy particle filters: {}", names(&toy));
            let work = published::work::TOY_PARTICLES * toy.len() as f64;
            let particles = self.piece(&name, work, || {
                Ok(published::toy_particle_rows(&refs, seed, &quirks, control)?)
            })?;
            for (&(q, r, data), particle_row) in refs.iter().zip(particles) {
                let system = System::Toy { q, r };
                let mut rows = self.piece(&system.to_string(), published::work::TOY, || {
                    Ok(published::toy_rows((q, r), data, &quirks, control)?)
                })?;
                rows.push(particle_row);
                push(system, rows);
            }
        }
        if !lorenz.is_empty() {
            let mut alphas: Vec<u32> = lorenz.iter().map(|(alpha, _)| *alpha).collect();
            alphas.dedup();
            let data = control.phase("published simulation", alphas.len(), 0.0, || {
                simulate::lorenz(&alphas, runs, seed, &quirks)
            })?;
            let mut refs = Vec::new();
            for &(alpha, dynamics) in &lorenz {
                if let Some(at) = alphas.iter().position(|a| *a == alpha) {
                    refs.push((alpha, dynamics, &data[at]));
                }
            }
            let name = format!("lorenz particle filters: {}", names(&lorenz));
            let work = published::work::LORENZ_PARTICLES * lorenz.len() as f64;
            let particles = self.piece(&name, work, || {
                Ok(published::lorenz_particle_rows(&refs, seed, &quirks, control)?)
            })?;
            for (&(alpha, dynamics, data), particle_row) in refs.iter().zip(particles) {
                let system = System::Lorenz { alpha, dynamics };
                let mut rows = self.piece(&system.to_string(), published::work::LORENZ, || {
                    Ok(published::lorenz_rows((alpha, dynamics), data, &quirks, control)?)
                })?;
                rows.push(particle_row);
                push(system, rows);
            }
        }
        Ok(out)
    }

    /// The effects of single quirks; kept as two rows for each.
    fn effects(&self) -> Result<Vec<Effect>, RunError> {
        let families = self.options.families();
        let runs = effect_runs(self.options.runs);
        let name = format!("effects {}", families.join(" "));
        let mut computed = None;
        let rows = self.piece(&name, effects::WORK, || {
            let effects =
                effects::effects(runs, self.options.seed, &families, |_| None, self.control)?;
            let rows = effects
                .iter()
                .flat_map(|e| [e.published, e.without].map(|s| Row::new(Method::Ekf, s)))
                .collect();
            computed = Some(effects);
            Ok(rows)
        })?;
        if let Some(effects) = computed {
            return Ok(effects);
        }
        // The order of the effects is fixed, so that only the numbers had to be kept.
        let mut out = effects::reached(&families);
        for (effect, pair) in out.iter_mut().zip(rows.chunks(2)) {
            if let [published, without] = pair {
                effect.published = published.summary;
                effect.without = without.summary;
            }
        }
        Ok(out)
    }

    fn specified(&self) -> Result<Vec<SystemRows>, RunError> {
        let (runs, seed, control) = (self.options.runs, self.options.seed, self.control);
        // The expensive simulation is only made if a Lorenz system is still to be run.
        let mut lorenz: Option<Vec<specified::simulate::Data>> = None;
        let mut alphas: Vec<u32> = Vec::new();
        for system in &self.options.systems {
            if let System::Lorenz { alpha, .. } = system
                && !alphas.contains(alpha)
            {
                alphas.push(*alpha);
            }
        }
        let mut out = Vec::new();
        for &system in &self.options.systems {
            let work = match system {
                System::Toy { .. } => specified::work::TOY,
                System::Lorenz { .. } => specified::work::LORENZ,
            };
            let rows = self.piece(&system.to_string(), work, || match system {
                System::Toy { q, r } => {
                    let data = specified::simulate::toy(f64::from(q), f64::from(r), runs, seed)
                        .map_err(|e| RunError::Specified(e.to_string()))?;
                    Ok(specified::rows(system, &data, seed, control)?)
                }
                System::Lorenz { alpha, .. } => {
                    if lorenz.is_none() {
                        let name = "specified simulation";
                        let data = control.phase(name, alphas.len(), 0.0, || {
                            specified::simulate::lorenz(&alphas, runs, seed, &|| control.stopped())
                        })?;
                        lorenz = Some(data);
                    }
                    let at = alphas.iter().position(|a| *a == alpha);
                    match (&lorenz, at) {
                        (Some(all), Some(at)) => {
                            Ok(specified::rows(system, &all[at], seed, control)?)
                        }
                        _ => Ok(Vec::new()),
                    }
                }
            })?;
            out.push(SystemRows { protocol: Protocol::Specified, system, rows });
        }
        Ok(out)
    }
}

/// A short name of a set.
fn names<T: std::fmt::Debug>(set: &[T]) -> String {
    format!("{set:?}").chars().filter(|c| c.is_ascii_alphanumeric()).collect()
}

/// Put our values next to the printed ones.
fn compare(grid: &[SystemRows]) -> Result<Vec<Cell>, RunError> {
    let judge = Judge::new()?;
    let printed = cells::printed()?;
    let mut out = Vec::new();
    for protocol in [Protocol::Published, Protocol::Specified] {
        for cell in &printed {
            let Some(system) =
                grid.iter().find(|s| s.protocol == protocol && cell.is_of(&s.system))
            else {
                continue;
            };
            let row = match protocol {
                Protocol::Published => cell.find(&system.rows),
                Protocol::Specified => cell.find_tuned(&system.rows),
            };
            let Some(row) = row else { continue };
            let (value, ci) = (row.summary.rmse, row.summary.ci);
            let (verdict, reason) = match protocol {
                Protocol::Published => judge.published(cell, value, ci),
                Protocol::Specified => (judge.specified(cell, value, ci), String::new()),
            };
            out.push(Cell { protocol, printed: cell.clone(), row: *row, verdict, reason });
        }
    }
    Ok(out)
}

pub(crate) fn save(path: &Path, content: &[u8]) -> Result<(), RunError> {
    let wrap = |source| RunError::Write { path: path.to_path_buf(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(wrap)?;
    }
    write_whole(path, content).map_err(wrap)
}

pub(crate) fn save_figure(out: &Path, picture: &Picture) -> Result<(), RunError> {
    let svg = picture.figure.svg(Theme::Auto);
    let png = picture.figure.png(Theme::Light, 2.0);
    let png =
        png.map_err(|e| RunError::Figure { name: picture.name.into(), reason: e.to_string() })?;
    let folder = out.join("figures");
    save(&folder.join(format!("{}.svg", picture.name)), svg.as_bytes())?;
    save(&folder.join(format!("{}.png", picture.name)), &png)
}

fn tuning_csv(grid: &[SystemRows]) -> String {
    let mut out = String::from(
        "system,q,r,alpha,dynamics,method,steps,lr,decay,q_search,rmse,tuning_rmse,tuning_prediction_error\n",
    );
    for system in grid.iter().filter(|s| s.protocol == Protocol::Specified) {
        let key = system.system.key().join(",");
        for row in &system.rows {
            let c = row.to_columns();
            out.push_str(&format!("{key},{},{},{}\n", c[..6].join(","), c[8], c[9]));
        }
    }
    out
}

fn grid_csv(grid: &[SystemRows]) -> String {
    let mut out = String::from(
        "protocol,system,q,r,alpha,dynamics,method,steps,lr,decay,q_search,rmse,ci,diverged_runs\n",
    );
    for system in grid {
        let key = system.system.key().join(",");
        for row in &system.rows {
            let columns = row.to_columns();
            out.push_str(&format!("{},{key},{}\n", system.protocol.name(), columns[..8].join(",")));
        }
    }
    out
}

fn cells_csv(cells: &[Cell]) -> String {
    let mut out = String::from(
        "table,system,q,r,alpha,dynamics,protocol,method,steps,lr,decay,value,ci,paper_value,paper_ci,verdict\n",
    );
    for cell in cells {
        let p = &cell.printed;
        let [steps, lr, decay, _] = cell.row.method.parameters();
        let fields = [
            &p.table,
            &p.system,
            &p.q,
            &p.r,
            &p.alpha,
            &p.dynamics,
            cell.protocol.name(),
            &p.method,
            &steps,
            &lr,
            &decay,
            &format!("{:?}", cell.row.summary.rmse),
            &format!("{:?}", cell.row.summary.ci),
            &p.value,
            &p.ci,
            cell.verdict.name(),
        ];
        out.push_str(&fields.join(","));
        out.push('\n');
    }
    out
}
