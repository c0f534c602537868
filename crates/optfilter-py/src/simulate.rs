//! Trajectories and measurements of any model, with inputs and under any likelihood.
//!
//! The library's own `simulate` knows Gaussian measurements without inputs; for those this gives the same
//! numbers to the bit, from the same stream.

use crate::convert::{array, as_array, check_memory, fill_vector, matrix, slice};
use crate::draw::{Impossible, Scatter};
use crate::errors::{bad, is_pending, take_pending, to_python};
use crate::model::{AnyModel, CoreModel};
use crate::threads;
use nalgebra::{DMatrix, DVector};
use numpy::PyUntypedArrayMethods;
use optfilter::filter::{FilterError, GaussianBelief};
use optfilter::linalg::psd_factor;
use optfilter::model::{Dynamics, GaussianNoise, Noise, Observation, Step};
use optfilter::rng::Stream;
use pyo3::prelude::*;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all trajectories share.
struct Setting<'a> {
    model: &'a AnyModel,
    mean: DVector<f64>,
    /// Factors of P0 and of Q over a step.
    initial: DMatrix<f64>,
    process: DMatrix<f64>,
    scatter: Scatter,
    bounds: Option<(Vec<f64>, Vec<f64>)>,
    dt: f64,
    seed: u64,
}

/// Why a trajectory ends early.
enum Trouble {
    Diverged(FilterError),
    Impossible(Impossible, usize),
    Stopped,
}

impl Setting<'_> {
    /// Writes states (T x n) and measurements (T x m) of run `run`; `us` is T x p, or empty.
    fn trajectory(
        &self,
        run: u64,
        us: &[f64],
        states: &mut [f64],
        measured: &mut [f64],
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Trouble> {
        let (n, m) = (self.mean.nrows(), self.model.output_dim().0);
        let inputs = self.model.input_dim();
        let mut stream = Stream::new(self.seed, run, "simulate");
        let draw = |mean: &DVector<f64>, factor: &DMatrix<f64>, stream: &mut Stream| {
            let mut z = DVector::zeros(n);
            stream.fill_normal(z.as_mut_slice());
            mean + factor * z
        };
        let mut x = draw(&self.mean, &self.initial, &mut stream);
        let mut last_good = self.mean.as_slice().to_vec();
        let mut next = DVector::zeros(n);
        let mut y = DVector::zeros(m);
        let rows = states.chunks_exact_mut(n).zip(measured.chunks_exact_mut(m));
        for (k, (state, seen)) in rows.enumerate() {
            if k % 64 == 63 && stop() {
                return Err(Trouble::Stopped);
            }
            let step = Step::even(k as u64 + 1, self.dt);
            let u = &us[k * inputs..(k + 1) * inputs];
            self.model.transition(x.as_slice(), u, &step, next.as_mut_slice());
            x = draw(&next, &self.process, &mut stream);
            if let Some((lower, upper)) = &self.bounds {
                for i in 0..n {
                    x[i] = x[i].clamp(lower[i], upper[i]);
                }
            }
            if !x.iter().all(|v| v.is_finite()) {
                let (index, quantity) = (step.index, "state");
                let error = FilterError::Diverged { index, quantity, last_good };
                return Err(Trouble::Diverged(error));
            }
            last_good.copy_from_slice(x.as_slice());
            state.copy_from_slice(x.as_slice());
            self.model.observe(x.as_slice(), u, &step, y.as_mut_slice());
            self.scatter.draw(&mut y, &mut stream).map_err(|e| Trouble::Impossible(e, k))?;
            seen.copy_from_slice(y.as_slice());
        }
        Ok(())
    }
}

fn raise(py: Python<'_>, trouble: Trouble, trajectory: Option<usize>) -> PyErr {
    match trouble {
        Trouble::Diverged(error) => to_python(py, error, trajectory),
        Trouble::Impossible(Impossible { component, eta }, k) => bad(
            "likelihood",
            format!("nothing can be drawn at h(x) = {eta} (component {component}, time index {k})"),
        ),
        Trouble::Stopped => pyo3::exceptions::PyKeyboardInterrupt::new_err(()),
    }
}

/// `count` trajectories of `steps` steps: states (count, steps, n) and measurements (count, steps, m).
/// Trajectory b draws from the stream (seed, first_run + b, "simulate"). `noise` is Q, the likelihood as
/// `optfilter.likelihoods` describes it, and whether Q is per unit of time.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // one call, from one place in Python
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    model: &Bound<'py, CoreModel>,
    noise: (Bound<'py, PyAny>, Bound<'py, PyAny>, bool),
    x0: &Bound<'py, PyAny>,
    p0: &Bound<'py, PyAny>,
    us: Option<&Bound<'py, PyAny>>,
    bounds: Option<(Vec<f64>, Vec<f64>)>,
    dt: f64,
    steps: usize,
    count: usize,
    seed: u64,
    first_run: u64,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let model = &model.get().model;
    let (n, m, inputs) = (model.state_dim().0, model.output_dim().0, model.input_dim());
    if !(dt.is_finite() && dt > 0.0) {
        return Err(bad("dt", format!("{dt} is not positive and finite")));
    }
    let us = us.map(|us| as_array("us", us)).transpose()?;
    let us_len = us.as_ref().map_or(0, |us| us.len());
    if us_len != steps * inputs && us_len != count * steps * inputs {
        return Err(bad("us", format!("the model reads {inputs} inputs at each of {steps} steps")));
    }
    let us = us.as_ref().map_or(Ok(&[] as &[f64]), |us| slice("us", us))?;
    let mut mean = vec![0.0; n];
    fill_vector("x0", Some(x0), &mut mean)?;
    let p0 = matrix("P0", p0, Some((n, n)))?;
    let start =
        GaussianBelief::new(DVector::from_vec(mean), p0).map_err(|e| to_python(py, e, None))?;
    let q = matrix("Q", &noise.0, Some((n, n)))?;
    let wrong = || bad("Q", "must be finite, symmetric and positive semi-definite");
    let unit = DMatrix::identity(m, m);
    let made = if noise.2 { GaussianNoise::per_time(q, unit) } else { GaussianNoise::new(q, unit) };
    let process_cov = made.map_err(|_| wrong())?.process_cov(&Step::even(1, dt));
    let factor = |cov: &DMatrix<f64>, name| {
        psd_factor(cov).ok_or_else(|| bad(name, "must be positive semi-definite"))
    };
    let setting = Setting {
        model,
        initial: factor(&start.cov, "P0")?,
        process: factor(&process_cov, "Q")?,
        mean: start.mean,
        scatter: Scatter::parse(&noise.1, m)?,
        bounds,
        dt,
        seed,
    };
    check_memory(&[count, steps, n.max(m)])?;
    let mut states = vec![0.0; count * steps * n];
    let mut measured = vec![0.0; count * steps * m];
    let own = |b: usize| if us.len() > steps * inputs { &us[b * steps * inputs..] } else { us };
    let run = |b: usize, states: &mut [f64], measured: &mut [f64], stop: &dyn Fn() -> bool| {
        setting.trajectory(first_run + b as u64, own(b), states, measured, stop)
    };
    let ended: Vec<Result<(), Trouble>> = if model.is_python() {
        let parts = states.chunks_mut(steps * n).zip(measured.chunks_mut(steps * m));
        parts.enumerate().map(|(b, (x, y))| run(b, x, y, &is_pending)).collect()
    } else {
        let stop = AtomicBool::new(false);
        let ask = || stop.load(Ordering::Relaxed);
        let parts = states.par_chunks_mut(steps * n).zip(measured.par_chunks_mut(steps * m));
        threads::install(py, &stop, || {
            parts.enumerate().map(|(b, (x, y))| run(b, x, y, &ask)).collect()
        })?
    };
    if let Some(error) = take_pending() {
        return Err(error);
    }
    for (b, ended) in ended.into_iter().enumerate() {
        ended.map_err(|trouble| raise(py, trouble, (count > 1).then_some(b)))?;
    }
    Ok((array(py, states, [count, steps, n])?, array(py, measured, [count, steps, m])?))
}
