//! The library's tests as one program: what they have in common, most of all the filters at every size, is compiled once.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on should stop

#[path = "../common/mod.rs"]
mod common;

mod adjoints;
mod bad_input;
mod batch;
mod checkpoint;
mod corners;
mod damped;
mod ensemble;
mod erased;
mod evidence;
mod evidence_gradients;
mod failures;
mod golden;
mod ill_conditioned;
mod likelihoods;
mod particles;
mod properties;
mod side_by_side;
mod smoother;
mod window;
mod window_counts;
mod window_foreign;
mod window_lanes;
mod window_weak;
