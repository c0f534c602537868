//! The Rauch-Tung-Striebel smoother: what the rows after it make of each estimate of a Gaussian filter.
//!
//! From the filtered (m, P) of a row, the prediction (m-, P-) of the next and what is already smoothed there (s, S):
//!
//! ```text
//! C = Cov(x_t, x_{t+1}),   G = C (P-)^-1
//! s_t = m + G (s - m-)
//! S_t = (L - G D)(L - G D)' + G (S + W) G'          L L' = P,  D = C' L^-T,  W = P- - D D'
//! ```
//!
//! The last line is P + G (S - P-) G', written as a sum of positive semi-definite terms, so S_t is a covariance
//! however small the noise is. D is F L where the dynamics are linearised (W is then Q), and comes from the sigma
//! points in the unscented filter. P- is factored, never inverted; a direction in which it is zero (a state known
//! exactly) has a gain of zero. What a box did to a filtered belief counts as a measurement of that row.
//!
//! Rows without measurements, irregular times and several rows of one time are as they are for the filter: over a
//! step of no length the belief before is the belief after. Exact where the filter is: linear-Gaussian systems.
//!
//! Where something was, and how fast it moved, by three positions:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{GaussianBelief, Kalman};
//! use optfilter::{Series, model::{GaussianNoise, Linear}, smoother::Smooth};
//! let model = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0])?;
//! let noise = GaussianNoise::new(matrix![0.1, 0.0; 0.0, 0.1], matrix![0.5])?;
//! let start = GaussianBelief::new(vector![0.0, 1.0], matrix![1.0, 0.0; 0.0, 1.0])?;
//! let series = Series::new(&[1.2, 1.9, 3.3], 1)?.predict_first();
//! let smoothed = Kalman::new(model, noise).smooth(&start, &series)?;
//! let first = format!("{:.8} {:.8}", smoothed[0].mean[0], smoothed[0].mean[1]);
//! println!("{first}, variance of the speed {:.8}", smoothed[0].cov[(1, 1)]);
//! assert_eq!(first, "1.08188153 1.04507715"); // statsmodels 0.15, KalmanSmoother
//! assert_eq!(format!("{:.8}", smoothed[0].cov[(1, 1)]), "0.16527626");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Rauch, Tung and Striebel 1965; Sarkka and Svensson 2023, chapters 12 to 14.

use crate::Shapes;
use crate::drive::drive;
use crate::error::FilterError;
use crate::filter::{Belief, Filter, GaussianBelief};
use crate::linalg::{narrowed_factor, product, psd_factor, sandwich, symmetric_product};
use crate::model::Step;
use crate::scalar::Scalar;
use crate::series::Series;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

/// A belief before a step and the prediction after it, together.
#[derive(Clone, Debug, PartialEq)]
pub struct Joint<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The prediction, before any box.
    pub predicted: GaussianBelief<N>,
    /// L with L L' = P, the covariance before the step (n x n).
    pub factor: OMatrix<f64, N, N>,
    /// D with Cov(x_t, x_{t+1}) = L D' (n x n).
    pub image: OMatrix<f64, N, N>,
    /// W = P- - D D': what of the predicted covariance does not come from P.
    pub rest: OMatrix<f64, N, N>,
}

impl<N: Dim> Joint<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// From dynamics linearised at the belief: their matrix F and the noise Q of the step.
    pub(crate) fn linear(
        belief: &GaussianBelief<N>,
        predicted: GaussianBelief<N>,
        f: &OMatrix<f64, N, N>,
        q: OMatrix<f64, N, N>,
        index: u64,
    ) -> Result<Self, FilterError> {
        let factor = narrowed_factor(&belief.cov).ok_or(FilterError::NotPositiveDefinite {
            quantity: "belief covariance",
            index: Some(index),
        })?;
        let image = product(f, &factor);
        Ok(Self { predicted, factor, image, rest: q })
    }

    /// The belief before the step given what is known of the state after it; `is_angle` says which states wrap.
    pub fn smoothed(
        &self,
        filtered: &GaussianBelief<N>,
        next: &GaussianBelief<N>,
        turn: impl Fn(usize) -> Option<f64>,
        index: u64,
    ) -> Result<GaussianBelief<N>, FilterError> {
        let Some(root) = psd_factor(&self.predicted.cov) else {
            let quantity = "predicted covariance";
            return Err(FilterError::NotPositiveDefinite { quantity, index: Some(index) });
        };
        // G' = (P-)^-1 C', C' = D L'
        let mut gain = product(&self.image, &self.factor.transpose());
        solve_psd(&root, &mut gain);
        let gain = gain.transpose();
        let mut shift = &next.mean - &self.predicted.mean;
        for i in 0..shift.nrows() {
            if let Some(turn) = turn(i) {
                shift[i] = Scalar::wrap(shift[i], turn);
            }
        }
        let mean = &filtered.mean + product(&gain, &shift);
        let kept = &self.factor - product(&gain, &self.image); // L - G D
        let after = &next.cov + &self.rest;
        let cov = symmetric_product(&kept, &kept) + sandwich(&gain, &after);
        Ok(GaussianBelief { mean, cov })
    }
}

/// A^-1 B in place, A = L L'; a solution with zeros where A has no information.
fn solve_psd<N: Dim>(l: &OMatrix<f64, N, N>, b: &mut OMatrix<f64, N, N>)
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = l.nrows();
    for c in 0..n {
        for i in 0..n {
            let mut v = b[(i, c)];
            for k in 0..i {
                v -= l[(i, k)] * b[(k, c)];
            }
            b[(i, c)] = if l[(i, i)] > 0.0 { v / l[(i, i)] } else { 0.0 };
        }
        for i in (0..n).rev() {
            let mut v = b[(i, c)];
            for k in i + 1..n {
                v -= l[(k, i)] * b[(k, c)];
            }
            b[(i, c)] = if l[(i, i)] > 0.0 { v / l[(i, i)] } else { 0.0 };
        }
    }
}

/// A Gaussian filter whose estimates can be smoothed.
pub trait Smooth: Filter<Belief = GaussianBelief<<Self as Filter>::State>>
where
    DefaultAllocator: Shapes<Self::State, Self::Output>,
{
    /// The belief carried through a step of some length, together with where it came from.
    fn joint(
        &self,
        belief: &GaussianBelief<Self::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<Joint<Self::State>, FilterError>;

    /// Whether state `i` is an angle.
    fn state_angle(&self, i: usize) -> Option<f64>;

    /// Filters a series from `start` and smooths it: the belief at every row, given all rows.
    fn smooth(
        &self,
        start: &GaussianBelief<Self::State>,
        series: &Series<'_>,
    ) -> Result<Vec<GaussianBelief<Self::State>>, FilterError>
    where
        Self: Sized,
    {
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
    fn smooth_back(
        &self,
        filtered: &GaussianBelief<Self::State>,
        next: &GaussianBelief<Self::State>,
        series: &Series<'_>,
        k: usize,
    ) -> Result<GaussianBelief<Self::State>, FilterError>
    where
        Self: Sized,
    {
        match series.predicts(k) {
            true => self.smooth_step(filtered, next, series.input(k), &series.step(k)),
            false => Ok(next.clone()),
        }
    }

    /// The same over a step that was predicted, of no series.
    fn smooth_step(
        &self,
        filtered: &GaussianBelief<Self::State>,
        next: &GaussianBelief<Self::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<GaussianBelief<Self::State>, FilterError>
    where
        Self: Sized,
    {
        if step.dt == 0.0 {
            return Ok(next.clone());
        }
        let joint = self.joint(filtered, u, step)?;
        let angle = |i| self.state_angle(i);
        let mut smoothed = joint.smoothed(filtered, next, angle, step.index)?;
        if let Some(bounds) = self.bounds().filter(|bounds| !smoothed.is_within(bounds)) {
            bounds.project(smoothed.mean.as_mut_slice());
        }
        match smoothed.flaw() {
            None => Ok(smoothed),
            Some(_) => Err(FilterError::Diverged {
                index: step.index,
                quantity: "smoothed estimate",
                last_good: filtered.mean.as_slice().to_vec(),
            }),
        }
    }
}
