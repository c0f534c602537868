//! The rows of each system, in pieces that an interrupted run takes over when it is started again.

use crate::control::{Control, Event};
use crate::error::RunError;
use crate::grid::GridMethod;
use crate::outcome::SystemRows;
use crate::protocol::Protocol;
use crate::published::effects::{self, Effect};
use crate::published::{self, Quirks, simulate};
use crate::row::Row;
use crate::specified;
use crate::store::Store;
use crate::systems::{Dynamics, System};
use std::time::Instant;

/// How often, from which seed, and whether with the particle filters of the published protocol.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Monte Carlo runs; the paper has 100.
    pub count: usize,
    /// Seed of the first run; the paper has 0.
    pub seed: u32,
    /// Whether to run the published particle filters; the specified protocol always runs its own.
    pub particles: bool,
}

/// All rows of some systems in one protocol, in the order of the systems; nothing is written.
pub fn rows(
    protocol: Protocol,
    systems: &[System],
    runs: Runs,
    control: &Control<'_>,
) -> Result<Vec<SystemRows>, RunError> {
    Keeper { store: None, protocol, systems, runs, control }.rows()
}

/// Rough seconds of work on two cores of one system, for progress bars only.
pub fn work(protocol: Protocol, system: &System) -> f64 {
    match (protocol, system) {
        (Protocol::Published, System::Toy { .. }) => {
            published::work::TOY + published::work::TOY_PARTICLES
        }
        (Protocol::Published, System::Lorenz { .. }) => {
            published::work::LORENZ + published::work::LORENZ_PARTICLES
        }
        (Protocol::Specified, System::Toy { .. }) => specified::work::TOY,
        (Protocol::Specified, System::Lorenz { .. }) => specified::work::LORENZ,
    }
}

/// The effects of single quirks are shown on a fifth of the runs: the differences are large, and this keeps the cost small.
pub(crate) fn effect_runs(runs: usize) -> usize {
    (runs / 5).max(runs.min(5))
}

/// Computes the pieces of one protocol, or takes them over.
pub(crate) struct Keeper<'a> {
    pub store: Option<Store>,
    pub protocol: Protocol,
    pub systems: &'a [System],
    pub runs: Runs,
    pub control: &'a Control<'a>,
}

impl Keeper<'_> {
    /// A piece that consists of one list of rows.
    fn piece(
        &self,
        name: &str,
        work: f64,
        compute: impl FnOnce() -> Result<Vec<Row>, RunError>,
    ) -> Result<Vec<Row>, RunError> {
        let Some(store) = &self.store else { return compute() };
        let full_name = format!("{} {name}", self.protocol.name());
        // What follows a colon only tells pieces apart on disk.
        let shown = full_name.split(':').next().unwrap_or_default().to_owned();
        let tell = |event| self.control.tell(event);
        tell(Event::Begin { name: full_name.clone() });
        if let Some(rows) = load(store, &full_name) {
            tell(Event::Advance { work });
            tell(Event::End { name: shown, time: None });
            return Ok(rows);
        }
        let begin = Instant::now();
        let rows = compute()?;
        let lines: Vec<String> = rows.iter().map(|row| row.to_columns().join(",")).collect();
        store
            .save(&full_name, &lines)
            .map_err(|source| RunError::Write { path: store.folder().to_path_buf(), source })?;
        tell(Event::End { name: shown, time: Some(begin.elapsed()) });
        Ok(rows)
    }

    /// All rows of all systems, in their order.
    pub fn rows(&self) -> Result<Vec<SystemRows>, RunError> {
        match self.protocol {
            Protocol::Specified => self.specified(),
            Protocol::Published => {
                let mut out = self.published_toy()?;
                out.extend(self.published_lorenz()?);
                out.sort_by_key(|rows| self.systems.iter().position(|s| *s == rows.system));
                Ok(out)
            }
        }
    }

    /// The strengths of the noise among the Lorenz systems, each once.
    fn alphas(&self) -> Vec<u32> {
        let mut out = Vec::new();
        for system in self.systems {
            if let System::Lorenz { alpha, .. } = system
                && !out.contains(alpha)
            {
                out.push(*alpha);
            }
        }
        out
    }

    /// The rows of one system, its particle filter's last.
    fn published_system(
        &self,
        system: System,
        work: f64,
        particles: Option<Row>,
        compute: impl FnOnce() -> Result<Vec<Row>, RunError>,
    ) -> Result<SystemRows, RunError> {
        let mut rows = self.piece(&system.to_string(), work, compute)?;
        rows.extend(particles);
        Ok(SystemRows { protocol: Protocol::Published, system, rows })
    }

    /// The particle filters of a family, which share their random numbers.
    fn published_particles(
        &self,
        name: &str,
        work: f64,
        compute: impl FnOnce() -> Result<Vec<Row>, RunError>,
    ) -> Result<Vec<Option<Row>>, RunError> {
        let rows = if self.runs.particles { self.piece(name, work, compute)? } else { Vec::new() };
        Ok(rows
            .into_iter()
            .map(Some)
            .chain(core::iter::repeat(None))
            .take(self.systems.len())
            .collect())
    }

    fn published_toy(&self) -> Result<Vec<SystemRows>, RunError> {
        let (Runs { count, seed, .. }, control) = (self.runs, self.control);
        let quirks = Quirks::PUBLISHED;
        let toy = |system: &System| match *system {
            System::Toy { q, r } => Some((q, r)),
            System::Lorenz { .. } => None,
        };
        let systems: Vec<(u32, u32)> = self.systems.iter().filter_map(toy).collect();
        if systems.is_empty() {
            return Ok(Vec::new());
        }
        let data: Vec<_> = control.phase("published simulation", systems.len(), 0.0, || {
            systems
                .iter()
                .map(|&(q, r)| (q, r, simulate::toy(q, r, count, seed, &quirks)))
                .collect()
        })?;
        let refs: Vec<_> = data.iter().map(|(q, r, data)| (*q, *r, data)).collect();
        let name = format!("toy particle filters: {}", names(&systems));
        let work = published::work::TOY_PARTICLES * systems.len() as f64;
        let particles = self.published_particles(&name, work, || {
            Ok(published::toy_particle_rows(&refs, seed, &quirks, control)?)
        })?;
        let with_particles = refs.iter().zip(particles);
        with_particles
            .map(|(&(q, r, data), particles)| {
                self.published_system(System::Toy { q, r }, published::work::TOY, particles, || {
                    Ok(published::toy_rows((q, r), data, &quirks, control)?)
                })
            })
            .collect()
    }

    fn published_lorenz(&self) -> Result<Vec<SystemRows>, RunError> {
        let (Runs { count, seed, .. }, control) = (self.runs, self.control);
        let quirks = Quirks::PUBLISHED;
        let alphas = self.alphas();
        if alphas.is_empty() {
            return Ok(Vec::new());
        }
        let data = control.phase("published simulation", alphas.len(), 0.0, || {
            simulate::lorenz(&alphas, count, seed, &quirks)
        })?;
        let lorenz = |system: &System| match *system {
            System::Toy { .. } => None,
            System::Lorenz { alpha, dynamics } => {
                let at = alphas.iter().position(|a| *a == alpha)?;
                Some((alpha, dynamics, &data[at]))
            }
        };
        let refs: Vec<_> = self.systems.iter().filter_map(lorenz).collect();
        let systems: Vec<(u32, Dynamics)> = refs.iter().map(|r| (r.0, r.1)).collect();
        let name = format!("lorenz particle filters: {}", names(&systems));
        let work = published::work::LORENZ_PARTICLES * systems.len() as f64;
        let particles = self.published_particles(&name, work, || {
            Ok(published::lorenz_particle_rows(&refs, seed, &quirks, control)?)
        })?;
        let with_particles = refs.iter().zip(particles);
        with_particles
            .map(|(&(alpha, dynamics, data), particles)| {
                let system = System::Lorenz { alpha, dynamics };
                self.published_system(system, published::work::LORENZ, particles, || {
                    Ok(published::lorenz_rows((alpha, dynamics), data, &quirks, control)?)
                })
            })
            .collect()
    }

    /// The effects of single quirks; kept as two rows for each.
    pub fn effects(&self, families: &[&str]) -> Result<Vec<Effect>, RunError> {
        let name = format!("effects {}", families.join(" "));
        let mut computed = None;
        let rows = self.piece(&name, effects::WORK, || {
            let Runs { count, seed, .. } = self.runs;
            let effects =
                effects::effects(effect_runs(count), seed, families, |_| None, self.control)?;
            let rows = effects
                .iter()
                .flat_map(|e| [e.published, e.without].map(|s| Row::new(GridMethod::Ekf, s)))
                .collect();
            computed = Some(effects);
            Ok(rows)
        })?;
        if let Some(effects) = computed {
            return Ok(effects);
        }
        // The order of the effects is fixed, so that only the numbers had to be kept.
        let mut out = effects::reached(families);
        for (effect, pair) in out.iter_mut().zip(rows.chunks(2)) {
            if let [published, without] = pair {
                effect.published = published.summary;
                effect.without = without.summary;
            }
        }
        Ok(out)
    }

    fn specified(&self) -> Result<Vec<SystemRows>, RunError> {
        let (Runs { count, seed, .. }, control) = (self.runs, self.control);
        // The expensive simulation is only made if a Lorenz system is still to be run.
        let mut lorenz: Option<Vec<specified::simulate::Data>> = None;
        let alphas = self.alphas();
        let mut out = Vec::new();
        for &system in self.systems {
            let rows =
                self.piece(&system.to_string(), work(self.protocol, &system), || match system {
                    System::Toy { q, r } => {
                        let data =
                            specified::simulate::toy(f64::from(q), f64::from(r), count, seed)
                                .map_err(|e| RunError::Specified(e.to_string()))?;
                        Ok(specified::rows(system, &data, seed, control)?)
                    }
                    System::Lorenz { alpha, .. } => {
                        if lorenz.is_none() {
                            let name = "specified simulation";
                            let data = control.phase(name, alphas.len(), 0.0, || {
                                specified::simulate::lorenz(&alphas, count, seed, &|| {
                                    control.stopped()
                                })
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

fn load(store: &Store, name: &str) -> Option<Vec<Row>> {
    let lines = store.load(name)?;
    lines.iter().map(|line| Row::from_columns(&line.split(',').collect::<Vec<_>>())).collect()
}

/// A short name of a set.
fn names<T: core::fmt::Debug>(set: &[T]) -> String {
    format!("{set:?}").chars().filter(|c| c.is_ascii_alphanumeric()).collect()
}
