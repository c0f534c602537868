//! Linear models whose coefficients depend on nothing but the length of a step.
//!
//! ```text
//! P- = F P F' + Q,   S = H P- H' + R,   G = P- H' S^-1,   P = (I - G H) P- (I - G H)' + G R G'
//! m <- F m + b,   v = y - H m - c,   m <- m + G v,   ln p = -(v' S^-1 v + ln det S + m ln 2 pi) / 2
//! ```
//!
//! The first line knows nothing of what was measured. In exact numbers P comes ever nearer to a fixed point; in numbers of
//! finitely many digits it gets there, or into a short cycle around it, derivatives included. Once a covariance is, to the
//! bit, one of those before it (Brent's search), the gains of that cycle serve every further row, and a row costs what its mean
//! costs. Nothing is approximated: the recursion would have given the same bits. A row with gaps or with another step
//! leaves the cycle, and the recursion goes on until it is back.
//!
//! F and H are mostly zeros in models of trends and seasons, and only what is not is multiplied. With K = (I - G H) P-, the
//! Joseph form is K - (K H') G' + G R G', of n^2 m multiplications.
//!
//! Reference: Anderson and Moore 1979, chapter 4; Brent 1980.

use super::family::{Family, jacobian};
use super::flow::Flow;
use super::setting::{Row, Setting};
use crate::Shapes;
use crate::error::FilterError;
use crate::filter::gaussian::{ln_turns, log_density, not_positive_definite};
use crate::filter::limit::Limit as Belief;
use crate::linalg::{Solver, product};
use crate::model::likelihood::{Observed, masked_cov};
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{
    Const, DMatrix, DVector, DefaultAllocator, Dim, Dyn, Matrix, OMatrix, OVector, RawStorage, U1,
};

/// The entries of a matrix that are not zero, with row and column.
type Terms<S> = Vec<(usize, usize, S)>;

/// Lengths of steps whose coefficients are kept.
const STRIDES: usize = 8;
/// The longest cycle that is looked for.
const CYCLE: usize = 64;
/// Phases of a cycle that a covariance on its way back is compared with.
const ENTRIES: usize = 4;

/// The log-likelihood of the rows that are left, on top of `sum`.
pub(super) fn remaining<'a, S: Scalar, F: Family>(
    family: &F,
    setting: &Setting<S>,
    flow: Flow<S>,
    belief: Belief<S>,
    sum: S,
    rows: impl Iterator<Item = Row<'a>>,
) -> Result<S, FilterError> {
    macro_rules! sized {
        ($n:expr, $m:expr) => {
            Walk::new(family, setting, flow, &belief, $n, $m).run(sum, rows)
        };
    }
    // Sizes that the compiler unrolls; unoptimised, it would only take longer over them.
    #[cfg(not(debug_assertions))]
    match family.dims() {
        (1, 1) => return sized!(Const::<1>, Const::<1>),
        (2, 1) => return sized!(Const::<2>, Const::<1>),
        (2, 2) => return sized!(Const::<2>, Const::<2>),
        (3, 1) => return sized!(Const::<3>, Const::<1>),
        (4, 1) => return sized!(Const::<4>, Const::<1>),
        (4, 2) => return sized!(Const::<4>, Const::<2>),
        _ => {}
    }
    #[cfg(debug_assertions)]
    if family.dims() == (3, 1) {
        return sized!(Const::<3>, Const::<1>);
    }
    let (n, m) = family.dims();
    sized!(Dyn(n), Dyn(m))
}

/// The coefficients of steps of one length.
struct Stride<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    dt: f64,
    q: OMatrix<S, N, N>,
    /// What of F and H is not zero, row by row.
    f: Terms<S>,
    h: Terms<S>,
    /// b and c where there are no inputs.
    push: OVector<S, N>,
    offset: OVector<S, M>,
}

/// A place of a cycle: how its row is weighed, and the covariance after it.
struct Phase<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    gain: OMatrix<S, N, M>,
    /// S^-1.
    precision: OMatrix<S, M, M>,
    /// m ln 2 pi + ln det S.
    constant: S,
    cov: OMatrix<S, N, N>,
}

/// A cycle of covariances over steps of one length.
struct Cycle<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    dt: f64,
    phases: Vec<Phase<S, N, M>>,
}

struct Walk<'f, F, S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    family: &'f F,
    setting: &'f Setting<S>,
    flow: Flow<S>,
    sizes: (N, M),
    mean: OVector<S, N>,
    cov: OMatrix<S, N, N>,
    r: OMatrix<S, M, M>,
    strides: Vec<Stride<S, N, M>>,
    /// A covariance before, the steps since, and after how many a later one takes its place.
    mark: Option<(OMatrix<S, N, N>, usize, usize)>,
    cycle: Option<Cycle<S, N, M>>,
    /// The phase of the cycle that the covariance is at, if it is; `cov` is then not kept up.
    at: Option<usize>,
}

fn resized<S: Scalar, R: Dim, C: Dim, R0: Dim, C0: Dim, St: RawStorage<S, R0, C0>>(
    (rows, columns): (R, C),
    a: &Matrix<S, R0, C0, St>,
) -> OMatrix<S, R, C>
where
    DefaultAllocator: nalgebra::allocator::Allocator<R, C>,
{
    OMatrix::from_iterator_generic(rows, columns, a.iter().copied())
}

fn terms<S: Scalar>(a: &DMatrix<S>) -> Terms<S> {
    let places = (0..a.nrows()).flat_map(|i| (0..a.ncols()).map(move |j| (i, j)));
    places.map(|(i, j)| (i, j, a[(i, j)])).filter(|(_, _, v)| *v != S::ZERO).collect()
}

/// What a row makes of a covariance.
struct Learnt<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    gain: OMatrix<S, N, M>,
    solver: Solver<S, M>,
    cov: OMatrix<S, N, N>,
}

impl<S: Scalar, N: Dim, M: Dim> Stride<S, N, M>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// F P F' + Q.
    #[inline(always)]
    fn ahead(&self, cov: &OMatrix<S, N, N>) -> OMatrix<S, N, N> {
        let size = cov.shape_generic().0;
        let n = size.value();
        let mut fp = OMatrix::from_element_generic(size, size, S::ZERO);
        for &(i, k, v) in &self.f {
            for j in 0..n {
                fp[(i, j)] += v * cov[(k, j)];
            }
        }
        let mut out = self.q.clone();
        for &(j, k, v) in &self.f {
            for i in j..n {
                out[(i, j)] += fp[(i, k)] * v;
            }
        }
        mirrored(out)
    }

    /// The update of P-; `None` if S is not positive definite. What is missing is a row of zeros in H.
    #[inline(always)]
    fn learn(
        &self,
        ahead: &OMatrix<S, N, N>,
        r: &OMatrix<S, M, M>,
        observed: Observed<'_>,
    ) -> Option<Learnt<S, N, M>> {
        let (size, outputs) = (ahead.shape_generic().0, r.shape_generic().0);
        let (n, m) = (size.value(), outputs.value());
        let h = || self.h.iter().copied().filter(move |(i, _, _)| observed.has(*i));
        let zeros = || OMatrix::from_element_generic(outputs, size, S::ZERO);
        let mut hp = zeros();
        for (i, k, v) in h() {
            for j in 0..n {
                hp[(i, j)] += v * ahead[(k, j)];
            }
        }
        let mut s = r.clone();
        for (j, k, v) in h() {
            for i in j..m {
                s[(i, j)] += hp[(i, k)] * v;
            }
        }
        let solver = Solver::new(&mirrored(s))?;
        let solved = solver.solve(&hp); // G', m x n
        let mut kept = ahead.clone();
        for k in 0..m {
            for j in 0..n {
                for i in 0..n {
                    kept[(i, j)] -= solved[(k, i)] * hp[(k, j)];
                }
            }
        }
        // R G' - H K', m x n: what is left to be multiplied by G.
        let mut rest = zeros();
        for k in 0..m {
            for l in 0..m {
                for j in 0..n {
                    rest[(k, j)] += r[(k, l)] * solved[(l, j)];
                }
            }
        }
        for (i, k, v) in h() {
            for j in 0..n {
                rest[(i, j)] -= v * kept[(j, k)];
            }
        }
        for k in 0..m {
            for j in 0..n {
                for i in j..n {
                    kept[(i, j)] += rest[(k, i)] * solved[(k, j)];
                }
            }
        }
        let gain = OMatrix::from_fn_generic(size, outputs, |i, k| solved[(k, i)]);
        Some(Learnt { gain, solver, cov: mirrored(kept) })
    }
}

/// A matrix whose lower triangle is mirrored.
#[inline(always)]
fn mirrored<S: Scalar, N: Dim>(mut a: OMatrix<S, N, N>) -> OMatrix<S, N, N>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N, N>,
{
    for j in 0..a.ncols() {
        for i in j + 1..a.nrows() {
            a[(j, i)] = a[(i, j)];
        }
    }
    a
}

impl<'f, F: Family, S: Scalar, N: Dim, M: Dim> Walk<'f, F, S, N, M>
where
    DefaultAllocator: Shapes<N, M>,
{
    fn new(
        family: &'f F,
        setting: &'f Setting<S>,
        flow: Flow<S>,
        belief: &Belief<S>,
        n: N,
        m: M,
    ) -> Self {
        Self {
            family,
            setting,
            flow,
            sizes: (n, m),
            mean: resized((n, U1), &belief.mean),
            cov: resized((n, n), &belief.cov),
            r: resized((m, m), &setting.measurement_cov),
            strides: Vec::new(),
            mark: None,
            cycle: None,
            at: None,
        }
    }

    /// The coefficients of the step to a row, by their place.
    fn stride(&mut self, row: &Row<'_>) -> usize {
        let Row { step, .. } = row;
        // Lengths are differences of times, and the same where rounding of those tells them apart.
        let rounding = (4.0 * f64::EPSILON * step.time.abs()).min(1e-6 * step.dt.abs());
        let same = |stride: &Stride<S, N, M>| (stride.dt - step.dt).abs() <= rounding;
        if let Some(at) = self.strides.iter().position(same) {
            return at;
        }
        if self.strides.len() == STRIDES {
            self.strides.remove(0);
        }
        let ((n, m), theta) = (self.sizes, &self.setting.theta);
        let zero = vec![S::ZERO; n.value()];
        let (family, u) = (self.family, row.u);
        let (offset, h) = jacobian(theta, &zero, m.value(), |theta, x, out| {
            family.observe(theta, x, u, step, out);
        });
        let (push, f, q) = self.moved(row);
        self.strides.push(Stride {
            dt: step.dt,
            f: terms(&f),
            h: terms(&h),
            q: resized((n, n), &q),
            push: resized((n, U1), &push),
            offset: resized((m, U1), &offset),
        });
        self.strides.len() - 1
    }

    /// b, F and Q of the step to a row.
    fn moved(&mut self, row: &Row<'_>) -> (DVector<S>, DMatrix<S>, DMatrix<S>) {
        let (n, setting, family) = (self.sizes.0.value(), self.setting, self.family);
        let per_step = || match setting.per_time {
            true => setting.process_cov.map(|v| v.scale(row.step.dt)),
            false => setting.process_cov.clone(),
        };
        let zero = vec![S::ZERO; n];
        if let Some(solved) = self.flow.over(setting, row.step.dt) {
            let mut push = DVector::from_element(n, S::ZERO);
            family.rate(&setting.theta, &zero, row.u, push.as_mut_slice());
            let q = if setting.per_time { solved.q.clone() } else { per_step() };
            return (product(&solved.g, &push), solved.f.clone(), q);
        }
        let (push, f) = jacobian(&setting.theta, &zero, n, |theta, x, out| {
            family.transition(theta, x, row.u, &row.step, out);
        });
        (push, f, per_step())
    }

    /// b of the step to a row with inputs.
    fn pushed(&mut self, row: &Row<'_>) -> OVector<S, N> {
        let (n, setting) = (self.sizes.0, self.setting);
        let (zero, mut out) = (vec![S::ZERO; n.value()], vec![S::ZERO; n.value()]);
        if let Some(solved) = self.flow.over(setting, row.step.dt) {
            self.family.rate(&setting.theta, &zero, row.u, &mut out);
            return resized((n, U1), &product(&solved.g, &DVector::from_vec(out)));
        }
        self.family.transition(&setting.theta, &zero, row.u, &row.step, &mut out);
        OVector::from_iterator_generic(n, U1, out)
    }

    fn run<'a>(
        mut self,
        mut sum: S,
        rows: impl Iterator<Item = Row<'a>>,
    ) -> Result<S, FilterError> {
        for row in rows {
            let moves = row.predict && row.step.dt != 0.0;
            let missing = row.y.iter().filter(|v| v.is_nan()).count();
            let at = self.stride(&row);
            if moves {
                self.carry(&row, at);
            }
            let regular = moves && missing == 0;
            sum += match self.at.filter(|_| regular && self.is_cycling(at)) {
                Some(phase) => self.weigh(&row, at, phase),
                None => {
                    self.leave();
                    if moves {
                        self.cov = self.strides[at].ahead(&self.cov);
                    }
                    if missing == row.y.len() {
                        self.mark = None;
                        continue;
                    }
                    let more = self.update(&row, at, missing > 0)?;
                    self.look(at, regular);
                    more
                }
            };
            // A mean that is not finite makes the next row so.
            if !sum.is_finite() {
                let (index, quantity) = (row.step.index, "log-likelihood");
                return Err(FilterError::Diverged { index, quantity, last_good: Vec::new() });
            }
        }
        Ok(sum)
    }

    /// m <- F m + b.
    #[inline(always)]
    fn carry(&mut self, row: &Row<'_>, at: usize) {
        let given = (!row.u.is_empty()).then(|| self.pushed(row));
        let stride = &self.strides[at];
        let mut mean = OVector::from_element_generic(self.sizes.0, U1, S::ZERO);
        for &(i, j, v) in &stride.f {
            mean[i] += v * self.mean[j];
        }
        mean += given.as_ref().unwrap_or(&stride.push);
        self.mean = mean;
    }

    /// v, zero where nothing was measured.
    #[inline(always)]
    fn residual(&self, row: &Row<'_>, at: usize) -> OVector<S, M> {
        let (stride, (n, m)) = (&self.strides[at], self.sizes);
        let mut v = match row.u.is_empty() {
            true => stride.offset.clone(),
            false => {
                let (zero, mut out) = (vec![S::ZERO; n.value()], vec![S::ZERO; m.value()]);
                self.family.observe(&self.setting.theta, &zero, row.u, &row.step, &mut out);
                OVector::from_iterator_generic(m, U1, out)
            }
        };
        for &(i, j, h) in &stride.h {
            v[i] += h * self.mean[j];
        }
        for (v, y) in v.iter_mut().zip(row.y) {
            *v = if y.is_nan() { S::ZERO } else { S::from_f64(*y) - *v };
        }
        v
    }

    fn is_cycling(&self, at: usize) -> bool {
        self.cycle.as_ref().is_some_and(|cycle| cycle.dt == self.strides[at].dt)
    }

    /// A row of a cycle: the mean alone.
    #[inline(always)]
    fn weigh(&mut self, row: &Row<'_>, at: usize, phase: usize) -> S {
        let v = self.residual(row, at);
        let Some(cycle) = &self.cycle else { return S::ZERO };
        let next = if phase + 1 == cycle.phases.len() { 0 } else { phase + 1 };
        let phase = &cycle.phases[next];
        let nis = (0..v.nrows()).fold(S::ZERO, |sum, i| {
            let weighed = (0..v.nrows()).fold(S::ZERO, |s, j| s + phase.precision[(i, j)] * v[j]);
            sum + v[i] * weighed
        });
        for j in 0..v.nrows() {
            for i in 0..self.mean.nrows() {
                self.mean[i] += phase.gain[(i, j)] * v[j];
            }
        }
        self.at = Some(next);
        (nis + phase.constant).scale(-0.5)
    }

    /// Takes up the covariance where the cycle left it.
    fn leave(&mut self) {
        if let (Some(at), Some(cycle)) = (self.at.take(), &self.cycle) {
            self.cov = cycle.phases[at].cov.clone();
            self.mark = None;
        }
    }

    /// A row by the recursion, its covariance predicted.
    fn update(&mut self, row: &Row<'_>, at: usize, gaps: bool) -> Result<S, FilterError> {
        let (residual, stride) = (self.residual(row, at), &self.strides[at]);
        let mask: Vec<bool>;
        let observed = match gaps {
            false => Observed::All,
            true => {
                mask = row.y.iter().map(|v| !v.is_nan()).collect();
                Observed::Some(&mask)
            }
        };
        let masked = gaps.then(|| masked_cov(&self.r, observed));
        let learnt = stride.learn(&self.cov, masked.as_ref().unwrap_or(&self.r), observed);
        let Learnt { gain, solver, cov } =
            learnt.ok_or_else(|| not_positive_definite("innovation covariance", row.step.index))?;
        let turns = ln_turns(observed.count(residual.nrows()));
        let log_likelihood = log_density(solver.quadratic_form(&residual), &solver, turns);
        self.mean += product(&gain, &residual);
        self.cov = cov;
        Ok(log_likelihood)
    }

    /// Looks whether the covariance has been here before.
    fn look(&mut self, at: usize, regular: bool) {
        if !regular {
            self.mark = None;
            return;
        }
        let dt = self.strides[at].dt;
        if let Some(cycle) = self.cycle.as_ref().filter(|cycle| cycle.dt == dt) {
            let known = cycle.phases.iter().take(ENTRIES);
            self.at = known.into_iter().position(|phase| phase.cov == self.cov);
            if self.at.is_some() {
                return;
            }
        }
        let Some((mark, since, limit)) = &mut self.mark else {
            self.mark = Some((self.cov.clone(), 0, 1));
            return;
        };
        *since += 1;
        if *mark == self.cov {
            let length = *since;
            if let Some(cycle) = self.around(at, length) {
                (self.cycle, self.at) = (Some(cycle), Some(length - 1));
            }
            self.mark = None;
        } else if since == limit {
            self.mark = Some((self.cov.clone(), 0, (2 * *limit).min(CYCLE)));
        }
    }

    /// The cycle of so many rows that ends at the covariance.
    fn around(&self, at: usize, length: usize) -> Option<Cycle<S, N, M>> {
        let (stride, m) = (&self.strides[at], self.sizes.1);
        let mut phases: Vec<Phase<S, N, M>> = Vec::with_capacity(length);
        let mut cov = self.cov.clone();
        for _ in 0..length {
            let learnt = stride.learn(&stride.ahead(&cov), &self.r, Observed::All)?;
            let Learnt { gain, solver, cov: next } = learnt;
            let unit = |i, j| if i == j { S::ONE } else { S::ZERO };
            let precision = solver.solve(&OMatrix::from_fn_generic(m, m, unit));
            let constant = solver.ln_det() + ln_turns(m.value());
            cov = next;
            phases.push(Phase { gain, precision, constant, cov: cov.clone() });
        }
        (cov == self.cov).then(|| Cycle { dt: stride.dt, phases })
    }
}
