//! Many series of a Gaussian filter at once, each with a covariance of its own: lanes of one computation.
//!
//! Series with one clock and the same inputs go through the filter's own kernels in [`Lanes`]; what is missing of a row may differ from
//! lane to lane. A lane is, to the bit, what its series alone gives: where one would take another way than the others (a covariance without
//! a factor, an estimate that leaves the numbers), all of them end [`Together::Apart`], and what each comes to is for it to say alone.
//!
//! For linear models, whose covariances do not depend on what was measured, [`CommonGain`](super::CommonGain) does less work.
//!
//! Two series of the growth system:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::Series;
//! use optfilter::drive::Run;
//! use optfilter::filter::{ExtendedKalmanFilter, GaussianBelief, side_by_side};
//! use optfilter::model::{GaussianNoise, Growth};
//! let filter = ExtendedKalmanFilter::new(Growth, GaussianNoise::new(matrix![1.0], matrix![1.0])?);
//! let start = GaussianBelief::new(vector![0.1], matrix![1.0])?;
//! let series = [Series::new(&[4.2, 5.1, 3.0], 1)?, Series::new(&[4.0, f64::NAN, 2.5], 1)?];
//! let mut together = vec![Vec::new(); 2];
//! side_by_side::<_, 8>(&filter, &[start.clone(), start.clone()], &series, &mut |_, _, row| {
//!     for (lane, out) in together.iter_mut().enumerate() {
//!         out.push(row.mean[0].0[lane]);
//!     }
//! });
//! for (series, together) in series.iter().zip(&together) {
//!     assert_eq!(&filter.run(&mut start.clone(), series)?.means, together);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::gaussian::{Conditioned, GaussianBelief, GaussianMeasurement, LN_TAU, condition_masked};
use super::lane_row::{LaneCovs, LaneRow, Together, is_sane};
use super::traits::{Filter, LARGEST};
use crate::Shapes;
use crate::model::{Observation, Step};
use crate::scalar::{Lanes, Scalar};
use crate::series::Series;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Most states and measurements of a filter that runs in lanes: kernels for larger matrices add in another order.
const MOST: usize = 8;

/// Gaussian beliefs beside one another.
#[derive(Clone, Debug)]
pub struct LaneBelief<N: Dim, const W: usize>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    pub(super) mean: OVector<Lanes<W>, N>,
    pub(super) cov: OMatrix<Lanes<W>, N, N>,
}

impl<N: Dim, const W: usize> LaneBelief<N, W>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// Conditioned on a measurement; `turns` is ln 2 pi of every component that is there.
    #[inline(always)]
    pub(super) fn conditioned<M: Dim>(
        &self,
        measurement: GaussianMeasurement<Lanes<W>, N, M>,
        turns: Lanes<W>,
    ) -> Option<(Self, LaneUpdate<M, W>)>
    where
        DefaultAllocator: Shapes<N, M>,
    {
        let done = condition_masked(&self.mean, &self.cov, &measurement, turns)?;
        Some(LaneUpdate::of(done, measurement.residual))
    }
}

/// What a row was worth to each of them.
#[derive(Clone, Debug)]
pub struct LaneUpdate<M: Dim, const W: usize>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    pub(super) innovation: OVector<Lanes<W>, M>,
    pub(super) innovation_cov: OMatrix<Lanes<W>, M, M>,
    pub(super) log_likelihood: Lanes<W>,
    pub(super) nis: Lanes<W>,
}

impl<M: Dim, const W: usize> LaneUpdate<M, W>
where
    DefaultAllocator: Allocator<M> + Allocator<M, M>,
{
    /// The belief after a measurement, and what it was worth.
    #[inline(always)]
    pub(super) fn of<N: Dim>(
        done: Conditioned<Lanes<W>, N, M>,
        innovation: OVector<Lanes<W>, M>,
    ) -> (LaneBelief<N, W>, Self)
    where
        DefaultAllocator: Shapes<N, M>,
    {
        let Conditioned { mean, cov, innovation_cov, log_likelihood, nis } = done;
        (LaneBelief { mean, cov }, Self { innovation, innovation_cov, log_likelihood, nis })
    }
}

/// A row of measurements beside one another.
#[derive(Clone, Debug)]
pub struct LaneMeasurement<M: Dim, const W: usize>
where
    DefaultAllocator: Allocator<M>,
{
    /// NaN where missing.
    y: OVector<Lanes<W>, M>,
    /// Whether nothing is missing.
    complete: bool,
}

impl<M: Dim, const W: usize> LaneMeasurement<M, W>
where
    DefaultAllocator: Allocator<M>,
{
    /// Row `k` of every series; `None` if a number is infinite. Spare lanes repeat the first.
    #[inline(always)]
    fn take(&mut self, series: &[Series<'_>], k: usize) -> Option<()> {
        let m = self.y.nrows();
        for lane in 0..W {
            let row = series.get(lane).unwrap_or(&series[0]).observation(k);
            for (i, &v) in row.iter().enumerate() {
                self.y[i].0[lane] = v;
            }
        }
        let below = |v: Lanes<W>| Scalar::all_lt(v.abs(), Lanes([f64::INFINITY; W]));
        self.complete = (0..m).all(|i| below(self.y[i]));
        let infinite = |v: &Lanes<W>| v.0.iter().any(|v| v.is_infinite());
        (self.complete || !self.y.iter().any(infinite)).then_some(())
    }

    /// `v` where component `i` was measured, `missing` elsewhere.
    #[inline(always)]
    fn where_seen(&self, i: usize, v: Lanes<W>, missing: f64) -> Lanes<W> {
        v.zip(self.y[i], |v, y| if y.is_nan() { missing } else { v })
    }

    /// How large a component is, zero where it is missing.
    #[inline(always)]
    pub(super) fn size(&self, i: usize) -> Lanes<W> {
        self.where_seen(i, self.y[i].abs(), 0.0)
    }

    /// ln 2 pi of every component that was measured.
    pub(super) fn turns(&self) -> Lanes<W> {
        Lanes(core::array::from_fn(|lane| self.count(lane) as f64 * LN_TAU))
    }

    fn count(&self, lane: usize) -> usize {
        self.y.iter().filter(|v| !v.0[lane].is_nan()).count()
    }

    /// Whether no lane misses a component.
    #[inline(always)]
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Measurement less prediction, zero where missing, angles brought into half a turn.
    #[inline(always)]
    pub(super) fn residual<O: Observation<Output = M>>(
        &self,
        observation: &O,
        predicted: &OVector<Lanes<W>, M>,
    ) -> OVector<Lanes<W>, M> {
        let mut out = predicted.clone();
        for i in 0..out.nrows() {
            let difference = self.y[i] - predicted[i];
            let wrapped = match observation.is_angle(i) {
                true => difference.wrap(observation.turn(i)),
                false => difference,
            };
            out[i] = if self.complete { wrapped } else { self.where_seen(i, wrapped, 0.0) };
        }
        out
    }

    /// Takes what is missing out of the rows of a matrix, one for each component.
    #[inline(always)]
    pub(super) fn mask_rows<N: Dim>(&self, rows: &mut OMatrix<Lanes<W>, M, N>)
    where
        DefaultAllocator: Allocator<M, N>,
    {
        if self.complete {
            return;
        }
        for j in 0..rows.ncols() {
            for i in 0..rows.nrows() {
                rows[(i, j)] = self.where_seen(i, rows[(i, j)], 0.0);
            }
        }
    }

    /// Takes what is missing out of a number for each component.
    #[inline(always)]
    pub(super) fn mask(&self, values: &mut OVector<Lanes<W>, M>) {
        for i in 0..if self.complete { 0 } else { values.nrows() } {
            values[i] = self.where_seen(i, values[i], 0.0);
        }
    }

    /// R of every lane, missing components independent and of variance one; `None` if R is not one that lanes have alike, because exact
    /// measurements and those that depend on one another take ways of their own.
    #[inline(always)]
    pub(super) fn noise(&self, r: &OMatrix<f64, M, M>) -> Option<OMatrix<Lanes<W>, M, M>>
    where
        DefaultAllocator: Allocator<M, M>,
    {
        let m = self.y.nrows();
        if r.shape() != (m, m) || (0..m).any(|i| r[(i, i)] == 0.0) {
            return None;
        }
        let mut out = lifted(r);
        if self.complete {
            return Some(out);
        }
        if (0..m).any(|j| (0..m).any(|i| i != j && r[(i, j)] != 0.0)) {
            return None;
        }
        (0..m).for_each(|i| out[(i, i)] = self.where_seen(i, out[(i, i)], 1.0));
        Some(out)
    }
}

/// A matrix in every lane.
#[inline(always)]
pub(super) fn lifted<R: Dim, C: Dim, const W: usize>(
    a: &OMatrix<f64, R, C>,
) -> OMatrix<Lanes<W>, R, C>
where
    DefaultAllocator: Allocator<R, C>,
{
    a.map(|v| Lanes([v; W]))
}

/// A Gaussian filter whose kernels run in lanes, too. `None` of a kernel: a lane might take another way than the others.
pub trait SideBySide: Filter<Belief = GaussianBelief<<Self as Filter>::State>>
where
    DefaultAllocator: Shapes<Self::State, Self::Output>,
{
    /// [`Filter::propagate`] of every lane.
    fn propagate_lanes<const W: usize>(
        &self,
        belief: &LaneBelief<Self::State, W>,
        u: &[f64],
        step: &Step,
    ) -> Option<LaneBelief<Self::State, W>>;

    /// [`Filter::correct`] of every lane; what a lane without any measurement comes to is thrown away.
    fn correct_lanes<const W: usize>(
        &self,
        belief: &LaneBelief<Self::State, W>,
        measured: &LaneMeasurement<Self::Output, W>,
        u: &[f64],
        step: &Step,
    ) -> Option<(LaneBelief<Self::State, W>, LaneUpdate<Self::Output, W>)>;
}

/// Runs up to `W` series with [one clock](Series::same_clock), each from its own belief, and hands out their rows.
#[inline(always)] // so that it can be part of a kernel for the vector unit at hand
pub fn side_by_side<F: SideBySide, const W: usize>(
    filter: &F,
    starts: &[GaussianBelief<F::State>],
    series: &[Series<'_>],
    sink: &mut impl FnMut(usize, &Step, &LaneRow<'_, F::State, F::Output, W>),
) -> Together
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    walk(filter, starts, series, sink).map_or(Together::Apart, |()| Together::Done)
}

#[inline(always)]
fn walk<F: SideBySide, const W: usize>(
    filter: &F,
    starts: &[GaussianBelief<F::State>],
    series: &[Series<'_>],
    sink: &mut impl FnMut(usize, &Step, &LaneRow<'_, F::State, F::Output, W>),
) -> Option<()>
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let (dim, outputs, inputs) = filter.dims();
    let (n, m) = (dim.value(), outputs.value());
    let clock = *series.first()?;
    let fits = |s: &Series<'_>| s.same_clock(&clock) && s.output_dim() == m;
    let sized = |b: &GaussianBelief<F::State>| b.mean.nrows() == n && b.cov.shape() == (n, n);
    let some = (1..=W).contains(&series.len()) && starts.len() == series.len();
    let small = n <= MOST && m <= MOST;
    if !(some && small && series.iter().all(fits) && starts.iter().all(sized))
        || clock.input_dim() != inputs
        || filter.bounds().is_some()
    {
        return None;
    }
    let of = |lane: usize| starts.get(lane).unwrap_or(&starts[0]);
    let mut belief = LaneBelief {
        mean: OVector::from_fn_generic(dim, U1, |i, _| {
            Lanes(core::array::from_fn(|lane| of(lane).mean[i]))
        }),
        cov: OMatrix::from_fn_generic(dim, dim, |i, j| {
            Lanes(core::array::from_fn(|lane| of(lane).cov[(i, j)]))
        }),
    };
    let nothing = LaneUpdate {
        innovation: OVector::from_element_generic(outputs, U1, Lanes([f64::NAN; W])),
        innovation_cov: OMatrix::from_element_generic(outputs, outputs, Lanes([f64::NAN; W])),
        log_likelihood: Lanes([0.0; W]),
        nis: Lanes([f64::NAN; W]),
    };
    let mut measured = LaneMeasurement { y: nothing.innovation.clone(), complete: false };
    for k in 0..clock.len() {
        let (step, u) = (clock.step(k), clock.input(k));
        if !u.iter().all(|v| v.is_finite()) {
            return None;
        }
        if clock.predicts(k) && step.dt != 0.0 {
            belief = filter.propagate_lanes(&belief, u, &step)?;
            is_sound(&belief).then_some(())?;
        }
        measured.take(series, k)?;
        let counts: [usize; W] = core::array::from_fn(|lane| measured.count(lane));
        let update = if counts.iter().all(|count| *count == 0) {
            nothing.clone()
        } else {
            let (next, mut update) = filter.correct_lanes(&belief, &measured, u, &step)?;
            let known = update.innovation.iter().all(|v| v.is_finite());
            let likely = !update.log_likelihood.0.iter().any(|v| v.is_nan());
            (is_sound(&next) && known && likely).then_some(())?;
            if measured.complete {
                belief = next;
            } else {
                forget_missing(&measured, &counts, (&mut belief, next), &mut update);
            }
            update
        };
        let covs = LaneCovs::Own(&belief.cov, &update.innovation_cov);
        sink(
            k,
            &step,
            &LaneRow {
                mean: belief.mean.as_slice(),
                innovation: update.innovation.as_slice(),
                log_likelihood: update.log_likelihood,
                nis: update.nis,
                covs,
            },
        );
    }
    Some(())
}

/// Gives every lane that measured something its new belief, and NaN for what a missing component has none of.
#[inline(always)]
fn forget_missing<N: Dim, M: Dim, const W: usize>(
    measured: &LaneMeasurement<M, W>,
    counts: &[usize; W],
    (belief, next): (&mut LaneBelief<N, W>, LaneBelief<N, W>),
    update: &mut LaneUpdate<M, W>,
) where
    DefaultAllocator: Shapes<N, M>,
{
    for lane in 0..W {
        if counts[lane] == 0 {
            (update.log_likelihood.0[lane], update.nis.0[lane]) = (0.0, f64::NAN);
            continue;
        }
        belief.mean.iter_mut().zip(&next.mean).for_each(|(to, v)| to.0[lane] = v.0[lane]);
        belief.cov.iter_mut().zip(&next.cov).for_each(|(to, v)| to.0[lane] = v.0[lane]);
    }
    let m = measured.y.nrows();
    for i in 0..m {
        update.innovation[i] = measured.where_seen(i, update.innovation[i], f64::NAN);
        for j in 0..m {
            let v = measured.where_seen(i, update.innovation_cov[(i, j)], f64::NAN);
            update.innovation_cov[(i, j)] = measured.where_seen(j, v, f64::NAN);
        }
    }
}

/// Whether no lane has a [flaw](super::traits::Belief::flaw).
#[inline(always)]
fn is_sound<N: Dim, const W: usize>(belief: &LaneBelief<N, W>) -> bool
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    let (mut size, mut spread) = (Lanes([0.0; W]), Lanes([0.0; W]));
    let mut least = Lanes([0.0; W]);
    for i in 0..belief.mean.nrows() {
        let variance = belief.cov[(i, i)];
        size += belief.mean[i].abs();
        spread += variance;
        least = Scalar::select_lt(variance, least, variance, least);
    }
    is_sane(belief.mean.as_slice())
        && Scalar::all_lt(size + spread.scale(0.0), Lanes([LARGEST; W]))
        && least.0.iter().all(|v| *v >= 0.0)
}
