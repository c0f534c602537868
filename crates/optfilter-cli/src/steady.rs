//! `optfilter explain --method kf` and the other filters that carry a covariance: where it settles, and the gain there.
//!
//! Of a filter that linearises, row after row, P' = F P F^T + Q, G = P' H^T (H P' H^T + R)^-1 and P = (I - G H) P', from
//! the initial covariance until the gain stands still. The unscented and the particle filter agree with it as far as the
//! model is close to linear.

use crate::failure::Failure;
use crate::matrix::{matrix_rows, write_matrix};
use crate::style;
use nalgebra::{DMatrix, Dyn};
use optfilter::model::{Step, linearize_transition};
use optfilter_model::ModelSpec;
use optfilter_run::{FilterSpec, Linearized, Method};
use std::fmt::Write;

/// Rows after which a gain that still moves is said to.
const MAX_ROWS: usize = 100_000;

/// Where the covariance goes.
struct Steady {
    /// Rows until the gain stands still; none if it never does.
    rows: Option<usize>,
    /// F: n x n, and the process noise of a step.
    f: DMatrix<f64>,
    q: DMatrix<f64>,
    /// Before a measurement, and after it.
    predicted: DMatrix<f64>,
    filtered: DMatrix<f64>,
    /// G: n x m.
    gain: DMatrix<f64>,
}

fn steady(
    spec: &ModelSpec,
    filter: &FilterSpec,
    at: &Linearized,
    step: &Step,
    u: &[f64],
) -> Option<Steady> {
    let n = spec.states.len();
    let (_, f) = linearize_transition(&spec.compile(), &at.state, u, step);
    let noise = spec.process_noise.as_ref()?;
    let scale = filter.process_scale() * if noise.per_time { step.dt } else { 1.0 };
    let q: DMatrix<f64> = noise.cov.scaled(scale).dense(Dyn(n));
    let mut filtered: DMatrix<f64> = spec.initial_cov.dense(Dyn(n));
    let mut predicted = filtered.clone();
    let mut gain = DMatrix::zeros(n, spec.observations.len());
    let mut rows = None;
    for row in 1..=MAX_ROWS {
        predicted = &f * &filtered * f.transpose() + &q;
        let new = at.gain(&predicted)?;
        filtered = &predicted - &new * &at.h * &predicted;
        filtered = (&filtered + filtered.transpose()) * 0.5;
        if !filtered.iter().chain(new.iter()).all(|v| v.is_finite()) {
            return None;
        }
        let change = (&new - &gain).amax();
        gain = new;
        if change <= 1e-12 * gain.amax() {
            rows = Some(row);
            break;
        }
    }
    Some(Steady { rows, f, q, predicted, filtered, gain })
}

/// The page, as text or as JSON.
pub fn page(
    spec: &ModelSpec,
    filter: &FilterSpec,
    at: &Linearized,
    (step, u): (&Step, &[f64]),
    json: bool,
) -> Result<String, Failure> {
    let Some(steady) = steady(spec, filter, at, step, u) else {
        return Err(Failure::usage(
            "linearised at this state the covariance leaves the finite numbers: a state that grows is not seen",
        ));
    };
    if json {
        let value = serde_json::json!({
            "method": filter.method(),
            "settings": filter.filled(),
            "state": at.state,
            "transition_matrix": matrix_rows(&steady.f),
            "process_cov": matrix_rows(&steady.q),
            "observation_matrix": matrix_rows(&at.h),
            "measurement_cov": matrix_rows(&at.r),
            "rows_to_settle": steady.rows,
            "predicted_cov": matrix_rows(&steady.predicted),
            "gain": matrix_rows(&steady.gain),
            "filtered_cov": matrix_rows(&steady.filtered),
        });
        return Ok(format!("{value}\n"));
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, spec, filter, at, &steady);
    Ok(out)
}

fn write_page(
    out: &mut String,
    spec: &ModelSpec,
    filter: &FilterSpec,
    at: &Linearized,
    steady: &Steady,
) -> std::fmt::Result {
    writeln!(out, "{}\n{}\n", spec.name, filter.flags())?;
    let named = spec.states.iter().zip(&at.state);
    let state: Vec<_> = named.map(|(n, v)| format!("{n} = {}", style::short(*v))).collect();
    writeln!(out, "Linearised at {}\n", state.join(", "))?;
    match steady.rows {
        Some(rows) => writeln!(out, "The gain stands still after {rows} rows\n")?,
        None => writeln!(out, "The gain still moves after {MAX_ROWS} rows\n")?,
    }
    if matches!(filter.method(), Method::Ukf | Method::Pf | Method::Iekf) {
        let name = filter.method().name();
        writeln!(
            out,
            "(As of the extended Kalman filter; {name} agrees where the model is close to linear.)\n"
        )?;
    }
    writeln!(out, "Covariance before a measurement")?;
    write_matrix(out, &steady.predicted, &spec.states, &spec.states)?;
    writeln!(out, "\nGain (change of the state per unit of surprise)")?;
    write_matrix(out, &steady.gain, &spec.states, &spec.observations)?;
    writeln!(out, "\nCovariance after it")?;
    write_matrix(out, &steady.filtered, &spec.states, &spec.states)
}
