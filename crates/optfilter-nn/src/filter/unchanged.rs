//! Weights that stay as they are.

use super::traits::{Resumable, Weight, WeightFilter, same_length};
use crate::evaluate::{Evaluator, Minibatch};
use optfilter::checkpoint::{self, CheckpointError};

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

impl<E: Weight> Resumable<E> for Static<E> {
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("weights/static", &self.0)
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        let weights: Vec<E> = checkpoint::load("weights/static", bytes)?;
        same_length(weights.len(), self.0.len())?;
        self.0 = weights;
        Ok(())
    }
}
