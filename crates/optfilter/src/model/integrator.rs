//! Differential equations as discrete models: Euler, fourth-order Runge-Kutta, Euler-Maruyama.
//!
//! ```text
//! Euler   x + dt f(x, t)
//! RK4     x + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//! Euler-Maruyama, for dx = f dt + alpha dW:   x + dt f(x, t) + alpha sqrt(dt) z,   z ~ N(0, I)
//! ```

use super::{Dynamics, JacobianMut, Observation, PullBack, PushForward, Step};
use crate::derivative::{self, VectorFunction};
use crate::rng::Stream;
use crate::scalar::Scalar;
use crate::scratch::{Scratch, is_long};
use crate::simd::dispatch;
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
/// time; kept ones, in the vector unit, where they are long.
macro_rules! with_work {
    ($drift:expr, $scalar:ty, $len:expr, [$($name:ident),+], $body:expr) => {
        if is_long::<D::State>($len) {
            $(let mut $name = Scratch::<$scalar>::new($len);)+
            dispatch(
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
    with_work!(drift, S, x.len(), [g], {
        pull_back(drift, x, u, time, w, g);
        for (w, g) in w.iter_mut().zip(&*g) {
            *w += g.scale(dt);
        }
    });
}

/// `w` times the transposed Jacobian of a Runge-Kutta step at `x`, in place.
#[inline(always)]
fn pull_back_rk4<D: Drift, S: Scalar>(
    drift: &D,
    pull_back: DriftPullBack<D, S>,
    x: &[S],
    step: (&[f64], f64, f64),
    w: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [second, third, fourth, k, sum, g], {
        pull_back_rk4_step(drift, pull_back, x, step, w, [second, third, fourth, k, sum, g]);
    });
}

/// The stages forwards, then their adjoints backwards.
#[inline(always)]
fn pull_back_rk4_step<D: Drift, S: Scalar>(
    drift: &D,
    pull_back: DriftPullBack<D, S>,
    x: &[S],
    (u, time, dt): (&[f64], f64, f64),
    w: &mut [S],
    [second, third, fourth, k, sum, g]: [&mut [S]; 6],
) {
    let half = 0.5 * dt;
    let n = x.len();
    drift.drift(x, u, time, k);
    for i in 0..n {
        second[i] = x[i] + k[i].scale(half);
    }
    drift.drift(second, u, time + half, k);
    for i in 0..n {
        third[i] = x[i] + k[i].scale(half);
    }
    drift.drift(third, u, time + half, k);
    for i in 0..n {
        fourth[i] = x[i] + k[i].scale(dt);
    }
    let stages = [&*second, &*third, &*fourth];
    pull_back_stages(drift, pull_back, x, stages, (u, time, dt), w, [k, sum, g]);
}

/// The adjoints of the stages, backwards.
#[inline(always)]
fn pull_back_stages<D: Drift, S: Scalar>(
    drift: &D,
    pull_back: DriftPullBack<D, S>,
    x: &[S],
    [second, third, fourth]: [&[S]; 3],
    (u, time, dt): (&[f64], f64, f64),
    w: &mut [S],
    [k, sum, g]: [&mut [S]; 3],
) {
    let (n, half) = (x.len(), 0.5 * dt);
    let (w, k, sum, g) = (&mut w[..n], &mut k[..n], &mut sum[..n], &mut g[..n]);
    // `k` becomes the adjoint of each stage's slope, `g` that of the stage.
    for i in 0..n {
        sum[i] = w[i];
        k[i] = w[i].scale(dt / 6.0);
    }
    for (stage, offset, next, weight) in
        [(fourth, dt, dt, dt / 3.0), (third, half, half, dt / 3.0), (second, half, half, dt / 6.0)]
    {
        pull_back(drift, stage, u, time + offset, k, g);
        for i in 0..n {
            sum[i] += g[i];
            k[i] = w[i].scale(weight) + g[i].scale(next);
        }
    }
    pull_back(drift, x, u, time, k, g);
    for i in 0..n {
        w[i] = sum[i] + g[i];
    }
}

/// The Jacobian of all integration steps of a model step, times `v`.
#[inline(always)]
fn push_forward_steps<D: Drift>(
    model: &Integrated<D>,
    push_forward: DriftPushForward<D>,
    x: &[f64],
    u: &[f64],
    step: &Step,
    v: &[f64],
    out: &mut [f64],
) where
    DefaultAllocator: Allocator<D::State>,
{
    let substeps = model.substeps.max(1);
    let dt = step.dt / f64::from(substeps);
    let mut between = Vec::new();
    out.copy_from_slice(v);
    for k in 0..substeps {
        let time = step.time - step.dt + f64::from(k) * dt;
        let at = if k == 0 { x } else { &between };
        let drift = &model.drift;
        match model.method {
            Integrator::Euler => with_work!(drift, f64, x.len(), [g], {
                push_forward(drift, at, u, time, out, g);
                out.iter_mut().zip(&*g).for_each(|(out, g)| *out += dt * g);
            }),
            Integrator::Rk4 => with_work!(drift, f64, x.len(), [k, at_stage, g, along, sum], {
                let work = [k, at_stage, g, along, sum];
                push_forward_rk4_step(drift, push_forward, at, (u, time, dt), out, work);
            }),
        }
        if k + 1 < substeps {
            if k == 0 {
                between = x.to_vec();
            }
            match model.method {
                Integrator::Euler => euler(drift, &mut between, u, time, dt),
                Integrator::Rk4 => rk4(drift, &mut between, u, time, dt),
            }
        }
    }
}

/// `v` times the Jacobian of a Runge-Kutta step at `x`, in place: each stage beside its slope.
#[inline(always)]
fn push_forward_rk4_step<D: Drift>(
    drift: &D,
    push_forward: DriftPushForward<D>,
    x: &[f64],
    (u, time, dt): (&[f64], f64, f64),
    v: &mut [f64],
    [k, at, g, along, sum]: [&mut [f64]; 5],
) {
    let (n, half) = (x.len(), 0.5 * dt);
    let (k, at, g) = (&mut k[..n], &mut at[..n], &mut g[..n]);
    let (along, sum, v) = (&mut along[..n], &mut sum[..n], &mut v[..n]);
    drift.drift(x, u, time, k);
    push_forward(drift, x, u, time, v, g);
    for i in 0..n {
        (at[i], along[i], sum[i]) = (x[i] + half * k[i], v[i] + half * g[i], g[i]);
    }
    for (offset, next) in [(half, half), (half, dt)] {
        drift.drift(at, u, time + offset, k);
        push_forward(drift, at, u, time + offset, along, g);
        for i in 0..n {
            (at[i], along[i], sum[i]) =
                (x[i] + next * k[i], v[i] + next * g[i], sum[i] + 2.0 * g[i]);
        }
    }
    push_forward(drift, at, u, time + dt, along, g);
    for i in 0..n {
        v[i] += (dt / 6.0) * (sum[i] + g[i]);
    }
}

/// The same along stages that a step left behind.
#[inline(always)]
fn push_forward_stages<D: Drift>(
    drift: &D,
    push_forward: DriftPushForward<D>,
    x: &[f64],
    [second, third, fourth]: [&[f64]; 3],
    (u, time, dt): (&[f64], f64, f64),
    v: &mut [f64],
    [g, along, sum]: [&mut [f64]; 3],
) {
    let (n, half) = (x.len(), 0.5 * dt);
    let (g, along, sum, v) = (&mut g[..n], &mut along[..n], &mut sum[..n], &mut v[..n]);
    push_forward(drift, x, u, time, v, g);
    for i in 0..n {
        (along[i], sum[i]) = (v[i] + half * g[i], g[i]);
    }
    for (stage, next) in [(second, half), (third, dt)] {
        push_forward(drift, stage, u, time + half, along, g);
        for i in 0..n {
            (along[i], sum[i]) = (v[i] + next * g[i], sum[i] + 2.0 * g[i]);
        }
    }
    push_forward(drift, fourth, u, time + dt, along, g);
    for i in 0..n {
        v[i] += (dt / 6.0) * (sum[i] + g[i]);
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
