//! Trajectories of a model and measurements of them, under any likelihood, with inputs and bounds.

use crate::Shapes;
use crate::error::{FilterError, check_len, check_square};
use crate::filter::GaussianBelief;
use crate::linalg::psd_factor;
use crate::model::integrator::euler_maruyama;
use crate::model::likelihood::{AnyLikelihood, Gaussian, Likelihood, Scatter};
use crate::model::stretch::{measurement_factors, process_cov, process_factors};
use crate::model::{Drift, Model, Noise, Step};
use crate::optim::Bounds;
use crate::rng::Stream;
use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// A simulated trajectory: the true states and what was measured of them, rows in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// x_1 .. x_T, T x n.
    pub states: Vec<f64>,
    /// y_1 .. y_T, T x m.
    pub observations: Vec<f64>,
}

/// What the first state of a simulation is drawn from.
#[derive(Clone, Copy, Debug)]
pub enum Beginning<'a, N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// Components with covariances.
    Joint(&'a GaussianBelief<N>),
    /// Independent components: their means and variances.
    Each(&'a OVector<f64, N>, &'a OVector<f64, N>),
}

/// Everything that a simulation needs: a model, how it scatters, where it starts, and its clock.
#[derive(Debug)]
pub struct Scene<'a, M: Model, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// The model.
    pub model: &'a M,
    /// The process noise.
    pub noise: &'a Q,
    /// How measurements scatter.
    pub likelihood: &'a AnyLikelihood<M::Output>,
    /// The initial belief, from which the first state is drawn.
    pub start: Beginning<'a, M::State>,
    /// A box that the state is kept in.
    pub bounds: Option<&'a Bounds>,
    /// Control inputs, row after row.
    pub inputs: &'a [f64],
    /// The length of a step.
    pub dt: f64,
    /// Whether the initial belief is of one step before the first row, instead of the first row's own time.
    pub predict_first: bool,
}

impl<M: Model, Q: Noise<M::State, M::Output>> Scene<'_, M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Simulates `rows` rows; `visit` sees the step, the state and the measurement, and ends the simulation by
    /// `false`.
    pub fn play(
        &self,
        rows: usize,
        stream: &mut Stream,
        mut visit: impl FnMut(&Step, &[f64], &[f64]) -> bool,
    ) -> Result<(), FilterError> {
        let (n, m, p) = (self.model.state_dim(), self.model.output_dim(), self.model.input_dim());
        check_len("inputs", rows * p, self.inputs.len(), None)?;
        if !(self.dt.is_finite() && self.dt > 0.0) {
            return Err(FilterError::TimeStep { dt: self.dt });
        }
        let mean = match self.start {
            Beginning::Joint(start) => &start.mean,
            Beginning::Each(mean, _) => mean,
        };
        check_len("initial mean", n.value(), mean.nrows(), None)?;
        if let Some(dim) = self.likelihood.dim() {
            check_len("measurement_cov (R)", m.value(), dim, None)?;
        }
        let quantity = "measurement_cov (R)";
        let scatter = Scatter::new(self.likelihood, m)
            .ok_or(FilterError::NotPositiveDefinite { quantity, index: None })?;
        let mut x = match self.start {
            Beginning::Joint(start) => draw(mean, &start.cov, "initial cov", None, stream)?,
            Beginning::Each(_, variances) => {
                if let Some(component) = mean.iter().position(|v| !v.is_finite()) {
                    let (argument, index) = ("initial mean", None);
                    return Err(FilterError::NotFinite { argument, component, index });
                }
                check_len("initial cov", n.value(), variances.nrows(), None)?;
                draw_each(mean, variances, "initial cov", None, stream)?
            }
        };
        let mut variances = OVector::zeros_generic(n, U1);
        let mut y = OVector::zeros_generic(m, U1);
        let mut next = OVector::zeros_generic(n, U1);
        for k in 0..rows {
            let index = k as u64 + 1;
            let elapsed = if self.predict_first { index } else { index - 1 };
            let step = Step { index, time: elapsed as f64 * self.dt, ..Step::even(1, self.dt) };
            let u = &self.inputs[k * p..(k + 1) * p];
            let before = x.clone();
            if k > 0 || self.predict_first {
                self.model.transition(x.as_slice(), u, &step, next.as_mut_slice());
                let quantity = "process_cov (Q)";
                x = match self.noise.process_variances(&step, variances.as_mut_slice()) {
                    true => {
                        if let Some(factors) = process_factors(self.model, u, &step) {
                            variances.zip_apply(&factors, |v, factor| *v *= factor * factor);
                        }
                        draw_each(&next, &variances, quantity, Some(index), stream)?
                    }
                    false => {
                        let q = process_cov(self.model, self.noise, u, &step);
                        draw(&next, &q, quantity, Some(index), stream)?
                    }
                };
            }
            if let Some(bounds) = self.bounds {
                bounds.project(x.as_mut_slice());
            }
            if !x.iter().all(|v| v.is_finite()) {
                let last_good = before.as_slice().to_vec();
                return Err(FilterError::Diverged { index, quantity: "state", last_good });
            }
            self.model.observe(x.as_slice(), u, &step, y.as_mut_slice());
            let eta = y.clone();
            scatter.draw(&mut y, stream).map_err(|component| FilterError::NothingToDraw {
                index,
                component,
                eta: eta[component],
            })?;
            if let Some(factors) = measurement_factors(self.model, u, &step) {
                for i in 0..m.value() {
                    y[i] = eta[i] + (y[i] - eta[i]) * factors[i];
                }
            }
            if !y.iter().all(|v| v.is_finite()) {
                let last_good = before.as_slice().to_vec();
                return Err(FilterError::Diverged { index, quantity: "measurement", last_good });
            }
            if !visit(&step, x.as_slice(), y.as_slice()) {
                break;
            }
        }
        Ok(())
    }
}

/// Simulates `count` steps of even length `dt` from a draw of `start`, under Gaussian noise that does not
/// change; the first row is one step after the start. The model must read no inputs.
pub fn simulate<M: Model>(
    model: &M,
    noise: &impl Noise<M::State, M::Output>,
    start: &GaussianBelief<M::State>,
    count: usize,
    dt: f64,
    stream: &mut Stream,
) -> Result<Simulation, FilterError>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    check_len("inputs", 0, model.input_dim(), None)?;
    if !(dt.is_finite() && dt > 0.0) {
        return Err(FilterError::TimeStep { dt });
    }
    check_len("initial mean", model.state_dim().value(), start.mean.nrows(), None)?;
    let (quantity, index) = ("measurement_cov (R)", Some(1));
    let r = noise.measurement_cov(&Step::even(1, dt));
    check_square(quantity, model.output_dim().value(), &r, index)?;
    let likelihood =
        Gaussian::new(r).map_err(|_| FilterError::NotPositiveDefinite { quantity, index })?;
    let likelihood = &AnyLikelihood::Gaussian(likelihood);
    let start = Beginning::Joint(start);
    let scene = Scene {
        model,
        noise,
        likelihood,
        start,
        bounds: None,
        inputs: &[],
        dt,
        predict_first: true,
    };
    let mut out = Simulation::default();
    scene.play(count, stream, |_, state, seen| {
        out.states.extend_from_slice(state);
        out.observations.extend_from_slice(seen);
        true
    })?;
    Ok(out)
}

/// The states x_1 .. x_count of dx = f dt + alpha dW from `x`, with `substeps` Euler-Maruyama steps between
/// two of them.
pub fn simulate_sde<D: Drift>(
    drift: &D,
    diffusion_std: f64,
    mut x: OVector<f64, D::State>,
    count: usize,
    dt: f64,
    substeps: u32,
    stream: &mut Stream,
) -> Vec<f64>
where
    DefaultAllocator: Allocator<D::State>,
{
    let mut states = Vec::with_capacity(count * x.nrows());
    for k in 1..=count as u64 {
        let step = Step::even(k, dt);
        euler_maruyama(drift, diffusion_std, x.as_mut_slice(), &[], &step, substeps, stream);
        states.extend_from_slice(x.as_slice());
    }
    states
}

/// A draw of independent components: to the bit what [`draw`] makes of their covariance.
fn draw_each<N: Dim>(
    mean: &OVector<f64, N>,
    variances: &OVector<f64, N>,
    quantity: &'static str,
    index: Option<u64>,
    stream: &mut Stream,
) -> Result<OVector<f64, N>, FilterError>
where
    DefaultAllocator: Allocator<N>,
{
    if !variances.iter().all(|v| *v >= 0.0 && v.is_finite()) {
        return Err(FilterError::NotPositiveDefinite { quantity, index });
    }
    let mut z = OVector::<f64, N>::zeros_generic(mean.shape_generic().0, U1);
    stream.fill_normal(z.as_mut_slice());
    z.zip_apply(variances, |z, v| *z *= Scalar::sqrt(v));
    Ok(mean + z)
}

/// A draw from N(mean, cov).
fn draw<N: Dim>(
    mean: &OVector<f64, N>,
    cov: &OMatrix<f64, N, N>,
    quantity: &'static str,
    index: Option<u64>,
    stream: &mut Stream,
) -> Result<OVector<f64, N>, FilterError>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    check_square(quantity, mean.nrows(), cov, index)?;
    let factor = psd_factor(cov).ok_or(FilterError::NotPositiveDefinite { quantity, index })?;
    let mut z = OVector::<f64, N>::zeros_generic(mean.shape_generic().0, U1);
    stream.fill_normal(z.as_mut_slice());
    Ok(mean + factor * z)
}
