//! Draws from a model file: states and measurements under its own likelihood.
//!
//! The library simulates Gaussian measurements; a model file may also say counts, binary data or heavy
//! tails, so measurements are drawn here by likelihood. Row 1 is a draw of the initial belief.

use super::plan::PlanError;
use super::stream::Clock;
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

/// Gamma with this shape and unit scale (Marsaglia and Tsang 2000).
fn gamma(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, stream) * stream.uniform().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let z = stream.normal();
        let v = (1.0 + c * z).powi(3);
        if v > 0.0 && stream.uniform().ln() < 0.5 * z * z + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Huber's least favourable density: normal within `delta`, exponential beyond, by rejection.
fn huber(delta: f64, stream: &mut Stream) -> f64 {
    // A Laplace proposal exp(-delta |z|) bounds the density up to exp(delta^2 / 2) everywhere.
    loop {
        let magnitude = -stream.uniform().ln() / delta;
        let loss = if magnitude <= delta {
            0.5 * magnitude * magnitude
        } else {
            delta * magnitude - 0.5 * delta * delta
        };
        if stream.uniform().ln() < -loss + delta * magnitude - 0.5 * delta * delta {
            return if stream.uniform() < 0.5 { -magnitude } else { magnitude };
        }
    }
}

/// A Poisson count: products of uniforms for small rates, halved by gamma draws for large ones
/// (Ahrens and Dieter 1974).
fn poisson(mut rate: f64, stream: &mut Stream) -> f64 {
    let mut count = 0.0;
    while rate > 30.0 {
        let order = (0.875 * rate).floor();
        let waited = gamma(order, stream);
        if waited > rate {
            // `order` arrivals took longer than `rate`: the rest is binomial among order - 1.
            let p = rate / waited;
            return count + (1..order as u64).filter(|_| stream.uniform() < p).count() as f64;
        }
        count += order;
        rate -= waited;
    }
    let limit = (-rate).exp();
    let mut product = stream.uniform();
    while product > limit {
        product *= stream.uniform();
        count += 1.0;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_moments_of_their_laws() {
        let mut stream = Stream::new(1, 0, "test");
        let n = 200_000;
        let mut moments = |f: &mut dyn FnMut(&mut Stream) -> f64| {
            let values: Vec<f64> = (0..n).map(|_| f(&mut stream)).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64;
            (mean, var)
        };
        for rate in [0.5, 7.0, 80.0, 900.0] {
            let (mean, var) = moments(&mut |s| poisson(rate, s));
            // Five standard errors of a mean, and of a variance (2 + 1/rate) rate^2 / n.
            assert!((mean - rate).abs() < 5.0 * (rate / n as f64).sqrt(), "{rate}: {mean}");
            let slack = 5.0 * ((2.0 + 1.0 / rate) * rate * rate / n as f64).sqrt();
            assert!((var - rate).abs() < slack, "{rate}: {var}");
        }
        let (mean, var) = moments(&mut |s| gamma(2.5, s));
        assert!((mean - 2.5).abs() < 0.02 && (var - 2.5).abs() < 0.08);
        // Student's t with 10 degrees of freedom has variance 10/8.
        let (mean, var) = moments(&mut |s| s.normal() / (2.0 * gamma(5.0, s) / 10.0).sqrt());
        assert!(mean.abs() < 0.015 && (var - 1.25).abs() < 0.04, "{mean} {var}");
        // Huber at delta = 1.345: variance by numerical integration of its density.
        let density = |z: f64| {
            let a = z.abs();
            if a <= 1.345 { (-0.5 * a * a).exp() } else { (-1.345 * a + 0.5 * 1.345 * 1.345).exp() }
        };
        let grid: Vec<f64> = (-200_000..=200_000).map(|i| f64::from(i) * 1e-4).collect();
        let mass: f64 = grid.iter().map(|z| density(*z)).sum();
        let second: f64 = grid.iter().map(|z| z * z * density(*z)).sum();
        let (mean, var) = moments(&mut |s| huber(1.345, s));
        assert!(mean.abs() < 0.02 && (var - second / mass).abs() < 0.05, "{var} {}", second / mass);
    }
}
