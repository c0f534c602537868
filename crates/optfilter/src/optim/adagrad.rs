//! Adagrad: steps scaled by the root of the sum of all squared gradients.
//!
//! ```text
//! a <- a + g^2;   x <- x - lr g / sqrt(a + eps)      (no step where a = 0)
//! ```
//!
//! `a` starts at `initial_accumulator` (0.1 in optax, 0 in the original and in PyTorch, which also
//! puts eps outside the root).
//!
//! Down the curved valley (1 - x1)^2 + 10 (x2 - x1^2)^2, whose minimum is at (1, 1), nearer with every step but slower and slower:
//!
//! ```
//! use optfilter::optim::{Adagrad, Optimizer};
//! let adagrad = Adagrad::new(0.5)?;
//! let mut x = [-1.2, 1.0];
//! let mut state = adagrad.init(&x);
//! for _ in 0..200 {
//!     let d = x[1] - x[0] * x[0];
//!     let g = [-2.0 * (1.0 - x[0]) - 40.0 * x[0] * d, 20.0 * d];
//!     adagrad.step(&mut x, &g, &mut state);
//! }
//! let place = format!("{:.9} {:.9}", x[0], x[1]);
//! println!("{place}");
//! assert_eq!(place, "0.869453108 0.751042699"); // optax, tests/golden/optimizers_optax.json
//! # Ok::<(), optfilter::optim::OptimizerError>(())
//! ```
//!
//! Reference: Duchi, Hazan and Singer 2011.

use super::buffer::{Buffer, finite};
use super::error::{OptimizerError, positive};
use super::{Hyper, Optimizer};
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
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &AdagradState<V>) -> bool {
        finite(&state.sum)
    }

    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut AdagradState<V>) {
        let (lr, eps): (S, S) = (self.lr.get(), S::from_f64(self.eps));
        let (x, g) = (x.as_mut_slice(), g.as_slice());
        for ((x, &g), a) in x.iter_mut().zip(g).zip(state.sum.as_mut_slice()) {
            *a += g.square();
            let step = lr * g / (*a + eps).sqrt();
            // Without a gradient so far no step; a sum that is no number stays in sight.
            *x -= S::select_lt(S::ZERO, *a, step, *a);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gradient_is_no_step_and_no_number_is_none() {
        let rule = Adagrad { initial_accumulator: 0.0, ..Adagrad::new(0.1).unwrap() };
        for (gradient, stays) in [(0.0, true), (f64::NAN, false), (f64::INFINITY, false)] {
            let mut x = [1.0];
            let mut state = rule.init(&x);
            rule.step(&mut x, &[gradient], &mut state);
            assert_eq!((x[0] == 1.0, x[0].is_nan()), (stays, !stays), "{gradient}");
        }
    }
}
