//! Where a filter starts when there is no pre-trained network: the first time step fitted to convergence.

use super::Weight;
use crate::evaluate::{Evaluator, Minibatch};
use optfilter::optim::Optimizer;

/// How a fit ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Converged {
    /// Steps taken.
    pub steps: u32,
    /// The loss at the end.
    pub loss: f64,
    /// Whether it settled before the steps ran out.
    pub settled: bool,
}

/// Descends until the loss has changed by less than `tolerance` of itself over 20 steps, or `most` steps are taken.
pub fn fit<E: Weight, O: Optimizer<E>>(
    optimizer: &O,
    evaluator: &mut Evaluator<E>,
    batch: &Minibatch<'_, E>,
    weights: &mut Vec<E>,
    most: u32,
    tolerance: f64,
) -> Converged {
    let (never, nowhere) = (|| false, Converged { steps: 0, loss: f64::NAN, settled: false });
    fit_until(optimizer, evaluator, batch, weights, (most, tolerance), &never).unwrap_or(nowhere)
}

/// [`fit`] that `stop` can end, between two steps: then there is nothing to report.
pub fn fit_until<E: Weight, O: Optimizer<E>>(
    optimizer: &O,
    evaluator: &mut Evaluator<E>,
    batch: &Minibatch<'_, E>,
    weights: &mut Vec<E>,
    (most, tolerance): (u32, f64),
    stop: &dyn Fn() -> bool,
) -> Option<Converged> {
    /// Steps between two looks: a single step of a momentum method may go uphill.
    const LOOK: u32 = 20;
    let mut state = optimizer.init(weights);
    let mut g = weights.clone();
    let (mut before, mut loss) = (f64::INFINITY, f64::INFINITY);
    for k in 0..most {
        if stop() {
            return None;
        }
        loss = evaluator.gradient(weights, batch, &mut g).to_double();
        if k % LOOK == 0 {
            if !loss.is_finite() || (before - loss).abs() <= tolerance * loss.abs() {
                return Some(Converged { steps: k, loss, settled: loss.is_finite() });
            }
            before = loss;
        }
        optimizer.step(weights, &g, &mut state);
    }
    Some(Converged { steps: most, loss, settled: false })
}
