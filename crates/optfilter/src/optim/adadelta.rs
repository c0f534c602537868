//! Adadelta: steps in the units of the state, scaled by the ratio of two running root-mean-squares.
//!
//! ```text
//! a <- rho a + (1 - rho) g^2
//! d  = sqrt(b + eps) / sqrt(a + eps) g
//! b <- rho b + (1 - rho) d^2
//! x <- x - lr d
//! ```
//!
//! Down the curved valley (1 - x1)^2 + 10 (x2 - x1^2)^2, whose minimum is at (1, 1); the first steps are of
//! the size of sqrt(eps), so that two hundred do not lead far:
//!
//! ```
//! use optfilter::optim::{Adadelta, Optimizer};
//! let adadelta = Adadelta::new(1.0)?;
//! let mut x = [-1.2, 1.0];
//! let mut state = adadelta.init(&x);
//! for _ in 0..200 {
//!     let d = x[1] - x[0] * x[0];
//!     let g = [-2.0 * (1.0 - x[0]) - 40.0 * x[0] * d, 20.0 * d];
//!     adadelta.step(&mut x, &g, &mut state);
//! }
//! let place = format!("{:.9} {:.9}", x[0], x[1]);
//! println!("{place}");
//! assert_eq!(place, "-0.802865259 0.703408419"); // optax, tests/golden/optimizers_optax.json
//! # Ok::<(), optfilter::optim::OptimizerError>(())
//! ```
//!
//! Reference: Zeiler 2012 (there lr = 1).

use super::buffer::{Buffer, finite};
use super::error::{OptimizerError, decay_rate, positive};
use super::{Hyper, Optimizer};
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// Adadelta with learning rate `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adadelta<H = f64> {
    /// Learning rate; the original has none, that is, 1.
    pub lr: H,
    /// Decay of the running averages.
    pub rho: H,
    /// Added under both roots.
    pub eps: f64,
}

impl Adadelta {
    /// With optax's defaults: rho = 0.9, eps = 1e-6.
    pub fn new(lr: f64) -> Result<Self, OptimizerError> {
        Self::with_decay(lr, 0.9)
    }

    /// With decay `rho`.
    pub fn with_decay(lr: f64, rho: f64) -> Result<Self, OptimizerError> {
        positive("adadelta", "lr", lr)?;
        decay_rate("adadelta", "rho", rho)?;
        Ok(Self { lr, rho, eps: 1e-6 })
    }
}

/// Running averages of squared gradients and of squared steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdadeltaState<V> {
    gradient_square: V,
    step_square: V,
}

impl<S: Scalar, H: Hyper<S>> Optimizer<S> for Adadelta<H> {
    type State<V: Buffer<Elem = S>> = AdadeltaState<V>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> AdadeltaState<V> {
        AdadeltaState { gradient_square: x.zeros_like(), step_square: x.zeros_like() }
    }

    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &AdadeltaState<V>) -> bool {
        finite(&state.gradient_square) && finite(&state.step_square)
    }

    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut AdadeltaState<V>) {
        let (lr, rho, eps): (S, S, S) = (self.lr.get(), self.rho.get(), S::from_f64(self.eps));
        let rest: S = (H::ONE - self.rho).get();
        let (x, g) = (x.as_mut_slice(), g.as_slice());
        let squares =
            state.gradient_square.as_mut_slice().iter_mut().zip(state.step_square.as_mut_slice());
        for ((x, &g), (a, b)) in x.iter_mut().zip(g).zip(squares) {
            *a = rho * *a + rest * g.square();
            let d = (*b + eps).sqrt() / (*a + eps).sqrt() * g;
            *b = rho * *b + rest * d.square();
            *x -= lr * d;
        }
    }
}
