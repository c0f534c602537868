//! A model file's filter over rows of data.
//!
//! [`ModelSpec::problem`](crate::ModelSpec::problem) is what the engine of `optfilter-run` filters; a [`Layout`] says
//! which columns of a table are its times, inputs and measurements; a [`Dataset`] is a whole series in memory, and a [`Trace`]
//! what a filter made of it, row by row. A [`Split`] takes a table of several series apart.

mod dataset;
mod held;
mod interpolate;
mod layout;
mod problem;
mod repeat;
mod score;
mod split;
mod typical;

pub use dataset::Dataset;
pub use held::Held;
pub use interpolate::{Interpolation, acting_inputs};
pub use layout::{Layout, forecast_names};
pub use problem::{Prepared, build_text};
pub use repeat::Repeating;
pub(crate) use score::mean;
pub use score::{Score, Trace, Yardstick};
pub use split::{Keys, Part, Split};
pub use typical::typical_states;
