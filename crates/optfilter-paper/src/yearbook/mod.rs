//! The paper's Yearbook experiment: 80 years of portraits, a network that names a class, and five ways to keep its
//! 28,193 weights up to date with 32 labelled images a year.
//!
//! [`run`] does it all: reads the data (or makes up the stand-in), pre-trains, follows every method through the years on
//! all cores or on the card, saves each finished chain to `yearbook.csv`, and goes on from that file when it is started
//! again; [`add_to_report`] adds what came out to the page of the other experiments.
//!
//! The protocols differ in the variational and the particle filter only
//! ([`published::yearbook`](crate::published::yearbook)); the results of the other methods are the same for both and are
//! computed once.

mod backend;
mod beyond;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod data;
mod error;
mod generated;
mod method;
mod options;
mod report;
mod run;
mod seed;
mod split;
mod store;
mod summary;

pub use backend::ChainProgress;
pub use data::{DataError, Dataset};
pub use error::YearbookError;
pub use method::{Beyond, Rule, YearbookMethod};
pub use options::{Device, Options, Size};
pub use report::add_to_report;
pub use run::{Outcome, run};
pub use store::{Row, YearResult};
pub use summary::{Curve, Curves, Interval, TableRow};
