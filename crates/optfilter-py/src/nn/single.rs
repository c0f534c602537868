//! A single filter over weights, as Python writes its settings: the same names and defaults as the command line's.

use crate::errors::bad;
use crate::problem::{read_spec, spec_error};
use optfilter_nn::adapt::{Setup, WeightMethod};
use optfilter_nn::filter::{Likelihood, Memory, Window};
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
    /// Particles, or directions of a low-rank belief.
    count: Option<usize>,
    prior_var: Option<f64>,
    noise_var: Option<f64>,
    robust: Option<f64>,
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
    setup.lr = single.lr.unwrap_or(setup.lr);
    setup.prior_var = single.prior_var.unwrap_or(setup.prior_var);
    setup.likelihood = Likelihood {
        noise_var: single.noise_var.unwrap_or(setup.likelihood.noise_var),
        robust: single.robust,
    };
    Ok(())
}
