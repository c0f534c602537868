//! The unscented Kalman filter: moments of 2n + 1 sigma points in place of derivatives.
//!
//! ```text
//! lambda = alpha^2 (n + kappa) - n
//! points   m,  m +- sqrt(n + lambda) (columns of the Cholesky factor of P)
//! weights  wm_0 = lambda / (n + lambda),  wc_0 = wm_0 + 1 - alpha^2 + beta,  others 1 / (2 (n + lambda))
//! ```
//!
//! Points are drawn anew from the predicted moments before the update. The covariance update is
//! written in Joseph form through the statistical linearisation H = C' P^-1, whose error covariance
//! Omega = S - R - H P H' is added to R: the same matrix as P - G S G', but a sum of positive terms.
//!
//! Both covariances are sums of positive terms if alpha^2 kappa + n beta >= 0 (Julier's points: kappa >= 0).
//! For with E the sums of opposite deviations and s = w E 1 the shift, what is not a square is
//! w/2 E E' + (beta - alpha^2) s s', and (E 1)(E 1)' <= n E E'. Only other points can make a covariance
//! that is none; theirs is factored at the step that made it, so that the belief before is kept.
//!
//! Three measurements of the growth system, whose sign nobody sees:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{GaussianBelief, SigmaPoints, UnscentedKalmanFilter};
//! use optfilter::{Series, drive::Run, model::{GaussianNoise, Growth}};
//! let noise = GaussianNoise::new(matrix![1.0], matrix![1.0])?;
//! let filter = UnscentedKalmanFilter::new(Growth, noise, SigmaPoints::merwe(1.0, 2.0, 2.0))?;
//! let mut belief = GaussianBelief::new(vector![0.1], matrix![1.0])?;
//! let series = Series::new(&[4.2, 5.1, 3.0], 1)?.with_dt(0.1)?.predict_first();
//! filter.run(&mut belief, &series)?;
//! let found = format!("{:.8} +- {:.8}", belief.mean[0], belief.cov[0].sqrt());
//! println!("{found}");
//! assert_eq!(found, "11.31454597 +- 0.54866101"); // filterpy 2.0, points drawn anew
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Julier and Uhlmann 1995, 2004; Wan and van der Merwe 2000. (The paper prints the weights
//! of the outer points with lambda in the numerator; that is a misprint.)

use super::gaussian::{
    Conditioned, GaussianBelief, check_process_cov, ln_turns, not_positive_definite,
};
use super::robust::Reweigh;
use super::side_by_side::{LaneBelief, LaneMeasurement, LaneUpdate, SideBySide, lifted};
use super::sigma_points::{SigmaPoints, Spread, Weights, condition_on_points};
use super::traits::{Filter, Update, numbers, residual};
use crate::Shapes;
use crate::error::{FilterError, check_square};
use crate::linalg::{Factor, narrowed_factor, symmetric_product};
use crate::model::likelihood::{Observed, masked_cov};
use crate::model::stretch::{measurement_cov, process_cov};
use crate::model::{Model, Noise, ObservationAt, Step, TransitionAt};
use crate::scalar::Scalar;
use crate::smoother::{Joint, Smooth};
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};

/// The unscented Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct UnscentedKalmanFilter<M, Q> {
    model: M,
    noise: Q,
    weights: Weights,
}

impl<M: Model, Q: Noise<M::State, M::Output>> UnscentedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, its noise and a choice of sigma points.
    pub fn new(model: M, noise: Q, points: SigmaPoints) -> Result<Self, FilterError> {
        let weights = Weights::new(points, model.state_dim().value())?;
        Ok(Self { model, noise, weights })
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for UnscentedKalmanFilter<M, Q>
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
        let n = self.model.state_dim();
        let q = process_cov(&self.model, &self.noise, u, step);
        check_process_cov(&self.noise, &q, n.value(), step.index)?;
        let w = self.weights;
        let factor = sigma_factor(&belief.cov, step.index)?;
        let spread = Spread::new(
            &belief.mean,
            &factor,
            w.spread,
            n,
            &TransitionAt { dynamics: &self.model, u, step },
            |i| self.state_angle(i),
        );
        let shift = spread.shift(&w);
        let cov = spread.cov(&w, &shift) + q;
        if !w.positive {
            check_factor(cov.clone(), step.index)?;
        }
        Ok(GaussianBelief { mean: spread.centre + shift, cov })
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

    #[inline(always)]
    fn adds_innovation(&self) -> bool {
        true
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Reweigh for UnscentedKalmanFilter<M, Q>
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

impl<M: Model, Q: Noise<M::State, M::Output>> UnscentedKalmanFilter<M, Q>
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
        let m = self.model.output_dim();
        let w = self.weights;
        let factor = sigma_factor(&belief.cov, step.index)?;
        let mut seen = Spread::new(
            &belief.mean,
            &factor,
            w.spread,
            m,
            &ObservationAt { observation: &self.model, u, step },
            |i| self.model.is_angle(i).then(|| self.model.turn(i)),
        );
        for i in 0..m.value() {
            if !observed.has(i) {
                seen.centre[i] = 0.0;
                seen.ahead.row_mut(i).fill(0.0);
                seen.behind.row_mut(i).fill(0.0);
            }
        }
        let shift = seen.shift(&w);
        let predicted = &seen.centre + &shift;
        let mut r = r;
        check_square("measurement_cov (R)", m.value(), &r, Some(step.index))?;
        if observed != Observed::All {
            r = masked_cov(&r, observed);
        }
        let spread_cov = seen.cov(&w, &shift); // m x m
        // Omega is a difference: an R below its rounding can vanish in it.
        let mut exact = w.positive;
        for i in 0..m.value() {
            exact &= r[(i, i)] >= 1e-10 * spread_cov[(i, i)];
        }
        let mut v = residual(&self.model, y, predicted, observed);
        if let Some(by) = by {
            observed.indices(y.len()).for_each(|i| v[i] += by[i]);
        }
        let turns = ln_turns(observed.count(y.len()));
        let done =
            condition_on_points(&belief.mean, &factor, &seen, &w, (spread_cov, &r), (&v, turns));
        let Some(Conditioned { mean, cov, innovation_cov, log_likelihood, nis }) = done else {
            return Err(not_positive_definite("innovation covariance", step.index));
        };
        if !exact {
            check_factor(cov.clone(), step.index)?;
        }
        let update = Update::spread(v, innovation_cov, log_likelihood, nis);
        Ok((GaussianBelief { mean, cov }, update))
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> SideBySide for UnscentedKalmanFilter<M, Q>
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
        let (n, w) = (self.model.state_dim(), self.weights);
        let q = process_cov(&self.model, &self.noise, u, step);
        check_process_cov(&self.noise, &q, n.value(), step.index).ok()?;
        let factor = Factor::new(&belief.cov)?.cholesky();
        let spread = Spread::images(
            &belief.mean,
            &factor,
            w.spread,
            n,
            |x, out| self.model.transition(x, u, step, out),
            |i| self.state_angle(i),
        );
        let shift = spread.shift(&w);
        let cov = spread.cov(&w, &shift) + lifted(&q);
        if !w.positive {
            Factor::new(&cov)?;
        }
        Some(LaneBelief { mean: spread.centre + shift, cov })
    }

    #[inline(always)]
    fn correct_lanes<const W: usize>(
        &self,
        belief: &LaneBelief<M::State, W>,
        measured: &LaneMeasurement<M::Output, W>,
        u: &[f64],
        step: &Step,
    ) -> Option<(LaneBelief<M::State, W>, LaneUpdate<M::Output, W>)> {
        let (m, w) = (self.model.output_dim(), self.weights);
        let factor = Factor::new(&belief.cov)?.cholesky();
        let mut seen = Spread::images(
            &belief.mean,
            &factor,
            w.spread,
            m,
            |x, out| self.model.observe(x, u, step, out),
            |i| self.model.is_angle(i).then(|| self.model.turn(i)),
        );
        measured.mask(&mut seen.centre);
        measured.mask_rows(&mut seen.ahead);
        measured.mask_rows(&mut seen.behind);
        let shift = seen.shift(&w);
        let predicted = &seen.centre + &shift;
        let r = measured.noise(&measurement_cov(&self.model, &self.noise, u, step))?;
        let spread_cov = seen.cov(&w, &shift);
        let mut exact = w.positive;
        for i in 0..m.value() {
            let rounding = spread_cov[(i, i)].scale(1e-10);
            exact &= (0..W).all(|lane| r[(i, i)].0[lane] >= rounding.0[lane]);
        }
        let v = measured.residual(&self.model, &predicted);
        let noise = (spread_cov, &r);
        let done =
            condition_on_points(&belief.mean, &factor, &seen, &w, noise, (&v, measured.turns()))?;
        if !exact {
            Factor::new(&done.cov)?;
        }
        Some(LaneUpdate::of(done, v))
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Smooth for UnscentedKalmanFilter<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// C = sum_j w (x_j - m)(f_j - m-)' = L D', D from differences of opposite images as in the update; the rest is
    /// Omega + Q, which is no less than Q where covariances are sums of positive terms.
    fn joint(
        &self,
        belief: &GaussianBelief<M::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<Joint<M::State>, FilterError> {
        let (n, w) = (self.model.state_dim(), self.weights);
        let factor = sigma_factor(&belief.cov, step.index)?;
        let spread = Spread::new(
            &belief.mean,
            &factor,
            w.spread,
            n,
            &TransitionAt { dynamics: &self.model, u, step },
            |i| self.state_angle(i),
        );
        let shift = spread.shift(&w);
        let spread_cov = spread.cov(&w, &shift);
        let q = process_cov(&self.model, &self.noise, u, step);
        let image = (&spread.ahead - &spread.behind) * (w.outer * w.spread); // n x n
        let rest = &spread_cov - symmetric_product(&image, &image) + &q;
        let predicted = GaussianBelief { mean: spread.centre + shift, cov: spread_cov + q };
        Ok(Joint { predicted, factor, image, rest })
    }

    fn state_angle(&self, i: usize) -> Option<f64> {
        self.model.is_state_angle(i).then(|| self.model.state_turn(i))
    }
}

/// Refuses a covariance from which the next step could draw no points. (One that is not finite passes: that
/// is divergence, and found as such.) By value: a reference would keep it in memory for what seldom happens.
#[cold]
#[inline(never)]
fn check_factor<N: Dim>(cov: OMatrix<f64, N, N>, index: u64) -> Result<(), FilterError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<N>,
{
    if cov.iter().all(|v| v.is_finite()) { sigma_factor(&cov, index).map(|_| ()) } else { Ok(()) }
}

/// L with L L' = P.
#[inline(always)]
fn sigma_factor<N: Dim>(
    cov: &OMatrix<f64, N, N>,
    index: u64,
) -> Result<OMatrix<f64, N, N>, FilterError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<N>,
{
    if let Some(factor) = Factor::new(cov) {
        return Ok(factor.cholesky());
    }
    exact_factor(cov.shape_generic().0, numbers(cov), index)
}

/// [`sigma_factor`] of a semi-definite belief: a state known exactly.
#[cold]
#[inline(never)]
fn exact_factor<N: Dim>(
    size: N,
    cov: Vec<f64>,
    index: u64,
) -> Result<OMatrix<f64, N, N>, FilterError>
where
    DefaultAllocator: Allocator<N, N>,
{
    let cov = OMatrix::from_vec_generic(size, size, cov);
    narrowed_factor(&cov).ok_or_else(|| not_positive_definite("belief covariance", index))
}
