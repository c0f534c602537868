//! Linear dynamics and observation, by rows or in continuous time.
//!
//! ```text
//! by rows            x_t = F x_{t-1} + B u_t           every row is one step, however long it took
//! continuous time    dx = (A x + B u) dt               F = e^(A dt) over a step of any length, inputs held
//! measurement        y = H x
//! ```
//!
//! A damped oscillator seen at irregular times, two of them equal, with the noise that belongs to it
//! ([`GaussianNoise::continuous`](super::GaussianNoise::continuous)):
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{GaussianBelief, KalmanFilter};
//! use optfilter::model::{GaussianNoise, Linear};
//! use optfilter::{Series, drive::Run};
//! let a = matrix![0.0, 1.0; -4.0, -0.6];
//! let density = matrix![0.0, 0.0; 0.0, 0.5]; // L Qc L' of white noise that pushes the speed
//! let model = Linear::continuous(a, matrix![1.0, 0.0], 0.3)?;
//! let noise = GaussianNoise::continuous(a, density, matrix![0.04], 0.3)?;
//! let mut belief = GaussianBelief::new(vector![1.0, 0.0], matrix![0.5, 0.0; 0.0, 0.5])?;
//! let times = [0.0, 0.3, 0.3, 1.1, 4.0];
//! let series = Series::new(&[1.1, 0.7, 0.9, -0.4, 0.05], 1)?.with_times(&times)?;
//! KalmanFilter::new(model, noise).run(&mut belief, &series)?;
//! let found = format!("{:.9} {:.9}", belief.mean[0], belief.mean[1]);
//! println!("{found}");
//! assert_eq!(found, "0.034601674 -0.629645166"); // numpy, with Van Loan's matrices by scipy.linalg.expm
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::discretize::{Discretized, discretize};
use super::{Dynamics, JacobianMut, Observation, Step, Vjp};
use crate::scalar::Scalar;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// A linear model with constant matrices, by rows or in continuous time.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear<N: Dim, M: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    f: OMatrix<f64, N, N>,
    h: OMatrix<f64, M, N>,
    inputs: Vec<OVector<f64, N>>,
    rates: Option<Rates<N>>,
}

/// A model in continuous time; the matrices of the model itself are those of a step of `dt`.
#[derive(Clone, Debug, PartialEq)]
struct Rates<N: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    a: OMatrix<f64, N, N>,
    inputs: Vec<OVector<f64, N>>,
    dt: f64,
}

/// The matrices of a linear model do not fit together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{matrix} is {rows} x {columns}; a state of {expected} components was expected")]
pub struct LinearError {
    /// Which matrix.
    pub matrix: &'static str,
    /// Its rows.
    pub rows: usize,
    /// Its columns.
    pub columns: usize,
    /// The dimension of the state, from F's rows.
    pub expected: usize,
}

impl<N: Dim, M: Dim> Linear<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    /// From the transition matrix F (n x n) and the observation matrix H (m x n). Every row is one step,
    /// whatever its time; for rows at irregular times there is [`continuous`](Self::continuous).
    pub fn new(f: OMatrix<f64, N, N>, h: OMatrix<f64, M, N>) -> Result<Self, LinearError> {
        let expected = f.nrows();
        let fits = |matrix, rows, columns, ok| {
            if ok { Ok(()) } else { Err(LinearError { matrix, rows, columns, expected }) }
        };
        fits("F", f.nrows(), f.ncols(), f.ncols() == expected)?;
        fits("H", h.nrows(), h.ncols(), h.ncols() == expected)?;
        Ok(Self { f, h, inputs: Vec::new(), rates: None })
    }

    /// In continuous time, dx = A x dt, from A (n x n) and H (m x n). Steps of length `dt` are ready-made, those of any
    /// other length are discretised as they come.
    pub fn continuous(
        a: OMatrix<f64, N, N>,
        h: OMatrix<f64, M, N>,
        dt: f64,
    ) -> Result<Self, LinearError> {
        let model = Self::new(a, h)
            .map_err(|e| if e.matrix == "F" { LinearError { matrix: "A", ..e } } else { e })?;
        let rates = Rates { a: model.f, inputs: Vec::new(), dt };
        Ok(Self { f: discretize(&rates.a, None, dt).f, rates: Some(rates), ..model })
    }

    /// With control inputs: one column of B for each; rates, in continuous time.
    pub fn with_inputs(mut self, columns: Vec<OVector<f64, N>>) -> Result<Self, LinearError> {
        let expected = self.f.nrows();
        if let Some(wrong) = columns.iter().find(|column| column.nrows() != expected) {
            let (rows, columns) = (wrong.nrows(), columns.len());
            return Err(LinearError { matrix: "B", rows, columns, expected });
        }
        self.inputs = match &mut self.rates {
            None => columns,
            Some(rates) => {
                let held = discretize(&rates.a, None, rates.dt).g;
                let ready = columns.iter().map(|column| &held * column).collect();
                rates.inputs = columns;
                ready
            }
        };
        Ok(self)
    }

    /// The matrix A, of a model in continuous time.
    pub fn drift(&self) -> Option<&OMatrix<f64, N, N>> {
        self.rates.as_ref().map(|rates| &rates.a)
    }

    /// A step that is not ready-made.
    #[inline(always)]
    fn other(&self, step: &Step) -> Option<(&Rates<N>, Discretized<f64, N>)> {
        let rates = self.rates.as_ref().filter(|rates| rates.dt != step.dt)?;
        Some((rates, discretize(&rates.a, None, step.dt)))
    }

    /// The transition matrix over a step.
    #[inline(always)]
    pub fn transition_matrix(&self, step: &Step) -> Cow<'_, OMatrix<f64, N, N>> {
        self.other(step).map_or(Cow::Borrowed(&self.f), |(_, made)| Cow::Owned(made.f))
    }

    /// The transition matrix; in continuous time that of a ready-made step.
    pub fn f(&self) -> &OMatrix<f64, N, N> {
        &self.f
    }

    /// The observation matrix.
    pub fn h(&self) -> &OMatrix<f64, M, N> {
        &self.h
    }
}

impl<N: Dim, M: Dim> Dynamics for Linear<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    type State = N;
    #[inline(always)]
    fn state_dim(&self) -> N {
        self.f.shape_generic().0
    }
    fn input_dim(&self) -> usize {
        self.inputs.len()
    }
    #[inline(always)]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        let Some((rates, made)) = self.other(step) else {
            return apply(&self.f, &self.inputs, x, u, out);
        };
        apply(&made.f, &[], x, &[], out);
        if !u.is_empty() {
            let mut push = OVector::<f64, N>::zeros_generic(self.state_dim(), U1);
            for (column, &u) in rates.inputs.iter().zip(u) {
                push += column * u;
            }
            push = &made.g * push;
            for (out, &push) in out.iter_mut().zip(push.iter()) {
                *out += S::from_f64(push);
            }
        }
    }
    #[inline(always)]
    fn transition_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        let f = self.transition_matrix(step);
        for j in 0..x.len() {
            for i in 0..x.len() {
                out[(i, j)] = f[(i, j)];
            }
        }
        true
    }
    #[inline(always)]
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |model, _, _, step, r, out| transposed_product(&model.transition_matrix(step), r, out),
        )
    }
}

/// F x + B u.
#[inline(always)]
fn apply<S: Scalar, N: Dim>(
    f: &OMatrix<f64, N, N>,
    inputs: &[OVector<f64, N>],
    x: &[S],
    u: &[f64],
    out: &mut [S],
) where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    for i in 0..out.len() {
        let mut sum = S::ZERO;
        for j in 0..x.len() {
            sum += x[j].scale(f[(i, j)]);
        }
        for (column, &u) in inputs.iter().zip(u) {
            sum += S::from_f64(column[i] * u);
        }
        out[i] = sum;
    }
}

impl<N: Dim, M: Dim> Observation for Linear<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N> + Allocator<M, N>,
{
    type Output = M;
    #[inline(always)]
    fn output_dim(&self) -> M {
        self.h.shape_generic().0
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        for i in 0..out.len() {
            let mut sum = S::ZERO;
            for j in 0..x.len() {
                sum += x[j].scale(self.h[(i, j)]);
            }
            out[i] = sum;
        }
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        for j in 0..x.len() {
            for i in 0..self.h.nrows() {
                out[(i, j)] = self.h[(i, j)];
            }
        }
        true
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |model, _, _, _, r, out| transposed_product(&model.h, r, out),
        )
    }
}

/// Writes A' r.
#[inline(always)]
fn transposed_product<S: Scalar, R: Dim, C: Dim>(a: &OMatrix<f64, R, C>, r: &[S], out: &mut [S])
where
    DefaultAllocator: Allocator<R, C>,
{
    for j in 0..out.len() {
        let mut sum = S::ZERO;
        for i in 0..r.len() {
            sum += r[i].scale(a[(i, j)]);
        }
        out[j] = sum;
    }
}
