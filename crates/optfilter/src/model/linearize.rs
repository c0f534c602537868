//! Derivatives of models: by hand where somebody wrote them, else automatic.

use super::{Dynamics, JacobianMut, Model, Observation, Step};
use crate::derivative;
use crate::scalar::{Lanes, Scalar, VectorFunction};
use crate::scratch::is_fixed;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// The transition of a model at a given input and step, as a function of the state alone.
pub(crate) struct TransitionAt<'a, D> {
    pub(crate) dynamics: &'a D,
    pub(crate) u: &'a [f64],
    pub(crate) step: &'a Step,
}

impl<D: Dynamics> VectorFunction for TransitionAt<'_, D> {
    #[inline(always)]
    fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
        self.dynamics.transition(x, self.u, self.step, out);
    }
}

/// The observation of a model at a given input and step, as a function of the state alone.
pub(crate) struct ObservationAt<'a, O> {
    pub(crate) observation: &'a O,
    pub(crate) u: &'a [f64],
    pub(crate) step: &'a Step,
}

impl<O: Observation> VectorFunction for ObservationAt<'_, O> {
    #[inline(always)]
    fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
        self.observation.observe(x, self.u, self.step, out);
    }
}

/// A transition's value with its Jacobian (n x n), hand-written where there is one.
#[inline(always)]
pub fn linearize_transition<D: Dynamics>(
    dynamics: &D,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> (OVector<f64, D::State>, OMatrix<f64, D::State, D::State>)
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State>,
{
    if const { is_fixed::<D::State>() } {
        transition_and_slope(dynamics, x, u, step)
    } else {
        transition_and_slope_once(dynamics, x, u, step)
    }
}

/// [`linearize_transition`] as a function of its own.
#[inline(never)]
fn transition_and_slope_once<D: Dynamics>(
    dynamics: &D,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> (OVector<f64, D::State>, OMatrix<f64, D::State, D::State>)
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State>,
{
    transition_and_slope(dynamics, x, u, step)
}

#[inline(always)]
fn transition_and_slope<D: Dynamics>(
    dynamics: &D,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> (OVector<f64, D::State>, OMatrix<f64, D::State, D::State>)
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State>,
{
    let n = dynamics.state_dim();
    let mut matrix = OMatrix::zeros_generic(n, n);
    let mut target = JacobianMut { column_major: matrix.as_mut_slice(), rows: n.value() };
    if dynamics.transition_jacobian(x, u, step, &mut target) {
        let mut value = OVector::zeros_generic(n, U1);
        dynamics.transition(x, u, step, value.as_mut_slice());
        return (value, matrix);
    }
    derivative::jacobian(&TransitionAt { dynamics, u, step }, x, n, n)
}

/// An observation's value with its Jacobian (m x n), hand-written where there is one.
#[inline(always)]
pub fn linearize_observation<O: Observation, N: Dim>(
    observation: &O,
    n: N,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> (OVector<f64, O::Output>, OMatrix<f64, O::Output, N>)
where
    DefaultAllocator: Allocator<N> + Allocator<O::Output> + Allocator<O::Output, N>,
{
    if const { is_fixed::<N>() } {
        observation_and_slope(observation, n, x, u, step)
    } else {
        observation_and_slope_once(observation, n, x, u, step)
    }
}

/// [`linearize_observation`] as a function of its own.
#[inline(never)]
fn observation_and_slope_once<O: Observation, N: Dim>(
    observation: &O,
    n: N,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> (OVector<f64, O::Output>, OMatrix<f64, O::Output, N>)
where
    DefaultAllocator: Allocator<N> + Allocator<O::Output> + Allocator<O::Output, N>,
{
    observation_and_slope(observation, n, x, u, step)
}

#[inline(always)]
fn observation_and_slope<O: Observation, N: Dim>(
    observation: &O,
    n: N,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> (OVector<f64, O::Output>, OMatrix<f64, O::Output, N>)
where
    DefaultAllocator: Allocator<N> + Allocator<O::Output> + Allocator<O::Output, N>,
{
    let m = observation.output_dim();
    let mut matrix = OMatrix::zeros_generic(m, n);
    let mut target = JacobianMut { column_major: matrix.as_mut_slice(), rows: m.value() };
    if observation.observation_jacobian(x, u, step, &mut target) {
        let mut value = OVector::zeros_generic(m, U1);
        observation.observe(x, u, step, value.as_mut_slice());
        return (value, matrix);
    }
    derivative::jacobian(&ObservationAt { observation, u, step }, x, n, m)
}

/// [`linearize_transition`] of every lane.
#[inline(always)]
pub(crate) fn linearize_transition_lanes<D: Dynamics, const W: usize>(
    dynamics: &D,
    x: &[Lanes<W>],
    u: &[f64],
    step: &Step,
) -> (OVector<Lanes<W>, D::State>, OMatrix<Lanes<W>, D::State, D::State>)
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State>,
{
    let n = dynamics.state_dim();
    linearize_lanes((n, n), x, &TransitionAt { dynamics, u, step }, |x, out| {
        dynamics.transition_jacobian(x, u, step, out)
    })
}

/// [`linearize_observation`] of every lane.
#[inline(always)]
pub(crate) fn linearize_observation_lanes<O: Observation, N: Dim, const W: usize>(
    observation: &O,
    n: N,
    x: &[Lanes<W>],
    u: &[f64],
    step: &Step,
) -> (OVector<Lanes<W>, O::Output>, OMatrix<Lanes<W>, O::Output, N>)
where
    DefaultAllocator: Allocator<N> + Allocator<O::Output> + Allocator<O::Output, N>,
{
    let m = observation.output_dim();
    linearize_lanes((m, n), x, &ObservationAt { observation, u, step }, |x, out| {
        observation.observation_jacobian(x, u, step, out)
    })
}

/// The value and the Jacobian of every lane; `by_hand` writes one of plain numbers, where somebody wrote it.
#[inline(always)]
fn linearize_lanes<F: VectorFunction, R: Dim, C: Dim, const W: usize>(
    (rows, columns): (R, C),
    x: &[Lanes<W>],
    f: &F,
    by_hand: impl Fn(&[f64], &mut JacobianMut<'_>) -> bool,
) -> (OVector<Lanes<W>, R>, OMatrix<Lanes<W>, R, C>)
where
    DefaultAllocator: Allocator<R> + Allocator<C> + Allocator<R, C>,
{
    let mut lanes = OMatrix::from_element_generic(rows, columns, Lanes([0.0; W]));
    let mut matrix = OMatrix::<f64, R, C>::zeros_generic(rows, columns);
    for lane in 0..W {
        matrix.fill(0.0);
        let mut target = JacobianMut { column_major: matrix.as_mut_slice(), rows: rows.value() };
        if !by_hand(&Lanes::lane(x, lane), &mut target) {
            return derivative::jacobian(f, x, columns, rows);
        }
        Lanes::set_lane(lanes.as_mut_slice(), lane, matrix.as_slice());
    }
    let mut value = OVector::from_element_generic(rows, U1, Lanes([0.0; W]));
    f.eval(x, value.as_mut_slice());
    (value, lanes)
}

/// Writes the transposed Jacobian of a transition at `x` times `r`: by hand where that is written, else by a
/// tape, or by duals where the state is small.
#[inline(always)]
pub fn transition_vjp_of<D: Dynamics, S: Scalar>(
    dynamics: &D,
    x: &[S],
    u: &[f64],
    step: &Step,
    r: &[S],
    out: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    match dynamics.transition_vjp() {
        Some(vjp) => vjp(dynamics, x, u, step, r, out),
        None => {
            let n = dynamics.state_dim();
            let at = TransitionAt { dynamics, u, step };
            derivative::pull_back_vector(&at, x, n, n, r, out);
        }
    }
}

/// Writes the transposed Jacobian of an observation at `x` times `r`, as [`transition_vjp_of`] does.
#[inline(always)]
pub fn observation_vjp_of<M: Model, S: Scalar>(
    model: &M,
    x: &[S],
    u: &[f64],
    step: &Step,
    r: &[S],
    out: &mut [S],
) where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    match model.vjp() {
        Some(vjp) => vjp(model, x, u, step, r, out),
        None => {
            let (n, m) = (model.state_dim(), model.output_dim());
            let at = ObservationAt { observation: model, u, step };
            derivative::pull_back_vector(&at, x, n, m, r, out);
        }
    }
}
