//! How far a fit is, and a way to end it.

use super::Quantity;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What somebody beside a fit sees of it, and says to it.
#[derive(Debug, Default)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    passes: AtomicU64,
    best: Mutex<Option<Best>>,
}

/// The best values so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Their log-likelihood.
    pub log_likelihood: f64,
    /// What is estimated, by name.
    pub values: Vec<(String, f64)>,
}

impl Watch {
    /// Of a fit that ends soon after the flag is raised.
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..Self::default() }
    }

    /// How often the data have been gone through.
    pub fn passes(&self) -> u64 {
        self.passes.load(Ordering::Relaxed)
    }

    /// The best values so far.
    pub fn best(&self) -> Option<Best> {
        self.best.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A pass has ended at a place of the search.
    pub(super) fn passed(&self, quantities: &[Quantity], z: &[f64], value: f64) {
        self.passes.fetch_add(1, Ordering::Relaxed);
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        if best.as_ref().is_none_or(|best| value > best.log_likelihood) {
            let named = |(q, &z): (&Quantity, &f64)| (q.name.clone(), q.value(z).0);
            let values = quantities.iter().zip(z).map(named).collect();
            *best = Some(Best { log_likelihood: value, values });
        }
    }
}
