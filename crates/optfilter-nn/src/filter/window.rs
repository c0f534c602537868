//! The window: a short memory of the last L batches, so that an update looks at more than the newest one.
//!
//! ```text
//! l(w) = sum_{j = t-L..t} g^(t-j) * (loss of the batch of time step j at the weights w)
//! ```
//!
//! Weights have identity dynamics: what was measured L time steps ago is held against the weights as they are now. `g` is
//! the discount (1: none). Where a filter asks for a mean instead of a sum, it is the weighted mean: the same sum divided by
//! `sum_j g^(t-j) n_j`. The window holds *time steps*: one without labels takes its place and adds nothing; the discount is per
//! time step. L = 0 is the filter without a window, bit for bit.
//!
//! Memory: the weights, the optimizer's state and the samples and labels of L + 1 batches, copied once each when they arrive.
//! An update costs L + 1 times the gradient of a batch. Each label is used by L + 1 updates, so methods that are compared must
//! be given the same window.
//!
//! Kin: moving-horizon estimation and strong-constraint 4D-Var minimise such a sum, with a background term that needs a
//! covariance; here the start and the early stop are the prior. In continual learning it is a first-in first-out replay buffer.
//!
//! ```
//! use optfilter::optim::GradientDescent;
//! use optfilter_nn::filter::{ImplicitMap, Window, WeightFilter};
//! use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
//! let line = Network::mlp(1, &[], 1)?;
//! let mut evaluator = Evaluator::<f64>::new(&line);
//! let window = Window::new(1, 0.5)?; // this time step and, half as much, the one before
//! let mut filter = ImplicitMap::new(GradientDescent::new(0.1)?, 1, vec![0.0; 2]).with_window(window);
//! for (x, y) in [([1.0], [1.0]), ([2.0], [3.0])] {
//!     let batch = Minibatch::new(&line, &x, Targets::Values(&y), Loss::SquaredError, Reduction::Sum)?;
//!     filter.predict();
//!     filter.update(&mut evaluator, &batch);
//! }
//! // First step: errors (-1), so bias = slope = 0.1. Second: errors 0.3 - 3 at x = 2 and half of 0.2 - 1 at x = 1.
//! let bias = 0.1 + 0.1 * (2.7 + 0.5 * 0.8);
//! assert!((filter.weights()[0] - bias).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::Weight;
use crate::evaluate::{Evaluator, Minibatch};
use crate::kernel::{Loss, Reduction, Targets};
use optfilter::optim::Objective;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Why there can be no such window.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the discount must be above 0 and at most 1, not {0}")]
pub struct WindowError(
    /// The discount given.
    pub f64,
);

/// How far back an update looks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    length: usize,
    discount: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self { length: 0, discount: 1.0 }
    }
}

impl Window {
    /// `length` time steps besides the newest (L), each weighing `discount` times what the next one weighs.
    pub fn new(length: usize, discount: f64) -> Result<Self, WindowError> {
        if discount > 0.0 && discount <= 1.0 {
            return Ok(Self { length, discount });
        }
        Err(WindowError(discount))
    }

    /// L: time steps besides the newest.
    pub fn length(&self) -> usize {
        self.length
    }

    /// What a time step weighs relative to the next.
    pub fn discount(&self) -> f64 {
        self.discount
    }
}

/// Samples and labels of one time step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Row<E> {
    samples: Vec<E>,
    classes: Vec<u32>,
    values: Vec<E>,
}

impl<E: Weight> Row<E> {
    fn clear(&mut self) {
        self.samples.clear();
        self.classes.clear();
        self.values.clear();
    }

    fn add(&mut self, batch: &Minibatch<'_, E>) {
        self.samples.extend_from_slice(batch.samples);
        match batch.targets {
            Targets::Classes(classes) => self.classes.extend_from_slice(classes),
            Targets::Values(values) => self.values.extend_from_slice(values),
        }
    }

    fn batch(&self, loss: Loss, reduction: Reduction) -> Minibatch<'_, E> {
        let targets = match loss {
            Loss::SquaredError => Targets::Values(&self.values),
            _ => Targets::Classes(&self.classes),
        };
        Minibatch { samples: &self.samples, targets, loss, reduction }
    }
}

/// The time steps inside a window, the newest last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past<E> {
    window: Window,
    rows: VecDeque<Row<E>>,
    /// `g^age` of the ages that were met so far.
    #[serde(skip)]
    factors: Vec<f64>,
}

impl<E: Weight> Past<E> {
    /// Nothing yet.
    pub fn new(window: Window) -> Self {
        let rows = VecDeque::with_capacity(window.length.min(1 << 16) + 1);
        Self { window, rows, factors: Vec::new() }
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// A new time step, with nothing measured so far; the oldest is forgotten when there are more than L + 1.
    pub fn advance(&mut self) {
        if self.window.length == 0 {
            return;
        }
        let mut row = match self.rows.len() > self.window.length {
            true => self.rows.pop_front().unwrap_or_default(), // its memory serves again
            false => Row { samples: Vec::new(), classes: Vec::new(), values: Vec::new() },
        };
        row.clear();
        self.rows.push_back(row);
    }

    /// Labels of the newest time step; a second batch of it joins the first.
    pub fn put(&mut self, batch: &Minibatch<'_, E>) {
        if self.window.length == 0 {
            return;
        }
        if self.rows.is_empty() {
            self.advance();
        }
        if let Some(row) = self.rows.back_mut() {
            row.add(batch);
        }
        for age in self.factors.len()..self.rows.len() {
            self.factors.push(self.window.discount.powf(age as f64));
        }
    }

    /// Every time step with labels and its factor `g^age`, the newest first; without a window, `newest` alone.
    pub fn parts<'a>(&'a self, newest: &Minibatch<'a, E>) -> Vec<(Minibatch<'a, E>, E)> {
        self.earlier(newest).unwrap_or_else(|| vec![(*newest, E::one())])
    }

    /// [`Past::parts`] of a window; nothing, where there is none.
    pub(super) fn earlier<'a>(
        &'a self,
        newest: &Minibatch<'a, E>,
    ) -> Option<Vec<(Minibatch<'a, E>, E)>> {
        if self.window.length == 0 {
            return None;
        }
        let rows = self.rows.iter().rev().enumerate().filter(|(_, row)| !row.samples.is_empty());
        let rows = rows.map(|(age, row)| {
            let known = self.factors.get(age).copied();
            let factor = known.unwrap_or_else(|| self.window.discount.powf(age as f64));
            (row.batch(newest.loss, newest.reduction), E::of(factor))
        });
        Some(rows.collect())
    }

    /// Forgets everything measured.
    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

/// The loss over a window as a function of the weights.
#[derive(Debug)]
pub struct WindowObjective<'a, E: Weight> {
    evaluator: &'a mut Evaluator<E>,
    parts: &'a [(Minibatch<'a, E>, E)],
    floor: Option<E>,
}

/// A derivative below this moves no weight of a network, but its square is near the smallest numbers of single precision.
const LEAST: f64 = 1e-17;

impl<'a, E: Weight> WindowObjective<'a, E> {
    /// Over the [parts](Past::parts) of a window.
    pub fn new(evaluator: &'a mut Evaluator<E>, parts: &'a [(Minibatch<'a, E>, E)]) -> Self {
        Self { evaluator, parts, floor: None }
    }

    /// Derivatives below 1e-17 become `floor`, for speed: arithmetic with denormal numbers is a hundred times slower. Where a
    /// network is all but certain, derivatives are so small that their squares are denormal: with a floor of zero they are nothing. Behind a unit
    /// that is off every derivative is zero, and there the running mean of a rule that carries it decays until it is denormal, where it stays: a
    /// floor of 1e-30 keeps it above, and is too small to move any weight that is not itself zero.
    pub fn with_floor(mut self, floor: Option<E>) -> Self {
        self.floor = floor;
        self
    }
}

impl<E: Weight> Objective<E> for WindowObjective<'_, E> {
    fn value(&mut self, x: &[E]) -> E {
        self.evaluator.loss_over(x, self.parts)
    }
    // Inlined into what is compiled for the machine's registers (`descend_at`): the floor is a pass over all weights.
    #[inline(always)]
    fn gradient(&mut self, x: &[E], out: &mut [E]) {
        self.evaluator.slope_over(x, self.parts, out);
        if let Some(floor) = self.floor {
            let least = E::of(LEAST);
            out.iter_mut()
                .for_each(|g| *g = if num_traits::Float::abs(*g) < least { floor } else { *g });
        }
    }
}
