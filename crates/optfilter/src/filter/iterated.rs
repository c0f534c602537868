//! The iterated extended Kalman filter: the update is linearised again at its own result.
//!
//! ```text
//! x0 = m-;   for i = 1..K:  H = dh/dx at x,  v = y - h(x) - H (m- - x),  x <- m- + G v
//! m = x_K,  P from the H of the last iteration, in Joseph form
//! ```
//!
//! This is Gauss-Newton on the posterior, [`damped`](Iterated::damped) if asked for: steps are halved where they would make the state less
//! likely. So on a linear system every K gives the Kalman filter, mean
//! and covariance. The log-likelihood and the normalised innovation are those of the last
//! linearisation; the innovation returned is y - h(m-).
//!
//! Twenty linearisations of one measurement of the growth system find the mode of the posterior; one, which is
//! the extended filter, finds a place near it:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{Filter, GaussianBelief, IteratedKalmanFilter};
//! use optfilter::model::{GaussianNoise, Growth, Step};
//! let mut found = Vec::new();
//! for iterations in [1, 20] {
//!     let noise = GaussianNoise::new(matrix![1.0], matrix![0.1])?;
//!     let mut belief = GaussianBelief::new(vector![4.0], matrix![1.0])?;
//!     let filter = IteratedKalmanFilter::new(Growth, noise, iterations)?;
//!     filter.update(&mut belief, &[1.3], &[], &Step::even(1, 0.1))?;
//!     found.push(format!("{:.9}", belief.mean[0]));
//! }
//! println!("{found:?}");
//! assert_eq!(found, ["4.769230769", "4.771423705"]); // 4 + 0.4 0.5 / 0.26; the root of the slope by scipy's brentq
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Bell and Cathey 1993; Gelb 1974; Skoglund, Hendeby and Axehill 2015.

use super::damping::{Cost, Place, Stepped};
use super::extended::{joint_linearized, propagate_linearized, propagate_linearized_lanes};
use super::gaussian::{GaussianBelief, GaussianMeasurement, check_process_cov, conditioned};
use super::robust::Reweigh;
use super::side_by_side::{LaneBelief, LaneMeasurement, LaneUpdate, SideBySide};
use super::traits::{Filter, Update, residual};
use crate::Shapes;
use crate::error::FilterError;
use crate::linalg::product;
use crate::model::likelihood::Observed;
use crate::model::likelihood::masked_cov;
use crate::model::stretch::{may_be_exact, measurement_cov, process_cov};
use crate::model::{Model, Noise, Step, linearize_observation, linearize_observation_lanes};
use crate::scalar::Lanes;
use crate::smoother::{Joint, Smooth};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// The iterated extended Kalman filter.
#[derive(Clone, Debug)]
pub struct IteratedKalmanFilter<M, Q> {
    model: M,
    noise: Q,
    iterations: u32,
    stop: Option<Arc<AtomicBool>>,
    damped: bool,
}

impl<M: Model, Q: Noise<M::State, M::Output>> IteratedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, its noise and the number of linearisations per update (1 is the extended filter).
    pub fn new(model: M, noise: Q, iterations: u32) -> Result<Self, FilterError> {
        if iterations == 0 {
            return Err(FilterError::Zero { argument: "iterations" });
        }
        Ok(Self { model, noise, iterations, stop: None, damped: false })
    }

    /// With steps that are halved where they would make the state less likely.
    #[must_use]
    pub fn damped(mut self) -> Self {
        self.damped = true;
        self
    }

    fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// With a flag that ends the iterations of an update at once when it is raised; the result is then of no use.
    #[must_use]
    pub fn stopping_at(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for IteratedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = GaussianBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    #[inline(always)]
    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let q = process_cov(&self.model, &self.noise, u, step);
        check_process_cov(&self.noise, &q, self.model.state_dim().value(), step.index)?;
        Ok(propagate_linearized(&self.model, q, belief, u, step))
    }

    #[inline(always)]
    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        let r = measurement_cov(&self.model, &self.noise, u, step);
        self.correct_by(belief, y, observed, u, step, (None, r))
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Reweigh for IteratedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    fn variances(&self, u: &[f64], step: &Step) -> OVector<f64, M::Output> {
        measurement_cov(&self.model, &self.noise, u, step).diagonal()
    }

    fn correct_under(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
        (shift, variances): (&OVector<f64, M::Output>, &OVector<f64, M::Output>),
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        let r = OMatrix::from_diagonal(variances);
        self.correct_by(belief, y, observed, u, step, (Some(shift), r))
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> IteratedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// The update by a measurement plus a shift, if there is one, whose noise has the covariance `r`.
    #[inline(always)]
    fn correct_by(
        &self,
        belief: &GaussianBelief<M::State>,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
        (by, r): (Option<&OVector<f64, M::Output>>, OMatrix<f64, M::Output, M::Output>),
    ) -> Result<(GaussianBelief<M::State>, Update<M::Output>), FilterError> {
        let n = self.model.state_dim();
        let may_be_exact = may_be_exact(&self.model, &self.noise);
        let (mut x, mut innovation, mut left) = (belief.mean.clone(), None, self.iterations);
        let mut damped: Option<(Cost<f64, _, _>, Place<f64, _>)> = None;
        let residual = |predicted: OVector<f64, M::Output>| {
            let mut v = residual(&self.model, y, predicted, observed);
            if let Some(by) = by {
                observed.indices(y.len()).for_each(|i| v[i] += by[i]);
            }
            v
        };
        // One copy of what is done in the first iteration, the last and all between.
        loop {
            let (predicted, h) = linearize_observation(&self.model, n, x.as_slice(), u, step);
            let mut v = residual(predicted);
            let mut r = r.clone();
            if innovation.is_some() {
                let shift = product(&h, &(&belief.mean - &x));
                for i in observed.indices(v.nrows()) {
                    v[i] -= shift[i];
                }
            } else if self.damped && self.iterations > 1 {
                if observed != Observed::All {
                    r = masked_cov(&r, observed);
                }
                let size = |i: usize| if observed.has(i) { y[i].abs() } else { 0.0 };
                damped = Cost::new(&belief.mean, &r, size).map(|cost| cost.and_start(&v));
            }
            let innovation = &*innovation.get_or_insert_with(|| v.clone());
            let measurement =
                GaussianMeasurement { residual: v, h, r, is_direct: self.model.is_identity() };
            let taken = damped.is_some().then(|| measurement.clone());
            let (mut next, update) =
                conditioned(belief, measurement, may_be_exact, observed, step.index)?;
            left -= 1;
            let mut last = left == 0 || self.is_stopped();
            if let (Some((cost, place)), Some(taken), Some(s)) =
                (&mut damped, &taken, &update.innovation_cov)
            {
                let at = |x: &OVector<f64, M::State>| {
                    let mut predicted = OVector::zeros_generic(self.model.output_dim(), U1);
                    self.model.observe(x.as_slice(), u, step, predicted.as_mut_slice());
                    residual(predicted)
                };
                match cost.step(place, (&next.mean, s, taken), at) {
                    Stepped::Unjudged => damped = None,
                    Stepped::Whole(to) => *place = to,
                    Stepped::Shortened(to) => {
                        next.mean = to.x.clone();
                        *place = to;
                    }
                    // It is at the top already.
                    Stepped::Not => {
                        next.mean = place.x.clone();
                        last = true;
                    }
                }
            }
            if last {
                return Ok((next, Update { innovation: innovation.clone(), ..update }));
            }
            x = next.mean;
        }
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> SideBySide for IteratedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    #[inline(always)]
    fn propagate_lanes<const W: usize>(
        &self,
        belief: &LaneBelief<M::State, W>,
        u: &[f64],
        step: &Step,
    ) -> Option<LaneBelief<M::State, W>> {
        propagate_linearized_lanes(&self.model, &self.noise, belief, u, step)
    }

    #[inline(always)]
    fn correct_lanes<const W: usize>(
        &self,
        belief: &LaneBelief<M::State, W>,
        measured: &LaneMeasurement<M::Output, W>,
        u: &[f64],
        step: &Step,
    ) -> Option<(LaneBelief<M::State, W>, LaneUpdate<M::Output, W>)> {
        let n = self.model.state_dim();
        let r = measured.noise(&measurement_cov(&self.model, &self.noise, u, step))?;
        let (mut x, mut innovation, mut left) = (belief.mean.clone(), None, self.iterations);
        let mut damped: Option<(Cost<Lanes<W>, _, _>, Place<Lanes<W>, _>)> = None;
        loop {
            let (predicted, mut h) =
                linearize_observation_lanes(&self.model, n, x.as_slice(), u, step);
            let mut v = measured.residual(&self.model, &predicted);
            if innovation.is_some() {
                v -= product(&h, &(&belief.mean - &x));
                measured.mask(&mut v);
            } else if self.damped && self.iterations > 1 {
                let size = |i: usize| measured.size(i);
                damped = Some(Cost::new(&belief.mean, &r, size)?.and_start(&v));
            }
            let innovation = &*innovation.get_or_insert_with(|| v.clone());
            measured.mask_rows(&mut h);
            let measurement = GaussianMeasurement {
                residual: v,
                h,
                r: r.clone(),
                is_direct: measured.is_complete() && self.model.is_identity(),
            };
            let taken = damped.is_some().then(|| measurement.clone());
            let (next, update) = belief.conditioned(measurement, measured.turns())?;
            left -= 1;
            if let (Some((cost, place)), Some(taken)) = (&mut damped, &taken) {
                let residual = |x: &OVector<Lanes<W>, M::State>| {
                    let mut predicted =
                        OVector::from_element_generic(self.model.output_dim(), U1, Lanes([0.0; W]));
                    self.model.observe(x.as_slice(), u, step, predicted.as_mut_slice());
                    measured.residual(&self.model, &predicted)
                };
                // A lane whose step is too long goes its own way.
                match cost.step(place, (&next.mean, &update.innovation_cov, taken), residual) {
                    Stepped::Whole(to) => *place = to,
                    Stepped::Shortened(_) | Stepped::Not | Stepped::Unjudged => return None,
                }
            }
            if left == 0 {
                return Some((next, LaneUpdate { innovation: innovation.clone(), ..update }));
            }
            if self.is_stopped() {
                return None;
            }
            x = next.mean;
        }
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Smooth for IteratedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    fn joint(
        &self,
        belief: &GaussianBelief<M::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<Joint<M::State>, FilterError> {
        joint_linearized(
            &self.model,
            process_cov(&self.model, &self.noise, u, step),
            belief,
            u,
            step,
        )
    }

    fn state_angle(&self, i: usize) -> Option<f64> {
        self.model.is_state_angle(i).then(|| self.model.state_turn(i))
    }
}
