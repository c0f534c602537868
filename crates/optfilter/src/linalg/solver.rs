//! Solving with symmetric positive definite matrices, in any scalar.

use super::large;
use super::products::{dot, is_one, product};
use crate::scalar::{Lanes, Scalar};
use crate::scratch;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// The factors of a symmetric positive definite A = L D L', L unit lower triangular, D diagonal.
///
/// Without the square roots of the Cholesky form the chain from one pivot to the next is half as long,
/// which is what a small factorisation waits for.
#[derive(Clone, Debug)]
pub(crate) struct Factor<S: Scalar, M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// L below the diagonal; above it, anything.
    l: OMatrix<S, M, M>,
    /// D.
    pivots: OVector<S, M>,
    /// 1 / D.
    inverse: OVector<S, M>,
}

impl<S: Scalar, M: Dim> Factor<S, M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// The factors of A, or `None` if A is not positive definite. Reads the lower triangle only.
    #[inline(always)]
    pub(crate) fn new(a: &OMatrix<S, M, M>) -> Option<Self> {
        if const { is_one::<S, M>() } { Self::once(a) } else { Self::of(a) }
    }

    #[inline(never)]
    fn once(a: &OMatrix<S, M, M>) -> Option<Self> {
        Self::of(a)
    }

    #[inline(always)]
    fn of(a: &OMatrix<S, M, M>) -> Option<Self> {
        let size = a.shape_generic().0;
        let m = size.value();
        let mut l = scratch::zeros(size, size);
        let mut pivots = OVector::from_element_generic(size, U1, S::ZERO);
        let mut inverse = OVector::from_element_generic(size, U1, S::ZERO);
        if M::try_to_usize().is_none()
            && let Some(positive) =
                large::factor(a.as_slice(), l.as_mut_slice(), pivots.as_mut_slice())
        {
            inverse.iter_mut().zip(&pivots).for_each(|(out, v)| *out = S::ONE / *v);
            return positive.then_some(Self { l, pivots, inverse });
        }
        let mut positive = true;
        for j in 0..m {
            let mut pivot = a[(j, j)];
            for k in 0..j {
                pivot -= l[(j, k)] * l[(k, j)];
            }
            // Also false for NaN, and for what has no inverse among the numbers.
            let (least, most) = (S::from_f64(f64::MIN_POSITIVE), S::from_f64(f64::INFINITY));
            positive &= S::all_lt(least, pivot) && S::all_lt(pivot, most);
            pivots[j] = pivot;
            inverse[j] = S::ONE / pivot;
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
    pub(crate) fn cholesky(&self) -> OMatrix<S, M, M> {
        let mut out = self.l.clone();
        for j in 0..out.ncols() {
            let root = self.pivots[j].sqrt();
            for i in 0..out.nrows() {
                out[(i, j)] = match i.cmp(&j) {
                    core::cmp::Ordering::Less => S::ZERO,
                    core::cmp::Ordering::Equal => root,
                    core::cmp::Ordering::Greater => self.l[(i, j)] * root,
                };
            }
        }
        out
    }

    /// L^-1 B in place.
    #[inline(always)]
    fn solve_lower<C: Dim>(&self, b: &mut OMatrix<S, M, C>)
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
    pub(crate) fn solve<C: Dim>(&self, b: &mut OMatrix<S, M, C>)
    where
        DefaultAllocator: Allocator<M, C>,
    {
        if M::try_to_usize().is_none()
            && large::solve(self.l.as_slice(), self.pivots.as_slice(), b.as_mut_slice())
        {
            return;
        }
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
    pub(crate) fn quadratic_form(&self, v: &OVector<S, M>) -> S {
        let mut z = v.clone();
        self.solve_lower(&mut z);
        let mut sum = S::ZERO;
        for i in 0..z.nrows() {
            sum += z[i] * z[i] * self.inverse[i];
        }
        sum
    }

    /// ln det A, with one logarithm for as many factors as fit a double.
    #[inline(always)]
    pub(crate) fn ln_det(&self) -> S {
        let (mut product, mut sum) = (S::ONE, S::ZERO);
        for i in 0..self.pivots.nrows() {
            let before = product;
            product *= self.pivots[i];
            // Lane by lane: what is taken out as a logarithm leaves one behind.
            let (low, high) = (S::from_f64(1e-100), S::from_f64(1e100));
            if !(S::all_lt(low, product) && S::all_lt(product, high)) {
                let taken = S::select_lt(
                    low,
                    product,
                    S::select_lt(product, high, S::ONE, product),
                    product,
                );
                // A product beyond the numbers: what was there before is taken out instead.
                let top = S::select_lt(product, S::from_f64(f64::INFINITY), product, S::ZERO);
                let left = S::select_lt(S::ZERO, top, product / taken, self.pivots[i]);
                sum += S::select_lt(S::ZERO, top, taken, before).ln();
                product = left;
            }
        }
        sum + product.ln()
    }
}

/// Solves with a symmetric positive definite S.
///
/// A step of a filter waits for this: through the factor, one division after the other. Two and three
/// equations that are well conditioned (correlations that leave a determinant above a hundredth of the
/// diagonal's product) are solved by Cramer's rule instead, with one division and errors of at most some
/// 1e-13; all others through the factor.
#[derive(Clone, Debug)]
pub(crate) enum Solver<S: Scalar, M: Dim>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// S^-1 by cofactors, and the determinant of S.
    Cofactors(OMatrix<S, M, M>, S),
    Factor(Factor<S, M>),
    /// The first where the last number is one, the second where it is zero: of lanes that solve in different ways.
    Mixed(OMatrix<S, M, M>, S, Factor<S, M>, S),
}

impl<S: Scalar, M: Dim> Solver<S, M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// `None` if S is not positive definite (in one of its lanes). Reads the lower triangle only.
    #[inline(always)]
    pub(crate) fn new(s: &OMatrix<S, M, M>) -> Option<Self> {
        if const { is_one::<S, M>() } { Self::once(s) } else { Self::of(s) }
    }

    #[inline(never)]
    fn once(s: &OMatrix<S, M, M>) -> Option<Self> {
        Self::of(s)
    }

    #[inline(always)]
    fn of(s: &OMatrix<S, M, M>) -> Option<Self> {
        let size = s.shape_generic().0;
        let (least, infinity) = (S::from_f64(f64::MIN_POSITIVE), S::from_f64(f64::INFINITY));
        match size.value() {
            2 => {
                let (s00, s10, s11) = (s[(0, 0)], s[(1, 0)], s[(1, 1)]);
                let det = s00 * s11 - s10 * s10;
                let conditions =
                    [(S::ZERO, s00), ((s00 * s11).scale(0.01), det), (least, det), (det, infinity)];
                let agree = lanes_agree(conditions);
                if agree != Some(false) {
                    let k = S::ONE / det;
                    let mut inverse = OMatrix::from_element_generic(size, size, S::ZERO);
                    inverse[(0, 0)] = s11 * k;
                    inverse[(1, 0)] = -s10 * k;
                    inverse[(0, 1)] = -s10 * k;
                    inverse[(1, 1)] = s00 * k;
                    return Self::by_cofactors(s, inverse, det, agree, conditions);
                }
            }
            3 => {
                let (s00, s10, s20) = (s[(0, 0)], s[(1, 0)], s[(2, 0)]);
                let (s11, s21, s22) = (s[(1, 1)], s[(2, 1)], s[(2, 2)]);
                let c = [
                    [s11 * s22 - s21 * s21, s21 * s20 - s10 * s22, s10 * s21 - s11 * s20],
                    [S::ZERO, s00 * s22 - s20 * s20, s10 * s20 - s00 * s21],
                    [S::ZERO, S::ZERO, s00 * s11 - s10 * s10],
                ];
                let det = s00 * c[0][0] + s10 * c[0][1] + s20 * c[0][2];
                // Leading minors above zero: positive definite (Sylvester).
                let conditions = [
                    (S::ZERO, s00),
                    (S::ZERO, c[2][2]),
                    ((s00 * s11 * s22).scale(0.01), det),
                    (least, det),
                    (det, infinity),
                ];
                let agree = lanes_agree(conditions);
                if agree != Some(false) {
                    let k = S::ONE / det;
                    let mut inverse = OMatrix::from_element_generic(size, size, S::ZERO);
                    for i in 0..3 {
                        for j in i..3 {
                            inverse[(i, j)] = c[i][j] * k;
                            inverse[(j, i)] = inverse[(i, j)];
                        }
                    }
                    return Self::by_cofactors(s, inverse, det, agree, conditions);
                }
            }
            _ => {}
        }
        Factor::new(s).map(Self::Factor)
    }

    /// By cofactors, in all lanes or in those where the conditions hold.
    #[inline(always)]
    fn by_cofactors<const K: usize>(
        s: &OMatrix<S, M, M>,
        inverse: OMatrix<S, M, M>,
        det: S,
        agree: Option<bool>,
        conditions: [(S, S); K],
    ) -> Option<Self> {
        match agree {
            Some(_) => Some(Self::Cofactors(inverse, det)),
            None => Some(Self::Mixed(inverse, det, Factor::new(s)?, all_hold(conditions))),
        }
    }

    /// What is large of it is kept for the next.
    #[inline(always)]
    pub(crate) fn keep(self) {
        if let Self::Factor(factor) = self {
            scratch::keep_matrix(factor.l);
        }
    }

    /// S^-1 B.
    #[inline(always)]
    pub(crate) fn solve<C: Dim>(&self, b: &OMatrix<S, M, C>) -> OMatrix<S, M, C>
    where
        DefaultAllocator: Allocator<M, C>,
    {
        if const { is_one::<S, M>() } { self.solve_once(b) } else { self.solve_here(b) }
    }

    #[inline(never)]
    fn solve_once<C: Dim>(&self, b: &OMatrix<S, M, C>) -> OMatrix<S, M, C>
    where
        DefaultAllocator: Allocator<M, C>,
    {
        self.solve_here(b)
    }

    #[inline(always)]
    fn solve_here<C: Dim>(&self, b: &OMatrix<S, M, C>) -> OMatrix<S, M, C>
    where
        DefaultAllocator: Allocator<M, C>,
    {
        match self {
            Self::Cofactors(inverse, _) => product(inverse, b),
            Self::Factor(factor) => {
                let mut out = scratch::copy(b);
                factor.solve(&mut out);
                out
            }
            Self::Mixed(inverse, _, factor, which) => {
                let mut out = b.clone();
                factor.solve(&mut out);
                let other = product(inverse, b);
                out.zip_apply(&other, |a, b| *a = S::select_lt(S::ZERO, *which, b, *a));
                out
            }
        }
    }

    /// v' S^-1 v.
    #[inline(always)]
    pub(crate) fn quadratic_form(&self, v: &OVector<S, M>) -> S {
        match self {
            Self::Cofactors(inverse, _) => cofactor_form(inverse, v),
            Self::Factor(factor) => factor.quadratic_form(v),
            Self::Mixed(inverse, _, factor, which) => {
                S::select_lt(S::ZERO, *which, cofactor_form(inverse, v), factor.quadratic_form(v))
            }
        }
    }

    /// ln det S.
    #[inline(always)]
    pub(crate) fn ln_det(&self) -> S {
        match self {
            Self::Cofactors(_, det) => det.ln(),
            Self::Factor(factor) => factor.ln_det(),
            Self::Mixed(_, det, factor, which) => {
                S::select_lt(S::ZERO, *which, det.ln(), factor.ln_det())
            }
        }
    }
}

/// v' A v.
#[inline(always)]
fn cofactor_form<S: Scalar, M: Dim>(a: &OMatrix<S, M, M>, v: &OVector<S, M>) -> S
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    let z = product(a, v);
    dot(v.nrows(), |i| v[i] * z[i])
}

impl<M: Dim> Solver<f64, M>
where
    DefaultAllocator: Allocator<M, M> + Allocator<M>,
{
    /// v' S^-1 v of many v beside one another, with room for one more of them: to the bit what each has alone.
    #[inline(always)]
    pub(crate) fn quadratic_forms<const W: usize>(
        &self,
        v: &OVector<Lanes<W>, M>,
        room: &mut OVector<Lanes<W>, M>,
    ) -> Lanes<W> {
        let m = v.nrows();
        match self {
            Self::Cofactors(inverse, _) => {
                for i in 0..m {
                    room[i] = v[0].scale(inverse[(i, 0)]);
                    for k in 1..m {
                        room[i] += v[k].scale(inverse[(i, k)]);
                    }
                }
                dot(m, |i| v[i] * room[i])
            }
            // One number alone is never of two minds.
            Self::Factor(factor) | Self::Mixed(_, _, factor, _) => {
                let mut sum = Lanes([0.0; W]);
                for i in 0..m {
                    let mut z = v[i];
                    for k in 0..i {
                        z -= room[k].scale(factor.l[(i, k)]);
                    }
                    room[i] = z;
                    sum += (z * z).scale(factor.inverse[i]);
                }
                sum
            }
        }
    }

    /// Many solvers as lanes of one; `None` if some solve by cofactors and others through the factor.
    #[inline(always)]
    pub(crate) fn side_by_side<const W: usize>(each: &[&Self; W]) -> Option<Solver<Lanes<W>, M>> {
        if let Self::Cofactors(first, _) = each[0] {
            let (mut inverses, mut determinants) = ([first; W], Lanes([0.0; W]));
            for (lane, solver) in each.iter().enumerate() {
                let Self::Cofactors(inverse, det) = solver else { return None };
                (inverses[lane], determinants.0[lane]) = (inverse, *det);
            }
            let (rows, columns) = first.shape_generic();
            let inverse = OMatrix::from_fn_generic(rows, columns, |i, j| {
                Lanes(core::array::from_fn(|lane| inverses[lane][(i, j)]))
            });
            return Some(Solver::Cofactors(inverse, determinants));
        }
        let Self::Factor(first) = each[0] else { return None };
        let mut factors = [first; W];
        for (lane, solver) in each.iter().enumerate() {
            let Self::Factor(factor) = solver else { return None };
            factors[lane] = factor;
        }
        let (rows, columns) = first.l.shape_generic();
        let of = |read: &dyn Fn(&Factor<f64, M>) -> f64| {
            Lanes(core::array::from_fn(|lane| read(factors[lane])))
        };
        Some(Solver::Factor(Factor {
            l: OMatrix::from_fn_generic(rows, columns, |i, j| of(&|f| f.l[(i, j)])),
            pivots: OVector::from_fn_generic(rows, U1, |i, _| of(&|f| f.pivots[i])),
            inverse: OVector::from_fn_generic(rows, U1, |i, _| of(&|f| f.inverse[i])),
        }))
    }
}

/// Whether every `a < b` holds in all lanes (`true`), or in none of them (`false`); `None` where lanes differ.
#[inline(always)]
fn lanes_agree<S: Scalar, const K: usize>(conditions: [(S, S); K]) -> Option<bool> {
    if conditions.iter().all(|&(a, b)| S::all_lt(a, b)) {
        return Some(true);
    }
    S::all_lt(all_hold(conditions), S::ONE).then_some(false)
}

/// One in the lanes where every `a < b` holds, zero in the others.
#[inline(always)]
fn all_hold<S: Scalar, const K: usize>(conditions: [(S, S); K]) -> S {
    conditions.into_iter().fold(S::ONE, |holds, (a, b)| S::select_lt(a, b, holds, S::ZERO))
}
