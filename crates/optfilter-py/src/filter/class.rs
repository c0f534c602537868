//! What a filter of Python holds.

use super::moving::Moving;
use crate::errors::stopping_at_exceptions;
use crate::problem::{build, check_read};
use crate::threads;
use optfilter_run::{
    Covariance, DynFilter, FilterSpec, InitialState, OnlineFilter, OptimizerChoice, Problem,
    ProcessNoise,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A filter. The classes of `optfilter.filters` derive from it.
#[pyclass(frozen, subclass, module = "optfilter._core")]
pub(crate) struct CoreFilter {
    pub(super) spec: FilterSpec,
    pub(super) rule: Option<OptimizerChoice>,
    pub(super) built: RwLock<Built>,
    pub(super) sizes: (usize, usize, usize),
    /// Whether steps call Python: those must stay on the calling thread.
    pub(super) python: bool,
    /// Whether a step is long enough to let other threads run meanwhile.
    pub(super) heavy: bool,
    pub(super) moving: Mutex<Moving>,
    /// The thread that holds `moving`, or 0.
    pub(super) owner: AtomicU64,
}

/// What changes only when the user assigns noise.
#[derive(Clone)]
pub(super) struct Built {
    pub(super) problem: Problem,
    pub(super) runner: Arc<dyn DynFilter>,
}

impl CoreFilter {
    pub(super) fn built(&self) -> Built {
        self.built.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn runner(&self) -> Arc<dyn DynFilter> {
        self.built.read().unwrap_or_else(PoisonError::into_inner).runner.clone()
    }

    pub(super) fn start(&self) -> InitialState {
        self.runner().default_start().clone()
    }

    /// Runs a step, letting other threads run meanwhile if it is long, and ending it at a signal.
    pub(super) fn step<R: Send>(
        &self,
        py: Python<'_>,
        runner: &dyn DynFilter,
        f: impl FnOnce() -> R + Send,
    ) -> PyResult<R> {
        let stop = runner.stop_flag();
        if self.python {
            return Ok(stopping_at_exceptions(&stop, f));
        }
        if !self.heavy {
            return Ok(f());
        }
        let result = threads::install(py, &stop, f);
        stop.store(false, Ordering::Relaxed);
        result
    }

    /// The filter with other noise, and the belief of `live` in it.
    pub(super) fn with_noise(
        &self,
        q: Option<Covariance>,
        r: Option<Covariance>,
        live: &dyn OnlineFilter,
    ) -> PyResult<(Built, Box<dyn OnlineFilter>)> {
        let mut problem = self.built().problem;
        let given = (q.is_some(), r.is_some());
        check_read(&self.spec, &problem, &*self.runner(), given)?;
        if let Some(cov) = q {
            let per_time = problem.process.as_ref().is_some_and(|q| q.per_time);
            problem.process = Some(ProcessNoise { cov, per_time });
        }
        if let Some(r) = r {
            problem.measurement = Some(r);
        }
        let runner = build(&self.spec, &problem, self.rule.as_ref())?;
        let wrong = |e| PyValueError::new_err(format!("{e}"));
        let bytes = live.save().map_err(wrong)?;
        let moved = runner.load(&bytes).map_err(wrong)?;
        Ok((Built { problem, runner }, moved))
    }
}
