//! The program `optfilter`.
fn main() {}
