//! Any bytes as a Parquet file: whole rows of numbers, or an error.
#![no_main]

#[path = "../../crates/optfilter-table/tests/anything/mod.rs"]
mod anything;

libfuzzer_sys::fuzz_target!(|data: &[u8]| anything::parquet(data));
