//! Trajectories and measurements of a model with Gaussian noise.

use crate::Shapes;
use crate::filter::{FilterError, GaussianBelief, check_len, check_square};
use crate::linalg::psd_factor;
use crate::model::integrator::euler_maruyama;
use crate::model::{Drift, Model, Noise, Step};
use crate::rng::Stream;
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

/// Simulates `count` steps of even length `dt` from a draw of `start`. The model must read no inputs.
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
    let mut x = draw(&start.mean, &start.cov, "initial cov", None, stream)?;
    let mut out = Simulation::default();
    for k in 1..=count as u64 {
        let step = Step::even(k, dt);
        let mut next = OVector::zeros_generic(model.state_dim(), U1);
        model.transition(x.as_slice(), &[], &step, next.as_mut_slice());
        x = draw(&next, &noise.process_cov(&step), "process_cov (Q)", Some(k), stream)?;
        out.states.extend_from_slice(x.as_slice());
        let mut seen = OVector::zeros_generic(model.output_dim(), U1);
        model.observe(x.as_slice(), &[], &step, seen.as_mut_slice());
        let y = draw(&seen, &noise.measurement_cov(&step), "measurement_cov (R)", Some(k), stream)?;
        out.observations.extend_from_slice(y.as_slice());
    }
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
