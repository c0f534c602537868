//! Many series through one windowed filter, as lanes of one computation.
//!
//! Series with one clock, the same inputs and the same gaps share their rows; first states, paths and measurements are lanes, and the loss of
//! the window is [the one](super::window_loss) of a single series. A lane is, to the bit, its series alone. Where one would take a way of its
//! own (it leaves the numbers, say), none is run: what each comes to is for it to say alone. A window that bends, and conjugate gradients,
//! whose number of steps depends on what they find, are not run in lanes.

use super::lane_row::is_sane;
use super::traits::Filter;
use super::window::{Descent, Window};
use super::window_loss::{Row, Shared, WindowLoss};
use crate::Shapes;
use crate::filter::Memory;
use crate::model::likelihood::{Likelihood, Observed};
use crate::model::{Model, Step};
use crate::optim::{Optimizer, descend_within};
use crate::scalar::{Lanes, Scalar};
use crate::series::Series;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim};

/// A row of every lane.
#[derive(Debug)]
pub struct WindowRow<'a, const W: usize> {
    /// Estimates.
    pub mean: &'a [Lanes<W>],
    /// Measurement less prediction; NaN where missing.
    pub innovation: &'a [Lanes<W>],
    /// The smoothed estimates at the oldest row of the window.
    pub oldest: &'a [Lanes<W>],
}

/// What is known of all lanes.
struct Beliefs<T, const W: usize> {
    mean: Vec<Lanes<W>>,
    /// At the oldest row.
    start: Vec<Lanes<W>>,
    rows: VecDeque<Row>,
    /// Measurements of the rows.
    measured: VecDeque<Vec<Lanes<W>>>,
    memory: Option<T>,
}

/// What a rule remembers of all lanes.
type Remembered<R, const W: usize> = <R as Optimizer<Lanes<W>>>::State<Vec<Lanes<W>>>;

impl<M: Model, L: Likelihood, R: Descent> Window<M, L, R>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Runs up to `W` series with one clock and the same gaps, each from its own mean, and hands out their rows; then the smoothed estimates
    /// along the last window. `None` if they cannot run together.
    pub fn side_by_side<const W: usize>(
        &self,
        starts: &[&[f64]],
        series: &[Series<'_>],
        sink: &mut impl FnMut(usize, &Step, &WindowRow<'_, W>),
    ) -> Option<Vec<Lanes<W>>>
    where
        R: Optimizer<Lanes<W>>,
    {
        let (n, m, inputs) = self.dims();
        let (n, m) = (n.value(), m.value());
        let clock = *series.first()?;
        let fits = |s: &Series<'_>| s.same_clock(&clock) && s.output_dim() == m;
        let begins = |start: &&[f64]| start.len() == n && start.iter().all(|v| v.is_finite());
        let some = (1..=W).contains(&series.len()) && starts.len() == series.len();
        let whole = clock.input_dim() == inputs && self.bend.is_none() && !self.shortens;
        if !(some && whole && series.iter().all(fits) && starts.iter().all(begins)) {
            return None;
        }
        // Unused lanes repeat the first series.
        let of = |lane: usize| if lane < series.len() { lane } else { 0 };
        let start: Vec<Lanes<W>> =
            (0..n).map(|i| Lanes(core::array::from_fn(|lane| starts[of(lane)][i]))).collect();
        let mut all: Beliefs<Remembered<R, W>, W> = Beliefs {
            mean: start.clone(),
            start,
            rows: VecDeque::new(),
            measured: VecDeque::new(),
            memory: None,
        };
        let missing = vec![Lanes([f64::NAN; W]); m];
        let (mut y, mut mask) = (missing.clone(), vec![true; m]);
        for k in 0..clock.len() {
            let (step, u) = (clock.step(k), clock.input(k));
            if !u.iter().all(|v| v.is_finite()) {
                return None;
            }
            if clock.predicts(k) && step.dt != 0.0 {
                self.confine_lanes(&mut all);
                all.mean = self.moved_lanes(&all.mean, u, &step);
                self.push_lanes(&mut all, Row::usual(&step, true, u, None), missing.clone());
                self.confine_lanes(&mut all);
                (is_sane(&all.mean) && is_sane(&all.start)).then_some(())?;
            }
            for lane in 0..W {
                for (i, &v) in series[of(lane)].observation(k).iter().enumerate() {
                    y[i].0[lane] = v;
                }
            }
            for (seen, y) in mask.iter_mut().zip(&y) {
                *seen = !y.0[0].is_nan();
                y.0.iter().all(|v| v.is_nan() != *seen && !v.is_infinite()).then_some(())?;
            }
            let innovation = match mask.contains(&true) {
                true => self.learn_lanes(&mut all, &y, &mask, u, &step)?,
                false => {
                    self.place_lanes(&mut all, u, &step, None);
                    missing.clone()
                }
            };
            let oldest = if all.rows.len() > 1 { &all.start } else { &all.mean };
            let (mean, innovation) = (&all.mean[..], &innovation[..]);
            sink(k, &step, &WindowRow { mean, innovation, oldest });
        }
        if all.rows.is_empty() {
            return Some(all.start);
        }
        let mut loss = self.lane_loss(&all);
        loss.follow_only(&all.start);
        let mut path = loss.path();
        if let Some(bounds) = &self.bounds {
            path.chunks_exact_mut(n).for_each(|x| bounds.project(x));
        }
        let last = path.len() - n;
        path[last..].copy_from_slice(&all.mean);
        Some(path)
    }

    /// What a row with a measurement makes of all lanes; the innovations.
    fn learn_lanes<const W: usize>(
        &self,
        all: &mut Beliefs<Remembered<R, W>, W>,
        y: &[Lanes<W>],
        mask: &[bool],
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<Lanes<W>>>
    where
        R: Optimizer<Lanes<W>>,
    {
        let observed = if mask.contains(&false) { Observed::Some(mask) } else { Observed::All };
        for i in observed.indices(y.len()) {
            y[i].0.iter().all(|v| self.likelihood.admits(i, *v)).then_some(())?;
        }
        self.confine_lanes(all);
        let mut innovation = y.to_vec();
        self.model.observe(&all.mean, u, step, &mut innovation);
        self.likelihood.expect(&mut innovation);
        for (i, v) in innovation.iter_mut().enumerate() {
            let difference = y[i] - *v;
            *v = match (observed.has(i), self.model.is_angle(i)) {
                (false, _) => Lanes([f64::NAN; W]),
                (true, false) => difference,
                (true, true) => difference.wrap(self.model.turn(i)),
            };
        }
        self.place_lanes(all, u, step, Some(y));
        let mut start = all.start.clone();
        let mut loss = self.lane_loss(all);
        let fresh = || Optimizer::<Lanes<W>>::init(&self.rule, &start);
        let mut state = all.memory.clone().unwrap_or_else(fresh);
        let bounds = self.bounds.as_ref();
        descend_within(&self.rule, &mut loss, &mut start, &mut state, self.steps, bounds);
        loss.follow_only(&start);
        let mean = loss.end().to_vec();
        drop(loss);
        (all.mean, all.start) = (mean, start);
        if self.memory == Memory::Carry {
            self.rule.is_sound::<Vec<Lanes<W>>>(&state).then_some(())?;
            all.memory = Some(state);
        }
        self.confine_lanes(all);
        let known = |i: usize| innovation[i].is_finite();
        let sane = is_sane(&all.mean) && is_sane(&all.start);
        (sane && observed.indices(y.len()).all(known)).then_some(innovation)
    }

    #[inline(always)]
    fn lane_loss<'a, T, const W: usize>(
        &'a self,
        all: &'a Beliefs<T, W>,
    ) -> WindowLoss<'a, M, L, Lanes<W>> {
        WindowLoss::new(&self.model, &self.likelihood, &all.rows, self.discount, None)
            .measuring(&all.measured)
    }

    /// Brings all lanes into the box.
    #[inline(always)]
    fn confine_lanes<T, const W: usize>(&self, all: &mut Beliefs<T, W>) {
        if let Some(bounds) = &self.bounds {
            bounds.project(&mut all.mean);
            bounds.project(&mut all.start);
        }
    }

    #[inline(always)]
    fn moved_lanes<const W: usize>(&self, x: &[Lanes<W>], u: &[f64], step: &Step) -> Vec<Lanes<W>> {
        let mut out = x.to_vec();
        self.model.transition(x, u, step, &mut out);
        out
    }

    /// As [`Window::place`] does it for one series.
    #[inline(always)]
    fn place_lanes<T, const W: usize>(
        &self,
        all: &mut Beliefs<T, W>,
        u: &[f64],
        step: &Step,
        y: Option<&[Lanes<W>]>,
    ) {
        // Which components are there is the same in every lane.
        let first = y.map(|y| Shared::from(&y.iter().map(|v| v.0[0]).collect::<Vec<f64>>()[..]));
        let measured = y.map(<[_]>::to_vec).unwrap_or_default();
        match (all.rows.back_mut(), all.measured.back_mut()) {
            (Some(row), Some(old)) if row.step.index == step.index && row.y.is_none() => {
                (row.y, *old) = (first, measured);
            }
            (Some(row), _) if row.step.index == step.index && y.is_none() => {}
            _ => self.push_lanes(all, Row::usual(step, false, u, first), measured),
        }
    }

    /// Adds a row, and forgets the oldest where there are too many.
    #[inline(always)]
    fn push_lanes<T, const W: usize>(
        &self,
        all: &mut Beliefs<T, W>,
        mut row: Row,
        measured: Vec<Lanes<W>>,
    ) {
        if all.rows.is_empty() && row.moves {
            all.start = self.moved_lanes(&all.start, &row.u, &row.step);
            row.moves = false;
        }
        all.rows.push_back(row);
        all.measured.push_back(measured);
        while all.rows.len() > self.length + 1 {
            all.rows.pop_front();
            all.measured.pop_front();
            if let Some(first) = all.rows.front_mut() {
                if first.moves {
                    all.start = self.moved_lanes(&all.start, &first.u, &first.step);
                }
                first.moves = false;
            }
        }
    }
}
