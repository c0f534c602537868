//! Gaussian beliefs, and the two operations that every Gaussian filter shares.
//!
//! ```text
//! propagate   P <- F P F' + Q
//! condition   S = H P H' + R,  G = P H' S^-1,  m <- m + G v,
//!             P <- (I - G H) P (I - G H)' + G R G'                (Joseph form)
//! ```
//!
//! S is factored, never inverted. Where S is beyond 1e10 times R the same is done in factors of P and R (`linalg::array`), because the digits
//! of R would be lost beside those of P. The Joseph form is a sum of two positive semi-definite terms, so P
//! stays positive definite however small R is. A missing component is a zero row of H with residual
//! zero and a unit variance of its own, which leaves every other number as if it were not there.
//!
//! Both operations are written over any scalar: plain numbers, lanes of series, or duals that carry the
//! derivative of the likelihood by a parameter.

use super::traits::{Belief, LARGEST, NEGATIVE_VARIANCE, Update, is_sane, numbers};
use crate::Shapes;
use crate::error::{FilterError, check_len, check_square};
use crate::linalg::array::{self, Seen};
use crate::linalg::{
    Solver, identity_less, identity_less_product, is_symmetric_psd, less_product, narrowed_factor,
    noise_sandwich, product, retyped, symmetric, symmetric_product, symmetric_product_plus,
};
use crate::model::Noise;
use crate::model::likelihood::{Observed, masked_cov};
use crate::optim::{Bounds, truncated};
use crate::scalar::Scalar;
use crate::scratch::{self, is_fixed};
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{
    Const, DMatrix, DVector, DefaultAllocator, Dim, OMatrix, OVector, SMatrix, SVector, U1,
};
use serde::{Deserialize, Serialize};

/// A Gaussian belief: mean and covariance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, OMatrix<f64, N, N>: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, OMatrix<f64, N, N>: Deserialize<'de>"
))]
pub struct GaussianBelief<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The mean.
    pub mean: OVector<f64, N>,
    /// The covariance (n x n).
    pub cov: OMatrix<f64, N, N>,
}

impl<N: Dim> GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// From a finite mean and a symmetric positive semi-definite covariance.
    pub fn new(mean: OVector<f64, N>, cov: OMatrix<f64, N, N>) -> Result<Self, FilterError> {
        check_len("initial cov", mean.nrows() * mean.nrows(), cov.len(), None)?;
        if let Some(component) = mean.iter().position(|v| !v.is_finite()) {
            return Err(FilterError::NotFinite {
                argument: "initial mean",
                component,
                index: None,
            });
        }
        if !is_symmetric_psd(&cov) {
            return Err(FilterError::NotPositiveDefinite { quantity: "initial cov", index: None });
        }
        Ok(Self { mean, cov })
    }
}

impl<N: Dim> Belief<N> for GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = true;
    fn mean(&self) -> OVector<f64, N> {
        self.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        Some(self.cov.clone())
    }
    #[inline(always)]
    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        check_len("belief", n, self.mean.nrows(), Some(index))?;
        check_square("belief's cov", n, &self.cov, Some(index))
    }
    /// The moments of what lies inside, one bounded component after the other; the others follow by regression
    /// (Simon and Simon 2010, for sides that are parallel to the axes).
    fn confine(&mut self, bounds: &Bounds) {
        let n = self.mean.nrows();
        for i in 0..n {
            let (before, var) = (self.mean[i], self.cov[(i, i)]);
            let moments = bounds.sides(i).and_then(|sides| truncated(before, var, sides));
            let Some((mean, less)) = moments else { continue };
            if var > 0.0 && less < var {
                let slope = self.cov.column(i) / var;
                self.mean.axpy(mean - before, &slope, 1.0);
                for j in 0..n {
                    for k in 0..j {
                        self.cov[(j, k)] += slope[j] * slope[k] * (less - var);
                        self.cov[(k, j)] = self.cov[(j, k)];
                    }
                    let kept = self.cov[(j, j)] + slope[j] * slope[j] * (less - var);
                    self.cov[(j, j)] = kept.max(0.0); // no less than nothing, by rounding
                }
                self.cov[(i, i)] = less;
            }
            self.mean[i] = mean;
        }
        // What a later component moved back across a side.
        bounds.project(self.mean.as_mut_slice());
        // Variances are cut to what lies inside, covariances with the unbounded are not and may overflow: `flaw` looks at variances only.
        if !self.cov.iter().all(|v| v.is_finite()) {
            self.cov[(0, 0)] = f64::NAN;
        }
    }
    #[inline(always)]
    fn flaw(&self) -> Option<&'static str> {
        // Two comparisons for all: what is not a number makes the sum none, and what is infinite makes it so or is negative. Of a
        // covariance the variances are enough: what is not finite in a row of its factors is not finite in the row's variance.
        let (mut sum, mut least) = (0.0, 0.0);
        for i in 0..self.mean.nrows() {
            let var = self.cov[(i, i)];
            let both = self.mean[i] * self.mean[i] + var;
            (sum, least) = match i {
                0 => (both, var),
                _ => (sum + both, if var < least { var } else { least }),
            };
        }
        if sum < LARGEST * LARGEST && least >= 0.0 {
            return None;
        }
        name_flaw(self.clone())
    }
}

/// The flaw of a belief whose sums are not sane, though each number may be. By value: a reference would make the compiler keep the
/// belief in memory for the sake of what never happens.
#[cold]
#[inline(never)]
fn name_flaw<N: Dim>(belief: GaussianBelief<N>) -> Option<&'static str>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    if !is_sane(belief.mean.as_slice()) {
        return Some("mean");
    }
    if !belief.cov.iter().all(|v| v.is_finite()) {
        return Some("cov");
    }
    has_negative_variance(belief.cov.nrows(), belief.cov.as_slice()).then_some(NEGATIVE_VARIANCE)
}

/// Whether a matrix (n x n) has a negative number where a variance should be. One of minus rounding error is zero.
pub(super) fn has_negative_variance(n: usize, cov: &[f64]) -> bool {
    let variances = || cov.iter().step_by(n + 1);
    let largest = variances().fold(0.0, |a: f64, v| if v.abs() > a { v.abs() } else { a });
    variances().any(|&v| v < -1e-12 * largest)
}

/// F P F' + Q.
#[inline(always)]
pub(crate) fn propagated<S: Scalar, N: Dim>(
    cov: &OMatrix<S, N, N>,
    f: &OMatrix<S, N, N>,
    q: OMatrix<S, N, N>,
) -> OMatrix<S, N, N>
where
    DefaultAllocator: Allocator<N, N>,
{
    if const { is_fixed::<N>() || S::MANY } { carried(cov, f, q) } else { carried_once(cov, f, q) }
}

/// [`propagated`] as a function of its own.
#[inline(never)]
fn carried_once<S: Scalar, N: Dim>(
    cov: &OMatrix<S, N, N>,
    f: &OMatrix<S, N, N>,
    mut q: OMatrix<S, N, N>,
) -> OMatrix<S, N, N>
where
    DefaultAllocator: Allocator<N, N>,
{
    macro_rules! of_size {
        ($($n:literal)*) => {
            match f.nrows() {
                $($n => {
                    let done = carried_of::<S, $n>(cov.as_slice(), f.as_slice(), q.as_slice());
                    q.as_mut_slice().copy_from_slice(done.as_slice());
                    return q;
                })*
                _ => {}
            }
        };
    }
    of_size!(1 2 3 4 6);
    carried(cov, f, q)
}

/// [`carried`] of n x n.
#[inline(always)]
fn carried_of<S: Scalar, const N: usize>(cov: &[S], f: &[S], q: &[S]) -> SMatrix<S, N, N> {
    let sized = |a: &[S]| SMatrix::from_column_slice(a);
    carried(&sized(cov), &sized(f), sized(q))
}

#[inline(always)]
fn carried<S: Scalar, N: Dim>(
    cov: &OMatrix<S, N, N>,
    f: &OMatrix<S, N, N>,
    q: OMatrix<S, N, N>,
) -> OMatrix<S, N, N>
where
    DefaultAllocator: Allocator<N, N>,
{
    let fp = product(f, cov);
    let out = symmetric_product_plus(&fp, f, q);
    scratch::keep_matrix(fp);
    out
}

/// Checks that a step's Q is n x n and, unless that is known, has no negative variance. (That it is a covariance is
/// the noise's word; a negative variance would spoil the belief at once.)
#[inline(always)]
pub(crate) fn check_process_cov<N: Dim, M: Dim, Q: Noise<N, M>>(
    _noise: &Q,
    q: &OMatrix<f64, N, N>,
    n: usize,
    index: u64,
) -> Result<(), FilterError>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, M>,
{
    check_square("process_cov (Q)", n, q, Some(index))?;
    if Q::IS_CHECKED {
        return Ok(());
    }
    let mut negative = false;
    for i in 0..n {
        negative |= q[(i, i)] < 0.0;
    }
    if negative { Err(not_positive_definite("process_cov (Q)", index)) } else { Ok(()) }
}

/// A linear(ised) measurement: residual, H and R.
#[derive(Clone)]
pub(crate) struct GaussianMeasurement<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// v: measurement less prediction, zero where missing.
    pub(crate) residual: OVector<S, M>,
    /// H: m x n.
    pub(crate) h: OMatrix<S, M, N>,
    /// R: m x m.
    pub(crate) r: OMatrix<S, M, M>,
    /// Whether H is the identity, which need not be multiplied by.
    pub(crate) is_direct: bool,
}

/// A belief conditioned on a measurement, with what the measurement was worth.
pub(crate) struct Conditioned<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    pub(crate) mean: OVector<S, N>,
    pub(crate) cov: OMatrix<S, N, N>,
    /// S: m x m.
    pub(crate) innovation_cov: OMatrix<S, M, M>,
    pub(crate) log_likelihood: S,
    pub(crate) nis: S,
}

/// Conditions N(mean, cov) on a linear measurement; `None` if the innovation covariance is not positive
/// definite.
#[inline(always)]
pub(crate) fn condition<S: Scalar, N: Dim, M: Dim>(
    mean: &OVector<S, N>,
    cov: &OMatrix<S, N, N>,
    measurement: &mut GaussianMeasurement<S, N, M>,
    observed: Observed<'_>,
) -> Option<Conditioned<S, N, M>>
where
    DefaultAllocator: Shapes<N, M>,
{
    mask(measurement, observed);
    let count = observed.count(measurement.residual.nrows());
    condition_masked(mean, cov, measurement, ln_turns(count))
}

/// Takes missing components out of a measurement: they say nothing of the state, with a variance of their own.
#[inline(always)]
fn mask<S: Scalar, N: Dim, M: Dim>(
    measurement: &mut GaussianMeasurement<S, N, M>,
    observed: Observed<'_>,
) where
    DefaultAllocator: Shapes<N, M>,
{
    if observed == Observed::All {
        return;
    }
    let GaussianMeasurement { h, r, is_direct, .. } = measurement;
    *is_direct = false;
    *r = masked_cov(r, observed);
    for i in 0..h.nrows() {
        if !observed.has(i) {
            h.row_mut(i).fill(S::ZERO);
        }
    }
}

/// [`condition`] on a measurement without whose missing components; `turns` is ln 2 pi of every other.
#[inline(always)]
pub(crate) fn condition_masked<S: Scalar, N: Dim, M: Dim>(
    mean: &OVector<S, N>,
    cov: &OMatrix<S, N, N>,
    measurement: &GaussianMeasurement<S, N, M>,
    turns: S,
) -> Option<Conditioned<S, N, M>>
where
    DefaultAllocator: Shapes<N, M>,
{
    if const { is_fixed::<N>() || S::MANY } {
        improved(mean, cov, measurement, turns)
    } else {
        improved_once(mean, cov, measurement, turns)
    }
}

/// [`condition_masked`] as a function of its own.
#[inline(never)]
fn improved_once<S: Scalar, N: Dim, M: Dim>(
    mean: &OVector<S, N>,
    cov: &OMatrix<S, N, N>,
    measurement: &GaussianMeasurement<S, N, M>,
    turns: S,
) -> Option<Conditioned<S, N, M>>
where
    DefaultAllocator: Shapes<N, M>,
{
    let GaussianMeasurement { residual, h, r, is_direct } = measurement;
    let (m, n) = h.shape_generic();
    macro_rules! of_size {
        ($(($n:literal, $m:literal))*) => {
            match (n.value(), m.value()) {
                $(($n, $m) => {
                    let belief = [mean.as_slice(), cov.as_slice()];
                    let measured = [residual.as_slice(), h.as_slice(), r.as_slice()];
                    let done = improved_of::<S, $n, $m>(belief, measured, *is_direct, turns)?;
                    return Some(Conditioned {
                        mean: retyped((n, U1), &done.mean),
                        cov: retyped((n, n), &done.cov),
                        innovation_cov: retyped((m, m), &done.innovation_cov),
                        log_likelihood: done.log_likelihood,
                        nis: done.nis,
                    });
                })*
                _ => {}
            }
        };
    }
    of_size!((1, 1)(2, 1)(2, 2)(3, 1)(3, 2)(3, 3)(4, 1)(4, 2)(4, 4)(6, 3));
    improved(mean, cov, measurement, turns)
}

/// [`improved`] of n states and m measurements.
#[inline(never)]
fn improved_of<S: Scalar, const N: usize, const M: usize>(
    [mean, cov]: [&[S]; 2],
    [residual, h, r]: [&[S]; 3],
    is_direct: bool,
    turns: S,
) -> Option<Conditioned<S, Const<N>, Const<M>>> {
    let measurement = GaussianMeasurement {
        residual: SVector::from_column_slice(residual),
        h: SMatrix::from_column_slice(h),
        r: SMatrix::from_column_slice(r),
        is_direct,
    };
    let (mean, cov) = (SVector::from_column_slice(mean), SMatrix::from_column_slice(cov));
    improved(&mean, &cov, &measurement, turns)
}

#[inline(always)]
fn improved<S: Scalar, N: Dim, M: Dim>(
    mean: &OVector<S, N>,
    cov: &OMatrix<S, N, N>,
    measurement: &GaussianMeasurement<S, N, M>,
    turns: S,
) -> Option<Conditioned<S, N, M>>
where
    DefaultAllocator: Shapes<N, M>,
{
    let GaussianMeasurement { residual, h, r, is_direct } = measurement;
    let is_direct = *is_direct && h.is_square();
    // H P, m x n, and S, m x m.
    let (hp, s) = match is_direct {
        true => {
            let s = symmetric(retyped(r.shape_generic(), cov)) + r;
            (retyped(h.shape_generic(), cov), s)
        }
        false => {
            let hp = product(h, cov);
            let s = symmetric_product(&hp, h) + r;
            (hp, s)
        }
    };
    if is_steep(&s, r) {
        let parts = [numbers(mean), numbers(cov), numbers(residual), numbers(h), numbers(r)];
        let (n, m) = (mean.shape_generic().0, residual.shape_generic().0);
        if let Some(done) = conditioned_in_factors(n, m, parts, numbers(&s), turns) {
            return done;
        }
    }
    let factor = Solver::new(&s)?;
    // Before everything that is still to come: a logarithm is a call, which leaves nothing in the registers.
    let nis = factor.quadratic_form(residual);
    let log_likelihood = log_density(nis, &factor, turns);
    let solved = factor.solve(&hp);
    let gain = scratch::transposed(&solved); // G = P H' S^-1, n x m
    let mean = mean + product(&gain, residual);

    // I - G H and (I - G H) P = P - G (H P), side by side; their product is the first Joseph term.
    let keep = match is_direct {
        true => identity_less(retyped(cov.shape_generic(), &gain)),
        false => identity_less_product(&gain, h),
    };
    let kept = less_product(cov, &gain, &hp);
    let cov = symmetric_product_plus(&kept, &keep, noise_sandwich(&gain, r));
    scratch::keep_matrix(keep);
    scratch::keep_matrix(kept);
    scratch::keep_matrix(gain);
    scratch::keep_matrix(solved);
    scratch::keep_matrix(hp);
    factor.keep();
    Some(Conditioned { mean, cov, innovation_cov: s, log_likelihood, nis })
}

/// Beyond this ratio of S to R the digits of R, which is what a belief narrows to, are lost beside those of P.
pub(super) const STEEP: f64 = 1e10;

/// Whether some measurement with noise is so much more precise than what was known before; of lanes, whether any is.
#[inline(always)]
pub(super) fn is_steep<S: Scalar, M: Dim>(s: &OMatrix<S, M, M>, r: &OMatrix<S, M, M>) -> bool
where
    DefaultAllocator: Allocator<M, M>,
{
    // What is measured exactly has ways of its own.
    let (mut gentle, mut noisy) = (true, true);
    for i in 0..s.nrows() {
        gentle &= S::all_lt(s[(i, i)], r[(i, i)].scale(STEEP));
        noisy &= S::all_lt(S::ZERO, r[(i, i)]);
    }
    !gentle && noisy
}

/// [`condition_masked`] where the measurement is far more precise than the belief: in factors of P and R, whose digits do not meet. The parts
/// are m, P, v, H and R; nothing where S or R has what is no number.
#[cold]
#[inline(never)]
fn conditioned_in_factors<S: Scalar, N: Dim, M: Dim>(
    n: N,
    m: M,
    parts: [Vec<S>; 5],
    s: Vec<S>,
    turns: S,
) -> Option<Option<Conditioned<S, N, M>>>
where
    DefaultAllocator: Shapes<N, M>,
{
    let done = match in_factors((m.value(), n.value()), parts, &s, turns)? {
        Some(done) => done,
        None => return Some(None),
    };
    let [mean, cov] = done.belief;
    Some(Some(Conditioned {
        mean: OVector::from_column_slice_generic(n, U1, &mean),
        cov: OMatrix::from_column_slice_generic(n, n, &cov),
        innovation_cov: OMatrix::from_column_slice_generic(m, m, &s),
        log_likelihood: done.log_likelihood,
        nis: done.nis,
    }))
}

/// What [`conditioned_in_factors`] finds, whatever types the sizes have.
struct InFactors<S> {
    belief: [Vec<S>; 2],
    log_likelihood: S,
    nis: S,
}

fn in_factors<S: Scalar>(
    (rows, columns): (usize, usize),
    [mean, cov, residual, h, r]: [Vec<S>; 5],
    s: &[S],
    turns: S,
) -> Option<Option<InFactors<S>>> {
    if !s.iter().chain(&r).all(|v| v.is_finite()) {
        return None;
    }
    if S::LANES > 1 || !cov.iter().all(|v| v.is_finite()) {
        return Some(None);
    }
    let cov_factor = array::factor(&DMatrix::from_vec(columns, columns, cov));
    let image = product(&DMatrix::from_vec(rows, columns, h), &cov_factor);
    let seen = Seen::new(&cov_factor, &image, &DMatrix::from_vec(rows, rows, r));
    let z = seen.whitened(&DVector::from_vec(residual));
    let nis = z.iter().fold(S::ZERO, |sum, z| sum + *z * *z);
    let mean = DVector::from_vec(mean) + seen.moved(&z);
    let cov = symmetric_product(&seen.left, &seen.left);
    Some(Some(InFactors {
        belief: [numbers(&mean), numbers(&cov)],
        log_likelihood: (nis + turns + seen.ln_det()).scale(-0.5),
        nis,
    }))
}

/// [`condition`] as the update of a filter: the belief after the measurement, and what was learnt. Unless a component
/// `may_be_exact`, no variance of R is zero.
#[inline(always)]
pub(crate) fn conditioned<N: Dim, M: Dim>(
    belief: &GaussianBelief<N>,
    mut measurement: GaussianMeasurement<f64, N, M>,
    may_be_exact: bool,
    observed: Observed<'_>,
    index: u64,
) -> Result<(GaussianBelief<N>, Update<M>), FilterError>
where
    DefaultAllocator: Shapes<N, M>,
{
    let m = measurement.residual.nrows();
    check_square("measurement_cov (R)", m, &measurement.r, Some(index))?;
    mask(&mut measurement, observed);
    // Before the update, so that the covariance before it need not be kept.
    let GaussianMeasurement { h, r, .. } = &measurement;
    let exact = match may_be_exact && (0..m).any(|i| r[(i, i)] == 0.0) {
        true => narrowed(h.shape_generic(), [numbers(&belief.cov), numbers(h), numbers(r)]),
        false => None,
    };
    let turns = ln_turns(observed.count(m));
    let Some(done) = condition_masked(&belief.mean, &belief.cov, &measurement, turns) else {
        return Err(not_positive_definite("innovation covariance", index));
    };
    let Conditioned { mean, mut cov, innovation_cov, log_likelihood, nis } = done;
    if let Some(exact) = exact {
        cov = exact;
    }
    let GaussianMeasurement { residual, h, r, .. } = measurement;
    scratch::keep_matrix(h);
    scratch::keep_matrix(r);
    let update = Update::spread(residual, innovation_cov, log_likelihood, nis);
    Ok((GaussianBelief { mean, cov }, update))
}

/// The covariance after a measurement without noise, which leaves directions that are known exactly: (I - G H) L times its own
/// transpose, L L' = P, so that what is left there is not negative by the rounding of what was there before.
#[cold]
#[inline(never)]
fn narrowed<N: Dim, M: Dim>(
    (m, n): (M, N),
    [cov, h, r]: [Vec<f64>; 3],
) -> Option<OMatrix<f64, N, N>>
where
    DefaultAllocator: Shapes<N, M>,
{
    let cov = narrowed_of(m.value(), n.value(), [cov, h, r])?;
    Some(OMatrix::from_column_slice_generic(n, n, cov.as_slice()))
}

/// [`narrowed`], whatever types the sizes have.
fn narrowed_of(m: usize, n: usize, [cov, h, r]: [Vec<f64>; 3]) -> Option<DMatrix<f64>> {
    let cov = DMatrix::from_vec(n, n, cov);
    let h = DMatrix::from_vec(m, n, h);
    let r = DMatrix::from_vec(m, m, r);
    let hp = product(&h, &cov);
    let s = symmetric_product(&hp, &h) + &r;
    let factor = narrowed_factor(&cov)?;
    let gain = Solver::new(&s)?.solve(&hp).transpose();
    let kept = &factor - product(&gain, &product(&h, &factor));
    let mut cov = symmetric_product(&kept, &kept) + noise_sandwich(&gain, &r);
    // What exact measurements narrow row after row ends among the smallest numbers there are, which round to anything.
    for i in 0..cov.nrows() {
        if cov[(i, i)] < 1e-290 {
            cov.row_mut(i).fill(0.0);
            cov.column_mut(i).fill(0.0);
        }
    }
    Some(cov)
}

#[cold]
pub(crate) fn not_positive_definite(quantity: &'static str, index: u64) -> FilterError {
    FilterError::NotPositiveDefinite { quantity, index: Some(index) }
}

/// ln N(v; 0, S) from v' S^-1 v, the factor of S, and ln 2 pi of every component.
#[inline(always)]
pub(crate) fn log_density<S: Scalar, M: Dim>(nis: S, factor: &Solver<S, M>, turns: S) -> S
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    (nis + turns + factor.ln_det()).scale(-0.5)
}

/// ln 2 pi of so many components.
#[inline(always)]
pub(crate) fn ln_turns<S: Scalar>(count: usize) -> S {
    S::from_f64(count as f64 * LN_TAU)
}

pub(super) const LN_TAU: f64 = 1.837_877_066_409_345_5;

#[cfg(test)]
mod tests;
