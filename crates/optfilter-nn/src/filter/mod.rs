//! Filters whose state is the weight vector of a network.
//!
//! | filter | update | what it needs to know |
//! |---|---|---|
//! | [`ImplicitMap`] | K steps of an optimizer on the loss of the time step | optimizer, K |
//! | [`ImplicitMap::direct_fit`] | the same to near convergence: the measurement is believed entirely | optimizer |
//! | [`Variational`] | K steps on mean loss plus a quadratic pull to the prediction | the transition variance |
//! | [`Particle`] | likelihood weights and resampling of many weight vectors | the transition variance |
//! | [`Diagonal`] | extended Kalman filters and BONG with a diagonal belief | prior and drift variances |
//! | [`LowRank`] | LoFi: diagonal plus low-rank precision | the same, and the rank |
//! | [`Ivon`] | variational online Newton steps | rate and effective sample size |
//! | [`Static`] | none | nothing |
//!
//! [`ImplicitMap`] (direct fit included) and [`Variational`] may look back over a [`Window`] of time steps.
//!
//! Every filter does the same two things in turn: [`WeightFilter::predict`] when time passes, [`WeightFilter::update`]
//! when labels arrive.

mod descent;
mod diagonal;
mod implicit_map;
mod ivon;
mod linearised;
mod low_rank;
mod particle;
mod start;
mod traits;
mod transition;
mod unchanged;
mod variational;
mod window;

pub use descent::descend_at;
pub use diagonal::{Diagonal, DiagonalRule};
pub use implicit_map::ImplicitMap;
pub use ivon::{Ivon, IvonOptions};
pub use linearised::{Likelihood, Linearised};
pub use low_rank::LowRank;
pub use optfilter::filter::Memory;
pub use particle::{Particle, ParticleError, disturb, losses};
pub use start::{Converged, fit, fit_until};
pub use traits::{Resumable, Weight, WeightFilter};
pub use transition::Transition;
pub use unchanged::Static;
pub use variational::{Variational, VariationalError};
pub use window::{Past, Window, WindowError, WindowObjective};
