//! How the beliefs of all filters begin: from a start, with what each needs besides.

use crate::runner::InitialState;
use crate::state_space::DynBelief;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use optfilter::Pooled;
use optfilter::filter::{
    Belief, DiffuseBelief, EnsembleBelief, FilterError, GaussianBelief, MixtureBelief,
    ParticleBelief, PointBelief, WindowBarsBelief, WindowBelief,
};
use optfilter::rng::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A belief that can be started and saved.
pub(crate) trait InitBelief<N: Dim>:
    Belief<N> + Serialize + DeserializeOwned + Send + Sync + 'static
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// What a start needs besides mean and covariance.
    type Settings: Clone + Send + Sync + 'static;
    fn begin(settings: &Self::Settings, n: N, start: &InitialState) -> Result<Self, FilterError>;
    /// Whether a belief could begin so.
    fn can_begin(settings: &Self::Settings, n: N, start: &InitialState) -> Result<(), FilterError> {
        Self::begin(settings, n, start).map(drop)
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        None
    }
    /// The belief, while some state is still wholly unknown.
    fn diffuse(&self) -> Option<DynBelief> {
        None
    }
    /// How many particles count; infinite without any.
    fn effective(&self) -> f64 {
        f64::INFINITY
    }
}

fn mean_of<N: Dim>(n: N, start: &InitialState) -> Result<OVector<f64, N>, FilterError>
where
    DefaultAllocator: Allocator<N>,
{
    if start.mean.len() != n.value() {
        let (argument, expected, found) = ("initial mean", n.value(), start.mean.len());
        return Err(FilterError::Size { argument, expected, found, index: None });
    }
    Ok(OVector::from_column_slice_generic(n, U1, &start.mean))
}

impl<N: Dim> InitBelief<N> for GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &InitialState) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?, start.cov.dense(n))
    }
}

impl InitBelief<Pooled> for DynBelief {
    type Settings = ();
    fn begin((): &(), n: Pooled, start: &InitialState) -> Result<Self, FilterError> {
        let mut diffuse = start.diffuse.clone();
        if diffuse.is_empty() {
            diffuse.resize(n.value(), false);
        }
        DiffuseBelief::new(mean_of(n, start)?, start.cov.dense(n), &diffuse)
    }
    #[inline]
    fn diffuse(&self) -> Option<DynBelief> {
        (!self.is_proper()).then(|| self.clone())
    }
}

impl<N: Dim> InitBelief<N> for MixtureBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &InitialState) -> Result<Self, FilterError> {
        Ok(GaussianBelief::new(mean_of(n, start)?, start.cov.dense(n))?.into())
    }
}

impl<N: Dim, T> InitBelief<N> for PointBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &InitialState) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?)
    }
}

impl<N: Dim, T> InitBelief<N> for WindowBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &InitialState) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?)
    }
}

impl<N: Dim, T> InitBelief<N> for WindowBarsBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, N, N>: Send + Sync + Serialize + DeserializeOwned,
    T: Clone + Send + Sync + Serialize + DeserializeOwned + 'static,
{
    type Settings = ();
    fn begin((): &(), n: N, start: &InitialState) -> Result<Self, FilterError> {
        Self::new(mean_of(n, start)?, start.cov.dense(n))
    }
}

impl<N: Dim> InitBelief<N> for ParticleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync,
{
    /// The number of particles and the seed.
    type Settings = (usize, u64);
    fn begin(
        &(count, seed): &(usize, u64),
        n: N,
        start: &InitialState,
    ) -> Result<Self, FilterError> {
        let (mean, stream) = (mean_of(n, start)?, Stream::new(seed, start.run, "particles"));
        if let crate::Covariance::Dense(_) = start.cov {
            return Self::new(&GaussianBelief::new(mean, start.cov.dense(n))?, count, stream);
        }
        let variances: Vec<f64> = (0..n.value()).map(|i| start.cov.variance(i)).collect();
        Self::independent(&mean, &variances, count, stream)
    }
    /// A few particles say what all would: a hundred million take seconds to draw.
    fn can_begin(
        &(count, seed): &(usize, u64),
        n: N,
        start: &InitialState,
    ) -> Result<(), FilterError> {
        Self::begin(&(count.min(64), seed), n, start).map(drop)
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let n = self.mean().nrows();
        let values = (0..self.count()).flat_map(|i| (0..n).map(move |j| self.value(i, j)));
        Some((values.collect(), self.weights().to_vec()))
    }
    fn effective(&self) -> f64 {
        let add = |(sum, squares), w: &f64| (sum + w, squares + w * w);
        let (sum, squares) = self.weights().iter().fold((0.0, 0.0), add);
        sum * sum / squares
    }
}

impl<N: Dim> InitBelief<N> for EnsembleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
    OVector<f64, N>: Send + Sync,
{
    /// The number of members and the seed.
    type Settings = (usize, u64);
    fn begin(
        &(count, seed): &(usize, u64),
        n: N,
        start: &InitialState,
    ) -> Result<Self, FilterError> {
        let (mean, stream) = (mean_of(n, start)?, Stream::new(seed, start.run, "ensemble"));
        if let crate::Covariance::Dense(_) = start.cov {
            return Self::new(&GaussianBelief::new(mean, start.cov.dense(n))?, count, stream);
        }
        let variances: Vec<f64> = (0..n.value()).map(|i| start.cov.variance(i)).collect();
        Self::independent(&mean, &variances, count, stream)
    }
    fn particles(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let (n, count) = (self.mean().nrows(), self.count());
        let values = (0..count).flat_map(|i| (0..n).map(move |j| self.value(i, j)));
        Some((values.collect(), vec![1.0 / count as f64; count]))
    }
}
