//! A model file's filter over rows of data.
//!
//! [`ModelSpec::problem`](crate::ModelSpec::problem) is what the engine of `optfilter-run` filters; a [`Layout`] says
//! which columns of a table are its times, inputs and measurements; a [`Dataset`] is a whole series in memory.

mod dataset;
mod layout;
mod problem;
mod typical;

pub use dataset::{Dataset, Score};
pub use layout::Layout;
pub use problem::build_text;
pub use typical::typical_states;
