//! Symmetric 3 x 3 matrices over lanes: all that the Lorenz filters need.

use super::lanes::all;
use optfilter::scalar::{Lanes, Scalar};

/// A full 3 x 3 matrix, by rows.
pub type Full<const W: usize> = [[Lanes<W>; 3]; 3];

/// A symmetric matrix: the entries (0,0), (1,0), (1,1), (2,0), (2,1), (2,2).
#[derive(Clone, Copy)]
pub struct Symmetric<const W: usize>(pub [Lanes<W>; 6]);

/// Position of an entry.
const AT: [[usize; 3]; 3] = [[0, 1, 3], [1, 2, 4], [3, 4, 5]];

impl<const W: usize> Symmetric<W> {
    /// All entries zero.
    #[inline(always)]
    pub fn zero() -> Self {
        Self([all(0.0); 6])
    }

    /// The identity.
    #[inline(always)]
    pub fn identity() -> Self {
        Self::zero().add_diagonal(all(1.0))
    }

    /// Entry in row `r` and column `c`.
    #[inline(always)]
    pub fn get(&self, r: usize, c: usize) -> Lanes<W> {
        self.0[AT[r][c]]
    }

    /// `self + d I`.
    #[inline(always)]
    pub fn add_diagonal(mut self, d: Lanes<W>) -> Self {
        for i in [0, 2, 5] {
            self.0[i] += d;
        }
        self
    }

    /// `self + w a a'`.
    #[inline(always)]
    pub fn add_outer(mut self, w: f64, a: &[Lanes<W>; 3]) -> Self {
        for r in 0..3 {
            for c in 0..=r {
                self.0[AT[r][c]] += (a[r] * a[c]).scale(w);
            }
        }
        self
    }

    /// `self - other`.
    #[inline(always)]
    pub fn subtract(mut self, other: &Self) -> Self {
        for i in 0..6 {
            self.0[i] -= other.0[i];
        }
        self
    }

    /// `A self A'`.
    #[inline(always)]
    pub fn congruence(&self, a: &Full<W>) -> Self {
        let mut half = *a; // A self
        for r in 0..3 {
            for c in 0..3 {
                half[r][c] =
                    a[r][0] * self.get(0, c) + a[r][1] * self.get(1, c) + a[r][2] * self.get(2, c);
            }
        }
        let mut out = Self::zero();
        for r in 0..3 {
            for c in 0..=r {
                out.0[AT[r][c]] =
                    half[r][0] * a[c][0] + half[r][1] * a[c][1] + half[r][2] * a[c][2];
            }
        }
        out
    }

    /// The inverse by cofactors: at this size and with `S >= R` as safe as a factorization, and one division.
    #[inline(always)]
    pub fn inverse(&self) -> Self {
        let [a, b, c, d, e, f] = self.0; // [[a, b, d], [b, c, e], [d, e, f]]
        let c00 = c * f - e * e;
        let c10 = d * e - b * f;
        let c20 = b * e - c * d;
        let scale = all(1.0) / (a * c00 + b * c10 + d * c20);
        Self([
            c00 * scale,
            c10 * scale,
            (a * f - d * d) * scale,
            c20 * scale,
            (b * d - a * e) * scale,
            (a * c - b * b) * scale,
        ])
    }

    /// Lower Cholesky factor; NaN in lanes that are not positive definite.
    #[inline(always)]
    pub fn cholesky(&self) -> Full<W> {
        let zero = all(0.0);
        let [a, b, c, d, e, f] = self.0;
        let l00 = a.sqrt();
        let l10 = b / l00;
        let l20 = d / l00;
        let l11 = (c - l10 * l10).sqrt();
        let l21 = (e - l20 * l10) / l11;
        let l22 = (f - l20 * l20 - l21 * l21).sqrt();
        [[l00, zero, zero], [l10, l11, zero], [l20, l21, l22]]
    }
}

/// Product of two symmetric matrices.
#[inline(always)]
pub fn product<const W: usize>(a: &Symmetric<W>, b: &Symmetric<W>) -> Full<W> {
    let mut out = [[all(0.0); 3]; 3];
    for r in 0..3 {
        for c in 0..3 {
            out[r][c] =
                a.get(r, 0) * b.get(0, c) + a.get(r, 1) * b.get(1, c) + a.get(r, 2) * b.get(2, c);
        }
    }
    out
}

/// Matrix times vector.
#[inline(always)]
pub fn apply<const W: usize>(a: &Full<W>, x: &[Lanes<W>; 3]) -> [Lanes<W>; 3] {
    let mut out = *x;
    for r in 0..3 {
        out[r] = a[r][0] * x[0] + a[r][1] * x[1] + a[r][2] * x[2];
    }
    out
}
