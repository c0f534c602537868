//! What a run is asked for.

use crate::protocol::Protocol;
use crate::systems::System;
use std::path::PathBuf;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The systems.
    pub systems: Vec<System>,
    /// The protocols.
    pub protocols: Vec<Protocol>,
    /// Where results go.
    pub out: PathBuf,
    /// Monte Carlo runs; the paper has 100.
    pub runs: usize,
    /// Seed of the first run; the paper has 0.
    pub seed: u32,
    /// Worker threads; `None` is one per core.
    pub threads: Option<usize>,
    /// The command, for the report.
    pub command: String,
}

impl Options {
    /// The families of systems asked for.
    pub fn families(&self) -> Vec<&'static str> {
        let mut out: Vec<&str> = self.systems.iter().map(System::family).collect();
        out.dedup();
        out
    }
}
