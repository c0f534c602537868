//! Filters whose state is the weight vector of a network.
//!
//! | filter | update | what it needs to know |
//! |---|---|---|
//! | [`ImplicitMap`] | K steps of an optimizer on the loss of the time step | optimizer, K |
//! | [`ImplicitMap::direct_fit`] | the same to near convergence: the measurement is believed entirely | optimizer |
//! | [`Variational`] | K steps on mean loss plus a quadratic pull to the prediction | the transition variance |
//! | [`Particle`] | likelihood weights and resampling of many weight vectors | the transition variance |
//! | [`Static`] | none | nothing |
//!
//! Every filter does the same two things in turn: [`WeightFilter::predict`] when time passes, [`WeightFilter::update`]
//! when labels arrive.

mod implicit_map;
mod particle;
mod start;
mod transition;
mod variational;

pub use implicit_map::ImplicitMap;
pub use optfilter::filter::Memory;
pub use particle::{Particle, ParticleError, disturb, losses};
pub use start::{Converged, fit};
pub use transition::Transition;
pub use variational::{Variational, VariationalError};

use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Real;
use optfilter::scalar::Scalar;

/// A number type for weights: `f32`, or `f64` for checks.
pub trait Weight: Real + Scalar {}
impl<T: Real + Scalar> Weight for T {}

/// A filter over the weights of a network.
pub trait WeightFilter<E: Weight> {
    /// Time passes: the weights move by the transition function.
    fn predict(&mut self);
    /// Labels arrive.
    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>);
    /// The estimate.
    fn weights(&self) -> &[E];
}

/// Weights that never change.
#[derive(Clone, Debug)]
pub struct Static<E>(
    /// The weights.
    pub Vec<E>,
);

impl<E: Weight> WeightFilter<E> for Static<E> {
    fn predict(&mut self) {}
    fn update(&mut self, _: &mut Evaluator<E>, _: &Minibatch<'_, E>) {}
    fn weights(&self) -> &[E] {
        &self.0
    }
}
