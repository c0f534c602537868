//! Maximum likelihood of models written as text.

use crate::convert::{array, array_of_matrix, as_array, matrix, slice};
use crate::errors::{bad, to_python};
use crate::problem::spec_error;
use crate::threads;
use nalgebra::{DMatrix, Dyn};
use numpy::PyUntypedArrayMethods;
use optfilter_model::ModelSpec;
use optfilter_model::fit::{
    Criterion, FitError, Options, Watch, check_independent, fit_watched, plan, replace_parameters,
};
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::Rows;
use optfilter_run::{Covariance, FilterSpec, ProcessNoise};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A covariance no larger than it must be.
fn covariance(matrix: DMatrix<f64>) -> Covariance {
    let n = matrix.nrows();
    let diagonal = (0..n).all(|i| (0..n).all(|j| i == j || matrix[(i, j)] == 0.0));
    if diagonal {
        Covariance::Diagonal(matrix.diagonal().as_slice().to_vec())
    } else {
        Covariance::Dense(matrix)
    }
}

/// The model of a text with the noise, start and step that Python's model has.
fn read_spec(name: &str, text: &str, changes: &Bound<'_, PyDict>) -> PyResult<ModelSpec> {
    let mut spec = ModelSpec::parse(name, text)
        .map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
    let (n, m) = (spec.states.len(), spec.observations.len());
    let get = |key: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        Ok(changes.get_item(key)?.filter(|v| !v.is_none()))
    };
    if let Some(dt) = get("dt")? {
        spec.dt = dt.extract()?;
    }
    if let Some(q) = get("Q")? {
        let per_time = get("Q_per_time")?.map_or(Ok(false), |v| v.extract())?;
        let cov = covariance(matrix("Q", &q, Some((n, n)))?);
        spec.process_noise = Some(ProcessNoise { cov, per_time });
    }
    if let Some(r) = get("R")? {
        spec.measurement_cov = Some(covariance(matrix("R", &r, Some((m, m)))?));
    }
    if let Some(x0) = get("x0")? {
        crate::convert::fill_vector("x0", Some(&x0), &mut spec.initial_mean)?;
    }
    if let Some(p0) = get("P0")? {
        spec.initial_cov = covariance(matrix("P0", &p0, Some((n, n)))?);
    }
    if let Some(places) = get("diffuse")? {
        spec.diffuse = crate::problem::diffuse(Some(&places), n)?;
    }
    Ok(spec)
}

/// A series of rows (T, m), with times and inputs where there are any.
fn read_series(
    spec: &ModelSpec,
    ys: &Bound<'_, PyAny>,
    ts: Option<&Bound<'_, PyAny>>,
    us: Option<&Bound<'_, PyAny>>,
) -> PyResult<Dataset> {
    let (m, inputs) = (spec.observations.len(), spec.inputs.len());
    let ys = as_array("ys", ys)?;
    if ys.len() % m != 0 {
        return Err(bad("ys", format!("the model has {m} measurements in each row")));
    }
    let rows = ys.len() / m;
    let ts = ts.map(|ts| as_array("ts", ts)).transpose()?;
    let us = us.map(|us| as_array("us", us)).transpose()?;
    if ts.as_ref().is_some_and(|ts| ts.len() != rows) {
        return Err(bad("ts", format!("there must be one time for each of {rows} rows")));
    }
    if us.as_ref().map_or(0, |us| us.len()) != rows * inputs {
        return Err(bad("us", format!("the model reads {inputs} inputs at each of {rows} rows")));
    }
    let ys = slice("ys", &ys)?;
    let ts = ts.as_ref().map(|ts| slice("ts", ts)).transpose()?;
    let us = us.as_ref().map_or(Ok(&[] as &[f64]), |us| slice("us", us))?;
    let mut table = Rows::default();
    table.rows = rows;
    for row in 0..rows {
        table.values.extend(ts.map(|ts| ts[row]));
        table.values.extend_from_slice(&us[row * inputs..(row + 1) * inputs]);
        table.values.extend_from_slice(&ys[row * m..(row + 1) * m]);
    }
    let bare = ModelSpec { time_column: None, ..spec.clone() };
    let layout = Layout::new(&bare, ts.map(|_| "t"));
    Dataset::new(spec, &layout, &table).map_err(|(row, before, after)| {
        bad("ts", format!("run backwards at row {row}: {after} after {before}"))
    })
}

/// Fits a model to series of (ys, ts, us); returns all that `optfilter.FitResult` shows.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // one call, from one place in Python
pub(crate) fn fit_text<'py>(
    py: Python<'py>,
    name: &str,
    text: &str,
    changes: &Bound<'py, PyDict>,
    series: Vec<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>)>,
    free: Vec<String>,
    method: Option<&str>,
    starts: usize,
    seed: u64,
    criterion: Option<&str>,
    window: Option<u32>,
    max_rows: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let spec = read_spec(name, text, changes)?;
    let data = series
        .iter()
        .map(|(ys, ts, us)| read_series(&spec, ys, ts.as_ref(), us.as_ref()))
        .collect::<PyResult<Vec<_>>>()?;
    let flags = match method {
        Some(method) => FilterSpec::of(method).map_err(spec_error)?,
        None => FilterSpec::default(),
    };
    let filter = flags.over(&spec.filter);
    let criterion = criterion.map(Criterion::from_name).transpose().map_err(spec_error)?;
    let options = Options { free, starts, seed, criterion, window, max_rows };
    let to_error = |e: FitError| match e {
        FitError::Spec(error) => spec_error(error),
        FitError::Free(error) => bad("free", error),
        FitError::Filter { series, error } => to_python(py, error, Some(series)),
        other => bad("ys", other),
    };
    let wanted = plan(&spec, &filter, &options).map_err(to_error)?.free;
    // What the file computes, not what Python says instead.
    let of_file = read_spec(name, text, &PyDict::new(py))?;
    check_independent(text, &of_file, &wanted).map_err(|e| bad("free", e))?;
    let searched = spec.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let watch = Watch::new(stop.clone());
    let work = move || fit_watched(&watch, &searched, &filter, &data, &options);
    let found = threads::leave_at_signal(py, &stop, work)?.map_err(to_error)?;
    let model = found.model(&spec);
    let parameters: Vec<(&str, f64)> = wanted
        .iter()
        .filter(|q| spec.parameters.iter().any(|(name, _)| *name == q.name))
        .filter_map(|q| found.estimates.iter().find(|e| e.name == q.name))
        .map(|e| (e.name.as_str(), e.value))
        .collect();
    let out = PyDict::new(py);
    let (params, errors, bounds) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
    for estimate in &found.estimates {
        params.set_item(&estimate.name, estimate.value)?;
        errors.set_item(&estimate.name, estimate.std_error.unwrap_or(f64::NAN))?;
        if let Some(bound) = estimate.at_bound {
            bounds.set_item(&estimate.name, bound)?;
        }
    }
    out.set_item("params", params)?;
    out.set_item("std_errors", errors)?;
    out.set_item("at_bounds", bounds)?;
    let size = found.estimates.len();
    out.set_item("correlations", array(py, found.correlations.concat(), [size, size])?)?;
    out.set_item("method", found.method.name())?;
    out.set_item("criterion", found.criterion.name())?;
    out.set_item("log_likelihood", found.log_likelihood)?;
    out.set_item("aic", found.aic)?;
    out.set_item("bic", found.bic)?;
    out.set_item("rows", found.rows)?;
    out.set_item("measured", found.measured)?;
    out.set_item("windows", found.windows.map(|(count, _)| count))?;
    out.set_item("converged", found.converged)?;
    out.set_item("warnings", &found.warnings)?;
    out.set_item("summary", found.summary(&spec.name))?;
    out.set_item("text", replace_parameters(text, &parameters))?;
    let (n, m) = (Dyn(spec.states.len()), Dyn(spec.observations.len()));
    out.set_item("x0", array(py, model.initial_mean.clone(), [n.0])?)?;
    if let Some(noise) = &model.process_noise {
        out.set_item("Q", array_of_matrix(py, &noise.cov.dense(n))?)?;
    }
    if let Some(cov) = &model.measurement_cov {
        out.set_item("R", array_of_matrix(py, &cov.dense(m))?)?;
    }
    Ok(out)
}
