//! Likelihoods of single components: of continuous measurements, of counts and binary ones, and mixtures of kinds.

mod any;
mod continuous;
mod discrete;
mod error;
mod every;
mod independent;
mod single;
mod site;

pub use any::Component;
pub use continuous::{Huber, Normal, StudentT};
pub use discrete::{Bernoulli, Link, Poisson};
pub use error::LikelihoodError;
pub use independent::Independent;
pub(crate) use site::Site;

#[cfg(test)]
mod tests;
