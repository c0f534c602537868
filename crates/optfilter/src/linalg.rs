//! The few operations on small matrices that nalgebra does not have.

use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

/// Replaces a matrix by the mean of itself and its transpose.
#[inline(always)]
pub(crate) fn symmetrize<N: Dim>(p: &mut OMatrix<f64, N, N>)
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = p.nrows();
    for j in 0..n {
        for i in 0..j {
            let mean = 0.5 * (p[(i, j)] + p[(j, i)]);
            p[(i, j)] = mean;
            p[(j, i)] = mean;
        }
    }
}

/// A lower-triangular L with L L' = A for a symmetric positive *semi*-definite A: a pivot that is
/// zero up to rounding leaves a zero column. `None` if A has a clearly negative pivot or a NaN.
pub fn psd_factor<N: Dim>(a: &OMatrix<f64, N, N>) -> Option<OMatrix<f64, N, N>>
where
    DefaultAllocator: Allocator<N, N>,
{
    let n = a.nrows();
    let scale = (0..n).fold(0.0f64, |s, i| s.max(a[(i, i)].abs()));
    let tiny = scale * n as f64 * 8.0 * f64::EPSILON;
    let mut l = a.clone();
    l.fill(0.0);
    for j in 0..n {
        let mut pivot = a[(j, j)];
        for k in 0..j {
            pivot -= l[(j, k)] * l[(j, k)];
        }
        if !pivot.is_finite() || pivot < -tiny {
            return None;
        }
        let null = pivot <= tiny;
        let root = if null { 0.0 } else { crate::scalar::Scalar::sqrt(pivot) };
        l[(j, j)] = root;
        for i in j + 1..n {
            let mut v = a[(i, j)];
            for k in 0..j {
                v -= l[(i, k)] * l[(j, k)];
            }
            if null {
                // A semi-definite matrix has a zero column below a zero pivot.
                if !v.is_finite() || v.abs() > crate::scalar::Scalar::sqrt(tiny * scale) {
                    return None;
                }
            } else {
                l[(i, j)] = v / root;
            }
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
    let largest = a.iter().fold(0.0f64, |s, v| s.max(v.abs()));
    let n = a.nrows();
    a.iter().all(|v| v.is_finite())
        && (0..n).all(|i| (0..i).all(|j| (a[(i, j)] - a[(j, i)]).abs() <= 1e-10 * largest))
}

/// Whether a matrix is square, finite, symmetric to rounding and positive definite.
pub fn is_symmetric_pd<N: Dim>(a: &OMatrix<f64, N, N>) -> bool
where
    DefaultAllocator: Allocator<N, N>,
{
    a.is_square() && is_symmetric(a) && nalgebra::Cholesky::new(a.clone()).is_some()
}
