//! RMSprop: steps scaled by a running root-mean-square of the gradients.
//!
//! ```text
//! v <- gamma v + (1 - gamma) g^2;   x <- x - lr g / sqrt(v + eps)
//! ```
//!
//! With `eps_in_sqrt = false` the step is lr g / (sqrt(v) + eps), as in PyTorch. `v` starts at zero
//! and is not bias-corrected, so first steps are long: lr / sqrt(1 - gamma).
//!
//! Down the curved valley (1 - x1)^2 + 10 (x2 - x1^2)^2, whose minimum is at (1, 1):
//!
//! ```
//! use optfilter::optim::{Optimizer, RmsProp};
//! let rmsprop = RmsProp::new(0.01)?;
//! let mut x = [-1.2, 1.0];
//! let mut state = rmsprop.init(&x);
//! for _ in 0..200 {
//!     let d = x[1] - x[0] * x[0];
//!     let g = [-2.0 * (1.0 - x[0]) - 40.0 * x[0] * d, 20.0 * d];
//!     rmsprop.step(&mut x, &g, &mut state);
//! }
//! let place = format!("{:.9} {:.9}", x[0], x[1]);
//! println!("{place}");
//! assert_eq!(place, "0.539562223 0.287046432"); // optax, tests/golden/optimizers_optax.json
//! # Ok::<(), optfilter::optim::OptimizerError>(())
//! ```
//!
//! Reference: Tieleman and Hinton 2012.

use super::buffer::{Buffer, finite};
use super::error::{OptimizerError, decay_rate, positive};
use super::{Hyper, Optimizer};
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// RMSprop with learning rate `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RmsProp<H = f64> {
    /// Learning rate.
    pub lr: H,
    /// Decay of the running average.
    pub gamma: H,
    /// Keeps the denominator from zero.
    pub eps: f64,
    /// Whether eps is added under the root (optax) or to the root (PyTorch).
    pub eps_in_sqrt: bool,
}

impl RmsProp {
    /// With optax's defaults: gamma = 0.9, eps = 1e-8 under the root.
    pub fn new(lr: f64) -> Result<Self, OptimizerError> {
        Self::with_decay(lr, 0.9)
    }

    /// With decay `gamma`.
    pub fn with_decay(lr: f64, gamma: f64) -> Result<Self, OptimizerError> {
        positive("rmsprop", "lr", lr)?;
        decay_rate("rmsprop", "gamma", gamma)?;
        Ok(Self { lr, gamma, eps: 1e-8, eps_in_sqrt: true })
    }
}

/// The running average of squared gradients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RmsPropState<V> {
    square: V,
}

impl<S: Scalar, H: Hyper<S>> Optimizer<S> for RmsProp<H> {
    type State<V: Buffer<Elem = S>> = RmsPropState<V>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> RmsPropState<V> {
        RmsPropState { square: x.zeros_like() }
    }

    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &RmsPropState<V>) -> bool {
        finite(&state.square)
    }

    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut RmsPropState<V>) {
        let (lr, gamma, eps): (S, S, S) = (self.lr.get(), self.gamma.get(), S::from_f64(self.eps));
        let rest: S = (H::ONE - self.gamma).get();
        let (x, g) = (x.as_mut_slice(), g.as_slice());
        for ((x, &g), v) in x.iter_mut().zip(g).zip(state.square.as_mut_slice()) {
            *v = gamma * *v + rest * g.square();
            let root = if self.eps_in_sqrt { (*v + eps).sqrt() } else { v.sqrt() + eps };
            *x -= lr * g / root;
        }
    }
}
