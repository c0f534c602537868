//! An ensemble: equally likely states, whose mean and spread are what is believed.

use super::gaussian::GaussianBelief;
use super::particle_belief::LANES;
use super::spread::Spread;
use super::traits::{Belief, is_sane};
use crate::eigen::dot;
use crate::error::{FilterError, check_len, check_square};
use crate::optim::{Bounds, reflect};
use crate::rng::Stream;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

/// States or measurements up to which a covariance is made, where one is asked for.
const MAX_WITH_COV: usize = 1000;

/// An ensemble of states, and the stream of its random numbers.
///
/// Means and covariances are those of the numbers as they are: a state that is an angle and wraps inside its
/// own dynamics should be averaged by the caller, from the members. A covariance is made up to 1,000 states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct EnsembleBelief<N: Dim> {
    pub(super) count: usize,
    pub(super) dim: usize,
    /// For each component one number per member, padded to whole groups of lanes by what no model minds.
    pub(super) values: Vec<f64>,
    pub(super) stream: Stream,
    #[serde(skip)]
    size: PhantomData<N>,
}

impl<N: Dim> EnsembleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    /// `count` draws from a Gaussian.
    pub fn new(
        start: &GaussianBelief<N>,
        count: usize,
        stream: Stream,
    ) -> Result<Self, FilterError> {
        check_square("initial cov", start.mean.nrows(), &start.cov, None)?;
        Self::draw(&start.mean, Spread::of(&start.cov), count, stream)
    }

    /// `count` draws from a Gaussian of independent components, without a covariance matrix.
    pub fn independent(
        mean: &OVector<f64, N>,
        variances: &[f64],
        count: usize,
        stream: Stream,
    ) -> Result<Self, FilterError> {
        check_len("initial cov", mean.nrows(), variances.len(), None)?;
        if let Some(component) = mean.iter().position(|v| !v.is_finite()) {
            let argument = "initial mean";
            return Err(FilterError::NotFinite { argument, component, index: None });
        }
        Self::draw(mean, Spread::each(variances), count, stream)
    }

    fn draw(
        mean: &OVector<f64, N>,
        spread: Option<Spread<N>>,
        count: usize,
        mut stream: Stream,
    ) -> Result<Self, FilterError> {
        let Some(spread) = spread else {
            return Err(FilterError::NotPositiveDefinite { quantity: "initial cov", index: None });
        };
        let (dim, stride) = (mean.nrows(), count.next_multiple_of(LANES));
        let mut values = vec![0.0; dim * stride];
        stream.fill_normal(&mut values);
        spread.throw(&mut values, stride);
        for (row, mean) in values.chunks_exact_mut(stride.max(1)).zip(mean.iter()) {
            row.iter_mut().for_each(|v| *v += mean);
        }
        let drawn = Self { count, dim, values, stream, size: PhantomData }.checked()?;
        if drawn.flaw().is_some() {
            let furthest = drawn.values.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
            let requirement = "below 1e100: the initial state is too uncertain";
            let argument = "members' values";
            return Err(FilterError::Setting { argument, value: furthest, requirement });
        }
        Ok(drawn)
    }

    /// From members, one row of `dim` numbers each.
    pub fn from_members(dim: usize, members: &[f64], stream: Stream) -> Result<Self, FilterError> {
        let count = members.len() / dim.max(1);
        check_len("members", count * dim, members.len(), None)?;
        if let Some(component) = members.iter().position(|v| !v.is_finite()) {
            return Err(FilterError::NotFinite { argument: "members", component, index: None });
        }
        let stride = count.next_multiple_of(LANES);
        let mut values = vec![0.0; dim * stride];
        for i in 0..dim {
            for k in 0..stride {
                let member = if k < count { k } else { 0 };
                values[i * stride + k] = members[member * dim + i];
            }
        }
        Self { count, dim, values, stream, size: PhantomData }.checked()
    }

    fn checked(self) -> Result<Self, FilterError> {
        self.check_count().map(|()| self)
    }

    fn check_count(&self) -> Result<(), FilterError> {
        if self.count < 2 {
            let (value, requirement) = (self.count as f64, "at least 2");
            return Err(FilterError::Setting { argument: "members", value, requirement });
        }
        Ok(())
    }

    /// The number of members.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Component `component` of member `index`.
    pub fn value(&self, index: usize, component: usize) -> f64 {
        self.values[component * self.stride() + index]
    }

    /// Numbers from one component to the next.
    pub(super) fn stride(&self) -> usize {
        self.count.next_multiple_of(LANES)
    }

    /// The same number of members elsewhere.
    pub(super) fn moved_to(&self, values: Vec<f64>, stream: Stream) -> Self {
        Self { count: self.count, dim: self.dim, values, stream, size: PhantomData }
    }

    fn rows(&self) -> core::slice::ChunksExact<'_, f64> {
        self.values.chunks_exact(self.stride())
    }
}

/// Takes the mean of the first `count` numbers from them, clears the rest, and returns it.
#[inline(always)]
pub(super) fn centre(row: &mut [f64], count: usize) -> f64 {
    let mut mean = 0.0;
    for v in &row[..count] {
        mean += *v;
    }
    mean /= count as f64;
    for v in &mut row[..count] {
        *v -= mean;
    }
    row[count..].fill(0.0);
    mean
}

impl<N: Dim> Belief<N> for EnsembleBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    const HAS_COV: bool = true;
    fn has_cov(size: usize) -> bool {
        size <= MAX_WITH_COV
    }
    fn mean(&self) -> OVector<f64, N> {
        let sums = self.rows().map(|row| row[..self.count].iter().sum::<f64>());
        let means = sums.map(|sum| sum / self.count as f64);
        OVector::from_iterator_generic(N::from_usize(self.dim), U1, means)
    }

    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        if !Self::has_cov(self.dim) {
            return None;
        }
        let (n, stride) = (N::from_usize(self.dim), self.stride());
        let mut apart = self.values.clone();
        for row in apart.chunks_exact_mut(stride) {
            centre(row, self.count);
        }
        let row = |i: usize| &apart[i * stride..(i + 1) * stride];
        let mut cov = OMatrix::zeros_generic(n, n);
        for i in 0..self.dim {
            for j in 0..=i {
                cov[(i, j)] = dot(row(i), row(j)) / (self.count - 1) as f64;
                cov[(j, i)] = cov[(i, j)];
            }
        }
        Some(cov)
    }

    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        self.check_count()?;
        // What a checkpoint says may be any number.
        let stride = self.count.div_ceil(LANES).saturating_mul(LANES);
        check_len("members' state", n, self.dim, Some(index))?;
        check_len("members", stride.saturating_mul(n), self.values.len(), Some(index))
    }

    fn is_within(&self, bounds: &Bounds) -> bool {
        self.rows().enumerate().all(|(i, row)| {
            bounds
                .sides(i)
                .is_none_or(|(low, high)| !row[..self.count].iter().any(|v| *v < low || *v > high))
        })
    }

    /// Every member reflected at the sides it went through.
    fn confine(&mut self, bounds: &Bounds) {
        let stride = self.stride();
        for (i, row) in self.values.chunks_exact_mut(stride).enumerate() {
            let Some(sides) = bounds.sides(i) else { continue };
            row.iter_mut().for_each(|v| *v = reflect(*v, sides));
        }
    }

    fn flaw(&self) -> Option<&'static str> {
        (!self.rows().all(|row| is_sane(&row[..self.count]))).then_some("ensemble")
    }
}
