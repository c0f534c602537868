//! What the CPU and the card have in common: the chains they are given, and the board on which they note what is done.

use super::data::Dataset;
use super::error::YearbookError;
use super::method::YearbookMethod;
use super::seed::Seed;
use super::store::{Store, YearResult, key};
use crate::protocol::Protocol;
use optfilter_nn::Network;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where the arithmetic is done.
pub(super) trait Backend {
    /// Runs the pending chains and notes each finished one on the board; ends early when the board says so.
    fn run(&self, job: &Job<'_>, board: &Board<'_>) -> Result<(), YearbookError>;
}

/// What is to be done.
pub(super) struct Job<'a> {
    pub data: &'a Dataset,
    pub network: &'a Network,
    /// Every seed that a pending chain has.
    pub seeds: &'a [Seed],
    pub pending: &'a [Unit],
    /// Particles of the particle filter.
    pub particles: usize,
}

impl Job<'_> {
    /// The place of a chain's seed among the seeds.
    pub fn seed_of(&self, unit: &Unit) -> Result<usize, YearbookError> {
        let found = self.seeds.iter().position(|s| s.seed == unit.seed);
        found.ok_or(YearbookError::NoSeed { seed: unit.seed })
    }
}

/// How far the chains of a run have come.
#[derive(Clone, Debug)]
pub struct ChainProgress {
    /// Share of the work done, 0 to 1.
    pub done: f64,
    /// Chains finished, those of an earlier run included.
    pub finished: usize,
    /// Chains in all.
    pub units: usize,
    /// Time left, once there is something to judge by.
    pub left: Option<Duration>,
    /// What was worked on last.
    pub doing: String,
}

/// A chain to run, and the protocols its result counts for.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub method: YearbookMethod,
    pub protocols: Vec<Protocol>,
    pub seed: u64,
}

impl Unit {
    /// The protocol to run it under; where its result counts for both, they are the same.
    pub fn protocol(&self) -> Protocol {
        self.protocols.first().copied().unwrap_or(Protocol::Published)
    }

    /// Its names in the store.
    pub fn keys(&self) -> impl Iterator<Item = String> + '_ {
        self.protocols.iter().map(|p| key(*p, self.method, self.seed))
    }

    /// Whether the store has it under every protocol.
    pub fn is_in(&self, store: &Store) -> bool {
        self.keys().all(|key| store.get(&key).is_some())
    }

    fn label(&self) -> String {
        format!("{} {}, seed {}", self.method.name(), self.method.configuration(), self.seed)
    }
}

/// Shared by the workers: results, and how much is done.
pub(super) struct Board<'a> {
    pub store: Mutex<Store>,
    /// Work done in this run, work of this run, chains finished.
    pub counts: Mutex<(f64, f64, usize)>,
    /// Chains in all.
    pub units: usize,
    pub begun: Instant,
    pub stop: &'a AtomicBool,
    pub report: &'a (dyn Fn(&ChainProgress) + Sync),
}

impl Board<'_> {
    /// Whether to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes work; false means stop.
    pub fn worked(&self, work: f64, unit: &Unit) -> bool {
        let progress = {
            let mut counts = self.counts.lock().unwrap_or_else(|e| e.into_inner());
            counts.0 += work;
            let done = (counts.0 / counts.1.max(1e-9)).min(1.0);
            let spent = self.begun.elapsed().as_secs_f64();
            let left = (done > 0.005).then(|| Duration::from_secs_f64(spent * (1.0 - done) / done));
            ChainProgress { done, finished: counts.2, units: self.units, left, doing: unit.label() }
        };
        (self.report)(&progress);
        !self.stopped()
    }

    /// Saves a finished chain.
    pub fn finished(&self, unit: &Unit, results: &[YearResult]) -> Result<(), YearbookError> {
        let mut store = self.store.lock().unwrap_or_else(|e| e.into_inner());
        unit.keys().try_for_each(|key| store.add(key, results.to_vec()))?;
        self.counts.lock().unwrap_or_else(|e| e.into_inner()).2 += 1;
        Ok(())
    }
}
