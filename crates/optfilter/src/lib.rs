//! Bayesian filtering in which an optimizer and a number of steps *are* the filter.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod batch;
pub mod checkpoint;
pub mod derivative;
pub mod equivalence;
pub mod filter;
pub mod linalg;
pub mod metrics;
pub mod model;
pub mod optim;
pub mod rng;
pub mod scalar;
mod series;
pub mod simd;
pub mod simulate;
pub mod uncertainty;

pub use series::Series;

use nalgebra::Dim;
use nalgebra::allocator::Allocator;

/// Storage for every vector and matrix of a model with `N` states and `M` measurements.
///
/// nalgebra's `DefaultAllocator` has it for all `Const` and `Dyn` sizes; the trait only gathers the
/// bounds under one name.
pub trait Shapes<N: Dim, M: Dim>:
    Allocator<N> + Allocator<M> + Allocator<N, N> + Allocator<N, M> + Allocator<M, N> + Allocator<M, M>
{
}

impl<N: Dim, M: Dim, T> Shapes<N, M> for T where
    T: Allocator<N>
        + Allocator<M>
        + Allocator<N, N>
        + Allocator<N, M>
        + Allocator<M, N>
        + Allocator<M, M>
{
}
