//! Beliefs that Python can start, read, set and pickle.

use super::Start;
use crate::convert::{sized, sized_vector};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector};
use optfilter::checkpoint;
use optfilter::filter::{Belief, FilterError, GaussianBelief, ParticleBelief, PointBelief};
use optfilter::rng::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The name under which beliefs are saved.
const KIND: &str = "python belief";

/// A belief between Python and the library.
pub(crate) trait State: Clone + Send + Sync + 'static {
    /// Whether there is a covariance; point estimates have none.
    const HAS_COV: bool;
    type Settings: Clone + Send + Sync + 'static;
    fn start(settings: &Self::Settings, start: &Start) -> Result<Self, FilterError>;
    /// How many numbers the mean has.
    fn dim(&self) -> usize;
    fn mean_into(&self, out: &mut [f64]);
    /// Writes the covariance column by column, if there is one.
    fn cov_into(&self, out: &mut [f64]);
    fn to_bytes(&self) -> Result<Vec<u8>, String>;
    fn from_bytes(bytes: &[u8]) -> Result<Self, String>;
    /// Particles (count x n, row by row) and weights.
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }
}

impl<N: Dim> State for GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
{
    const HAS_COV: bool = true;
    type Settings = ();
    fn start((): &(), start: &Start) -> Result<Self, FilterError> {
        let n = N::from_usize(start.mean.len());
        Self::new(sized_vector(n, &start.mean), sized(n, n, &start.cov))
    }
    fn dim(&self) -> usize {
        self.mean.nrows()
    }
    #[inline(always)]
    fn mean_into(&self, out: &mut [f64]) {
        out.copy_from_slice(self.mean.as_slice());
    }
    #[inline(always)]
    fn cov_into(&self, out: &mut [f64]) {
        out.copy_from_slice(self.cov.as_slice());
    }
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        checkpoint::save(KIND, self).map_err(|e| e.to_string())
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        checkpoint::load(KIND, bytes).map_err(|e| e.to_string())
    }
}

impl<N: Dim, T> State for PointBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    const HAS_COV: bool = false;
    type Settings = ();
    fn start((): &(), start: &Start) -> Result<Self, FilterError> {
        Self::new(sized_vector(N::from_usize(start.mean.len()), &start.mean))
    }
    fn dim(&self) -> usize {
        self.mean.nrows()
    }
    #[inline(always)]
    fn mean_into(&self, out: &mut [f64]) {
        out.copy_from_slice(self.mean.as_slice());
    }
    fn cov_into(&self, _: &mut [f64]) {}
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        checkpoint::save(KIND, self).map_err(|e| e.to_string())
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        checkpoint::load(KIND, bytes).map_err(|e| e.to_string())
    }
}

impl<N: Dim> State for ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync,
{
    const HAS_COV: bool = true;
    /// The number of particles and the seed.
    type Settings = (usize, u64);
    fn start(&(count, seed): &(usize, u64), start: &Start) -> Result<Self, FilterError> {
        let n = N::from_usize(start.mean.len());
        let belief = GaussianBelief::new(sized_vector(n, &start.mean), sized(n, n, &start.cov))?;
        Self::new(&belief, count, Stream::new(seed, start.run, "particles"))
    }
    fn dim(&self) -> usize {
        self.mean().nrows()
    }
    fn mean_into(&self, out: &mut [f64]) {
        out.copy_from_slice(self.mean().as_slice());
    }
    fn cov_into(&self, out: &mut [f64]) {
        match self.cov() {
            Some(cov) => out.copy_from_slice(cov.as_slice()),
            None => out.fill(f64::NAN),
        }
    }
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        checkpoint::save(KIND, self).map_err(|e| e.to_string())
    }
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        checkpoint::load(KIND, bytes).map_err(|e| e.to_string())
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let n = self.dim();
        let values = (0..self.count()).flat_map(|i| (0..n).map(move |j| self.value(i, j)));
        Some((values.collect(), self.weights().to_vec()))
    }
}
