//! Differential equations as discrete models: Euler, fourth-order Runge-Kutta, Euler-Maruyama.
//!
//! ```text
//! Euler   x + dt f(x, t)
//! RK4     x + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//! Euler-Maruyama, for dx = f dt + alpha dW:   x + dt f(x, t) + alpha sqrt(dt) z,   z ~ N(0, I)
//! ```

use super::{Dynamics, JacobianMut, Observation, PullBack, Step};
use crate::derivative::{self, VectorFunction};
use crate::rng::Stream;
use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};
use serde::{Deserialize, Serialize};

/// The right-hand side of a differential equation dx/dt = f(x, u, t).
pub trait Drift: Sized {
    /// The dimension of the state.
    type State: Dim;
    /// The dimension of the state.
    fn state_dim(&self) -> Self::State;
    /// The number of control inputs that the equation reads.
    fn input_dim(&self) -> usize {
        0
    }
    /// Writes dx/dt at `x` and `time` to `out`.
    fn drift<S: Scalar>(&self, x: &[S], u: &[f64], time: f64, out: &mut [S]);
    /// A hand-written function that writes the transposed Jacobian of [`drift`](Drift::drift) at a state times
    /// a vector, if there is one; every integrator then has its own.
    #[inline(always)]
    fn drift_pull_back<S: Scalar>(&self) -> Option<DriftPullBack<Self, S>> {
        None
    }
    /// Whether a component of the state is an angle.
    fn is_state_angle(&self, _component: usize) -> bool {
        false
    }
    /// How long a whole turn of such a component is.
    fn state_turn(&self, _component: usize) -> f64 {
        core::f64::consts::TAU
    }
}

/// Writes J' r for the Jacobian J of a drift at `x`: `(drift, x, u, time, r, out)`.
pub type DriftPullBack<D, S> = fn(&D, &[S], &[f64], f64, &[S], &mut [S]);

/// A way to step a differential equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Integrator {
    /// Euler's method, first order.
    Euler,
    /// The classical fourth-order Runge-Kutta method.
    Rk4,
}

/// A differential equation made discrete: each filter step is `substeps` integration steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Integrated<D> {
    /// The equation.
    pub drift: D,
    /// The method.
    pub method: Integrator,
    /// Integration steps per filter step, at least 1.
    pub substeps: u32,
}

impl<D> Integrated<D> {
    /// One integration step per filter step.
    pub fn new(drift: D, method: Integrator) -> Self {
        Self { drift, method, substeps: 1 }
    }
}

impl<D: Drift> Dynamics for Integrated<D>
where
    DefaultAllocator: Allocator<D::State>,
{
    type State = D::State;
    #[inline(always)]
    fn state_dim(&self) -> D::State {
        self.drift.state_dim()
    }
    fn input_dim(&self) -> usize {
        self.drift.input_dim()
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        let substeps = self.substeps.max(1);
        let dt = step.dt / f64::from(substeps);
        let start = step.time - step.dt;
        out.copy_from_slice(x);
        for k in 0..substeps {
            let time = start + f64::from(k) * dt;
            match self.method {
                Integrator::Euler => euler(&self.drift, out, u, time, dt),
                Integrator::Rk4 => rk4(&self.drift, out, u, time, dt),
            }
        }
    }
    #[inline(always)]
    fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        stage_pull_back::<D, S>(&self.drift)?;
        Some(
            #[inline(always)]
            |model, x, u, step, r, out| {
                if let Some(pull_back) = stage_pull_back(&model.drift) {
                    pull_back_steps(model, pull_back, x, u, step, r, out);
                }
            },
        )
    }
    fn is_state_angle(&self, component: usize) -> bool {
        self.drift.is_state_angle(component)
    }
    fn state_turn(&self, component: usize) -> f64 {
        self.drift.state_turn(component)
    }
}

/// An integrated equation is seen the way its drift says, if it says so.
impl<D: Observation> Observation for Integrated<D> {
    type Output = D::Output;
    #[inline(always)]
    fn output_dim(&self) -> D::Output {
        self.drift.output_dim()
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.drift.observe(x, u, step, out);
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        self.drift.observation_jacobian(x, u, step, out)
    }
    #[inline(always)]
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        self.drift.pull_back::<S>()?;
        Some(
            #[inline(always)]
            |model, x, u, step, r, out| {
                if let Some(pull_back) = model.drift.pull_back() {
                    pull_back(&model.drift, x, u, step, r, out);
                }
            },
        )
    }
    fn is_angle(&self, component: usize) -> bool {
        self.drift.is_angle(component)
    }
    fn turn(&self, component: usize) -> f64 {
        self.drift.turn(component)
    }
}

/// One Euler step in place.
#[inline(always)]
pub fn euler<D: Drift, S: Scalar>(drift: &D, x: &mut [S], u: &[f64], time: f64, dt: f64)
where
    DefaultAllocator: Allocator<D::State>,
{
    let mut k = OVector::<S, D::State>::from_element_generic(drift.state_dim(), U1, S::ZERO);
    drift.drift(x, u, time, k.as_mut_slice());
    for (x, k) in x.iter_mut().zip(k.as_slice()) {
        *x += k.scale(dt);
    }
}

/// One fourth-order Runge-Kutta step in place.
#[inline(always)]
pub fn rk4<D: Drift, S: Scalar>(drift: &D, x: &mut [S], u: &[f64], time: f64, dt: f64)
where
    DefaultAllocator: Allocator<D::State>,
{
    let zeros = || OVector::<S, D::State>::from_element_generic(drift.state_dim(), U1, S::ZERO);
    let (mut k1, mut k2, mut k3, mut k4, mut at) = (zeros(), zeros(), zeros(), zeros(), zeros());
    let half = 0.5 * dt;
    drift.drift(x, u, time, k1.as_mut_slice());
    for i in 0..x.len() {
        at[i] = x[i] + k1[i].scale(half);
    }
    drift.drift(at.as_slice(), u, time + half, k2.as_mut_slice());
    for i in 0..x.len() {
        at[i] = x[i] + k2[i].scale(half);
    }
    drift.drift(at.as_slice(), u, time + half, k3.as_mut_slice());
    for i in 0..x.len() {
        at[i] = x[i] + k3[i].scale(dt);
    }
    drift.drift(at.as_slice(), u, time + dt, k4.as_mut_slice());
    for i in 0..x.len() {
        let middle = k2[i] + k3[i];
        x[i] += (k1[i] + middle + middle + k4[i]).scale(dt / 6.0);
    }
}

/// A drift at a given input and time, as a function of the state alone.
struct DriftAt<'a, D> {
    drift: &'a D,
    u: &'a [f64],
    time: f64,
}

impl<D: Drift> VectorFunction for DriftAt<'_, D> {
    #[inline(always)]
    fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
        self.drift.drift(x, self.u, self.time, out);
    }
}

/// The pull-back of a drift: by hand, or by a tape where that is used at all. A tape of each stage is shorter, and so
/// faster, than one of the whole step.
#[inline(always)]
fn stage_pull_back<D: Drift, S: Scalar>(drift: &D) -> Option<DriftPullBack<D, S>>
where
    DefaultAllocator: Allocator<D::State>,
{
    let by_tape: DriftPullBack<D, S> = |drift, x, u, time, r, out| {
        let n = drift.state_dim();
        derivative::pull_back_vector(&DriftAt { drift, u, time }, x, n, n, r, out);
    };
    let n = drift.state_dim().value();
    drift.drift_pull_back().or_else(|| derivative::taped::<S>(n).then_some(by_tape))
}

/// The transposed Jacobian of all integration steps of a model step, times `r`. The states between them are
/// stored, the stages of each made again.
#[inline(always)]
fn pull_back_steps<D: Drift, S: Scalar>(
    model: &Integrated<D>,
    pull_back: DriftPullBack<D, S>,
    x: &[S],
    u: &[f64],
    step: &Step,
    r: &[S],
    out: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    let substeps = model.substeps.max(1);
    let dt = step.dt / f64::from(substeps);
    let time = |k: u32| step.time - step.dt + f64::from(k) * dt;
    let mut between = Vec::new();
    if substeps > 1 {
        between.extend_from_slice(x);
        for k in 0..substeps - 1 {
            let from = between.len() - x.len();
            between.extend_from_within(from..);
            let at = &mut between[from + x.len()..];
            match model.method {
                Integrator::Euler => euler(&model.drift, at, u, time(k), dt),
                Integrator::Rk4 => rk4(&model.drift, at, u, time(k), dt),
            }
        }
    }
    out.copy_from_slice(r);
    for k in (0..substeps).rev() {
        let at = if substeps > 1 { &between[k as usize * x.len()..][..x.len()] } else { x };
        let step = (u, time(k), dt);
        match model.method {
            Integrator::Euler => pull_back_euler(&model.drift, pull_back, at, step, out),
            Integrator::Rk4 => pull_back_rk4(&model.drift, pull_back, at, step, out),
        }
    }
}

/// `w` times the transposed Jacobian of an Euler step at `x`, in place.
#[inline(always)]
fn pull_back_euler<D: Drift, S: Scalar>(
    drift: &D,
    pull_back: DriftPullBack<D, S>,
    x: &[S],
    (u, time, dt): (&[f64], f64, f64),
    w: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    let mut g = OVector::<S, D::State>::from_element_generic(drift.state_dim(), U1, S::ZERO);
    pull_back(drift, x, u, time, w, g.as_mut_slice());
    for (w, g) in w.iter_mut().zip(g.as_slice()) {
        *w += g.scale(dt);
    }
}

/// `w` times the transposed Jacobian of a Runge-Kutta step at `x`, in place: the stages forwards, then their
/// adjoints backwards.
#[inline(always)]
fn pull_back_rk4<D: Drift, S: Scalar>(
    drift: &D,
    pull_back: DriftPullBack<D, S>,
    x: &[S],
    (u, time, dt): (&[f64], f64, f64),
    w: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    let zeros = || OVector::<S, D::State>::from_element_generic(drift.state_dim(), U1, S::ZERO);
    let (mut second, mut third, mut fourth, mut k) = (zeros(), zeros(), zeros(), zeros());
    let half = 0.5 * dt;
    let n = x.len();
    drift.drift(x, u, time, k.as_mut_slice());
    for i in 0..n {
        second[i] = x[i] + k[i].scale(half);
    }
    drift.drift(second.as_slice(), u, time + half, k.as_mut_slice());
    for i in 0..n {
        third[i] = x[i] + k[i].scale(half);
    }
    drift.drift(third.as_slice(), u, time + half, k.as_mut_slice());
    for i in 0..n {
        fourth[i] = x[i] + k[i].scale(dt);
    }
    // `k` becomes the adjoint of each stage's slope, `g` that of the stage.
    let (mut sum, mut g) = (zeros(), zeros());
    for i in 0..n {
        sum[i] = w[i];
        k[i] = w[i].scale(dt / 6.0);
    }
    for (stage, offset, next, weight) in [
        (&fourth, dt, dt, dt / 3.0),
        (&third, half, half, dt / 3.0),
        (&second, half, half, dt / 6.0),
    ] {
        pull_back(drift, stage.as_slice(), u, time + offset, k.as_slice(), g.as_mut_slice());
        for i in 0..n {
            sum[i] += g[i];
            k[i] = w[i].scale(weight) + g[i].scale(next);
        }
    }
    pull_back(drift, x, u, time, k.as_slice(), g.as_mut_slice());
    for i in 0..n {
        w[i] = sum[i] + g[i];
    }
}

/// Steps the stochastic equation dx = f dt + alpha dW over `step` by `substeps` Euler-Maruyama steps.
pub fn euler_maruyama<D: Drift>(
    drift: &D,
    diffusion_std: f64,
    x: &mut [f64],
    u: &[f64],
    step: &Step,
    substeps: u32,
    stream: &mut Stream,
) where
    DefaultAllocator: Allocator<D::State>,
{
    let substeps = substeps.max(1);
    let dt = step.dt / f64::from(substeps);
    let increment_std = diffusion_std * Scalar::sqrt(dt);
    for k in 0..substeps {
        euler(drift, x, u, step.time - step.dt + f64::from(k) * dt, dt);
        for x in x.iter_mut() {
            *x += increment_std * stream.normal();
        }
    }
}
