//! Differential equations as discrete models: Euler, fourth-order Runge-Kutta, Euler-Maruyama.
//!
//! ```text
//! Euler   x + dt f(x, t)
//! RK4     x + dt/6 (k1 + 2 k2 + 2 k3 + k4)
//! Euler-Maruyama, for dx = f dt + alpha dW:   x + dt f(x, t) + alpha sqrt(dt) z,   z ~ N(0, I)
//! ```

mod equation;
mod slopes;
mod steps;

pub use equation::{Drift, DriftJvp, DriftVjp, Integrated, Integrator};
pub use steps::{euler, euler_maruyama, rk4};

use super::{Dynamics, JacobianMut, Jvp, Observation, Step, Vjp};
use crate::scalar::Scalar;
use crate::scratch::Scratch;
use crate::simd::dispatch_long;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};
use slopes::{
    pull_back_stages, pull_back_steps, push_forward_stages, push_forward_steps, stage_vjp,
};
use steps::{SMALL, rk4_trailed, with_work};

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
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        stage_vjp::<D, S>(&self.drift)?;
        Some(
            #[inline(always)]
            |model, x, u, step, r, out| {
                if let Some(vjp) = stage_vjp(&model.drift) {
                    pull_back_steps(model, vjp, x, u, step, r, out);
                }
            },
        )
    }
    #[inline(always)]
    fn transition_jvp(&self) -> Option<Jvp<Self>> {
        self.drift.drift_jvp()?;
        Some(|model, x, u, step, v, out| {
            if let Some(jvp) = model.drift.drift_jvp() {
                push_forward_steps(model, jvp, x, u, step, v, out);
            }
        })
    }
    /// The stages of Runge-Kutta steps, and the states between these, where the drift has derivatives by hand.
    #[inline(always)]
    fn stage_cache_len(&self) -> usize {
        let by_hand = self.drift.drift_vjp::<f64>().is_some() && self.drift.drift_jvp().is_some();
        match self.method {
            Integrator::Rk4 if by_hand => {
                trail_start(self.substeps.max(1), self.state_dim().value())
            }
            _ => 0,
        }
    }
    #[inline(always)]
    fn transition_with_cache<S: Scalar>(
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
    fn vjp_cached<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        trail: &[S],
        r: &[S],
        out: &mut [S],
    ) {
        let Some(vjp) = self.drift.drift_vjp() else { return };
        if trail.is_empty() {
            return pull_back_steps(self, vjp, x, u, step, r, out);
        }
        out.copy_from_slice(r);
        for (k, step) in self.substeps(u, step).rev() {
            let (at, stages) = trailed(trail, k, x);
            with_work!(self.drift, S, x.len(), [k, sum, g], {
                pull_back_stages(&self.drift, vjp, at, stages, step, out, [k, sum, g]);
            });
        }
    }
    #[inline(always)]
    fn jvp_cached(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        let Some(jvp) = self.drift.drift_jvp() else { return };
        if trail.is_empty() {
            return push_forward_steps(self, jvp, x, u, step, v, out);
        }
        out.copy_from_slice(v);
        for (k, step) in self.substeps(u, step) {
            let (at, stages) = trailed(trail, k, x);
            with_work!(self.drift, f64, x.len(), [g, along, sum], {
                let work = [g, along, sum];
                push_forward_stages(&self.drift, jvp, at, stages, step, out, work);
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
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        self.drift.vjp::<S>()?;
        Some(
            #[inline(always)]
            |model, x, u, step, r, out| {
                if let Some(vjp) = model.drift.vjp() {
                    vjp(&model.drift, x, u, step, r, out);
                }
            },
        )
    }
    #[inline(always)]
    fn jvp(&self) -> Option<Jvp<Self>> {
        self.drift.jvp()?;
        Some(|model, x, u, step, v, out| {
            if let Some(jvp) = model.drift.jvp() {
                jvp(&model.drift, x, u, step, v, out);
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
