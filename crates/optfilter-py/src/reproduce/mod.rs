//! The paper's experiments: toy and Lorenz systems here, the portraits in [`yearbook`].

mod yearbook;

pub(crate) use yearbook::reproduce_yearbook;

use crate::errors::bad;
use crate::threads;
use optfilter_paper::cells::{Judge, printed};
use optfilter_paper::control::{Control, Event, Stopped};
use optfilter_paper::published::quirks::Quirks;
use optfilter_paper::published::{self, simulate};
use optfilter_paper::row::Row;
use optfilter_paper::specified::{self, SpecifiedError};
use optfilter_paper::systems::System;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

fn all() -> Vec<System> {
    let mut systems = System::toy();
    systems.extend(System::lorenz());
    systems
}

/// Systems that share simulated data, and are best run together.
fn group(system: &System) -> String {
    match system {
        System::Toy { .. } => system.to_string(),
        System::Lorenz { alpha, .. } => format!("lorenz alpha={alpha}"),
    }
}

/// The systems of the paper: (name, family, group that shares its data, rough seconds of work under the published
/// and the specified protocol).
#[pyfunction]
pub(crate) fn paper_systems() -> Vec<(String, &'static str, String, f64, f64)> {
    let work = |system: &System| match system {
        System::Toy { .. } => {
            (published::work::TOY + published::work::TOY_PARTICLES, specified::work::TOY)
        }
        System::Lorenz { .. } => {
            (published::work::LORENZ + published::work::LORENZ_PARTICLES, specified::work::LORENZ)
        }
    };
    let row = |s: &System| (s.to_string(), s.family(), group(s), work(s).0, work(s).1);
    all().iter().map(row).collect()
}

/// Tells Python how far a computation is. Python may raise, which stops the computation.
struct Listener<'a> {
    tell: Option<Py<PyAny>>,
    stop: &'a AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl<'a> Listener<'a> {
    fn new(tell: Option<Py<PyAny>>, stop: &'a AtomicBool) -> Self {
        Self { tell, stop, raised: Mutex::new(None) }
    }

    fn tell(&self, work: f64) {
        let Some(tell) = &self.tell else { return };
        if let Err(error) = Python::attach(|py| tell.call1(py, (work,)).map(|_| ())) {
            self.stop.store(true, Ordering::Relaxed);
            if let Ok(mut slot) = self.raised.lock() {
                slot.get_or_insert(error);
            }
        }
    }

    /// What Python raised, if it did.
    fn raise(&self) -> PyResult<()> {
        match self.raised.lock().ok().and_then(|mut slot| slot.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Why there are no rows.
enum Trouble {
    Stopped,
    Refused(String),
}

impl From<Stopped> for Trouble {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<SpecifiedError> for Trouble {
    fn from(error: SpecifiedError) -> Self {
        match error {
            SpecifiedError::Stopped => Self::Stopped,
            other => Self::Refused(other.to_string()),
        }
    }
}

/// How often and from which seed.
#[derive(Clone, Copy)]
struct Runs {
    runs: usize,
    seed: u32,
    particles: bool,
}

/// The strengths of the noise among Lorenz systems, each once.
fn alphas(systems: &[System]) -> Vec<u32> {
    let mut out = Vec::new();
    for system in systems {
        if let System::Lorenz { alpha, .. } = system
            && !out.contains(alpha)
        {
            out.push(*alpha);
        }
    }
    out
}

fn published_rows(
    systems: &[System],
    of: Runs,
    control: &Control<'_>,
) -> Result<Vec<Vec<Row>>, Trouble> {
    let quirks = Quirks::PUBLISHED;
    let alphas = alphas(systems);
    let lorenz = match alphas.is_empty() {
        true => Vec::new(),
        false => simulate::lorenz(&alphas, of.runs, of.seed, &quirks),
    };
    let mut out = Vec::new();
    for &system in systems {
        let mut rows;
        match system {
            System::Toy { q, r } => {
                let data = simulate::toy(q, r, of.runs, of.seed, &quirks);
                rows = published::toy_rows((q, r), &data, &quirks, control)?;
                if of.particles {
                    let filter = [(q, r, &data)];
                    rows.extend(published::toy_particle_rows(&filter, of.seed, &quirks, control)?);
                }
            }
            System::Lorenz { alpha, dynamics } => {
                let Some(at) = alphas.iter().position(|a| *a == alpha) else { continue };
                let data = &lorenz[at];
                rows = published::lorenz_rows((alpha, dynamics), data, &quirks, control)?;
                if of.particles {
                    let filter = [(alpha, dynamics, data)];
                    let row = published::lorenz_particle_rows(&filter, of.seed, &quirks, control)?;
                    rows.extend(row);
                }
            }
        }
        out.push(rows);
    }
    Ok(out)
}

fn specified_rows(
    systems: &[System],
    of: Runs,
    control: &Control<'_>,
) -> Result<Vec<Vec<Row>>, Trouble> {
    let alphas = alphas(systems);
    let lorenz = match alphas.is_empty() {
        true => Vec::new(),
        false => specified::simulate::lorenz(&alphas, of.runs, of.seed, &|| control.stopped()),
    };
    if control.stopped() {
        return Err(Trouble::Stopped);
    }
    let mut out = Vec::new();
    for &system in systems {
        out.push(match system {
            System::Toy { q, r } => {
                let data = specified::simulate::toy(f64::from(q), f64::from(r), of.runs, of.seed)
                    .map_err(|e| Trouble::Refused(e.to_string()))?;
                specified::rows(system, &data, of.seed, control)?
            }
            System::Lorenz { alpha, .. } => {
                let Some(at) = alphas.iter().position(|a| *a == alpha) else { continue };
                specified::rows(system, &lorenz[at], of.seed, control)?
            }
        });
    }
    Ok(out)
}

/// Runs every configuration of some systems. `tell(seconds_of_work)` hears of progress and may raise to stop. Returns,
/// for each system, the rows of the grid and the printed cells with our numbers and a verdict.
#[pyfunction]
pub(crate) fn reproduce_systems<'py>(
    py: Python<'py>,
    indices: Vec<usize>,
    specified: bool,
    runs: usize,
    seed: u32,
    particles: bool,
    tell: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let every = all();
    let systems: Option<Vec<System>> = indices.iter().map(|&i| every.get(i).copied()).collect();
    let systems = systems.ok_or_else(|| bad("systems", "there is no such system"))?;
    if runs == 0 {
        return Err(bad("runs", "must be at least 1"));
    }
    let stop = AtomicBool::new(false);
    let listener = Listener::new(tell, &stop);
    let hear = |event: Event| {
        if let Event::Advance { work } = event {
            listener.tell(work);
        }
    };
    let control = Control::new(&stop, &hear);
    let of = Runs { runs, seed, particles };
    let result = threads::install(py, &stop, || match specified {
        false => published_rows(&systems, of, &control),
        true => specified_rows(&systems, of, &control),
    })?;
    listener.raise()?;
    let rows = result.map_err(|trouble| match trouble {
        Trouble::Stopped => PyRuntimeError::new_err("the computation was stopped"),
        Trouble::Refused(text) => PyRuntimeError::new_err(text),
    })?;
    let out = PyList::empty(py);
    for (system, rows) in systems.iter().zip(&rows) {
        let grid = PyList::empty(py);
        for row in rows {
            grid.append(describe(py, row)?)?;
        }
        out.append((grid, judge(py, system, rows, specified)?))?;
    }
    Ok(out)
}

/// The printed cells of a system next to ours.
fn judge<'py>(
    py: Python<'py>,
    system: &System,
    rows: &[Row],
    specified: bool,
) -> PyResult<Bound<'py, PyList>> {
    let wrong = |e: optfilter_paper::cells::DataError| PyRuntimeError::new_err(e.to_string());
    let judge = Judge::new().map_err(wrong)?;
    let cells = PyList::empty(py);
    for cell in printed().map_err(wrong)?.iter().filter(|cell| cell.is_of(system)) {
        let found = if specified { cell.find_tuned(rows) } else { cell.find(rows) };
        let Some(row) = found else { continue };
        let (rmse, ci) = (row.summary.rmse, row.summary.ci);
        let (verdict, reason) = match specified {
            false => judge.published(cell, rmse, ci),
            true => (judge.specified(cell, rmse, ci), String::new()),
        };
        let entry = describe(py, row)?;
        entry.set_item("table", &cell.table)?;
        entry.set_item("printed", &cell.value)?;
        entry.set_item("printed_ci", &cell.ci)?;
        entry.set_item("verdict", verdict.name())?;
        entry.set_item("reason", reason)?;
        cells.append(entry)?;
    }
    Ok(cells)
}

fn describe<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
    let [steps, lr, decay, q] = row.method.parameters();
    let entry = PyDict::new(py);
    entry.set_item("method", row.method.name())?;
    entry.set_item("steps", steps.parse::<u32>().ok())?;
    entry.set_item("lr", lr.parse::<f64>().ok())?;
    entry.set_item("decay", decay.parse::<f64>().ok())?;
    entry.set_item("q", q.parse::<f64>().ok())?;
    entry.set_item("rmse", row.summary.rmse)?;
    entry.set_item("ci", row.summary.ci)?;
    entry.set_item("diverged", row.summary.diverged)?;
    entry.set_item("tuning_rmse", row.tuning.map(|t| t.rmse))?;
    entry.set_item("tuning_prediction", row.tuning.map(|t| t.prediction))?;
    Ok(entry)
}
