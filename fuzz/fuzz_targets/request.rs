//! Any bytes as a request to the server of `optfilter explore`: refused with a status, or answered with one.
#![no_main]

#[path = "../../crates/optfilter-explore/tests/anything/mod.rs"]
mod anything;

libfuzzer_sys::fuzz_target!(|data: &[u8]| anything::request(data));
