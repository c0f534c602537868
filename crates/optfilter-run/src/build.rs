//! From a specification and a problem to a filter: the only place that chooses a type of the library.

use crate::choice::{GatingMode, Loss, Method};
use crate::engine::{Engine, Shared};
use crate::error::{SpecError, check_room};
use crate::flags::RowFlagger;
use crate::gaussian_batch;
use crate::init_belief::InitBelief;
use crate::lanes;
use crate::optimizer::{AnyRunOptimizer, OptimizerChoice, Stoppable};
use crate::problem::{Covariance, LikelihoodSpec, Problem, SlimNoise};
use crate::runner::{Common, DynFilter, GaussianBatch, InitialState};
use crate::setting::CG;
use crate::settings::FilterSpec;
use crate::spec::{MAX_DIRECTIONS, MAX_STATES_WITH_BARS, MAX_STATES_WITH_MATRICES};
use crate::state_space::{ErasedStateSpace, StateSpace};
use nalgebra::{DefaultAllocator, Dim, Dyn, OMatrix, OVector, U1};
use optfilter::Shapes;
use optfilter::filter::{
    Belief, Bounded, Diffuse, EnsembleKalmanFilter, ErrorBars, ExtendedKalmanFilter, Filter, Gate,
    Gated, Gating, ImplicitMap, IteratedKalmanFilter, Localization, Memory, ParticleFilter,
    ProcessFactor, Responsive, Robust, UnscentedKalmanFilter, VariationalKalmanFilter, Window,
    WindowBars,
};
use optfilter::linalg::psd_factor;
use optfilter::model::likelihood::{Component, Gaussian};
use optfilter::model::{Dynamics, Erased, Model, Noise, Observation, Step};
use optfilter::optim::{ConjugateGradients, Preconditioned};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Whether many series can run side by side: a sixth of the machine code, for programs that ask for it.
const LANES: bool = cfg!(feature = "lanes");

/// The filter that `spec` describes, of `problem`.
pub fn build(spec: &FilterSpec, problem: &Problem) -> Result<Arc<dyn DynFilter>, SpecError> {
    build_with(spec, problem, None, false)
}

/// [`build`] with a rule that a specification cannot name, and with lanes for batches if they are wanted (and the feature `lanes` is on).
pub fn build_with(
    spec: &FilterSpec,
    problem: &Problem,
    rule: Option<&OptimizerChoice>,
    with_lanes: bool,
) -> Result<Arc<dyn DynFilter>, SpecError> {
    // Where no filter is named, the one that fits; a rule of the user's own is for imap.
    let named = if rule.is_some() { spec.clone() } else { spec.fitted(problem) };
    let scaled = match named.measurement_scale() {
        1.0 => None,
        k => Some(problem.with_measurement_scale(k)?),
    };
    let problem = scaled.as_ref().unwrap_or(problem);
    // Filters that read the likelihood read it where it is most precise.
    let canonical = match named.method() {
        Method::Imap | Method::Vkf | Method::Pf => problem.canonical(),
        _ => None,
    };
    let problem = canonical.as_ref().unwrap_or(problem);
    let choice = Choice::new(&named, problem, rule)?;
    if named.is_windowed() {
        // A window is long vectors: sizes known to the compiler would gain nothing.
        return choice.windowed(problem.model.equations().clone());
    }
    if choice.is_diffuse() {
        return choice.diffuse(problem.model.equations().clone());
    }
    if let Some(laws) = choice.robust {
        // Several Gaussians are on the heap in any case.
        return choice.robust(problem.model.equations().clone(), laws);
    }
    let model = problem.model.equations();
    // Small sizes also exist as types, where a step allocates nothing.
    macro_rules! sized {
        ($how:ident: $(($n:literal, $m:literal)),*) => {
            $(if let Some(model) = model.sized::<$n, $m>() {
                return choice.$how(model, with_lanes);
            })*
        };
    }
    // One size is enough for tests: all are the same source, and `cargo xtask peers` tests what users get.
    sized!(any: (3, 3));
    #[cfg(not(debug_assertions))]
    {
        sized!(any: (1, 1));
        if matches!(choice.method, Method::Imap | Method::Ekf | Method::Kf) {
            sized!(streaming: (2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2));
        }
    }
    choice.any(model.clone(), with_lanes)
}

/// A specification that fits its problem.
struct Choice<'a> {
    spec: &'a FilterSpec,
    problem: &'a Problem,
    rule: Option<&'a OptimizerChoice>,
    method: Method,
    squared: bool,
    error_bars: bool,
    /// The laws that a Gaussian filter weighs measurements by.
    robust: Option<&'a [Component]>,
    /// What is to be said before a run.
    warning: Option<String>,
}

impl<'a> Choice<'a> {
    /// Checks that the filter can run on the problem.
    fn new(
        spec: &'a FilterSpec,
        problem: &'a Problem,
        rule: Option<&'a OptimizerChoice>,
    ) -> Result<Self, SpecError> {
        spec.validate()?;
        let method = spec.method();
        let name = method.name();
        let (n, m) = (problem.model.state_dim().value(), problem.model.output_dim().value());
        let has_q = problem.process.is_some();
        // Of a density that somebody else computes, R says nothing.
        let foreign = matches!(problem.likelihood, Some(LikelihoodSpec::Foreign(_)));
        let robust = problem.robust_laws().filter(|_| method.is_gaussian() && method != Method::Kf);
        let has_r = (problem.measurement.is_some() || robust.is_some()) && !foreign;
        let explicit_prior = spec.prior_var.is_some() || problem.prior.is_some();
        let needs_q = match method {
            Method::Imap => false,
            Method::Vkf => !explicit_prior,
            // What is not said to be noisy is not.
            Method::Etkf | Method::Letkf => false,
            _ => true,
        };
        if needs_q && !has_q {
            let or = if method == Method::Vkf { " or a prior" } else { "" };
            let message = format!("{name} needs process noise (Q){or}; imap does not");
            return Err(SpecError::of("Q", message));
        }
        let reads_r = matches!(method, Method::Ekf | Method::Iekf | Method::Ukf | Method::Kf);
        if (reads_r || method.is_ensemble()) && !has_r {
            let wide = |part: &Component| part.variance().is_some_and(f64::is_infinite);
            let message = match &problem.likelihood {
                Some(LikelihoodSpec::Foreign(_)) => format!(
                    "{name} takes measurements for gaussian, and this likelihood is a function; use pf, imap or vkf"
                ),
                Some(LikelihoodSpec::Components(parts)) if parts.iter().any(wide) => format!(
                    "{name} needs the variance of the measurements, and student-t has none where dof <= 2; use imap or pf"
                ),
                _ => format!("{name} needs measurement noise (R); imap does not"),
            };
            return Err(SpecError::of("R", message));
        }
        for (key, cov, size) in [
            ("Q", problem.process.as_ref().map(|q| &q.cov), n),
            ("R", problem.measurement.as_ref(), m),
            ("P0", Some(&problem.cov), n),
            ("prior_cov", problem.prior.as_ref(), n),
        ] {
            if cov.is_some_and(|cov| !cov.fits(size)) {
                return Err(SpecError::of(key, format!("must be {size} x {size}")));
            }
        }
        let keeps_matrices = !(method.optimizes() || method.is_ensemble());
        if keeps_matrices && n.max(m) > MAX_STATES_WITH_MATRICES {
            let (size, gigabytes) = (n.max(m), (n.max(m) as f64).powi(2) * 8e-9);
            let message = format!(
                "{name} keeps matrices of {size} x {size} ({gigabytes:.1} GB each); imap, with a window or without, vkf, etkf and letkf keep none"
            );
            return Err(SpecError::of("method", message));
        }
        match method {
            // States, weights and their logarithms, and as many again while they are resampled.
            Method::Pf => check_room("particles", spec.particles() as usize, 3 * n + 6)?,
            // Members before and after, what they predict, and a matrix of pairs of members or of measurements.
            Method::Etkf | Method::Letkf => {
                let members = spec.members() as usize;
                check_room("members", members, 3 * (n + m) + members.min(m))?;
            }
            _ => {}
        }
        if method == Method::Kf {
            if !problem.model.is_linear() {
                let message = "kf is for linear models and this one is not; use ekf, ukf or imap";
                return Err(SpecError::of("method", message));
            }
            if !problem.is_gaussian() {
                let message = "kf is for gaussian measurements; use imap or pf for others";
                return Err(SpecError::of("method", message));
            }
        }
        let gates = spec.gate.is_some() && spec.gating != Some(GatingMode::Flag);
        if gates && robust.is_some() {
            let message = "student-t and huber say already how much an outlier counts; leave the gate out, or write gating = \"flag\"";
            return Err(SpecError::of("gate", message));
        }
        // Without a word, the likelihood where there is one to speak of, else the squared error.
        let squared = match spec.loss {
            Some(Loss::Squared) if !problem.is_gaussian() => {
                let message = "the squared error is no likelihood of these measurements";
                return Err(SpecError::of("loss", message));
            }
            Some(loss) => loss == Loss::Squared,
            None => false,
        };
        if spec.loss == Some(Loss::Likelihood) && problem.likelihood.is_none() && !has_r {
            return Err(SpecError::of("loss", "the likelihood needs measurement noise (R)"));
        }
        if spec.is_windowed() && spec.is_weak() && !has_q {
            let message = "weak needs process noise (Q), which says how far the path may bend";
            return Err(SpecError::of("constraint", message));
        }
        let bends = spec.is_windowed() && spec.is_weak();
        let explicit = spec.prior_var.is_some() || problem.prior.is_some();
        if problem.model.process_stretch().is_some()
            && (bends || method == Method::Vkf && !explicit)
        {
            let message = "process noise that varies from row to row is not for vkf or a weak constraint, which state it \
                           once; use ekf, ukf, pf or imap";
            return Err(SpecError::of("method", message));
        }
        let differentiable = !matches!(rule, Some(OptimizerChoice::Custom(_)));
        let can = has_q && has_r && !spec.carry() && differentiable && !spec.shorten();
        // Error bars of a window cost the cube of what it optimises.
        let optimised = if bends { n.saturating_mul(spec.window().saturating_add(1)) } else { n };
        let error_bars = match spec.error_bars {
            Some(true) if method == Method::Imap && !can => {
                let why = match (has_q, has_r, spec.carry()) {
                    (false, ..) => "they need process noise (Q)",
                    (_, false, _) => "they need measurement noise (R)",
                    (.., true) => "there are none with a carried optimizer state",
                    _ if spec.shorten() => "there are none where the window may be shortened",
                    _ => "they need an optimizer that can be differentiated, not a callable",
                };
                return Err(SpecError::of("error_bars", why));
            }
            Some(asked) => asked,
            None if spec.is_windowed() => can && optimised <= MAX_STATES_WITH_BARS,
            None => can && n + m <= MAX_DIRECTIONS,
        };
        let costly = method == Method::Imap && can && !spec.is_windowed() && n + m > MAX_DIRECTIONS;
        let mut warning = (costly && spec.error_bars != Some(false)).then(|| {
            let cost = format!(
                "{n} states and {m} measurements take about {} times as long as the estimates",
                n + m
            );
            match error_bars {
                true => {
                    format!("the standard deviations of {cost}; error_bars = false leaves them out")
                }
                false => format!(
                    "no standard deviations: those of {cost}; error_bars = true asks for them"
                ),
            }
        });
        if bends && can && spec.error_bars.is_none() && !error_bars {
            warning = Some(format!(
                "no standard deviations: this weak window optimises {optimised} numbers, and they cost the cube of that; \
                 error_bars = true asks for them"
            ));
        }
        let wide = !bends && spec.is_windowed() && optimised > MAX_STATES_WITH_BARS;
        if wide && can && spec.error_bars.is_none() {
            warning = Some(format!(
                "no standard deviations: those of a window over {n} states cost the cube of that; error_bars = true asks for them"
            ));
        }
        if spec.shorten() && has_q && has_r && spec.error_bars.is_none() {
            warning = Some(
                "no standard deviations: there are none where the window may be shortened".into(),
            );
        }
        let reads_start = method != Method::Imap || error_bars || bends;
        let is_exact = reads_r && problem.is_diffuse() && robust.is_none();
        if problem.diffuse.contains(&true) && !is_exact && reads_start {
            let why = match robust {
                Some(_) => "under a robust likelihood".to_owned(),
                None if reads_r => "of a model that is not linear".to_owned(),
                None => format!("under {name}"),
            };
            let said = format!(
                "a diffuse start is exact under kf, ekf, iekf and ukf on linear models only; {why} the start is what its mean and std say"
            );
            warning = Some(warning.map_or(said.clone(), |warning| format!("{said}; {warning}")));
        }
        Ok(Self { spec, problem, rule, method, squared, error_bars, robust, warning })
    }

    /// Any filter.
    fn any<M>(&self, model: M, with_lanes: bool) -> Result<Arc<dyn DynFilter>, SpecError>
    where
        M: Model + Clone + Send + Sync + 'static,
        DefaultAllocator: Shapes<M::State, M::Output>,
        OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
        OVector<f64, M::Output>: Send + Sync,
        OMatrix<f64, M::State, M::State>: Send + Sync + Serialize + DeserializeOwned,
        OMatrix<f64, M::Output, M::Output>: Send + Sync,
    {
        let (n, m) = (model.state_dim(), model.output_dim());
        let wrong = SpecError::from;
        let r = self.problem.measurement.as_ref();
        match self.method {
            Method::Imap | Method::Ekf | Method::Kf => self.streaming(model, with_lanes),
            Method::Iekf => {
                let noise = self.noise(n, m, r)?;
                let stop = Arc::new(AtomicBool::new(false));
                let filter = IteratedKalmanFilter::new(model, noise, self.spec.steps())
                    .map_err(wrong)?
                    .damped()
                    .stopping_at(stop.clone());
                let mut engine = self.engine(self.gated(filter)?, (), stop.clone())?;
                if LANES && with_lanes {
                    engine.common.together = self.together::<M>(&stop)?;
                }
                Ok(Arc::new(Shared(Arc::new(engine))))
            }
            Method::Ukf => {
                let noise = self.noise(n, m, r)?;
                let points = self.spec.sigma_points(n.value());
                let filter = UnscentedKalmanFilter::new(model, noise, points).map_err(wrong)?;
                let stop = Arc::new(AtomicBool::new(false));
                let mut engine = self.engine(self.gated(filter)?, (), stop.clone())?;
                if LANES && with_lanes {
                    engine.common.together = self.together::<M>(&stop)?;
                }
                Ok(Arc::new(Shared(Arc::new(engine))))
            }
            Method::Pf | Method::Etkf | Method::Letkf => {
                self.sampled(self.problem.model.equations().clone())
            }
            Method::Vkf => {
                let likelihood = self.problem.likelihood(m, self.squared)?;
                let prior = self.prior(n, m)?;
                let rule = self.rule(n)?;
                let stop = rule.stop.clone();
                let mut filter = VariationalKalmanFilter::around(
                    model,
                    likelihood,
                    prior,
                    rule,
                    self.spec.steps(),
                )
                .map_err(wrong)?;
                if let Some(bounds) = &self.problem.bounds {
                    filter = filter.with_bounds(bounds.clone()).map_err(wrong)?;
                }
                if self.paced() {
                    filter = filter.with_cadence(self.problem.dt);
                }
                Ok(Arc::new(Shared(Arc::new(self.engine(filter, (), stop)?))))
            }
        }
    }

    /// A filter whose belief is a sample: what its steps cost is the model, and sizes known to the compiler gain less than a
    /// quarter.
    fn sampled(&self, model: Erased) -> Result<Arc<dyn DynFilter>, SpecError> {
        let (n, m) = (model.state_dim(), model.output_dim());
        let wrong = SpecError::from;
        let r = self.problem.measurement.as_ref();
        match self.method {
            Method::Pf => {
                // R only says how widely innovations spread; counts need not state it.
                let unit = Covariance::Scalar(1.0);
                let r = r.unwrap_or(&unit);
                let exact = (0..m.value()).any(|i| r.variance(i) == 0.0);
                let noise = match exact || self.problem.process.is_none() {
                    true => SlimNoise::Joint(self.noise(n, m, Some(r))?),
                    false => self.problem.slim_noise(n, m, self.spec.process_scale(), Some(r))?,
                };
                let likelihood = self.problem.likelihood(m, self.squared)?;
                let filter = ParticleFilter::new(model, likelihood, noise, self.spec.resampling())
                    .map_err(wrong)?;
                let settings = (self.spec.particles() as usize, self.spec.seed());
                self.runner(self.bounded(filter)?, settings)
            }
            _ => {
                let noise = self.problem.slim_noise(n, m, self.spec.process_scale(), r)?;
                let mut filter = EnsembleKalmanFilter::new(model, noise, self.spec.inflation())
                    .map_err(wrong)?;
                if self.spec.rotate() {
                    filter = filter.rotated();
                }
                if self.method == Method::Letkf {
                    filter = filter.local(self.localization()?).map_err(wrong)?;
                }
                let settings = (self.spec.members() as usize, self.spec.seed());
                self.runner(self.bounded(filter)?, settings)
            }
        }
    }

    /// A Gaussian filter whose measurements count by how well they fit.
    fn robust(&self, model: Erased, laws: &[Component]) -> Result<Arc<dyn DynFilter>, SpecError> {
        let noise =
            self.noise(model.state_dim(), model.output_dim(), Some(&Problem::scales(laws)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let laws = laws.to_vec();
        match self.method {
            Method::Iekf => {
                let filter = IteratedKalmanFilter::new(model, noise, self.spec.steps())?
                    .damped()
                    .stopping_at(stop.clone());
                let filter = self.bounded(Robust::new(filter, laws)?)?;
                Ok(Arc::new(Shared(Arc::new(self.engine(filter, (), stop)?))))
            }
            Method::Ukf => {
                let points = self.spec.sigma_points(model.state_dim().value());
                let filter = UnscentedKalmanFilter::new(model, noise, points)?;
                self.runner(self.bounded(Robust::new(filter, laws)?)?, ())
            }
            _ => self.runner(
                self.bounded(Robust::new(ExtendedKalmanFilter::new(model, noise), laws)?)?,
                (),
            ),
        }
    }

    /// How far measurements reach: by places, or by the index.
    fn localization(&self) -> Result<Localization, SpecError> {
        let (spec, radius) = (self.spec, self.spec.radius());
        let made = match (&spec.state_places, &spec.measurement_places) {
            (Some(states), Some(measurements)) => {
                let dims = states.first().map_or(0, Vec::len);
                let never = |v: &f64| if *v == 0.0 { f64::INFINITY } else { *v };
                let period: Option<Vec<f64>> =
                    spec.period.as_ref().map(|p| p.iter().map(never).collect());
                let (states, measurements) = (states.concat(), measurements.concat());
                Localization::places(radius, dims, &states, &measurements, period.as_deref())
            }
            _ => Localization::index(radius, spec.periodic()),
        };
        made.map_err(SpecError::from)
    }

    /// Implicit MAP or extended Kalman. The Kalman filter of a linear model is the extended one: its
    /// derivatives are the matrices.
    fn streaming<M>(&self, model: M, with_lanes: bool) -> Result<Arc<dyn DynFilter>, SpecError>
    where
        M: Model + Clone + Send + Sync + 'static,
        DefaultAllocator: Shapes<M::State, M::Output>,
        OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
        OVector<f64, M::Output>: Send + Sync,
        OMatrix<f64, M::State, M::State>: Send + Sync + Serialize + DeserializeOwned,
        OMatrix<f64, M::Output, M::Output>: Send + Sync,
    {
        let (n, m) = (model.state_dim(), model.output_dim());
        let r = self.problem.measurement.as_ref();
        if self.method != Method::Imap {
            let filter = ExtendedKalmanFilter::new(model, self.noise(n, m, r)?);
            let stop = Arc::new(AtomicBool::new(false));
            let mut engine = self.engine(self.gated(filter)?, (), stop.clone())?;
            if LANES && with_lanes {
                engine.common.together = self.together::<M>(&stop)?;
            }
            return Ok(Arc::new(Shared(Arc::new(engine))));
        }
        let likelihood = self.problem.likelihood(m, self.squared)?;
        let rule = self.rule(n)?;
        let stop = rule.stop.clone();
        let mut filter = ImplicitMap::new(model, likelihood, rule, self.spec.steps())
            .map_err(SpecError::from)?;
        if self.spec.carry() {
            filter = filter.with_memory(Memory::Carry);
        }
        if let Some(bounds) = &self.problem.bounds {
            filter = filter.with_bounds(bounds.clone()).map_err(SpecError::from)?;
        }
        if self.problem.widens(self.spec) {
            filter = filter.widening();
        }
        if self.error_bars {
            let mut filter =
                ErrorBars::new(filter, self.noise(n, m, r)?).map_err(SpecError::from)?;
            if self.spec.strict() {
                filter = filter.strict();
            }
            return Ok(Arc::new(Shared(Arc::new(self.engine(filter, (), stop)?))));
        }
        let mut engine = self.engine(filter, (), stop.clone())?;
        // Lanes leave angles as they are.
        let turns = (0..n.value()).any(|i| self.problem.model.is_state_angle(i));
        if LANES && with_lanes && !turns && self.rule.is_none() {
            engine.common.lanes = Some(lanes::lanes(self.spec, self.problem, self.squared, &stop)?);
        }
        Ok(Arc::new(Shared(Arc::new(engine))))
    }

    /// Many series at once, unless each is faster alone: sizes that the compiler knows leave vectors little to gain but where
    /// covariances are shared.
    fn together<M: Model>(
        &self,
        stop: &Arc<AtomicBool>,
    ) -> Result<Option<Box<dyn GaussianBatch>>, SpecError> {
        let shares =
            self.problem.model.is_linear() && matches!(self.method, Method::Kf | Method::Ekf);
        if M::State::try_to_usize().is_some() && !shares {
            return Ok(None);
        }
        let model = self.problem.model.equations().clone();
        let (n, m) = (model.state_dim(), model.output_dim());
        let noise = self.noise(n, m, self.problem.measurement.as_ref())?;
        gaussian_batch::gaussian_batch(self.spec, self.problem, (model, noise), stop)
    }

    /// The filter inside the problem's bounds.
    fn bounded<F: Filter>(&self, filter: F) -> Result<Bounded<F>, SpecError> {
        Bounded::new(filter, self.problem.bounds.clone()).map_err(SpecError::from)
    }

    /// The same behind the gate, if there is one.
    fn gated<F: Filter>(&self, filter: F) -> Result<Gated<Bounded<F>>, SpecError> {
        let gate = if self.is_gated() { self.spec.gate_of(self.problem)? } else { None };
        Ok(Gated::new(self.bounded(filter)?, gate))
    }

    fn is_gated(&self) -> bool {
        self.spec.gate.is_some() && self.spec.gating != Some(GatingMode::Flag)
    }

    /// Whether the start is unknown, and the filter one that can begin there.
    fn is_diffuse(&self) -> bool {
        let gaussian = matches!(self.method, Method::Ekf | Method::Iekf | Method::Ukf | Method::Kf);
        gaussian && self.problem.is_diffuse() && self.robust.is_none()
    }

    /// A Gaussian filter from a start that is unknown.
    fn diffuse(&self, model: Erased) -> Result<Arc<dyn DynFilter>, SpecError> {
        let (n, m) = (model.state_dim(), model.output_dim());
        let noise = || self.noise(n, m, self.problem.measurement.as_ref());
        let linear = ExtendedKalmanFilter::new(model.clone(), noise()?);
        match self.method {
            Method::Iekf => {
                let filter = IteratedKalmanFilter::new(model, noise()?, self.spec.steps());
                self.runner(Diffuse::new(self.gated(filter.map_err(SpecError::from)?)?, linear), ())
            }
            Method::Ukf => {
                let points = self.spec.sigma_points(n.value());
                let filter =
                    UnscentedKalmanFilter::new(model, noise()?, points).map_err(SpecError::from)?;
                self.runner(Diffuse::new(self.gated(filter)?, linear), ())
            }
            _ => self.runner(Diffuse::new(self.gated(linear.clone())?, linear), ()),
        }
    }

    /// Implicit MAP over a window.
    fn windowed(&self, model: Erased) -> Result<Arc<dyn DynFilter>, SpecError> {
        if self.spec.optimizer() == CG && self.rule.is_none() {
            let stop = Arc::new(AtomicBool::new(false));
            let rule = ConjugateGradients::default()
                .stopping_at(stop.clone())
                .with_probes(self.spec.probes());
            return self.window_of(model, rule, stop);
        }
        let rule = self.rule(model.state_dim())?;
        let stop = rule.stop.clone();
        self.window_of(model, rule, stop)
    }

    fn window_of<R>(
        &self,
        model: Erased,
        rule: R,
        stop: Arc<AtomicBool>,
    ) -> Result<Arc<dyn DynFilter>, SpecError>
    where
        R: Responsive + Send + Sync + 'static,
        R::Memory: Send + Sync + Serialize + DeserializeOwned + 'static,
    {
        let (n, m) = (model.state_dim(), model.output_dim());
        let likelihood = self.problem.likelihood(m, self.squared)?;
        let wrong = SpecError::from;
        let mut filter =
            Window::new(model, likelihood, rule, self.spec.steps(), self.spec.window())
                .and_then(|window| window.with_discount(self.spec.discount()))
                .map_err(wrong)?;
        if self.spec.shorten() {
            filter = filter.shortening();
        }
        if self.spec.carry() {
            filter = filter.with_memory(Memory::Carry).map_err(wrong)?;
        }
        if let Some(bounds) = &self.problem.bounds {
            filter = filter.with_bounds(bounds.clone()).map_err(wrong)?;
        }
        if self.spec.is_weak() {
            let initial = factor_of("P0", &self.problem.cov, n.value())?;
            filter = filter.weak(self.process_factors(n.value())?, initial).map_err(wrong)?;
        }
        if !self.error_bars {
            return Ok(Arc::new(Shared(Arc::new(self.engine(filter, (), stop)?))));
        }
        let noise = self.noise(n, m, self.problem.measurement.as_ref())?;
        let mut filter = WindowBars::new(filter, noise).map_err(wrong)?;
        if self.spec.strict() {
            filter = filter.strict();
        }
        Ok(Arc::new(Shared(Arc::new(self.engine(filter, (), stop)?))))
    }

    /// C with C C' = Q over a step.
    fn process_factors(
        &self,
        n: usize,
    ) -> Result<impl Fn(&Step) -> Arc<ProcessFactor> + Send + Sync + 'static, SpecError> {
        let missing = || SpecError::of("Q", "a weak constraint needs process noise");
        let q = self.problem.process.as_ref().ok_or_else(missing)?;
        let fixed = Arc::new(factor_of("Q", &q.cov.scaled(self.spec.process_scale()), n)?);
        let per_time = q.per_time;
        // Integrated exactly over every step, where that can be had.
        let noise = match per_time && self.problem.model.drift().is_some() {
            true => Some(self.noise(Dyn(n), Dyn(1), Some(&Covariance::Scalar(1.0)))?),
            false => None,
        };
        Ok(move |step: &Step| {
            let exact = noise.as_ref().and_then(|noise| psd_factor(&noise.process_cov(step)));
            match (exact, per_time, &*fixed) {
                (Some(factor), ..) => Arc::new(ProcessFactor::Dense(factor)),
                (None, false, _) => fixed.clone(),
                (None, true, ProcessFactor::Diagonal(c)) => {
                    let root = step.dt.sqrt();
                    Arc::new(ProcessFactor::Diagonal(c.iter().map(|c| c * root).collect()))
                }
                (None, true, ProcessFactor::Dense(c)) => {
                    Arc::new(ProcessFactor::Dense(c * step.dt.sqrt()))
                }
            }
        })
    }

    fn runner<F>(
        &self,
        filter: F,
        settings: <F::Belief as InitBelief<F::State>>::Settings,
    ) -> Result<Arc<dyn DynFilter>, SpecError>
    where
        F: Filter + Send + Sync + 'static,
        F::Belief: InitBelief<F::State>,
        DefaultAllocator: Shapes<F::State, F::Output>,
    {
        let stop = Arc::new(AtomicBool::new(false));
        Ok(Arc::new(Shared(Arc::new(self.engine(filter, settings, stop)?))))
    }

    fn engine<F>(
        &self,
        filter: F,
        settings: <F::Belief as InitBelief<F::State>>::Settings,
        stop: Arc<AtomicBool>,
    ) -> Result<Engine<F>, SpecError>
    where
        F: Filter,
        F::Belief: InitBelief<F::State>,
        DefaultAllocator: Shapes<F::State, F::Output>,
    {
        let mut common = self.common(stop)?;
        let (n, _, inputs) = filter.dims();
        (common.has_cov, common.lag) = (F::Belief::has_cov(n.value()), filter.lag());
        common.dims.2 = inputs;
        // A start that cannot be is said now, not at the first row.
        F::Belief::can_begin(&settings, filter.dims().0, &common.start).map_err(SpecError::from)?;
        Ok(Engine { filter, settings, common })
    }

    /// What an engine needs besides its filter.
    fn common(&self, stop: Arc<AtomicBool>) -> Result<Common, SpecError> {
        let model = &self.problem.model;
        let (n, m) = (model.state_dim().value(), model.output_dim().value());
        let problem = self.problem.clone();
        let (spec, seen) = (self.spec.clone(), self.problem.clone());
        let point = self.method == Method::Imap && !self.spec.is_windowed();
        let widens = point && self.problem.widens(self.spec) || self.paced();
        let even = self.problem.refuses_irregular(self.spec);
        let start = InitialState {
            mean: self.problem.mean.clone(),
            cov: self.problem.cov.clone(),
            diffuse: self.problem.diffuse.clone(),
            run: 0,
        };
        Ok(Common {
            dims: (n, m, model.input_dim()),
            has_cov: false,
            lag: None,
            start,
            kind: format!(
                "{} {n}x{m}{}{}{}{}",
                self.method.name(),
                if widens || even { " in time" } else { "" },
                if self.is_diffuse() { " from anywhere" } else { "" },
                if self.is_gated() { " behind a gate" } else { "" },
                if self.robust.is_some() { " robust" } else { "" }
            ),
            widens,
            even,
            is_gated: self.is_gated(),
            state_angles: (0..n)
                .map(|i| model.is_state_angle(i).then(|| model.state_turn(i)))
                .collect(),
            discrete: problem.discrete(m),
            warning: self.warning.clone(),
            form: self.robust.map(form_of),
            flagger: RowFlagger::new(m, self.spec.gate_of(&problem)?, problem.bounds.clone())?,
            expected: Box::new(move |x, u, step, out| problem.expected(x, u, step, out)),
            companion: {
                let (spec, problem) = (self.spec.clone(), self.problem.clone());
                Box::new(move || companion(&spec, &problem))
            },
            state_space: Box::new(move || {
                Box::new(ErasedStateSpace::new(spec.clone(), seen.clone())) as Box<dyn StateSpace>
            }),
            lanes: None,
            together: None,
            stop,
        })
    }

    /// Whether the prior of vkf is Q over the time since the last measurement.
    fn paced(&self) -> bool {
        let explicit = self.spec.prior_var.is_some() || self.problem.prior.is_some();
        let per_time = self.problem.process.as_ref().is_some_and(|q| q.per_time);
        self.method == Method::Vkf && !explicit && per_time
    }

    fn noise<N: Dim, D: Dim>(
        &self,
        n: N,
        m: D,
        r: Option<&Covariance>,
    ) -> Result<optfilter::model::GaussianNoise<N, D>, SpecError>
    where
        DefaultAllocator: Shapes<N, D>,
    {
        self.problem.gaussian_noise(n, m, self.spec.process_scale(), r)
    }

    /// The prior of vkf: as given, else Q over a step. No matrix where its components are independent.
    fn prior<N: Dim, D: Dim>(&self, n: N, m: D) -> Result<Gaussian<N>, SpecError>
    where
        DefaultAllocator: Shapes<N, D>,
    {
        let wrong = |key: &'static str| {
            SpecError::of(key, "must be positive definite: vkf needs a variance in every state")
        };
        let given = self.spec.prior_var.map(Covariance::Scalar);
        if let Some(prior) = given.as_ref().or(self.problem.prior.as_ref()) {
            let made = match prior {
                Covariance::Dense(_) => Gaussian::new(prior.dense(n)),
                each => {
                    Gaussian::diagonal(OVector::from_fn_generic(n, U1, |i, _| each.variance(i)))
                }
            };
            return made.map_err(|_| wrong("prior_cov"));
        }
        let (unit, step) = (Covariance::Scalar(1.0), Step::even(1, self.problem.dt));
        let noise = self.problem.slim_noise(n, m, self.spec.process_scale(), Some(&unit))?;
        let mut variances = OVector::zeros_generic(n, U1);
        let made = match noise.process_variances(&step, variances.as_mut_slice()) {
            true => Gaussian::diagonal(variances),
            false => Gaussian::new(noise.process_cov(&step)),
        };
        made.map_err(|_| wrong("Q"))
    }

    fn rule<N: Dim>(&self, n: N) -> Result<Stoppable<AnyRunOptimizer<N>>, SpecError>
    where
        DefaultAllocator: nalgebra::allocator::Allocator<N, N>,
    {
        let rule = match self.rule {
            None => AnyRunOptimizer::Native(self.spec.rule()?),
            Some(OptimizerChoice::Custom(rule)) => AnyRunOptimizer::Custom(rule.clone()),
            Some(OptimizerChoice::Matrix(matrix)) => {
                let size = n.value();
                if matrix.shape() != (size, size) {
                    let message = format!("must be {size} x {size} like the model's state");
                    return Err(SpecError::of("M", message));
                }
                let matrix = Covariance::Dense(matrix.clone()).dense(n);
                AnyRunOptimizer::Matrix(
                    Preconditioned::new(matrix).map_err(|e| SpecError::of("M", e))?,
                )
            }
        };
        Ok(Stoppable { rule, stop: Arc::new(AtomicBool::new(false)) })
    }
}

impl FilterSpec {
    /// The gate, if there is one: each sensor's, as R says which components belong together.
    pub(crate) fn gate_of(&self, problem: &Problem) -> Result<Option<Gate>, SpecError> {
        let Some(share) = self.gate else { return Ok(None) };
        let gating = match self.gating.unwrap_or_default() {
            GatingMode::Reject | GatingMode::Flag => Gating::Reject,
            GatingMode::Inflate => Gating::Inflate,
        };
        let gate = Gate::new(share, gating, problem.model.output_dim().value())?;
        let correlated = |i: usize, j: usize| match &problem.measurement {
            Some(Covariance::Dense(r)) => r[(i, j)] != 0.0 || r[(j, i)] != 0.0,
            _ => false,
        };
        Ok(Some(gate.by_sensor(correlated)))
    }
}

/// The filter that says what the rows up to each say, where a window over all rows would be descended anew in every row.
fn companion(spec: &FilterSpec, problem: &Problem) -> Result<Arc<dyn DynFilter>, SpecError> {
    let usual = match problem.robust_laws() {
        Some(_) => FilterSpec { method: Some(Method::Ekf), ..FilterSpec::default() },
        None => FilterSpec::default().believing(problem),
    };
    let FilterSpec { process_scale, predict_first, irregular, .. } = *spec;
    build(&FilterSpec { process_scale, predict_first, irregular, ..usual }, problem)
}

/// What is said of a robust filter.
fn form_of(laws: &[Component]) -> String {
    let has = |of: fn(&Component) -> bool| laws.iter().any(of);
    let names = [
        (has(|law| matches!(law, Component::StudentT(_))), "student-t"),
        (has(|law| matches!(law, Component::Huber(_))), "huber"),
    ];
    let names: Vec<&str> = names.into_iter().filter(|(is, _)| *is).map(|(_, name)| name).collect();
    format!("robust: {}", names.join(" and "))
}

/// C with C C' = the covariance of `n` states, which is called `key`.
fn factor_of(key: &'static str, cov: &Covariance, n: usize) -> Result<ProcessFactor, SpecError> {
    let wrong = || SpecError::of(key, "must be finite, symmetric and positive semi-definite");
    Ok(match cov {
        Covariance::Dense(cov) => ProcessFactor::Dense(psd_factor(cov).ok_or_else(wrong)?),
        cov => ProcessFactor::Diagonal((0..n).map(|i| cov.variance(i).sqrt()).collect()),
    })
}
