//! Bayesian filtering in which an optimizer and a number of steps *are* the filter.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod linalg;
pub mod optim;
pub mod scalar;
