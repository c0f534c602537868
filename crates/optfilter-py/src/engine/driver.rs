//! Any filter of the library as a [`Runner`]: whole series into arrays, or one step at a time.

use super::state::State;
use super::{LaneFilter, Live, Report, Rows, Runner, Start, Watch};
use crate::errors::is_pending;
use nalgebra::{DefaultAllocator, Dim};
use optfilter::batch::Estimates;
use optfilter::filter::{Belief, Filter, FilterError};
use optfilter::model::Step;
use optfilter::{Series, Shapes};
use std::sync::Arc;

/// A filter of the library with the settings of its beliefs.
pub(crate) struct Driver<F: Filter>
where
    F::Belief: State,
{
    pub(crate) filter: F,
    pub(crate) settings: <F::Belief as State>::Settings,
    pub(crate) lanes: Option<Box<dyn LaneFilter>>,
}

/// A driver that many threads share.
pub(crate) struct Shared<F: Filter>(pub(crate) Arc<Driver<F>>)
where
    F::Belief: State;

/// A driver's belief on its way.
struct Moving<F: Filter>
where
    F::Belief: State,
{
    driver: Arc<Driver<F>>,
    belief: F::Belief,
    before: Vec<f64>,
}

/// The same error with the last finite estimate in it.
#[cold]
fn with_last_good(error: FilterError, last: &[f64]) -> FilterError {
    match error {
        FilterError::NotPositiveDefinite { quantity, index: Some(index) } => {
            FilterError::Diverged { index, quantity, last_good: last.to_vec() }
        }
        FilterError::Diverged { index, quantity, last_good }
            if last_good.is_empty() || last_good.iter().any(|v| !v.is_finite()) =>
        {
            FilterError::Diverged { index, quantity, last_good: last.to_vec() }
        }
        other => other,
    }
}

#[cold]
fn diverged(index: u64, quantity: &'static str) -> FilterError {
    FilterError::Diverged { index, quantity, last_good: Vec::new() }
}

/// Stands for an exception that waits to be raised, by a callable or by Ctrl-C.
#[cold]
fn interrupted() -> FilterError {
    FilterError::Empty { argument: "callable" }
}

impl<F> Driver<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// Runs the series into `rows`; `done` counts the times that are complete.
    fn run_into(
        &self,
        start: &Start,
        series: &Series<'_>,
        rows: &mut Rows<'_>,
        watch: &Watch<'_>,
        done: &mut usize,
    ) -> Result<(), FilterError> {
        let mut belief = F::Belief::start(&self.settings, start)?;
        let (n, m, _) = self.filter.dims();
        let (n, m) = (n.value(), m.value());
        let mut left = watch.stride;
        for k in 0..series.len() {
            left -= 1;
            if left == 0 {
                left = watch.stride;
                if (watch.stop)() {
                    return Err(interrupted());
                }
            }
            let (step, u) = (series.step(k), series.input(k));
            if k > 0 || !start.at_first {
                self.filter.predict(&mut belief, u, &step)?;
            }
            let update = self.filter.update(&mut belief, series.observation(k), u, &step)?;
            let mean = &mut rows.means[k * n..][..n];
            belief.mean_into(mean);
            if !mean.iter().all(|v| v.is_finite()) {
                return Err(diverged(step.index, "mean"));
            }
            if !rows.covs.is_empty() {
                let cov = &mut rows.covs[k * n * n..][..n * n];
                belief.cov_into(cov);
                if !cov.iter().all(|v| v.is_finite()) {
                    return Err(diverged(step.index, "cov"));
                }
            }
            if !rows.innovations.is_empty() {
                rows.innovations[k * m..][..m].copy_from_slice(update.innovation.as_slice());
            }
            if let (false, Some(s)) = (rows.innovation_covs.is_empty(), &update.innovation_cov) {
                rows.innovation_covs[k * m * m..][..m * m].copy_from_slice(s.as_slice());
            }
            if let (Some(row), Some(value)) =
                (rows.log_likelihoods.get_mut(k), update.log_likelihood)
            {
                *row = value;
            }
            if let (Some(row), Some(value)) = (rows.nis.get_mut(k), update.nis) {
                *row = value;
            }
            *done = k + 1;
        }
        Ok(())
    }
}

impl<F> Runner for Shared<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn dims(&self) -> (usize, usize, usize) {
        let (n, m, inputs) = self.0.filter.dims();
        (n.value(), m.value(), inputs)
    }

    fn has_cov(&self) -> bool {
        F::Belief::HAS_COV
    }

    fn start(&self, start: &Start) -> Result<Box<dyn Live>, FilterError> {
        let belief = F::Belief::start(&self.0.settings, start)?;
        Ok(Box::new(Moving { driver: self.0.clone(), belief, before: start.mean.clone() }))
    }

    fn load(&self, bytes: &[u8]) -> Result<Box<dyn Live>, String> {
        let belief = F::Belief::from_bytes(bytes)?;
        let n = self.dims().0;
        if belief.dim() != n {
            return Err("the saved belief is of another size".into());
        }
        Ok(Box::new(Moving { driver: self.0.clone(), belief, before: vec![0.0; n] }))
    }

    fn run(
        &self,
        start: &Start,
        series: &Series<'_>,
        rows: &mut Rows<'_>,
        watch: &Watch<'_>,
    ) -> Result<(), FilterError> {
        let mut done = 0;
        let result = self.0.run_into(start, series, rows, watch, &mut done);
        let Err(error) = result else { return Ok(()) };
        rows.lose(done, series.len());
        let n = start.mean.len();
        let last = match done {
            0 => start.mean.as_slice(),
            done => &rows.means[(done - 1) * n..][..n],
        };
        Err(with_last_good(error, last))
    }

    fn has_lanes(&self) -> bool {
        self.0.lanes.is_some()
    }

    fn run_lanes(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
    ) -> Option<Result<Estimates, FilterError>> {
        self.0.lanes.as_ref().map(|lanes| lanes.run(starts, series))
    }

    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Option<Vec<f64>> {
        self.0.lanes.as_ref().map(|lanes| lanes.innovations(start, series, means))
    }
}

impl<F> Moving<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// Takes over the belief if it is finite and nothing was raised on the way to it.
    fn accept(
        &mut self,
        next: F::Belief,
        step: &Step,
        quantity: &'static str,
    ) -> Result<(), FilterError> {
        if is_pending() {
            return Err(interrupted());
        }
        if !next.mean().iter().all(|v| v.is_finite()) {
            return Err(with_last_good(diverged(step.index, quantity), &self.before));
        }
        self.belief = next;
        Ok(())
    }
}

impl<F> Live for Moving<F>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError> {
        self.belief.mean_into(&mut self.before);
        let mut next = self.belief.clone();
        self.driver
            .filter
            .predict(&mut next, u, step)
            .map_err(|e| with_last_good(e, &self.before))?;
        self.accept(next, step, "prediction")
    }

    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        report: &mut Report,
    ) -> Result<(), FilterError> {
        self.belief.mean_into(&mut self.before);
        let mut next = self.belief.clone();
        let update = self
            .driver
            .filter
            .update(&mut next, y, u, step)
            .map_err(|e| with_last_good(e, &self.before))?;
        self.accept(next, step, "mean")?;
        report.write(&update);
        Ok(())
    }

    fn mean_into(&self, out: &mut [f64]) {
        self.belief.mean_into(out);
    }

    fn cov_values(&self) -> Option<Vec<f64>> {
        let n = self.before.len();
        F::Belief::HAS_COV.then(|| {
            let mut values = vec![0.0; n * n];
            self.belief.cov_into(&mut values);
            values
        })
    }

    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        self.belief.to_bytes()
    }

    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        self.belief.particles()
    }
}
