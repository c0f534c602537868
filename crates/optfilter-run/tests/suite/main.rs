//! The engine's tests as one program: every type of model is compiled with every filter, so it should be done once.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod golden;

mod build;
mod forecast;
mod settings;
mod smooth;
