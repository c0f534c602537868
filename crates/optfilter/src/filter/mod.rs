//! Filters: one per file, all with the same `predict` and `update`.
//!
//! | filter | belief | asks of the model |
//! |---|---|---|
//! | [`KalmanFilter`] | Gaussian | linear, noise |
//! | [`ExtendedKalmanFilter`] | Gaussian | derivatives (automatic), noise |
//! | [`IteratedKalmanFilter`] | Gaussian | derivatives (automatic), noise |
//! | [`UnscentedKalmanFilter`] | Gaussian | values, noise |
//! | [`Diffuse`] | Gaussian, in part unknown | linear, noise, one of these |
//! | [`Robust`] | a few Gaussians | the same as the filter inside it, and laws that forgive outliers |
//! | [`ParticleFilter`] | weighted samples | values, process noise, likelihood |
//! | [`EnsembleKalmanFilter`] | equally likely samples | values, measurement noise |
//! | [`VariationalKalmanFilter`] | point | gradient of the likelihood, a prior covariance |
//! | [`ImplicitMap`] | point | gradient of the likelihood, an optimizer and a number of steps |
//! | [`Window`] | point, and the rows of the window | the same, over the last rows |
//! | [`ErrorBars`], [`WindowBars`] | mean and covariance | the same, and noise |
//!
//! A filter holds the model and its settings; what it believes is passed in. So one filter serves many
//! trajectories, and a belief is all there is to save.
//!
//! ```
//! use nalgebra::{matrix, vector};
//! use optfilter::filter::{ExtendedKalmanFilter, Filter, GaussianBelief};
//! use optfilter::model::{GaussianNoise, Growth, Step};
//!
//! let filter = ExtendedKalmanFilter::new(Growth, GaussianNoise::new(matrix![1.0], matrix![1.0])?);
//! let mut belief = GaussianBelief::new(vector![0.1], matrix![1.0])?;
//! let step = Step::even(1, 0.1);
//! filter.predict(&mut belief, &[], &step)?;
//! let update = filter.update(&mut belief, &[4.2], &[], &step)?;
//! assert!(update.log_likelihood.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounded;
mod common_gain;
mod damping;
mod diffuse;
mod ensemble;
mod ensemble_belief;
mod ensemble_transform;
mod error_bars;
pub mod evidence;
mod extended;
mod first_rows;
mod gated;
mod gaussian;
mod implicit_map;
mod iterated;
mod kalman;
mod lane_row;
mod limit;
mod localization;
mod mixture;
mod particle;
mod particle_belief;
mod point;
mod process_factor;
mod resampling;
mod robust;
mod side_by_side;
mod sigma_points;
mod spread;
mod track;
mod traits;
mod unscented;
mod variational;
mod window;
mod window_bars;
mod window_errors;
mod window_lanes;
mod window_loss;
mod window_response;

pub use crate::error::FilterError;
pub use bounded::Bounded;
pub use common_gain::CommonGain;
pub use diffuse::{Diffuse, DiffuseBelief};
pub use ensemble::EnsembleKalmanFilter;
pub use ensemble_belief::EnsembleBelief;
pub use error_bars::ErrorBars;
pub use extended::ExtendedKalmanFilter;
pub use gated::{Gate, Gated, Gating};
pub use gaussian::GaussianBelief;
pub(crate) use gaussian::{GaussianMeasurement, condition, propagated};
pub use implicit_map::{ImplicitMap, Memory};
pub use iterated::IteratedKalmanFilter;
pub use kalman::KalmanFilter;
pub use lane_row::{LaneRow, Together};
pub use localization::Localization;
pub use mixture::{MixtureBelief, Part};
pub use particle::{ParticleFilter, Resampling};
pub use particle_belief::ParticleBelief;
pub use point::PointBelief;
pub(crate) use point::{MeasurementLoss, check_parts};
pub use process_factor::ProcessFactor;
pub use resampling::{Scheme, resample};
pub use robust::{Reweigh, Robust, STORIES};
pub use side_by_side::{LaneBelief, LaneMeasurement, LaneUpdate, SideBySide, side_by_side};
pub use sigma_points::SigmaPoints;
pub use track::{Followed, Track};
pub(crate) use traits::LARGEST;
pub use traits::{Belief, Filter, Update};
pub use unscented::UnscentedKalmanFilter;
pub use variational::VariationalKalmanFilter;
pub use window::{Curved, Descent, Window, WindowBelief};
pub use window_bars::{WindowBars, WindowBarsBelief};
pub use window_lanes::WindowRow;
pub use window_response::Responsive;
