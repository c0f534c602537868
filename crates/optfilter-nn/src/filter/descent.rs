//! Optimizer steps at the machine's instruction set.
//!
//! A rule such as Adam takes a division and a square root for each weight, and both are done for as many weights at once as a register holds. The
//! core library is compiled for every machine of its kind, with registers of four numbers; here the same code is compiled for
//! wider ones as well, as the kernels are. No bit changes: nothing is reordered, and products are not joined with sums.

use super::Weight;
use crate::kernel::{Lane, Level, Op};
use optfilter::optim::{Objective, Optimizer, descend};

struct Descent<'a, E: Weight, O: Optimizer<E>, F> {
    optimizer: &'a O,
    objective: &'a mut F,
    weights: &'a mut Vec<E>,
    state: &'a mut O::State<Vec<E>>,
    steps: u32,
}

impl<E: Weight, O: Optimizer<E>, F: Objective<E>> Op<E> for Descent<'_, E, O, F> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        descend(self.optimizer, self.objective, self.weights, self.state, self.steps);
    }
}

/// [`descend`] from weights with the optimizer's memory of them, compiled for `level`.
pub fn descend_at<E: Weight, O: Optimizer<E>, F: Objective<E>>(
    level: Level,
    optimizer: &O,
    objective: &mut F,
    (weights, state): (&mut Vec<E>, &mut O::State<Vec<E>>),
    steps: u32,
) {
    E::dispatch(level, Descent { optimizer, objective, weights, state, steps });
}
