//! What every model says of itself: how the state moves and how it is seen.

use super::jacobian::JacobianMut;
use super::step::Step;
use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::Dim;

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
    /// returns `false` to have it derived automatically. [`check_derivatives`](super::check_derivatives) compares the two.
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
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        None
    }

    /// A hand-written function that writes the Jacobian of [`transition`](Dynamics::transition) at a state times a vector, if there is
    /// one; else states and slopes go through `transition` as dual numbers.
    #[inline(always)]
    fn transition_jvp(&self) -> Option<Jvp<Self>> {
        None
    }

    /// How many numbers a transition can leave behind for its derivatives, which then need not compute them again (the stages of
    /// a Runge-Kutta step); 0 if it leaves none. Whoever leaves some has derivatives by hand both ways.
    #[inline(always)]
    fn stage_cache_len(&self) -> usize {
        0
    }

    /// [`transition`](Dynamics::transition), to the bit, with its trail.
    #[inline(always)]
    fn transition_with_cache<S: Scalar>(
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
    /// [`transition_vjp`](Dynamics::transition_vjp) writes, without which it is not called.
    #[inline(always)]
    fn vjp_cached<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        _trail: &[S],
        r: &[S],
        out: &mut [S],
    ) {
        if let Some(vjp) = self.transition_vjp() {
            vjp(self, x, u, step, r, out);
        }
    }

    /// Writes the Jacobian of the transition that left `trail` behind, times `v`: to the bit what
    /// [`transition_jvp`](Dynamics::transition_jvp) writes, without which it is not called.
    #[inline(always)]
    fn jvp_cached(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        _trail: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) {
        if let Some(jvp) = self.transition_jvp() {
            jvp(self, x, u, step, v, out);
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
    /// [stretched]: super::stretch
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
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        None
    }

    /// A hand-written function that writes the Jacobian of [`observe`](Observation::observe) at a state times a vector, if there is one.
    #[inline(always)]
    fn jvp(&self) -> Option<Jvp<Self>> {
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
    /// [stretched]: super::stretch
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
        fn stage_cache_len(&self) -> usize {
            self.$inner.stage_cache_len()
        }
        #[inline(always)]
        fn transition_with_cache<S: $crate::scalar::Scalar>(
            &self,
            x: &[S],
            u: &[f64],
            step: &$crate::model::Step,
            out: &mut [S],
            trail: &mut [S],
        ) {
            match self.$inner.stage_cache_len() {
                0 => self.transition(x, u, step, out),
                _ => self.$inner.transition_with_cache(x, u, step, out, trail),
            }
        }
        #[inline(always)]
        fn vjp_cached<S: $crate::scalar::Scalar>(
            &self,
            x: &[S],
            u: &[f64],
            step: &$crate::model::Step,
            trail: &[S],
            r: &[S],
            out: &mut [S],
        ) {
            self.$inner.vjp_cached(x, u, step, trail, r, out);
        }
        #[inline(always)]
        fn jvp_cached(
            &self,
            x: &[f64],
            u: &[f64],
            step: &$crate::model::Step,
            trail: &[f64],
            v: &[f64],
            out: &mut [f64],
        ) {
            self.$inner.jvp_cached(x, u, step, trail, v, out);
        }
    };
}

/// Writes J' r for the Jacobian J at `x`: `(model, x, u, step, r, out)`.
pub type Vjp<M, S> = fn(&M, &[S], &[f64], &Step, &[S], &mut [S]);

/// Writes J v for the Jacobian J at `x`: `(model, x, u, step, v, out)`.
pub type Jvp<M> = fn(&M, &[f64], &[f64], &Step, &[f64], &mut [f64]);

/// Writes a factor for each standard deviation of a row's noise: `(model, u, step, out)`.
pub type Stretch<M> = fn(&M, &[f64], &Step, &mut [f64]);

/// A whole model: dynamics and observation of the same state.
pub trait Model: Dynamics + Observation {}
impl<T: Dynamics + Observation> Model for T {}
