//! Small-matrix kernels: what nalgebra does not have, or does not unroll.
//!
//! nalgebra holds the matrices; products of sizes known at compile time are written here as plain loops
//! that the compiler unrolls completely, and symmetric results are computed once and mirrored. On a
//! 3 x 3 extended Kalman step this is twice as fast as nalgebra's own products (see `bench/`).

use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Products of more multiplications than this go through nalgebra's blocked kernel.
const SMALL: usize = 600;

/// A B.
#[inline(always)]
pub(crate) fn product<R: Dim, K: Dim, C: Dim>(
    a: &OMatrix<f64, R, K>,
    b: &OMatrix<f64, K, C>,
) -> OMatrix<f64, R, C>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, C> + Allocator<R, C>,
{
    let ((rows, inner), columns) = (a.shape_generic(), b.shape_generic().1);
    if rows.value() * inner.value() * columns.value() > SMALL {
        return a * b;
    }
    let mut out = OMatrix::zeros_generic(rows, columns);
    // Column by column, so that neighbours in memory go through the same operations.
    for j in 0..columns.value() {
        for i in 0..rows.value() {
            out[(i, j)] = if inner.value() == 0 { 0.0 } else { a[(i, 0)] * b[(0, j)] };
        }
        for k in 1..inner.value() {
            for i in 0..rows.value() {
                out[(i, j)] += a[(i, k)] * b[(k, j)];
            }
        }
    }
    out
}

/// The sum of `count` terms. It starts from the first term, not from zero: the additions are a chain
/// that the next operation waits for, and adding to zero would be one more link.
#[inline(always)]
fn dot(count: usize, term: impl Fn(usize) -> f64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let mut sum = term(0);
    for k in 1..count {
        sum += term(k);
    }
    sum
}

/// A B' for a product known to be symmetric: the lower triangle is computed and mirrored.
#[inline(always)]
pub(crate) fn symmetric_product<R: Dim, K: Dim>(
    a: &OMatrix<f64, R, K>,
    b: &OMatrix<f64, R, K>,
) -> OMatrix<f64, R, R>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, R> + Allocator<R, R>,
{
    let (rows, inner) = a.shape_generic();
    if rows.value() * inner.value() * rows.value() > SMALL {
        let mut out = a * b.transpose();
        symmetrize(&mut out);
        return out;
    }
    let mut out = OMatrix::zeros_generic(rows, rows);
    for j in 0..rows.value() {
        for i in j..rows.value() {
            let sum = dot(inner.value(), |k| a[(i, k)] * b[(j, k)]);
            out[(i, j)] = sum;
            out[(j, i)] = sum;
        }
    }
    out
}

/// A P A' for symmetric P.
#[inline(always)]
pub(crate) fn sandwich<R: Dim, K: Dim>(
    a: &OMatrix<f64, R, K>,
    p: &OMatrix<f64, K, K>,
) -> OMatrix<f64, R, R>
where
    DefaultAllocator: Allocator<R, K> + Allocator<K, R> + Allocator<K, K> + Allocator<R, R>,
{
    symmetric_product(&product(a, p), a)
}

/// The factors of a symmetric positive definite A = L D L', L unit lower triangular, D diagonal.
///
/// Without the square roots of the Cholesky form the chain from one pivot to the next is half as long,
/// which is what a small factorisation waits for.
#[derive(Clone, Debug)]
pub(crate) struct Factor<M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// L below the diagonal; above it, (L D)'.
    l: OMatrix<f64, M, M>,
    /// D.
    pivots: OVector<f64, M>,
    /// 1 / D.
    inverse: OVector<f64, M>,
}

impl<M: Dim> Factor<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// The factors of A, or `None` if A is not positive definite. Reads the lower triangle only.
    #[inline(always)]
    pub(crate) fn new(a: &OMatrix<f64, M, M>) -> Option<Self> {
        let size = a.shape_generic().0;
        let m = size.value();
        let mut l = OMatrix::zeros_generic(size, size);
        let mut pivots = OVector::zeros_generic(size, U1);
        let mut inverse = OVector::zeros_generic(size, U1);
        let mut positive = true;
        for j in 0..m {
            let mut pivot: f64 = a[(j, j)];
            for k in 0..j {
                pivot -= l[(j, k)] * l[(k, j)];
            }
            // Also false for NaN.
            positive &= pivot > 0.0 && pivot < f64::INFINITY;
            pivots[j] = pivot;
            inverse[j] = 1.0 / pivot;
            for i in j + 1..m {
                let mut v = a[(i, j)];
                for k in 0..j {
                    v -= l[(i, k)] * l[(k, j)];
                }
                l[(j, i)] = v;
                l[(i, j)] = v * inverse[j];
            }
        }
        positive.then_some(Self { l, pivots, inverse })
    }

    /// The Cholesky factor L sqrt(D).
    #[inline(always)]
    pub(crate) fn cholesky(&self) -> OMatrix<f64, M, M> {
        let mut out = self.l.clone();
        for j in 0..out.ncols() {
            let root = Scalar::sqrt(self.pivots[j]);
            for i in 0..out.nrows() {
                out[(i, j)] = match i.cmp(&j) {
                    core::cmp::Ordering::Less => 0.0,
                    core::cmp::Ordering::Equal => root,
                    core::cmp::Ordering::Greater => self.l[(i, j)] * root,
                };
            }
        }
        out
    }

    /// L^-1 B in place.
    #[inline(always)]
    fn solve_lower<C: Dim>(&self, b: &mut OMatrix<f64, M, C>)
    where
        DefaultAllocator: Allocator<M, C>,
    {
        let (rows, columns) = b.shape_generic();
        for c in 0..columns.value() {
            for i in 1..rows.value() {
                let mut v = b[(i, c)];
                for k in 0..i {
                    v -= self.l[(i, k)] * b[(k, c)];
                }
                b[(i, c)] = v;
            }
        }
    }

    /// A^-1 B in place.
    #[inline(always)]
    pub(crate) fn solve<C: Dim>(&self, b: &mut OMatrix<f64, M, C>)
    where
        DefaultAllocator: Allocator<M, C>,
    {
        self.solve_lower(b);
        let (rows, columns) = b.shape_generic();
        for c in 0..columns.value() {
            for i in (0..rows.value()).rev() {
                let mut v = b[(i, c)] * self.inverse[i];
                for k in i + 1..rows.value() {
                    v -= self.l[(k, i)] * b[(k, c)];
                }
                b[(i, c)] = v;
            }
        }
    }

    /// v' A^-1 v.
    #[inline(always)]
    pub(crate) fn quadratic_form(&self, v: &OVector<f64, M>) -> f64 {
        let mut z = v.clone();
        self.solve_lower(&mut z);
        let mut sum = 0.0;
        for i in 0..z.nrows() {
            sum += z[i] * z[i] * self.inverse[i];
        }
        sum
    }

    /// ln det A, with one logarithm for as many factors as fit a double.
    #[inline(always)]
    pub(crate) fn ln_det(&self) -> f64 {
        let (mut product, mut sum) = (1.0f64, 0.0);
        for i in 0..self.pivots.nrows() {
            product *= self.pivots[i];
            if !(1e-100..1e100).contains(&product) {
                sum += Scalar::ln(product);
                product = 1.0;
            }
        }
        sum + Scalar::ln(product)
    }
}

/// Solves with a symmetric positive definite S.
///
/// A step of a filter waits for this: through the factor, one division after the other. Two and three
/// equations that are well conditioned (correlations that leave a determinant above a hundredth of the
/// diagonal's product) are solved by Cramer's rule instead, with one division and errors of at most some
/// 1e-13; all others through the factor.
#[derive(Clone, Debug)]
pub(crate) enum Solver<M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// S^-1 by cofactors, and the determinant of S.
    Cofactors(OMatrix<f64, M, M>, f64),
    Factor(Factor<M>),
}

impl<M: Dim> Solver<M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// `None` if S is not positive definite. Reads the lower triangle only.
    #[inline(always)]
    pub(crate) fn new(s: &OMatrix<f64, M, M>) -> Option<Self> {
        let size = s.shape_generic().0;
        match size.value() {
            2 => {
                let (s00, s10, s11) = (s[(0, 0)], s[(1, 0)], s[(1, 1)]);
                let det = s00 * s11 - s10 * s10;
                if s00 > 0.0 && det > 0.01 * (s00 * s11) && det < f64::INFINITY {
                    let k = 1.0 / det;
                    let mut inverse = OMatrix::zeros_generic(size, size);
                    inverse[(0, 0)] = s11 * k;
                    inverse[(1, 0)] = -s10 * k;
                    inverse[(0, 1)] = -s10 * k;
                    inverse[(1, 1)] = s00 * k;
                    return Some(Self::Cofactors(inverse, det));
                }
            }
            3 => {
                let (s00, s10, s20) = (s[(0, 0)], s[(1, 0)], s[(2, 0)]);
                let (s11, s21, s22) = (s[(1, 1)], s[(2, 1)], s[(2, 2)]);
                let c = [
                    [s11 * s22 - s21 * s21, s21 * s20 - s10 * s22, s10 * s21 - s11 * s20],
                    [0.0, s00 * s22 - s20 * s20, s10 * s20 - s00 * s21],
                    [0.0, 0.0, s00 * s11 - s10 * s10],
                ];
                let det = s00 * c[0][0] + s10 * c[0][1] + s20 * c[0][2];
                // Leading minors above zero: positive definite (Sylvester).
                let definite = s00 > 0.0 && c[2][2] > 0.0;
                if definite && det > 0.01 * (s00 * s11 * s22) && det < f64::INFINITY {
                    let k = 1.0 / det;
                    let mut inverse = OMatrix::zeros_generic(size, size);
                    for i in 0..3 {
                        for j in i..3 {
                            inverse[(i, j)] = c[i][j] * k;
                            inverse[(j, i)] = inverse[(i, j)];
                        }
                    }
                    return Some(Self::Cofactors(inverse, det));
                }
            }
            _ => {}
        }
        Factor::new(s).map(Self::Factor)
    }

    /// S^-1 B.
    #[inline(always)]
    pub(crate) fn solve<C: Dim>(&self, b: &OMatrix<f64, M, C>) -> OMatrix<f64, M, C>
    where
        DefaultAllocator: Allocator<M, C>,
    {
        match self {
            Self::Cofactors(inverse, _) => product(inverse, b),
            Self::Factor(factor) => {
                let mut out = b.clone();
                factor.solve(&mut out);
                out
            }
        }
    }

    /// v' S^-1 v.
    #[inline(always)]
    pub(crate) fn quadratic_form(&self, v: &OVector<f64, M>) -> f64 {
        match self {
            Self::Cofactors(inverse, _) => {
                let z = product(inverse, v);
                dot(v.nrows(), |i| v[i] * z[i])
            }
            Self::Factor(factor) => factor.quadratic_form(v),
        }
    }

    /// ln det S.
    #[inline(always)]
    pub(crate) fn ln_det(&self) -> f64 {
        match self {
            Self::Cofactors(_, det) => Scalar::ln(*det),
            Self::Factor(factor) => factor.ln_det(),
        }
    }
}

/// A R A' for symmetric R; half the work where R is diagonal, as measurement noise mostly is.
#[inline(always)]
pub(crate) fn noise_sandwich<N: Dim, M: Dim>(
    a: &OMatrix<f64, N, M>,
    r: &OMatrix<f64, M, M>,
) -> OMatrix<f64, N, N>
where
    DefaultAllocator: Allocator<N, M> + Allocator<M, N> + Allocator<M, M> + Allocator<N, N>,
{
    let m = r.nrows();
    let diagonal = (0..m).all(|j| (j + 1..m).all(|i| r[(i, j)] == 0.0));
    if !diagonal {
        return sandwich(a, r);
    }
    let mut scaled = a.clone();
    for j in 0..m {
        for i in 0..a.nrows() {
            scaled[(i, j)] *= r[(j, j)];
        }
    }
    symmetric_product(&scaled, a)
}

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
        let root = if null { 0.0 } else { Scalar::sqrt(pivot) };
        l[(j, j)] = root;
        for i in j + 1..n {
            let mut v = a[(i, j)];
            for k in 0..j {
                v -= l[(i, k)] * l[(j, k)];
            }
            if null {
                // A semi-definite matrix has a zero column below a zero pivot.
                if !v.is_finite() || v.abs() > Scalar::sqrt(tiny * scale) {
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
