//! State-space models written as text.
pub mod diagnostic;
pub mod expr;
