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

use super::gaussian::{GaussianBelief, check_process_cov, log_density, not_positive_definite};
use super::implicit_map::Memory;
use super::traits::{Belief, Filter, Update, is_sane};
use super::window::{Descent, Window, WindowBelief};
use super::window_loss::{Row, WindowLoss};
use crate::Shapes;
use crate::error::{FilterError, check_square};
use crate::linalg::{Solver, sandwich};
use crate::model::likelihood::{Likelihood, Observed, masked_cov};
use crate::model::stretch::{measurement_cov, process_cov};
use crate::model::{Model, Noise, Step, linearize_observation, linearize_transition};
use crate::optim::{Bounds, ConjugateGradients, Objective, Optimizer, descend_within};
use crate::scalar::Dual;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim, OMatrix, OVector};
use serde::{Deserialize, Serialize};

/// Directions carried by one differentiated descent.
const WIDTH: usize = 4;

/// A way down a window's loss that says how it answers to a push of the gradient.
pub trait Responsive: Descent {
    /// D (n x n): minus the derivative, by a constant added to every gradient, of where `steps` steps from
    /// the window's first state end. `curvature` is that of the loss.
    fn response<M: Model, L: Likelihood>(
        window: &Window<M, L, Self>,
        belief: &WindowBelief<M::State, Self::Memory>,
        curvature: &DMatrix<f64>,
    ) -> DMatrix<f64>
    where
        DefaultAllocator: Shapes<M::State, M::Output>;
}

/// A loss whose gradient is pushed along the directions `first ..`.
struct Pushed<F> {
    loss: F,
    first: usize,
}

impl<F: Objective<Dual<f64, WIDTH>>> Objective<Dual<f64, WIDTH>> for Pushed<F> {
    fn value(&mut self, x: &[Dual<f64, WIDTH>]) -> Dual<f64, WIDTH> {
        self.loss.value(x)
    }
    fn gradient(&mut self, x: &[Dual<f64, WIDTH>], out: &mut [Dual<f64, WIDTH>]) {
        self.loss.gradient(x, out);
        for d in 0..WIDTH.min(out.len() - self.first) {
            out[self.first + d].eps[d] += 1.0;
        }
    }
}

impl<O: Optimizer<f64> + Optimizer<Dual<f64, WIDTH>>> Responsive for O {
    fn response<M: Model, L: Likelihood>(
        window: &Window<M, L, Self>,
        belief: &WindowBelief<M::State, Self::Memory>,
        _curvature: &DMatrix<f64>,
    ) -> DMatrix<f64>
    where
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        let n = belief.start.len();
        let mut out = DMatrix::zeros(n, n);
        for first in (0..n).step_by(WIDTH) {
            let mut x: Vec<Dual<f64, WIDTH>> =
                belief.start.iter().map(|&v| Dual::constant(v)).collect();
            let loss = WindowLoss::new(
                &window.model,
                &window.likelihood,
                &belief.rows,
                window.discount,
                None,
            );
            let mut state = Optimizer::<Dual<f64, WIDTH>>::init(&window.rule, &x);
            let (rule, steps) = (&window.rule, window.steps);
            descend_within(
                rule,
                &mut Pushed { loss, first },
                &mut x,
                &mut state,
                steps,
                window.bounds.as_ref(),
            );
            for d in 0..WIDTH.min(n - first) {
                for i in 0..n {
                    out[(i, first + d)] = -x[i].eps[d];
                }
            }
        }
        out
    }
}

impl Responsive for ConjugateGradients {
    fn response<M: Model, L: Likelihood>(
        window: &Window<M, L, Self>,
        belief: &WindowBelief<M::State, ()>,
        curvature: &DMatrix<f64>,
    ) -> DMatrix<f64>
    where
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        let n = belief.start.len();
        let mut gradient = vec![0.0; n];
        let mut loss = window.loss(&belief.rows);
        loss.gradient(&belief.start, &mut gradient);
        let numbers = window.rule.record(&gradient, window.steps, |v, out| loss.curve(v, out)).1;
        // The iterations as they went, on the identity in place of the gradient.
        let (mut out, mut r) = (DMatrix::zeros(n, n), DMatrix::identity(n, n));
        let mut p: DMatrix<f64> = r.clone();
        for (far, kept) in numbers {
            out += far * &p;
            r -= far * (curvature * &p);
            p = &r + kept * p;
        }
        out
    }
}

/// A windowed filter that also carries an error covariance.
#[derive(Clone)]
pub struct WindowBars<M, L, R, Q> {
    window: Window<M, L, R>,
    noise: Q,
    strict: bool,
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

/// What the error e of the window's first state is made of: matrices column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Errors {
    /// The covariance (n x n) of what does not come from noises inside the window.
    rest: Vec<f64>,
    /// The derivative of e by the measurement noise of each row (n x m).
    measured: VecDeque<Vec<f64>>,
    /// The derivative of e by the process noise on the way to each row (n x n).
    moved: VecDeque<Vec<f64>>,
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
        check_square("belief", n, &self.cov, Some(index))
    }
    fn confine(&mut self, bounds: &Bounds) {
        self.window.confine(bounds);
    }
    fn flaw(&self) -> Option<&'static str> {
        self.window.flaw()
    }
}

fn matrix(rows: usize, values: &[f64]) -> DMatrix<f64> {
    DMatrix::from_column_slice(rows, values.len() / rows.max(1), values)
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
    /// Around a windowed filter with a strong constraint, whose optimizer restarts at each row.
    pub fn new(window: Window<M, L, R>, noise: Q) -> Result<Self, FilterError> {
        let requirement = "left out where error bars are asked for";
        let refused = |argument| Err(FilterError::Setting { argument, value: 1.0, requirement });
        if window.memory == Memory::Carry {
            return refused("memory = Carry");
        }
        if window.bend.is_some() {
            return refused("a weak constraint");
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

    /// The window moves on by a row: e <- F e - q, and what is known of the first noises goes into the rest.
    fn shift(&self, belief: &WindowBelief<M::State, R::Memory>, errors: &mut Errors) {
        let n = belief.mean.nrows();
        let measured = errors.measured.pop_front();
        errors.moved.pop_front();
        let (Some(first), Some(second)) = (belief.rows.front(), belief.rows.get(1)) else { return };
        let identity = DMatrix::<f64>::identity(n, n);
        let (f, q) = match second.moves {
            true => self.moves(second, &belief.start[..n]),
            false => (identity.clone(), DMatrix::zeros(n, n)),
        };
        let mut rest = sandwich(&f, &matrix(n, &errors.rest));
        if let (Some(to), true) = (measured, first.y.is_some()) {
            let r = dense(&measurement_cov(&self.window.model, &self.noise, &first.u, &first.step));
            rest += sandwich(&(&f * matrix(n, &to)), &r);
        }
        if let (Some(to), true) = (errors.moved.front(), second.moves) {
            rest += sandwich(&(&f * matrix(n, to) - identity), &q);
        }
        errors.rest = rest.as_slice().to_vec();
        for to in errors.measured.iter_mut().chain(errors.moved.iter_mut().skip(1)) {
            *to = (&f * matrix(n, to)).as_slice().to_vec();
        }
        // What has gone into the rest is no longer a noise of its own.
        if let Some(to) = errors.moved.front_mut() {
            to.fill(0.0);
        }
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
        let mut loss = self.window.loss(&before.rows);
        loss.follow(after);
        // Forwards: F_j, Q_j, H_j, and J_j = H_j F_j .. F_1 with its weighted form.
        let identity = DMatrix::<f64>::identity(size, size);
        let (mut f, mut q, mut h, mut weighed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut curvature = DMatrix::zeros(size, size);
        let mut product = identity.clone();
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
            let mut wj = DMatrix::zeros(outputs, size);
            let mut hj = wj.clone();
            if row.y.is_some() {
                let (eta, at) =
                    linearize_observation(&self.window.model, n, loss.state(j), &row.u, &row.step);
                hj = dense(&at);
                let slope = &hj * &product;
                for i in 0..size {
                    let (v, out) = (slope.column(i).into_owned(), &mut wj.column_mut(i));
                    loss.weigh(j, eta.as_slice(), v.as_slice(), out.as_mut_slice());
                }
                curvature += slope.transpose() * &wj;
            }
            h.push(hj);
            weighed.push(wj);
        }
        let d = R::response(&self.window, before, &curvature);
        let a = &identity - &d * &curvature;
        // Backwards: B_j, K_j, and the way from row j to the newest.
        let rest = sandwich(&a, &matrix(size, &errors.rest));
        let (mut measured, mut moved, mut ways) =
            (VecDeque::new(), VecDeque::new(), VecDeque::new());
        let mut k = DMatrix::zeros(size, size);
        let mut way = identity;
        for j in (0..rows).rev() {
            let moves = before.rows[j].moves && j > 0;
            let b = &d * weighed[j].transpose();
            k += &b * &h[j];
            measured.push_front(&a * matrix(size, &errors.measured[j]) + b);
            let to = &a * matrix(size, &errors.moved[j]);
            moved.push_front(if moves { to + &k } else { to });
            ways.push_front(way.clone());
            if moves {
                k *= &f[j];
                way *= &f[j];
            }
        }
        // `way` now leads from the first row to the newest, whose error is that of the first carried there, less the
        // process noise on the way.
        let mut cov = sandwich(&way, &rest);
        for (j, row) in before.rows.iter().enumerate() {
            if row.y.is_some() {
                let r = dense(&measurement_cov(&self.window.model, &self.noise, &row.u, &row.step));
                cov += sandwich(&(&way * &measured[j]), &r);
            }
            if row.moves && j > 0 {
                cov += sandwich(&(&way * &moved[j] - &ways[j]), &q[j]);
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
        let errors = Errors { rest: cov.as_slice().to_vec(), ..Errors::default() };
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
        if belief.window.rows.is_empty() {
            errors.rest = cov.as_slice().to_vec();
        }
        self.append(&belief.window, &window, true, &mut errors);
        let next = WindowBarsBelief { window, cov, errors };
        let sound = next.cov.iter().all(|v| v.is_finite());
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
        let (_, mut h) = linearize_observation(&self.window.model, n, at, u, step);
        if observed != Observed::All {
            r = masked_cov(&r, observed);
            for i in (0..m.value()).filter(|&i| !observed.has(i)) {
                h.row_mut(i).fill(0.0);
            }
        }
        let s = sandwich(&h, &belief.cov) + &r;
        let (errors, cov) = self.spread(&placed, &window.start, &errors);
        let (solver, sound) = (Solver::new(&s), cov.iter().all(|v| v.is_finite()));
        let Some(factor) = solver.filter(|_| sound) else {
            return match self.strict {
                true => Err(not_positive_definite("innovation covariance", step.index)),
                false => Ok((lost(errors).given_up(), update)),
            };
        };
        let cov = OMatrix::from_column_slice_generic(n, n, cov.as_slice());
        let nis = factor.quadratic_form(&update.innovation);
        let log_likelihood = log_density(nis, &factor, observed.count(y.len()));
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
        errors.measured.push_back(vec![0.0; n * m]);
        errors.moved.push_back(vec![0.0; n * n]);
        if now.rows.len() == before.rows.len() {
            // The window was full: the oldest row went, seen from where it stood with the new one in it.
            let mut whole = before.clone();
            whole.rows.extend(now.rows.back().map(|row| Row { moves, ..row.clone() }));
            self.shift(&whole, errors);
        }
    }
}
