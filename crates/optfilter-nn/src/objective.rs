//! A network and a batch as an objective of the library: what an implicit filter descends.
//!
//! ```
//! use optfilter::optim::{Adam, Optimizer, descend};
//! use optfilter_nn::{Minibatch, Evaluator, Loss, Network, NetworkObjective, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let (x, y) = ([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]);
//! let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Mean)?;
//! let mut evaluator = Evaluator::new(&line);
//! let mut objective = NetworkObjective::new(&mut evaluator, batch);
//! let mut weights = vec![0.0; line.len()];
//! let adam = Adam::new(0.1)?;
//! let mut state = adam.init(&weights);
//! descend(&adam, &mut objective, &mut weights, &mut state, 500);
//! assert!((weights[0] - 1.0_f64).abs() < 1e-2 && (weights[1] - 2.0).abs() < 1e-2); // bias, slope
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::Real;
use optfilter::optim::Objective;

/// The loss of a batch as a function of the weights.
#[derive(Debug)]
pub struct NetworkObjective<'a, E: Real> {
    evaluator: &'a mut Evaluator<E>,
    batch: Minibatch<'a, E>,
}

impl<'a, E: Real> NetworkObjective<'a, E> {
    /// With the working memory of `evaluator`, which must be of the network the batch was checked against.
    pub fn new(evaluator: &'a mut Evaluator<E>, batch: Minibatch<'a, E>) -> Self {
        Self { evaluator, batch }
    }
}

impl<E: Real> Objective<E> for NetworkObjective<'_, E> {
    fn value(&mut self, x: &[E]) -> E {
        self.evaluator.loss(x, &self.batch)
    }
    fn gradient(&mut self, x: &[E], out: &mut [E]) {
        self.evaluator.gradient(x, &self.batch, out);
    }
}
