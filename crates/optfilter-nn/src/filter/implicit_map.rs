//! The implicit MAP filter over weights: K steps of an optimizer on the loss of the time step.
//!
//! ```text
//! predict   w <- f(w)
//! update    K times: w <- optimizer step with the gradient of the loss of the labels of this time step,
//!           or of a window of time steps (window.rs)
//! ```
//!
//! With an average the estimate is `a <- d a + (1 - d) w` after every step (`d`: decay), while the steps go on from `w`: it
//! takes out the jitter of the last steps and lags behind by about `1 / (1 - d)` of them.
//!
//! K and the optimizer take the place of the process and measurement noise: few steps keep the weights near their
//! prediction, many steps believe the labels. Requires a loss with a gradient, nothing else.
//!
//! A line (intercept and slope) that has seen one point, after no step, one and two:
//!
//! ```
//! use optfilter::optim::GradientDescent;
//! use optfilter_nn::filter::{ImplicitMap, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let (x, y) = ([1.0], [3.0]);
//! for (steps, expected) in [(0, 0.0), (1, 0.3), (2, 0.54)] {
//!     let mut filter = ImplicitMap::new(GradientDescent::new(0.1)?, steps, vec![0.0; 2]);
//!     let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//!     filter.predict();
//!     filter.update(&mut evaluator, &batch);
//!     println!("K = {steps}: {:.2?}", filter.weights());
//!     assert!(filter.weights().iter().all(|w| (w - expected).abs() < 1e-15)); // 0.1 (3 - 2 w) more each time
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: the paper's Algorithm 2 with the weights as state.

use super::traits::{Resumable, Weight, WeightFilter, same_length};
use super::{Past, Transition, Window, WindowObjective, descend_at};
use crate::evaluate::{Evaluator, Minibatch};
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::filter::Memory;
use optfilter::optim::Optimizer;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Implicit MAP filter with optimizer `O`.
#[derive(Debug)]
pub struct ImplicitMap<E: Weight, O: Optimizer<E>> {
    optimizer: O,
    steps: u32,
    memory: Memory,
    transition: Transition<E>,
    weights: Vec<E>,
    state: O::State<Vec<E>>,
    past: Past<E>,
    /// Decay of the running average, and the average.
    average: Option<(f64, Vec<E>)>,
    floor: Option<E>,
}

impl<E: Weight, O: Optimizer<E>> ImplicitMap<E, O> {
    /// `steps` steps of `optimizer` per time step from the initial `weights`; memory restarted, identity transition.
    pub fn new(optimizer: O, steps: u32, weights: Vec<E>) -> Self {
        let state = optimizer.init(&weights);
        Self {
            optimizer,
            steps,
            memory: Memory::Restart,
            transition: Transition::Identity,
            weights,
            state,
            past: Past::new(Window::default()),
            average: None,
            floor: None,
        }
    }

    /// The paper's direct fit: 1000 steps, near convergence on the labels of each time step alone.
    pub fn direct_fit(optimizer: O, weights: Vec<E>) -> Self {
        Self::new(optimizer, 1000, weights)
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

    /// Keeps derivatives from being smaller, for speed ([`WindowObjective::with_floor`]).
    pub fn with_floor(mut self, floor: f64) -> Self {
        self.floor = Some(E::of(floor));
        self
    }

    /// The estimate becomes a running average of the weights over steps, with this decay (at least 0, below 1; 0: none).
    pub fn with_average(mut self, decay: f64) -> Self {
        self.average = (decay > 0.0 && decay < 1.0).then(|| (decay, self.weights.clone()));
        self
    }

    /// With another transition function.
    pub fn with_transition(mut self, transition: Transition<E>) -> Self {
        self.transition = transition;
        self
    }
}

impl<E: Weight, O: Optimizer<E>> ImplicitMap<E, O> {
    /// K steps: at once, or one by one where somebody may stop them or an average looks at each.
    fn run(
        &mut self,
        evaluator: &mut Evaluator<E>,
        batch: &Minibatch<'_, E>,
        stop: Option<&dyn Fn() -> bool>,
    ) -> bool {
        if self.memory == Memory::Restart {
            self.state = self.optimizer.init(&self.weights);
        }
        self.past.put(batch);
        // Without a window nothing is allocated for the one part.
        let (one, many) = ([(*batch, E::one())], self.past.earlier(batch));
        let parts = many.as_deref().unwrap_or(&one);
        let level = evaluator.level();
        let mut objective = WindowObjective::new(evaluator, parts).with_floor(self.floor);
        let apart = stop.is_some() || self.average.is_some();
        let (times, each) = if apart { (self.steps, 1) } else { (1, self.steps) };
        for _ in 0..times {
            if stop.is_some_and(|stop| stop()) {
                return false;
            }
            let at = (&mut self.weights, &mut self.state);
            descend_at(level, &self.optimizer, &mut objective, at, each);
            if let Some((decay, average)) = &mut self.average {
                let share = E::of(1.0 - *decay);
                for (a, w) in average.iter_mut().zip(&self.weights) {
                    *a = *a + share * (*w - *a);
                }
            }
        }
        true
    }
}

impl<E: Weight, O: Optimizer<E>> WeightFilter<E> for ImplicitMap<E, O> {
    fn predict(&mut self) {
        self.transition.apply(&mut self.weights);
        if let Some((_, average)) = &mut self.average {
            self.transition.apply(average);
        }
        self.past.advance();
    }

    fn next_batch(&mut self) {
        self.past.advance();
    }

    fn update(&mut self, evaluator: &mut Evaluator<E>, batch: &Minibatch<'_, E>) {
        self.run(evaluator, batch, None);
    }

    fn update_until(
        &mut self,
        evaluator: &mut Evaluator<E>,
        batch: &Minibatch<'_, E>,
        stop: &dyn Fn() -> bool,
    ) -> bool {
        self.run(evaluator, batch, Some(stop))
    }

    fn weights(&self) -> &[E] {
        self.average.as_ref().map_or(&self.weights, |(_, average)| average)
    }
}

impl<E: Weight, O: Optimizer<E>> Resumable<E> for ImplicitMap<E, O>
where
    O::State<Vec<E>>: Serialize + DeserializeOwned,
{
    fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        checkpoint::save("weights/imap", &(&self.weights, &self.state, &self.past, &self.average))
    }
    fn load(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        type Kept<E, S> = (Vec<E>, S, Past<E>, Option<(f64, Vec<E>)>);
        let (weights, state, past, average): Kept<E, O::State<Vec<E>>> =
            checkpoint::load("weights/imap", bytes)?;
        same_length(weights.len(), self.weights.len())?;
        same_length(average.as_ref().map_or(weights.len(), |(_, a)| a.len()), weights.len())?;
        (self.weights, self.state, self.past, self.average) = (weights, state, past, average);
        Ok(())
    }
}
