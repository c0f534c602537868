//! What every filter over weights does.

use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Real;
use optfilter::checkpoint::CheckpointError;
use optfilter::scalar::Scalar;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A number type for weights: `f32`, or `f64` for checks.
pub trait Weight: Real + Scalar + Serialize + DeserializeOwned {}
impl<T: Real + Scalar + Serialize + DeserializeOwned> Weight for T {}

/// A filter over the weights of a network.
pub trait WeightFilter<E: Weight> {
    /// Time passes: the weights move by the transition function.
    fn predict(&mut self);
    /// Another batch of the same time step: the window moves on, the weights do not.
    fn next_batch(&mut self) {}
    /// Labels arrive.
    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>);
    /// Labels arrive, and somebody may lose patience: false if `stop` ended it before the last step. A filter without steps does not ask.
    fn update_until(
        &mut self,
        evaluator: &mut Evaluator<E>,
        batch: &Minibatch<'_, E>,
        _stop: &dyn Fn() -> bool,
    ) -> bool {
        self.update(evaluator, batch);
        true
    }
    /// The estimate.
    fn weights(&self) -> &[E];
    /// The variance of `h' w` under the belief, for a filter that has one: with a row of the network's Jacobian, how uncertain that
    /// output is.
    fn variance_along(&self, _h: &[E]) -> Option<f64> {
        None
    }
}

/// A filter that can be put aside and taken up again, bit for bit. Settings are not part of what is saved: load into a filter
/// that was built as the saved one was.
pub trait Resumable<E: Weight>: WeightFilter<E> {
    /// Everything the filter remembers: weights, optimizer state, window, random streams.
    fn save(&self) -> Result<Vec<u8>, CheckpointError>;
    /// Takes up what was saved; on an error nothing has changed.
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError>;
}

/// An error unless as many weights were saved as the filter has.
pub(super) fn same_length(found: usize, expected: usize) -> Result<(), CheckpointError> {
    let what = "it holds another number of weights than the network has";
    if found == expected { Ok(()) } else { Err(CheckpointError::Damaged { what }) }
}
