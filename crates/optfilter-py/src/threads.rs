//! Threads that survive a fork.
//!
//! `multiprocessing` on Linux may fork a process that has already used rayon's global pool. The child then
//! has the pool but none of its threads, and would wait for them for ever. So work runs in a pool of our own,
//! made anew when the process is not the one that made it.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// The pool of this process.
fn pool() -> PyResult<Arc<ThreadPool>> {
    let process = std::process::id();
    let mut slot = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((owner, pool)) = &*slot
        && *owner == process
    {
        return Ok(pool.clone());
    }
    let made = ThreadPoolBuilder::new()
        .thread_name(|i| format!("optfilter-{i}"))
        .build()
        .map_err(|e| PyRuntimeError::new_err(format!("cannot start threads: {e}")))?;
    let made = Arc::new(made);
    if let Some(old) = slot.replace((process, made.clone())) {
        // The parent's: its threads do not exist here, so it cannot be shut down either.
        std::mem::forget(old);
    }
    Ok(made)
}

/// Runs `work` on the threads of this process, without the interpreter's lock.
pub(crate) fn install<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let pool = pool()?;
    Ok(py.detach(|| pool.install(work)))
}
