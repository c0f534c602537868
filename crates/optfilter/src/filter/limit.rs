//! A Gaussian of which some directions are wholly unknown, exactly: N(m, P + k A A') with k towards infinity.
//!
//! A is n x d, one column for each unknown. A step carries it along, A <- F A. A measurement is taken one component after the other,
//! each with its row h of H and its variance r; those that depend on one another are first made independent, by R = L D L'.
//!
//! ```text
//! M = P h',  f = h M + r,  e = A' h'
//! e /= 0   g = A e / |e|^2,  A <- A T  (T: d x (d-1), T' T = 1, T' e = 0),  ln p = -(ln 2 pi + ln |e|^2) / 2
//! e = 0    g = M / f,                                                       ln p = -(ln 2 pi + ln f + v^2 / f) / 2
//! both     m <- m + g v,  P <- (I - g h) P (I - g h)' + g r g'
//! ```
//!
//! The likelihood is the limit of the usual one plus half a ln k for every unknown that a component resolves. Each such component
//! takes a column from A; when none is left the usual filter goes on.
//!
//! A A' is the diffuse part of the covariance, P_inf, in the reference, and |e|^2 is F_inf. A factor cannot become indefinite, and
//! loses a column for good: nothing that rounding leaves of an unknown is resolved once more.
//!
//! Reference: Koopman and Durbin 2000; Durbin and Koopman 2012, sections 5.2, 6.4 and 7.2.2.

use super::gaussian::LN_TAU;
use crate::linalg::{product, sandwich};
use crate::model::likelihood::Observed;
use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector};

/// What is smaller than this, relative to the numbers that it was computed from, is rounding.
const ROUNDING: f64 = 1e-10;

/// N(m, P + k A A'), k towards infinity.
#[derive(Clone, Debug)]
pub(crate) struct Limit<S: Scalar> {
    /// m
    pub(crate) mean: DVector<S>,
    /// P: n x n.
    pub(crate) cov: DMatrix<S>,
    /// A: n x d.
    pub(crate) unknown: DMatrix<S>,
}

/// What a measurement was worth.
pub(crate) struct Learnt<S: Scalar> {
    /// The diffuse one.
    pub(crate) log_likelihood: S,
    /// v' S^-1 v of the components that resolved nothing.
    pub(crate) nis: S,
    /// How many components resolved an unknown.
    pub(crate) resolved: usize,
    /// G: n x m, by which the mean has moved, m <- m + G v.
    pub(crate) gain: DMatrix<S>,
}

/// The finite part of an initial covariance, and a column for each state that is unknown; what the covariance says of these is
/// not read.
pub(crate) fn split<S: Scalar>(mut cov: DMatrix<S>, diffuse: &[bool]) -> (DMatrix<S>, DMatrix<S>) {
    let n = cov.nrows();
    let mut unknown = DMatrix::from_element(n, 0, S::ZERO);
    for i in (0..n).filter(|&i| diffuse.get(i) == Some(&true)) {
        cov.row_mut(i).fill(S::ZERO);
        cov.column_mut(i).fill(S::ZERO);
        let d = unknown.ncols();
        unknown = unknown.insert_column(d, S::ZERO);
        unknown[(i, d)] = S::ONE;
    }
    (cov, unknown)
}

/// F A, without what rounding leaves of zero.
pub(crate) fn carried<S: Scalar>(f: &DMatrix<S>, a: &DMatrix<S>) -> DMatrix<S> {
    let mut out = product(f, a);
    for i in 0..f.nrows() {
        let sizes = (0..f.ncols()).map(|j| f[(i, j)].square() * square(a.row(j).iter()));
        let size = sizes.fold(S::ZERO, |sum, v| sum + v);
        drop_rounding(&mut out, i, size);
    }
    without_nothing(out)
}

/// G B as a part of A, which is all that was unknown before: without what rounding leaves of zero.
pub(crate) fn part_of(a: &DMatrix<f64>, g: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    let mut out = product(g, b);
    let squares: Vec<f64> = a.row_iter().map(|row| square(row.iter())).collect();
    let ratios = (0..out.nrows()).filter(|&i| squares[i] > 0.0);
    let most = ratios.map(|i| square(out.row(i).iter()) / squares[i]).fold(0.0, f64::max);
    for i in 0..out.nrows() {
        match squares[i] > 0.0 {
            true => drop_rounding(&mut out, i, squares[i] * most),
            false => out.row_mut(i).fill(0.0),
        }
    }
    without_nothing(out)
}

/// A without columns of zeros: what dynamics forget is not unknown any more.
fn without_nothing<S: Scalar>(a: DMatrix<S>) -> DMatrix<S> {
    let is_zero = |j: &usize| a.column(*j).iter().all(|v| *v == S::ZERO);
    let gone: Vec<usize> = (0..a.ncols()).filter(is_zero).collect();
    if gone.is_empty() { a } else { a.remove_columns_at(&gone) }
}

/// Makes a row zero that is nothing beside what it was computed from, whose square is `size`.
fn drop_rounding<S: Scalar>(a: &mut DMatrix<S>, row: usize, size: S) {
    if !is_there(square(a.row(row).iter()), size) {
        a.row_mut(row).fill(S::ZERO);
    }
}

/// Whether a square is more than rounding of the squares that it comes from.
fn is_there<S: Scalar>(square: S, size: S) -> bool {
    S::all_lt(size.scale(ROUNDING * ROUNDING), square) && S::all_lt(S::from_f64(1e-200), square)
}

fn square<'a, S: Scalar>(values: impl Iterator<Item = &'a S>) -> S {
    values.fold(S::ZERO, |sum, v| sum + v.square())
}

fn dot<'a, S: Scalar>(a: impl Iterator<Item = &'a S>, b: impl Iterator<Item = &'a S>) -> S {
    a.zip(b).fold(S::ZERO, |sum, (&a, &b)| sum + a * b)
}

/// L^-1 and D of R = L D L', with zeros for what is missing.
fn independent<S: Scalar>(r: &DMatrix<S>, observed: Observed<'_>) -> (DMatrix<S>, DVector<S>) {
    let m = r.nrows();
    let mut l = DMatrix::from_element(m, m, S::ZERO);
    let (mut inverse, mut d) = (l.clone(), DVector::from_element(m, S::ZERO));
    for i in observed.indices(m) {
        inverse[(i, i)] = S::ONE;
        let mut left = r[(i, i)];
        for j in observed.indices(m).take_while(|&j| j < i) {
            let mut v = r[(i, j)];
            for k in 0..j {
                v -= l[(i, k)] * d[k] * l[(j, k)];
            }
            if v == S::ZERO || d[j] == S::ZERO {
                continue;
            }
            l[(i, j)] = v / d[j];
            left -= l[(i, j)] * v;
            for k in 0..=j {
                let less = l[(i, j)] * inverse[(j, k)];
                inverse[(i, k)] -= less;
            }
        }
        // A singular R leaves nothing, but for rounding.
        d[i] = S::select_lt(r[(i, i)].scale(1e-14), left, left, S::ZERO);
    }
    (inverse, d)
}

impl<S: Scalar> Limit<S> {
    /// Whether nothing is unknown any more.
    pub(crate) fn is_proper(&self) -> bool {
        self.unknown.ncols() == 0
    }

    /// Conditions it on a linear measurement: residual v (zero where missing), H (m x n) and R (m x m). `None` if a component that
    /// resolves nothing has no variance; where some `may_repeat` what is known exactly, they say nothing instead.
    pub(crate) fn condition(
        &mut self,
        residual: &DVector<S>,
        h: &DMatrix<S>,
        r: &DMatrix<S>,
        observed: Observed<'_>,
        may_repeat: bool,
    ) -> Option<Learnt<S>> {
        let (n, m) = (self.mean.len(), residual.len());
        let (inverse, noise) = independent(r, observed);
        let (residual, h) = (product(&inverse, residual), product(&inverse, h));
        let start = self.mean.clone();
        let mut gain = DMatrix::from_element(n, m, S::ZERO);
        let mut learnt =
            Learnt { log_likelihood: S::ZERO, nis: S::ZERO, resolved: 0, gain: gain.clone() };
        let mut largest = self.cov.diagonal();
        for i in observed.indices(m) {
            let (h, r) = (h.row(i).transpose(), noise[i]); // h as a column
            // What the components before have moved is no longer a surprise.
            let v = residual[i] - dot(h.iter(), (&self.mean - &start).iter());
            let known = product(&self.cov, &h); // M
            let f = dot(h.iter(), known.iter()) + r;
            let (g, loss) = match self.resolve(&h) {
                Some((g, square)) => {
                    learnt.resolved += 1;
                    (g, square.ln())
                }
                None => {
                    let sizes = h.iter().zip(largest.iter());
                    let size = sizes.fold(S::ZERO, |sum, (h, p)| sum + h.square() * *p);
                    let least = size.scale(ROUNDING * 1e-2).max(S::from_f64(f64::MIN_POSITIVE));
                    if may_repeat && !S::all_lt(least, f) {
                        continue;
                    }
                    if !S::all_lt(S::from_f64(f64::MIN_POSITIVE), f) {
                        return None;
                    }
                    let nis = v * v / f;
                    learnt.nis += nis;
                    (known.map(|v| v / f), f.ln() + nis)
                }
            };
            learnt.log_likelihood -= (loss + S::from_f64(LN_TAU)).scale(0.5);
            self.mean += g.map(|g| g * v);
            let keep = DMatrix::from_fn(n, n, |i, j| {
                let unit = if i == j { S::ONE } else { S::ZERO };
                unit - g[i] * h[j]
            });
            let scaled = g.map(|g| g * r);
            self.cov = sandwich(&keep, &self.cov) + product(&scaled, &g.transpose());
            gain = product(&keep, &gain);
            gain.column_mut(i).copy_from(&g);
            for j in 0..n {
                largest[j] = largest[j].max(self.cov[(j, j)]);
            }
        }
        learnt.gain = product(&gain, &inverse);
        Some(learnt)
    }

    /// The gain of a component with this row of H and |e|^2, if there is an unknown that it resolves, which is then gone.
    fn resolve(&mut self, h: &DVector<S>) -> Option<(DVector<S>, S)> {
        let d = self.unknown.ncols();
        let last = d.checked_sub(1)?;
        let e = product(&self.unknown.transpose(), h);
        let (size, square) = (self.size(h), square(e.iter()));
        if !is_there(square, size) {
            return None;
        }
        let gain = product(&self.unknown, &e).map(|v| v / square);
        // T: the columns but the last of the reflection by u, which takes e to the last axis.
        let length = square.sqrt();
        let (e_last, mut u) = (e[last], e);
        u[last] += S::select_lt(e_last, S::ZERO, -length, length);
        let norm = self::square(u.iter());
        let mut left = self.unknown.columns(0, last).into_owned();
        for i in 0..left.nrows() {
            let row = self.unknown.row(i);
            let along = dot(row.iter(), u.iter()).scale(2.0) / norm;
            for j in 0..last {
                left[(i, j)] -= along * u[j];
            }
            drop_rounding(&mut left, i, self::square(row.iter()));
        }
        self.unknown = without_nothing(left);
        Some((gain, square))
    }

    /// The squares that |e|^2 of a row of H is computed from.
    fn size(&self, h: &DVector<S>) -> S {
        let rows = h.iter().enumerate();
        let sizes = rows.map(|(j, h)| h.square() * square(self.unknown.row(j).iter()));
        sizes.fold(S::ZERO, |sum, v| sum + v)
    }
}

impl Limit<f64> {
    /// P + k A A': infinite where that is.
    pub(crate) fn covariance(&self) -> DMatrix<f64> {
        unbounded(self.cov.clone(), &self.unknown)
    }

    /// S = H P H' + R + k H A A' H'.
    pub(crate) fn innovation_cov(&self, h: &DMatrix<f64>, r: &DMatrix<f64>) -> DMatrix<f64> {
        unbounded(sandwich(h, &self.cov) + r, &carried(h, &self.unknown))
    }
}

/// C + k A A'.
fn unbounded(mut cov: DMatrix<f64>, a: &DMatrix<f64>) -> DMatrix<f64> {
    let lengths: Vec<f64> = a.row_iter().map(|row| row.norm()).collect();
    for i in 0..cov.nrows() {
        for j in 0..cov.ncols() {
            let together = a.row(i).dot(&a.row(j));
            if together.abs() > ROUNDING * lengths[i] * lengths[j] {
                cov[(i, j)] = f64::INFINITY.copysign(together);
            }
        }
    }
    cov
}
