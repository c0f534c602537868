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
mod error;
mod family;
mod fitted;
mod landscape;
mod objective;
mod options;
mod placed;
mod plan;
mod prediction;
mod quantity;
mod report;
mod save;
mod uncertain;
mod units;
mod watch;
mod window;

pub use error::FitError;
pub use fitted::{Estimated, Fit};
pub use objective::Objective;
pub use options::{Criterion, Options};
pub use plan::{Plan, free, plan};
pub use prediction::Prediction;
pub use quantity::{FreeError, Quantity, quantities};
pub use save::{SaveError, check_independent, replace_parameters, with_estimates};
pub use watch::{Best, Watch};
pub use window::Windows;

use crate::file::ModelSpec;
use crate::run::Dataset;
use landscape::Landscape;
use optfilter::rng::Stream;
use optfilter_run::{FilterSpec, SpecError};
use rayon::prelude::*;
use std::borrow::Cow;
use units::Units;

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
