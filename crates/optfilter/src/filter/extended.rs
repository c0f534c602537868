//! The extended Kalman filter: the Kalman filter of the model linearised at the estimate.
//!
//! ```text
//! predict   m <- f(m),  P <- F P F' + Q,  F = df/dx at the previous mean
//! update    v = y - h(m),  H = dh/dx at the predicted mean;  then the shared Gaussian update
//! ```
//!
//! Derivatives are automatic unless the model has its own. Some programs linearise f at the already
//! propagated mean; that is not the textbook filter and not this one.
//!
//! Three measurements of the growth system, whose sign nobody sees:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{ExtendedKalmanFilter, GaussianBelief};
//! use optfilter::{Series, drive::Run, model::{GaussianNoise, Growth}};
//! let noise = GaussianNoise::new(matrix![1.0], matrix![1.0])?;
//! let filter = ExtendedKalmanFilter::new(Growth, noise);
//! let mut belief = GaussianBelief::new(vector![0.1], matrix![1.0])?;
//! let series = Series::new(&[4.2, 5.1, 3.0], 1)?.with_dt(0.1)?.predict_first();
//! filter.run(&mut belief, &series)?;
//! let found = format!("{:.8} +- {:.8}", belief.mean[0], belief.cov[0].sqrt());
//! println!("{found}");
//! assert_eq!(found, "11.39612139 +- 0.54216317"); // filterpy 2.0, ExtendedKalmanFilter
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Gelb 1974; Sarkka and Svensson 2023, chapter 7.

use super::gaussian::{
    GaussianBelief, GaussianMeasurement, check_process_cov, conditioned, propagated,
};
use super::robust::Reweigh;
use super::side_by_side::{LaneBelief, LaneMeasurement, LaneUpdate, SideBySide, lifted};
use super::traits::{Filter, Update, residual};
use crate::Shapes;
use crate::error::FilterError;
use crate::model::likelihood::Observed;
use crate::model::stretch::{may_be_exact, measurement_cov, process_cov};
use crate::model::{
    Dynamics, Model, Noise, Step, linearize_observation, linearize_observation_lanes,
    linearize_transition, linearize_transition_lanes,
};
use crate::smoother::{Joint, Smooth};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};

/// The extended Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtendedKalmanFilter<M, Q> {
    pub(super) model: M,
    pub(super) noise: Q,
}

impl<M: Model, Q: Noise<M::State, M::Output>> ExtendedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model and its noise.
    pub fn new(model: M, noise: Q) -> Self {
        Self { model, noise }
    }

    /// A row as a linear measurement around an estimate.
    #[inline(always)]
    pub(super) fn measured(
        &self,
        at: &[f64],
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> GaussianMeasurement<f64, M::State, M::Output> {
        let n = self.model.state_dim();
        let (predicted, h) = linearize_observation(&self.model, n, at, u, step);
        let residual = residual(&self.model, y, predicted, observed);
        let r = measurement_cov(&self.model, &self.noise, u, step);
        GaussianMeasurement { residual, h, r, is_direct: self.model.is_identity() }
    }
}

/// m <- f(m), P <- F P F' + Q.
#[inline(always)]
pub(crate) fn propagate_linearized<D: Dynamics>(
    dynamics: &D,
    process_cov: OMatrix<f64, D::State, D::State>,
    belief: &GaussianBelief<D::State>,
    u: &[f64],
    step: &Step,
) -> GaussianBelief<D::State>
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State>,
{
    let (mean, f) = linearize_transition(dynamics, belief.mean.as_slice(), u, step);
    GaussianBelief { mean, cov: propagated(&belief.cov, &f, process_cov) }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for ExtendedKalmanFilter<M, Q>
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
        let measurement = self.measured(belief.mean.as_slice(), y, observed, u, step);
        let may_be_exact = may_be_exact(&self.model, &self.noise);
        conditioned(belief, measurement, may_be_exact, observed, step.index)
    }

    #[inline(always)]
    fn adds_innovation(&self) -> bool {
        true
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Reweigh for ExtendedKalmanFilter<M, Q>
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
        let mut measurement = self.measured(belief.mean.as_slice(), y, observed, u, step);
        measurement.r = OMatrix::from_diagonal(variances);
        observed.indices(y.len()).for_each(|i| measurement.residual[i] += shift[i]);
        let may_be_exact = may_be_exact(&self.model, &self.noise);
        conditioned(belief, measurement, may_be_exact, observed, step.index)
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> SideBySide for ExtendedKalmanFilter<M, Q>
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
        let at = belief.mean.as_slice();
        let (predicted, mut h) = linearize_observation_lanes(&self.model, n, at, u, step);
        measured.mask_rows(&mut h);
        let r = measured.noise(&measurement_cov(&self.model, &self.noise, u, step))?;
        let residual = measured.residual(&self.model, &predicted);
        let is_direct = measured.is_complete() && self.model.is_identity();
        belief.conditioned(GaussianMeasurement { residual, h, r, is_direct }, measured.turns())
    }
}

/// [`propagate_linearized`] of every lane; `None` if Q is not a covariance.
#[inline(always)]
pub(super) fn propagate_linearized_lanes<M, Q, const W: usize>(
    model: &M,
    noise: &Q,
    belief: &LaneBelief<M::State, W>,
    u: &[f64],
    step: &Step,
) -> Option<LaneBelief<M::State, W>>
where
    M: Model,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let q = process_cov(model, noise, u, step);
    check_process_cov(noise, &q, model.state_dim().value(), step.index).ok()?;
    let (mean, f) = linearize_transition_lanes(model, belief.mean.as_slice(), u, step);
    Some(LaneBelief { mean, cov: propagated(&belief.cov, &f, lifted(&q)) })
}

/// What was linearised for the prediction, kept for a smoother.
pub(crate) fn joint_linearized<D: Dynamics>(
    dynamics: &D,
    process_cov: OMatrix<f64, D::State, D::State>,
    belief: &GaussianBelief<D::State>,
    u: &[f64],
    step: &Step,
) -> Result<Joint<D::State>, FilterError>
where
    DefaultAllocator: Allocator<D::State> + Allocator<D::State, D::State>,
{
    let (mean, f) = linearize_transition(dynamics, belief.mean.as_slice(), u, step);
    let cov = propagated(&belief.cov, &f, process_cov.clone());
    Joint::linear(belief, GaussianBelief { mean, cov }, &f, process_cov, step.index)
}

impl<M: Model, Q: Noise<M::State, M::Output>> Smooth for ExtendedKalmanFilter<M, Q>
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
