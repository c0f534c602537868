//! What series that run side by side hand out: a row of all of them at a time, and how their run ended.

use super::traits::LARGEST;
use crate::Shapes;
use crate::scalar::{Lanes, Scalar};
use nalgebra::{DefaultAllocator, Dim, OMatrix};

/// How a run of some lanes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// Every row of every lane was handed out.
    Done,
    /// A lane left the numbers, or cannot be computed: what each comes to is for it to say alone.
    Apart,
    /// The gaps of these series have too little in common, or they are so long that their covariances fill the memory; those to
    /// come will not fare better.
    Crowded,
}

/// A row of every lane.
pub struct LaneRow<'a, N: Dim, M: Dim, const W: usize>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// Estimates.
    pub mean: &'a [Lanes<W>],
    /// Measurement less prediction; NaN where missing.
    pub innovation: &'a [Lanes<W>],
    /// Zero where nothing was measured.
    pub log_likelihood: Lanes<W>,
    /// NaN where nothing was measured.
    pub nis: Lanes<W>,
    pub(super) covs: LaneCovs<'a, N, M, W>,
}

/// Covariances of the estimate and of the innovation.
type Covs<'a, N, M> = (&'a OMatrix<f64, N, N>, &'a OMatrix<f64, M, M>);

/// Covariances of every lane.
pub(super) enum LaneCovs<'a, N: Dim, M: Dim, const W: usize>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// Those of places that lanes may share.
    Common([Covs<'a, N, M>; W]),
    /// Of the estimate and of the innovation, each lane's own.
    Own(&'a OMatrix<Lanes<W>, N, N>, &'a OMatrix<Lanes<W>, M, M>),
}

impl<N: Dim, M: Dim, const W: usize> LaneRow<'_, N, M, W>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// Writes the covariance of the estimate (n x n).
    #[inline(always)]
    pub fn write_cov(&self, lane: usize, out: &mut [f64]) {
        match &self.covs {
            LaneCovs::Common(covs) => write(covs[lane].0.as_slice(), |v| *v, out),
            LaneCovs::Own(cov, _) => write(cov.as_slice(), |v| v.0[lane], out),
        }
    }

    /// Writes the covariance of the innovation (m x m); NaN where missing.
    #[inline(always)]
    pub fn write_innovation_cov(&self, lane: usize, out: &mut [f64]) {
        match &self.covs {
            LaneCovs::Common(covs) => write(covs[lane].1.as_slice(), |v| *v, out),
            LaneCovs::Own(_, cov) => write(cov.as_slice(), |v| v.0[lane], out),
        }
    }
}

#[inline(always)]
fn write<T>(from: &[T], read: impl Fn(&T) -> f64, out: &mut [f64]) {
    out.iter_mut().zip(from).for_each(|(out, v)| *out = read(v));
}

/// Whether every lane of every number could still measure something.
#[inline(always)]
pub(super) fn is_sane<const W: usize>(x: &[Lanes<W>]) -> bool {
    x.iter().all(|v| Scalar::all_lt(v.abs(), Lanes([LARGEST; W])))
}
