//! Draws from a model file: states and measurements under its own likelihood.
//!
//! The library simulates Gaussian measurements; a model file may also say counts, binary data or heavy
//! tails, so measurements are drawn here by likelihood. Row 1 is a draw of the initial belief.

use super::plan::PlanError;
use super::stream::Clock;
use crate::draw::{gamma, huber, poisson};
use crate::file::{LikelihoodKind, ModelSpec};
use nalgebra::{DMatrix, DVector};
use optfilter::linalg::psd_factor;
use optfilter::model::{Dynamics, Observation};
use optfilter::rng::Stream;

/// States and observations, row after row.
pub fn simulate(
    spec: &ModelSpec,
    rows: usize,
    seed: u64,
    mut visit: impl FnMut(f64, &[f64], &[f64]) -> bool,
) -> Result<(), PlanError> {
    if !spec.inputs.is_empty() {
        return Err(PlanError::new(format!(
            "the model reads inputs ({}), which cannot be simulated",
            spec.inputs.join(", ")
        )));
    }
    let noise = spec.process_noise.as_ref();
    let noise =
        noise.ok_or_else(|| PlanError::new("to simulate, the model needs [process_noise]"))?;
    let factor = |cov: &DMatrix<f64>| {
        psd_factor(cov).ok_or_else(|| PlanError::new("a covariance of the model is not one"))
    };
    let process = factor(&noise.cov)?;
    let initial = factor(&spec.initial_cov)?;
    let gaussian = spec.likelihoods.iter().all(|l| *l == LikelihoodKind::Gaussian);
    let measurement = match &spec.measurement_cov {
        Some(cov) if gaussian => Some(factor(cov)?),
        _ => None,
    };
    let model = spec.compile();
    let (n, m) = (spec.states.len(), spec.observations.len());
    let mut process_stream = Stream::new(seed, 0, "process noise");
    let mut measurement_stream = Stream::new(seed, 0, "measurement noise");
    let mut draw = |factor: &DMatrix<f64>, scale: f64| -> DVector<f64> {
        let z = DVector::from_fn(n, |_, _| process_stream.normal());
        factor * z * scale
    };
    let mut x = DVector::from_column_slice(&spec.initial_mean) + draw(&initial, 1.0);
    let mut next = DVector::zeros(n);
    let mut y = DVector::zeros(m);
    let mut clock = Clock::new(spec.dt);
    for _ in 0..rows {
        let Ok((moved, step)) = clock.next(None, false) else { break };
        if moved {
            model.transition(x.as_slice(), &[], &step, next.as_mut_slice());
            let scale = if noise.per_time { step.dt.sqrt() } else { 1.0 };
            x = &next + draw(&process, scale);
        }
        for (x, (low, high)) in x.iter_mut().zip(spec.bounds.iter().flatten()) {
            *x = x.clamp(*low, *high);
        }
        if !x.iter().all(|v| v.is_finite()) {
            let message = format!("the simulated state is not finite at row {}", step.index);
            return Err(PlanError::new(message));
        }
        model.observe(x.as_slice(), &[], &step, y.as_mut_slice());
        match &measurement {
            Some(factor) => {
                y += factor * DVector::from_fn(m, |_, _| measurement_stream.normal());
            }
            None => {
                for i in 0..m {
                    y[i] = draw_one(spec, i, y[i], &mut measurement_stream)?;
                }
            }
        }
        if !visit(step.time, x.as_slice(), y.as_slice()) {
            break;
        }
    }
    Ok(())
}

/// A measurement of component `i` whose likelihood has the parameter `eta`.
fn draw_one(spec: &ModelSpec, i: usize, eta: f64, stream: &mut Stream) -> Result<f64, PlanError> {
    let scale = || match &spec.measurement_cov {
        Some(cov) => Ok(cov[(i, i)].sqrt()),
        None => Err(PlanError::new("to simulate, the model needs [measurement_noise]")),
    };
    Ok(match spec.likelihoods[i] {
        LikelihoodKind::Gaussian => eta + scale()? * stream.normal(),
        LikelihoodKind::StudentT { dof } => {
            // A normal over the root of a chi-square over its degrees of freedom.
            eta + scale()? * stream.normal() / (2.0 * gamma(0.5 * dof, stream) / dof).sqrt()
        }
        LikelihoodKind::Huber { delta } => eta + scale()? * huber(delta, stream),
        LikelihoodKind::Poisson { .. } => {
            let rate = eta;
            if rate.is_nan() || rate > 1e9 {
                return Err(PlanError::new(format!(
                    "the rate of `{}` is {rate}",
                    spec.observations[i]
                )));
            }
            poisson(rate.max(0.0), stream)
        }
        LikelihoodKind::Bernoulli { .. } => f64::from(u8::from(stream.uniform() < eta)),
    })
}
