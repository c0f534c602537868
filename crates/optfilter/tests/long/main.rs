//! What computes for long, compiled as the library is. (The other tests of the library are a package of their own, `optfilter-suite`,
//! which is compiled without optimisation.)
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on should stop

#[path = "../common/mod.rs"]
mod common;

mod consistency;
mod covariances;
mod lanes;
mod robust;
mod window_chaos;
mod window_fields;
