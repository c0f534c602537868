//! Automatic derivatives of vector functions, forward, in chunks of directions.
//!
//! A function R^n -> R^m is evaluated in [`Dual`] numbers that carry several directions at once: as
//! many as there are inputs up to four, else eight at a time (four where numbers are lanes or duals already). Buffers have the size of the function's
//! dimensions, so nothing is allocated when those are known at compile time.

use crate::scalar::{Dual, Scalar, VectorFunction};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// What a dimension is, as far as the compiler knows. (There is no other way to ask in a constant than by sizes: a dimension that is known
/// takes no memory, and a vector of bytes of that length takes its length.)
const fn known<N: Dim>() -> Option<usize>
where
    DefaultAllocator: Allocator<N>,
{
    match size_of::<N>() {
        0 => Some(size_of::<OVector<u8, N>>()),
        _ => None,
    }
}

/// Whether a dimension may be `n`.
const fn may_be<N: Dim>(n: usize) -> bool
where
    DefaultAllocator: Allocator<N>,
{
    match known::<N>() {
        Some(known) => known == n,
        None => true,
    }
}

/// Whether a dimension may be larger than `n`.
const fn may_exceed<N: Dim>(n: usize) -> bool
where
    DefaultAllocator: Allocator<N>,
{
    match known::<N>() {
        Some(known) => known > n,
        None => true,
    }
}

/// Calls `$body` with the constant `$width` set to the number of directions to carry for `$n` inputs of dimension `$N`. Every width is a copy of every
/// model in machine code, so there are only those that can be: one where the dimension is known, two for numbers that are many already, lanes or duals.
macro_rules! with_width {
    ($scalar:ty, $N:ty, $n:expr, $width:ident, $body:expr) => {
        match $n {
            1 if const { may_be::<$N>(1) } => {
                const $width: usize = 1;
                $body
            }
            _ if const { <$scalar>::MANY && may_exceed::<$N>(1) } => {
                const $width: usize = 4;
                $body
            }
            2 if const { !<$scalar>::MANY && may_be::<$N>(2) } => {
                const $width: usize = 2;
                $body
            }
            3 if const { !<$scalar>::MANY && may_be::<$N>(3) } => {
                const $width: usize = 3;
                $body
            }
            4 if const { !<$scalar>::MANY && may_be::<$N>(4) } => {
                const $width: usize = 4;
                $body
            }
            _ if const { !<$scalar>::MANY && may_exceed::<$N>(4) } => {
                const $width: usize = 8;
                $body
            }
            // No inputs, no directions.
            _ => {}
        }
    };
}

/// f at `x` with the directions `first .. first + D` seeded.
#[inline(always)]
fn eval_chunk<S: Scalar, F: VectorFunction, N: Dim, M: Dim, const D: usize>(
    f: &F,
    x: &[S],
    n: N,
    m: M,
    first: usize,
) -> OVector<Dual<S, D>, M>
where
    DefaultAllocator: Allocator<N> + Allocator<M>,
{
    let mut point = OVector::<Dual<S, D>, N>::from_element_generic(n, U1, Dual::ZERO);
    for (j, p) in point.as_mut_slice().iter_mut().enumerate() {
        *p = Dual::variable(x[j], j.wrapping_sub(first));
    }
    let mut out = OVector::<Dual<S, D>, M>::from_element_generic(m, U1, Dual::ZERO);
    f.eval(point.as_slice(), out.as_mut_slice());
    out
}

/// The value and the Jacobian (m x n) of `f` at `x`.
#[inline(always)]
pub fn jacobian<S, F, N, M>(f: &F, x: &[S], n: N, m: M) -> (OVector<S, M>, OMatrix<S, M, N>)
where
    S: Scalar,
    F: VectorFunction,
    N: Dim,
    M: Dim,
    DefaultAllocator: Allocator<N> + Allocator<M> + Allocator<M, N>,
{
    let mut value = OVector::<S, M>::from_element_generic(m, U1, S::ZERO);
    let mut matrix = OMatrix::<S, M, N>::from_element_generic(m, n, S::ZERO);
    with_width!(S, N, n.value(), D, {
        let mut first = 0;
        while first < n.value() {
            let out = eval_chunk::<S, F, N, M, D>(f, x, n, m, first);
            for i in 0..m.value() {
                value[i] = out[i].re;
                for d in 0..D.min(n.value() - first) {
                    matrix[(i, first + d)] = out[i].eps[d];
                }
            }
            first += D;
        }
    });
    (value, matrix)
}

/// The most numbers whose transposed Jacobian is had by sweeps of duals, and not by a tape: that costs some nanoseconds per operation,
/// which is a few evaluations of sines and some ten of bare products, where sweeps cost as many evaluations as
/// there are eighths of the numbers, of nine times the work.
pub(crate) const UNTAPED: usize = 32;

/// Whether there may be a tape at all, as far as the compiler knows. Second derivatives need duals.
pub(crate) const fn may_be_taped<S: Scalar, N: Dim>() -> bool
where
    DefaultAllocator: Allocator<N>,
{
    cfg!(feature = "std") && !S::DIFFERENTIAL && may_exceed::<N>(UNTAPED)
}

/// Writes the Jacobian of `f` at `x` transposed times `r`.
#[inline(always)]
pub fn pull_back_vector<S, F, N, M>(f: &F, x: &[S], n: N, m: M, r: &[S], out: &mut [S])
where
    S: Scalar,
    F: VectorFunction,
    N: Dim,
    M: Dim,
    DefaultAllocator: Allocator<N> + Allocator<M>,
{
    #[cfg(feature = "std")]
    if const { may_be_taped::<S, N>() } && n.value() > UNTAPED {
        return crate::scalar::tape::vjp(f, x, r, out);
    }
    vjp(f, x, n, m, |_, score| score.copy_from_slice(r), out);
}

/// The gradient at `x` of a loss of f(x), given the loss's gradient with respect to f(x).
///
/// `score` reads f(x) and writes the loss's gradient there; the result is the Jacobian transposed
/// times that, without the Jacobian ever being stored.
#[inline(always)]
pub fn vjp<S, F, N, M>(
    f: &F,
    x: &[S],
    n: N,
    m: M,
    score: impl FnOnce(&[S], &mut [S]),
    out: &mut [S],
) where
    S: Scalar,
    F: VectorFunction,
    N: Dim,
    M: Dim,
    DefaultAllocator: Allocator<N> + Allocator<M>,
{
    let mut r = OVector::<S, M>::from_element_generic(m, U1, S::ZERO);
    #[cfg(feature = "std")]
    if const { may_be_taped::<S, N>() } && n.value() > UNTAPED {
        let mut value = r.clone();
        f.eval(x, value.as_mut_slice());
        score(value.as_slice(), r.as_mut_slice());
        return crate::scalar::tape::vjp(f, x, r.as_slice(), out);
    }
    let mut score = Some(score);
    with_width!(S, N, n.value(), D, {
        let mut first = 0;
        while first < n.value() {
            let image = eval_chunk::<S, F, N, M, D>(f, x, n, m, first);
            if let Some(score) = score.take() {
                let mut value = r.clone();
                for i in 0..m.value() {
                    value[i] = image[i].re;
                }
                score(value.as_slice(), r.as_mut_slice());
            }
            for d in 0..D.min(n.value() - first) {
                let mut sum = S::ZERO;
                for i in 0..m.value() {
                    sum += r[i] * image[i].eps[d];
                }
                out[first + d] = sum;
            }
            first += D;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Const, Dyn};

    struct Product;
    impl VectorFunction for Product {
        fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
            out[0] = x.iter().fold(S::ONE, |p, &v| p * v);
            out[1] = x.iter().fold(S::ZERO, |p, &v| p + v.sin());
        }
    }

    #[test]
    fn sizes_that_types_have_are_known() {
        use nalgebra::{U0, U3, U7};
        assert_eq!([known::<U0>(), known::<U3>(), known::<U7>()], [Some(0), Some(3), Some(7)]);
        assert_eq!(known::<Dyn>(), None);
        assert!(may_be::<Dyn>(3) && may_be::<U3>(3) && !may_be::<U3>(2));
        assert!(may_exceed::<Dyn>(4) && may_exceed::<U7>(4) && !may_exceed::<U3>(4));
    }

    #[test]
    fn every_chunk_width_gives_the_same_jacobian() {
        for n in [1, 2, 3, 4, 5, 8, 9, 17] {
            let x: alloc::vec::Vec<f64> = (0..n).map(|i| 0.5 + 0.1 * i as f64).collect();
            let (value, matrix) = jacobian(&Product, &x, Dyn(n), Const::<2>);
            let product: f64 = x.iter().product();
            assert!((value[0] - product).abs() <= 1e-12 * product);
            for j in 0..n {
                assert!((matrix[(0, j)] - product / x[j]).abs() <= 1e-12 * product / x[j]);
                assert!((matrix[(1, j)] - x[j].cos()).abs() <= 1e-15);
            }
            let mut g = alloc::vec![0.0; n];
            vjp(&Product, &x, Dyn(n), Const::<2>, |_, r| r.copy_from_slice(&[2.0, -1.0]), &mut g);
            for j in 0..n {
                let expected = 2.0 * matrix[(0, j)] - matrix[(1, j)];
                assert!((g[j] - expected).abs() <= 1e-12 * (1.0 + expected.abs()));
            }
        }
    }
}
