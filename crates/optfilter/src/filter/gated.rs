//! Any Gaussian filter behind a gate: measurements that are too unlikely do not get through as they are.
//!
//! A row is judged sensor by sensor: components whose errors are correlated in R are one sensor, all others are their own
//! ([`Gate::by_sensor`]; without it a row is one). A sensor whose normalised innovation squared, of its own part of v and S, lies
//! beyond the chi-square limit for its number of components is
//!
//! - rejected: the belief is what the other sensors make of it, or what was predicted if there are none;
//! - or taken, after the others, with its innovation covariance S widened until it lies on the limit. With w = limit / NIS and S / w
//!   for S the gain is w K, so the belief goes w of the way: x + w K v, and P - w K S K'.
//!
//! What is reported of the row (innovation, S, NIS, log-likelihood) is what it was before the gate. A filter that rejects row
//! after row has lost the track, and does not find it by itself: see [`Track`].
//!
//! A level of 0 +- 1, and a measurement of 10 +- 1 that cannot be its own:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{ExtendedKalmanFilter, Filter, Gate, Gated, Gating, GaussianBelief};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step};
//! let filter = |gating| {
//!     let noise = GaussianNoise::new(matrix![1.0], matrix![1.0])?;
//!     let gate = Gate::new(0.999, gating, 1)?;
//!     Ok::<_, Box<dyn std::error::Error>>(Gated::new(ExtendedKalmanFilter::new(RandomWalk::new(Const::<1>), noise), gate))
//! };
//! let mut found = Vec::new();
//! for gating in [Gating::Reject, Gating::Inflate] {
//!     let mut belief = GaussianBelief::new(vector![0.0], matrix![1.0])?;
//!     let update = filter(gating)?.update(&mut belief, &[10.0], &[], &Step::even(1, 1.0))?;
//!     assert_eq!(update.nis, Some(50.0));
//!     found.push(format!("{:.6} +- {:.6}", belief.mean[0], belief.cov[0].sqrt()));
//! }
//! println!("{found:?}");
//! assert_eq!(found, ["0.000000 +- 1.000000", "1.082757 +- 0.944312"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Bar-Shalom, Li and Kirubarajan 2001.

use super::gaussian::{GaussianBelief, ln_turns, log_density};
use super::track::{Followed, Track};
use super::traits::{Belief, Filter, Update, as_the_inner_filter};
use crate::Shapes;
use crate::chi_square::quantile;
use crate::error::FilterError;
use crate::linalg::{Factor, Solver};
use crate::model::Step;
use crate::model::likelihood::Observed;
use crate::optim::Bounds;
use crate::scalar::Scalar;
use crate::smoother::{Joint, Smooth};
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector, DefaultAllocator, Dim};

/// What happens to a measurement beyond the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gating {
    /// It is left out.
    #[default]
    Reject,
    /// It counts as much as one on the limit would.
    Inflate,
}

/// Limits of the normalised innovation squared, and what happens beyond them.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// By the number of components that were measured.
    limits: Vec<f64>,
    pub(super) gating: Gating,
    /// The components of each sensor.
    sensors: Vec<Vec<usize>>,
    /// The rejections in a row that good measurements hardly ever meet with.
    pub(super) many: u32,
}

impl Gate {
    /// Lets this share of all good measurements of up to `outputs` components through.
    pub fn new(share: f64, gating: Gating, outputs: usize) -> Result<Self, FilterError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(FilterError::NotFinite { argument: "gate", component: 0, index: None });
        }
        let (mut many, mut so_often) = (1, 1.0 - share);
        while so_often > SELDOM && many < 1000 {
            so_often *= 1.0 - share;
            many += 1;
        }
        Ok(Self {
            limits: (0..=outputs).map(|dof| quantile(share, dof)).collect(),
            gating,
            sensors: vec![(0..outputs).collect()],
            many,
        })
    }

    /// Judges each sensor by itself: components are of one sensor if they, or others between them, are `correlated`.
    #[must_use]
    pub fn by_sensor(mut self, correlated: impl Fn(usize, usize) -> bool) -> Self {
        let mut left: Vec<usize> = self.sensors.concat();
        left.sort_unstable();
        self.sensors.clear();
        while !left.is_empty() {
            let mut sensor = vec![left.remove(0)];
            let mut next = 0;
            while let Some(&i) = sensor.get(next) {
                let (with, without) = left.iter().partition(|&&j| correlated(i, j));
                sensor.extend::<Vec<usize>>(with);
                left = without;
                next += 1;
            }
            sensor.sort_unstable();
            self.sensors.push(sensor);
        }
        self
    }

    /// How many sensors are judged by themselves.
    pub fn sensors(&self) -> usize {
        self.sensors.len()
    }

    /// Which components are of a sensor beyond its limit; `None` where no sensor is. `cov` is S, m x m; a component that is NaN in
    /// the innovation is not there.
    pub fn beyond(&self, innovation: &[f64], cov: &[f64], nis: f64) -> Option<Vec<bool>> {
        let mut out: Option<Vec<bool>> = None;
        for sensor in &self.sensors {
            let there =
                sensor.iter().copied().filter(|&i| innovation.get(i).is_some_and(|v| !v.is_nan()));
            let nis = match self.sensors.len() {
                1 => nis,
                _ => part_of(there.clone(), innovation, cov),
            };
            if nis > self.limits.get(there.clone().count()).copied().unwrap_or(f64::INFINITY) {
                let out = out.get_or_insert_with(|| vec![false; innovation.len()]);
                there.for_each(|i| out[i] = true);
            }
        }
        out
    }

    /// [`beyond`](Self::beyond) of an update.
    pub(super) fn rejects<M: Dim>(&self, update: &Update<M>) -> Option<Vec<bool>>
    where
        DefaultAllocator: nalgebra::allocator::Allocator<M> + nalgebra::allocator::Allocator<M, M>,
    {
        let cov = update.innovation_cov.as_ref().map_or(&[][..], |s| s.as_slice());
        self.beyond(update.innovation.as_slice(), cov, update.nis.unwrap_or(f64::NAN))
    }
}

/// How seldom good measurements are rejected so often in a row that the track counts as lost: six times where the gate lets 99.9 %
/// through, which bursts of outliers hardly reach.
const SELDOM: f64 = 2e-18;

/// The normalised innovation squared of some components.
fn part_of(which: impl Iterator<Item = usize> + Clone, v: &[f64], cov: &[f64]) -> f64 {
    let at = |i: usize, j: usize| cov.get(j * v.len() + i).copied().unwrap_or(f64::NAN);
    let mut some = which.clone();
    match (some.next(), some.next(), some.next()) {
        (None, ..) => f64::NAN,
        (Some(i), None, _) => v[i] * v[i] / at(i, i),
        (Some(i), Some(j), None) => {
            // By Cholesky's factor, without room on the heap.
            let first = Scalar::sqrt(at(i, i));
            let below = at(j, i) / first;
            let z = v[i] / first;
            let rest = v[j] - below * z;
            z * z + rest * rest / (at(j, j) - below * below)
        }
        _ => {
            let which: Vec<usize> = which.collect();
            let s = DMatrix::from_fn(which.len(), which.len(), |i, j| at(which[i], which[j]));
            let v = DVector::from_iterator(which.len(), which.iter().map(|&i| v[i]));
            Factor::new(&s).map_or(f64::NAN, |factor| factor.quadratic_form(&v))
        }
    }
}

/// A Gaussian filter with a gate, or without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Gated<F> {
    pub(super) filter: F,
    pub(super) gate: Option<Gate>,
}

impl<F> Gated<F> {
    /// A filter and its gate.
    pub fn new(filter: F, gate: impl Into<Option<Gate>>) -> Self {
        Self { filter, gate: gate.into() }
    }
}

impl<F> Filter for Gated<F>
where
    F: Filter<Belief = GaussianBelief<<F as Filter>::State>>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    as_the_inner_filter!();

    #[inline(always)]
    fn bounds(&self) -> Option<&Bounds> {
        self.filter.bounds()
    }

    #[inline(always)]
    fn correct(
        &self,
        belief: &F::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(F::Belief, Update<F::Output>), FilterError> {
        let (next, mut update) = self.filter.correct(belief, y, observed, u, step)?;
        let Some(gate) = &self.gate else { return Ok((next, update)) };
        if observed != Observed::All {
            update.forget_missing(observed);
        }
        match gate.rejects(&update) {
            None => Ok((next, update)),
            Some(beyond) => {
                let kept = self.kept(gate, (belief, next), y, &beyond, &update, (u, step))?;
                Ok((kept, update))
            }
        }
    }

    fn follow(
        &self,
        track: &mut Track<F::Belief>,
        belief: &mut F::Belief,
        row: (&[f64], &[f64]),
        step: &Step,
        update: &Update<F::Output>,
    ) -> Followed {
        track.follow(self, belief, row, step, update)
    }
}

impl<F> Gated<F>
where
    F: Filter<Belief = GaussianBelief<<F as Filter>::State>>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    /// What is left of an update from one belief to the other where some sensors are beyond the gate.
    #[cold]
    fn kept(
        &self,
        gate: &Gate,
        (belief, next): (&F::Belief, F::Belief),
        y: &[f64],
        beyond: &[bool],
        update: &Update<F::Output>,
        (u, step): (&[f64], &Step),
    ) -> Result<F::Belief, FilterError> {
        let there = |i: &usize| !update.innovation[*i].is_nan();
        let good: Vec<bool> = (0..y.len()).map(|i| there(&i) && !beyond[i]).collect();
        if gate.gating == Gating::Inflate && gate.sensors.len() == 1 {
            let nis = update.nis.unwrap_or(f64::NAN);
            let limit = gate.limits[(0..y.len()).filter(there).count()];
            return Ok(part_of_the_way(belief, &next, limit / nis));
        }
        let mut kept = belief.clone();
        if good.contains(&true) {
            kept = self.filter.correct_apart(belief, y, Observed::Some(&good), u, step)?.0;
        }
        if gate.gating == Gating::Reject {
            return Ok(kept);
        }
        for sensor in &gate.sensors {
            let mut one = vec![false; y.len()];
            sensor.iter().filter(|&&i| beyond[i]).for_each(|&i| one[i] = true);
            let count = one.iter().filter(|&&one| one).count();
            if count > 0 {
                let one = Observed::Some(&one);
                let (next, update) = self.filter.correct_apart(&kept, y, one, u, step)?;
                let share = gate.limits[count] / update.nis.unwrap_or(f64::NAN);
                kept = if share < 1.0 { part_of_the_way(&kept, &next, share) } else { next };
            }
        }
        Ok(kept)
    }
}

/// The belief that went this share of the way from the one to the other.
#[cold]
fn part_of_the_way<N: Dim>(
    from: &GaussianBelief<N>,
    to: &GaussianBelief<N>,
    share: f64,
) -> GaussianBelief<N>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    GaussianBelief {
        mean: &from.mean * (1.0 - share) + &to.mean * share,
        cov: &from.cov * (1.0 - share) + &to.cov * share,
    }
}

impl<F: Smooth> Smooth for Gated<F>
where
    F: Filter<Belief = GaussianBelief<<F as Filter>::State>>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn joint(
        &self,
        belief: &GaussianBelief<F::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<Joint<F::State>, FilterError> {
        self.filter.joint(belief, u, step)
    }

    fn state_angle(&self, i: usize) -> Option<f64> {
        self.filter.state_angle(i)
    }
}

/// How many rows a belief must have predicted before it takes the place of the filter's own.
const PREDICTED: usize = 3;

/// The same of one that P had to be multiplied by four no more often than so for: 4 times the standard deviation, and 16.
const PREDICTED_NEAR: [(usize, usize); 2] = [(2, 1), (4, PREDICTED)];

/// How often P is multiplied by four at most: from the unit of the last place to that of the first.
const MAX_WIDER: usize = 60;

impl<B> Track<B> {
    /// Carries that belief through a step, as the filter's own was.
    #[inline(always)]
    pub fn predict<F>(&mut self, filter: &F, u: &[f64], step: &Step)
    where
        F: Filter<Belief = B>,
        B: Belief<F::State>,
        DefaultAllocator: Shapes<F::State, F::Output>,
    {
        if let Some((belief, _)) = &mut self.other
            && filter.predict_apart(belief, u, step).is_err()
        {
            self.other = None;
        }
        if let Some(first) = &mut self.first
            && !first.cross(u, step, |start| filter.predict_apart(start, u, step).is_ok())
        {
            self.first = None;
        }
    }
}

impl<N: Dim> Track<GaussianBelief<N>>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    /// See [`Filter::follow`].
    #[inline]
    pub(super) fn follow<F>(
        &mut self,
        filter: &Gated<F>,
        belief: &mut GaussianBelief<N>,
        row: (&[f64], &[f64]),
        step: &Step,
        update: &Update<F::Output>,
    ) -> Followed
    where
        F: Filter<State = N, Belief = GaussianBelief<N>>,
        DefaultAllocator: Shapes<N, F::Output>,
    {
        let Some(gate) = &filter.gate else { return Followed::OnTrack };
        match gate.rejects(update) {
            None if self.doubted.is_empty() && self.first.is_none() => Followed::OnTrack,
            beyond => self.doubt(filter, gate, belief, row, step, (update, beyond)),
        }
    }

    #[cold]
    fn doubt<F>(
        &mut self,
        filter: &Gated<F>,
        gate: &Gate,
        belief: &mut GaussianBelief<N>,
        (y, u): (&[f64], &[f64]),
        step: &Step,
        (update, beyond): (&Update<F::Output>, Option<Vec<bool>>),
    ) -> Followed
    where
        F: Filter<State = N, Belief = GaussianBelief<N>>,
        DefaultAllocator: Shapes<N, F::Output>,
    {
        self.corrected.clear();
        if let Some(first) = &mut self.first {
            let rejected = beyond.iter().flatten().filter(|beyond| **beyond).count();
            first.take((y, u), step, update.observed - rejected);
            let better = beyond.as_ref().and_then(|beyond| {
                first.look_back(&gate.sensors, beyond, &mut |belief, y, u, step| {
                    again(filter, gate, belief, y, (u, step))
                })
            });
            if first.is_over(belief.mean.nrows() + PREDICTED * y.len()) {
                self.first = None;
            }
            if let Some((last, _)) = better.as_ref().and_then(|beliefs| beliefs.split_last()) {
                *belief = last.clone();
                self.calm();
                self.corrected = better.unwrap_or_default();
                return Followed::Anew;
            }
            if beyond.is_none() && self.doubted.is_empty() {
                return Followed::OnTrack;
            }
        }
        self.doubted.resize(y.len(), false);
        for (i, doubted) in self.doubted.iter_mut().enumerate() {
            if !update.innovation[i].is_nan() {
                *doubted = beyond.as_ref().is_some_and(|beyond| beyond[i]);
            }
        }
        if !self.doubted.contains(&true) {
            self.calm();
            return Followed::OnTrack;
        }
        self.rejected = self.rejected.saturating_add(u32::from(beyond.is_some()));
        self.other = self.other.take().and_then(|(mut other, agreed)| {
            let update = filter.update_apart(&mut other, y, u, step).ok()?;
            gate.rejects(&update).is_none().then_some((other, agreed + update.observed))
        });
        let enough = belief.mean.nrows() + PREDICTED * y.len();
        if let Some((other, _)) = self.other.take_if(|(_, agreed)| *agreed >= enough) {
            *belief = other;
            *self = Self::default();
            return Followed::Anew;
        }
        self.is_new = self.other.is_none();
        if let (None, Some(beyond)) = (&self.other, &beyond) {
            let other = started(filter, belief, y, beyond, (u, step));
            self.other = other.map(|(other, wider)| {
                // A state that is hardly less known than before needs not so much to be found again.
                let rows = PREDICTED_NEAR.iter().find(|(most, _)| wider <= *most);
                let left = rows.map_or(enough, |(_, rows)| update.observed + rows * y.len());
                (other, update.observed + enough.saturating_sub(left))
            });
        }
        match beyond.is_some() && self.rejected >= gate.many {
            true => Followed::Lost,
            false => Followed::OnTrack,
        }
    }
}

/// Takes a step or a row once more: how many components the gate lets through, and their density.
fn again<F, N: Dim>(
    filter: &Gated<F>,
    gate: &Gate,
    belief: &mut GaussianBelief<N>,
    y: Option<&[f64]>,
    (u, step): (&[f64], &Step),
) -> Option<(usize, f64)>
where
    F: Filter<State = N, Belief = GaussianBelief<N>>,
    DefaultAllocator: Shapes<N, F::Output>,
{
    let Some(y) = y else {
        filter.predict_apart(belief, u, step).ok()?;
        return Some((0, 0.0));
    };
    let update = filter.update_apart(belief, y, u, step).ok()?;
    let beyond = gate.rejects(&update);
    let within: Vec<usize> = (0..y.len())
        .filter(|&i| !y[i].is_nan() && beyond.as_ref().is_none_or(|beyond| !beyond[i]))
        .collect();
    if within.is_empty() {
        return Some((0, 0.0));
    }
    let (v, s) = (&update.innovation, update.innovation_cov.as_ref()?);
    let part = DMatrix::from_fn(within.len(), within.len(), |i, j| s[(within[i], within[j])]);
    let solver = Solver::new(&part)?;
    let nis = solver.quadratic_form(&DVector::from_fn(within.len(), |i, _| v[within[i]]));
    Some((within.len(), log_density(nis, &solver, ln_turns(within.len()))))
}

/// The belief that the state is where the rejected sensors say, and how often P was multiplied by four for it.
fn started<F, N: Dim>(
    filter: &Gated<F>,
    belief: &GaussianBelief<N>,
    y: &[f64],
    beyond: &[bool],
    (u, step): (&[f64], &Step),
) -> Option<(GaussianBelief<N>, usize)>
where
    F: Filter<State = N, Belief = GaussianBelief<N>>,
    DefaultAllocator: Shapes<N, F::Output>,
{
    let y: Vec<f64> =
        (y.iter().zip(beyond)).map(|(y, beyond)| if *beyond { *y } else { f64::NAN }).collect();
    let mut wide = belief.clone();
    for wider in 1..=MAX_WIDER {
        wide.cov *= 4.0;
        let mut taken = wide.clone();
        let update = filter.filter.update_apart(&mut taken, &y, u, step).ok()?;
        if update.nis? <= update.observed as f64 {
            return Some((taken, wider));
        }
    }
    None
}
