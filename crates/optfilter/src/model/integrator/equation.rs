//! A differential equation, and how it is made discrete.

use crate::model::Step;
use crate::scalar::Scalar;
use nalgebra::Dim;
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
    fn drift_vjp<S: Scalar>(&self) -> Option<DriftVjp<Self, S>> {
        None
    }

    /// A hand-written function that writes the Jacobian of [`drift`](Drift::drift) at a state times a vector, if there is one.
    #[inline(always)]
    fn drift_jvp(&self) -> Option<DriftJvp<Self>> {
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
pub type DriftVjp<D, S> = fn(&D, &[S], &[f64], f64, &[S], &mut [S]);

/// Writes J v for the Jacobian J of a drift at `x`: `(drift, x, u, time, v, out)`.
pub type DriftJvp<D> = fn(&D, &[f64], &[f64], f64, &[f64], &mut [f64]);

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

impl<D> Integrated<D> {
    /// The integration steps of a model step: their number, and input, time and length.
    #[inline(always)]
    pub(super) fn substeps<'a>(
        &self,
        u: &'a [f64],
        step: &Step,
    ) -> impl DoubleEndedIterator<Item = (u32, (&'a [f64], f64, f64))> + use<'a, D> {
        let substeps = self.substeps.max(1);
        let (start, dt) = (step.time - step.dt, step.dt / f64::from(substeps));
        (0..substeps).map(move |k| (k, (u, start + f64::from(k) * dt, dt)))
    }
}
