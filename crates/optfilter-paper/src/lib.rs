//! The paper's experiments.
//!
//! Two protocols are kept apart and never mixed: [`published`] is the program that made the tables, quirks and all;
//! `specified` is what the paper's text says, with the library's filters and optimizers.

pub mod cells;
pub mod control;
pub mod grid;
pub mod numpy_random;
pub mod published;
pub mod row;
pub mod stats;
pub mod systems;
