//! What is to be filtered, read from a dictionary, with errors that name the argument.

use crate::convert::{as_array, check_memory, fill_vector, matrix, slice};
use crate::errors::{bad, take_pending};
use crate::log_prob::PythonLogDensity;
use crate::model::CoreModel;
use crate::optimizer::PythonRule;
use nalgebra::DMatrix;
use numpy::PyUntypedArrayMethods;
use optfilter::model::likelihood::{
    Bernoulli, Component, Foreign, Huber, LikelihoodError, Link, Poisson, StudentT,
};
use optfilter::model::{Dynamics, Observation};
use optfilter::optim::Bounds;
use optfilter_run::{
    AnyModel, CG, Covariance, DynFilter, FilterSpec, LikelihoodSpec, Method, OptimizerChoice,
    Problem, ProcessNoise, SpecError, build_with,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// An error of the engine as a `ValueError` whose text begins with the argument's name.
pub(crate) fn spec_error(error: SpecError) -> PyErr {
    let name = match error.key {
        "" => return pyo3::exceptions::PyValueError::new_err(error.message),
        key => key,
    };
    bad(name, error.message)
}

/// The settings of a filter, from the JSON text that Python made of its arguments.
pub(crate) fn read_spec(text: &str) -> PyResult<FilterSpec> {
    let spec: FilterSpec =
        serde_json::from_str(text).map_err(|e| bad("settings", e.to_string()))?;
    spec.validate().map_err(spec_error)?;
    Ok(spec)
}

/// The table of settings, as JSON.
#[pyfunction]
pub(crate) fn settings() -> PyResult<String> {
    serde_json::to_string(optfilter_run::SETTINGS).map_err(|e| bad("settings", e.to_string()))
}

/// Raises what is wrong with settings, if anything is; otherwise returns them as flags of the command line.
#[pyfunction]
pub(crate) fn check_spec(text: &str) -> PyResult<String> {
    let spec = read_spec(text)?;
    if spec.method().optimizes() && spec.optimizer() != CG {
        spec.rule().map_err(spec_error)?;
    }
    Ok(spec.flags())
}

/// Settings with the filter named that fits the problem, as JSON.
#[pyfunction]
pub(crate) fn fit_spec(
    model: &Bound<'_, CoreModel>,
    text: &str,
    problem: &Bound<'_, PyDict>,
) -> PyResult<String> {
    let problem = read_problem(&model.get().model, problem)?;
    let named = read_spec(text)?.fitted(&problem);
    // What a callable may raise on the way is raised by the filter when it gets there.
    take_pending();
    serde_json::to_string(&named).map_err(|e| bad("settings", e.to_string()))
}

/// The names of all filters.
#[pyfunction]
pub(crate) fn methods() -> Vec<&'static str> {
    Method::NAMES.to_vec()
}

/// Calendar times as seconds since 1970, as tables are read; an error names the first that is none. `pattern` is how they
/// are written, where not by ISO 8601.
#[pyfunction]
#[pyo3(signature = (texts, pattern = None))]
pub(crate) fn parse_times(texts: Vec<String>, pattern: Option<String>) -> PyResult<Vec<f64>> {
    let style = optfilter_model::table::TimeStyle { pattern, epoch: None };
    let parse = |text: &String| {
        style.parse(text).ok_or_else(|| bad("ts", format!("{text:?} is not a time")))
    };
    texts.iter().map(parse).collect()
}

/// A covariance as it was given: one variance, variances, or a matrix.
pub(crate) fn covariance(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Covariance> {
    let array = as_array(name, object)?;
    let values = slice(name, &array)?;
    Ok(match *array.shape() {
        [] => Covariance::Scalar(values[0]),
        [_] => Covariance::Diagonal(values.to_vec()),
        [rows, columns] => Covariance::Dense(DMatrix::from_row_slice(rows, columns, values)),
        _ => return Err(bad(name, "must be a number, a vector of variances or a matrix")),
    })
}

/// Reads the tuple by which `optfilter.likelihoods` describes a likelihood.
pub(crate) fn likelihood(spec: &Bound<'_, PyAny>) -> PyResult<LikelihoodSpec> {
    let name: String = spec.get_item(0)?.extract()?;
    match name.as_str() {
        "squared" => Ok(LikelihoodSpec::Squared),
        "gaussian" => Ok(LikelihoodSpec::Gaussian(covariance("R", &spec.get_item(1)?)?)),
        "independent" => {
            let parts: Vec<(String, f64, f64, bool)> = spec.get_item(1)?.extract()?;
            let components = parts.iter().map(component).collect::<PyResult<_>>()?;
            Ok(LikelihoodSpec::Components(components))
        }
        "log_prob" => {
            let (function, gradient) = (spec.get_item(1)?.unbind(), spec.get_item(2)?);
            let gradient = (!gradient.is_none()).then(|| gradient.unbind());
            let density = PythonLogDensity::new(function, gradient, spec.get_item(3)?.extract()?);
            Ok(LikelihoodSpec::Foreign(Foreign::new(Arc::new(density))))
        }
        _ => Err(bad("likelihood", format!("there is no likelihood called {name:?}"))),
    }
}

/// Whether a step of a filter of the problem runs Python code.
pub(crate) fn is_python(problem: &Problem) -> bool {
    problem.model.is_foreign() || matches!(problem.likelihood, Some(LikelihoodSpec::Foreign(_)))
}

/// One component: kind, shape (degrees of freedom, delta), scale, canonical link.
fn component((kind, shape, scale, canonical): &(String, f64, f64, bool)) -> PyResult<Component> {
    let link = if *canonical { Link::Canonical } else { Link::Identity };
    let named = |e: LikelihoodError| bad(e.name, &e);
    Ok(match kind.as_str() {
        "gaussian" => Component::normal(*scale).map_err(named)?,
        "student_t" => Component::StudentT(StudentT::new(*shape, *scale).map_err(named)?),
        "huber" => Component::Huber(Huber::new(*shape, *scale).map_err(named)?),
        "poisson" => Component::Poisson(Poisson { link }),
        "bernoulli" => Component::Bernoulli(Bernoulli { link }),
        _ => return Err(bad("likelihood", format!("there is no likelihood called {kind:?}"))),
    })
}

/// Raises what is wrong with a likelihood, if anything is.
#[pyfunction]
pub(crate) fn check_likelihood(spec: &Bound<'_, PyAny>) -> PyResult<()> {
    likelihood(spec).map(|_| ())
}

/// Which of `n` states are unknown, by their places.
pub(crate) fn diffuse(places: Option<&Bound<'_, PyAny>>, n: usize) -> PyResult<Vec<bool>> {
    let places: Vec<usize> = places.map_or(Ok(Vec::new()), |places| places.extract())?;
    Ok((0..n).map(|i| places.contains(&i)).collect())
}

/// The problem of a dictionary: dt, x0, P0, diffuse, Q, Q_per_time, R, likelihood, bounds, prior_cov.
pub(crate) fn read_problem(model: &AnyModel, values: &Bound<'_, PyDict>) -> PyResult<Problem> {
    let get = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(values.get_item(key)?.filter(|value| !value.is_none()))
    };
    let cov = |key: &str| get(key)?.map(|object| covariance(key, &object)).transpose();
    let n = model.state_dim().0;
    let dt: f64 = get("dt")?.map_or(Ok(1.0), |dt| dt.extract())?;
    if !(dt.is_finite() && dt > 0.0) {
        return Err(bad("dt", format!("{dt} is not positive and finite")));
    }
    let mut mean = vec![0.0; n];
    if let Some(x0) = get("x0")? {
        fill_vector("x0", Some(&x0), &mut mean)?;
    }
    let per_time = get("Q_per_time")?.map_or(Ok(false), |v| v.extract())?;
    let bounds = match get("bounds")? {
        None => None,
        Some(pair) => {
            let (lower, upper): (Vec<f64>, Vec<f64>) = pair.extract()?;
            Some(
                Bounds::new(lower, upper)
                    .map_err(|e| bad("bounds", e.to_string().trim_start_matches("bounds: ")))?,
            )
        }
    };
    Ok(Problem {
        model: model.clone(),
        dt,
        process: cov("Q")?.map(|cov| ProcessNoise { cov, per_time }),
        measurement: cov("R")?,
        likelihood: get("likelihood")?.map(|l| likelihood(&l)).transpose()?,
        mean,
        cov: cov("P0")?.unwrap_or(Covariance::Scalar(1.0)),
        diffuse: diffuse(get("diffuse")?.as_ref(), n)?,
        bounds,
        prior: cov("prior_cov")?,
    })
}

/// An optimizer that the settings cannot name: a matrix or a callable.
pub(crate) fn read_rule(rule: Option<&Bound<'_, PyAny>>) -> PyResult<Option<OptimizerChoice>> {
    let Some(rule) = rule else { return Ok(None) };
    let kind: String = rule.get_item(0)?.extract()?;
    Ok(Some(match kind.as_str() {
        "matrix" => OptimizerChoice::Matrix(matrix("M", &rule.get_item(1)?, None)?),
        _ => OptimizerChoice::Custom(Arc::new(PythonRule(rule.get_item(1)?.unbind()))),
    }))
}

/// Raises `MemoryError` if a particle filter has no room for a step of `beliefs` beliefs at once.
///
/// A step holds the particles before and after it, their weights and logarithms, and the parents with what they were drawn by;
/// a start holds less. Callables see all particles as an array, and so do we.
pub(crate) fn check_particles(
    spec: &FilterSpec,
    problem: &Problem,
    beliefs: usize,
) -> PyResult<()> {
    if spec.method() != Method::Pf {
        return Ok(());
    }
    let (n, m) = (problem.model.state_dim().0, problem.model.output_dim().0);
    let seen = if is_python(problem) { 4 * n + 2 * m } else { 0 };
    check_memory(&[beliefs, spec.particles() as usize, 2 * n + 6 + seen])
}

/// Raises what is wrong with noise that is given to a filter which does not read it.
pub(crate) fn check_read(
    spec: &FilterSpec,
    problem: &Problem,
    runner: &dyn DynFilter,
    (q, r): (bool, bool),
) -> PyResult<()> {
    let method = spec.method();
    let unread = match &problem.likelihood {
        Some(LikelihoodSpec::Components(_)) => matches!(method, Method::Pf | Method::Vkf),
        Some(LikelihoodSpec::Foreign(_)) => method == Method::Vkf,
        _ => false,
    };
    let own = matches!(
        problem.likelihood,
        Some(LikelihoodSpec::Components(_) | LikelihoodSpec::Foreign(_))
    );
    // The error bars of imap are those of a Gaussian R under any likelihood.
    let unread = unread || own && method == Method::Imap && !runner.has_cov();
    if r && unread {
        let message = format!(
            "{} does not read it: the likelihood has its own scale; give the likelihood another one",
            method.name()
        );
        return Err(bad("R", message));
    }
    if q && method == Method::Vkf && (spec.prior_var.is_some() || problem.prior.is_some()) {
        return Err(bad(
            "Q",
            "vkf does not read it where prior_cov is given; give another prior_cov",
        ));
    }
    Ok(())
}

/// The filter of a problem.
pub(crate) fn build(
    spec: &FilterSpec,
    problem: &Problem,
    rule: Option<&OptimizerChoice>,
) -> PyResult<Arc<dyn DynFilter>> {
    let (n, m) = (problem.model.state_dim().0, problem.model.output_dim().0);
    match spec.method() {
        Method::Imap if spec.error_bars == Some(true) => check_memory(&[6, n, n])?,
        Method::Imap => {}
        Method::Pf => {
            check_particles(spec, problem, 1)?;
            check_memory(&[3, n, n])?;
        }
        Method::Etkf | Method::Letkf => {
            check_memory(&[6, spec.members() as usize, n.max(m)])?;
        }
        _ => check_memory(&[6, n.max(m), n.max(m)])?,
    }
    // Lanes of Python code would be no faster.
    let lanes = !is_python(problem);
    build_with(spec, problem, rule, lanes).map_err(spec_error)
}
