//! A single filter over weights, as Python writes its settings: the same names and defaults as the command line's.

use crate::errors::bad;
use crate::problem::{read_spec, spec_error};
use optfilter_nn::adapt::{Setup, WeightMethod};
use optfilter_nn::filter::{IvonOptions, Likelihood, Memory, Window};
use pyo3::PyResult;
use serde::Deserialize;

/// What is not there is as usual.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Single {
    /// A name of [`WeightMethod::of_parts`].
    method: String,
    /// Rule, window, discount and memory in the form that all filters have which optimize; for those that read them.
    rule: Option<String>,
    steps: Option<u32>,
    /// The rate of a method that has its own rule.
    lr: Option<f64>,
    /// Variance of the weights' random walk for each time step.
    drift_var: Option<f64>,
    /// Particles, directions of a low-rank belief, or draws.
    count: Option<usize>,
    prior_var: Option<f64>,
    noise_var: Option<f64>,
    robust: Option<f64>,
    ivon_size: Option<f64>,
    ivon_curvature: Option<f64>,
    ivon_betas: Option<(f64, f64)>,
    ivon_decay: Option<f64>,
}

/// Puts a single filter in the place of the bank.
pub(super) fn choose(text: &str, setup: &mut Setup) -> PyResult<()> {
    let single: Single = serde_json::from_str(text).map_err(|e| bad("settings", e.to_string()))?;
    let Single { method, steps, drift_var, count, .. } = &single;
    setup.method = WeightMethod::of_parts(method, *steps, *drift_var, *count)
        .ok_or_else(|| bad("method", format!("there is no {method:?}")))?;
    if let Some(rule) = &single.rule {
        let spec = read_spec(rule)?;
        let window = Window::new(spec.window(), spec.discount());
        setup.rule = Some(spec.rule().map_err(spec_error)?);
        setup.memory = if spec.carry() { Memory::Carry } else { Memory::Restart };
        setup.window = window.map_err(|e| bad("discount", e))?;
    }
    let usual = IvonOptions::default();
    let betas = single.ivon_betas.unwrap_or((usual.beta1, usual.beta2));
    setup.ivon = IvonOptions {
        lr: usual.lr,
        samples: single.ivon_size.unwrap_or(usual.samples),
        first_curvature: single.ivon_curvature.unwrap_or(usual.first_curvature),
        beta1: betas.0,
        beta2: betas.1,
        weight_decay: single.ivon_decay.unwrap_or(usual.weight_decay),
    };
    let own = matches!(setup.method, WeightMethod::Ivon { .. });
    setup.lr = single.lr.unwrap_or(if own { usual.lr } else { setup.lr });
    setup.prior_var = single.prior_var.unwrap_or(setup.prior_var);
    setup.likelihood = Likelihood {
        noise_var: single.noise_var.unwrap_or(setup.likelihood.noise_var),
        robust: single.robust,
    };
    Ok(())
}
