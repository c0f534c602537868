//! Maximum likelihood: the parameters, noise and start that a filter predicts a series best with, or that its windows suit best.
//!
//! | step | file |
//! |---|---|
//! | names to quantities, each on a line without ends | `quantity` |
//! | free parameters as further states of the compiled model | `family` |
//! | log-likelihood and exact gradient, by duals through the filter | `objective`, [`optfilter::filter::evidence`] |
//! | the same of windows, whose first states are found and held | `window`, [`optfilter::filter::evidence::best_start`] |
//! | the same by the prediction errors of an implicit filter, by differences | `prediction` |
//! | which of the three, by which filter | `plan` |
//! | units of the rows, and where to begin in them | `units` |
//! | uphill from several starts | `climb` |
//! | bounds, convergence, standard errors, flat directions | `uncertain` |
//! | how far it is, and the way to end it | `watch` |
//! | what people read | `report` |
//! | estimates written into the model file | `save` |
//!
//! ```
//! use optfilter_model::{ModelSpec, fit::{Options, fit}, run::Dataset};
//! let spec = ModelSpec::parse("walk.toml", "system = \"local-level\"")?;
//! let (mut states, mut ys) = (Vec::new(), Vec::new());
//! spec.simulate(400, (1, 0), false, &[], |_, x, y| {
//!     states.extend_from_slice(x);
//!     ys.extend_from_slice(y);
//!     true
//! })?;
//! let data = [Dataset::simulated(&spec, &states, &ys)];
//! let found = fit(&spec, &spec.filter, &data, &Options::default())?;
//! let level = &found.estimates[0];
//! assert_eq!(level.name, "process_noise.level");
//! // The file that made the data says 0.25.
//! assert!((level.value - 0.25).abs() < 3.0 * level.std_error.unwrap());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod climb;
mod family;
mod objective;
mod plan;
mod prediction;
mod quantity;
mod report;
mod save;
mod uncertain;
mod units;
mod watch;
mod window;

pub use objective::Objective;
pub use plan::{Plan, plan};
pub use prediction::Prediction;
pub use quantity::{FreeError, Quantity, quantities};
pub use save::{SaveError, check_independent, replace_parameters, with_estimates};
pub use watch::{Best, Watch};
pub use window::Windows;

use crate::file::ModelSpec;
use crate::run::Dataset;
use optfilter::filter::FilterError;
use optfilter::rng::Stream;
use optfilter_run::{Covariance, FilterSpec, Method, SpecError};
use quantity::Target;
use rayon::prelude::*;
use std::borrow::Cow;
use std::fmt;
use units::Units;

/// What to estimate, and how hard to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Names of quantities or groups; where there are none, the model's `[fit]` table or every noise.
    pub free: Vec<String>,
    /// Climbs: from the model's values in the units of the rows, before that from what the rows tell where that is better, and from
    /// places around.
    pub starts: usize,
    /// Seed of those places.
    pub seed: u64,
    /// What is maximised; what suits the filter, unless given.
    pub criterion: Option<Criterion>,
    /// Past rows of a window; those of the filter, unless given.
    pub window: Option<u32>,
    /// The first rows of each series, at most so many, instead of all.
    pub max_rows: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { free: Vec::new(), starts: 4, seed: 0, criterion: None, window: None, max_rows: None }
    }
}

/// What a fit maximises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The log-likelihood of a Gaussian filter, with exact gradients.
    Likelihood,
    /// That of windows, along paths that follow from first states which are found with the rest; with exact gradients.
    Window,
    /// That of the one-step predictions of an implicit filter; by differences.
    Prediction,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Likelihood, Self::Window, Self::Prediction];

    /// Their names.
    pub const NAMES: [&'static str; 3] = ["likelihood", "window", "prediction"];

    /// The criterion of that name.
    pub fn from_name(name: &str) -> Result<Self, SpecError> {
        let found = Self::ALL.into_iter().find(|criterion| criterion.name() == name);
        let known = Self::NAMES.join(", ");
        found.ok_or_else(|| SpecError::of("criterion", format!("{name:?} is not one of {known}")))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// What is climbed.
trait Landscape: Sync {
    fn quantities(&self) -> &[Quantity];
    fn quantities_mut(&mut self) -> &mut [Quantity];
    fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)>;
}

/// What is free: by the names given, else by the model's `[fit]` table, else all noise, or all parameters where there is no
/// likelihood that process noise could be read from.
pub fn free(
    spec: &ModelSpec,
    criterion: Criterion,
    names: &[String],
) -> Result<Vec<Quantity>, FreeError> {
    let parameters = ["parameters".to_owned()];
    let names = match (names.is_empty(), spec.fit.free.is_empty(), criterion) {
        (false, _, _) => names,
        (true, false, _) => &spec.fit.free,
        (true, true, Criterion::Likelihood) => &[],
        (true, true, Criterion::Window | Criterion::Prediction) => &parameters,
    };
    quantities(spec, names)
}

/// An estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its standard error; none at a bound, or where the likelihood is flat.
    pub std_error: Option<f64>,
    /// Its value in the model file.
    pub start: f64,
    /// The bound that it lies at, if it does.
    pub at_bound: Option<f64>,
    target: Target,
}

/// A model fitted to series.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The estimates, in the order of their names as given.
    pub estimates: Vec<Estimated>,
    /// Their correlations, row by row; NaN where there is no standard error.
    pub correlations: Vec<Vec<f64>>,
    /// The filter.
    pub method: Method,
    /// What it was fitted by.
    pub criterion: Criterion,
    /// The log-likelihood of all series.
    pub log_likelihood: f64,
    /// Twice the number of estimates less twice the log-likelihood; a diffuse state counts as an estimate, and so does the first
    /// state of a window.
    pub aic: f64,
    /// The same with the logarithm of [`measured`](Self::measured) in place of two.
    pub bic: f64,
    /// The number of series.
    pub series: usize,
    /// Rows of all series.
    pub rows: usize,
    /// Rows in which something was measured.
    pub measured: usize,
    /// States that were diffuse.
    pub diffuse: usize,
    /// Windows in which something was measured, where those were fitted, and the most rows of one.
    pub windows: Option<(usize, usize)>,
    /// Components of their first states, which were found with the rest.
    pub first_states: usize,
    /// The log-likelihood that each climb ended at; none where there was no way up from its start.
    pub climbs: Vec<Option<f64>>,
    /// Whether nothing rises at the estimates: gradient, curvature and bounds say so.
    pub converged: bool,
    /// What to know before relying on it.
    pub warnings: Vec<String>,
}

/// Why nothing was fitted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FitError {
    /// A name that cannot be estimated.
    Free(FreeError),
    /// A model or filter without such a likelihood.
    Spec(SpecError),
    /// The filter does not come through a series from the model's own values.
    Filter {
        /// The series, from 0.
        series: usize,
        /// What happened.
        error: FilterError,
    },
    /// A series without a measurement.
    Empty {
        /// The series, from 0.
        series: usize,
    },
    /// It was told to end.
    Stopped,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free(error) => write!(f, "{error}"),
            Self::Spec(error) => write!(f, "{error}"),
            Self::Filter { series, error } => write!(
                f,
                "series {}: the filter fails with the values of the model: {error}; start from others",
                series + 1
            ),
            Self::Empty { series } => write!(f, "series {} holds no measurement", series + 1),
            Self::Stopped => write!(f, "the fit was told to end"),
        }
    }
}

impl std::error::Error for FitError {}

impl From<SpecError> for FitError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

/// Fits a model to one or more series, all with the same values.
pub fn fit(
    spec: &ModelSpec,
    filter: &FilterSpec,
    data: &[Dataset],
    options: &Options,
) -> Result<Fit, FitError> {
    fit_watched(&Watch::default(), spec, filter, data, options)
}

/// [`fit`] beside which somebody looks on; it ends with [`FitError::Stopped`] soon after it is told to.
pub fn fit_watched(
    watch: &Watch,
    spec: &ModelSpec,
    filter: &FilterSpec,
    data: &[Dataset],
    options: &Options,
) -> Result<Fit, FitError> {
    let Plan { filter, criterion, window, free: quantities } = plan(spec, filter, options)?;
    check_bounds(spec)?;
    if criterion == Criterion::Likelihood
        && !(spec.process_laws.is_empty() && spec.measurement_laws.is_empty())
    {
        let message = "noise that is an expression cannot be fitted around yet; give it as numbers to be estimated";
        return Err(SpecError::new(message).into());
    }
    let given: usize = data.iter().map(Dataset::len).sum();
    let data = &*shortened(data, options.max_rows);
    for (series, data) in data.iter().enumerate() {
        if data.outputs.iter().all(|v| v.is_nan()) {
            return Err(FitError::Empty { series });
        }
    }
    let (mut windows, mut first_states, mut spreads) = (None, 0, 0);
    let mut objective: Box<dyn Landscape + '_> = match criterion {
        Criterion::Likelihood => {
            Box::new(Objective::new(spec, &filter, quantities, data)?.watched(watch))
        }
        Criterion::Window => {
            let made = Windows::new(spec, &filter, window, quantities, data)?;
            windows = Some((made.count(), made.longest()));
            first_states = made.first_states();
            Box::new(made)
        }
        Criterion::Prediction => {
            let made = Prediction::new(spec, &filter, quantities, data)?;
            spreads = made.spreads();
            Box::new(made)
        }
    };
    // The filter itself sees the rows once: what it refuses, irregular times among it, is refused here in its words. Windows
    // have looked for themselves, and need no filter.
    for (series, data) in data.iter().enumerate().filter(|_| criterion != Criterion::Window) {
        let unbounded = ModelSpec { bounds: None, ..spec.clone() };
        let seen = data.run(&unbounded, &filter, data.len(), |_, _| {})?;
        seen.map_err(|error| FitError::Filter { series, error })?;
    }
    let units = Units::of(spec, data);
    units.scale(objective.quantities_mut());
    let start: Vec<f64> = objective.quantities().iter().map(|q| q.place(q.start)).collect();
    objective.gradient(&start).map_err(|(series, error)| FitError::Filter { series, error })?;
    let diffuse = spec.diffuse.iter().filter(|d| **d).count();
    let numbers = data.iter().flat_map(|d| &d.outputs).filter(|v| !v.is_nan()).count();
    let numbers = numbers.saturating_sub(diffuse * data.len()).max(1) as f64;
    let places = units::begin(
        objective.quantities(),
        (&units, &start, numbers),
        &passes(&*objective, watch),
    );
    let sizes = units::sizes_of_zero(objective.quantities(), &places, &passes(&*objective, watch));
    objective.quantities_mut().iter_mut().zip(sizes).for_each(|(q, size)| q.scale = size);
    let (quantities, value) = (objective.quantities(), passes(&*objective, watch));
    let climbs: Vec<_> = (0..options.starts.max(1))
        .into_par_iter()
        .map(|run| {
            let mut random = Stream::new(options.seed, run as u64, "fit start");
            let place = places.get(run % places.len().max(1))?;
            let moved = |(z, q): (&f64, &Quantity)| match run < places.len() {
                true => *z,
                false => z + q.reach() * random.normal(),
            };
            let begin = place.iter().zip(quantities).map(moved).collect();
            climb::climb(begin, f64::NEG_INFINITY, &value)
        })
        .collect();
    let ends: Vec<Option<f64>> = climbs.iter().map(|c| c.as_ref().map(|c| c.value)).collect();
    // The first of those that are as high as any.
    let best =
        climbs.into_iter().flatten().reduce(|a, b| if b.value > a.value + 1e-6 { b } else { a });
    if watch.is_stopped() {
        return Err(FitError::Stopped);
    }
    let Some(summit) = best else {
        let message = "no start has a likelihood; give the model other values to start from";
        return Err(SpecError::new(message).into());
    };
    let mut summit = uncertain::settle(summit, quantities, &value);
    let known = uncertain::examine(&mut summit, quantities, &value);
    if watch.is_stopped() {
        return Err(FitError::Stopped);
    }
    let values: Vec<f64> = quantities.iter().zip(&summit.z).map(|(q, &z)| q.value(z).0).collect();
    let estimates: Vec<Estimated> = quantities
        .iter()
        .enumerate()
        .map(|(i, q)| Estimated {
            name: q.name.clone(),
            value: values[i],
            std_error: known.errors[i],
            start: q.start,
            at_bound: summit.z[i].is_infinite().then_some(values[i]),
            target: q.target,
        })
        .collect();
    let is_measured = |data: &Dataset, row: usize| data.output(row).iter().any(|v| !v.is_nan());
    let measured =
        data.iter().map(|d| (0..d.len()).filter(|&row| is_measured(d, row)).count()).sum::<usize>();
    // Every first state of a window is unknown, and counted as such.
    let diffuse = match criterion {
        Criterion::Window => 0,
        _ => diffuse,
    };
    let count = (estimates.len() + diffuse * data.len() + spreads + first_states) as f64;
    let deviance = -2.0 * summit.value;
    let mut out = Fit {
        correlations: known.correlations.row_iter().map(|r| r.iter().copied().collect()).collect(),
        method: filter.method(),
        criterion,
        log_likelihood: summit.value,
        aic: deviance + 2.0 * count,
        bic: deviance + count * (measured as f64).ln(),
        series: data.len(),
        rows: data.iter().map(Dataset::len).sum(),
        measured,
        diffuse,
        windows,
        first_states,
        climbs: ends,
        converged: known.rising.is_none(),
        warnings: Vec::new(),
        estimates,
    };
    out.warnings = report::warnings(&out, &known, spec, given);
    Ok(out)
}

/// Passes through the data that somebody watches. Once told to end, there are no values, and every climb is at its end.
fn passes<'o>(
    objective: &'o dyn Landscape,
    watch: &'o Watch,
) -> impl Fn(&[f64]) -> Option<(f64, Vec<f64>)> + Sync + 'o {
    move |z| {
        let found = if watch.is_stopped() { None } else { objective.gradient(z).ok() };
        let found = found.filter(|(value, _)| value.is_finite() && !watch.is_stopped())?;
        watch.passed(objective.quantities(), z, found.0);
        Some(found)
    }
}

/// The first rows of each series.
fn shortened(data: &[Dataset], rows: Option<usize>) -> Cow<'_, [Dataset]> {
    match rows {
        Some(rows) if data.iter().any(|data| data.len() > rows) => {
            let mut all = data.to_vec();
            all.iter_mut().for_each(|data| data.truncate(rows));
            Cow::Owned(all)
        }
        _ => Cow::Borrowed(data),
    }
}

/// Bounds of what does not exist are a mistake.
fn check_bounds(spec: &ModelSpec) -> Result<(), FitError> {
    for (name, _) in &spec.fit.bounds {
        let error = match quantities(spec, std::slice::from_ref(name)) {
            Ok(found) if found.iter().any(|quantity| quantity.name == *name) => continue,
            Ok(found) => {
                let names: Vec<&str> = found.iter().map(|q| q.name.as_str()).take(3).collect();
                let help = Some(format!("give each its own bounds: {}", names.join(", ")));
                FreeError { name: name.clone(), message: format!("`{name}` is a group"), help }
            }
            Err(error) => error,
        };
        let message = format!("[fit.bounds]: {}", error.message);
        return Err(FitError::Free(FreeError { message, ..error }));
    }
    Ok(())
}

impl Fit {
    /// The model with the estimates in it.
    pub fn model(&self, spec: &ModelSpec) -> ModelSpec {
        placed(spec, self.estimates.iter().map(|e| (e.target, e.value)))
    }
}

/// A model with other values in it.
fn placed(spec: &ModelSpec, values: impl Iterator<Item = (Target, f64)>) -> ModelSpec {
    let mut out = spec.clone();
    for (target, value) in values {
        match target {
            Target::Parameter(i) => out.parameters[i].1 = value,
            Target::Mean(i) => out.initial_mean[i] = value,
            Target::Process(i) => {
                if let Some(noise) = &mut out.process_noise {
                    vary(&mut noise.cov, i, value, spec.states.len());
                }
            }
            Target::Measurement(i) => {
                if let Some(cov) = &mut out.measurement_cov {
                    vary(cov, i, value, spec.observations.len());
                }
            }
        }
    }
    out
}

/// Gives a component of a covariance another variance and leaves its correlations as they are.
fn vary(cov: &mut Covariance, i: usize, variance: f64, n: usize) {
    match cov {
        Covariance::Dense(m) => {
            // What has no variance is not correlated with anything.
            if m[(i, i)] > 0.0 {
                let stretch = (variance / m[(i, i)]).sqrt();
                m.row_mut(i).scale_mut(stretch);
                m.column_mut(i).scale_mut(stretch);
            }
            m[(i, i)] = variance;
        }
        other => {
            let mut all: Vec<f64> = (0..n).map(|j| other.variance(j)).collect();
            all[i] = variance;
            *other = Covariance::Diagonal(all);
        }
    }
}
