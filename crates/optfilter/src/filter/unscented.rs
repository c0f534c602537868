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
//! use optfilter::filter::{GaussianBelief, SigmaPoints, Unscented};
//! use optfilter::{Series, drive::Run, model::{GaussianNoise, Growth}};
//! let noise = GaussianNoise::new(matrix![1.0], matrix![1.0])?;
//! let filter = Unscented::new(Growth, noise, SigmaPoints::merwe(1.0, 2.0, 2.0))?;
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
    Conditioned, GaussianBelief, check_process_cov, ln_turns, log_density, not_positive_definite,
};
use super::side_by_side::{LaneBelief, LaneMeasurement, LaneUpdate, SideBySide, lifted};
use super::traits::{Filter, Update, residual};
use crate::Shapes;
use crate::derivative::VectorFunction;
use crate::error::{FilterError, check_square};
use crate::linalg::{Factor, Solver, narrowed_factor, product, sandwich, symmetric_product};
use crate::model::likelihood::{Observed, masked_cov};
use crate::model::stretch::{measurement_cov, process_cov};
use crate::model::{Model, Noise, ObservationAt, Step, TransitionAt};
use crate::scalar::{Lanes, Scalar};
use crate::smoother::{Joint, Smooth};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Weights {
    /// sqrt(n + lambda)
    pub(super) spread: f64,
    /// beta - alpha^2
    shift_cov: f64,
    pub(super) outer: f64,
    /// Whether covariances are sums of positive terms.
    positive: bool,
}

impl Weights {
    /// Of a choice of points for `n` states.
    pub(super) fn new(points: SigmaPoints, n: usize) -> Result<Self, FilterError> {
        let n = n as f64;
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
        let SigmaPoints { alpha, beta, kappa } = points;
        Ok(Self {
            spread: Scalar::sqrt(spread),
            shift_cov: beta - alpha * alpha,
            outer: 0.5 / spread,
            positive: alpha * alpha * kappa + n * beta >= 0.0,
        })
    }
}

/// The unscented Kalman filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Unscented<M, Q> {
    model: M,
    noise: Q,
    weights: Weights,
}

impl<M: Model, Q: Noise<M::State, M::Output>> Unscented<M, Q>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// From a model, its noise and a choice of sigma points.
    pub fn new(model: M, noise: Q, points: SigmaPoints) -> Result<Self, FilterError> {
        let weights = Weights::new(points, model.state_dim().value())?;
        Ok(Self { model, noise, weights })
    }
}

/// Deviations of the images of the sigma points from the image of the centre: the first n for the
/// points ahead, the other n for those behind.
pub(super) struct Spread<S: Scalar, N: Dim, D: Dim>
where
    DefaultAllocator: Allocator<D> + Allocator<D, N>,
{
    pub(super) centre: OVector<S, D>,
    pub(super) ahead: OMatrix<S, D, N>,
    pub(super) behind: OMatrix<S, D, N>,
}

impl<N: Dim, D: Dim> Spread<f64, N, D>
where
    DefaultAllocator: Allocator<D> + Allocator<D, N>,
    DefaultAllocator: Allocator<N>,
{
    /// Sends the sigma points (mean, +- `spread` times columns of `factor`) through `f`; `is_angle` says which
    /// outputs wrap. The points are lanes of one evaluation (of several, if there are many).
    #[inline(always)]
    fn new(
        mean: &OVector<f64, N>,
        factor: &OMatrix<f64, N, N>,
        spread: f64,
        d: D,
        f: &impl VectorFunction,
        turn: impl Fn(usize) -> Option<f64>,
    ) -> Self
    where
        DefaultAllocator: Allocator<N, N>,
    {
        let n = mean.shape_generic().0;
        let mut out = Self {
            centre: OVector::zeros_generic(d, U1),
            ahead: OMatrix::zeros_generic(d, n),
            behind: OMatrix::zeros_generic(d, n),
        };
        if n.value() == 1 {
            // Three points gain nothing from lanes.
            let (m, l) = (mean[0], factor[(0, 0)] * spread);
            f.eval(&[m], out.centre.as_mut_slice());
            f.eval(&[m + l], out.ahead.as_mut_slice());
            f.eval(&[m - l], out.behind.as_mut_slice());
        } else {
            out.evaluate::<8>(mean, factor, spread, f);
        }
        for j in 0..n.value() {
            for i in 0..d.value() {
                for image in [&mut out.ahead[(i, j)], &mut out.behind[(i, j)]] {
                    let deviation = *image - out.centre[i];
                    *image = match turn(i) {
                        Some(turn) => Scalar::wrap(deviation, turn),
                        None => deviation,
                    };
                }
            }
        }
        out
    }

    /// Fills in the images of all points, `W` at a time.
    #[inline(always)]
    fn evaluate<const W: usize>(
        &mut self,
        mean: &OVector<f64, N>,
        factor: &OMatrix<f64, N, N>,
        spread: f64,
        f: &impl VectorFunction,
    ) where
        DefaultAllocator: Allocator<N, N>,
    {
        let (n, d) = (mean.shape_generic().0, self.centre.shape_generic().0);
        let count = 2 * n.value() + 1;
        let mut point = OVector::<Lanes<W>, N>::from_element_generic(n, U1, Lanes([0.0; W]));
        let mut image = OVector::<Lanes<W>, D>::from_element_generic(d, U1, Lanes([0.0; W]));
        let mut first = 0;
        while first < count {
            for i in 0..n.value() {
                for lane in 0..W {
                    // The centre, the n points ahead, the n behind; spare lanes repeat the centre.
                    let p = first + lane;
                    point[i].0[lane] = if p == 0 || p >= count {
                        mean[i]
                    } else if p <= n.value() {
                        mean[i] + spread * factor[(i, p - 1)]
                    } else {
                        mean[i] - spread * factor[(i, p - 1 - n.value())]
                    };
                }
            }
            f.eval(point.as_slice(), image.as_mut_slice());
            for i in 0..d.value() {
                for lane in 0..W.min(count - first) {
                    let p = first + lane;
                    let v = image[i].0[lane];
                    if p == 0 {
                        self.centre[i] = v;
                    } else if p <= n.value() {
                        self.ahead[(i, p - 1)] = v;
                    } else {
                        self.behind[(i, p - 1 - n.value())] = v;
                    }
                }
            }
            first += W;
        }
    }
}

/// The images and their moments, in any scalar.
impl<S: Scalar, N: Dim, D: Dim> Spread<S, N, D>
where
    DefaultAllocator: Allocator<D> + Allocator<D, N>,
{
    /// Sends the sigma points through `f`, one after the other.
    #[inline(always)]
    pub(super) fn images(
        mean: &OVector<S, N>,
        factor: &OMatrix<S, N, N>,
        spread: f64,
        d: D,
        f: impl Fn(&[S], &mut [S]),
        turn: impl Fn(usize) -> Option<f64>,
    ) -> Self
    where
        DefaultAllocator: Allocator<N> + Allocator<N, N>,
    {
        let n = mean.shape_generic().0;
        let mut out = Self {
            centre: OVector::from_element_generic(d, U1, S::ZERO),
            ahead: OMatrix::from_element_generic(d, n, S::ZERO),
            behind: OMatrix::from_element_generic(d, n, S::ZERO),
        };
        f(mean.as_slice(), out.centre.as_mut_slice());
        let (mut point, mut image) = (mean.clone(), out.centre.clone());
        for j in 0..n.value() {
            for (sign, columns) in [(spread, &mut out.ahead), (-spread, &mut out.behind)] {
                for i in 0..n.value() {
                    point[i] = mean[i] + factor[(i, j)].scale(sign);
                }
                f(point.as_slice(), image.as_mut_slice());
                for i in 0..d.value() {
                    let deviation = image[i] - out.centre[i];
                    columns[(i, j)] = turn(i).map_or(deviation, |turn| deviation.wrap(turn));
                }
            }
        }
        out
    }

    /// The weighted mean less the centre.
    #[inline(always)]
    pub(super) fn shift(&self, w: &Weights) -> OVector<S, D> {
        let (d, n) = self.ahead.shape_generic();
        let mut shift = OVector::<S, D>::from_element_generic(d, U1, S::ZERO);
        for i in 0..d.value() {
            let mut sum = self.ahead[(i, 0)] + self.behind[(i, 0)];
            for j in 1..n.value() {
                sum += self.ahead[(i, j)] + self.behind[(i, j)];
            }
            shift[i] = sum.scale(w.outer);
        }
        shift
    }

    /// The weighted covariance, sum_i wc_i (d_i - s)(d_i - s)' over deviations d_i from the centre, s being
    /// the shift. Since sum_i wc_i d_i = s and sum_i wc_i = 2 - alpha^2 + beta, it is
    /// w sum_j (a_j a_j' + b_j b_j') + (beta - alpha^2) s s': terms of the size of the result, however
    /// large and opposite the weights are.
    #[inline(always)]
    pub(super) fn cov(&self, w: &Weights, shift: &OVector<S, D>) -> OMatrix<S, D, D>
    where
        DefaultAllocator: Allocator<D, D>,
    {
        let (d, n) = self.ahead.shape_generic();
        let (a, b) = (&self.ahead, &self.behind);
        let mut out = OMatrix::from_element_generic(d, d, S::ZERO);
        for j in 0..d.value() {
            for i in j..d.value() {
                let mut sum = a[(i, 0)] * a[(j, 0)] + b[(i, 0)] * b[(j, 0)];
                for k in 1..n.value() {
                    sum += a[(i, k)] * a[(j, k)] + b[(i, k)] * b[(j, k)];
                }
                out[(i, j)] = sum.scale(w.outer) + (shift[i] * shift[j]).scale(w.shift_cov);
                out[(j, i)] = out[(i, j)];
            }
        }
        out
    }
}

impl<M: Model, Q: Noise<M::State, M::Output>> Filter for Unscented<M, Q>
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
        let mut r = measurement_cov(&self.model, &self.noise, u, step);
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
        let v = residual(&self.model, y, predicted, observed);
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

impl<M: Model, Q: Noise<M::State, M::Output>> SideBySide for Unscented<M, Q>
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

impl<M: Model, Q: Noise<M::State, M::Output>> Smooth for Unscented<M, Q>
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

/// Conditions on a measurement by the images `seen` of the points that `factor` spreads around the mean, their covariance, R, the residual and
/// ln 2 pi of every observed component; `None` if the innovation covariance is not positive definite.
#[inline(always)]
pub(super) fn condition_on_points<S: Scalar, N: Dim, M: Dim>(
    mean: &OVector<S, N>,
    factor: &OMatrix<S, N, N>,
    seen: &Spread<S, N, M>,
    w: &Weights,
    (spread_cov, r): (OMatrix<S, M, M>, &OMatrix<S, M, M>),
    (residual, turns): (&OVector<S, M>, S),
) -> Option<Conditioned<S, N, M>>
where
    DefaultAllocator: Shapes<N, M>,
{
    let s = &spread_cov + r;
    // C = sum_j w (x_j - m)(z_j - z)': the points' own deviations are +- the factor's columns and the
    // centre's is zero, so only differences of opposite images remain: C = L D' with D below.
    let mut d = &seen.ahead - &seen.behind; // m x n
    d.iter_mut().for_each(|v| *v = v.scale(w.outer * w.spread));
    let cross_t = times_transpose(&d, factor); // C', m x n
    let solver = Solver::new(&s)?;
    let gain = solver.solve(&cross_t).transpose(); // G = C S^-1, n x m
    let mean = mean + product(&gain, residual);

    // H = C' P^-1 = D L^-1, so that neither P^-1 nor L^-1 is needed:
    let kept = factor - product(&gain, &d); // (I - G H) L, n x n
    let linear_part = symmetric_product(&d, &d); // H P H', m x m
    let mut noise = spread_cov - linear_part + r; // Omega + R
    for i in 0..r.nrows() {
        // Of a measurement without noise whose equation is as good as linear only rounding is left.
        let exact = !S::all_lt(S::ZERO, r[(i, i)]);
        if exact && !S::all_lt(s[(i, i)].scale(1e-12), noise[(i, i)].abs()) {
            noise.row_mut(i).fill(S::ZERO);
            noise.column_mut(i).fill(S::ZERO);
        }
    }
    let cov = symmetric_product(&kept, &kept) + sandwich(&gain, &noise);
    let nis = solver.quadratic_form(residual);
    let log_likelihood = log_density(nis, &solver, turns);
    Some(Conditioned { mean, cov, innovation_cov: s, log_likelihood, nis })
}

/// D L' for lower-triangular L.
#[inline(always)]
fn times_transpose<S: Scalar, N: Dim, M: Dim>(
    d: &OMatrix<S, M, N>,
    l: &OMatrix<S, N, N>,
) -> OMatrix<S, M, N>
where
    DefaultAllocator: Allocator<M, N> + Allocator<N, N>,
{
    let (m, n) = d.shape_generic();
    let mut out = OMatrix::from_element_generic(m, n, S::ZERO);
    for j in 0..n.value() {
        for k in 0..=j {
            for i in 0..m.value() {
                out[(i, j)] += d[(i, k)] * l[(j, k)];
            }
        }
    }
    out
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
    // Semi-definite beliefs (a state known exactly) have a factor too.
    narrowed_factor(&cov.clone()).ok_or_else(|| not_positive_definite("belief covariance", index))
}
