//! Filters of any kind and size behind two small traits.
//!
//! A [`Runner`] is what does not change (model, noise, settings): any number of threads may run series
//! through it. A [`Live`] filter adds a belief that moves step by step.
//!
//! - [`state`]: beliefs that Python can start, read, set and pickle;
//! - [`driver`]: any filter of the library as a runner;
//! - [`lanes`]: many trajectories of an implicit filter side by side.

mod driver;
mod lanes;
mod state;

pub(crate) use driver::{Driver, Shared};
pub(crate) use lanes::{LaneFilter, Packed};
pub(crate) use state::State;

use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim};
use optfilter::Series;
use optfilter::batch::Estimates;
use optfilter::filter::{FilterError, Update};
use optfilter::model::Step;

/// Where a trajectory starts.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) mean: Vec<f64>,
    pub(crate) cov: DMatrix<f64>,
    /// The number of the trajectory, which names its random stream.
    pub(crate) run: u64,
    /// Whether the belief is of the first measurement's own time, so that nothing is predicted before it.
    pub(crate) at_first: bool,
}

/// What the last update learnt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) innovation: Vec<f64>,
    /// S, column by column (symmetric); empty where the filter has none.
    pub(crate) innovation_cov: Vec<f64>,
    pub(crate) log_likelihood: Option<f64>,
    pub(crate) nis: Option<f64>,
}

impl Report {
    fn write<M: Dim>(&mut self, update: &Update<M>)
    where
        DefaultAllocator: Allocator<M> + Allocator<M, M>,
    {
        self.innovation.clear();
        self.innovation.extend_from_slice(update.innovation.as_slice());
        self.innovation_cov.clear();
        if let Some(s) = &update.innovation_cov {
            self.innovation_cov.extend_from_slice(s.as_slice());
        }
        self.log_likelihood = update.log_likelihood;
        self.nis = update.nis;
    }
}

/// Where the results of one trajectory go, rows in time order. Slices are empty for what is not asked for.
#[derive(Debug, Default)]
pub(crate) struct Rows<'a> {
    /// T x n
    pub(crate) means: &'a mut [f64],
    /// T x n x n
    pub(crate) covs: &'a mut [f64],
    /// T x m
    pub(crate) innovations: &'a mut [f64],
    /// T x m x m
    pub(crate) innovation_covs: &'a mut [f64],
    /// T
    pub(crate) log_likelihoods: &'a mut [f64],
    /// T
    pub(crate) nis: &'a mut [f64],
}

impl Rows<'_> {
    /// NaN from time `from` of `len` on: what a filter that failed there did not compute.
    pub(crate) fn lose(&mut self, from: usize, len: usize) {
        let all = [
            &mut self.means,
            &mut self.covs,
            &mut self.innovations,
            &mut self.innovation_covs,
            &mut self.log_likelihoods,
            &mut self.nis,
        ];
        for rows in all {
            let width = rows.len() / len.max(1);
            rows[from * width..].fill(f64::NAN);
        }
    }
}

/// Whether a long run should end early; asked every `stride` steps.
pub(crate) struct Watch<'a> {
    pub(crate) stride: usize,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// A filter without a belief.
pub(crate) trait Runner: Send + Sync {
    /// States, measurements and inputs.
    fn dims(&self) -> (usize, usize, usize);
    /// Whether covariances, log-likelihoods and NIS come with the means.
    fn has_cov(&self) -> bool;
    fn start(&self, start: &Start) -> Result<Box<dyn Live>, FilterError>;
    fn load(&self, bytes: &[u8]) -> Result<Box<dyn Live>, String>;
    /// Runs a series into `rows`. After a failure the rows hold what went before it, and NaN.
    fn run(
        &self,
        start: &Start,
        series: &Series<'_>,
        rows: &mut Rows<'_>,
        watch: &Watch<'_>,
    ) -> Result<(), FilterError>;
    /// Whether series can be lanes.
    fn has_lanes(&self) -> bool;
    /// The estimates of many series as lanes, where the filter can.
    fn run_lanes(
        &self,
        starts: &[Start],
        series: &[Series<'_>],
    ) -> Option<Result<Estimates, FilterError>>;
    /// The innovations (T x m) that belong to estimates from lanes.
    fn innovations(&self, start: &[f64], series: &Series<'_>, means: &[f64]) -> Option<Vec<f64>>;
}

/// A filter with a belief.
pub(crate) trait Live: Send + Sync {
    fn predict(&mut self, u: &[f64], step: &Step) -> Result<(), FilterError>;
    fn update(
        &mut self,
        y: &[f64],
        u: &[f64],
        step: &Step,
        report: &mut Report,
    ) -> Result<(), FilterError>;
    fn mean_into(&self, out: &mut [f64]);
    /// The covariance, column by column; `None` for point estimates.
    fn cov_values(&self) -> Option<Vec<f64>>;
    fn to_bytes(&self) -> Result<Vec<u8>, String>;
    /// Particles (count x n, row by row) and weights.
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)>;
}
