//! Error bars of a windowed filter.
//!
//! Each measurement is used by L + 1 updates, so the error of the window's first state s is correlated with the
//! noises that are still inside the window, and P <- A (F P F' + Q) A' + B R B' would be wrong. What is carried are
//! the derivatives of that error e by every measurement noise v_j and every process noise q_j in the window, and the
//! covariance of what is left of older ones; from those every covariance is a sum of squares. An update is to first
//! order
//!
//! ```text
//! e <- A e + sum_j B_j v_j + sum_j K_j q_j,     B_j = D (g^(t-j) W_j J_j)',  A = I - D sum_j J_j' (g^(t-j) W_j) J_j
//! ```
//!
//! with J_j the derivative of what is expected at row j by s, W_j the likelihood's curvature, K_j = B_j H_j +
//! K_{j+1} F_{j+1}, and D what the optimizer makes of a small push of the gradient: differentiated through its
//! K steps, or the polynomial that the iterations of conjugate gradients have applied. When the window moves on,
//! e <- F e - q. The error of the estimate itself is that of s carried along the path, less the process noise met
//! on the way.
//!
//! Under a weak constraint the same holds with e = (error of s, z_1, z_2, ...), J_j the derivative by all of them, and
//! the cost of the increments in the curvature; when the window moves on, e <- F e + C_1 z_1 - q. While the window
//! reaches back to the beginning, s is the initial mean and its error has the initial covariance. N = n (L + 1)
//! parameters make an update O(N^3).
//!
//! For rules that are linear in the data on linear systems this is exact. A window of one row is the
//! [`ErrorBars`](super::ErrorBars) of the windowless filter to rounding:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{Filter, Window, WindowBars, WindowBelief};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step, likelihood::SquaredError};
//! use optfilter::optim::GradientDescent;
//! let walk = RandomWalk::new(Const::<1>);
//! let window = Window::new(walk, SquaredError, GradientDescent::new(0.1)?, 3, 0)?;
//! let filter = WindowBars::new(window, GaussianNoise::new(matrix![0.5], matrix![2.0])?)?;
//! let mut belief = filter.begin(vector![0.0], matrix![1.0])?;
//! filter.predict(&mut belief, &[], &Step::even(1, 1.0))?;
//! filter.update(&mut belief, &[1.0], &[], &Step::even(1, 1.0))?;
//! let found = format!("{:.7}, variance {:.7}", belief.mean()[0], belief.cov()[0]);
//! println!("{found}");
//! assert_eq!(found, "0.2710000, variance 0.9440435"); // by hand: 0.729^2 1.5 + 0.271^2 2
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::gaussian::{
    GaussianBelief, check_process_cov, has_negative_variance, ln_turns, log_density,
    not_positive_definite,
};
use super::implicit_map::Memory;
use super::traits::{Belief, Filter, Update, is_sane};
use super::window::{Window, WindowBelief};
use super::window_errors::{Errors, Way, matrix};
use super::window_loss::{Part, Row};
use super::window_response::Responsive;
use crate::Shapes;
use crate::error::{FilterError, check_len, check_square};
use crate::linalg::{Solver, sandwich};
use crate::model::likelihood::{Likelihood, Observed, masked_cov};
use crate::model::stretch::{measurement_cov, process_cov};
use crate::model::{Model, Noise, Step, linearize_observation, linearize_transition};
use crate::optim::Bounds;
use crate::scalar::Dual;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim, OMatrix, OVector};
use serde::{Deserialize, Serialize};

/// A windowed filter that also carries an error covariance.
#[derive(Clone)]
pub struct WindowBars<M, L, R, Q> {
    window: Window<M, L, R>,
    noise: Q,
    strict: bool,
}

/// How much each measurement that is expected changes when its eta does: 1, where there is no link.
fn expected_rates<L: Likelihood>(likelihood: &L, eta: &[f64]) -> Vec<f64> {
    let mut expected: Vec<Dual<f64, 1>> = eta.iter().map(|v| Dual::variable(*v, 0)).collect();
    likelihood.expect(&mut expected);
    expected.iter().map(|v| v.eps[0]).collect()
}

/// What a windowed filter knows, with the covariances of its errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, OMatrix<f64, N, N>: Serialize, T: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, OMatrix<f64, N, N>: Deserialize<'de>, T: Deserialize<'de>"
))]
pub struct WindowBarsBelief<N: Dim, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    pub(crate) window: WindowBelief<N, T>,
    cov: OMatrix<f64, N, N>,
    errors: Errors,
}

impl<N: Dim, T> WindowBarsBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// The estimate at the newest row.
    pub fn mean(&self) -> &OVector<f64, N> {
        &self.window.mean
    }

    /// Its error covariance; NaN once it was given up.
    pub fn cov(&self) -> &OMatrix<f64, N, N> {
        &self.cov
    }

    /// The estimates in the window.
    pub fn window(&self) -> &WindowBelief<N, T> {
        &self.window
    }
}

impl<N: Dim, T: Clone> Belief<N> for WindowBarsBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = true;
    fn mean(&self) -> OVector<f64, N> {
        self.window.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        Some(self.cov.clone())
    }
    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        self.window.check_dim(n, index)?;
        let (size, rows) = (self.window.start.len(), self.window.rows.len());
        check_len("belief", size * size, self.errors.rest.len(), Some(index))?;
        check_len("belief", rows, self.errors.measured.len(), Some(index))?;
        check_len("belief", rows, self.errors.moved.len(), Some(index))?;
        check_square("belief", n, &self.cov, Some(index))
    }
    fn confine(&mut self, bounds: &Bounds) {
        self.window.confine(bounds);
    }
    fn flaw(&self) -> Option<&'static str> {
        self.window.flaw()
    }
}

fn dense<R: Dim, C: Dim>(a: &OMatrix<f64, R, C>) -> DMatrix<f64>
where
    DefaultAllocator: Allocator<R, C>,
{
    DMatrix::from_column_slice(a.nrows(), a.ncols(), a.as_slice())
}

impl<M, L, R, Q> WindowBars<M, L, R, Q>
where
    M: Model,
    L: Likelihood,
    R: Responsive,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Around a windowed filter whose optimizer restarts at each row.
    pub fn new(window: Window<M, L, R>, noise: Q) -> Result<Self, FilterError> {
        let requirement = "left out where error bars are asked for";
        let refused = |argument| Err(FilterError::Setting { argument, value: 1.0, requirement });
        if window.memory == Memory::Carry {
            return refused("memory = Carry");
        }
        if window.shortens {
            return refused("shortening");
        }
        Ok(Self { window, noise, strict: false })
    }

    /// With an error where the covariance is lost, instead of estimates that go on without it.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// A belief before any row.
    pub fn begin(
        &self,
        mean: OVector<f64, M::State>,
        cov: OMatrix<f64, M::State, M::State>,
    ) -> Result<WindowBarsBelief<M::State, R::Memory>, FilterError> {
        WindowBarsBelief::new(mean, cov)
    }

    /// How the state and its error move to each row along a path: F_j, and Q_j.
    fn moves(&self, row: &Row, from: &[f64]) -> (DMatrix<f64>, DMatrix<f64>) {
        let (_, f) = linearize_transition(&self.window.model, from, &row.u, &row.step);
        (dense(&f), dense(&process_cov(&self.window.model, &self.noise, &row.u, &row.step)))
    }

    /// The window moves on by so many rows.
    fn shift(&self, belief: &WindowBelief<M::State, R::Memory>, gone: usize, errors: &mut Errors) {
        let n = belief.mean.nrows();
        let past: VecDeque<Row> = belief.rows.iter().take(gone + 1).cloned().collect();
        let mut loss = self.window.loss(&past);
        loss.follow(&belief.start);
        for j in 1..past.len() {
            let (first, second) = (&past[j - 1], &past[j]);
            let (f, q) = match second.moves {
                true => {
                    let (f, q) = self.moves(second, loss.state(j - 1));
                    (f, Some(q))
                }
                false => (DMatrix::identity(n, n), None),
            };
            let r = first.y.as_ref().map(|_| self.measurement_cov(first));
            let factor = || loss.bend(j).map_or_else(|| DMatrix::zeros(n, n), |c| c.matrix());
            let bend = (self.window.width() > 0).then(factor);
            errors.shift(&Way { f, q, r, bend });
        }
    }

    /// R of a row.
    fn measurement_cov(&self, row: &Row) -> DMatrix<f64> {
        dense(&measurement_cov(&self.window.model, &self.noise, &row.u, &row.step))
    }

    /// The errors after an update whose rows and start are those of `before` and whose path now starts at
    /// `after`, and the covariance of the newest estimate.
    fn spread(
        &self,
        before: &WindowBelief<M::State, R::Memory>,
        after: &[f64],
        errors: &Errors,
    ) -> (Errors, DMatrix<f64>) {
        let (n, m) = (self.window.model.state_dim(), self.window.model.output_dim());
        let (size, outputs, rows) = (n.value(), m.value(), before.rows.len());
        let all = before.start.len();
        let mut loss = self.window.loss(&before.rows);
        loss.follow(after);
        // Forwards: F_j, Q_j, H_j, the derivative of x_j by the parameters, and J_j = H_j times it with its weighted form.
        let identity = DMatrix::<f64>::identity(size, size);
        let (mut f, mut q, mut h, mut weighed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // What a measurement changes by when eta does.
        let mut rates = Vec::new();
        let mut curvature = DMatrix::zeros(all, all);
        let mut product = DMatrix::identity(size, all);
        for (j, row) in before.rows.iter().enumerate() {
            match row.moves && j > 0 {
                true => {
                    let (fj, qj) = self.moves(row, loss.state(j - 1));
                    product = &fj * product;
                    f.push(fj);
                    q.push(qj);
                }
                false => {
                    f.push(identity.clone());
                    q.push(DMatrix::zeros(size, size));
                }
            }
            if let Some(factor) = loss.bend(j) {
                product.columns_mut(j * size, size).copy_from(&factor.matrix());
                // An increment costs z'z / 2.
                curvature.view_mut((j * size, j * size), (size, size)).fill_with_identity();
            }
            let mut wj = DMatrix::zeros(outputs, all);
            let mut hj = DMatrix::zeros(outputs, size);
            let mut rate = alloc::vec![1.0; outputs];
            if row.y.is_some() {
                let (eta, at) =
                    linearize_observation(&self.window.model, n, loss.state(j), &row.u, &row.step);
                hj = dense(&at);
                rate = expected_rates(&self.window.likelihood, eta.as_slice());
                let slope = &hj * &product;
                for i in 0..all {
                    let (v, out) = (slope.column(i).into_owned(), &mut wj.column_mut(i));
                    loss.weigh(false, j, eta.as_slice(), v.as_slice(), out.as_mut_slice());
                }
                curvature += slope.transpose() * &wj;
            }
            h.push(hj);
            rates.push(rate);
            weighed.push(wj);
        }
        if before.rows[0].part == Part::Anchor {
            // The initial mean stays as it is: no gradient moves it, but its error moves the others.
            curvature.rows_mut(0, size).fill(0.0);
            weighed.iter_mut().for_each(|w| w.columns_mut(0, size).fill(0.0));
        }
        let d = R::response(&self.window, before);
        let a = DMatrix::<f64>::identity(all, all) - &d * &curvature;
        // Backwards: B_j, K_j, and the way from row j to the newest.
        let rest = sandwich(&a, &matrix(all, &errors.rest));
        let (mut measured, mut moved, mut ways) =
            (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let mut k = DMatrix::zeros(all, size);
        let mut way = identity;
        for j in (0..rows).rev() {
            let moves = before.rows[j].moves && j > 0;
            let mut b = &d * weighed[j].transpose();
            k += &b * &h[j];
            // Errors of measurements are in their own units.
            for (mut column, rate) in b.column_iter_mut().zip(&rates[j]) {
                match *rate {
                    0.0 => column.fill(0.0),
                    rate => column.unscale_mut(rate),
                }
            }
            measured.push_front(&a * matrix(all, &errors.measured[j]) + b);
            let to = &a * matrix(all, &errors.moved[j]);
            moved.push_front(if moves { to + &k } else { to });
            ways.push_front(way.clone());
            if moves {
                k *= &f[j];
                way *= &f[j];
            }
        }
        // The newest error is that of the parameters carried there, less the process noise on the way.
        let mut cov = sandwich(&product, &rest);
        for (j, row) in before.rows.iter().enumerate() {
            if row.y.is_some() {
                cov += sandwich(&(&product * &measured[j]), &self.measurement_cov(row));
            }
            if row.moves && j > 0 {
                cov += sandwich(&(&product * &moved[j] - &ways[j]), &q[j]);
            }
        }
        let flat = |all: VecDeque<DMatrix<f64>>| -> VecDeque<Vec<f64>> {
            all.iter().map(|m| m.as_slice().to_vec()).collect()
        };
        let rest = rest.as_slice().to_vec();
        (Errors { rest, measured: flat(measured), moved: flat(moved) }, cov)
    }
}

impl<N: Dim, T> WindowBarsBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// From a finite estimate and its covariance, before any row.
    pub fn new(mean: OVector<f64, N>, cov: OMatrix<f64, N, N>) -> Result<Self, FilterError> {
        let GaussianBelief { mean, cov } = GaussianBelief::new(mean, cov)?;
        let errors = Errors::of_start(cov.as_slice());
        Ok(Self { window: WindowBelief::new(mean)?, cov, errors })
    }

    /// Without its covariance, which is lost.
    #[cold]
    fn given_up(mut self) -> Self {
        self.cov.fill(f64::NAN);
        self
    }
}

impl<M, L, R, Q> Filter for WindowBars<M, L, R, Q>
where
    M: Model,
    L: Likelihood,
    R: Responsive,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = WindowBarsBelief<M::State, R::Memory>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        self.window.dims()
    }

    fn bounds(&self) -> Option<&Bounds> {
        self.window.bounds.as_ref()
    }

    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let model = &self.window.model;
        let n = model.state_dim().value();
        let q = process_cov(&self.window.model, &self.noise, u, step);
        check_process_cov(&self.noise, &q, n, step.index)?;
        let (_, f) = linearize_transition(model, belief.window.mean.as_slice(), u, step);
        let cov = sandwich(&f, &belief.cov) + q;
        let mut errors = belief.errors.clone();
        let window = self.window.propagate(&belief.window, u, step)?;
        if belief.window.rows.is_empty() && self.window.bend.is_none() {
            // The first state of all is carried to the first row.
            errors = Errors::of_start(cov.as_slice());
        }
        self.append(&belief.window, &window, true, &mut errors);
        let next = WindowBarsBelief { window, cov, errors };
        let sound = is_covariance(n, next.cov.as_slice());
        Ok(if sound || self.strict { next } else { next.given_up() })
    }

    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        self.window.check_belief(&belief.window, step)?;
        let mut placed = belief.window.clone();
        self.window.place(&mut placed, u, step, Some(y.into()));
        let mut errors = belief.errors.clone();
        self.append(&belief.window, &placed, false, &mut errors);
        let (window, update) = self.window.correct(&belief.window, y, observed, u, step)?;
        let lost =
            |errors| WindowBarsBelief { window: window.clone(), cov: belief.cov.clone(), errors };
        if !belief.cov.iter().all(|v| v.is_finite()) {
            return match self.strict {
                true => Err(not_positive_definite("belief covariance", step.index)),
                false => Ok((lost(errors).given_up(), update)),
            };
        }
        // What the measurement was worth.
        let (n, m) = (self.window.model.state_dim(), self.window.model.output_dim());
        let mut r = measurement_cov(&self.window.model, &self.noise, u, step);
        check_square("measurement_cov (R)", m.value(), &r, Some(step.index))?;
        let at = belief.window.mean.as_slice();
        let (eta, mut h) = linearize_observation(&self.window.model, n, at, u, step);
        for (i, rate) in
            expected_rates(&self.window.likelihood, eta.as_slice()).into_iter().enumerate()
        {
            h.row_mut(i).scale_mut(rate);
        }
        if observed != Observed::All {
            r = masked_cov(&r, observed);
            for i in (0..m.value()).filter(|&i| !observed.has(i)) {
                h.row_mut(i).fill(0.0);
            }
        }
        let s = sandwich(&h, &belief.cov) + &r;
        let (errors, cov) = self.spread(&placed, &window.start, &errors);
        let (solver, sound) = (Solver::new(&s), is_covariance(n.value(), cov.as_slice()));
        let Some(factor) = solver.filter(|_| sound) else {
            return match self.strict {
                true => Err(not_positive_definite("innovation covariance", step.index)),
                false => Ok((lost(errors).given_up(), update)),
            };
        };
        let cov = OMatrix::from_column_slice_generic(n, n, cov.as_slice());
        let nis = factor.quadratic_form(&update.innovation);
        let log_likelihood = log_density(nis, &factor, ln_turns(observed.count(y.len())));
        let update = Update::spread(update.innovation, s, log_likelihood, nis);
        Ok((WindowBarsBelief { window, cov, errors }, update))
    }

    fn lag(&self) -> Option<usize> {
        self.window.lag()
    }

    fn path(&self, belief: &Self::Belief) -> Vec<f64> {
        self.window.path(&belief.window)
    }

    fn miss(&self, belief: &mut Self::Belief, u: &[f64], step: &Step) {
        let before = belief.window.clone();
        self.window.miss(&mut belief.window, u, step);
        self.append(&before, &belief.window, false, &mut belief.errors);
    }

    fn flaw(&self, belief: &Self::Belief) -> Option<&'static str> {
        if !is_sane(belief.window.mean.as_slice()) {
            return Some("estimate");
        }
        (self.strict && !belief.cov.iter().all(|v| v.is_finite())).then_some("cov")
    }
}

impl<M, L, R, Q> WindowBars<M, L, R, Q>
where
    M: Model,
    L: Likelihood,
    R: Responsive,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Room for the noises of a row that came to `before` to make `now`, if one did, and whether the dynamics
    /// led to it.
    fn append(
        &self,
        before: &WindowBelief<M::State, R::Memory>,
        now: &WindowBelief<M::State, R::Memory>,
        moves: bool,
        errors: &mut Errors,
    ) {
        let (n, m) =
            (self.window.model.state_dim().value(), self.window.model.output_dim().value());
        if now.count == before.count {
            return;
        }
        // A weak window begins with more than the first row: with the initial state.
        let (had, width) = (before.rows.len(), self.window.width());
        let added = if had == 0 { now.rows.len() } else { 1 };
        for j in 0..added {
            errors.grow(n, m, if had + j > 0 { width } else { 0 });
        }
        let gone = had + added - now.rows.len();
        if gone > 0 {
            // The window was full: the oldest rows went, seen from where they stood with the new one in it.
            let mut whole = before.clone();
            whole.start.extend(core::iter::repeat_n(0.0, width));
            whole.rows.extend(now.rows.back().map(|row| Row { moves, ..row.clone() }));
            self.shift(&whole, gone, errors);
        }
    }
}

/// Whether a covariance (n x n) is one still: what has grown beyond all bounds is neither finite nor positive for long.
fn is_covariance(n: usize, cov: &[f64]) -> bool {
    cov.iter().all(|v| v.is_finite()) && !has_negative_variance(n, cov)
}
