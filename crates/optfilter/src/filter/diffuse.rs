//! Any Gaussian filter of a linear model, from a start of which some states are wholly unknown.
//!
//! The belief is the limit of N(m, P + k A A') with k towards infinity, in closed form: while there is any A, each measurement
//! resolves what it can of it, and from then on the filter goes on as it does from any other start. Until then
//!
//! - a variance that is still unbounded is infinite, and so is the deviation; the mean is the limit;
//! - a measurement whose prediction is unbounded has no innovation (NaN), and one of infinite deviation;
//! - the log-likelihood of a row is the diffuse one: that of its resolving components is -(ln 2 pi + ln |e|^2) / 2;
//! - a row that resolves something has no NIS; no gate and no box is applied while anything is unknown.
//!
//! The way back is that of Rauch, Tung and Striebel: the belief of a row is conditioned on the state of the next, as if that had been
//! measured by H = F with R = Q. It needs nothing but the beliefs, also of rows at which something was still unknown.
//!
//! Exact for linear models; of any other nobody knows where to linearise.
//!
//! A level and its slope, of which two measurements say what they are:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{Diffuse, DiffuseBelief, ExtendedKalmanFilter, Filter};
//! use optfilter::model::{GaussianNoise, Linear, Step};
//! let model = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0])?;
//! let noise = GaussianNoise::new(matrix![0.0, 0.0; 0.0, 0.0], matrix![0.5])?;
//! let linear = ExtendedKalmanFilter::new(model, noise);
//! let filter = Diffuse::new(linear.clone(), linear);
//! let mut belief = DiffuseBelief::new(vector![0.0, 0.0], matrix![1.0, 0.0; 0.0, 1.0], &[true, true])?;
//! filter.update(&mut belief, &[1.0], &[], &Step::even(1, 1.0))?;
//! assert!((belief.known.mean[0] - 1.0).abs() < 1e-15 && !belief.is_proper());
//! filter.predict(&mut belief, &[], &Step::even(2, 1.0))?;
//! filter.update(&mut belief, &[3.0], &[], &Step::even(2, 1.0))?;
//! assert!(belief.is_proper());
//! let found = format!("{:.6} +- {:.6}", belief.known.mean[1], belief.known.cov[(1, 1)].sqrt());
//! assert_eq!(found, "2.000000 +- 1.000000"); // the difference of two measurements of variance 0.5
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Durbin and Koopman 2012, chapter 5.

use super::extended::ExtendedKalmanFilter;
use super::gaussian::{GaussianBelief, not_positive_definite};
use super::limit::{Limit, carried, part_of, split};
use super::track::{Followed, Track};
use super::traits::{Belief, Filter, Update, learnt_by};
use crate::Shapes;
use crate::drive::drive;
use crate::error::{FilterError, check_len};
use crate::linalg::sandwich;
use crate::model::likelihood::Observed;
use crate::model::stretch::process_cov;
use crate::model::{Model, Noise, Step, linearize_transition};
use crate::optim::Bounds;
use crate::scalar::Scalar;
use crate::series::Series;
use crate::smoother::Smooth;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DVector, DefaultAllocator, Dim, OMatrix, OVector, U1};
#[cfg(feature = "std")]
use serde::{Deserialize, Serialize};

/// A Gaussian belief of which some directions are unknown: N(m, P + k A A'), k towards infinity.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "std", derive(Serialize, Deserialize))] // as of all beliefs whose sizes are known at run time
#[cfg_attr(
    feature = "std",
    serde(bound(
        serialize = "OVector<f64, N>: Serialize, OMatrix<f64, N, N>: Serialize",
        deserialize = "OVector<f64, N>: Deserialize<'de>, OMatrix<f64, N, N>: Deserialize<'de>"
    ))
)]
pub struct DiffuseBelief<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The mean and the finite part of the covariance, P.
    pub known: GaussianBelief<N>,
    /// A, a column for each unknown (n x d).
    pub unknown: DMatrix<f64>,
}

impl<N: Dim> From<GaussianBelief<N>> for DiffuseBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    fn from(known: GaussianBelief<N>) -> Self {
        let unknown = DMatrix::zeros(known.mean.nrows(), 0);
        Self { known, unknown }
    }
}

impl<N: Dim> DiffuseBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// From a mean, a covariance, and which states are unknown; what the covariance says of these is not read.
    pub fn new(
        mean: OVector<f64, N>,
        cov: OMatrix<f64, N, N>,
        diffuse: &[bool],
    ) -> Result<Self, FilterError> {
        let n = mean.nrows();
        check_len("diffuse", n, diffuse.len(), None)?;
        check_len("initial cov", n * n, cov.len(), None)?;
        let (known, unknown) = split(DMatrix::from_column_slice(n, n, cov.as_slice()), diffuse);
        let dim = mean.shape_generic().0;
        let cov = OMatrix::from_column_slice_generic(dim, dim, known.as_slice());
        Ok(Self { known: GaussianBelief::new(mean, cov)?, unknown })
    }

    /// Whether nothing is unknown any more.
    #[inline(always)]
    pub fn is_proper(&self) -> bool {
        self.unknown.ncols() == 0
    }

    fn limit(&self) -> Limit<f64> {
        let n = self.known.mean.nrows();
        Limit {
            mean: DVector::from_column_slice(self.known.mean.as_slice()),
            cov: DMatrix::from_column_slice(n, n, self.known.cov.as_slice()),
            unknown: self.unknown.clone(),
        }
    }

    fn of(limit: Limit<f64>, n: N) -> Self {
        let known = GaussianBelief {
            mean: OVector::from_column_slice_generic(n, U1, limit.mean.as_slice()),
            cov: OMatrix::from_column_slice_generic(n, n, limit.cov.as_slice()),
        };
        Self { known, unknown: limit.unknown }
    }
}

impl<N: Dim> Belief<N> for DiffuseBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = true;
    fn mean(&self) -> OVector<f64, N> {
        self.known.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        if self.is_proper() {
            return self.known.cov();
        }
        let n = self.known.mean.shape_generic().0;
        let cov = self.limit().covariance();
        Some(OMatrix::from_column_slice_generic(n, n, cov.as_slice()))
    }
    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        self.known.check_dim(n, index)?;
        check_len("belief's unknown", n, self.unknown.nrows(), Some(index))
    }
    fn is_within(&self, bounds: &Bounds) -> bool {
        !self.is_proper() || self.known.is_within(bounds)
    }
    fn confine(&mut self, bounds: &Bounds) {
        if self.is_proper() {
            self.known.confine(bounds);
        }
    }
    #[inline(always)]
    fn flaw(&self) -> Option<&'static str> {
        let unbounded = || !self.unknown.iter().all(|v| v.is_finite());
        self.known.flaw().or_else(|| unbounded().then_some("cov"))
    }
}

/// A Gaussian filter whose start may be unknown.
#[derive(Clone, Debug, PartialEq)]
pub struct Diffuse<F, M, Q> {
    filter: F,
    linear: ExtendedKalmanFilter<M, Q>,
}

impl<F, M, Q> Diffuse<F, M, Q> {
    /// A filter of a linear model, and the extended one of the same, whose derivatives are those of the rows at which something is
    /// unknown.
    pub fn new(filter: F, linear: ExtendedKalmanFilter<M, Q>) -> Self {
        Self { filter, linear }
    }

    /// The filter of rows at which nothing is unknown.
    pub fn proper(&self) -> &F {
        &self.filter
    }
}

/// A matrix of any size.
fn sized<R: Dim, C: Dim>(a: &OMatrix<f64, R, C>) -> DMatrix<f64>
where
    DefaultAllocator: Allocator<R, C>,
{
    DMatrix::from_column_slice(a.nrows(), a.ncols(), a.as_slice())
}

impl<F, M, Q> Filter for Diffuse<F, M, Q>
where
    F: Filter<State = M::State, Output = M::Output, Belief = GaussianBelief<M::State>>,
    M: Model,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = DiffuseBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        self.filter.dims()
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        if belief.is_proper() {
            return self.filter.propagate_sized(&belief.known, u, step).map(Into::into);
        }
        let known = self.linear.propagate_sized(&belief.known, u, step)?;
        let at = belief.known.mean.as_slice();
        let (_, f) = linearize_transition(&self.linear.model, at, u, step);
        Ok(DiffuseBelief { known, unknown: carried(&sized(&f), &belief.unknown) })
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        if belief.is_proper() {
            let (known, update) = self.filter.correct_apart(&belief.known, y, observed, u, step)?;
            return Ok((known.into(), update));
        }
        let measured = self.linear.measured(belief.known.mean.as_slice(), y, observed, u, step);
        let (h, r) = (sized(&measured.h), sized(&measured.r));
        let mut limit = belief.limit();
        let s = limit.innovation_cov(&h, &r);
        let residual = DVector::from_column_slice(measured.residual.as_slice());
        let learnt = limit
            .condition(&residual, &h, &r, observed, false)
            .ok_or_else(|| not_positive_definite("innovation covariance", step.index))?;
        let nis = if learnt.resolved == 0 { learnt.nis } else { f64::NAN };
        let (n, m, _) = self.dims();
        let s = OMatrix::from_column_slice_generic(m, m, s.as_slice());
        let update = Update::spread(measured.residual, s, learnt.log_likelihood, nis);
        Ok((DiffuseBelief::of(limit, n), update))
    }

    fn bounds(&self) -> Option<&Bounds> {
        self.filter.bounds()
    }

    fn adds_innovation(&self) -> bool {
        self.filter.adds_innovation()
    }

    fn follow(
        &self,
        track: &mut Track<Self::Belief>,
        belief: &mut Self::Belief,
        row: (&[f64], &[f64]),
        step: &Step,
        update: &Update<M::Output>,
    ) -> Followed {
        track.first = None;
        // No gate has judged a row that still resolved something, which has no NIS.
        if !belief.is_proper() || update.nis.is_none_or(f64::is_nan) {
            return Followed::OnTrack;
        }
        let mut inner = core::mem::take(track).map(|other| other.known);
        let followed = self.filter.follow(&mut inner, &mut belief.known, row, step, update);
        *track = inner.map(Into::into);
        followed
    }

    /// Where anything is as likely as anything else there is no innovation.
    fn learn(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        let mut update = learnt_by(self, belief, y, observed, u, step)?;
        if let Some(s) = &update.innovation_cov {
            for i in (0..s.nrows()).filter(|&i| s[(i, i)] == f64::INFINITY) {
                update.innovation[i] = f64::NAN;
            }
        }
        Ok(update)
    }
}

impl<F, M, Q> Diffuse<F, M, Q>
where
    F: Smooth + Filter<State = M::State, Output = M::Output, Belief = GaussianBelief<M::State>>,
    M: Model,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Filters a series from `start` and smooths it: the belief at every row, given all rows.
    pub fn smooth(
        &self,
        start: &DiffuseBelief<M::State>,
        series: &Series<'_>,
    ) -> Result<Vec<DiffuseBelief<M::State>>, FilterError> {
        let mut beliefs = Vec::with_capacity(series.len());
        drive(self, &mut start.clone(), series, &mut |_, _, belief, _| {
            beliefs.push(belief.clone());
            Ok(())
        })?;
        for k in (1..beliefs.len()).rev() {
            beliefs[k - 1] = self.smooth_back(&beliefs[k - 1], &beliefs[k], series, k)?;
        }
        Ok(beliefs)
    }

    /// One step of the way back: the filtered belief before row `k` of a series, given the smoothed one at it.
    pub fn smooth_back(
        &self,
        filtered: &DiffuseBelief<M::State>,
        next: &DiffuseBelief<M::State>,
        series: &Series<'_>,
        k: usize,
    ) -> Result<DiffuseBelief<M::State>, FilterError> {
        match series.predicts(k) {
            true => self.smooth_step(filtered, next, series.input(k), &series.step(k)),
            false => Ok(next.clone()),
        }
    }

    /// The same over a step that was predicted, of no series.
    pub fn smooth_step(
        &self,
        filtered: &DiffuseBelief<M::State>,
        next: &DiffuseBelief<M::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<DiffuseBelief<M::State>, FilterError> {
        if filtered.is_proper() {
            let smoothed = self.filter.smooth_step(&filtered.known, &next.known, u, step)?;
            return Ok(smoothed.into());
        }
        if step.dt == 0.0 {
            return Ok(next.clone());
        }
        let ExtendedKalmanFilter { model, noise } = &self.linear;
        let (mean, f) = linearize_transition(model, filtered.known.mean.as_slice(), u, step);
        let (f, q) = (sized(&f), sized(&process_cov(model, noise, u, step)));
        let mut shift = DVector::from_column_slice((&next.known.mean - mean).as_slice());
        for (i, v) in shift.iter_mut().enumerate() {
            *v = self.filter.state_angle(i).map_or(*v, |turn| v.wrap(turn));
        }
        let mut limit = filtered.limit();
        let learnt = limit
            .condition(&shift, &f, &q, Observed::All, true)
            .ok_or_else(|| not_positive_definite("predicted covariance", step.index))?;
        limit.cov += sandwich(&learnt.gain, &sized(&next.known.cov));
        // What the rows after it leave unknown.
        let left = part_of(&filtered.unknown, &learnt.gain, &next.unknown);
        let (here, n) = (limit.unknown.ncols(), limit.unknown.nrows());
        limit.unknown = limit.unknown.insert_columns(here, left.ncols(), 0.0);
        limit.unknown.view_mut((0, here), (n, left.ncols())).copy_from(&left);
        let smoothed = DiffuseBelief::of(limit, self.dims().0);
        match smoothed.flaw() {
            None => Ok(smoothed),
            Some(_) => Err(FilterError::Diverged {
                index: step.index,
                quantity: "smoothed estimate",
                last_good: filtered.known.mean.as_slice().to_vec(),
            }),
        }
    }
}
