//! Any text as the settings of a filter, in TOML or JSON: an error, or a filter that runs.
#![no_main]

#[path = "../../crates/optfilter-model/tests/anything/mod.rs"]
mod anything;

libfuzzer_sys::fuzz_target!(|data: &[u8]| anything::filter_spec(data));
