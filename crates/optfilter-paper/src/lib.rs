//! The paper's experiments.
