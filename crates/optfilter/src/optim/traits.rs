//! What is descended, and what descends.

use super::buffer::Buffer;
use crate::scalar::{Lanes, Scalar};

/// A function to be made small: all that a first-order method may ask of it.
pub trait Objective<S> {
    /// The value at `x`.
    fn value(&mut self, x: &[S]) -> S;
    /// Writes the gradient at `x` to `out`.
    fn gradient(&mut self, x: &[S], out: &mut [S]);
}

/// A rule that turns a sequence of gradients into a sequence of steps.
pub trait Optimizer<S: Scalar>: Clone {
    /// What the rule remembers between steps.
    type State<V: Buffer<Elem = S>>: Clone;

    /// The number of components of the vectors it moves, for a rule that is made for a certain number.
    #[inline(always)]
    fn dim(&self) -> Option<usize> {
        None
    }

    /// The state before the first step at `x`.
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> Self::State<V>;

    /// Moves `x` by one step, given the gradient `g` at `x`.
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut Self::State<V>);

    /// Whether a later step can start from a state: nothing in it has left the finite numbers.
    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, _state: &Self::State<V>) -> bool {
        true
    }

    /// Whether each component is moved by its own gradient alone, so that any stretch of a vector can be moved by itself.
    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        false
    }

    /// Whether a descent should end before its last step.
    #[inline(always)]
    fn is_done(&self) -> bool {
        false
    }
}

/// A hyper-parameter: one number for all lanes, or one for each lane.
pub trait Hyper<S: Scalar>: Scalar {
    /// The hyper-parameter in the numbers of the state.
    fn get(self) -> S;
}

impl<S: Scalar> Hyper<S> for f64 {
    #[inline(always)]
    fn get(self) -> S {
        S::from_f64(self)
    }
}

impl<const L: usize> Hyper<Lanes<L>> for Lanes<L> {
    #[inline(always)]
    fn get(self) -> Self {
        self
    }
}
