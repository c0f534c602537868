//! The paper's portraits: a network's weights followed through eighty years.

use super::listener::Listener;
use crate::errors::bad;
use crate::threads;
use optfilter_paper::Protocol;
use optfilter_paper::yearbook::{self, Options, Size, YearbookError};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the experiment on all cores. `size` is "quick" (seconds), "short" or "full"; `tell(share)` hears how much of
/// the work was done since it was last called. Finished chains are kept in the folder `out`, from where the same call
/// goes on. Returns the rows of the table, and about the data: (name, images, generated).
#[pyfunction]
#[pyo3(signature = (protocols, size, data, seeds, out, tell))]
pub(crate) fn reproduce_yearbook<'py>(
    py: Python<'py>,
    protocols: Vec<String>,
    size: &str,
    data: Option<PathBuf>,
    seeds: Option<u64>,
    out: PathBuf,
    tell: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyList>, (String, usize, bool))> {
    let size = match size {
        "quick" => Size::Quick,
        "full" => Size::Full,
        _ => Size::Short,
    };
    let mut options = Options::new(size, out);
    options.data = data;
    options.seeds = seeds.unwrap_or(options.seeds);
    options.protocols = protocols
        .iter()
        .map(|name| if name == "specified" { Protocol::Specified } else { Protocol::Published })
        .collect();
    let stop = Arc::new(AtomicBool::new(false));
    options.stop = Arc::clone(&stop);
    let listener = Listener::new(tell, &stop);
    let last = Mutex::new(0.0);
    let hear = |progress: &yearbook::ChainProgress| {
        let Ok(mut last) = last.lock() else { return };
        let step = progress.done - *last;
        // A thousand ticks are enough for any bar.
        if step >= 1e-3 {
            *last = progress.done;
            drop(last);
            listener.tell(step);
        }
    };
    let result = threads::install(py, &stop, || yearbook::run(&options, &hear))?;
    listener.raise()?;
    let outcome = result.map_err(|error| match error {
        YearbookError::Data(e) => bad("data", e),
        YearbookError::Io { path, source } => {
            PyOSError::new_err(format!("{}: {source}", path.display()))
        }
        _ if stop.load(Ordering::Relaxed) => PyRuntimeError::new_err("the computation was stopped"),
        other => PyRuntimeError::new_err(other.to_string()),
    })?;
    let table = PyList::empty(py);
    for row in &outcome.table {
        let entry = PyDict::new(py);
        entry.set_item("protocol", row.protocol.name())?;
        entry.set_item("method", row.method.name())?;
        entry.set_item("steps", row.method.steps())?;
        entry.set_item("sigma2", row.method.sigma2())?;
        for (key, (mean, ci)) in [("to_1970", row.validation_block), ("from_1971", row.test_block)]
        {
            entry.set_item(key, mean)?;
            entry.set_item(format!("{key}_ci"), ci)?;
        }
        let printed = row.paper.map(|[early, late]| (early.0, late.0));
        entry.set_item("printed_to_1970", printed.map(|p| p.0))?;
        entry.set_item("printed_from_1971", printed.map(|p| p.1))?;
        entry.set_item("selected", row.selected)?;
        table.append(entry)?;
    }
    Ok((table, (outcome.data_name, outcome.images, outcome.generated)))
}
