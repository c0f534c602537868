//! The paper's experiments, one system at a time, under the published protocol.

use crate::errors::bad;
use crate::threads;
use optfilter_paper::cells::{Judge, printed};
use optfilter_paper::control::{Control, Event, Stopped};
use optfilter_paper::published::quirks::Quirks;
use optfilter_paper::published::{self, simulate};
use optfilter_paper::row::Row;
use optfilter_paper::systems::{Dynamics, System};
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

/// The systems of the paper: (name, family, rough seconds of work).
#[pyfunction]
pub(crate) fn paper_systems() -> Vec<(String, &'static str, f64)> {
    let work = |system: &System| match system {
        System::Toy { .. } => published::work::TOY + published::work::TOY_PARTICLES,
        System::Lorenz { .. } => published::work::LORENZ + published::work::LORENZ_PARTICLES,
    };
    all().iter().map(|s| (s.to_string(), s.family(), work(s))).collect()
}

/// Runs every configuration of one system. `tell(seconds_of_work)` hears of progress and may raise to stop.
/// Returns the rows of the grid and the printed cells with our numbers and a verdict.
#[pyfunction]
pub(crate) fn reproduce_system<'py>(
    py: Python<'py>,
    index: usize,
    runs: usize,
    seed: u32,
    particles: bool,
    tell: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyList>)> {
    let systems = all();
    let system = *systems.get(index).ok_or_else(|| bad("system", "there is no such system"))?;
    if runs == 0 {
        return Err(bad("runs", "must be at least 1"));
    }
    let (stop, raised) = (AtomicBool::new(false), Mutex::new(None));
    let hear = |event: Event| {
        let Event::Advance { work } = event else { return };
        let Some(tell) = &tell else { return };
        if let Err(error) = Python::attach(|py| tell.call1(py, (work,)).map(|_| ())) {
            stop.store(true, Ordering::Relaxed);
            if let Ok(mut slot) = raised.lock() {
                slot.get_or_insert(error);
            }
        }
    };
    let control = Control::new(&stop, &hear);
    let quirks = Quirks::PUBLISHED;
    let work = || -> Result<Vec<Row>, Stopped> {
        match system {
            System::Toy { q, r } => {
                let data = simulate::toy(q, r, runs, seed, &quirks);
                let mut rows = published::toy_rows((q, r), &data, &quirks, &control)?;
                if particles {
                    let filters = [(q, r, &data)];
                    rows.extend(published::toy_particle_rows(&filters, seed, &quirks, &control)?);
                }
                Ok(rows)
            }
            System::Lorenz { alpha, dynamics } => {
                let mut data = simulate::lorenz(&[alpha], runs, seed, &quirks);
                let data = data.remove(0);
                let key: (u32, Dynamics) = (alpha, dynamics);
                let mut rows = published::lorenz_rows(key, &data, &quirks, &control)?;
                if particles {
                    let filters = [(alpha, dynamics, &data)];
                    rows.extend(published::lorenz_particle_rows(
                        &filters, seed, &quirks, &control,
                    )?);
                }
                Ok(rows)
            }
        }
    };
    let result = threads::install(py, work)?;
    if let Ok(mut slot) = raised.lock()
        && let Some(error) = slot.take()
    {
        return Err(error);
    }
    let rows = result.map_err(|_| PyRuntimeError::new_err("the computation was stopped"))?;
    let grid = PyList::empty(py);
    for row in &rows {
        grid.append(describe(py, row)?)?;
    }
    let wrong = |e: optfilter_paper::cells::DataError| PyRuntimeError::new_err(e.to_string());
    let judge = Judge::new().map_err(wrong)?;
    let cells = PyList::empty(py);
    for cell in printed().map_err(wrong)?.iter().filter(|cell| cell.is_of(&system)) {
        let Some(row) = cell.find(&rows) else { continue };
        let (verdict, reason) = judge.published(cell, row.summary.rmse, row.summary.ci);
        let entry = describe(py, row)?;
        entry.set_item("table", &cell.table)?;
        entry.set_item("printed", &cell.value)?;
        entry.set_item("printed_ci", &cell.ci)?;
        entry.set_item("verdict", verdict.name())?;
        entry.set_item("reason", reason)?;
        cells.append(entry)?;
    }
    Ok((grid, cells))
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
    Ok(entry)
}
