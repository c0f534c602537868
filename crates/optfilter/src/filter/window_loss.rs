//! The loss of a window: measurements along the path that starts at a state.
//!
//! ```text
//! l(s) = sum_j g^(t-j) -ln p(y_j | h(x_j)),    x_0 = s,  x_j = f(x_{j-1}) [+ C_j z_j]
//! ```
//!
//! A gradient is one pass forwards, which stores the path, and one backwards, w <- F_j' w + H_j' score_j: the
//! cost of about three transitions per row, whatever the size of the state. The Gauss-Newton curvature times a
//! vector is a tangent pass and a backward pass. In brackets the weak constraint: increments C_j z_j, C_j C_j'
//! = Q_j, that cost z_j'z_j / 2 and are descended together with s.

use super::point::MeasurementLoss;
use super::process_factor::ProcessFactor;
use crate::model::likelihood::{Likelihood, Observed};
use crate::model::{Jvp, Model, Step, observation_vjp_of, transition_vjp_of};
use crate::optim::{Bounds, Objective};
use crate::rng::Stream;
use crate::scalar::{Dual, Scalar};
use crate::scratch::Scratch;
use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One row of a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) step: Step,
    /// Whether the dynamics lead to it from the row before: not to the first, and not to a second
    /// measurement at one time.
    pub(crate) moves: bool,
    pub(crate) part: Part,
    pub(crate) u: Shared,
    /// The measurement, NaN where components are missing; none while nothing is measured.
    pub(crate) y: Option<Shared>,
}

/// What a row is to a window with a weak constraint, which knows how far to trust its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Any row, and every one under a strong constraint.
    Usual,
    /// Before all rows: the initial mean, which stays as it is.
    Anchor,
    /// Before the first row: the initial state, as far from the anchor as the initial covariance says.
    Before,
    /// The same where the initial state is of the first row's own time.
    First,
}

impl Row {
    /// A row of the series.
    pub(crate) fn usual(step: &Step, moves: bool, u: &[f64], y: Option<Shared>) -> Self {
        Self { step: *step, moves, part: Part::Usual, u: u.into(), y }
    }

    /// Whether the path may bend here.
    fn bends(&self) -> bool {
        self.moves || matches!(self.part, Part::Before | Part::First)
    }

    /// Whether it is one of the series.
    pub(crate) fn is_real(&self) -> bool {
        matches!(self.part, Part::Usual | Part::First)
    }
}

/// Numbers that every copy of a belief has in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shared(Arc<[f64]>);

impl From<&[f64]> for Shared {
    fn from(values: &[f64]) -> Self {
        Self(values.into())
    }
}

impl core::ops::Deref for Shared {
    type Target = [f64];
    fn deref(&self) -> &[f64] {
        &self.0
    }
}

impl Serialize for Shared {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        self.0[..].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Vec::deserialize(deserializer)?.into()))
    }
}

/// The loss of a window as a function of its first state (and its increments, one after the other, where the
/// constraint is weak).
pub(crate) struct WindowLoss<'a, M, L, S: Scalar> {
    model: &'a M,
    likelihood: &'a L,
    rows: &'a VecDeque<Row>,
    /// The measurements of rows in lanes, where those of the rows are of one lane only.
    measured: Option<&'a VecDeque<Vec<S>>>,
    weights: Vec<f64>,
    masks: Vec<Option<Vec<bool>>>,
    factors: Option<Vec<Arc<ProcessFactor>>>,
    path: Scratch<S>,
    /// What the transition to each row left behind for its derivatives; empty where it leaves nothing.
    trails: Scratch<S>,
    /// Whether the trails are those of the path.
    trailed: bool,
    /// Probes of the curvature so far.
    probes: u64,
    n: usize,
}

impl<'a, M: Model, L: Likelihood, S: Scalar> WindowLoss<'a, M, L, S>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    pub(crate) fn new(
        model: &'a M,
        likelihood: &'a L,
        rows: &'a VecDeque<Row>,
        discount: f64,
        factors: Option<Vec<Arc<ProcessFactor>>>,
    ) -> Self {
        let n = model.state_dim().value();
        let mut weights = vec![1.0; rows.len()];
        for j in (1..rows.len()).rev() {
            weights[j - 1] = weights[j] * discount;
        }
        let mask = |row: &Row| {
            let y = row.y.as_ref()?;
            y.iter().any(|v| v.is_nan()).then(|| y.iter().map(|v| !v.is_nan()).collect())
        };
        Self {
            model,
            likelihood,
            measured: None,
            masks: rows.iter().map(mask).collect(),
            weights,
            factors,
            path: Scratch::new(rows.len() * n),
            trails: Scratch::new(0),
            trailed: false,
            probes: 0,
            rows,
            n,
        }
    }

    /// With the measurements of every lane; which of them are there is for the rows to say.
    pub(crate) fn measuring(mut self, measured: &'a VecDeque<Vec<S>>) -> Self {
        self.measured = Some(measured);
        self
    }

    /// The path that was followed last.
    pub(crate) fn path(&self) -> Vec<S> {
        self.path.to_vec()
    }

    /// The state at row `j` of the path that was followed last.
    pub(crate) fn state(&self, j: usize) -> &[S] {
        &self.path[j * self.n..][..self.n]
    }

    /// The state at the last row.
    pub(crate) fn end(&self) -> &[S] {
        self.state(self.rows.len() - 1)
    }

    fn observed(&self, j: usize) -> Observed<'_> {
        self.masks[j].as_deref().map_or(Observed::All, Observed::Some)
    }

    /// The path from `x`, with trails for the passes along it.
    pub(crate) fn follow(&mut self, x: &[S]) {
        let trails = self.rows.len() * self.model.stage_cache_len();
        if self.trails.len() != trails {
            self.trails = Scratch::new(trails);
        }
        self.trailed = trails > 0;
        self.walk(x);
    }

    /// The path from `x`, along which nothing will be differentiated.
    pub(crate) fn follow_only(&mut self, x: &[S]) {
        self.trailed = false;
        self.walk(x);
    }

    fn walk(&mut self, x: &[S]) {
        self.path[..self.n].copy_from_slice(&x[..self.n]);
        for j in 1..self.rows.len() {
            self.reach(x, j);
        }
    }

    /// The state of the path at row `j`, from that at the row before.
    fn reach(&mut self, x: &[S], j: usize) {
        let (n, row) = (self.n, &self.rows[j]);
        let (before, at) = self.path.split_at_mut(j * n);
        let (before, at) = (&before[(j - 1) * n..], &mut at[..n]);
        let (u, step) = (&row.u, &row.step);
        if row.moves && self.trailed {
            let len = self.model.stage_cache_len();
            let trail = &mut self.trails[j * len..][..len];
            self.model.transition_with_cache(before, u, step, at, trail);
        } else if row.moves {
            self.model.transition(before, u, step, at);
        } else {
            at.copy_from_slice(before);
        }
        if let Some(factors) = &self.factors
            && row.bends()
        {
            factors[j].add(&x[j * n..][..n], at);
        }
    }

    /// What the transition to row `j` left behind, if that is known.
    fn trail(&self, j: usize) -> Option<&[S]> {
        let len = self.model.stage_cache_len();
        self.trailed.then(|| &self.trails[j * len..][..len])
    }

    /// How the path may bend on the way to row `j`, if it may.
    pub(crate) fn bend(&self, j: usize) -> Option<&ProcessFactor> {
        let bends = j > 0 && self.rows[j].bends();
        self.factors.as_ref().filter(|_| bends).map(|factors| &*factors[j])
    }

    /// Calls `f` with the loss of row `j`, if something is measured there.
    fn with_row<R>(
        &self,
        j: usize,
        f: impl FnOnce(&mut MeasurementLoss<'_, M, L, S>) -> R,
    ) -> Option<R> {
        let Row { step, u, y, .. } = &self.rows[j];
        let y = y.as_ref()?;
        let y = match self.measured {
            Some(lanes) => Cow::Borrowed(&lanes[j][..]),
            None => S::lifted(y),
        };
        let (model, likelihood, observed) = (self.model, self.likelihood, self.observed(j));
        Some(f(&mut MeasurementLoss { model, likelihood, y: &y, u, step, observed }))
    }

    /// The backward pass: `seen(j, out)` writes H_j' r_j, if row `j` sees anything, and `own(j, w, out)` the
    /// derivative by the increment of row `j`, given that by its state.
    fn backwards(
        &self,
        seen: &mut dyn FnMut(&Self, usize, &mut [S]) -> bool,
        own: &mut dyn FnMut(&ProcessFactor, &[S], usize, &mut [S]),
        out: &mut [S],
    ) {
        let n = self.n;
        let (mut w, mut g) = (Scratch::<S>::new(n), Scratch::<S>::new(n));
        w.fill(S::ZERO);
        let mut reached = false;
        for (j, row) in self.rows.iter().enumerate().rev() {
            if seen(self, j, &mut g) {
                for (w, &g) in w.iter_mut().zip(&*g) {
                    *w = if reached { *w + g } else { g };
                }
                reached = true;
            }
            if j == 0 {
                break;
            }
            if let Some(factors) = &self.factors {
                let out = &mut out[j * n..][..n];
                match row.bends() {
                    true => own(&factors[j], &w, j, out),
                    false => out.fill(S::ZERO),
                }
            }
            if row.moves && reached {
                let (before, u, step) = (self.state(j - 1), &row.u, &row.step);
                match self.trail(j) {
                    Some(trail) => self.model.vjp_cached(before, u, step, trail, &w, &mut g),
                    None => transition_vjp_of(self.model, before, u, step, &w, &mut g),
                }
                core::mem::swap(&mut w, &mut g);
            }
        }
        match self.rows[0].part {
            Part::Anchor => out[..n].fill(S::ZERO),
            _ => out[..n].copy_from_slice(&w),
        }
    }
}

impl<M: Model, L: Likelihood, S: Scalar> Objective<S> for WindowLoss<'_, M, L, S>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    fn value(&mut self, x: &[S]) -> S {
        self.follow_only(x);
        let mut sum = S::ZERO;
        for j in 0..self.rows.len() {
            if let Some(loss) = self.with_row(j, |loss| loss.value(self.state(j))) {
                sum += loss.scale(self.weights[j]);
            }
        }
        for z in &x[self.n..] {
            sum += z.square().scale(0.5);
        }
        sum
    }

    fn gradient(&mut self, x: &[S], out: &mut [S]) {
        self.follow(x);
        self.backwards(
            &mut |this, j, g| {
                let measured = this.with_row(j, |loss| loss.gradient(this.state(j), g)).is_some();
                if measured && this.weights[j] != 1.0 {
                    g.iter_mut().for_each(|g| *g = g.scale(this.weights[j]));
                }
                measured
            },
            &mut |factor, w, j, out| factor.pull(w, &x[j * w.len()..][..w.len()], out),
            out,
        );
    }
}

impl<M: Model, L: Likelihood> WindowLoss<'_, M, L, f64>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    /// The path from `x`, whose increments are changed so that it stays inside a box, as far as they can.
    pub(crate) fn follow_within(&mut self, x: &mut [f64], bounds: &Bounds) {
        let n = self.n;
        self.trailed = false;
        self.path[..n].copy_from_slice(&x[..n]);
        let mut by = vec![0.0; n];
        for j in 1..self.rows.len() {
            self.reach(x, j);
            by.copy_from_slice(self.state(j));
            bounds.project(&mut by);
            by.iter_mut().zip(self.state(j)).for_each(|(to, from)| *to -= from);
            if by.iter().any(|by| *by != 0.0)
                && let Some(factor) = self.bend(j)
            {
                factor.bend(&mut x[j * n..][..n], &by);
                self.reach(x, j);
            }
        }
    }

    /// Writes the Gauss-Newton curvature times `v`, along the path that was followed last.
    pub(crate) fn curve(&mut self, v: &[f64], out: &mut [f64]) {
        let m = self.model.output_dim().value();
        let mut weighed = Scratch::<f64>::new(self.rows.len() * m);
        self.tangents(v, |this, j, eta, slope| {
            this.weigh(true, j, eta, slope, &mut weighed[j * m..][..m]);
        });
        self.backwards(
            &mut |this, j, g| {
                let Row { step, u, y, .. } = &this.rows[j];
                let r = &weighed[j * m..][..m];
                if y.is_some() {
                    observation_vjp_of(this.model, this.state(j), u, step, r, g);
                }
                y.is_some()
            },
            &mut |factor, w, j, out| factor.pull(w, &v[j * w.len()..][..w.len()], out),
            out,
        );
    }

    /// Adds a draw of the diagonal of the Gauss-Newton curvature J' W J, along the path that was followed last: the square of J' W^(1/2) e for
    /// random signs e, whose mean it is. Exact in W where that is diagonal. Draws are named by the newest row, so they are the
    /// same on any thread and after any restart.
    pub(crate) fn probe(&mut self, out: &mut [f64]) {
        let (n, m) = (self.n, self.model.output_dim().value());
        let newest = self.rows.back().map_or(0, |row| row.step.index);
        let mut stream = Stream::new(self.probes, newest, "curvature probes");
        self.probes += 1;
        let (mut eta, mut signs) = (Scratch::<f64>::new(m), Scratch::<f64>::new(m));
        let mut weighed = Scratch::<f64>::new(m);
        let mut draw = Scratch::<f64>::new(out.len());
        let nothing = vec![0.0; if self.factors.is_some() { n } else { 0 }];
        self.backwards(
            &mut |this, j, g| {
                let Row { step, u, y, .. } = &this.rows[j];
                if y.is_none() {
                    return false;
                }
                this.model.observe(this.state(j), u, step, &mut eta);
                write_signs(&mut stream, &mut signs);
                this.weigh(true, j, &eta, &signs, &mut weighed);
                for (weighed, sign) in weighed.iter_mut().zip(&*signs) {
                    *weighed = Scalar::sqrt((*weighed * sign).max(0.0)) * sign;
                }
                observation_vjp_of(this.model, this.state(j), u, step, &weighed, g);
                true
            },
            &mut |factor, w, _, out| factor.pull(w, &nothing, out),
            &mut draw,
        );
        for (i, (out, draw)) in out.iter_mut().zip(&*draw).enumerate() {
            // An increment costs its own square besides.
            *out += draw * draw + if i < n { 0.0 } else { 1.0 };
        }
    }

    /// Whether a step by the likelihood's curvature is a guess.
    pub(crate) fn is_guessed(&self) -> bool {
        !self.likelihood.has_own_curvature()
    }

    /// Writes the curvature of row `j` where it expects `eta`, or that for steps that may be long, its discount included, times `v`.
    pub(crate) fn weigh(&self, steady: bool, j: usize, eta: &[f64], v: &[f64], out: &mut [f64]) {
        self.with_row(j, |loss| loss.curvature(steady, eta, v, out));
        out.iter_mut().for_each(|r| *r *= self.weights[j]);
    }

    /// Calls `seen(j, eta, slope)` with what is expected of each measured row, and how it changes when the
    /// window's first state (and its increments) change by `v`.
    pub(crate) fn tangents(&self, v: &[f64], seen: impl FnMut(&Self, usize, &[f64], &[f64])) {
        match (self.model.transition_jvp(), self.model.jvp()) {
            (Some(transition), Some(observe)) => self.push(v, transition, observe, seen),
            _ => self.push_duals(v, seen),
        }
    }

    /// Tangents by hand-written derivatives.
    fn push(
        &self,
        v: &[f64],
        transition: Jvp<M>,
        observe: Jvp<M>,
        mut seen: impl FnMut(&Self, usize, &[f64], &[f64]),
    ) {
        let (n, m) = (self.n, self.model.output_dim().value());
        let (mut slope, mut next) = (Scratch::<f64>::new(n), Scratch::<f64>::new(n));
        slope.copy_from_slice(&v[..n]);
        let (mut eta, mut eta_slope) = (Scratch::<f64>::new(m), Scratch::<f64>::new(m));
        for (j, row) in self.rows.iter().enumerate() {
            if row.moves && j > 0 {
                let (before, u, step) = (self.state(j - 1), &row.u, &row.step);
                match self.trail(j) {
                    Some(trail) => {
                        self.model.jvp_cached(before, u, step, trail, &slope, &mut next);
                    }
                    None => transition(self.model, before, u, step, &slope, &mut next),
                }
                core::mem::swap(&mut slope, &mut next);
            }
            if let Some(factor) = self.bend(j) {
                factor.add(&v[j * n..][..n], &mut slope);
            }
            if row.y.is_some() {
                self.model.observe(self.state(j), &row.u, &row.step, &mut eta);
                observe(self.model, self.state(j), &row.u, &row.step, &slope, &mut eta_slope);
                seen(self, j, &eta, &eta_slope);
            }
        }
    }

    /// Tangents by dual numbers: the path once more, with its slopes.
    fn push_duals(&self, v: &[f64], mut seen: impl FnMut(&Self, usize, &[f64], &[f64])) {
        let (n, m) = (self.n, self.model.output_dim().value());
        let (mut at, mut next) = (Scratch::<Slope>::new(n), Scratch::<Slope>::new(n));
        for (at, (&re, &eps)) in at.iter_mut().zip(self.state(0).iter().zip(v)) {
            *at = Dual { re, eps: [eps] };
        }
        let mut expected = Scratch::<Slope>::new(m);
        let (mut eta, mut eta_slope) = (Scratch::<f64>::new(m), Scratch::<f64>::new(m));
        for (j, row) in self.rows.iter().enumerate() {
            if row.moves && j > 0 {
                self.model.transition(&at, &row.u, &row.step, &mut next);
                core::mem::swap(&mut at, &mut next);
            }
            if let Some(factor) = self.bend(j) {
                for (z, &eps) in next.iter_mut().zip(&v[j * n..][..n]) {
                    *z = Dual { re: 0.0, eps: [eps] };
                }
                factor.add(&next, &mut at);
                at.iter_mut().zip(self.state(j)).for_each(|(at, &re)| at.re = re);
            }
            if row.y.is_some() {
                self.model.observe(&at, &row.u, &row.step, &mut expected);
                for (i, expected) in expected.iter().enumerate() {
                    (eta[i], eta_slope[i]) = (expected.re, expected.eps[0]);
                }
                seen(self, j, &eta, &eta_slope);
            }
        }
    }
}

/// Random signs, 64 to a draw.
fn write_signs(stream: &mut Stream, out: &mut [f64]) {
    for signs in out.chunks_mut(64) {
        let bits = stream.bits();
        for (k, sign) in signs.iter_mut().enumerate() {
            *sign = if bits >> k & 1 == 0 { 1.0 } else { -1.0 };
        }
    }
}

/// A number and its slope in one direction.
type Slope = Dual<f64, 1>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Linear;
    use crate::model::likelihood::Gaussian;
    use nalgebra::{Matrix2, matrix};

    /// The mean of many probes is the diagonal of the curvature, of states and of increments.
    #[test]
    fn probes_have_the_diagonal_as_their_mean() {
        let f = matrix![1.0, 0.3, 0.0; -0.2, 0.9, 0.1; 0.0, 0.4, 0.8];
        let model = Linear::new(f, matrix![1.0, 0.0, 0.5; 0.0, 2.0, 0.0]).unwrap();
        let r = Matrix2::from_diagonal(&[0.5, 2.0].into());
        let likelihood = Gaussian::new(r).unwrap();
        let y = |k: usize| if k == 2 { [0.3, f64::NAN] } else { [1.0, 2.0] };
        let row = |k: usize| {
            let measured = (k != 1).then(|| y(k)[..].into());
            Row::usual(&Step::even(k as u64 + 1, 1.0), k > 0, &[], measured)
        };
        let rows: VecDeque<Row> = (0..4).map(row).collect();
        let factor = Arc::new(ProcessFactor::Diagonal(vec![0.5, 1.0, 0.2]));
        for factors in [None, Some(vec![factor; 4])] {
            let len = if factors.is_some() { 12 } else { 3 };
            let mut loss = WindowLoss::new(&model, &likelihood, &rows, 0.8, factors);
            loss.follow(&vec![0.1; len]);
            let (draws, mut mean) = (40_000, vec![0.0; len]);
            for _ in 0..draws {
                loss.probe(&mut mean);
            }
            let (mut unit, mut image) = (vec![0.0; len], vec![0.0; len]);
            for i in 0..len {
                unit[i] = 1.0;
                loss.curve(&unit, &mut image);
                unit[i] = 0.0;
                // A mean of 40,000 squares of sums of signs, each with a deviation of at most 1.41 means: 0.7 % is one.
                let ratio = mean[i] / f64::from(draws) / image[i];
                assert!((ratio - 1.0).abs() < 0.03, "{i} of {len}: {ratio}");
            }
        }
    }
}
