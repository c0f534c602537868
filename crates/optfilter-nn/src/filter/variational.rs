//! The variational Kalman filter over weights: a point estimate with an explicit Gaussian prior.
//!
//! ```text
//! predict   m <- f(w)
//! update    w <- argmin_w  (1/n) sum_i loss_i(w) + ||w - m||^2 / (2 n s)
//! ```
//!
//! `s` is the variance of the transition, `n` the number of labels; the minimum is sought by K steps of an optimizer,
//! begun at `m` with fresh memory. The prior is the one the implicit filter leaves implicit.
//!
//! Reference: the paper's variational Kalman filter; Auvinen et al. 2010 for the name.

use super::{Transition, Weight, WeightFilter};
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Reduction;
use crate::objective::NetworkObjective;
use optfilter::optim::{Objective, Optimizer, descend};

/// Why a variational filter cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the transition variance must be positive and finite, not {0}")]
pub struct VariationalError(
    /// The variance given.
    pub f64,
);

/// Variational Kalman filter with optimizer `O`.
#[derive(Debug)]
pub struct Variational<E: Weight, O> {
    optimizer: O,
    steps: u32,
    transition_var: f64,
    transition: Transition<E>,
    weights: Vec<E>,
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
        Ok(Self { optimizer, steps, transition_var, transition: Transition::Identity, weights })
    }

    /// With another transition function.
    pub fn with_transition(mut self, transition: Transition<E>) -> Self {
        self.transition = transition;
        self
    }
}

/// Mean loss plus the pull to the prediction.
struct Posterior<'a, E: Weight> {
    likelihood: NetworkObjective<'a, E>,
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
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        let n = evaluator.count(batch);
        if n == 0 {
            return; // without labels the prior stands
        }
        let mean = self.weights.clone();
        let batch = Minibatch { reduction: Reduction::Mean, ..*batch };
        let likelihood = NetworkObjective::new(evaluator, batch);
        let pull = E::of(1.0 / (n as f64 * self.transition_var));
        let mut posterior = Posterior { likelihood, mean: &mean, pull };
        let mut state = self.optimizer.init(&self.weights);
        descend(&self.optimizer, &mut posterior, &mut self.weights, &mut state, self.steps);
    }

    fn weights(&self) -> &[E] {
        &self.weights
    }
}
