//! Sigma points: where they lie, what becomes of them, and what a measurement makes of a belief that is known by them. In any scalar.

use super::gaussian::{Conditioned, STEEP, log_density};
use super::traits::numbers;
use crate::Shapes;
use crate::error::FilterError;
use crate::linalg::array::Seen;
use crate::linalg::{Solver, product, sandwich, symmetric_product};
use crate::scalar::{Lanes, Scalar, VectorFunction};
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DVector, DefaultAllocator, Dim, OMatrix, OVector, U1};
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
    pub(super) positive: bool,
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
    pub(super) fn new(
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
    if has_steep_part(&s, r) {
        let parts = [numbers(mean), numbers(factor), numbers(&d), numbers(r), numbers(residual)];
        let images = [numbers(&seen.centre), numbers(&seen.ahead), numbers(&seen.behind)];
        let (n, m) = (mean.shape_generic().0, residual.shape_generic().0);
        if let Some(done) = conditioned_in_factors(n, m, w, parts, images, (numbers(&s), turns)) {
            return done;
        }
    }
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

/// Images of this size or less beside their own are rounding: some units of the last place.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Whether some measurement with noise is so much more precise than what was known before that the digits of its R are lost beside
/// those of S; of lanes, whether any is.
#[inline(always)]
fn has_steep_part<S: Scalar, M: Dim>(s: &OMatrix<S, M, M>, r: &OMatrix<S, M, M>) -> bool
where
    DefaultAllocator: Allocator<M, M>,
{
    let mut steep = false;
    for i in 0..s.nrows() {
        let gentle = S::all_lt(s[(i, i)], r[(i, i)].scale(STEEP));
        steep |= !gentle && S::all_lt(S::ZERO, r[(i, i)]);
    }
    steep
}

/// [`condition_on_points`] where a measurement is far more precise than the belief: in factors of P and of Omega + R, whose digits do not
/// meet. Omega is no difference here: with E the sums of opposite deviations and s = w E 1 it is w/2 E E' + (beta - alpha^2) s s'.
/// The parts are m, L, D, R and v; nothing where S or R has what is no number, or where weights make an Omega that is no covariance.
#[cold]
#[inline(never)]
fn conditioned_in_factors<S: Scalar, N: Dim, M: Dim>(
    n: N,
    m: M,
    w: &Weights,
    parts: [Vec<S>; 5],
    images: [Vec<S>; 3],
    (s, turns): (Vec<S>, S),
) -> Option<Option<Conditioned<S, N, M>>>
where
    DefaultAllocator: Shapes<N, M>,
{
    let [mean, factor, d, r, residual] = parts;
    if !s.iter().chain(&r).all(|v| v.is_finite()) {
        return None;
    }
    if S::LANES > 1 || !factor.iter().chain(&d).all(|v| v.is_finite()) {
        return Some(None);
    }
    let (rows, columns) = (m.value(), n.value());
    let factor = DMatrix::from_vec(columns, columns, factor);
    let d = DMatrix::from_vec(rows, columns, d);
    let [centre, ahead, behind] = images;
    let mut sums =
        DMatrix::from_vec(rows, columns, ahead) + DMatrix::from_vec(rows, columns, behind);
    let mut shift = DMatrix::from_element(rows, 1, S::ZERO);
    for i in 0..rows {
        for j in 0..columns {
            // A number less than the rounding of the images says nothing of the equation's curve.
            let size = centre[i].abs() + (d[(i, j)] / S::from_f64(2.0 * w.outer * w.spread)).abs();
            if S::all_lt(sums[(i, j)].abs(), size.scale(ROUNDING)) {
                sums[(i, j)] = S::ZERO;
            }
            shift[i] += sums[(i, j)].scale(w.outer);
        }
    }
    let mut noise = DMatrix::from_vec(rows, rows, r);
    for i in 0..rows {
        for j in 0..rows {
            let curve = (0..columns).fold(S::ZERO, |sum, k| sum + sums[(i, k)] * sums[(j, k)]);
            let omega = curve.scale(0.5 * w.outer) + (shift[i] * shift[j]).scale(w.shift_cov);
            if i == j && !w.positive && S::all_lt(omega, S::ZERO) {
                return None;
            }
            noise[(i, j)] += omega;
        }
    }
    let seen = Seen::new(&factor, &d, &noise);
    let z = seen.whitened(&DVector::from_vec(residual));
    let nis = z.iter().fold(S::ZERO, |sum, z| sum + *z * *z);
    let mean = OVector::from_column_slice_generic(n, U1, &mean);
    let cov = symmetric_product(&seen.left, &seen.left);
    Some(Some(Conditioned {
        mean: mean + OVector::from_column_slice_generic(n, U1, seen.moved(&z).as_slice()),
        cov: OMatrix::from_column_slice_generic(n, n, cov.as_slice()),
        innovation_cov: OMatrix::from_column_slice_generic(m, m, &s),
        log_likelihood: (nis + turns + seen.ln_det()).scale(-0.5),
        nis,
    }))
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
