//! State-space models: how the state moves and how it is seen.
//!
//! ```text
//! x_t = f(x_{t-1}, u_t, t) + q_t          Dynamics
//! y_t ~ p(y | h(x_t, u_t, t))             Observation, Likelihood
//! ```
//!
//! A model is written once over slices of any [`Scalar`]; derivatives come by themselves. Noise is
//! kept apart ([`Noise`]): the implicit filter never reads it.
//!
//! ```
//! use nalgebra::Const;
//! use optfilter::model::{Dynamics, Observation, Step};
//! use optfilter::scalar::Scalar;
//!
//! /// A pendulum of unit length: angle and angular speed, of which the angle is measured.
//! struct Pendulum;
//! impl Dynamics for Pendulum {
//!     type State = Const<2>;
//!     fn state_dim(&self) -> Const<2> { Const }
//!     fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], step: &Step, out: &mut [S]) {
//!         out[0] = x[0] + x[1].scale(step.dt);
//!         out[1] = x[1] - x[0].sin().scale(9.81 * step.dt);
//!     }
//! }
//! impl Observation for Pendulum {
//!     type Output = Const<1>;
//!     fn output_dim(&self) -> Const<1> { Const }
//!     fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
//!         out[0] = x[0];
//!     }
//!     fn is_angle(&self, _component: usize) -> bool { true }
//! }
//! ```

mod check;
pub(crate) mod discretize;
pub mod growth;
pub mod integrator;
pub mod likelihood;
pub mod linear;
mod linearize;
pub mod lorenz63;
pub mod lorenz96;
pub mod noise;
pub mod random_walk;
pub mod stretch;

pub use check::{DerivativeMismatch, check_derivatives};
pub use growth::Growth;
pub use integrator::{Drift, Integrated, Integrator};
pub use likelihood::Likelihood;
pub use linear::Linear;
pub(crate) use linearize::{
    ObservationAt, TransitionAt, linearize_observation_lanes, linearize_transition_lanes,
};
pub use linearize::{
    linearize_observation, linearize_transition, pull_back_observation, pull_back_transition,
};
pub use lorenz63::Lorenz63;
pub use lorenz96::Lorenz96;
pub use noise::{DiagonalNoise, GaussianNoise, Noise, NoiseError};
pub use random_walk::RandomWalk;
pub use stretch::Stretch;

use crate::scalar::Scalar;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};
use nalgebra::Dim;

/// The time step that a transition crosses or at whose end an observation is made.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Step {
    /// The number of the step, from 1.
    pub index: u64,
    /// The time at the end of the step.
    pub time: f64,
    /// The length of the step; over a step of none nothing is predicted.
    pub dt: f64,
    /// The time since the row before that was measured: `dt` where that is the row before, more after a gap.
    pub since: f64,
    /// The usual length of a step: the mean of those before, or `dt`.
    pub usual: f64,
}

impl Step {
    /// The step to row `index`, of a series whose first row was at time `first`, with nothing missing before it.
    pub fn to_row(index: u64, time: f64, dt: f64, first: f64) -> Self {
        let before = index.saturating_sub(2) as f64;
        let usual = if before > 0.0 { (time - dt - first) / before } else { dt };
        Self { index, time, dt, since: dt, usual }
    }

    /// How many usual steps passed since the last measurement; 1 where that is about one.
    pub(crate) fn gap(&self) -> f64 {
        let gap = self.since / self.usual;
        // A quarter more or less is the difference between two months.
        if gap > 1.25 && gap.is_finite() { gap } else { 1.0 }
    }

    /// Step number `index` of a series with even spacing `dt` that starts at time 0.
    pub fn even(index: u64, dt: f64) -> Self {
        Self { index, time: index as f64 * dt, dt, since: dt, usual: dt }
    }
}

/// How the state moves over one step.
pub trait Dynamics: Sized {
    /// The dimension of the state, known at compile time (`Const<N>`) or not (`Dyn`).
    type State: Dim;

    /// The dimension of the state.
    fn state_dim(&self) -> Self::State;

    /// The number of control inputs that the model reads.
    fn input_dim(&self) -> usize {
        0
    }

    /// Writes the expected next state to `out`.
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]);

    /// The expected next states of many, one after the other, if the model would rather be asked once for all (an
    /// interpreter, a foreign callback); whoever has many asks here first. `None`, without a look at `points`,
    /// if it would not.
    #[inline(always)]
    fn transition_many(
        &self,
        _points: &dyn Fn() -> Vec<f64>,
        _u: &[f64],
        _step: &Step,
    ) -> Option<Vec<f64>> {
        None
    }

    /// Writes a hand-written Jacobian of [`transition`](Dynamics::transition) and returns `true`, or
    /// returns `false` to have it derived automatically. [`check_derivatives`] compares the two.
    fn transition_jacobian(
        &self,
        _x: &[f64],
        _u: &[f64],
        _step: &Step,
        _out: &mut JacobianMut<'_>,
    ) -> bool {
        false
    }

    /// A hand-written function that writes the transposed Jacobian of [`transition`](Dynamics::transition) at
    /// a state times a vector, if there is one; it costs a few transitions whatever the size of the state.
    #[inline(always)]
    fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        None
    }

    /// A hand-written function that writes the Jacobian of [`transition`](Dynamics::transition) at a state times a vector, if there is
    /// one; else states and slopes go through `transition` as dual numbers.
    #[inline(always)]
    fn transition_push_forward(&self) -> Option<PushForward<Self>> {
        None
    }

    /// How many numbers a transition can leave behind for its derivatives, which then need not compute them again (the stages of
    /// a Runge-Kutta step); 0 if it leaves none. Whoever leaves some has derivatives by hand both ways.
    #[inline(always)]
    fn trail_len(&self) -> usize {
        0
    }

    /// [`transition`](Dynamics::transition), to the bit, with its trail.
    #[inline(always)]
    fn transition_trailed<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
        _trail: &mut [S],
    ) {
        self.transition(x, u, step, out);
    }

    /// Writes the transposed Jacobian of the transition that left `trail` behind, times `r`: to the bit what
    /// [`transition_pull_back`](Dynamics::transition_pull_back) writes, without which it is not called.
    #[inline(always)]
    fn pull_back_along<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        _trail: &[S],
        r: &[S],
        out: &mut [S],
    ) {
        if let Some(pull_back) = self.transition_pull_back() {
            pull_back(self, x, u, step, r, out);
        }
    }

    /// Writes the Jacobian of the transition that left `trail` behind, times `v`: to the bit what
    /// [`transition_push_forward`](Dynamics::transition_push_forward) writes, without which it is not called.
    #[inline(always)]
    fn push_forward_along(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        _trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        if let Some(push_forward) = self.transition_push_forward() {
            push_forward(self, x, u, step, v, out);
        }
    }

    /// Whether a component of the state is an angle, to be compared modulo whole turns.
    fn is_state_angle(&self, _component: usize) -> bool {
        false
    }

    /// How long a whole turn of such a component is; 2 pi, as angles are in radians unless said otherwise.
    #[inline(always)]
    fn state_turn(&self, _component: usize) -> f64 {
        core::f64::consts::TAU
    }

    /// How the process noise of a step is [stretched], if inputs or the time have a say in it.
    ///
    /// [stretched]: stretch
    #[inline(always)]
    fn process_stretch(&self) -> Option<Stretch<Self>> {
        None
    }
}

/// How the state is seen: the parameter of the likelihood, which for Gaussian noise is the expected
/// measurement.
pub trait Observation: Sized {
    /// The dimension of the measurement.
    type Output: Dim;

    /// The dimension of the measurement.
    fn output_dim(&self) -> Self::Output;

    /// Writes h(x) to `out`.
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]);

    /// h at many states, one after the other, as [`transition_many`](Dynamics::transition_many).
    #[inline(always)]
    fn observe_many(
        &self,
        _points: &dyn Fn() -> Vec<f64>,
        _u: &[f64],
        _step: &Step,
    ) -> Option<Vec<f64>> {
        None
    }

    /// Writes a hand-written Jacobian of [`observe`](Observation::observe) and returns `true`, or
    /// returns `false` to have it derived automatically.
    fn observation_jacobian(
        &self,
        _x: &[f64],
        _u: &[f64],
        _step: &Step,
        _out: &mut JacobianMut<'_>,
    ) -> bool {
        false
    }

    /// A hand-written function that writes the transposed Jacobian of [`observe`](Observation::observe) at
    /// a state times a vector, if there is one; it is then used in place of the automatic one.
    #[inline(always)]
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        None
    }

    /// A hand-written function that writes the Jacobian of [`observe`](Observation::observe) at a state times a vector, if there is one.
    #[inline(always)]
    fn push_forward(&self) -> Option<PushForward<Self>> {
        None
    }

    /// Whether it shows every state as it is, none of them an angle and with noise that nothing stretches: states can then be taken one by
    /// one, and Gaussian filters do not multiply by the Jacobian, which is the identity.
    #[inline(always)]
    fn is_identity(&self) -> bool {
        false
    }

    /// Whether a component of the measurement is an angle, to be compared modulo whole turns.
    fn is_angle(&self, _component: usize) -> bool {
        false
    }

    /// How long a whole turn of such a component is; 2 pi, as angles are in radians unless said otherwise.
    #[inline(always)]
    fn turn(&self, _component: usize) -> f64 {
        core::f64::consts::TAU
    }

    /// How the noise of a measurement is [stretched], if inputs or the time have a say in it.
    ///
    /// [stretched]: stretch
    #[inline(always)]
    fn measurement_stretch(&self) -> Option<Stretch<Self>> {
        None
    }
}

/// Inside an implementation of [`Dynamics`] around another: trails are those of the one inside, `self.$inner`.
#[macro_export]
#[doc(hidden)]
macro_rules! trails_of {
    ($inner:tt) => {
        #[inline(always)]
        fn trail_len(&self) -> usize {
            self.$inner.trail_len()
        }
        #[inline(always)]
        fn transition_trailed<S: $crate::scalar::Scalar>(
            &self,
            x: &[S],
            u: &[f64],
            step: &$crate::model::Step,
            out: &mut [S],
            trail: &mut [S],
        ) {
            match self.$inner.trail_len() {
                0 => self.transition(x, u, step, out),
                _ => self.$inner.transition_trailed(x, u, step, out, trail),
            }
        }
        #[inline(always)]
        fn pull_back_along<S: $crate::scalar::Scalar>(
            &self,
            x: &[S],
            u: &[f64],
            step: &$crate::model::Step,
            trail: &[S],
            r: &[S],
            out: &mut [S],
        ) {
            self.$inner.pull_back_along(x, u, step, trail, r, out);
        }
        #[inline(always)]
        fn push_forward_along(
            &self,
            x: &[f64],
            u: &[f64],
            step: &$crate::model::Step,
            trail: &[f64],
            v: &[f64],
            out: &mut [f64],
        ) {
            self.$inner.push_forward_along(x, u, step, trail, v, out);
        }
    };
}

/// Writes J' r for the Jacobian J at `x`: `(model, x, u, step, r, out)`.
pub type PullBack<M, S> = fn(&M, &[S], &[f64], &Step, &[S], &mut [S]);

/// Writes J v for the Jacobian J at `x`: `(model, x, u, step, v, out)`.
pub type PushForward<M> = fn(&M, &[f64], &[f64], &Step, &[f64], &mut [f64]);

/// A whole model: dynamics and observation of the same state.
pub trait Model: Dynamics + Observation {}
impl<T: Dynamics + Observation> Model for T {}

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
    fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        self.dynamics.transition_pull_back::<S>()?;
        Some(
            #[inline(always)]
            |pair, x, u, step, r, out| {
                if let Some(pull_back) = pair.dynamics.transition_pull_back() {
                    pull_back(&pair.dynamics, x, u, step, r, out);
                }
            },
        )
    }
    #[inline(always)]
    fn transition_push_forward(&self) -> Option<PushForward<Self>> {
        self.dynamics.transition_push_forward()?;
        Some(|pair, x, u, step, v, out| {
            if let Some(push_forward) = pair.dynamics.transition_push_forward() {
                push_forward(&pair.dynamics, x, u, step, v, out);
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
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        self.observation.pull_back::<S>()?;
        Some(
            #[inline(always)]
            |pair, x, u, step, r, out| {
                if let Some(pull_back) = pair.observation.pull_back() {
                    pull_back(&pair.observation, x, u, step, r, out);
                }
            },
        )
    }
    #[inline(always)]
    fn push_forward(&self) -> Option<PushForward<Self>> {
        self.observation.push_forward()?;
        Some(|pair, x, u, step, v, out| {
            if let Some(push_forward) = pair.observation.push_forward() {
                push_forward(&pair.observation, x, u, step, v, out);
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

/// A Jacobian being written: `out[(i, j)]` is the derivative of output i by input j. Starts at zero.
#[derive(Debug)]
pub struct JacobianMut<'a> {
    column_major: &'a mut [f64],
    rows: usize,
}

impl Index<(usize, usize)> for JacobianMut<'_> {
    type Output = f64;
    #[inline(always)]
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.column_major[i + j * self.rows]
    }
}

impl IndexMut<(usize, usize)> for JacobianMut<'_> {
    #[inline(always)]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.column_major[i + j * self.rows]
    }
}
