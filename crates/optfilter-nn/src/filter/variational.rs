//! The variational Kalman filter over weights: a point estimate with an explicit Gaussian prior.
//!
//! ```text
//! predict   m <- f(w)
//! update    w <- argmin_w  (1/n) sum_i loss_i(w) + ||w - m||^2 / (2 n s)
//! ```
//!
//! `s` is the variance of the transition, `n` the number of labels; the minimum is sought by K steps of an optimizer,
//! begun at `m` with fresh memory (or the memory carried on). Over a window (window.rs) sum and `n` are discounted alike. The prior is the one the implicit filter leaves implicit.
//!
//! On a line that has seen one point it is the Kalman filter: gain (1, 1) / (1 + 1 + 1), innovation 3.
//!
//! ```
//! use optfilter::optim::GradientDescent;
//! use optfilter_nn::filter::{Variational, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let mut filter = Variational::new(GradientDescent::new(0.3)?, 100, 1.0, vec![0.0; 2])?;
//! let (x, y) = ([1.0], [3.0]);
//! let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//! filter.predict();
//! filter.update(&mut evaluator, &batch);
//! println!("intercept and slope: {:.6?}", filter.weights());
//! assert!(filter.weights().iter().all(|w| (w - 1.0).abs() < 1e-12));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: the paper's variational Kalman filter; Auvinen et al. 2010 for the name.

use super::traits::{Resumable, Weight, WeightFilter, same_length};
use super::{Past, Transition, Window, WindowObjective};
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Reduction;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::filter::Memory;
use optfilter::optim::{Objective, Optimizer, descend};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a variational filter cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the transition variance must be positive and finite, not {0}")]
pub struct VariationalError(
    /// The variance given.
    pub f64,
);

/// Variational Kalman filter with optimizer `O`.
#[derive(Debug)]
pub struct Variational<E: Weight, O: Optimizer<E>> {
    optimizer: O,
    steps: u32,
    transition_var: f64,
    transition: Transition<E>,
    weights: Vec<E>,
    memory: Memory,
    state: O::State<Vec<E>>,
    past: Past<E>,
}

impl<E: Weight, O: Optimizer<E>> Variational<E, O> {
    /// `steps` steps of `optimizer` per time step; weights move by a random walk of variance `transition_var`.
    pub fn new(
        optimizer: O,
        steps: u32,
        transition_var: f64,
        weights: Vec<E>,
    ) -> Result<Self, VariationalError> {
        if !(transition_var > 0.0 && transition_var.is_finite()) {
            return Err(VariationalError(transition_var));
        }
        let state = optimizer.init(&weights);
        Ok(Self {
            optimizer,
            steps,
            transition_var,
            transition: Transition::Identity,
            weights,
            memory: Memory::Restart,
            state,
            past: Past::new(Window::default()),
        })
    }

    /// With another treatment of the optimizer's memory.
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Looking back over a window of time steps.
    pub fn with_window(mut self, window: Window) -> Self {
        self.past = Past::new(window);
        self
    }

    /// With another transition function.
    pub fn with_transition(mut self, transition: Transition<E>) -> Self {
        self.transition = transition;
        self
    }
}

/// Mean loss plus the pull to the prediction.
struct Posterior<'a, E: Weight> {
    likelihood: WindowObjective<'a, E>,
    mean: &'a [E],
    /// `1 / (n s)`.
    pull: E,
}

impl<E: Weight> Objective<E> for Posterior<'_, E> {
    fn value(&mut self, x: &[E]) -> E {
        let distance: E = x.iter().zip(self.mean).map(|(x, m)| (*x - *m) * (*x - *m)).sum();
        self.likelihood.value(x) + distance * self.pull * E::of(0.5)
    }
    fn gradient(&mut self, x: &[E], out: &mut [E]) {
        self.likelihood.gradient(x, out);
        for ((g, x), m) in out.iter_mut().zip(x).zip(self.mean) {
            *g += (*x - *m) * self.pull;
        }
    }
}

impl<E: Weight, O: Optimizer<E>> WeightFilter<E> for Variational<E, O> {
    fn predict(&mut self) {
        self.transition.apply(&mut self.weights);
        self.past.advance();
    }

    fn next_batch(&mut self) {
        self.past.advance();
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        if evaluator.count(batch) == 0 {
            return; // without labels the prior stands
        }
        let mean = self.weights.clone();
        let batch = Minibatch { reduction: Reduction::Mean, ..*batch };
        self.past.put(&batch);
        let parts = self.past.parts(&batch);
        let weigh = |(batch, factor): &(Minibatch<'_, E>, E)| {
            factor.to_double() * evaluator.count(batch) as f64
        };
        let n: f64 = parts.iter().map(weigh).sum();
        let likelihood = WindowObjective::new(evaluator, &parts);
        let pull = E::of(1.0 / (n * self.transition_var));
        let mut posterior = Posterior { likelihood, mean: &mean, pull };
        if self.memory == Memory::Restart {
            self.state = self.optimizer.init(&self.weights);
        }
        descend(&self.optimizer, &mut posterior, &mut self.weights, &mut self.state, self.steps);
    }

    fn weights(&self) -> &[E] {
        &self.weights
    }
}

impl<E: Weight, O: Optimizer<E>> Resumable<E> for Variational<E, O>
where
    O::State<Vec<E>>: Serialize + DeserializeOwned,
{
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("weights/vkf", &(&self.weights, &self.state, &self.past))
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        type Kept<E, S> = (Vec<E>, S, Past<E>);
        let (weights, state, past): Kept<E, O::State<Vec<E>>> =
            checkpoint::load("weights/vkf", bytes)?;
        same_length(weights.len(), self.weights.len())?;
        (self.weights, self.state, self.past) = (weights, state, past);
        Ok(())
    }
}
