//! The paper's experiments.
//!
//! Two protocols are kept apart and never mixed: [`published`] is the program that made the tables, quirks and all;
//! `specified` is what the paper's text says, with the library's filters and optimizers.
//!
//! [`run`] computes everything in pieces that survive an interruption and writes `grid.csv` (every configuration), `cells.csv` (every printed
//! cell next to ours), the figures and the report.

pub mod cells;
pub mod conclusions;
pub mod control;
pub mod figure;
pub mod grid;
pub mod numpy_random;
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

pub use runner::{Cell, Options, Outcome, Protocol, RunError, SystemRows, run};
