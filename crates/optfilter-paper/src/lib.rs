//! The paper's experiments.
//!
//! Two protocols are kept apart and never mixed: [`published`] is the program that made the tables, quirks and all;
//! `specified` is what the paper's text says, with the library's filters and optimizers.
//!
//! [`run`] computes everything in pieces that survive an interruption and writes `grid.csv` (every configuration), `cells.csv` (every printed
//! cell next to ours), the figures and the report; [`rows`] computes without writing. [`yearbook`] is the experiment with network weights,
//! [`assimilation`] what a window makes of the filter.

pub mod assimilation;
pub mod cells;
pub mod conclusions;
pub mod control;
mod error;
pub mod figure;
mod files;
pub mod grid;
pub mod numpy_random;
mod options;
mod outcome;
mod pieces;
mod protocol;
pub mod published;
mod report;
pub mod row;
mod runner;
pub mod specified;
pub mod stats;
mod store;
pub mod systems;
pub mod text;
pub mod yearbook;

pub use error::RunError;
pub use options::Options;
pub use outcome::{Cell, Outcome, SystemRows, compare};
pub use pieces::{Runs, rows, work};
pub use protocol::Protocol;
pub use runner::run;
