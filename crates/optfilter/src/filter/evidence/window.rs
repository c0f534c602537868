//! The likelihood of a window: a path that follows from its first state.
//!
//! ```text
//! l(theta, s) = sum_j ln p(y_j | h(x_j)),    x_0 = s,  x_j = f(x_{j-1})
//! ```
//!
//! The first state s is a nuisance. [`best_start`] finds the s* that is best for given parameters, and by the envelope theorem
//! the profile l(theta, s*(theta)) has the gradient of [`along`] at a fixed s = s*. Searching for parameters and first states
//! at once was tried and rejected: it has as many unknowns as there are windows, and few of them are of interest.
//!
//! s* is found by Levenberg's method with the Gauss-Newton curvature, on the first few rows, then on twice as many, and so on:
//! of a long path of a system that forgets its beginning, or swings, only the neighbourhood of the solution leads there (Pires,
//! Vautard and Talagrand 1996). While rows are few, the guess that it starts from counts as a measurement. Newton's steps with
//! exact second derivatives end it: what is left of the gradient by s is an error of the gradient by theta.
//!
//! The rate of growth of counts, and where they began:
//!
//! ```
//! use nalgebra::DMatrix;
//! use optfilter::filter::evidence::{Begin, Density, Family, Row, along, best_start};
//! use optfilter::model::Step;
//! use optfilter::model::likelihood::{Component, Link, Poisson};
//! use optfilter::scalar::Scalar;
//!
//! struct Growth;
//! impl Family for Growth {
//!     fn dims(&self) -> (usize, usize) {
//!         (1, 1)
//!     }
//!     fn transition<S: Scalar>(&self, rate: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
//!         out[0] = x[0] + rate[0];
//!     }
//!     fn observe<S: Scalar>(&self, _: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
//!         out[0] = x[0].exp();
//!     }
//! }
//! let ys = [3.0, 4.0, 8.0, 11.0];
//! let rows: Vec<Row> = (0..4)
//!     .map(|k| Row { y: &ys[k..=k], u: &[], step: Step::even(k as u64 + 1, 1.0), predict: k > 0 })
//!     .collect();
//! let counts = [Component::Poisson(Poisson { link: Link::Identity })];
//! let density = Density::independent(&counts, &DMatrix::zeros(1, 1))?;
//! let begin = Begin { guess: &[0.0], std: &[2.0], held: &[false] };
//! let s = best_start(&Growth, &[0.5], &density, &begin, &rows)?;
//! // Where expected and true counts add up to the same.
//! let expected: f64 = (0..4).map(|k| (s[0] + 0.5 * f64::from(k)).exp()).sum();
//! assert!((expected - 26.0).abs() < 1e-9);
//! assert!(along(&Growth, &[0.5], &density, &s, &rows)? > along(&Growth, &[0.3], &density, &s, &rows)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::density::Density;
use super::family::Family;
use super::flow::Flow;
use super::setting::{Row, Setting};
use crate::error::FilterError;
use crate::model::likelihood::Observed;
use crate::scalar::{Dual, Scalar};
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{Cholesky, DMatrix, DVector};

/// Where the search for a first state begins.
#[derive(Clone, Copy, Debug)]
pub struct Begin<'a> {
    /// The state to begin at.
    pub guess: &'a [f64],
    /// How far from it the first state may lie; zero or infinite where nothing is known.
    pub std: &'a [f64],
    /// Components that stay where they are.
    pub held: &'a [bool],
}

/// Directions of a derivative that are carried at once.
const WIDTH: usize = 4;
type Slope = Dual<f64, WIDTH>;
type Bend = Dual<Slope, WIDTH>;

/// Rows that a search looks at first.
const FIRST_ROWS: usize = 8;
/// Most iterations on the first rows, and on all.
const ITERATIONS: (usize, usize) = (15, 200);
/// The promised fall of the loss at which it ends there.
const ENOUGH: (f64, f64) = (1e-3, 1e-10);
/// First states up to which exact second derivatives are had; they take the square of passes.
const MAX_NEWTON: usize = 16;

/// ln p of the rows along the path from `start`.
pub fn along<S: Scalar, F: Family>(
    family: &F,
    theta: &[S],
    density: &Density<S>,
    start: &[S],
    rows: &[Row<'_>],
) -> Result<S, FilterError> {
    let mut path = Path::new(family, theta);
    let loss = path.loss(|v| v, density, start, rows)?;
    Ok(-loss - S::from_f64(constants(density, rows)))
}

/// The first state under which the rows are most likely.
pub fn best_start<F: Family>(
    family: &F,
    theta: &[f64],
    density: &Density<f64>,
    begin: &Begin<'_>,
    rows: &[Row<'_>],
) -> Result<Vec<f64>, FilterError> {
    let free: Vec<usize> = (0..begin.guess.len()).filter(|&i| !begin.held[i]).collect();
    let path = Path::new(family, theta);
    let mut search = Search { path, density, begin, free, x: begin.guess.to_vec() };
    if search.free.is_empty() {
        return Ok(search.x);
    }
    let mut end = FIRST_ROWS.max(2 * search.free.len());
    while end < rows.len() {
        search.descend(&rows[..end], true)?;
        end *= 2;
    }
    search.descend(rows, false)?;
    if search.free.len() <= MAX_NEWTON {
        search.polish(rows);
    }
    Ok(search.x)
}

/// Where the path from `start` is after the last row.
pub fn end_of_path<F: Family>(
    family: &F,
    theta: &[f64],
    start: &[f64],
    rows: &[Row<'_>],
) -> Vec<f64> {
    let mut path = Path::new(family, theta);
    let mut x = start.to_vec();
    for row in rows {
        path.advance(|v| v, &mut x, row);
    }
    x
}

/// What the densities of the rows have in them besides what depends on parameters.
fn constants<S: Scalar>(density: &Density<S>, rows: &[Row<'_>]) -> f64 {
    let of = |row: &Row<'_>| with_mask(row.y, |observed| density.constant(row.y, observed));
    rows.iter().filter_map(of).sum()
}

/// Calls `f` with what is observed of `y`, if anything is.
fn with_mask<R>(y: &[f64], f: impl FnOnce(Observed<'_>) -> R) -> Option<R> {
    let missing = y.iter().filter(|v| v.is_nan()).count();
    match missing {
        0 => Some(f(Observed::All)),
        all if all == y.len() => None,
        _ => Some(f(Observed::Some(&y.iter().map(|v| !v.is_nan()).collect::<Vec<_>>()))),
    }
}

/// The dynamics at given parameters.
struct Path<'a, F, S: Scalar> {
    family: &'a F,
    setting: Setting<S>,
    flow: Flow<S>,
}

impl<'a, F: Family, S: Scalar> Path<'a, F, S> {
    fn new(family: &'a F, theta: &[S]) -> Self {
        let (n, m) = family.dims();
        let setting = Setting { theta: theta.to_vec(), ..Setting::new(n, m) };
        Self { family, flow: Flow::new(family, &setting), setting }
    }

    /// Takes a state to a row, in numbers that may carry more than the parameters do.
    fn advance<T: Scalar>(&mut self, lift: impl Fn(S) -> T, x: &mut Vec<T>, row: &Row<'_>) {
        let Row { u, step, predict, .. } = row;
        if !predict || step.dt == 0.0 {
            return;
        }
        let n = x.len();
        let mut next = vec![T::ZERO; n];
        if let Some(solved) = self.flow.over(&self.setting, step.dt) {
            let mut push = vec![S::ZERO; n];
            self.family.rate(&self.setting.theta, &vec![S::ZERO; n], u, &mut push);
            for (i, next) in next.iter_mut().enumerate() {
                for j in 0..n {
                    *next += lift(solved.f[(i, j)]) * x[j] + lift(solved.g[(i, j)] * push[j]);
                }
            }
        } else {
            let theta: Vec<T> = self.setting.theta.iter().map(|&v| lift(v)).collect();
            self.family.transition(&theta, x, u, step, &mut next);
        }
        *x = next;
    }

    /// Calls `seen` with what is measured and expected in each measured row of the path from `start`, angles turned to
    /// within half a turn of one another.
    fn follow<T: Scalar>(
        &mut self,
        lift: impl Fn(S) -> T + Copy,
        start: &[T],
        rows: &[Row<'_>],
        mut seen: impl FnMut(usize, &[T], &[T], Observed<'_>),
    ) -> Result<(), FilterError> {
        let theta: Vec<T> = self.setting.theta.iter().map(|&v| lift(v)).collect();
        let (mut x, m) = (start.to_vec(), self.family.dims().1);
        let (mut eta, mut y) = (vec![T::ZERO; m], vec![T::ZERO; m]);
        for (at, row) in rows.iter().enumerate() {
            self.advance(lift, &mut x, row);
            let family = self.family;
            let finite = with_mask(row.y, |observed| {
                family.observe(&theta, &x, row.u, &row.step, &mut eta);
                for i in observed.indices(m) {
                    let measured = T::from_f64(row.y[i]);
                    y[i] = match family.angle(i) {
                        Some(turn) => eta[i] + (measured - eta[i]).wrap(turn),
                        None => measured,
                    };
                }
                seen(at, &y, &eta, observed);
                observed.indices(m).all(|i| eta[i].is_finite())
            });
            if finite == Some(false) {
                let (index, quantity) = (row.step.index, "path");
                return Err(FilterError::Diverged { index, quantity, last_good: Vec::new() });
            }
        }
        Ok(())
    }

    /// -ln p less what depends on no parameter.
    fn loss<T: Scalar>(
        &mut self,
        lift: impl Fn(S) -> T + Copy,
        density: &Density<S>,
        start: &[T],
        rows: &[Row<'_>],
    ) -> Result<T, FilterError> {
        let mut sum = T::ZERO;
        self.follow(lift, start, rows, |_, y, eta, observed| {
            sum += density.loss(lift, (y, eta), observed);
        })?;
        if sum.is_finite() {
            return Ok(sum);
        }
        let index = rows.last().map_or(1, |row| row.step.index);
        Err(FilterError::Diverged { index, quantity: "log-likelihood", last_good: Vec::new() })
    }
}

/// A search for a first state.
struct Search<'a, F> {
    path: Path<'a, F, f64>,
    density: &'a Density<f64>,
    begin: &'a Begin<'a>,
    free: Vec<usize>,
    x: Vec<f64>,
}

impl<F: Family> Search<'_, F> {
    /// The weight of the guess in component `i`.
    fn trust(&self, i: usize) -> f64 {
        let std = self.begin.std[i];
        if std > 0.0 { 1.0 / (std * std) } else { 0.0 }
    }

    /// The loss at `x`; with `guided` the distance from the guess is part of it.
    fn value(&mut self, x: &[f64], rows: &[Row<'_>], guided: bool) -> Option<f64> {
        let mut sum = self.path.loss(|v| v, self.density, x, rows).ok()?;
        if guided {
            let away = |&i: &usize| 0.5 * self.trust(i) * (x[i] - self.begin.guess[i]).square();
            sum += self.free.iter().map(away).sum::<f64>();
        }
        Some(sum)
    }

    /// The gradient and the Gauss-Newton curvature at the current state.
    fn curve(
        &mut self,
        rows: &[Row<'_>],
        guided: bool,
    ) -> Result<(DVector<f64>, DMatrix<f64>), FilterError> {
        let (p, m) = (self.free.len(), self.path.family.dims().1);
        // J of all rows, and what is measured and expected there.
        let mut slopes = DMatrix::zeros(rows.len() * m, p);
        let mut seen: Vec<(Vec<f64>, Vec<f64>)> = vec![(Vec::new(), Vec::new()); rows.len()];
        for first in (0..p).step_by(WIDTH) {
            let mut start: Vec<Slope> = self.x.iter().map(|&v| Dual::constant(v)).collect();
            for (d, &i) in self.free[first..].iter().take(WIDTH).enumerate() {
                start[i] = Dual::variable(self.x[i], d);
            }
            self.path.follow(Dual::constant, &start, rows, |at, y, eta, observed| {
                for i in observed.indices(m) {
                    for d in 0..WIDTH.min(p - first) {
                        slopes[(at * m + i, first + d)] = eta[i].eps[d];
                    }
                }
                if first == 0 {
                    let plain = |v: &[Slope]| v.iter().map(|v| v.re).collect();
                    seen[at] = (plain(y), plain(eta));
                }
            })?;
        }
        let (mut g, mut a) = (DVector::zeros(p), DMatrix::zeros(p, p));
        for (at, (row, (y, eta))) in rows.iter().zip(&seen).enumerate() {
            let j = slopes.rows(at * m, m).into_owned();
            with_mask(row.y, |observed| {
                self.density.bend((y, eta), observed, &j, (&mut g, &mut a));
            });
        }
        for (place, &i) in self.free.iter().enumerate().filter(|_| guided) {
            g[place] += self.trust(i) * (self.x[i] - self.begin.guess[i]);
            a[(place, place)] += self.trust(i);
        }
        Ok((g, a))
    }

    /// The state that is `by` away from the current one.
    fn moved(&self, by: &DVector<f64>) -> Vec<f64> {
        let mut x = self.x.clone();
        self.free.iter().zip(by.iter()).for_each(|(&i, by)| x[i] += by);
        x
    }

    /// Levenberg's method.
    fn descend(&mut self, rows: &[Row<'_>], guided: bool) -> Result<(), FilterError> {
        let (most, enough) = match guided {
            true => (ITERATIONS.0, ENOUGH.0),
            false => (ITERATIONS.1, ENOUGH.1),
        };
        let Some(mut value) = self.value(&self.x.clone(), rows, guided) else {
            let index = rows.last().map_or(1, |row| row.step.index);
            let last_good = self.x.clone();
            return Err(FilterError::Diverged { index, quantity: "path", last_good });
        };
        let mut damping = 1e-3;
        for _ in 0..most {
            let (g, a) = self.curve(rows, guided)?;
            let floor = (1e-12 * a.diagonal().amax()).max(f64::MIN_POSITIVE);
            // More damping until the loss falls; beyond measure, nothing does.
            let taken = loop {
                let mut damped = a.clone();
                for i in 0..a.nrows() {
                    damped[(i, i)] += damping * a[(i, i)].max(floor) + floor;
                }
                let step = Cholesky::new(damped).map(|factor| -factor.solve(&g));
                if let Some(step) = step {
                    let x = self.moved(&step);
                    if let Some(v) = self.value(&x, rows, guided).filter(|v| *v < value) {
                        break Some((x, v, -g.dot(&step)));
                    }
                }
                damping = (damping * 10.0).max(1e-8);
                if damping > 1e10 {
                    break None;
                }
            };
            let Some((x, v, promised)) = taken else { break };
            (self.x, value) = (x, v);
            damping *= 0.1;
            if promised < enough * (1.0 + 1e-3 * value.abs()) {
                break;
            }
        }
        Ok(())
    }

    /// Newton's steps with exact second derivatives, as long as they lead down.
    fn polish(&mut self, rows: &[Row<'_>]) {
        for _ in 0..8 {
            let Some((value, g, h)) = self.second(rows) else { return };
            let ridge = 1e-12 * h.diagonal().amax();
            let p = h.nrows();
            let Some(factor) = Cholesky::new(h + DMatrix::identity(p, p) * ridge) else { return };
            let step = -factor.solve(&g);
            let promised = -g.dot(&step);
            let x = self.moved(&step);
            // Near the end rounding decides, and a step within it is as good.
            let rounding = 1e-13 * (1.0 + value.abs());
            match self.value(&x, rows, false) {
                Some(v) if v <= value + rounding => self.x = x,
                _ => return,
            }
            if promised < 1e-22 * (1.0 + value.abs()) {
                return;
            }
        }
    }

    /// The loss with its exact first and second derivatives.
    fn second(&mut self, rows: &[Row<'_>]) -> Option<(f64, DVector<f64>, DMatrix<f64>)> {
        let p = self.free.len();
        let (mut value, mut g, mut h) = (0.0, DVector::zeros(p), DMatrix::zeros(p, p));
        for a in (0..p).step_by(WIDTH) {
            for b in (a..p).step_by(WIDTH) {
                let lift = |v: f64| Bend::constant(Slope::constant(v));
                let mut start: Vec<Bend> = self.x.iter().map(|&v| lift(v)).collect();
                for (place, &i) in self.free.iter().enumerate() {
                    // Directions out of reach are none.
                    let inner = Slope::variable(self.x[i], place.wrapping_sub(a));
                    start[i] = Bend::variable(inner, place.wrapping_sub(b));
                }
                let loss = self.path.loss(lift, self.density, &start, rows).ok()?;
                value = loss.re.re;
                for c in 0..WIDTH.min(p - a) {
                    g[a + c] = loss.re.eps[c];
                    for d in 0..WIDTH.min(p - b) {
                        h[(a + c, b + d)] = loss.eps[d].eps[c];
                        h[(b + d, a + c)] = loss.eps[d].eps[c];
                    }
                }
            }
        }
        Some((value, g, h))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Step;
    use crate::model::likelihood::{Bernoulli, Huber, Link, Poisson, StudentT};

    /// A pendulum without noise, seen by sine and angle, in units that a parameter says.
    struct Swing;

    impl Family for Swing {
        fn dims(&self) -> (usize, usize) {
            (2, 2)
        }
        fn transition<S: Scalar>(&self, p: &[S], x: &[S], _: &[f64], step: &Step, out: &mut [S]) {
            let v = x[1] - (p[0] * x[0].sin()).scale(step.dt);
            (out[0], out[1]) = (x[0] + v.scale(step.dt), v);
        }
        fn observe<S: Scalar>(&self, p: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
            (out[0], out[1]) = (p[1] * x[0].sin() + S::ONE, p[1] * x[0] + S::ONE);
        }
        fn angle(&self, component: usize) -> Option<f64> {
            (component == 1).then_some(4.0)
        }
    }

    fn measured(k: usize) -> [f64; 2] {
        let t = 0.1 * k as f64;
        let y = [1.0 + 0.8 * Scalar::cos(3.0 * t), 1.0 + 0.9 * Scalar::cos(3.1 * t)];
        match k % 5 {
            1 => [f64::NAN; 2],
            2 => [y[0], f64::NAN],
            _ => y,
        }
    }

    fn rows(ys: &[[f64; 2]]) -> Vec<Row<'_>> {
        let row = |(k, y)| Row {
            y: y as &[f64],
            u: &[],
            step: Step::even(k as u64 + 1, 0.1),
            predict: k > 0,
        };
        ys.iter().enumerate().map(row).collect()
    }

    fn profile(theta: &[f64], cov: &DMatrix<f64>, ys: &[[f64; 2]]) -> (f64, Vec<f64>) {
        let (density, rows) = (Density::gaussian(cov.clone()).unwrap(), rows(ys));
        let begin = Begin { guess: &[0.5, 0.0], std: &[1.0, 1.0], held: &[false, false] };
        let s = best_start(&Swing, theta, &density, &begin, &rows).unwrap();
        (along(&Swing, theta, &density, &s, &rows).unwrap(), s)
    }

    /// By the envelope theorem: partial derivatives at fixed first states against differences of the profile.
    #[test]
    fn the_profile_has_the_partial_gradient() {
        let ys: Vec<[f64; 2]> = (0..40).map(measured).collect();
        let cov = nalgebra::dmatrix![0.05, 0.01; 0.01, 0.04];
        let (theta, (_, s)) = ([9.0, 1.1], profile(&[9.0, 1.1], &cov, &ys));
        type D = Dual<f64, 2>;
        let lifted: Vec<D> = (0..2).map(|i| D::variable(theta[i], i)).collect();
        let start: Vec<D> = s.iter().map(|&v| D::constant(v)).collect();
        let density = Density::gaussian(cov.map(D::constant)).unwrap();
        let exact = along(&Swing, &lifted, &density, &start, &rows(&ys)).unwrap().eps;
        for i in 0..2 {
            let moved = |by: f64| {
                let mut theta = theta;
                theta[i] += by;
                profile(&theta, &cov, &ys).0
            };
            let h = 1e-4;
            let near = 8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h));
            let slope = near / (12.0 * h);
            // Fourth-order differences: what is left is rounding over h.
            assert!(
                (exact[i] - slope).abs() < 1e-7 * (1.0 + slope.abs()),
                "{i}: {exact:?} {slope}"
            );
        }
    }

    /// The Gauss-Newton curvature and the gradient of every kind of measurement, against duals.
    #[test]
    fn gradients_of_every_kind_are_those_of_the_loss() {
        let components = [
            Component::StudentT(StudentT::new(4.0, 9.0).unwrap()),
            Component::Huber(Huber::new(1.3, 9.0).unwrap()),
            Component::Poisson(Poisson { link: Link::Identity }),
            Component::Bernoulli(Bernoulli { link: Link::Identity }),
            Component::normal(9.0).unwrap(),
        ];
        let cov = DMatrix::from_diagonal(&nalgebra::dvector![0.25, 0.5, 7.0, 7.0, 0.1]);
        let density = Density::independent(&components, &cov).unwrap();
        let (y, eta) = ([1.0, 4.0, 3.0, 1.0, 0.2], [1.4, 0.3, 2.2, 0.7, 0.1]);
        let mask = [true, true, true, true, true];
        type D = Dual<f64, 5>;
        let point: Vec<D> = (0..5).map(|i| D::variable(eta[i], i)).collect();
        let ys: Vec<D> = y.iter().map(|&v| D::constant(v)).collect();
        let loss = density.loss(D::constant, (&ys, &point), Observed::Some(&mask));
        let (mut g, mut a) = (DVector::zeros(5), DMatrix::zeros(5, 5));
        let identity = DMatrix::identity(5, 5);
        density.bend((&y, &eta), Observed::All, &identity, (&mut g, &mut a));
        for i in 0..5 {
            assert!((loss.eps[i] - g[i]).abs() < 1e-12, "{i}: {} {}", loss.eps[i], g[i]);
            assert!(a[(i, i)] > 0.0);
        }
        // As the likelihoods themselves count, of scales that R says.
        let own = [
            Component::StudentT(StudentT::new(4.0, 0.5).unwrap()),
            Component::Huber(Huber::new(1.3, Scalar::sqrt(0.5)).unwrap()),
            components[2],
            components[3],
            Component::normal(Scalar::sqrt(0.1)).unwrap(),
        ];
        let own = crate::model::likelihood::Independent::new(own.to_vec());
        use crate::model::likelihood::Likelihood;
        let whole = own.loss(&y, &eta, Observed::All) + own.log_normalizer(&y, Observed::All);
        let found = loss.re + density.constant(&y, Observed::All);
        assert!((whole - found).abs() < 1e-12, "{whole} {found}");
    }

    use crate::model::likelihood::Component;

    /// What is held stays, and the rest is found around it.
    #[test]
    fn held_components_stay() {
        let ys: Vec<[f64; 2]> = (0..12).map(measured).collect();
        let density = Density::gaussian(DMatrix::identity(2, 2) * 0.05).unwrap();
        let begin = Begin { guess: &[0.5, 0.25], std: &[1.0, 0.0], held: &[false, true] };
        let s = best_start(&Swing, &[9.0, 1.1], &density, &begin, &rows(&ys)).unwrap();
        assert_eq!(s[1], 0.25);
        assert!((s[0] - 0.5).abs() > 0.01);
    }
}
