//! Adam: momentum and RMSprop together, both corrected for starting at zero.
//!
//! ```text
//! m <- b1 m + (1 - b1) g           m' = m / (1 - b1^k)
//! v <- b2 v + (1 - b2) g^2         v' = v / (1 - b2^k)
//! x <- x - lr m' / (sqrt(v') + eps)
//! ```
//!
//! k counts the steps since the state was made. The two corrections are one number each per step, so
//! an element costs one division and one square root.
//!
//! Down the curved valley (1 - x1)^2 + 10 (x2 - x1^2)^2, whose minimum is at (1, 1):
//!
//! ```
//! use optfilter::optim::{Adam, Optimizer};
//! let adam = Adam::new(0.1)?;
//! let mut x = [-1.2, 1.0];
//! let mut state = adam.init(&x);
//! for _ in 0..200 {
//!     let d = x[1] - x[0] * x[0];
//!     let g = [-2.0 * (1.0 - x[0]) - 40.0 * x[0] * d, 20.0 * d];
//!     adam.step(&mut x, &g, &mut state);
//! }
//! let place = format!("{:.9} {:.9}", x[0], x[1]);
//! println!("{place}");
//! assert_eq!(place, "0.995337763 0.990553531"); // optax, tests/golden/optimizers_optax.json
//! # Ok::<(), optfilter::optim::OptimizerError>(())
//! ```
//!
//! Reference: Kingma and Ba 2014. Libraries differ in the default eps (burn: 1e-5; optax: 1e-8).

use super::buffer::{Buffer, finite};
use super::error::{OptimizerError, decay_rate, positive};
use super::{Hyper, Optimizer};
use crate::scalar::Scalar;
use serde::{Deserialize, Serialize};

/// Adam with learning rate `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam<H = f64> {
    /// Learning rate.
    pub lr: H,
    /// Decay of the running mean of gradients.
    pub beta1: H,
    /// Decay of the running mean of squared gradients.
    pub beta2: H,
    /// Added to the root.
    pub eps: f64,
}

impl Adam {
    /// With the usual defaults: beta1 = 0.9, beta2 = 0.999, eps = 1e-8.
    pub fn new(lr: f64) -> Result<Self, OptimizerError> {
        Self::with_decay(lr, 0.9, 0.999)
    }

    /// With decays `beta1` and `beta2`.
    pub fn with_decay(lr: f64, beta1: f64, beta2: f64) -> Result<Self, OptimizerError> {
        positive("adam", "lr", lr)?;
        decay_rate("adam", "beta1", beta1)?;
        decay_rate("adam", "beta2", beta2)?;
        Ok(Self { lr, beta1, beta2, eps: 1e-8 })
    }
}

/// Running means, and the powers of the decays that correct them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdamState<V, H = f64> {
    mean: V,
    square: V,
    beta1_power: H,
    beta2_power: H,
}

impl<S: Scalar, H: Hyper<S>> Optimizer<S> for Adam<H> {
    type State<V: Buffer<Elem = S>> = AdamState<V, H>;

    #[inline(always)]
    fn init<V: Buffer<Elem = S>>(&self, x: &V) -> AdamState<V, H> {
        AdamState {
            mean: x.zeros_like(),
            square: x.zeros_like(),
            beta1_power: H::ONE,
            beta2_power: H::ONE,
        }
    }

    #[inline(always)]
    fn is_sound<V: Buffer<Elem = S>>(&self, state: &AdamState<V, H>) -> bool {
        finite(&state.mean) && finite(&state.square)
    }

    #[inline(always)]
    fn is_elementwise(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step<V: Buffer<Elem = S>>(&self, x: &mut V, g: &V, state: &mut AdamState<V, H>) {
        state.beta1_power *= self.beta1;
        state.beta2_power *= self.beta2;
        // Whole-vector numbers, once per step and in the kind of the hyper-parameters.
        let scaled_lr: S = (self.lr / (H::ONE - state.beta1_power)).get();
        let correct: S = (H::ONE / (H::ONE - state.beta2_power)).get();
        let (beta1, beta2): (S, S) = (self.beta1.get(), self.beta2.get());
        let (rest1, rest2): (S, S) = ((H::ONE - self.beta1).get(), (H::ONE - self.beta2).get());
        let eps = S::from_f64(self.eps);
        let (x, g) = (x.as_mut_slice(), g.as_slice());
        let means = state.mean.as_mut_slice().iter_mut().zip(state.square.as_mut_slice());
        for ((x, &g), (m, v)) in x.iter_mut().zip(g).zip(means) {
            *m = beta1 * *m + rest1 * g;
            *v = beta2 * *v + rest2 * g.square();
            *x -= scaled_lr * *m / ((*v * correct).sqrt() + eps);
        }
    }
}
