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
//! References: Julier and Uhlmann 1995, 2004; Wan and van der Merwe 2000. (The paper prints the weights
//! of the outer points with lambda in the numerator; that is a misprint.)

use super::gaussian::gaussian_log_density;
use super::{
    Filter, FilterError, GaussianBelief, Update, check_len, check_measurement, residual,
    with_observed,
};
use crate::Shapes;
use crate::linalg::{psd_factor, symmetrize};
use crate::model::likelihood::{Observed, masked_cov};
use crate::model::{Model, Noise, Step};
use crate::scalar::Scalar;
use nalgebra::{Cholesky, DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

/// Where sigma points lie and how they weigh.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SigmaPoints {
    /// Spread of the points, in (0, 1] as a rule.
    pub alpha: f64,
    /// Extra weight of the centre in covariances; 2 is best for Gaussian states.
    pub beta: f64,
    /// Second spread parameter; 0, or 3 - n.
    pub kappa: f64,
}

impl SigmaPoints {
    /// Van der Merwe's scaled points.
    pub fn merwe(alpha: f64, beta: f64, kappa: f64) -> Self {
        Self { alpha, beta, kappa }
    }

    /// Julier's points: no scaling, the centre weighs the same in means and covariances.
    pub fn julier(kappa: f64) -> Self {
        Self { alpha: 1.0, beta: 0.0, kappa }
    }
}

/// Weights for a given dimension.
#[derive(Clone, Copy)]
struct Weights {
    /// sqrt(n + lambda)
    spread: f64,
    /// Weight of the centre in covariances; its weight in means follows, since those sum to one.
    centre_cov: f64,
    outer: f64,
}

/// The unscented Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Unscented<M, Q> {
    model: M,
    noise: Q,
    points: SigmaPoints,
}

impl<M: Model, Q: Noise<M::State, M::Output>> Unscented<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, its noise and a choice of sigma points.
    pub fn new(model: M, noise: Q, points: SigmaPoints) -> Result<Self, FilterError> {
        let n = model.state_dim().value() as f64;
        let (argument, requirement) = ("alpha^2 (n + kappa)", "positive and finite");
        let spread = points.alpha * points.alpha * (n + points.kappa);
        if !(spread > 0.0 && spread.is_finite()) {
            return Err(FilterError::Setting { argument, value: spread, requirement });
        }
        if !points.beta.is_finite() {
            return Err(FilterError::Setting {
                argument: "beta",
                value: points.beta,
                requirement: "finite",
            });
        }
        Ok(Self { model, noise, points })
    }

    #[inline(always)]
    fn weights(&self) -> Weights {
        let SigmaPoints { alpha, beta, kappa } = self.points;
        let n = self.model.state_dim().value() as f64;
        let total = alpha * alpha * (n + kappa); // n + lambda
        let centre_mean = (total - n) / total;
        Weights {
            spread: Scalar::sqrt(total),
            centre_cov: centre_mean + 1.0 - alpha * alpha + beta,
            outer: 0.5 / total,
        }
    }
}

/// Deviations of the images of the sigma points from the image of the centre: the first n for the
/// points ahead, the other n for those behind.
struct Spread<N: Dim, D: Dim>
where
    DefaultAllocator: nalgebra::allocator::Allocator<D> + nalgebra::allocator::Allocator<D, N>,
{
    centre: OVector<f64, D>,
    ahead: OMatrix<f64, D, N>,
    behind: OMatrix<f64, D, N>,
}

impl<N: Dim, D: Dim> Spread<N, D>
where
    DefaultAllocator: nalgebra::allocator::Allocator<D> + nalgebra::allocator::Allocator<D, N>,
    DefaultAllocator: nalgebra::allocator::Allocator<N>,
{
    /// Sends the sigma points (mean, +- columns of `factor`) through `f`; `is_angle` says which
    /// outputs wrap.
    #[inline(always)]
    fn new(
        mean: &OVector<f64, N>,
        factor: &OMatrix<f64, N, N>,
        d: D,
        f: impl Fn(&[f64], &mut [f64]),
        is_angle: impl Fn(usize) -> bool,
    ) -> Self
    where
        DefaultAllocator: nalgebra::allocator::Allocator<N, N>,
    {
        let n = mean.shape_generic().0;
        let mut centre = OVector::<f64, D>::zeros_generic(d, U1);
        f(mean.as_slice(), centre.as_mut_slice());
        let mut ahead = OMatrix::<f64, D, N>::zeros_generic(d, n);
        let mut behind = OMatrix::<f64, D, N>::zeros_generic(d, n);
        let mut image = OVector::<f64, D>::zeros_generic(d, U1);
        for j in 0..n.value() {
            for (sign, out) in [(1.0, &mut ahead), (-1.0, &mut behind)] {
                let mut point = mean.clone();
                for i in j..n.value() {
                    point[i] += sign * factor[(i, j)]; // lower triangular: zeros above
                }
                f(point.as_slice(), image.as_mut_slice());
                for i in 0..d.value() {
                    let deviation = image[i] - centre[i];
                    out[(i, j)] =
                        if is_angle(i) { Scalar::wrap_angle(deviation) } else { deviation };
                }
            }
        }
        Self { centre, ahead, behind }
    }

    /// The weighted mean, after which `ahead`, `behind` are deviations from it and the returned vector
    /// is the centre's deviation.
    #[inline(always)]
    fn center(&mut self, w: &Weights) -> (OVector<f64, D>, OVector<f64, D>) {
        let mut shift = OVector::<f64, D>::zeros_generic(self.centre.shape_generic().0, U1);
        for j in 0..self.ahead.ncols() {
            for i in 0..shift.nrows() {
                shift[i] += w.outer * (self.ahead[(i, j)] + self.behind[(i, j)]);
            }
        }
        for j in 0..self.ahead.ncols() {
            for i in 0..shift.nrows() {
                self.ahead[(i, j)] -= shift[i];
                self.behind[(i, j)] -= shift[i];
            }
        }
        (&self.centre + &shift, -shift)
    }
}

/// sum_i w_i a_i b_i' over the sigma points.
#[inline(always)]
fn cross_cov<N: Dim, A: Dim, B: Dim>(
    w: &Weights,
    a: (&Spread<N, A>, &OVector<f64, A>),
    b: (&Spread<N, B>, &OVector<f64, B>),
) -> OMatrix<f64, A, B>
where
    DefaultAllocator: nalgebra::allocator::Allocator<A>
        + nalgebra::allocator::Allocator<B>
        + nalgebra::allocator::Allocator<A, N>
        + nalgebra::allocator::Allocator<B, N>
        + nalgebra::allocator::Allocator<N, B>
        + nalgebra::allocator::Allocator<U1, B>
        + nalgebra::allocator::Allocator<A, B>,
{
    let ((a, a0), (b, b0)) = (a, b);
    let mut sum = a0 * b0.transpose() * w.centre_cov;
    sum += (&a.ahead * b.ahead.transpose() + &a.behind * b.behind.transpose()) * w.outer;
    sum
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for Unscented<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>
        + nalgebra::allocator::Allocator<U1, M::State>
        + nalgebra::allocator::Allocator<U1, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = GaussianBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    #[inline]
    fn predict(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        check_len("u", self.model.input_dim(), u.len(), Some(step.index))?;
        let w = self.weights();
        let factor = sigma_factor(&belief.cov, &w, step.index)?;
        let mut spread = Spread::new(
            &belief.mean,
            &factor,
            self.model.state_dim(),
            #[inline(always)]
            |x, out| self.model.transition(x, u, step, out),
            |i| self.model.is_state_angle(i),
        );
        let (mean, centre) = spread.center(&w);
        belief.mean = mean;
        belief.cov =
            cross_cov(&w, (&spread, &centre), (&spread, &centre)) + self.noise.process_cov(step);
        symmetrize(&mut belief.cov);
        Ok(())
    }

    #[inline]
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        let m = self.model.output_dim();
        check_measurement(m.value(), self.model.input_dim(), y, u, step)?;
        with_observed(
            m,
            y,
            #[inline(always)]
            |observed: Observed<'_>| self.update_observed(belief, y, u, step, observed),
        )
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Unscented<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>
        + nalgebra::allocator::Allocator<U1, M::State>
        + nalgebra::allocator::Allocator<U1, M::Output>,
{
    #[inline(always)]
    fn update_observed(
        &self,
        belief: &mut GaussianBelief<M::State>,
        y: &[f64],
        u: &[f64],
        step: &Step,
        observed: Observed<'_>,
    ) -> Result<Update<M::Output>, FilterError> {
        let m = self.model.output_dim();
        if observed.count(y.len()) == 0 {
            return Ok(Update::nothing(m, true));
        }
        let w = self.weights();
        let factor = sigma_factor(&belief.cov, &w, step.index)?;
        let mut seen = Spread::new(
            &belief.mean,
            &factor,
            m,
            #[inline(always)]
            |x, out| self.model.observe(x, u, step, out),
            |i| self.model.is_angle(i),
        );
        for i in 0..m.value() {
            if !observed.has(i) {
                seen.centre[i] = 0.0;
                seen.ahead.row_mut(i).fill(0.0);
                seen.behind.row_mut(i).fill(0.0);
            }
        }
        let (predicted, centre) = seen.center(&w);
        let mut r = self.noise.measurement_cov(step);
        if observed != Observed::All {
            r = masked_cov(&r, observed);
        }
        let spread_cov = cross_cov(&w, (&seen, &centre), (&seen, &centre));
        let s = &spread_cov + &r;
        // C = sum_j w (x_j - m)(z_j - z)': the points' own deviations are +- the factor's columns, and
        // the centre's is zero, so only differences of opposite images remain.
        let cross = &factor * (&seen.ahead - &seen.behind).transpose() * w.outer; // n x m
        let Some(s_factor) = Cholesky::new(s.clone()) else {
            return Err(FilterError::NotPositiveDefinite {
                quantity: "innovation covariance",
                index: Some(step.index),
            });
        };
        let mut gain_t = cross.transpose(); // G' = S^-1 C', m x n
        s_factor.solve_mut(&mut gain_t);
        let gain = gain_t.transpose();
        let v = residual(&self.model, y, &predicted, observed);
        belief.mean += &gain * &v;

        // With L L' = (n + lambda) P, the factor that drew the points, C = L D for the n x m matrix D below;
        // so H = C' P^-1 = (n + lambda) D' L^-1, and neither P^-1 nor L^-1 is needed:
        let d = (&seen.ahead - &seen.behind).transpose() * w.outer; // n x m
        let total = w.spread * w.spread;
        // (I - G H) L = L - G (n + lambda) D'
        let kept = &factor - &gain * d.transpose() * total; // n x n
        let linear_part = d.transpose() * &d * total; // H P H', m x m
        let noise = spread_cov - linear_part + &r; // Omega + R
        belief.cov = &kept * kept.transpose() * (1.0 / total) + &gain * noise * gain_t;
        symmetrize(&mut belief.cov);

        let count = observed.count(y.len());
        let nis = v.dot(&s_factor.solve(&v));
        let log_likelihood = gaussian_log_density(nis, &s_factor, count);
        Ok(Update {
            innovation: v,
            innovation_cov: Some(s),
            log_likelihood: Some(log_likelihood),
            nis: Some(nis),
            observed: count,
        })
    }
}

/// L with L L' = (n + lambda) P.
#[inline(always)]
fn sigma_factor<N: Dim>(
    cov: &OMatrix<f64, N, N>,
    w: &Weights,
    index: u64,
) -> Result<OMatrix<f64, N, N>, FilterError>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N, N>,
{
    let Some(factor) = psd_factor(cov) else {
        return Err(FilterError::NotPositiveDefinite {
            quantity: "belief covariance",
            index: Some(index),
        });
    };
    Ok(factor * w.spread)
}
