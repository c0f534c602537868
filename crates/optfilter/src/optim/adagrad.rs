//! Adagrad: steps scaled by the root of the sum of all squared gradients.
//!
//! ```text
//! a <- a + g^2;   x <- x - lr g / sqrt(a + eps)      (no step where a = 0)
//! ```
//!
//! `a` starts at `initial_accumulator` (0.1 in optax, 0 in the original and in PyTorch, which also
//! puts eps outside the root).
//!
//! Reference: Duchi, Hazan and Singer 2011.

use super::{Buffer, Hyper, Optimizer, OptimizerError, positive};
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// Adagrad with learning rate `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adagrad<H = f64> {
    /// Learning rate.
    pub lr: H,
    /// Where the sum of squares starts.
    pub initial_accumulator: f64,
    /// Added under the root.
    pub eps: f64,
}

impl Adagrad {
    /// With optax's defaults: the sum starts at 0.1, eps = 1e-7.
    pub fn new(lr: f64) -> Result<Self, OptimizerError> {
        positive("adagrad", "lr", lr)?;
        Ok(Self { lr, initial_accumulator: 0.1, eps: 1e-7 })
    }
}

/// The sum of squared gradients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdagradState<V> {
    sum: V,
}

impl<S: Scalar, H: Hyper<S>> Optimizer<S> for Adagrad<H> {
    type State<V: Buffer<Elem = S>> = AdagradState<V>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> AdagradState<V> {
        AdagradState { sum: x.filled_like(S::from_f64(self.initial_accumulator)) }
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut AdagradState<V>) {
        let (lr, eps): (S, S) = (self.lr.get(), S::from_f64(self.eps));
        let (x, g) = (x.as_mut_slice(), g.as_slice());
        for ((x, &g), a) in x.iter_mut().zip(g).zip(state.sum.as_mut_slice()) {
            *a += g.square();
            let step = lr * g / (*a + eps).sqrt();
            *x -= S::select_lt(S::ZERO, *a, step, S::ZERO);
        }
    }
}
