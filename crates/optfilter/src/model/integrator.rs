//! Differential equations as discrete models: Euler, fourth-order Runge-Kutta, Euler-Maruyama.
//!
//! ```text
//! Euler   x + dt f(x, t)
//! RK4     x + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//! Euler-Maruyama, for dx = f dt + alpha dW:   x + dt f(x, t) + alpha sqrt(dt) z,   z ~ N(0, I)
//! ```

use super::{Dynamics, JacobianMut, Observation, PullBack, PushForward, Step};
use crate::rng::Stream;
use crate::scalar::Scalar;
use crate::scratch::Scratch;
use crate::simd::dispatch_long;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};
use serde::{Deserialize, Serialize};
use slopes::{
    pull_back_stages, pull_back_steps, push_forward_stages, push_forward_steps, stage_pull_back,
};

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

    /// A hand-written function that writes the Jacobian of [`drift`](Drift::drift) at a state times a vector, if there is one.
    #[inline(always)]
    fn drift_push_forward(&self) -> Option<DriftPushForward<Self>> {
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

/// Writes J v for the Jacobian J of a drift at `x`: `(drift, x, u, time, v, out)`.
pub type DriftPushForward<D> = fn(&D, &[f64], &[f64], f64, &[f64], &mut [f64]);

/// Runs `$body` with vectors of the state's size to work in, with anything in them: on the stack where the size is known at compile
/// time; else kept ones, and in the vector unit where they are long.
macro_rules! with_work {
    ($drift:expr, $scalar:ty, $len:expr, [$($name:ident),+], $body:expr) => {
        // Constant, so that only one of the two is compiled: a dimension that is a type takes no memory.
        if const { size_of::<D::State>() > 0 } {
            $(let mut $name = Scratch::<$scalar>::new($len);)+
            dispatch_long::<D::State, _>(
                $len,
                #[inline(always)]
                || {
                    $(let $name = &mut *$name;)+
                    $body
                },
            );
        } else {
            let zeros = OVector::<$scalar, D::State>::from_element_generic($drift.state_dim(), U1, <$scalar>::ZERO);
            $(let mut $name = zeros.clone(); let $name = $name.as_mut_slice();)+
            $body
        }
    };
}

// Below the macro, which it uses.
mod slopes;

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
        out.copy_from_slice(x);
        for (_, (u, time, dt)) in self.substeps(u, step) {
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
    #[inline(always)]
    fn transition_push_forward(&self) -> Option<PushForward<Self>> {
        self.drift.drift_push_forward()?;
        Some(|model, x, u, step, v, out| {
            if let Some(push_forward) = model.drift.drift_push_forward() {
                push_forward_steps(model, push_forward, x, u, step, v, out);
            }
        })
    }
    /// The stages of Runge-Kutta steps, and the states between these, where the drift has derivatives by hand.
    #[inline(always)]
    fn trail_len(&self) -> usize {
        let by_hand = self.drift.drift_pull_back::<f64>().is_some()
            && self.drift.drift_push_forward().is_some();
        match self.method {
            Integrator::Rk4 if by_hand => {
                trail_start(self.substeps.max(1), self.state_dim().value())
            }
            _ => 0,
        }
    }
    #[inline(always)]
    fn transition_trailed<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
        trail: &mut [S],
    ) {
        if trail.is_empty() {
            return self.transition(x, u, step, out);
        }
        out.copy_from_slice(x);
        for (k, step) in self.substeps(u, step) {
            let mut own = &mut trail[trail_start(k, x.len())..];
            if k > 0 {
                let (at, stages) = own.split_at_mut(x.len());
                at.copy_from_slice(out);
                own = stages;
            }
            rk4_trailed(&self.drift, out, step, &mut own[..3 * x.len()]);
        }
    }
    #[inline(always)]
    fn pull_back_along<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        trail: &[S],
        r: &[S],
        out: &mut [S],
    ) {
        let Some(pull_back) = self.drift.drift_pull_back() else { return };
        if trail.is_empty() {
            return pull_back_steps(self, pull_back, x, u, step, r, out);
        }
        out.copy_from_slice(r);
        for (k, step) in self.substeps(u, step).rev() {
            let (at, stages) = trailed(trail, k, x);
            with_work!(self.drift, S, x.len(), [k, sum, g], {
                pull_back_stages(&self.drift, pull_back, at, stages, step, out, [k, sum, g]);
            });
        }
    }
    #[inline(always)]
    fn push_forward_along(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        let Some(push_forward) = self.drift.drift_push_forward() else { return };
        if trail.is_empty() {
            return push_forward_steps(self, push_forward, x, u, step, v, out);
        }
        out.copy_from_slice(v);
        for (k, step) in self.substeps(u, step) {
            let (at, stages) = trailed(trail, k, x);
            with_work!(self.drift, f64, x.len(), [g, along, sum], {
                let work = [g, along, sum];
                push_forward_stages(&self.drift, push_forward, at, stages, step, out, work);
            });
        }
    }
    fn is_state_angle(&self, component: usize) -> bool {
        self.drift.is_state_angle(component)
    }
    fn state_turn(&self, component: usize) -> f64 {
        self.drift.state_turn(component)
    }
}

impl<D> Integrated<D> {
    /// The integration steps of a model step: their number, and input, time and length.
    #[inline(always)]
    fn substeps<'a>(
        &self,
        u: &'a [f64],
        step: &Step,
    ) -> impl DoubleEndedIterator<Item = (u32, (&'a [f64], f64, f64))> + use<'a, D> {
        let substeps = self.substeps.max(1);
        let (start, dt) = (step.time - step.dt, step.dt / f64::from(substeps));
        (0..substeps).map(move |k| (k, (u, start + f64::from(k) * dt, dt)))
    }
}

/// Where the part of integration step `k` starts in a trail: its state, which for the first is that of the model step and not there,
/// and its second, third and fourth stages.
#[inline(always)]
fn trail_start(k: u32, n: usize) -> usize {
    (4 * k as usize * n).saturating_sub(n)
}

/// The state and the later stages of integration step `k` of a model step from `x`.
#[inline(always)]
fn trailed<'a, S>(trail: &'a [S], k: u32, x: &'a [S]) -> (&'a [S], [&'a [S]; 3]) {
    let n = x.len();
    let own = &trail[trail_start(k, n)..];
    let (at, own) = if k > 0 { own.split_at(n) } else { (x, own) };
    (at, [&own[..n], &own[n..][..n], &own[2 * n..][..n]])
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
    #[inline(always)]
    fn push_forward(&self) -> Option<PushForward<Self>> {
        self.drift.push_forward()?;
        Some(|model, x, u, step, v, out| {
            if let Some(push_forward) = model.drift.push_forward() {
                push_forward(&model.drift, x, u, step, v, out);
            }
        })
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        self.drift.is_identity()
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
    with_work!(drift, S, x.len(), [k], euler_step(drift, x, (u, time, dt), k));
}

#[inline(always)]
fn euler_step<D: Drift, S: Scalar>(
    drift: &D,
    x: &mut [S],
    (u, time, dt): (&[f64], f64, f64),
    k: &mut [S],
) {
    drift.drift(x, u, time, k);
    for (x, k) in x.iter_mut().zip(&*k) {
        *x += k.scale(dt);
    }
}

/// One fourth-order Runge-Kutta step in place.
#[inline(always)]
pub fn rk4<D: Drift, S: Scalar>(drift: &D, x: &mut [S], u: &[f64], time: f64, dt: f64)
where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [k1, k2, k, at], {
        rk4_step(drift, x, (u, time, dt), [k1, k2, k], at, 0);
    });
}

/// The same with its stages left behind, one after the other.
#[inline(always)]
fn rk4_trailed<D: Drift, S: Scalar>(
    drift: &D,
    x: &mut [S],
    (u, time, dt): (&[f64], f64, f64),
    trail: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [k1, k2, k], {
        rk4_step(drift, x, (u, time, dt), [k1, k2, k], trail, x.len());
    });
}

/// A Runge-Kutta step whose second, third and fourth stages are `stride` numbers apart in `stages`; none apart, where nobody asks
/// for them.
#[inline(always)]
fn rk4_step<D: Drift, S: Scalar>(
    drift: &D,
    x: &mut [S],
    (u, time, dt): (&[f64], f64, f64),
    [k1, k2, k]: [&mut [S]; 3],
    stages: &mut [S],
    stride: usize,
) {
    let half = 0.5 * dt;
    let n = x.len();
    let (k1, k2, k) = (&mut k1[..n], &mut k2[..n], &mut k[..n]);
    drift.drift(x, u, time, k1);
    let at = &mut stages[..n];
    for i in 0..n {
        at[i] = x[i] + k1[i].scale(half);
    }
    drift.drift(at, u, time + half, k2);
    let at = &mut stages[stride..][..n];
    for i in 0..n {
        at[i] = x[i] + k2[i].scale(half);
    }
    drift.drift(at, u, time + half, k);
    let at = &mut stages[2 * stride..][..n];
    // The two in the middle enter as one.
    for i in 0..n {
        at[i] = x[i] + k[i].scale(dt);
        k2[i] += k[i];
    }
    drift.drift(at, u, time + dt, k);
    for i in 0..n {
        x[i] += (k1[i] + k2[i] + k2[i] + k[i]).scale(dt / 6.0);
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
