//! The one loop: from a series of measurements to estimates.
//!
//! [`drive`] walks over a [`Series`], predicts and updates, and hands every row to a sink. Everything that
//! runs a filter over a whole series comes through here: [`Run::run`], which drives into a [`Trace`]; the
//! command line, Python and the experiments. Whether the first row is predicted is the series' to say.
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::drive::{Run, drive};
//! use optfilter::filter::{ExtendedKalmanFilter, GaussianBelief};
//! use optfilter::model::{GaussianNoise, Growth};
//! use optfilter::Series;
//!
//! let filter = ExtendedKalmanFilter::new(Growth, GaussianNoise::new(matrix![1.0], matrix![1.0])?);
//! let mut belief = GaussianBelief::new(vector![0.1], matrix![1.0])?;
//! let series = Series::new(&[0.3, f64::NAN, 2.4], 1)?.with_dt(0.1)?;
//! let trace = filter.run(&mut belief.clone(), &series)?;
//! let mut last = 0.0;
//! drive(&filter, &mut belief, &series, &mut |_, _, belief, _| {
//!     last = belief.mean[0];
//!     Ok(())
//! })?;
//! assert_eq!(trace.mean(2), [last]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::filter::{Belief, Filter, Update};
use crate::model::Step;
use crate::series::Series;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim};

/// Takes one row: predicts through the step unless the belief is of the row's own time, then updates. A row
/// that fails leaves the belief as it was before both.
#[inline(always)]
pub fn advance<F>(
    filter: &F,
    belief: &mut F::Belief,
    predict: bool,
    (y, u): (&[f64], &[f64]),
    step: &Step,
) -> Result<Update<F::Output>, FilterError>
where
    F: Filter,
    F::Belief: Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    if !predict {
        return filter.update(belief, y, u, step);
    }
    let mut next = filter.predicted(belief, u, step)?;
    let update = filter.update(&mut next, y, u, step)?;
    *belief = next;
    Ok(update)
}

/// Walks over a series; `sink` sees the row, its step, the belief after it, which it may replace, and what was learnt, and ends
/// the walk by an error.
#[inline(always)]
pub fn drive<F>(
    filter: &F,
    belief: &mut F::Belief,
    series: &Series<'_>,
    sink: &mut impl FnMut(usize, &Step, &mut F::Belief, Update<F::Output>) -> Result<(), FilterError>,
) -> Result<(), FilterError>
where
    F: Filter,
    F::Belief: Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let (_, m, inputs) = filter.dims();
    check_len("observations", m.value(), series.output_dim(), None)?;
    check_len("inputs", inputs, series.input_dim(), None)?;
    for k in 0..series.len() {
        let (step, row) = (series.step(k), (series.observation(k), series.input(k)));
        let update = advance(filter, belief, series.predicts(k), row, &step)?;
        sink(k, &step, belief, update)?;
    }
    Ok(())
}

/// A filter over a whole series in memory.
pub trait Run: Filter {
    /// Predicts and updates through a whole series. The belief ends where the series does.
    fn run(&self, belief: &mut Self::Belief, series: &Series<'_>) -> Result<Trace, FilterError>
    where
        Self: Sized,
        Self::Belief: Belief<Self::State>,
        DefaultAllocator: Shapes<Self::State, Self::Output>,
    {
        let (n, m, _) = self.dims();
        let mut trace = Trace { state_dim: n.value(), output_dim: m.value(), ..Trace::default() };
        drive(self, belief, series, &mut |_, _, belief, update| {
            let (mean, cov) = (belief.mean(), belief.cov());
            trace.push(mean.as_slice(), cov.as_ref().map(|c| c.as_slice()), &update);
            Ok(())
        })?;
        Ok(trace)
    }
}

impl<F: Filter> Run for F {}

/// The results of a whole series, as flat rows in time order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Components of the state.
    pub state_dim: usize,
    /// Components of a measurement.
    pub output_dim: usize,
    /// Estimates after each update, T x n.
    pub means: Vec<f64>,
    /// Their error covariances, T x n x n; empty if the filter has none.
    pub covs: Vec<f64>,
    /// Innovations, T x m; NaN where the measurement is missing.
    pub innovations: Vec<f64>,
    /// Innovation covariances, T x m x m; empty if the filter has none.
    pub innovation_covs: Vec<f64>,
    /// Log-likelihood of each measurement given those before; empty if the filter has none.
    pub log_likelihoods: Vec<f64>,
    /// Normalised innovations squared, NaN where nothing was measured; empty if the filter has none.
    pub nis: Vec<f64>,
    /// Observed components at each time.
    pub observed: Vec<usize>,
}

impl Trace {
    fn push<M: Dim>(&mut self, mean: &[f64], cov: Option<&[f64]>, update: &Update<M>)
    where
        DefaultAllocator: Allocator<M> + Allocator<M, M>,
    {
        self.means.extend_from_slice(mean);
        self.innovations.extend_from_slice(update.innovation.as_slice());
        self.observed.push(update.observed);
        let Some(cov) = cov else { return };
        self.covs.extend_from_slice(cov);
        // A covariance that was given up leaves rows of NaN.
        match &update.innovation_cov {
            Some(s) => self.innovation_covs.extend_from_slice(s.as_slice()),
            None => {
                let size = self.output_dim * self.output_dim;
                self.innovation_covs.extend(core::iter::repeat_n(f64::NAN, size));
            }
        }
        self.log_likelihoods.push(update.log_likelihood.unwrap_or(f64::NAN));
        self.nis.push(update.nis.unwrap_or(f64::NAN));
    }

    /// The number of time steps.
    pub fn len(&self) -> usize {
        self.observed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.observed.is_empty()
    }

    /// The estimate at time `k`, from 0.
    pub fn mean(&self, k: usize) -> &[f64] {
        &self.means[k * self.state_dim..(k + 1) * self.state_dim]
    }

    /// The error covariance at time `k` (n x n, symmetric), if the filter has one.
    pub fn cov(&self, k: usize) -> Option<&[f64]> {
        let size = self.state_dim * self.state_dim;
        self.covs.get(k * size..(k + 1) * size)
    }

    /// The log-likelihood of the whole series, if the filter has one.
    pub fn log_likelihood(&self) -> Option<f64> {
        (!self.log_likelihoods.is_empty()).then(|| crate::metrics::sum(&self.log_likelihoods))
    }
}
