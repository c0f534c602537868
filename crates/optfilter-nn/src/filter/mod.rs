//! Filters whose state is the weight vector of a network.
//!
//! | filter | update | what it needs to know |
//! |---|---|---|
//! | [`ImplicitMap`] | K steps of an optimizer on the loss of the time step | optimizer, K |
//! | [`ImplicitMap::direct_fit`] | the same to near convergence: the measurement is believed entirely | optimizer |
//! | [`Variational`] | K steps on mean loss plus a quadratic pull to the prediction | the transition variance |
//! | [`Particle`] | likelihood weights and resampling of many weight vectors | the transition variance |
//! | [`Diagonal`] | extended Kalman filters and BONG with a diagonal belief | prior and drift variances |
//! | [`LowRank`] | LoFi: diagonal plus low-rank precision | the same, and the rank |
//! | [`Ivon`] | variational online Newton steps | rate and effective sample size |
//! | [`Static`] | none | nothing |
//!
//! [`ImplicitMap`] (direct fit included) and [`Variational`] may look back over a [`Window`] of time steps.
//!
//! Every filter does the same two things in turn: [`WeightFilter::predict`] when time passes, [`WeightFilter::update`]
//! when labels arrive.

mod descent;
mod diagonal;
mod implicit_map;
mod ivon;
mod linearised;
mod low_rank;
mod particle;
mod start;
mod transition;
mod variational;
mod window;

pub use descent::descend_at;
pub use diagonal::{Diagonal, DiagonalRule};
pub use implicit_map::ImplicitMap;
pub use ivon::{Ivon, IvonOptions};
pub use linearised::{Likelihood, Linearised};
pub use low_rank::LowRank;
pub use optfilter::filter::Memory;
pub use particle::{Particle, ParticleError, disturb, losses};
pub use start::{Converged, fit, fit_until};
pub use transition::Transition;
pub use variational::{Variational, VariationalError};
pub use window::{Past, Window, WindowError, WindowObjective};

use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Real;
use optfilter::checkpoint::{self, CheckpointError};
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
fn same_length(found: usize, expected: usize) -> Result<(), CheckpointError> {
    let what = "it holds another number of weights than the network has";
    if found == expected { Ok(()) } else { Err(CheckpointError::Damaged { what }) }
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
