//! What was really run to make the paper's tables.
//!
//! This module shares no filter and no optimizer with the library: it is the released NumPy program, spelled out with all its [`quirks`],
//! and its purpose is to show that we understand every digit of the tables. ([`yearbook`] holds what that program did to network
//! weights: there the networks and their gradients are the library's.)

pub mod effects;
pub mod extended;
pub mod imap;
pub mod lanes;
pub mod model;
pub mod particle;
mod particle_model;
pub mod quirks;
mod rows;
pub mod simulate;
pub mod symmetric;
pub mod unscented;
pub mod yearbook;

pub use quirks::Quirks;
pub use rows::{lorenz_particle_rows, lorenz_rows, toy_particle_rows, toy_rows, work};
