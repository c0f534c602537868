//! A model file as a problem: what `optfilter-run` needs to know, and the filter the file asks for.

use crate::file::{LikelihoodKind, ModelSpec};
use crate::made::{self, Made};
use nalgebra::Dyn;
use optfilter::model::Step;
use optfilter::model::likelihood::{
    Bernoulli, Component, Huber, LikelihoodError, Link, Poisson, StudentT,
};
use optfilter::optim::Bounds;
use optfilter_run::{
    Covariance, DynFilter, FilterSpec, LikelihoodSpec, OptimizerChoice, Problem, SimulationError,
    SpecError, build_with, simulate, unmoved,
};
use std::sync::Arc;

impl ModelSpec {
    /// The model with its noise, start and bounds.
    pub fn problem(&self) -> Result<Problem, SpecError> {
        let bounds = match &self.bounds {
            None => None,
            Some(pairs) => {
                let (lower, upper) = pairs.iter().copied().unzip();
                Some(Bounds::new(lower, upper).map_err(|e| SpecError::of("bounds", e))?)
            }
        };
        Ok(Problem {
            model: self.compile().into(),
            dt: self.dt,
            process: self.process_noise.clone(),
            measurement: self.measurement_variances()?,
            likelihood: self.likelihood()?,
            mean: self.initial_mean.clone(),
            cov: self.initial_cov.clone(),
            diffuse: self.diffuse.clone(),
            bounds,
            prior: None,
        })
    }

    /// R: the covariance of the measurements, which under Student's t and Huber's law is wider than the scale that the
    /// file states. `None` where it is not given, or infinite.
    pub fn measurement_variances(&self) -> Result<Option<Covariance>, SpecError> {
        let (Some(cov), Some(LikelihoodSpec::Components(parts))) =
            (&self.measurement_cov, self.likelihood()?)
        else {
            return Ok(self.measurement_cov.clone());
        };
        let wider = |part: &Component| matches!(part, Component::StudentT(_) | Component::Huber(_));
        if !parts.iter().any(wider) {
            return Ok(Some(cov.clone()));
        }
        let mut cov = cov.dense(Dyn(parts.len()));
        for (i, part) in parts.iter().enumerate().filter(|(_, part)| wider(part)) {
            if let Some(variance) = part.variance() {
                let widening = (variance / cov[(i, i)]).sqrt();
                cov.row_mut(i).scale_mut(widening);
                cov.column_mut(i).scale_mut(widening);
                cov[(i, i)] = variance;
            }
        }
        Ok(cov.iter().all(|v| v.is_finite()).then_some(Covariance::Dense(cov)))
    }

    /// How measurements scatter, where not by a Gaussian.
    pub(crate) fn likelihood(&self) -> Result<Option<LikelihoodSpec>, SpecError> {
        if self.likelihoods.iter().all(|l| *l == LikelihoodKind::Gaussian) {
            return Ok(None);
        }
        let wrong = |e: LikelihoodError| SpecError::new(e);
        let mut components = Vec::new();
        for (i, kind) in self.likelihoods.iter().enumerate() {
            let scale = || match &self.measurement_cov {
                Some(cov) => Ok(cov.variance(i).sqrt()),
                None => Err(SpecError::new(format!(
                    "the likelihood of `{}` needs a scale; add [measurement_noise] std = ...",
                    self.observations[i]
                ))),
            };
            components.push(match *kind {
                LikelihoodKind::Gaussian => Component::normal(scale()?).map_err(wrong)?,
                LikelihoodKind::StudentT { dof } => {
                    Component::StudentT(StudentT::new(dof, scale()?).map_err(wrong)?)
                }
                LikelihoodKind::Huber { delta } => {
                    Component::Huber(Huber::new(delta, scale()?).map_err(wrong)?)
                }
                // Links are compiled into the equations, which give the rate and the probability.
                LikelihoodKind::Poisson { .. } => {
                    Component::Poisson(Poisson { link: Link::Identity })
                }
                LikelihoodKind::Bernoulli { .. } => {
                    Component::Bernoulli(Bernoulli { link: Link::Identity })
                }
            });
        }
        Ok(Some(LikelihoodSpec::Components(components)))
    }

    /// Which observations have a law of heavy tails.
    pub fn heavy(&self) -> Vec<bool> {
        let heavy = |l: &LikelihoodKind| {
            matches!(l, LikelihoodKind::StudentT { .. } | LikelihoodKind::Huber { .. })
        };
        self.likelihoods.iter().map(heavy).collect()
    }

    /// The filter that `spec` describes, of this model.
    pub fn runner(&self, spec: &FilterSpec) -> Result<Arc<dyn DynFilter>, SpecError> {
        build_text(spec, &self.problem()?, None, false)
    }

    /// These settings with the filter named: the one that fits the model, where none is.
    pub fn fitted(&self, filter: &FilterSpec) -> Result<FilterSpec, SpecError> {
        Ok(filter.fitted(&self.problem()?))
    }

    /// The same where a likelihood is asked for: where noise is given, a filter that has one.
    pub fn classical(&self, filter: &FilterSpec) -> Result<FilterSpec, SpecError> {
        Ok(filter.classical(&self.problem()?))
    }

    /// These settings of an implicit filter that believes measurements, at a rate that suits the model.
    pub fn believing(&self, filter: &FilterSpec) -> Result<FilterSpec, SpecError> {
        Ok(filter.believing(&self.problem()?))
    }

    /// These settings for smoothing so many rows ([`FilterSpec::smoothing`]).
    pub fn smoothing(&self, filter: &FilterSpec, rows: usize) -> Result<FilterSpec, SpecError> {
        filter.smoothing(&self.problem()?, rows)
    }

    /// The states that no measurement moves under a filter.
    pub fn unmoved(&self, filter: &FilterSpec) -> Vec<&str> {
        let (Ok(problem), Ok(runner)) = (self.problem(), self.runner(filter)) else {
            return Vec::new();
        };
        unmoved(&*runner, &problem).into_iter().map(|i| self.states[i].as_str()).collect()
    }

    /// Draws states and observations, row after row, until `visit` returns `false`. The first row is a draw of
    /// the initial belief, moved by one step if `predict_first`. `inputs` are those of every row.
    pub fn simulate(
        &self,
        rows: usize,
        (seed, run): (u64, u64),
        predict_first: bool,
        inputs: &[f64],
        visit: impl FnMut(&Step, &[f64], &[f64]) -> bool,
    ) -> Result<(), SimulationError> {
        let problem = self.problem()?;
        simulate(&problem, rows, (seed, run), predict_first, inputs, visit)
    }
}

/// A model and its filter: compiled, checked and built once, for all that a command does with them.
#[derive(Clone)]
pub struct Prepared {
    /// What the model file says.
    pub spec: ModelSpec,
    /// The compiled model with its noise, start and bounds.
    pub problem: Problem,
    /// The filter, by name.
    pub filter: FilterSpec,
    /// The filter itself.
    pub runner: Arc<dyn DynFilter>,
}

impl Prepared {
    /// From a model and its problem, and the filter of it.
    pub fn new(spec: ModelSpec, problem: Problem, filter: FilterSpec) -> Result<Self, SpecError> {
        let runner = build_text(&filter, &problem, None, false)?;
        Ok(Self { spec, problem, filter, runner })
    }

    /// The same for smoothing so many rows; itself where that is the same filter.
    pub fn smoothing(&self, rows: usize) -> Result<Self, SpecError> {
        let filter = self.filter.smoothing(&self.problem, rows)?;
        if filter == self.filter {
            return Ok(self.clone());
        }
        Self::new(self.spec.clone(), self.problem.clone(), filter)
    }

    /// The states that no measurement moves.
    pub fn unmoved(&self) -> Vec<&str> {
        let states = unmoved(&*self.runner, &self.problem);
        states.into_iter().map(|i| self.spec.states[i].as_str()).collect()
    }
}

/// [`build_with`], counted: a command builds its filter once. Lanes need the feature `lanes` of `optfilter-run`.
pub fn build_text(
    spec: &FilterSpec,
    problem: &Problem,
    rule: Option<&OptimizerChoice>,
    with_lanes: bool,
) -> Result<Arc<dyn DynFilter>, SpecError> {
    made::count(Made::Filter);
    build_with(spec, problem, rule, with_lanes)
}
