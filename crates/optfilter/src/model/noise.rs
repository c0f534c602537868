//! Gaussian process and measurement noise, for the filters that state it explicitly.

use super::Step;
use super::discretize::discretize;
use crate::linalg;
use crate::scratch;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};

/// The covariances of process and measurement noise.
pub trait Noise<N: Dim, M: Dim>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, M>,
{
    /// Whether every Q is known to be a covariance, so that no step needs to look.
    const IS_CHECKED: bool = false;
    /// Q of the transition over `step` (n x n).
    fn process_cov(&self, step: &Step) -> OMatrix<f64, N, N>;
    /// R of the measurement at the end of `step` (m x m).
    fn measurement_cov(&self, step: &Step) -> OMatrix<f64, M, M>;
    /// Whether a component may be measured without noise, a zero on the diagonal of R: then every update looks for one.
    fn may_be_exact(&self) -> bool {
        true
    }
    /// Writes the n variances of Q and returns `true`, if Q is diagonal by its type.
    fn process_variances(&self, _step: &Step, _out: &mut [f64]) -> bool {
        false
    }
    /// Writes the m variances of R and returns `true`, if R is diagonal by its type.
    fn measurement_variances(&self, _step: &Step, _out: &mut [f64]) -> bool {
        false
    }
}

/// Noise covariances that do not change, or a process covariance that depends on the step's length.
#[derive(Clone, Debug, PartialEq)]
pub struct GaussianNoise<N: Dim, M: Dim>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, M>,
{
    process_cov: OMatrix<f64, N, N>,
    measurement_cov: OMatrix<f64, M, M>,
    /// Whether a variance of R is zero.
    is_exact: bool,
    growth: Growth<N>,
}

/// What the process covariance is of.
#[derive(Clone, Debug, PartialEq)]
enum Growth<N: Dim>
where
    DefaultAllocator: Allocator<N, N>,
{
    /// A step, however long.
    PerStep,
    /// A unit of time.
    PerTime,
    /// White noise in dx = A x dt; ready-made for steps of `dt`.
    Exact { a: OMatrix<f64, N, N>, dt: f64, ready: OMatrix<f64, N, N> },
}

/// A covariance that cannot be one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// Q is not a covariance.
    #[error("process_cov (Q) must be square, finite, symmetric and positive semi-definite")]
    ProcessCov,
    /// R is not a covariance, or one that cannot be factored where that is needed.
    #[error("measurement_cov (R) must be square, finite, symmetric and positive definite")]
    MeasurementCov,
}

impl<N: Dim, M: Dim> GaussianNoise<N, M>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, M>,
{
    /// Q per step and R per measurement, both positive semi-definite: an R of zero is a measurement without error, which the
    /// Kalman filters take as it is (an ARMA process is one); filters that divide by R refuse it.
    pub fn new(
        process_cov: OMatrix<f64, N, N>,
        measurement_cov: OMatrix<f64, M, M>,
    ) -> Result<Self, NoiseError> {
        if !linalg::is_symmetric_psd(&process_cov) {
            return Err(NoiseError::ProcessCov);
        }
        if !linalg::is_symmetric_psd(&measurement_cov) {
            return Err(NoiseError::MeasurementCov);
        }
        let is_exact = (0..measurement_cov.nrows()).any(|i| measurement_cov[(i, i)] == 0.0);
        Ok(Self { process_cov, measurement_cov, is_exact, growth: Growth::PerStep })
    }

    /// Like [`new`](Self::new), with Q per unit of time: a step of length dt has covariance Q dt.
    pub fn per_time(
        process_cov_rate: OMatrix<f64, N, N>,
        measurement_cov: OMatrix<f64, M, M>,
    ) -> Result<Self, NoiseError> {
        Ok(Self { growth: Growth::PerTime, ..Self::new(process_cov_rate, measurement_cov)? })
    }

    /// White noise of spectral density `density` (L Qc L', n x n) that drives dx = A x dt, integrated exactly over
    /// every step (Van Loan 1978); steps of length `dt` are ready-made. The model is
    /// [`Linear::continuous`](super::Linear::continuous).
    pub fn continuous(
        a: OMatrix<f64, N, N>,
        density: OMatrix<f64, N, N>,
        measurement_cov: OMatrix<f64, M, M>,
        dt: f64,
    ) -> Result<Self, NoiseError> {
        let noise = Self::new(density, measurement_cov)?;
        if a.shape() != noise.process_cov.shape() || !a.iter().all(|v| v.is_finite()) {
            return Err(NoiseError::ProcessCov);
        }
        let ready = discretize(&a, Some(&noise.process_cov), dt).q;
        Ok(Self { growth: Growth::Exact { a, dt, ready }, ..noise })
    }
}

impl<N: Dim, M: Dim> Noise<N, M> for GaussianNoise<N, M>
where
    DefaultAllocator: Allocator<N, N> + Allocator<M, M>,
{
    const IS_CHECKED: bool = true;
    #[inline(always)]
    fn process_cov(&self, step: &Step) -> OMatrix<f64, N, N> {
        match &self.growth {
            Growth::PerStep => scratch::copy(&self.process_cov),
            Growth::PerTime => &self.process_cov * step.dt,
            Growth::Exact { dt, ready, .. } if *dt == step.dt => scratch::copy(ready),
            Growth::Exact { a, .. } => discretize(a, Some(&self.process_cov), step.dt).q,
        }
    }
    #[inline(always)]
    fn measurement_cov(&self, _step: &Step) -> OMatrix<f64, M, M> {
        scratch::copy(&self.measurement_cov)
    }
    #[inline(always)]
    fn may_be_exact(&self) -> bool {
        self.is_exact
    }
}

/// Noise of independent components: n and m numbers where [`GaussianNoise`] has their squares. Filters that work
/// with matrices make them; an [`Ensemble`](crate::filter::EnsembleKalmanFilter) never does.
#[derive(Clone, Debug, PartialEq)]
pub struct DiagonalNoise<N: Dim, M: Dim>
where
    DefaultAllocator: Allocator<N> + Allocator<M>,
{
    process_var: OVector<f64, N>,
    measurement_var: OVector<f64, M>,
    per_time: bool,
}

impl<N: Dim, M: Dim> DiagonalNoise<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<M>,
{
    /// Variances of Q per step (not negative) and of R per measurement (positive).
    pub fn new(
        process_var: OVector<f64, N>,
        measurement_var: OVector<f64, M>,
    ) -> Result<Self, NoiseError> {
        if !process_var.iter().all(|v| *v >= 0.0 && v.is_finite()) {
            return Err(NoiseError::ProcessCov);
        }
        if !measurement_var.iter().all(|v| *v > 0.0 && v.is_finite()) {
            return Err(NoiseError::MeasurementCov);
        }
        Ok(Self { process_var, measurement_var, per_time: false })
    }

    /// The same with Q per unit of time: a step of length dt has variances Q dt.
    #[must_use]
    pub fn per_time(self) -> Self {
        Self { per_time: true, ..self }
    }
}

impl<N: Dim, M: Dim> Noise<N, M> for DiagonalNoise<N, M>
where
    DefaultAllocator: Allocator<N> + Allocator<M> + Allocator<N, N> + Allocator<M, M>,
{
    const IS_CHECKED: bool = true;
    fn process_cov(&self, step: &Step) -> OMatrix<f64, N, N> {
        let cov = OMatrix::from_diagonal(&self.process_var);
        if self.per_time { cov * step.dt } else { cov }
    }
    fn measurement_cov(&self, _step: &Step) -> OMatrix<f64, M, M> {
        OMatrix::from_diagonal(&self.measurement_var)
    }
    fn may_be_exact(&self) -> bool {
        false // its variances are positive
    }
    fn process_variances(&self, step: &Step, out: &mut [f64]) -> bool {
        let per = if self.per_time { step.dt } else { 1.0 };
        out.iter_mut().zip(self.process_var.iter()).for_each(|(o, v)| *o = v * per);
        true
    }
    fn measurement_variances(&self, _step: &Step, out: &mut [f64]) -> bool {
        out.copy_from_slice(self.measurement_var.as_slice());
        true
    }
}
