//! Likelihoods as losses: what an implicit filter descends and a particle filter weighs by.
//!
//! A likelihood p(y | eta) of the measurement y given eta = h(x) enters as its negative logarithm,
//! less what does not depend on eta ([`Likelihood::log_normalizer`] has that part).
//!
//! | likelihood | loss | eta is |
//! |---|---|---|
//! | [`SquaredError`] | half the squared distance, that is R = I | the mean |
//! | [`Gaussian`] | half the squared Mahalanobis distance | the mean |
//! | [`StudentT`] | (dof+1)/2 ln(1 + z^2/dof) | the centre |
//! | [`Huber`] | z^2/2, linear beyond delta | the centre |
//! | [`Poisson`] | rate - y ln rate | the rate or its logarithm |
//! | [`Bernoulli`] | cross-entropy | the probability or its logit |
//! | [`Foreign`] | what somebody else computes | whatever that reads |
//!
//! A user's own likelihood needs only [`Likelihood::loss`]; its derivative is automatic:
//!
//! ```
//! use optfilter::model::likelihood::{Likelihood, Observed};
//! use optfilter::scalar::Scalar;
//! struct Laplace { scale: f64 }
//! impl Likelihood for Laplace {
//!     fn loss<S: Scalar>(&self, y: &[S], eta: &[S], observed: Observed<'_>) -> S {
//!         let mut sum = S::ZERO;
//!         for i in observed.indices(y.len()) {
//!             sum += (y[i] - eta[i]).abs().scale(1.0 / self.scale);
//!         }
//!         sum
//!     }
//! }
//! let mut slope = [0.0];
//! Laplace { scale: 2.0 }.score(&[1.0], &[4.0], Observed::All, &mut slope);
//! assert_eq!(slope, [0.5]);
//! ```

mod any;
mod component;
mod draw;
mod foreign;
mod gaussian;
mod observed;
mod traits;

pub use any::AnyLikelihood;
pub(crate) use component::Site;
pub use component::{
    Bernoulli, Component, Huber, Independent, LikelihoodError, Link, Normal, Poisson, StudentT,
};
pub use draw::Scatter;
pub use foreign::{Foreign, LogDensity};
pub(crate) use gaussian::masked_cov;
pub use gaussian::{Gaussian, SquaredError};
pub use observed::Observed;
pub use traits::Likelihood;
