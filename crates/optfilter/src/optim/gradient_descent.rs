//! Gradient descent, plain, with heavy-ball momentum or with Nesterov's.
//!
//! ```text
//! plain      x <- x - lr g
//! momentum   b <- g + mu b;   x <- x - lr b
//! Nesterov   b <- g + mu b;   x <- x - lr (g + mu b)
//! ```
//!
//! As in optax and PyTorch the buffer sums raw gradients; some texts put `lr` inside the sum, which
//! differs only when `lr` changes between steps.
//!
//! Down the curved valley (1 - x1)^2 + 10 (x2 - x1^2)^2, whose minimum is at (1, 1), with momentum:
//!
//! ```
//! use optfilter::optim::{GradientDescent, Optimizer};
//! let descent = GradientDescent::with_momentum(0.002, 0.9)?;
//! let mut x = [-1.2, 1.0];
//! let mut state = descent.init(&x);
//! for _ in 0..200 {
//!     let d = x[1] - x[0] * x[0];
//!     let g = [-2.0 * (1.0 - x[0]) - 40.0 * x[0] * d, 20.0 * d];
//!     descent.step(&mut x, &g, &mut state);
//! }
//! let place = format!("{:.9} {:.9}", x[0], x[1]);
//! println!("{place}");
//! assert_eq!(place, "0.926319646 0.854926496"); // optax, tests/golden/optimizers_optax.json
//! # Ok::<(), optfilter::optim::OptimizerError>(())
//! ```
//!
//! References: Polyak 1964; Nesterov 1983; Sutskever et al. 2013.

use super::buffer::{Buffer, finite};
use super::error::{OptimizerError, decay_rate, positive};
use super::{Hyper, Optimizer};
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// What gradient descent remembers of earlier gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Momentum<H = f64> {
    /// Nothing.
    None,
    /// A decaying sum of them, with this decay.
    Heavy(H),
    /// The same sum, looked at one step ahead.
    Nesterov(H),
}

/// Gradient descent with learning rate `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientDescent<H = f64> {
    /// Learning rate.
    pub lr: H,
    /// Momentum, if any.
    pub momentum: Momentum<H>,
}

impl GradientDescent {
    /// Plain gradient descent.
    pub fn new(lr: f64) -> Result<Self, OptimizerError> {
        positive("gradient descent", "lr", lr)?;
        Ok(Self { lr, momentum: Momentum::None })
    }

    /// With heavy-ball momentum `decay`.
    pub fn with_momentum(lr: f64, decay: f64) -> Result<Self, OptimizerError> {
        decay_rate("gradient descent", "momentum", decay)?;
        Ok(Self { momentum: Momentum::Heavy(decay), ..Self::new(lr)? })
    }

    /// With Nesterov momentum `decay`.
    pub fn with_nesterov(lr: f64, decay: f64) -> Result<Self, OptimizerError> {
        decay_rate("gradient descent", "momentum", decay)?;
        Ok(Self { momentum: Momentum::Nesterov(decay), ..Self::new(lr)? })
    }
}

/// The decaying sum of gradients; absent without momentum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GradientDescentState<V> {
    sum: Option<V>,
}

impl<S: Scalar, H: Hyper<S>> Optimizer<S> for GradientDescent<H> {
    type State<V: Buffer<Elem = S>> = GradientDescentState<V>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> GradientDescentState<V> {
        let sum = match self.momentum {
            Momentum::None => None,
            _ => Some(x.zeros_like()),
        };
        GradientDescentState { sum }
    }

    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &GradientDescentState<V>) -> bool {
        state.sum.as_ref().is_none_or(finite)
    }

    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut GradientDescentState<V>) {
        let lr: S = self.lr.get();
        let (decay, nesterov): (S, bool) = match self.momentum {
            Momentum::None => (S::ZERO, false),
            Momentum::Heavy(decay) => (decay.get(), false),
            Momentum::Nesterov(decay) => (decay.get(), true),
        };
        let (x, g) = (x.as_mut_slice(), g.as_slice());
        let Some(sum) = &mut state.sum else {
            for (x, &g) in x.iter_mut().zip(g) {
                *x -= lr * g;
            }
            return;
        };
        for ((x, &g), b) in x.iter_mut().zip(g).zip(sum.as_mut_slice()) {
            *b = g + decay * *b;
            *x -= lr * if nesterov { g + decay * *b } else { *b };
        }
    }
}
