//! What smoothers and forecasts ask of a problem, behind one small trait, so that each is written once and for all models.

use crate::choice::{Loss, Method};
use crate::error::{RunError, SpecError};
use crate::problem::{Covariance, LikelihoodSpec, Problem};
use crate::setting::CG;
use crate::settings::FilterSpec;
use crate::spec::MAX_STATES_WITH_BARS;
use nalgebra::{DMatrix, Dim};
use optfilter::Pooled;
use optfilter::Series;
use optfilter::filter::{
    Bounded, Diffuse, DiffuseBelief, ExtendedKalmanFilter, Filter, FilterError, Gated,
    GaussianBelief, UnscentedKalmanFilter,
};
use optfilter::model::likelihood::{AnyLikelihood, Scatter};
use optfilter::model::stretch::process_cov;
use optfilter::model::{Dynamics, Erased, GaussianNoise, Observation, Step};
use optfilter::most_likely::{BestPath, MostLikely, has_one_hill};
use optfilter::rng::Stream;
use std::sync::OnceLock;

/// A belief of any size, of which some directions may be wholly unknown.
pub type DynBelief = DiffuseBelief<Pooled>;

/// A problem with the filter that runs on it, as far as the way back and the way ahead are concerned.
pub trait StateSpace: Send + Sync {
    /// The filter.
    fn method(&self) -> Method;
    /// Whether every measurement scatters by a Gaussian.
    fn is_gaussian(&self) -> bool;
    /// Whether process and measurement noise are known.
    fn has_noise(&self) -> bool;
    /// Whether the path through a window is that of the highest posterior density: it may bend as far as Q says, every row
    /// counts as its likelihood says, and conjugate gradients go to the end.
    fn is_posterior(&self) -> bool;
    /// Whether the path of the highest posterior density is looked for by weighing measurements over and over: where they do not
    /// scatter by Gaussians, the noise is known and the states are few.
    fn has_best_path(&self) -> bool;
    /// That path, of the better of two: from where every measurement counts as a good one, and from the filter's own estimates (T x n).
    fn best_path(
        &self,
        start: (&[f64], &Covariance),
        series: &Series<'_>,
        filtered: &[f64],
        stop: &dyn Fn() -> bool,
    ) -> Result<BestPath<Pooled>, RunError>;
    /// Whether no other path can be better than one that is better than its neighbours.
    fn has_one_hill(&self) -> bool;
    /// Random numbers of trajectory `run`, for a purpose.
    fn stream(&self, run: u64, purpose: &str) -> Stream;
    /// The length of a whole turn of state `i`, if it is an angle.
    fn state_angle(&self, i: usize) -> Option<f64>;
    /// The same of measurement `i`.
    fn angle(&self, i: usize) -> Option<f64>;
    /// The filtered belief before row `k`, given the smoothed one at it.
    fn smooth_back(
        &self,
        filtered: &DynBelief,
        next: &DynBelief,
        series: &Series<'_>,
        k: usize,
    ) -> Result<DynBelief, RunError>;
    /// The filtered belief before a step that was predicted, given the smoothed one after it.
    fn smooth_step(
        &self,
        filtered: &DynBelief,
        next: &DynBelief,
        u: &[f64],
        step: &Step,
    ) -> Result<DynBelief, RunError>;
    /// The covariance of a belief about row `k`, carried there from the row before (unless it is of row `k`) and
    /// narrowed by what was measured in it, all linearised at `path`.
    fn cov_along(
        &self,
        before: &GaussianBelief<Pooled>,
        path: &[f64],
        series: &Series<'_>,
        k: usize,
    ) -> Result<GaussianBelief<Pooled>, RunError>;
    /// Where the dynamics lead from many states, one after the other.
    fn moved(&self, states: &[f64], u: &[f64], step: &Step) -> Vec<f64>;
    /// Q over a step.
    fn process_cov(&self, u: &[f64], step: &Step) -> Result<DMatrix<f64>, RunError>;
    /// Draws a measurement of a state.
    fn draw(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        stream: &mut Stream,
        out: &mut [f64],
    ) -> Result<(), RunError>;
}

// Behind a gate that lets everything through, as the engine has them: other types would be compiled besides.
type Open<F> = Diffuse<Gated<Bounded<F>>, Erased, AnyNoise>;
type Made<F> = OnceLock<Result<Open<F>, SpecError>>;
type AnyNoise = GaussianNoise<Pooled, Pooled>;
type Linear = ExtendedKalmanFilter<Erased, AnyNoise>;
type Points = UnscentedKalmanFilter<Erased, AnyNoise>;

/// The state space of a problem. Filters are made when they are first asked for: they hold matrices.
pub(crate) struct ErasedStateSpace {
    spec: FilterSpec,
    model: Erased,
    problem: Problem,
    linear: Made<Linear>,
    points: Made<Points>,
    likelihood: OnceLock<Result<AnyLikelihood<Pooled>, SpecError>>,
}

impl ErasedStateSpace {
    pub(crate) fn new(spec: FilterSpec, problem: Problem) -> Self {
        Self {
            spec,
            model: problem.model.equations().clone(),
            problem,
            linear: OnceLock::new(),
            points: OnceLock::new(),
            likelihood: OnceLock::new(),
        }
    }

    fn noise(&self) -> Result<AnyNoise, SpecError> {
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        // Dynamics alone need no R.
        let unit = Covariance::Scalar(1.0);
        let r = self.problem.measurement.as_ref().unwrap_or(&unit);
        self.problem.gaussian_noise(n, m, self.spec.process_scale(), Some(r))
    }

    fn open<F: Filter<State = Pooled, Output = Pooled>>(
        &self,
        filter: F,
        linear: Linear,
    ) -> Result<Open<F>, SpecError> {
        let filter = Gated::new(Bounded::new(filter, self.problem.bounds.clone())?, None);
        Ok(Diffuse::new(filter, linear))
    }

    fn linear(&self) -> Result<&Open<Linear>, SpecError> {
        let made = self.linear.get_or_init(|| {
            let filter = ExtendedKalmanFilter::new(self.model.clone(), self.noise()?);
            self.open(filter.clone(), filter)
        });
        made.as_ref().map_err(Clone::clone)
    }

    fn points(&self) -> Result<&Open<Points>, SpecError> {
        let made = self.points.get_or_init(|| {
            let points = self.spec.sigma_points(self.model.state_dim().value());
            let filter = UnscentedKalmanFilter::new(self.model.clone(), self.noise()?, points)?;
            self.open(filter, ExtendedKalmanFilter::new(self.model.clone(), self.noise()?))
        });
        made.as_ref().map_err(Clone::clone)
    }
}

impl StateSpace for ErasedStateSpace {
    fn method(&self) -> Method {
        self.spec.method()
    }

    fn is_gaussian(&self) -> bool {
        self.problem.is_gaussian()
    }

    fn has_noise(&self) -> bool {
        self.problem.process.is_some() && self.problem.measurement.is_some()
    }

    fn is_posterior(&self) -> bool {
        let spec = &self.spec;
        let likelihood = spec.loss != Some(Loss::Squared);
        spec.is_weak() && spec.optimizer() == CG && spec.discount() == 1.0 && likelihood
    }

    fn has_best_path(&self) -> bool {
        let spec = &self.spec;
        let components = matches!(self.problem.likelihood, Some(LikelihoodSpec::Components(_)));
        let scaled =
            spec.method().is_gaussian() || spec.method() == Method::Imap && self.is_posterior();
        let few = self.problem.mean.len() <= MAX_STATES_WITH_BARS;
        components && !self.problem.is_gaussian() && self.problem.process.is_some() && scaled && few
    }

    fn best_path(
        &self,
        start: (&[f64], &Covariance),
        series: &Series<'_>,
        filtered: &[f64],
        stop: &dyn Fn() -> bool,
    ) -> Result<BestPath<Pooled>, RunError> {
        let canonical = self.problem.canonical();
        let problem = canonical.as_ref().unwrap_or(&self.problem);
        let model = problem.model.equations().clone();
        let (n, m) = (model.state_dim(), model.output_dim());
        let unit = Covariance::Scalar(1.0);
        let noise = problem.gaussian_noise(n, m, self.spec.process_scale(), Some(&unit))?;
        let AnyLikelihood::Independent(laws) = problem.likelihood(m, false)? else {
            return Err(SpecError::of("likelihood", "is not of single components").into());
        };
        let search = MostLikely::new(model, noise, laws)?.with_bounds(problem.bounds.clone())?;
        let mean = Pooled::vector(start.0);
        let start = GaussianBelief { mean, cov: start.1.dense(n) };
        let plain = search.path(&start, series, None, stop);
        let own = match filtered.iter().all(|v| v.is_finite()) {
            true => search.path(&start, series, Some(filtered), stop),
            false => return Ok(plain?),
        };
        Ok(match (plain, own) {
            (Ok(mut a), Ok(mut b)) => {
                let passes = a.passes + b.passes;
                (a.passes, b.passes) = (passes, passes);
                if b.loss() < a.loss() { b } else { a }
            }
            // Asked to end, neither is what was asked for.
            (Ok(_), Err(error)) | (Err(error), Ok(_)) if stop() => return Err(error.into()),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => one,
            (Err(error), Err(_)) => return Err(error.into()),
        })
    }

    fn has_one_hill(&self) -> bool {
        let linear = self.problem.model.is_linear() && self.problem.bounds.is_none();
        linear && self.problem.robust_laws().is_some_and(has_one_hill)
    }

    fn stream(&self, run: u64, purpose: &str) -> Stream {
        Stream::new(self.spec.seed(), run, purpose)
    }

    fn state_angle(&self, i: usize) -> Option<f64> {
        self.model.is_state_angle(i).then(|| self.model.state_turn(i))
    }
    fn angle(&self, i: usize) -> Option<f64> {
        self.model.is_angle(i).then(|| self.model.turn(i))
    }

    fn smooth_back(
        &self,
        filtered: &DynBelief,
        next: &DynBelief,
        series: &Series<'_>,
        k: usize,
    ) -> Result<DynBelief, RunError> {
        Ok(match self.spec.method() {
            Method::Ukf => self.points()?.smooth_back(filtered, next, series, k)?,
            _ => self.linear()?.smooth_back(filtered, next, series, k)?,
        })
    }

    fn smooth_step(
        &self,
        filtered: &DynBelief,
        next: &DynBelief,
        u: &[f64],
        step: &Step,
    ) -> Result<DynBelief, RunError> {
        Ok(match self.spec.method() {
            Method::Ukf => self.points()?.smooth_step(filtered, next, u, step)?,
            _ => self.linear()?.smooth_step(filtered, next, u, step)?,
        })
    }

    fn cov_along(
        &self,
        before: &GaussianBelief<Pooled>,
        path: &[f64],
        series: &Series<'_>,
        k: usize,
    ) -> Result<GaussianBelief<Pooled>, RunError> {
        let (filter, step, u) = (self.linear()?.proper(), series.step(k), series.input(k));
        let mut belief = before.clone();
        if series.predicts(k) {
            filter.predict(&mut belief, u, &step)?;
        }
        belief.mean = Pooled::vector(path);
        filter.update(&mut belief, series.observation(k), u, &step)?;
        belief.mean = Pooled::vector(path);
        Ok(belief)
    }

    fn moved(&self, states: &[f64], u: &[f64], step: &Step) -> Vec<f64> {
        if let Some(many) = self.model.transition_many(&|| states.to_vec(), u, step) {
            return many;
        }
        let n = self.model.state_dim().value();
        let mut out = vec![0.0; states.len()];
        for (x, next) in states.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            self.model.transition(x, u, step, next);
        }
        out
    }

    fn process_cov(&self, u: &[f64], step: &Step) -> Result<DMatrix<f64>, RunError> {
        let q = process_cov(&self.model, &self.noise()?, u, step);
        Ok(DMatrix::from_column_slice(q.nrows(), q.ncols(), q.as_slice()))
    }

    fn draw(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        stream: &mut Stream,
        out: &mut [f64],
    ) -> Result<(), RunError> {
        let m = self.model.output_dim();
        let likelihood = self.likelihood.get_or_init(|| self.problem.likelihood(m, false));
        let likelihood = likelihood.as_ref().map_err(Clone::clone)?;
        if let AnyLikelihood::Foreign(_) = likelihood {
            let message = "a density that is only known by its logarithm cannot be drawn from, so there are no forecasts of measurements";
            return Err(SpecError::of("likelihood", message).into());
        }
        let Some(scatter) = Scatter::new(likelihood, m) else {
            let quantity = "measurement_cov (R)";
            let index = Some(step.index);
            return Err(FilterError::NotPositiveDefinite { quantity, index }.into());
        };
        let mut y = Pooled::vector(&vec![0.0; m.value()]);
        self.model.observe(x, u, step, y.as_mut_slice());
        let eta = y.clone();
        scatter.draw(&mut y, stream).map_err(|component| {
            let eta = eta[component];
            FilterError::NothingToDraw { index: step.index, component, eta }
        })?;
        if let Some(write) = self.model.measurement_stretch() {
            let mut factors = vec![1.0; y.len()];
            write(&self.model, u, step, &mut factors);
            for i in 0..y.len() {
                y[i] = eta[i] + (y[i] - eta[i]) * factors[i];
            }
        }
        out.copy_from_slice(y.as_slice());
        Ok(())
    }
}
