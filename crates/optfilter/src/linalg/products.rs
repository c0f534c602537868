//! Products, of sizes known at compile time as loops.

use super::large;
use crate::scalar::Scalar;
use crate::scratch;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

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
    if const { is_one::<S, R>() } {
        product_into(inner.value(), a.as_slice(), b.as_slice(), out.as_mut_slice());
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

/// Whether products of a kind of number and a size are compiled once, for slices: where the size is no type, and the numbers are single ones
/// (of many at once, lanes or duals, the caller may be in the vector unit, which a function of its own would leave).
pub(super) const fn is_one<S: Scalar, N: Dim>() -> bool {
    !S::MANY && size_of::<N>() > 0
}

/// A B, with the sums of [`product`].
#[inline(never)]
fn product_into<S: Scalar>(inner: usize, a: &[S], b: &[S], out: &mut [S]) {
    if inner == 0 || a.is_empty() || b.is_empty() {
        return;
    }
    let (rows, columns) = (a.len() / inner, b.len() / inner);
    match (rows, inner, columns) {
        (2, 2, 2) => return square::<S, 2>(a, b, out),
        (3, 3, 3) => return square::<S, 3>(a, b, out),
        (4, 4, 4) => return square::<S, 4>(a, b, out),
        _ => {}
    }
    for (b, out) in b.chunks_exact(inner).zip(out.chunks_exact_mut(rows)) {
        for (k, (b, a)) in b.iter().zip(a.chunks_exact(rows)).enumerate() {
            for (out, a) in out.iter_mut().zip(a) {
                *out = if k == 0 { *a * *b } else { *out + *a * *b };
            }
        }
    }
}

/// The same of n x n.
#[inline(always)]
fn square<S: Scalar, const N: usize>(a: &[S], b: &[S], out: &mut [S]) {
    let (a, b) = (a.as_chunks::<N>().0, b.as_chunks::<N>().0);
    let Some(a) = a.first_chunk::<N>() else { return };
    for (b, out) in b.iter().zip(out.as_chunks_mut::<N>().0) {
        *out = core::array::from_fn(|i| {
            let mut sum = a[0][i] * b[0];
            for k in 1..N {
                sum += a[k][i] * b[k];
            }
            sum
        });
    }
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
pub(super) fn dot<S: Scalar>(count: usize, term: impl Fn(usize) -> S) -> S {
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
    if const { is_one::<S, R>() } {
        symmetric_into(inner.value(), a.as_slice(), b.as_slice(), out.as_mut_slice());
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

/// A B' for a product known to be symmetric, with the sums of [`symmetric_product`].
#[inline(never)]
fn symmetric_into<S: Scalar>(inner: usize, a: &[S], b: &[S], out: &mut [S]) {
    let rows = a.len() / inner.max(1);
    match (rows, inner) {
        (2, 2) => mirrored::<S>(2, 2, a, b, out),
        (3, 3) => mirrored::<S>(3, 3, a, b, out),
        (4, 4) => mirrored::<S>(4, 4, a, b, out),
        _ => mirrored(rows, inner, a, b, out),
    }
}

#[inline(always)]
fn mirrored<S: Scalar>(rows: usize, inner: usize, a: &[S], b: &[S], out: &mut [S]) {
    if inner == 0 {
        return;
    }
    let (a, b, out) = (&a[..rows * inner], &b[..rows * inner], &mut out[..rows * rows]);
    for j in 0..rows {
        for i in j..rows {
            let sum = dot(inner, |k| a[k * rows + i] * b[k * rows + j]);
            out[j * rows + i] = sum;
            out[i * rows + j] = sum;
        }
    }
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
