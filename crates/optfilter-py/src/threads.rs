//! Threads that survive a fork, and long work that Ctrl-C can end.
//!
//! `multiprocessing` on Linux may fork a process that has already used rayon's global pool. The child then
//! has the pool but none of its threads, and would wait for them for ever. So work runs in a pool of our own,
//! made anew when the process is not the one that made it.
//!
//! Python notes a signal but acts on it only when the main thread asks ([`Python::check_signals`]). So the
//! thread that calls us waits with one eye on signals while the pool works, and raises a flag for the workers.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// How often signals are looked for: seldom enough to cost nothing, often enough to seem immediate.
const LOOK: Duration = Duration::from_millis(50);

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

/// Runs `work` on the threads of this process, without the interpreter's lock. If a signal handler raises
/// meanwhile (Ctrl-C), `stop` becomes true, `work` is expected to end soon, and the exception is returned.
pub(crate) fn install<R: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let pool = pool()?;
    let mut raised = None;
    let result = py.detach(|| {
        let (tell, hear) = channel();
        pool.in_place_scope(|scope| {
            scope.spawn(move |_| {
                // The listener only goes away after this has been sent.
                let _ = tell.send(work());
            });
            loop {
                match hear.recv_timeout(LOOK) {
                    Ok(result) => return Some(result),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) if raised.is_none() => {
                        if let Err(error) = Python::attach(|py| py.check_signals()) {
                            stop.store(true, Ordering::Relaxed);
                            raised = Some(error);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        })
    });
    match (raised, result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        (None, None) => Err(PyRuntimeError::new_err("a worker thread failed")),
    }
}

/// Runs `work` on the threads of this process as [`install`] does, for work that takes its time to end: at a signal `stop` becomes
/// true, the work is left behind with the threads it runs on, and whoever comes next gets others.
pub(crate) fn leave_at_signal<R: Send + 'static>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    let pool = pool()?;
    let heard: PyResult<Option<R>> = py.detach(|| {
        let (tell, hear) = channel();
        pool.spawn(move || {
            // A panic that left the job would end the process. Nobody may listen any more.
            if let Ok(result) = catch_unwind(AssertUnwindSafe(work)) {
                let _ = tell.send(result);
            }
        });
        loop {
            match hear.recv_timeout(LOOK) {
                Ok(result) => return Ok(Some(result)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            }
        }
    });
    match heard {
        Ok(Some(result)) => Ok(result),
        Ok(None) => Err(PyRuntimeError::new_err("a worker thread failed")),
        Err(error) => {
            stop.store(true, Ordering::Relaxed);
            let mut slot = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.as_ref().is_some_and(|(_, current)| Arc::ptr_eq(current, &pool)) {
                *slot = None;
            }
            Err(error)
        }
    }
}

/// Runs `work` on this thread, without the interpreter's lock. `work` is given a question to ask now and
/// then: whether a signal handler raised, so that it should end.
pub(crate) fn run_here<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&dyn Fn() -> bool) -> R + Send,
) -> PyResult<R> {
    let (result, raised) = py.detach(|| {
        let (last, raised) = (Cell::new(Instant::now()), Cell::new(None));
        let result = work(&|| {
            if last.get().elapsed() < LOOK {
                return false;
            }
            last.set(Instant::now());
            match Python::attach(|py| py.check_signals()) {
                Ok(()) => false,
                Err(error) => {
                    raised.set(Some(error));
                    true
                }
            }
        });
        (result, raised.into_inner())
    });
    raised.map_or(Ok(result), Err)
}
