//! The windowed implicit filter: an optimizer, a number of steps K, and a number of past rows L.
//!
//! ```text
//! keep      s, the state at the first of the last L + 1 rows, and what was measured in them
//! predict   a row is added; where there are more than L + 1, s <- f(s) and the oldest is forgotten
//! update    K steps of the optimizer from s on  l(s) = sum_j g^(t-j) -ln p(y_j | h(x_j)),
//!           x_j = f(x_{j-1}) from x_{t-L} = s;   the estimate is x_t, and s a smoothed one of L rows ago
//! ```
//!
//! L = 0 is the paper's filter ([`ImplicitMap`](super::ImplicitMap)), bit for bit. The window holds *rows*: one
//! in which nothing is measured takes its place, adds nothing to the sum and triggers no step. The discount g is
//! per row.
//!
//! A window trusts the dynamics. Where they are disturbed, either discount (fading memory) or make the
//! constraint [`weak`](Window::weak): the path may then bend at every row, at the price of Q.
//!
//! Kin: strong-constraint 4D-Var and moving-horizon estimation minimise the same sum, by Gauss-Newton and
//! conjugate gradients in operational 4D-Var, from a background term with a covariance. Here there is none:
//! where the descent starts and when it stops is the prior, which is the paper's idea. That iterations stopped
//! early regularise is old (Hanke 1995).
//!
//! With all rows in the window and conjugate gradients run to their end, the estimate of a constant is the mean
//! of what was measured; forgetting by 0.5 per row weighs the newest most:
//!
//! ```
//! use nalgebra::{Const, vector};
//! use optfilter::filter::{Window, WindowBelief};
//! use optfilter::model::{RandomWalk, likelihood::SquaredError};
//! use optfilter::{Series, drive::Run, optim::ConjugateGradients};
//! let walk = RandomWalk::new(Const::<1>);
//! let series = Series::new(&[1.0, f64::NAN, 2.0, 6.0], 1)?;
//! let cg = ConjugateGradients::default();
//! let window = Window::new(walk, SquaredError, cg.clone(), 1, 3)?;
//! let mean = window.run(&mut WindowBelief::new(vector![0.0])?, &series)?.means;
//! let fading = Window::new(walk, SquaredError, cg, 1, 3)?.with_discount(0.5)?;
//! let faded = fading.run(&mut WindowBelief::new(vector![0.0])?, &series)?.means;
//! println!("{mean:.4?} {faded:.4?}");
//! assert_eq!(format!("{mean:.4?}"), "[1.0000, 1.0000, 1.5000, 3.0000]");
//! assert_eq!(format!("{faded:.4?}"), "[1.0000, 1.0000, 1.8000, 4.3846]"); // by hand: (1 + 2 4 + 6 8) / 13
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::implicit_map::Memory;
use super::point::{check_possible, moved, predicted_measurement};
use super::process_factor::ProcessFactor;
use super::traits::{Belief, Filter, Update, is_sane, residual};
use super::window_loss::{Part, Row, Shared, WindowLoss};
use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::model::likelihood::{Likelihood, Observed};
use crate::model::{Model, Step};
use crate::optim::{Bounds, ConjugateGradients, Objective, Optimizer, descend_within};
use crate::scalar::Scalar;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

/// How K steps are taken down the loss of a window: by any [`Optimizer`], or by [`ConjugateGradients`].
pub trait Descent: Clone {
    /// What it remembers from one measurement to the next, where that is carried.
    type Memory: Clone;

    /// The number of components that it moves, if it is made for a certain number.
    fn size(&self) -> Option<usize>;

    /// Moves `x` by `steps` steps down the loss and returns what it remembers.
    fn descend<F: Curved>(
        &self,
        loss: &mut F,
        x: &mut Vec<f64>,
        memory: Option<&Self::Memory>,
        steps: u32,
        bounds: Option<&Bounds>,
    ) -> Self::Memory;

    /// Whether a later descent can start from what it remembers: nothing has left the finite numbers.
    fn keeps_sound(&self, _memory: &Self::Memory) -> bool {
        true
    }
}

/// A loss with a Gauss-Newton curvature.
pub trait Curved: Objective<f64> {
    /// Writes the curvature at the point of the last gradient times `v`.
    fn curve(&mut self, v: &[f64], out: &mut [f64]);
    /// Adds a draw of that curvature's diagonal to `out`: never negative, and right on average over calls.
    fn probe(&mut self, out: &mut [f64]);
    /// Whether the curvature is a guess, so that a step by it may lead uphill.
    fn is_guessed(&self) -> bool;
}

impl<M: Model, L: Likelihood> Curved for WindowLoss<'_, M, L, f64>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    fn curve(&mut self, v: &[f64], out: &mut [f64]) {
        WindowLoss::curve(self, v, out);
    }
    fn probe(&mut self, out: &mut [f64]) {
        WindowLoss::probe(self, out);
    }
    fn is_guessed(&self) -> bool {
        WindowLoss::is_guessed(self)
    }
}

impl<O: Optimizer<f64>> Descent for O {
    type Memory = O::State<Vec<f64>>;

    fn size(&self) -> Option<usize> {
        self.dim()
    }

    fn descend<F: Curved>(
        &self,
        loss: &mut F,
        x: &mut Vec<f64>,
        memory: Option<&Self::Memory>,
        steps: u32,
        bounds: Option<&Bounds>,
    ) -> Self::Memory {
        let mut state = memory.cloned().unwrap_or_else(|| self.init(x));
        descend_within(self, loss, x, &mut state, steps, bounds);
        state
    }

    fn keeps_sound(&self, memory: &Self::Memory) -> bool {
        self.is_sound::<Vec<f64>>(memory)
    }
}

impl Descent for ConjugateGradients {
    type Memory = ();

    fn size(&self) -> Option<usize> {
        None
    }

    fn descend<F: Curved>(
        &self,
        loss: &mut F,
        x: &mut Vec<f64>,
        _memory: Option<&()>,
        steps: u32,
        bounds: Option<&Bounds>,
    ) {
        let mut gradient = vec![0.0; x.len()];
        loss.gradient(x, &mut gradient);
        let scales = self.scales(x.len(), |out| loss.probe(out));
        let curve = |v: &[f64], out: &mut [f64]| loss.curve(v, out);
        let (mut step, _) = self.record(&gradient, steps, scales.as_deref(), curve);
        if loss.is_guessed() {
            match self.share(loss, x, (&gradient, &step), bounds) {
                0.0 => step.fill(0.0),
                share => step.iter_mut().for_each(|d| *d *= share),
            }
        }
        for (x, d) in x.iter_mut().zip(step) {
            *x += d;
        }
        if let Some(bounds) = bounds {
            bounds.project(x);
        }
    }
}

/// How far a path may bend: the factor of Q over a step, and that of the initial covariance.
#[derive(Clone)]
pub(crate) struct Bend {
    process: Arc<dyn Fn(&Step) -> Arc<ProcessFactor> + Send + Sync>,
    initial: Arc<ProcessFactor>,
}

/// The windowed implicit filter.
#[derive(Clone)]
pub struct Window<M, L, R> {
    pub(crate) model: M,
    pub(crate) likelihood: L,
    pub(crate) rule: R,
    pub(crate) steps: u32,
    pub(crate) length: usize,
    pub(crate) discount: f64,
    pub(crate) memory: Memory,
    pub(crate) bounds: Option<Bounds>,
    pub(crate) bend: Option<Bend>,
    pub(crate) shortens: bool,
}

impl<M: Model, L: Likelihood, R: Descent> Window<M, L, R> {
    /// From a model, a likelihood, an optimizer, the number of steps K it takes per measurement, and the
    /// number L of rows besides the newest.
    pub fn new(
        model: M,
        likelihood: L,
        rule: R,
        steps: u32,
        length: usize,
    ) -> Result<Self, FilterError> {
        if steps == 0 {
            return Err(FilterError::Zero { argument: "steps" });
        }
        let (memory, bounds, bend) = (Memory::Restart, None, None);
        let (discount, shortens) = (1.0, false);
        let window = Self {
            model,
            likelihood,
            rule,
            steps,
            length,
            discount,
            memory,
            bounds,
            bend,
            shortens,
        };
        window.check_parts()?;
        Ok(window)
    }

    /// With each row counting `discount` times as much as the one after it.
    pub fn with_discount(mut self, discount: f64) -> Result<Self, FilterError> {
        if !(discount > 0.0 && discount <= 1.0) {
            let (argument, requirement) = ("discount", "above 0 and at most 1");
            return Err(FilterError::Setting { argument, value: discount, requirement });
        }
        self.discount = discount;
        Ok(self)
    }

    /// With a window that gives up its older half, and half of the rest, where the steps lead out of the finite numbers, down to the
    /// newest row from its prediction; only where that fails too, the row is an error. It grows again as rows come.
    pub fn shortening(mut self) -> Self {
        self.shortens = true;
        self
    }

    /// With the optimizer's state restarted or carried.
    pub fn with_memory(mut self, memory: Memory) -> Result<Self, FilterError> {
        self.memory = memory;
        self.check_parts()?;
        Ok(self)
    }

    /// With the first state of the window kept inside a box, and prediction and estimate put into it. Where the
    /// constraint is weak, the path is bent back into the box at every row, as far as Q lets it bend.
    pub fn with_bounds(mut self, bounds: Bounds) -> Result<Self, FilterError> {
        check_len("bounds", self.model.state_dim().value(), bounds.dim(), None)?;
        self.bounds = Some(bounds);
        self.check_parts()?;
        Ok(self)
    }

    /// With a path that may bend: increments at every row, weighted by Q, are optimised with the first state; as
    /// long as the window reaches back to the beginning, the initial state is held by the initial covariance.
    pub fn weak(
        mut self,
        process: impl Fn(&Step) -> Arc<ProcessFactor> + Send + Sync + 'static,
        initial: ProcessFactor,
    ) -> Result<Self, FilterError> {
        self.bend = Some(Bend { process: Arc::new(process), initial: Arc::new(initial) });
        self.check_parts()?;
        Ok(self)
    }

    fn check_parts(&self) -> Result<(), FilterError> {
        let n = self.model.state_dim().value();
        if let Some(dim) = self.likelihood.dim() {
            check_len("likelihood", self.model.output_dim().value(), dim, None)?;
        }
        if let Some(dim) = self.rule.size() {
            check_len("learning-rate matrix", n, dim, None)?;
        }
        let alone = |argument, wrong: bool| {
            let requirement = "left out where the constraint is weak";
            if wrong && self.bend.is_some() {
                return Err(FilterError::Setting { argument, value: 1.0, requirement });
            }
            Ok(())
        };
        alone("a learning-rate matrix", self.rule.size().is_some())?;
        alone("memory = Carry", self.memory == Memory::Carry)
    }

    /// Numbers that are optimised per row.
    pub(crate) fn width(&self) -> usize {
        if self.bend.is_some() { self.model.state_dim().value() } else { 0 }
    }
}

impl<M: Model, L: Likelihood, R: Descent> Window<M, L, R>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// The loss of rows.
    pub(crate) fn loss<'a>(&'a self, rows: &'a VecDeque<Row>) -> WindowLoss<'a, M, L, f64> {
        self.loss_over(rows)
    }

    /// The loss of rows in any scalar.
    pub(crate) fn loss_over<'a, S: Scalar>(
        &'a self,
        rows: &'a VecDeque<Row>,
    ) -> WindowLoss<'a, M, L, S> {
        let factor = |bend: &Bend, row: &Row| match row.part {
            Part::Before | Part::First => bend.initial.clone(),
            _ => (bend.process)(&row.step),
        };
        let of = |bend: &Bend| rows.iter().map(|row| factor(bend, row)).collect();
        let factors = self.bend.as_ref().map(of);
        WindowLoss::new(&self.model, &self.likelihood, rows, self.discount, factors)
    }

    /// Whether a belief has the numbers that this window optimises: one saved by another may not.
    pub(crate) fn check_belief<T>(
        &self,
        belief: &WindowBelief<M::State, T>,
        step: &Step,
    ) -> Result<(), FilterError> {
        let past = belief.rows.len().saturating_sub(1);
        let expected = self.model.state_dim().value() + self.width() * past;
        check_len("belief", expected, belief.start.len(), Some(step.index))
    }

    /// Adds a row, and forgets the oldest where there are too many.
    fn push<T>(&self, belief: &mut WindowBelief<M::State, T>, mut row: Row) {
        let n = self.model.state_dim().value();
        if belief.rows.is_empty() && self.bend.is_some() {
            let before = |part| Row { moves: false, part, y: None, ..row.clone() };
            belief.rows.push_back(before(Part::Anchor));
            match row.moves {
                true => {
                    belief.start.extend(core::iter::repeat_n(0.0, n));
                    belief.rows.push_back(before(Part::Before));
                }
                false => row.part = Part::First,
            }
        } else if belief.rows.is_empty() && row.moves {
            // The first row of all: the state is carried to it.
            let start = moved(&self.model, &belief.start, &row.u, &row.step);
            belief.start.copy_from_slice(start.as_slice());
            row.moves = false;
        }
        if !belief.rows.is_empty() {
            belief.start.extend(core::iter::repeat_n(0.0, self.width()));
        }
        belief.rows.push_back(row);
        belief.count += 1;
        let real = belief.rows.iter().filter(|row| row.is_real()).count();
        if real > self.length + 1 {
            self.forget(belief, belief.rows.len() - self.length - 1);
        }
    }

    /// Forgets so many of the oldest rows: the state is carried past them.
    fn forget<T>(&self, belief: &mut WindowBelief<M::State, T>, gone: usize) {
        let n = self.model.state_dim().value();
        // Only as far as the rows that go.
        let past: VecDeque<Row> = belief.rows.iter().take(gone + 1).cloned().collect();
        let mut loss = self.loss(&past);
        loss.follow_only(&belief.start);
        belief.start.drain(..gone * self.width());
        belief.start[..n].copy_from_slice(loss.end());
        belief.rows.drain(..gone);
        if let Some(first) = belief.rows.front_mut() {
            (first.moves, first.part) = (false, Part::Usual);
        }
    }

    /// Gives up the older half of the rows, if there is more than the newest. What the path has lost on its way is no state to
    /// start from: the newest row alone starts at its prediction.
    fn shorten<T>(&self, belief: &mut WindowBelief<M::State, T>) -> bool {
        let keep = belief.rows.iter().filter(|row| row.is_real()).count() / 2;
        if keep == 0 {
            return false;
        }
        self.forget(belief, belief.rows.len() - keep);
        if keep == 1 {
            belief.start.copy_from_slice(belief.mean.as_slice());
        }
        true
    }
}

/// What a windowed filter knows: the estimate, the first state of the window, and the window's rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, T: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, T: Deserialize<'de>"
))]
pub struct WindowBelief<N: Dim, T>
where
    DefaultAllocator: Allocator<N>,
{
    /// The estimate at the newest row.
    pub mean: OVector<f64, N>,
    /// The state at the oldest row, then the increments of the others where the constraint is weak.
    pub(crate) start: Vec<f64>,
    pub(crate) rows: VecDeque<Row>,
    /// Rows that ever came.
    pub(crate) count: u64,
    memory: Option<T>,
}

impl<N: Dim, T> WindowBelief<N, T>
where
    DefaultAllocator: Allocator<N>,
{
    /// From a finite estimate, before any row.
    pub fn new(mean: OVector<f64, N>) -> Result<Self, FilterError> {
        let mean = super::PointBelief::<N, T>::new(mean)?.mean;
        let start = mean.as_slice().to_vec();
        Ok(Self { mean, start, rows: VecDeque::new(), count: 0, memory: None })
    }

    /// The rows in the window.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The smoothed estimate at the oldest row of the window.
    pub fn lagged(&self) -> &[f64] {
        &self.start[..self.mean.nrows()]
    }
}

impl<N: Dim, T: Clone> Belief<N> for WindowBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = false;
    fn mean(&self) -> OVector<f64, N> {
        self.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        None
    }
    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        check_len("belief", n, self.mean.nrows(), Some(index))?;
        if self.start.len() < n {
            return check_len("belief", n, self.start.len(), Some(index));
        }
        Ok(())
    }
    fn confine(&mut self, bounds: &Bounds) {
        bounds.project(self.mean.as_mut_slice());
        bounds.project(&mut self.start);
    }
    fn flaw(&self) -> Option<&'static str> {
        (!is_sane(self.mean.as_slice()) || !is_sane(&self.start)).then_some("estimate")
    }
}

impl<M: Model, L: Likelihood, R: Descent> Filter for Window<M, L, R>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = WindowBelief<M::State, R::Memory>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        self.check_belief(belief, step)?;
        let mut next = belief.clone();
        next.mean = moved(&self.model, belief.mean.as_slice(), u, step);
        self.push(&mut next, Row::usual(step, true, u, None));
        Ok(next)
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        check_possible(&self.likelihood, y, observed, step)?;
        self.check_belief(belief, step)?;
        let at = belief.mean.as_slice();
        let predicted = predicted_measurement(&self.model, &self.likelihood, at, u, step);
        let innovation = residual(&self.model, y, predicted, observed);
        let mut next = belief.clone();
        self.place(&mut next, u, step, Some(y.into()));
        loop {
            let (mean, start, memory) = self.descended(&next);
            let lost = !is_sane(mean.as_slice()) || !is_sane(&start);
            if lost && self.shortens && self.shorten(&mut next) {
                continue;
            }
            (next.mean, next.start, next.memory) = (mean, start, memory);
            return Ok((next, Update::point(innovation)));
        }
    }

    fn flaw(&self, belief: &Self::Belief) -> Option<&'static str> {
        let lost = |memory: &&_| !self.rule.keeps_sound(*memory);
        belief.flaw().or_else(|| belief.memory.as_ref().filter(lost).map(|_| "optimizer state"))
    }

    fn lag(&self) -> Option<usize> {
        Some(self.length)
    }

    fn path(&self, belief: &Self::Belief) -> Vec<f64> {
        if belief.rows.is_empty() {
            return belief.start.clone();
        }
        let mut loss = self.loss(&belief.rows);
        loss.follow_only(&belief.start);
        let mut path = loss.path();
        let before = belief.rows.iter().filter(|row| !row.is_real()).count();
        path.drain(..before * belief.mean.nrows());
        if let Some(bounds) = &self.bounds {
            path.chunks_exact_mut(belief.mean.nrows().max(1)).for_each(|x| bounds.project(x));
        }
        // The estimate is what was reported, bounds included.
        path.truncate(path.len() - belief.mean.nrows());
        path.extend_from_slice(belief.mean.as_slice());
        path
    }

    fn miss(&self, belief: &mut Self::Belief, u: &[f64], step: &Step) {
        self.place(belief, u, step, None);
    }
}

impl<M: Model, L: Likelihood, R: Descent> Window<M, L, R>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// K steps from the first state of the window: the end of the path from where they lead, its beginning, and what is carried.
    fn descended(
        &self,
        belief: &WindowBelief<M::State, R::Memory>,
    ) -> (OVector<f64, M::State>, Vec<f64>, Option<R::Memory>) {
        let mut start = belief.start.clone();
        let mut loss = self.loss(&belief.rows);
        let memory = self.rule.descend(
            &mut loss,
            &mut start,
            belief.memory.as_ref(),
            self.steps,
            self.bounds.as_ref(),
        );
        match (&self.bounds, &self.bend) {
            (Some(bounds), Some(_)) => loss.follow_within(&mut start, bounds),
            _ => loss.follow_only(&start),
        }
        let mean = OVector::from_column_slice_generic(self.dims().0, U1, loss.end());
        (mean, start, (self.memory == Memory::Carry).then_some(memory))
    }

    /// Puts a measurement into the row that was predicted for it, or into a new one at the same time.
    pub(crate) fn place<T>(
        &self,
        belief: &mut WindowBelief<M::State, T>,
        u: &[f64],
        step: &Step,
        y: Option<Shared>,
    ) {
        match belief.rows.back_mut() {
            Some(row) if row.step.index == step.index && row.y.is_none() => row.y = y,
            Some(row) if row.step.index == step.index && y.is_none() => {}
            _ => self.push(belief, Row::usual(step, false, u, y)),
        }
    }
}
