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
//! exactly) has a gain of zero. Where it is nearly singular the step is taken in factors, as an update of the state before it by the
//! state after it. What a box did to a filtered belief counts as a measurement of that row.
//!
//! Rows without measurements, irregular times and several rows of one time are as they are for the filter: over a
//! step of no length the belief before is the belief after. Exact where the filter is: linear-Gaussian systems.
//!
//! Where something was, and how fast it moved, by three positions:
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{GaussianBelief, KalmanFilter};
//! use optfilter::{Series, model::{GaussianNoise, Linear}, smoother::Smooth};
//! let model = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0])?;
//! let noise = GaussianNoise::new(matrix![0.1, 0.0; 0.0, 0.1], matrix![0.5])?;
//! let start = GaussianBelief::new(vector![0.0, 1.0], matrix![1.0, 0.0; 0.0, 1.0])?;
//! let series = Series::new(&[1.2, 1.9, 3.3], 1)?.predict_first();
//! let smoothed = KalmanFilter::new(model, noise).smooth(&start, &series)?;
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
use crate::linalg::array::{self, Seen};
use crate::linalg::{product, psd_factor, retyped, sandwich, symmetric_product};
use crate::model::Step;
use crate::scalar::Scalar;
use crate::series::Series;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DVector, DefaultAllocator, Dim, Dyn, OMatrix, OVector};

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
        let (n, wrong) = (belief.cov.nrows(), belief.cov.iter().any(|v| !v.is_finite()));
        if wrong {
            let quantity = "belief covariance";
            return Err(FilterError::NotPositiveDefinite { quantity, index: Some(index) });
        }
        let near_singular = || {
            let cov = DMatrix::from_column_slice(n, n, belief.cov.as_slice());
            retyped(belief.cov.shape_generic(), &array::factor(&cov))
        };
        let factor = psd_factor(&belief.cov).unwrap_or_else(near_singular);
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
        let prediction = Prediction {
            mean: &self.predicted.mean,
            cov: &self.predicted.cov,
            factor: &self.factor,
            image: &self.image,
            rest: &self.rest,
        };
        match prediction.smoothed(&filtered.mean, (&next.mean, &next.cov), turn) {
            Some((mean, cov)) => Ok(GaussianBelief { mean, cov }),
            None => {
                let quantity = "predicted covariance";
                Err(FilterError::NotPositiveDefinite { quantity, index: Some(index) })
            }
        }
    }
}

/// What a step made of a belief, in numbers of any kind: m-, P-, L, D and W.
struct Prediction<'a, S: Scalar, N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    mean: &'a OVector<S, N>,
    cov: &'a OMatrix<S, N, N>,
    factor: &'a OMatrix<S, N, N>,
    image: &'a OMatrix<S, N, N>,
    rest: &'a OMatrix<S, N, N>,
}

impl<S: Scalar, N: Dim> Prediction<'_, S, N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The moments of the state before the step given those after it; `None` if P- is no covariance.
    fn smoothed(
        &self,
        filtered: &OVector<S, N>,
        next: (&OVector<S, N>, &OMatrix<S, N, N>),
        turn: impl Fn(usize) -> Option<f64>,
    ) -> Option<(OVector<S, N>, OMatrix<S, N, N>)> {
        let root = psd_factor(self.cov);
        let Some(root) = root.filter(|root| !is_near_singular(self.cov, root) || S::LANES > 1)
        else {
            return self.smoothed_in_factors(filtered, next, turn);
        };
        // G' = (P-)^-1 C', C' = D L'
        let mut gain = product(self.image, &self.factor.transpose());
        solve_psd(&root, &mut gain);
        let gain = gain.transpose();
        let mut shift = next.0 - self.mean;
        for i in 0..shift.nrows() {
            if let Some(turn) = turn(i) {
                shift[i] = shift[i].wrap(turn);
            }
        }
        let mean = filtered + product(&gain, &shift);
        let kept = self.factor - product(&gain, self.image); // L - G D
        let after = next.1 + self.rest;
        let cov = symmetric_product(&kept, &kept) + sandwich(&gain, &after);
        Some((mean, cov))
    }

    /// The same from the factors of what P- is made of: the state after the step is seen as a measurement of the one before.
    #[cold]
    fn smoothed_in_factors(
        &self,
        filtered: &OVector<S, N>,
        next: (&OVector<S, N>, &OMatrix<S, N, N>),
        turn: impl Fn(usize) -> Option<f64>,
    ) -> Option<(OVector<S, N>, OMatrix<S, N, N>)> {
        let n = filtered.nrows();
        let all = [self.factor, self.image, self.rest, next.1];
        if S::LANES > 1 || !all.iter().all(|a| a.iter().all(|v| v.is_finite())) {
            return None;
        }
        let [factor, image, rest, after] =
            all.map(|a| DMatrix::from_column_slice(n, n, a.as_slice()));
        let seen = Seen::new(&factor, &image, &rest);
        let mut shift = DVector::from_fn(n, |i, _| next.0[i] - self.mean[i]);
        for i in 0..n {
            if let Some(turn) = turn(i) {
                shift[i] = shift[i].wrap(turn);
            }
        }
        let mean =
            filtered + retyped(filtered.shape_generic(), &seen.moved(&seen.whitened(&shift)));
        // G S G' in factors, too.
        let spread = product(&seen.gain(), &array::factor(&after));
        let squared = symmetric_product::<S, Dyn, Dyn>;
        let cov = squared(&seen.left, &seen.left) + squared(&spread, &spread);
        Some((mean, retyped(self.cov.shape_generic(), &cov)))
    }
}

/// The share of a variance that the others leave open, below which it is nearly none.
const NEARLY: f64 = 1e-6;

/// Whether some component of a covariance is known from the others so well that the gain would lose its digits.
fn is_near_singular<S: Scalar, N: Dim>(a: &OMatrix<S, N, N>, root: &OMatrix<S, N, N>) -> bool
where
    DefaultAllocator: Allocator<N, N>,
{
    let near = |i: usize| {
        let (left, all) = (root[(i, i)] * root[(i, i)], a[(i, i)]);
        S::all_lt(S::ZERO, all) && !S::all_lt(all.scale(NEARLY), left)
    };
    (0..a.nrows()).any(near)
}

/// A^-1 B in place, A = L L'; a solution with zeros where A has no information.
fn solve_psd<S: Scalar, N: Dim>(l: &OMatrix<S, N, N>, b: &mut OMatrix<S, N, N>)
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = l.nrows();
    let over = |v: S, pivot: S| S::select_lt(S::ZERO, pivot, v / pivot, S::ZERO);
    for c in 0..n {
        for i in 0..n {
            let mut v = b[(i, c)];
            for k in 0..i {
                v -= l[(i, k)] * b[(k, c)];
            }
            b[(i, c)] = over(v, l[(i, i)]);
        }
        for i in (0..n).rev() {
            let mut v = b[(i, c)];
            for k in i + 1..n {
                v -= l[(k, i)] * b[(k, c)];
            }
            b[(i, c)] = over(v, l[(i, i)]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::narrowed_factor;
    use crate::scalar::{Dual, Lanes};
    use nalgebra::{SMatrix, SVector, matrix, vector};

    /// A step of a random system; `shift` moves F and the mean after it. Its last direction is known exactly for every third `k`.
    fn step<S: Scalar>(k: [f64; 4], shift: S, number: impl Fn([f64; 4]) -> S) -> [S; 6] {
        let of = |f: &dyn Fn(f64) -> f64| number(k.map(f));
        let (zero, one) = (S::ZERO, S::ONE);
        let f = matrix![of(&|k| 0.9 + 0.01 * k) + shift, of(&|k| 0.1 * k); zero, one];
        let p = of(&|k| if k % 3.0 == 0.0 { 0.0 } else { 0.2 * k });
        let cov = matrix![of(&|k| 1.0 + k), zero; zero, p];
        let q = matrix![of(&|k| 0.1 * k), zero; zero, zero];
        let mean = vector![of(&|k| k - 1.0), one];
        let factor: SMatrix<S, 2, 2> = narrowed_factor(&cov).unwrap();
        let image = product(&f, &factor);
        let (predicted, predicted_cov) = (product(&f, &mean), sandwich(&f, &cov) + q);
        let prediction = Prediction {
            mean: &predicted,
            cov: &predicted_cov,
            factor: &factor,
            image: &image,
            rest: &q,
        };
        let next = predicted + vector![of(&|k| 0.3 * k) + shift, zero];
        let next_cov = predicted_cov * of(&|k| 0.5 + 0.01 * k);
        let (mean, cov): (SVector<S, 2>, SMatrix<S, 2, 2>) =
            prediction.smoothed(&mean, (&next, &next_cov), |_| None).unwrap();
        [mean[0], mean[1], cov[(0, 0)], cov[(0, 1)], cov[(1, 0)], cov[(1, 1)]]
    }

    const ALL: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

    #[test]
    fn lanes_are_smoothed_to_the_bit_of_each_alone() {
        let all = step(ALL, Lanes([0.0; 4]), Lanes);
        for (lane, k) in ALL.into_iter().enumerate() {
            let alone = step([k; 4], 0.0, |k| k[0]);
            for (v, a) in all.iter().zip(alone) {
                assert_eq!(v.0[lane].to_bits(), a.to_bits(), "lane {lane}");
            }
        }
    }

    #[test]
    fn derivatives_by_a_parameter_come_with_the_numbers() {
        for k in ALL {
            let exact = step([k; 4], Dual::<f64, 1>::variable(0.0, 0), |k| Dual::from_f64(k[0]));
            let h = 1e-6;
            let (up, down) = (step([k; 4], h, |k| k[0]), step([k; 4], -h, |k| k[0]));
            for i in 0..6 {
                let difference = (up[i] - down[i]) / (2.0 * h);
                let error = (exact[i].eps[0] - difference).abs();
                assert!(
                    error < 1e-7 * (1.0 + difference.abs()),
                    "{k}, {i}: {exact:?} {difference}"
                );
            }
        }
    }
}
