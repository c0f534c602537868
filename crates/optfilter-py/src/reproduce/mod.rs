//! The paper's experiments: toy and Lorenz systems here, the portraits in [`yearbook`].

mod listener;
mod yearbook;

pub(crate) use yearbook::reproduce_yearbook;

use crate::errors::bad;
use crate::threads;
use listener::Listener;
use optfilter_paper::control::{Control, Event};
use optfilter_paper::row::Row;
use optfilter_paper::systems::System;
use optfilter_paper::{Protocol, RunError, Runs, SystemRows, compare, rows, work};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::atomic::AtomicBool;

fn protocol(specified: bool) -> Protocol {
    if specified { Protocol::Specified } else { Protocol::Published }
}

/// The systems of the paper: (name, family, group that shares its data, rough seconds of work under the published
/// and the specified protocol).
#[pyfunction]
pub(crate) fn paper_systems() -> Vec<(String, &'static str, String, f64, f64)> {
    let row = |s: &System| {
        let [published, specified] = [false, true].map(|specified| work(protocol(specified), s));
        (s.to_string(), s.family(), s.group(), published, specified)
    };
    System::all().iter().map(row).collect()
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
    let every = System::all();
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
    let of = Runs { count: runs, seed, particles };
    let result = threads::install(py, &stop, || rows(protocol(specified), &systems, of, &control))?;
    listener.raise()?;
    let grid = result.map_err(|error| match error {
        RunError::Stopped => PyRuntimeError::new_err("the computation was stopped"),
        other => PyRuntimeError::new_err(other.to_string()),
    })?;
    let out = PyList::empty(py);
    for system in grid {
        let rows = PyList::empty(py);
        for row in &system.rows {
            rows.append(describe(py, row)?)?;
        }
        out.append((rows, judge(py, system)?))?;
    }
    Ok(out)
}

/// The printed cells of a system next to ours.
fn judge(py: Python<'_>, system: SystemRows) -> PyResult<Bound<'_, PyList>> {
    let cells = PyList::empty(py);
    let judged = compare(&[system]).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    for cell in judged {
        let entry = describe(py, &cell.row)?;
        entry.set_item("table", cell.printed.table)?;
        entry.set_item("printed", cell.printed.value)?;
        entry.set_item("printed_ci", cell.printed.ci)?;
        entry.set_item("verdict", cell.verdict.name())?;
        entry.set_item("reason", cell.reason)?;
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
