//! `cargo xtask check`: everything that CI runs, cheapest first.
fn main() {}
