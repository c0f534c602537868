//! First-order optimizers: what an implicit filter is made of.
//!
//! Three notions, kept apart:
//!
//! - an [`Objective`] gives a value and a gradient at a point, and nothing else;
//! - an [`Optimizer`] holds hyper-parameters and turns gradients into steps; what it remembers
//!   between steps is passed in, so a filter may restart it at each time step (as in the paper) or
//!   carry it on;
//! - a [`Buffer`] is the vector they act on: an array, a nalgebra vector, a `Vec`, of any scalar.
//!
//! [`descend`] joins them: it is Algorithm 2 of the paper, the update of the implicit MAP filter.
//!
//! All rules use the definitions of [optax](https://optax.readthedocs.io), against which they are
//! tested over 200 steps; where other libraries differ, the rule's page says so.
//!
//! ```
//! use optfilter::optim::{descend, Adam, Objective, Optimizer};
//! struct Bowl;
//! impl Objective<f64> for Bowl {
//!     fn value(&mut self, x: &[f64]) -> f64 { 0.5 * (x[0] - 3.0) * (x[0] - 3.0) }
//!     fn gradient(&mut self, x: &[f64], out: &mut [f64]) { out[0] = x[0] - 3.0; }
//! }
//! let adam = Adam::new(0.1)?;
//! let mut x = [0.0];
//! let mut state = adam.init(&x);
//! descend(&adam, &mut Bowl, &mut x, &mut state, 200);
//! assert!((x[0] - 3.0).abs() < 1e-2);
//! # Ok::<(), optfilter::optim::OptimizerError>(())
//! ```

mod adadelta;
mod adagrad;
mod adam;
mod any;
mod bounds;
mod buffer;
mod conjugate;
mod error;
mod gradient_descent;
mod preconditioned;
mod rmsprop;
mod traits;

pub use adadelta::{Adadelta, AdadeltaState};
pub use adagrad::{Adagrad, AdagradState};
pub use adam::{Adam, AdamState};
pub use any::{AnyOptimizer, AnyState};
pub use bounds::Bounds;
pub(crate) use bounds::{reflect, truncated};
pub use buffer::Buffer;
pub use conjugate::ConjugateGradients;
pub use error::OptimizerError;
pub use gradient_descent::{GradientDescent, GradientDescentState, Momentum};
pub use preconditioned::Preconditioned;
pub use rmsprop::{RmsProp, RmsPropState};
pub use traits::{Hyper, Objective, Optimizer};

use crate::scalar::Scalar;

/// Takes `steps` steps of `optimizer` on `objective` from `x` (Algorithm 2 of the paper).
///
/// Allocates only what [`Buffer::zeros_like`] allocates for the gradient: nothing for arrays.
#[inline(always)]
pub fn descend<S, V, O, F>(
    optimizer: &O,
    objective: &mut F,
    x: &mut V,
    state: &mut O::State<V>,
    steps: u32,
) where
    S: Scalar,
    V: Buffer<Elem = S>,
    O: Optimizer<S>,
    F: Objective<S> + ?Sized,
{
    descend_within(optimizer, objective, x, state, steps, None);
}

/// [`descend`], projected onto a box before the first step and after every one.
#[inline(always)]
pub fn descend_within<S, V, O, F>(
    optimizer: &O,
    objective: &mut F,
    x: &mut V,
    state: &mut O::State<V>,
    steps: u32,
    bounds: Option<&Bounds>,
) where
    S: Scalar,
    V: Buffer<Elem = S>,
    O: Optimizer<S>,
    F: Objective<S> + ?Sized,
{
    project(x, bounds);
    let mut g = x.zeros_like();
    for _ in 0..steps {
        objective.gradient(x.as_slice(), g.as_mut_slice());
        optimizer.step(x, &g, state);
        project(x, bounds);
        if optimizer.is_done() {
            return;
        }
    }
}

/// The most that a gap can multiply the number of steps by.
const MAX_AFTER_GAP: f64 = 100.0;

/// [`descend_within`], and on until the slope is as small as a prior asks for that a gap has widened.
///
/// K steps that leave the share r of the slope have the gain k = 1 - r, and imply a prior whose variance over that of the
/// measurement is k / r (Section 3 of the paper). A filter that lives with that gain has k of the prior's variance from the noise of one step,
/// so `gap` steps without a measurement make the prior 1 + (gap - 1) k times as wide, and its gain leaves the share
/// r / (1 + (gap - 1) k^2).
#[inline(always)]
pub(crate) fn descend_past_gap<S, V, O, F>(
    optimizer: &O,
    objective: &mut F,
    x: &mut V,
    state: &mut O::State<V>,
    steps: u32,
    bounds: Option<&Bounds>,
    gap: f64,
) where
    S: Scalar,
    V: Buffer<Elem = S>,
    O: Optimizer<S>,
    F: Objective<S> + ?Sized,
{
    project(x, bounds);
    let mut g = x.zeros_like();
    let mut slope = (gap > 1.0).then_some(Slope { gap, first: S::ZERO, goal: S::ZERO });
    for taken in 0u64.. {
        let is_extra = taken >= u64::from(steps);
        if slope.is_none() && is_extra {
            return;
        }
        objective.gradient(x.as_slice(), g.as_mut_slice());
        let mut before = None;
        if let Some(slope) = &mut slope {
            if !slope.goes_on(taken, steps, g.as_slice()) {
                return;
            }
            before = is_extra.then(|| x.clone());
        }
        optimizer.step(x, &g, state);
        project(x, bounds);
        // At its end, or held by the bounds.
        let stuck = before.is_some_and(|before| !differs(before.as_slice(), x.as_slice()));
        if optimizer.is_done() || stuck {
            return;
        }
    }
}

#[inline(always)]
fn project<S: Scalar, V: Buffer<Elem = S>>(x: &mut V, bounds: Option<&Bounds>) {
    if let Some(bounds) = bounds {
        bounds.project(x.as_mut_slice());
    }
}

/// How far the slope has come down, and how far it should.
struct Slope<S> {
    gap: f64,
    first: S,
    goal: S,
}

impl<S: Scalar> Slope<S> {
    /// Whether there is a step to take after `taken` of them, at the gradient `g`.
    #[cold]
    fn goes_on(&mut self, taken: u64, steps: u32, g: &[S]) -> bool {
        let now = g.iter().fold(S::ZERO, |sum, g| sum + g.square());
        let steps = u64::from(steps);
        if taken == 0 {
            self.first = now;
        }
        if taken == steps {
            let left = (now / self.first).sqrt();
            // Steps that do not bring the slope down say nothing of a prior.
            if !S::all_lt(left, S::ONE) {
                return false;
            }
            let goal = left / (S::ONE + (S::ONE - left).square().scale(self.gap - 1.0));
            self.goal = goal.square() * self.first;
        }
        let most = steps as f64 * self.gap.min(MAX_AFTER_GAP);
        taken < steps || (S::all_lt(self.goal, now) && (taken as f64) < most)
    }
}

/// Whether two vectors differ in value.
fn differs<S: Scalar>(a: &[S], b: &[S]) -> bool {
    a.iter().zip(b).any(|(&a, &b)| S::all_lt(a, b) || S::all_lt(b, a))
}
