//! How often a thread has compiled a model and built a filter: once each for a command that uses one of each, which tests count.

use std::cell::Cell;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    /// Models compiled.
    Model,
    /// Filters built.
    Filter,
}

thread_local! {
    static COUNTS: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

/// One more.
pub(crate) fn count(what: Made) {
    let mut counts = COUNTS.get();
    counts[what as usize] += 1;
    COUNTS.set(counts);
}

/// How many this thread has made so far: models, filters.
pub fn counts() -> [usize; 2] {
    COUNTS.get()
}
