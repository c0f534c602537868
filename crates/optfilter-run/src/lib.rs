//! A filter chosen at run time: the friendly face of the library, and the engine behind every door.
//!
//! The generic types of `optfilter` are for speed and for sizes that are known when a program is written. Here
//! a filter is data: a [`FilterSpec`] says which one and with what, a [`Problem`] says of what, and [`build`]
//! makes a [`DynFilter`] of the two. The command line, the Python package and the experiments come through here,
//! so the same model, data and settings, defaults included, give the same bits from each of them.
//!
//! ```
//! use optfilter::{Series, model::Growth};
//! use optfilter_run::{FilterSpec, Problem, build};
//!
//! let problem = Problem::new(Growth).noise(3.0, 2.0).start(0.1, 1.0).dt(0.1);
//! let filter = build(&FilterSpec::of("ekf")?, &problem)?;
//! let result = filter.filter(&Series::new(&[0.3, 1.1, f64::NAN, 2.4], 1)?)?;
//! println!("{:?}", result.means);
//! assert_eq!(result.means.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it decides |
//! |---|---|
//! | [`settings`], `setting`, `choice` | every setting of every filter: a line each, from which all doors are made |
//! | [`spec`] | which settings go together, and what holds where one is open |
//! | [`problem`] | a model with its noise, start and bounds; covariances no larger than they must be |
//! | [`build`] | which type of the library runs; small sizes fixed when this crate was compiled |
//! | `default` | the filter of a problem that names none; which states it leaves untouched |
//! | [`runner`], `engine` | any filter of the library behind two small traits: whole series, or step by step |
//! | `init_belief`, `step_timer` | how beliefs begin; irregular times and the time since the last measurement |
//! | [`flags`] | a word for each row: outlier, runaway, at a bound |
//! | [`session`] | rows from a stream, with a clock, saved and resumed bit for bit |
//! | [`mod@walk`] | the same for rows in memory |
//! | [`mod@smooth`], [`mod@forecast`], `state_space` | what later rows say of earlier ones; what comes after the last |
//! | [`rolling_forecast`], [`fixed_lag`] | the same on a stream: forecasts from every row, and rows smoothed by the next few |
//! | [`lanes`], `gaussian_batch` | many series side by side: of an implicit filter, of a linear model |
//! | [`optimizer`] | optimizers: the library's, a matrix, or a user's own |

mod build;
mod choice;
mod default;
mod diagnose;
mod engine;
mod error;
pub mod fixed_lag;
pub mod flags;
pub mod forecast;
mod gaussian_batch;
mod init_belief;
pub mod lanes;
mod linearize;
mod model;
pub mod optimizer;
pub mod problem;
pub mod rolling_forecast;
pub mod runner;
pub mod session;
mod setting;
pub mod settings;
mod simulate;
pub mod smooth;
pub mod spec;
mod state_space;
mod step_timer;
pub mod walk;

pub use build::{build, build_with};
pub use choice::{Constraint, GapPolicy, GatingMode, IrregularSteps, Loss, Method};
pub use default::{LONELY, unmoved};
pub use diagnose::{Diagnosis, EffectiveSampleSize, InnovationRecord, InnovationScale, Residuals};
pub use error::{RunError, SpecError};
pub use fixed_lag::{FixedLagSmoother, SmoothedEstimate};
pub use flags::{Flag, lost_track};
pub use forecast::{Forecast, ForecastSummary, forecast};
pub use linearize::Linearized;
pub use model::{AnyModel, RunModel, TimeDependence};
pub use optimizer::{CustomOptimizer, CustomOptimizerState, CustomState, OptimizerChoice};
pub use problem::{Covariance, LikelihoodSpec, Problem, ProcessNoise};
pub use rolling_forecast::RollingForecaster;
pub use runner::{
    BatchFilter, CancelCheck, DynFilter, Estimate, InitialState, OnlineFilter, OutputBuffers,
    Restart,
};
pub use session::{Clock, Session, SessionError};
pub use setting::{CG, Kind, Range, Setting, Slider};
pub use settings::{FilterSpec, SETTINGS};
pub use simulate::{SimulationError, simulate};
pub use smooth::{Search, Smoothed, smooth, smooth_from};
pub use state_space::{DynBelief, StateSpace};
pub use walk::{Row, RowSource, walk};
