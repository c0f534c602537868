//! Bayesian filtering in which an optimizer and a number of steps *are* the filter.
//!
//! A Bayesian filter predicts a state and corrects the prediction by a measurement. The correction is
//! usually computed from covariances or particles. An *implicit* filter takes K steps of an optimizer on
//! the measurement's likelihood alone, started at the prediction: where the descent starts, how it steps
//! and when it stops *is* a prior (Bencomo, Snell and Griffiths, ICLR 2024). In linear-Gaussian systems
//! this is exactly a Kalman filter; in general it needs D numbers for a D-dimensional state, so it reaches
//! from one number to the weights of a neural network.
//!
//! ```
//! use nalgebra::vector;
//! use optfilter::Series;
//! use optfilter::drive::Run;
//! use optfilter::filter::{ImplicitMap, PointBelief};
//! use optfilter::model::{Growth, likelihood::SquaredError};
//! use optfilter::optim::Adam;
//!
//! // Fifty Adam steps per measurement are the filter.
//! let filter = ImplicitMap::new(Growth, SquaredError, Adam::new(0.1)?, 50)?;
//! let measurements = [0.3, 1.1, f64::NAN, 2.4]; // the third is missing
//! let series = Series::new(&measurements, 1)?.with_dt(0.1)?;
//! let trace = filter.run(&mut PointBelief::new(vector![0.1])?, &series)?;
//! assert_eq!(trace.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The rooms
//!
//! | module | what is there |
//! |---|---|
//! | [`scalar`] | the numbers a model runs in: `f64`, `f32`, lanes, duals |
//! | [`model`] | dynamics, observations, likelihoods, noise, integrators, built-in systems |
//! | [`optim`] | the optimizers, and the traits they share with filters |
//! | [`filter`] | one filter per file, all with `predict` and `update` |
//! | [`drive`] | the one loop over a series, and what it leaves behind |
//! | [`equivalence`] | prior <-> learning-rate matrix: the theory that joins the two |
//! | [`batch`] | many trajectories or hyper-parameters at once: lanes and threads |
//! | [`checkpoint`] | beliefs saved and loaded bit for bit |
//! | [`rng`], [`simulate`], [`metrics`] | named random streams, trajectories, errors and consistency |
//!
//! # Three ideas
//!
//! *A model is written once, over slices of any [`scalar::Scalar`].* The same source runs as `f64`, as
//! lanes of trajectories and as duals, so derivatives are automatic and vector code needs no second model.
//!
//! *A filter holds settings, a belief holds what is believed.* Beliefs are passed in, so one filter serves
//! many trajectories and a belief is all that a checkpoint must keep.
//!
//! *Kernels return a status, drivers raise.* Nothing panics on a user's input; every error names the
//! argument or the quantity, and the time index.
//!
//! # Without std
//!
//! With `default-features = false` the library is `no_std` (it needs an allocator for models whose sizes
//! are known at run time; a step of a fixed-size filter allocates nothing). The feature `std` adds
//! threads, vector units chosen at run time, the platform's mathematical functions, and saving beliefs of
//! run-time size.
//!
//! # Who should look elsewhere
//!
//! Model learning by expectation maximisation and factor graphs are not here.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod batch;
pub mod checkpoint;
pub mod chi_square;
#[cfg(feature = "std")]
mod dense;
pub mod derivative;
pub mod drive;
mod eigen;
pub mod equivalence;
mod error;
pub mod filter;
pub mod linalg;
pub mod metrics;
pub mod model;
pub mod most_likely;
pub mod optim;
mod pooled;
pub mod rng;
pub mod scalar;
mod scratch;
mod series;
pub mod simd;
pub mod simulate;
pub mod smoother;

pub use pooled::{Pooled, PooledStorage};
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
