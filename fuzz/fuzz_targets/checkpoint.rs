//! Any bytes as a checkpoint: an error, or a filter that goes on.
#![no_main]

#[path = "../../crates/optfilter-model/tests/anything/mod.rs"]
mod anything;

libfuzzer_sys::fuzz_target!(|data: &[u8]| anything::checkpoint(data));
