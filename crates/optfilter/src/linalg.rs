//! Small-matrix kernels: what nalgebra does not have, or does not unroll.
//!
//! nalgebra holds the matrices; products of sizes known at compile time are written here as plain loops
//! that the compiler unrolls completely, and symmetric results are computed once and mirrored. On a
//! 3 x 3 extended Kalman step this is twice as fast as nalgebra's own products (see `bench/`).
//!
//! All of them are written over any [`Scalar`], so that lanes of series and derivatives by parameters run
//! through the same source as plain numbers.

use crate::scalar::Scalar;
use crate::scratch;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

pub(crate) mod array;
mod large;
mod solver;

pub(crate) use solver::{Factor, Solver};

/// Products of more multiplications than this go through nalgebra's blocked kernel, unless their sizes are
/// known at compile time: that kernel allocates, and a step of a filter of fixed size does not.
const SMALL: usize = 600;

/// Whether two sizes are known at compile time.
#[inline(always)]
fn is_fixed<R: Dim, C: Dim>() -> bool {
    R::try_to_usize().is_some() && C::try_to_usize().is_some()
}

/// A B.
#[inline(always)]
pub(crate) fn product<S: Scalar, R: Dim, K: Dim, C: Dim>(
    a: &OMatrix<S, R, K>,
    b: &OMatrix<S, K, C>,
) -> OMatrix<S, R, C>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, C> + Allocator<R, C>,
{
    let ((rows, inner), columns) = (a.shape_generic(), b.shape_generic().1);
    let mut out = scratch::zeros(rows, columns);
    if add_large(&mut out, 1.0, a, b) {
        return out;
    }
    if !(is_fixed::<R, K>() && is_fixed::<K, C>())
        && rows.value() * inner.value() * columns.value() > SMALL
        && S::large_product(inner.value(), a.as_slice(), b.as_slice(), out.as_mut_slice())
    {
        return out;
    }
    // Column by column, so that neighbours in memory go through the same operations.
    for j in 0..columns.value() {
        for i in 0..rows.value() {
            out[(i, j)] = if inner.value() == 0 { S::ZERO } else { a[(i, 0)] * b[(0, j)] };
        }
        for k in 1..inner.value() {
            for i in 0..rows.value() {
                out[(i, j)] += a[(i, k)] * b[(k, j)];
            }
        }
    }
    out
}

/// Adds A B, or takes it off, if they are large; else nothing is done.
#[inline(always)]
fn add_large<S: Scalar, R: Dim, K: Dim, C: Dim>(
    out: &mut OMatrix<S, R, C>,
    sign: f64,
    a: &OMatrix<S, R, K>,
    b: &OMatrix<S, K, C>,
) -> bool
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, C> + Allocator<R, C>,
{
    !(is_fixed::<R, K>() && is_fixed::<K, C>())
        && large::add(a.ncols(), sign, a.as_slice(), b.as_slice(), out.as_mut_slice())
}

/// C - A B.
#[inline(always)]
pub(crate) fn less_product<S: Scalar, R: Dim, K: Dim, C: Dim>(
    c: &OMatrix<S, R, C>,
    a: &OMatrix<S, R, K>,
    b: &OMatrix<S, K, C>,
) -> OMatrix<S, R, C>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, C> + Allocator<R, C>,
{
    if large::takes::<S>(a.nrows(), a.ncols(), b.ncols()) {
        let mut out = scratch::copy(c);
        if add_large(&mut out, -1.0, a, b) {
            return out;
        }
    }
    c - product(a, b)
}

/// I - A B.
#[inline(always)]
pub(crate) fn identity_less_product<S: Scalar, N: Dim, K: Dim>(
    a: &OMatrix<S, N, K>,
    b: &OMatrix<S, K, N>,
) -> OMatrix<S, N, N>
where
    DefaultAllocator: Allocator<N, K> + Allocator<K, N> + Allocator<N, N>,
{
    let size = a.shape_generic().0;
    let mut out = scratch::zeros(size, size);
    if add_large(&mut out, -1.0, a, b) {
        for i in 0..out.nrows() {
            out[(i, i)] += S::ONE;
        }
        return out;
    }
    identity_less(product(a, b))
}

/// I - A.
#[inline(always)]
pub(crate) fn identity_less<S: Scalar, N: Dim>(mut a: OMatrix<S, N, N>) -> OMatrix<S, N, N>
where
    DefaultAllocator: Allocator<N, N>,
{
    for v in a.as_mut_slice() {
        *v = -*v;
    }
    for i in 0..a.nrows() {
        a[(i, i)] += S::ONE;
    }
    a
}

/// The same numbers as a matrix of another type, of the same sizes.
#[inline(always)]
pub(crate) fn retyped<S: Scalar, R: Dim, C: Dim, N: Dim, M: Dim>(
    (rows, columns): (R, C),
    a: &OMatrix<S, N, M>,
) -> OMatrix<S, R, C>
where
    DefaultAllocator: Allocator<R, C> + Allocator<N, M>,
{
    let mut out = scratch::zeros(rows, columns);
    out.as_mut_slice().copy_from_slice(a.as_slice());
    out
}

/// The sum of `count` terms. It starts from the first term, not from zero: the additions are a chain
/// that the next operation waits for, and adding to zero would be one more link.
#[inline(always)]
fn dot<S: Scalar>(count: usize, term: impl Fn(usize) -> S) -> S {
    if count == 0 {
        return S::ZERO;
    }
    let mut sum = term(0);
    for k in 1..count {
        sum += term(k);
    }
    sum
}

/// A B' for a product known to be symmetric: the lower triangle is computed and mirrored.
#[inline(always)]
pub(crate) fn symmetric_product<S: Scalar, R: Dim, K: Dim>(
    a: &OMatrix<S, R, K>,
    b: &OMatrix<S, R, K>,
) -> OMatrix<S, R, R>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, R> + Allocator<R, R>,
{
    let (rows, inner) = a.shape_generic();
    let mut out = scratch::zeros(rows, rows);
    if add_large_symmetric(&mut out, a, b) {
        return out;
    }
    if rows.value() * inner.value() * rows.value() > SMALL {
        let mut out = product(a, &b.transpose());
        symmetrize(&mut out);
        return out;
    }
    for j in 0..rows.value() {
        for i in j..rows.value() {
            let sum = dot(inner.value(), |k| a[(i, k)] * b[(j, k)]);
            out[(i, j)] = sum;
            out[(j, i)] = sum;
        }
    }
    out
}

/// A times the identity, as [`symmetric_product`] has it where A is symmetric but for rounding.
#[inline(always)]
pub(crate) fn symmetric<S: Scalar, R: Dim>(mut a: OMatrix<S, R, R>) -> OMatrix<S, R, R>
where
    DefaultAllocator: Allocator<R, R>,
{
    let n = a.nrows();
    let is_large = !is_fixed::<R, R>() && large::takes::<S>(n, n, n);
    if n * n * n > SMALL && !is_large {
        symmetrize(&mut a);
        return a;
    }
    for j in 0..n {
        for i in j + 1..n {
            a[(j, i)] = a[(i, j)];
        }
    }
    a
}

/// Adds A B', which is symmetric, to what is, if they are large; else nothing is done.
#[inline(always)]
fn add_large_symmetric<S: Scalar, R: Dim, K: Dim>(
    out: &mut OMatrix<S, R, R>,
    a: &OMatrix<S, R, K>,
    b: &OMatrix<S, R, K>,
) -> bool
where
    DefaultAllocator: Allocator<R, K> + Allocator<R, R>,
{
    !is_fixed::<R, K>()
        && large::add_symmetric(a.ncols(), a.as_slice(), b.as_slice(), out.as_mut_slice())
}

/// A B' + C, both symmetric.
#[inline(always)]
pub(crate) fn symmetric_product_plus<S: Scalar, R: Dim, K: Dim>(
    a: &OMatrix<S, R, K>,
    b: &OMatrix<S, R, K>,
    mut c: OMatrix<S, R, R>,
) -> OMatrix<S, R, R>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, R> + Allocator<R, R>,
{
    if add_large_symmetric(&mut c, a, b) {
        return c;
    }
    symmetric_product(a, b) + c
}

/// A P A' for symmetric P.
#[inline(always)]
pub(crate) fn sandwich<S: Scalar, R: Dim, K: Dim>(
    a: &OMatrix<S, R, K>,
    p: &OMatrix<S, K, K>,
) -> OMatrix<S, R, R>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, R> + Allocator<K, K> + Allocator<R, R>,
{
    symmetric_product(&product(a, p), a)
}

/// A R A' for symmetric R; half the work where R is diagonal, as measurement noise mostly is.
#[inline(always)]
pub(crate) fn noise_sandwich<S: Scalar, N: Dim, M: Dim>(
    a: &OMatrix<S, N, M>,
    r: &OMatrix<S, M, M>,
) -> OMatrix<S, N, N>
where
    DefaultAllocator: Allocator<N, M> + Allocator<M, N> + Allocator<M, M> + Allocator<N, N>,
{
    let m = r.nrows();
    let diagonal = (0..m).all(|j| (j + 1..m).all(|i| r[(i, j)] == S::ZERO));
    if !diagonal {
        return sandwich(a, r);
    }
    let mut scaled = scratch::copy(a);
    for j in 0..m {
        for i in 0..a.nrows() {
            scaled[(i, j)] *= r[(j, j)];
        }
    }
    let out = symmetric_product(&scaled, a);
    scratch::keep_matrix(scaled);
    out
}

/// Replaces a matrix by the mean of itself and its transpose.
#[inline(always)]
pub(crate) fn symmetrize<S: Scalar, N: Dim>(p: &mut OMatrix<S, N, N>)
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = p.nrows();
    for j in 0..n {
        for i in 0..j {
            let mean = (p[(i, j)] + p[(j, i)]).scale(0.5);
            p[(i, j)] = mean;
            p[(j, i)] = mean;
        }
    }
}

/// A lower-triangular L with L L' = A for a symmetric positive *semi*-definite A: a pivot that is
/// zero up to rounding leaves a zero column. `None` if A has a clearly negative pivot or a NaN, in any lane.
pub fn psd_factor<S: Scalar, N: Dim>(a: &OMatrix<S, N, N>) -> Option<OMatrix<S, N, N>>
where
    DefaultAllocator: Allocator<N, N>,
{
    psd_factor_within(a, a.nrows() as f64 * 8.0 * f64::EPSILON)
}

/// The same for a covariance that a measurement has narrowed: its rounding errors are in units of what it was before, and an
/// exact measurement may have left a millionth of that.
pub(crate) fn narrowed_factor<S: Scalar, N: Dim>(a: &OMatrix<S, N, N>) -> Option<OMatrix<S, N, N>>
where
    DefaultAllocator: Allocator<N, N>,
{
    psd_factor(a).or_else(|| psd_factor_within(a, 1e-9))
}

/// [`psd_factor`], where a pivot is zero if it is within this share of its variance.
fn psd_factor_within<S: Scalar, N: Dim>(
    a: &OMatrix<S, N, N>,
    rounding: f64,
) -> Option<OMatrix<S, N, N>>
where
    DefaultAllocator: Allocator<N, N>,
{
    /// Whether `a < b` in any lane.
    fn any_lt<S: Scalar>(a: S, b: S) -> bool {
        !S::all_lt(S::select_lt(a, b, S::ONE, S::ZERO), S::ONE)
    }
    let n = a.nrows();
    let mut l = a.clone();
    l.fill(S::ZERO);
    for j in 0..n {
        let mut pivot = a[(j, j)];
        for k in 0..j {
            pivot -= l[(j, k)] * l[(j, k)];
        }
        // Against the component's own variance: what is small beside another unit may be large in its own.
        let tiny = a[(j, j)].abs() * S::from_f64(rounding);
        if !pivot.is_finite() || any_lt(pivot, -tiny) {
            return None;
        }
        let unless_null = |v: S| S::select_lt(tiny, pivot, v, S::ZERO);
        let root = unless_null(pivot.sqrt());
        l[(j, j)] = root;
        for i in j + 1..n {
            let mut v = a[(i, j)];
            for k in 0..j {
                v -= l[(i, k)] * l[(j, k)];
            }
            // A semi-definite matrix has a zero column below a zero pivot.
            let left = S::select_lt(tiny, pivot, S::ZERO, v.abs());
            if !v.is_finite() || any_lt((tiny * a[(i, i)].abs()).sqrt(), left) {
                return None;
            }
            l[(i, j)] = unless_null(v / root);
        }
    }
    Some(l)
}

/// Whether a matrix is square, finite, symmetric to rounding and positive semi-definite.
pub fn is_symmetric_psd<N: Dim>(a: &OMatrix<f64, N, N>) -> bool
where
    DefaultAllocator: Allocator<N, N>,
{
    a.is_square() && is_symmetric(a) && psd_factor(a).is_some()
}

/// Whether a square matrix is finite and symmetric to rounding.
pub(crate) fn is_symmetric<N: Dim>(a: &OMatrix<f64, N, N>) -> bool
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = a.nrows();
    // Entries are compared in the units of their own row and column.
    let unit = |i: usize, j: usize| Scalar::sqrt(a[(i, i)].abs()) * Scalar::sqrt(a[(j, j)].abs());
    a.iter().all(|v| v.is_finite())
        && (0..n).all(|i| (0..i).all(|j| (a[(i, j)] - a[(j, i)]).abs() <= 1e-10 * unit(i, j)))
}

/// Whether a matrix is square, finite, symmetric to rounding and positive definite.
pub fn is_symmetric_pd<N: Dim>(a: &OMatrix<f64, N, N>) -> bool
where
    DefaultAllocator: Allocator<N, N>,
{
    a.is_square() && is_symmetric(a) && nalgebra::Cholesky::new(a.clone()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::matrix;

    #[test]
    fn what_has_no_inverse_among_the_numbers_is_not_solved_with() {
        let solve = |a: f64, b: f64| Solver::new(&nalgebra::matrix![a, 0.0; 0.0, b]);
        let v = nalgebra::vector![0.0, 2.0];
        // The determinant alone is too small: through the factor.
        assert_eq!(solve(1e-300, 1e-20).unwrap().quadratic_form(&v), 4.0 / 1e-20);
        assert!(solve(1e-310, 1.0).is_none() && solve(0.0, 1.0).is_none());
    }

    #[test]
    fn a_determinant_beyond_the_numbers_has_a_logarithm() {
        for variances in [
            [1e90, 1e280, 1e290, 4.0],
            [1e-90, 1e-280, 1e-290, 4.0],
            [1e300, 1e300, 1e-300, 1e-300],
        ] {
            let matrix =
                nalgebra::DMatrix::from_diagonal(&nalgebra::DVector::from_row_slice(&variances));
            let expected: f64 = variances.iter().map(|v: &f64| v.ln()).sum();
            let found = Factor::new(&matrix).unwrap().ln_det();
            assert!(
                (found - expected).abs() < 1e-12 * (1.0 + expected.abs()),
                "{found} {expected}"
            );
        }
    }

    #[test]
    fn a_small_variance_beside_a_large_one_is_kept() {
        for turn in [0.0, 0.5, -0.999] {
            let (large, small) = (1e6, 1e-10);
            let both = turn * Scalar::sqrt(large * small);
            let a = matrix![large, both; both, small];
            let l = psd_factor(&a).unwrap();
            let back = l * l.transpose();
            // Each entry in the units of its own row and column, to the rounding of three operations.
            for (i, j) in [(0, 0), (1, 0), (1, 1)] {
                let unit = Scalar::sqrt(a[(i, i)] * a[(j, j)]);
                assert!((back[(i, j)] - a[(i, j)]).abs() < 1e-15 * unit, "{turn} {i} {j}");
            }
            assert!(l[(1, 1)] > 0.0 && is_symmetric_psd(&a) && is_symmetric_pd(&a));
            let swapped = matrix![small, both; both, large];
            assert!(psd_factor(&swapped).unwrap()[(0, 0)] > 0.0);
        }
        // Against the small one's own size, what is wrong with it is seen.
        assert!(psd_factor(&matrix![1e6, 0.0; 0.0, -1e-10]).is_none());
        assert!(psd_factor(&matrix![1e6, 0.011; 0.011, 1e-10]).is_none());
        assert!(!is_symmetric(&matrix![1e6, 1e-3; 1e-3 + 1e-11, 1e-10]));
        assert!(is_symmetric(&matrix![1e6, 1e-3; 1e-3 + 1e-13, 1e-10]));
        // A direction that is known exactly has a zero column, whatever its unit.
        let l = psd_factor(&matrix![1e-10, 1e-2; 1e-2, 1e6]).unwrap();
        assert_eq!(l[(1, 1)], 0.0);
        assert_eq!(psd_factor(&matrix![0.0, 0.0; 0.0, 1e-300]).unwrap()[(0, 0)], 0.0);
    }
}
