//! Dynamics and an observation that were written apart.

use super::jacobian::JacobianMut;
use super::step::Step;
use super::traits::{Dynamics, Jvp, Observation, Stretch, Vjp};
use crate::scalar::Scalar;

/// A model put together from dynamics and an observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair<D, O> {
    /// How the state moves.
    pub dynamics: D,
    /// How it is seen.
    pub observation: O,
}

impl<D: Dynamics, O> Dynamics for Pair<D, O> {
    type State = D::State;
    #[inline(always)]
    fn state_dim(&self) -> D::State {
        self.dynamics.state_dim()
    }
    fn input_dim(&self) -> usize {
        self.dynamics.input_dim()
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.dynamics.transition(x, u, step, out);
    }
    #[inline(always)]
    fn transition_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        self.dynamics.transition_jacobian(x, u, step, out)
    }
    #[inline(always)]
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        self.dynamics.transition_vjp::<S>()?;
        Some(
            #[inline(always)]
            |pair, x, u, step, r, out| {
                if let Some(vjp) = pair.dynamics.transition_vjp() {
                    vjp(&pair.dynamics, x, u, step, r, out);
                }
            },
        )
    }
    #[inline(always)]
    fn transition_jvp(&self) -> Option<Jvp<Self>> {
        self.dynamics.transition_jvp()?;
        Some(|pair, x, u, step, v, out| {
            if let Some(jvp) = pair.dynamics.transition_jvp() {
                jvp(&pair.dynamics, x, u, step, v, out);
            }
        })
    }
    crate::trails_of!(dynamics);
    fn is_state_angle(&self, component: usize) -> bool {
        self.dynamics.is_state_angle(component)
    }
    #[inline(always)]
    fn state_turn(&self, component: usize) -> f64 {
        self.dynamics.state_turn(component)
    }
    #[inline(always)]
    fn process_stretch(&self) -> Option<Stretch<Self>> {
        self.dynamics.process_stretch()?;
        Some(|pair, u, step, out| {
            if let Some(write) = pair.dynamics.process_stretch() {
                write(&pair.dynamics, u, step, out);
            }
        })
    }
}

impl<D, O: Observation> Observation for Pair<D, O> {
    type Output = O::Output;
    #[inline(always)]
    fn output_dim(&self) -> O::Output {
        self.observation.output_dim()
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.observation.observe(x, u, step, out);
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        self.observation.observation_jacobian(x, u, step, out)
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        self.observation.vjp::<S>()?;
        Some(
            #[inline(always)]
            |pair, x, u, step, r, out| {
                if let Some(vjp) = pair.observation.vjp() {
                    vjp(&pair.observation, x, u, step, r, out);
                }
            },
        )
    }
    #[inline(always)]
    fn jvp(&self) -> Option<Jvp<Self>> {
        self.observation.jvp()?;
        Some(|pair, x, u, step, v, out| {
            if let Some(jvp) = pair.observation.jvp() {
                jvp(&pair.observation, x, u, step, v, out);
            }
        })
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        self.observation.is_identity()
    }
    fn is_angle(&self, component: usize) -> bool {
        self.observation.is_angle(component)
    }
    #[inline(always)]
    fn turn(&self, component: usize) -> f64 {
        self.observation.turn(component)
    }
    #[inline(always)]
    fn measurement_stretch(&self) -> Option<Stretch<Self>> {
        self.observation.measurement_stretch()?;
        Some(|pair, u, step, out| {
            if let Some(write) = pair.observation.measurement_stretch() {
                write(&pair.observation, u, step, out);
            }
        })
    }
}
