//! Small-matrix kernels: what nalgebra does not have, or does not unroll.
//!
//! nalgebra holds the matrices; products of sizes known at compile time are written here as plain loops
//! that the compiler unrolls completely, and symmetric results are computed once and mirrored. On a
//! 3 x 3 extended Kalman step this is twice as fast as nalgebra's own products (see `bench/`).
//!
//! All of them are written over any [`Scalar`], so that lanes of series and derivatives by parameters run
//! through the same source as plain numbers.

pub(crate) mod array;
mod large;
mod products;
mod solver;

pub(crate) use products::{
    identity_less, identity_less_product, less_product, noise_sandwich, product, retyped, sandwich,
    symmetric, symmetric_product, symmetric_product_plus, symmetrize,
};
pub(crate) use solver::{Factor, Solver};

use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

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
