//! Network weights as the state of a Bayesian filter.
//!
//! The weights of a network that must follow a drifting world are the hidden state; labelled samples of a time step
//! are the measurement; an optimizer and a number of steps are the filter. Three layers, each usable alone:
//!
//! - [`Network`], a sequence of layers over one flat weight vector, and [`Evaluator`], its arithmetic on the CPU
//!   ([`kernel`]: AVX-512, AVX2 or portable, chosen at run time);
//! - [`NetworkObjective`], which makes a network and a batch an [`optfilter::optim::Objective`], so that every
//!   optimizer of the library moves weights as it moves any other state;
//! - [`filter`], the filters over weights, and [`adapt`], which follows a user's own stream with them.

pub mod adapt;
#[cfg(feature = "cuda")]
pub mod cuda;
mod describe;
mod evaluate;
pub mod filter;
pub mod kernel;
mod layer;
mod network;
mod objective;
pub mod safetensors;
mod stage;

pub use evaluate::{Evaluator, Minibatch};
pub use kernel::{Loss, Reduction, Targets};
pub use layer::{Layer, Shape};
pub use network::{Network, NetworkError, Parameter};
pub use objective::NetworkObjective;
