//! Large matrices of plain numbers, or of lanes of them, handed on to [`dense`](crate::dense): each function says whether it
//! has done the work. Lanes go one by one, so each has the bits that it would have alone.

use crate::scalar::Scalar;
#[cfg(feature = "std")]
use alloc::vec;

/// Whether a product of these sizes is made here.
#[inline]
pub(super) fn takes<S: Scalar>(rows: usize, inner: usize, columns: usize) -> bool {
    #[cfg(feature = "std")]
    return S::LANES > 0 && inner > 0 && crate::dense::takes(rows, inner, columns);
    #[cfg(not(feature = "std"))]
    return {
        let _ = (rows, inner, columns);
        false
    };
}

/// Adds A B, or takes it off.
#[inline]
pub(super) fn add<S: Scalar>(inner: usize, sign: f64, a: &[S], b: &[S], out: &mut [S]) -> bool {
    added(inner, sign, a, b, out, false)
}

/// Adds A B', which is symmetric, to what is.
#[inline]
pub(super) fn add_symmetric<S: Scalar>(inner: usize, a: &[S], b: &[S], out: &mut [S]) -> bool {
    added(inner, 1.0, a, b, out, true)
}

#[cfg(feature = "std")]
fn added<S: Scalar>(
    inner: usize,
    sign: f64,
    a: &[S],
    b: &[S],
    out: &mut [S],
    is_symmetric: bool,
) -> bool {
    use crate::dense::{Place, View, add_product, mirror};
    let each = inner.max(1);
    if !takes::<S>(a.len() / each, inner, b.len() / each) {
        return false;
    }
    let rows = a.len() / each;
    let add = |a: &[f64], b: &[f64], sums: &mut [f64]| {
        let half = is_symmetric.then_some(0);
        let mut place = Place { half, ..Place::whole(sums, rows) };
        let b = if is_symmetric { View::new(b, rows).transposed() } else { View::new(b, inner) };
        add_product(&mut place, sign, View::new(a, rows), b, inner);
        if is_symmetric {
            mirror(sums, rows);
        }
    };
    for lane in 0..S::LANES {
        let (a, b) = (S::lane(a, lane), S::lane(b, lane));
        if let Some(out) = S::doubles_mut(out) {
            add(&a, &b, out);
        } else {
            let mut sums = S::lane(out, lane).into_owned();
            add(&a, &b, &mut sums);
            S::set_lane(out, lane, &sums);
        }
    }
    true
}

/// L and D of a symmetric A, and whether all of D is positive.
#[cfg(feature = "std")]
pub(super) fn factor<S: Scalar>(a: &[S], l: &mut [S], pivots: &mut [S]) -> Option<bool> {
    let m = pivots.len();
    if S::LANES == 0 || !crate::dense::takes(m, m, m / 3) {
        return None;
    }
    let mut positive = true;
    for lane in 0..S::LANES {
        let (mut plain, mut diagonal) = (S::lane(a, lane).into_owned(), vec![0.0; m]);
        positive &= crate::dense::factor(&mut plain, &mut diagonal);
        S::set_lane(l, lane, &plain);
        S::set_lane(pivots, lane, &diagonal);
    }
    Some(positive)
}

/// A^-1 B in place, from L and D of A.
#[cfg(feature = "std")]
pub(super) fn solve<S: Scalar>(l: &[S], pivots: &[S], b: &mut [S]) -> bool {
    let m = pivots.len();
    if S::LANES == 0 || m == 0 || !crate::dense::takes(m, m, b.len() / m) {
        return false;
    }
    for lane in 0..S::LANES {
        let (l, pivots) = (S::lane(l, lane), S::lane(pivots, lane));
        if let Some(b) = S::doubles_mut(b) {
            crate::dense::solve(&l, &pivots, b);
        } else {
            let mut x = S::lane(b, lane).into_owned();
            crate::dense::solve(&l, &pivots, &mut x);
            S::set_lane(b, lane, &x);
        }
    }
    true
}

#[cfg(not(feature = "std"))]
fn added<S: Scalar>(_: usize, _: f64, _: &[S], _: &[S], _: &mut [S], _: bool) -> bool {
    false
}

#[cfg(not(feature = "std"))]
pub(super) fn factor<S: Scalar>(_: &[S], _: &mut [S], _: &mut [S]) -> Option<bool> {
    None
}

#[cfg(not(feature = "std"))]
pub(super) fn solve<S: Scalar>(_: &[S], _: &[S], _: &mut [S]) -> bool {
    false
}
