//! Many series of an implicit filter side by side, as lanes of one vector computation.

use crate::error::SpecError;
use crate::optimizer::{AnyRunOptimizer, Stoppable};
use crate::problem::Problem;
use crate::runner::{BatchFilter, InitialState};
use crate::settings::FilterSpec;
use crate::step_timer::StepTimer;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};
use optfilter::batch::{Batch, Estimates};
use optfilter::filter::{FilterError, ImplicitMap, Memory};
use optfilter::model::Model;
use optfilter::model::likelihood::{AnyLikelihood, Likelihood};
use optfilter::optim::{AnyOptimizer, Bounds};
use optfilter::scalar::Scalar;
use optfilter::{Series, Shapes};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An implicit filter with its model.
struct ImplicitBatch<M: Model>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    model: M,
    likelihood: AnyLikelihood<M::Output>,
    bounds: Option<Bounds>,
    /// Whether irregular times are an error.
    even: bool,
    /// As for a series alone.
    filter: ImplicitMap<M, AnyLikelihood<M::Output>, Stoppable<AnyRunOptimizer<M::State>>>,
    /// The same rule for lanes.
    rule: Stoppable<AnyOptimizer>,
}

impl<M> BatchFilter for ImplicitBatch<M>
where
    M: Model + Send + Sync,
    DefaultAllocator: Shapes<M::State, M::Output>,
    OVector<f64, M::State>: Send + Sync,
    AnyLikelihood<M::Output>: Send + Sync,
    AnyRunOptimizer<M::State>: Send + Sync,
{
    fn run(
        &self,
        starts: &[InitialState],
        series: &[Series<'_>],
    ) -> Result<Estimates, FilterError> {
        let n = self.model.state_dim();
        let start = |s: &InitialState| {
            OVector::from_fn_generic(n, U1, |i, _| s.mean.get(i).copied().unwrap_or(f64::NAN))
        };
        let starts: Vec<_> = starts.iter().map(start).collect();
        let mut estimates =
            Batch::new(series.to_vec()).run_by(&self.filter, &self.rule, &starts)?;
        if self.even {
            for (b, series) in series.iter().enumerate() {
                let mut timer = StepTimer::default();
                let checked = (1..series.len()).try_for_each(|k| timer.check(&series.step(k)));
                if let Err(error) = checked {
                    estimates.refuse(b, error);
                }
            }
        }
        Ok(estimates)
    }

    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Vec<f64> {
        let (n, m) = (self.model.state_dim().value(), self.model.output_dim().value());
        let mut out = vec![0.0; series.len() * m];
        let (mut prediction, mut seen) = (vec![0.0; n], vec![0.0; m]);
        for k in 0..series.len() {
            let before = if k == 0 { start } else { &means[(k - 1) * n..k * n] };
            let (step, u, y) = (series.step(k), series.input(k), series.observation(k));
            match series.predicts(k) {
                true => self.model.transition(before, u, &step, &mut prediction),
                false => prediction.copy_from_slice(before),
            }
            if let Some(bounds) = &self.bounds {
                bounds.project(&mut prediction);
            }
            self.model.observe(&prediction, u, &step, &mut seen);
            self.likelihood.expect(&mut seen);
            for i in 0..m {
                let difference = y[i] - seen[i];
                out[k * m + i] = if self.model.is_angle(i) {
                    difference.wrap(self.model.turn(i))
                } else {
                    difference
                };
            }
        }
        out
    }
}

/// Lanes for an implicit filter whose rule is the library's.
pub(crate) fn lanes(
    spec: &FilterSpec,
    problem: &Problem,
    squared: bool,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn BatchFilter>, SpecError> {
    let model = problem.model.equations();
    #[cfg(not(debug_assertions))]
    if let Some(model) = model.sized::<1, 1>() {
        return packed(spec, problem, model, squared, stop);
    }
    if let Some(model) = model.sized::<3, 3>() {
        return packed(spec, problem, model, squared, stop);
    }
    packed(spec, problem, model.clone(), squared, stop)
}

fn packed<M>(
    spec: &FilterSpec,
    problem: &Problem,
    model: M,
    squared: bool,
    stop: &Arc<AtomicBool>,
) -> Result<Box<dyn BatchFilter>, SpecError>
where
    M: Model + Clone + Send + Sync + 'static,
    DefaultAllocator: Shapes<M::State, M::Output>,
    OVector<f64, M::State>: Send + Sync,
    AnyLikelihood<M::Output>: Send + Sync + 'static,
    AnyRunOptimizer<M::State>: Send + Sync + 'static,
{
    let likelihood = problem.likelihood(model.output_dim(), squared)?;
    let rule = Stoppable { rule: spec.rule()?, stop: stop.clone() };
    let alone = Stoppable { rule: AnyRunOptimizer::Native(rule.rule), stop: stop.clone() };
    let mut filter = ImplicitMap::new(model.clone(), likelihood.clone(), alone, spec.steps())
        .map_err(SpecError::from)?;
    if spec.carry() {
        filter = filter.with_memory(Memory::Carry);
    }
    if let Some(bounds) = &problem.bounds {
        filter = filter.with_bounds(bounds.clone()).map_err(SpecError::from)?;
    }
    if problem.widens(spec) {
        filter = filter.widening();
    }
    let (bounds, even) = (problem.bounds.clone(), problem.refuses_irregular(spec));
    Ok(Box::new(ImplicitBatch { model, likelihood, bounds, even, filter, rule }))
}
