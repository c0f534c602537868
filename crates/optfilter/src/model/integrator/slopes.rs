//! Derivatives through the steps of an integrator: transposed Jacobians times a vector backwards through its stages, and Jacobians
//! times a vector along them.

use super::equation::{Drift, DriftJvp, DriftVjp, Integrated, Integrator};
use super::steps::{SMALL, euler, rk4, with_work};
use crate::derivative;
use crate::model::Step;
use crate::scalar::{Scalar, VectorFunction};
use crate::scratch::Scratch;
use crate::simd::dispatch_long;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};

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

/// The VJP of a drift: by hand, or by a tape where that is used at all. A tape of each stage is shorter, and so
/// faster, than one of the whole step.
#[inline(always)]
pub(super) fn stage_vjp<D: Drift, S: Scalar>(drift: &D) -> Option<DriftVjp<D, S>>
where
    DefaultAllocator: Allocator<D::State>,
{
    let by_hand = drift.drift_vjp();
    if const { derivative::may_be_taped::<S, D::State>() }
        && by_hand.is_none()
        && drift.state_dim().value() > derivative::UNTAPED
    {
        return Some(|drift, x, u, time, r, out| {
            let n = drift.state_dim();
            derivative::pull_back_vector(&DriftAt { drift, u, time }, x, n, n, r, out);
        });
    }
    by_hand
}

/// The transposed Jacobian of all integration steps of a model step, times `r`. The states between them are
/// stored, the stages of each made again.
#[inline(always)]
pub(super) fn pull_back_steps<D: Drift, S: Scalar>(
    model: &Integrated<D>,
    vjp: DriftVjp<D, S>,
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
            Integrator::Euler => pull_back_euler(&model.drift, vjp, at, step, out),
            Integrator::Rk4 => pull_back_rk4(&model.drift, vjp, at, step, out),
        }
    }
}

/// `w` times the transposed Jacobian of an Euler step at `x`, in place.
#[inline(always)]
fn pull_back_euler<D: Drift, S: Scalar>(
    drift: &D,
    vjp: DriftVjp<D, S>,
    x: &[S],
    (u, time, dt): (&[f64], f64, f64),
    w: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [g], {
        vjp(drift, x, u, time, w, g);
        for (w, g) in w.iter_mut().zip(&*g) {
            *w += g.scale(dt);
        }
    });
}

/// `w` times the transposed Jacobian of a Runge-Kutta step at `x`, in place.
#[inline(always)]
fn pull_back_rk4<D: Drift, S: Scalar>(
    drift: &D,
    vjp: DriftVjp<D, S>,
    x: &[S],
    step: (&[f64], f64, f64),
    w: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [second, third, fourth, k, sum, g], {
        pull_back_rk4_step(drift, vjp, x, step, w, [second, third, fourth, k, sum, g]);
    });
}

/// The stages forwards, then their adjoints backwards.
#[inline(always)]
fn pull_back_rk4_step<D: Drift, S: Scalar>(
    drift: &D,
    vjp: DriftVjp<D, S>,
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
    pull_back_stages(drift, vjp, x, stages, (u, time, dt), w, [k, sum, g]);
}

/// The adjoints of the stages, backwards.
#[inline(always)]
pub(super) fn pull_back_stages<D: Drift, S: Scalar>(
    drift: &D,
    vjp: DriftVjp<D, S>,
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
        vjp(drift, stage, u, time + offset, k, g);
        for i in 0..n {
            sum[i] += g[i];
            k[i] = w[i].scale(weight) + g[i].scale(next);
        }
    }
    vjp(drift, x, u, time, k, g);
    for i in 0..n {
        w[i] = sum[i] + g[i];
    }
}

/// The Jacobian of all integration steps of a model step, times `v`.
#[inline(always)]
pub(super) fn push_forward_steps<D: Drift>(
    model: &Integrated<D>,
    jvp: DriftJvp<D>,
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
                jvp(drift, at, u, time, out, g);
                out.iter_mut().zip(&*g).for_each(|(out, g)| *out += dt * g);
            }),
            Integrator::Rk4 => with_work!(drift, f64, x.len(), [k, at_stage, g, along, sum], {
                let work = [k, at_stage, g, along, sum];
                push_forward_rk4_step(drift, jvp, at, (u, time, dt), out, work);
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
    jvp: DriftJvp<D>,
    x: &[f64],
    (u, time, dt): (&[f64], f64, f64),
    v: &mut [f64],
    [k, at, g, along, sum]: [&mut [f64]; 5],
) {
    let (n, half) = (x.len(), 0.5 * dt);
    let (k, at, g) = (&mut k[..n], &mut at[..n], &mut g[..n]);
    let (along, sum, v) = (&mut along[..n], &mut sum[..n], &mut v[..n]);
    drift.drift(x, u, time, k);
    jvp(drift, x, u, time, v, g);
    for i in 0..n {
        (at[i], along[i], sum[i]) = (x[i] + half * k[i], v[i] + half * g[i], g[i]);
    }
    for (offset, next) in [(half, half), (half, dt)] {
        drift.drift(at, u, time + offset, k);
        jvp(drift, at, u, time + offset, along, g);
        for i in 0..n {
            (at[i], along[i], sum[i]) =
                (x[i] + next * k[i], v[i] + next * g[i], sum[i] + 2.0 * g[i]);
        }
    }
    jvp(drift, at, u, time + dt, along, g);
    for i in 0..n {
        v[i] += (dt / 6.0) * (sum[i] + g[i]);
    }
}

/// The same along stages that a step left behind.
#[inline(always)]
pub(super) fn push_forward_stages<D: Drift>(
    drift: &D,
    jvp: DriftJvp<D>,
    x: &[f64],
    [second, third, fourth]: [&[f64]; 3],
    (u, time, dt): (&[f64], f64, f64),
    v: &mut [f64],
    [g, along, sum]: [&mut [f64]; 3],
) {
    let (n, half) = (x.len(), 0.5 * dt);
    let (g, along, sum, v) = (&mut g[..n], &mut along[..n], &mut sum[..n], &mut v[..n]);
    jvp(drift, x, u, time, v, g);
    for i in 0..n {
        (along[i], sum[i]) = (v[i] + half * g[i], g[i]);
    }
    for (stage, next) in [(second, half), (third, dt)] {
        jvp(drift, stage, u, time + half, along, g);
        for i in 0..n {
            (along[i], sum[i]) = (v[i] + next * g[i], sum[i] + 2.0 * g[i]);
        }
    }
    jvp(drift, fourth, u, time + dt, along, g);
    for i in 0..n {
        v[i] += (dt / 6.0) * (sum[i] + g[i]);
    }
}
