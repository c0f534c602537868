//! Conditioning in factors: what is lost when a large covariance meets small noise is never formed.
//!
//! ```text
//! [ D  W^1/2 ]            [ C   0 ]      C C' = D D' + W,  the covariance of what is seen
//! [ L    0   ]  times U = [ K   M ]      K C^-1 = the gain,  M M' = what is left of L L'
//! ```
//!
//! with an orthogonal U (Householder). Rows of the transposed array go from large to small, which keeps the errors of each in its own
//! units (Powell and Reid 1969; Cox and Higham 1998).
//!
//! Reference: Kailath, Sayed and Hassibi 2000, chapter 12.

use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector};

/// A pivot below this share of its row is rounding.
const ROUNDING: f64 = 1e-14;

/// Something seen, and what it leaves of what was unknown.
pub(crate) struct Seen<S: Scalar> {
    /// C: k x k, lower.
    root: DMatrix<S>,
    /// K: n x k.
    cross: DMatrix<S>,
    /// M: n x n.
    pub(crate) left: DMatrix<S>,
}

impl<S: Scalar> Seen<S> {
    /// From L (n x n), D (k x n) and W (k x k). Of plain numbers and derivatives, not of lanes: they take ways of their own.
    pub(crate) fn new(l: &DMatrix<S>, d: &DMatrix<S>, w: &DMatrix<S>) -> Self {
        let (n, k) = (l.nrows(), d.nrows());
        let noise = factor(w);
        // The array transposed: what is large first.
        let mut rows: Vec<DVector<S>> = (0..n + k)
            .map(|i| {
                DVector::from_fn(n + k, |j, _| match (i < n, j < k) {
                    (true, true) => d[(j, i)],
                    (true, false) => l[(j - k, i)],
                    (false, true) => noise[(j, i - n)],
                    (false, false) => S::ZERO,
                })
            })
            .collect();
        let size = |row: &DVector<S>| row.iter().fold(S::ZERO, |a, v| larger(a, v.abs()));
        for i in 1..rows.len() {
            let mut j = i;
            while j > 0 && S::all_lt(size(&rows[j - 1]), size(&rows[j])) {
                rows.swap(j - 1, j);
                j -= 1;
            }
        }
        let mut a = DMatrix::from_fn(n + k, n + k, |i, j| rows[i][j]);
        for j in 0..n + k {
            reflect(&mut a, j);
        }
        Self {
            root: DMatrix::from_fn(k, k, |i, j| if j <= i { a[(j, i)] } else { S::ZERO }),
            cross: DMatrix::from_fn(n, k, |i, j| a[(j, k + i)]),
            left: DMatrix::from_fn(n, n, |i, j| if j <= i { a[(k + j, k + i)] } else { S::ZERO }),
        }
    }

    /// C^-1 b, zero in the directions that are not seen.
    pub(crate) fn whitened(&self, b: &DVector<S>) -> DVector<S> {
        let mut z = b.clone();
        for i in 0..z.len() {
            for j in 0..i {
                z[i] = z[i] - self.root[(i, j)] * z[j];
            }
            z[i] = self.over(z[i], i);
        }
        z
    }

    /// The gain: n x k.
    pub(crate) fn gain(&self) -> DMatrix<S> {
        let (n, k) = self.cross.shape();
        let mut out = self.cross.clone();
        for row in 0..n {
            for j in (0..k).rev() {
                let mut v = out[(row, j)];
                for i in j + 1..k {
                    v -= out[(row, i)] * self.root[(i, j)];
                }
                out[(row, j)] = self.over(v, j);
            }
        }
        out
    }

    /// K z: what a whitened difference moves.
    pub(crate) fn moved(&self, z: &DVector<S>) -> DVector<S> {
        DVector::from_fn(self.cross.nrows(), |i, _| {
            (0..z.len()).fold(S::ZERO, |sum, j| sum + self.cross[(i, j)] * z[j])
        })
    }

    /// ln det C C'.
    pub(crate) fn ln_det(&self) -> S {
        let each = (0..self.root.nrows()).map(|i| self.root[(i, i)].abs().ln());
        each.fold(S::ZERO, |sum, v| sum + v).scale(2.0)
    }

    fn over(&self, v: S, i: usize) -> S {
        let row = (0..=i).fold(S::ZERO, |a, j| larger(a, self.root[(i, j)].abs()));
        let pivot = self.root[(i, i)];
        let is_seen = S::all_lt(row.scale(ROUNDING), pivot.abs());
        // What is no number is none in any direction.
        if is_seen || !v.is_finite() { v / pivot } else { S::ZERO }
    }
}

fn larger<S: Scalar>(a: S, b: S) -> S {
    S::select_lt(a, b, b, a)
}

/// Makes column `j` zero below its diagonal by a reflection of the rows from there on.
fn reflect<S: Scalar>(a: &mut DMatrix<S>, j: usize) {
    let size = a.nrows();
    // In units of its largest, whose square may be no number.
    let largest = (j..size).fold(S::ZERO, |most, i| larger(most, a[(i, j)].abs()));
    if !S::all_lt(S::ZERO, largest) {
        return;
    }
    let mut v: Vec<S> = (j..size).map(|i| a[(i, j)] / largest).collect();
    let norm = v.iter().fold(S::ZERO, |sum, v| sum + *v * *v).sqrt();
    let towards = if S::all_lt(v[0], S::ZERO) { norm } else { -norm };
    v[0] -= towards;
    let square = v.iter().fold(S::ZERO, |sum, v| sum + *v * *v);
    for c in j + 1..size {
        let dot = v.iter().zip(j..).fold(S::ZERO, |sum, (v, i)| sum + *v * a[(i, c)]);
        let by = (dot + dot) / square;
        for (v, i) in v.iter().zip(j..) {
            a[(i, c)] -= *v * by;
        }
    }
    a[(j, j)] = towards * largest;
    for i in j + 1..size {
        a[(i, j)] = S::ZERO;
    }
}

/// L with L L' = A for a covariance, however close to singular: the component of which most is left, in its own units, comes first, and
/// what rounding has made negative is left out. Not triangular.
pub(crate) fn factor<S: Scalar>(a: &DMatrix<S>) -> DMatrix<S> {
    let n = a.nrows();
    let mut out = DMatrix::from_element(n, n, S::ZERO);
    let mut left: Vec<(usize, S)> = (0..n).map(|i| (i, a[(i, i)])).collect();
    for k in 0..n {
        let share = |&(i, rest): &(usize, S)| rest / a[(i, i)];
        left.retain(|(_, rest)| S::all_lt(S::ZERO, *rest));
        let Some(mut most) = (!left.is_empty()).then_some(0) else { break };
        for place in 1..left.len() {
            if S::all_lt(share(&left[most]), share(&left[place])) {
                most = place;
            }
        }
        let (pivot, rest) = left.remove(most);
        let root = rest.sqrt();
        out[(pivot, k)] = root;
        for (i, rest) in &mut left {
            let mut v = a[(*i, pivot)];
            for c in 0..k {
                v -= out[(*i, c)] * out[(pivot, c)];
            }
            let v = v / root;
            out[(*i, k)] = v;
            *rest -= v * v;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A direction that is not seen moves nothing, unless what is seen there is no number.
    #[test]
    fn what_is_no_number_is_not_left_out() {
        let l = DMatrix::from_row_slice(2, 2, &[1.0, 0.0, 0.0, 0.0]);
        let seen = Seen::new(&l, &l, &DMatrix::zeros(2, 2));
        assert_eq!(seen.whitened(&DVector::from_column_slice(&[0.0, 3.0])).as_slice(), [0.0, 0.0]);
        assert!(seen.whitened(&DVector::from_column_slice(&[0.0, f64::NAN]))[1].is_nan());
    }
}
