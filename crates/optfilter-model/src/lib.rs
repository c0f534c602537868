//! State-space models written as text.
