//! When to save: every so many rows where a run was told so, else so seldom that it never takes more than a tenth of its time.
//!
//! A checkpoint holds every series, so that what it takes grows with their number and not with the rows since the last one: of
//! a million series it is seconds, and every 100,000 rows would be a run that does little else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rows between two checkpoints at least, unless a number is given.
const ROWS: u64 = 100_000;
/// How many times as long as a checkpoint took the next one is waited for.
const REST: u32 = 10;
/// What stands for a checkpoint that is still being written.
const BUSY: u64 = u64::MAX;

/// How long the writer took for the last checkpoint, in nanoseconds.
#[derive(Clone, Default)]
pub(super) struct Writing(Arc<AtomicU64>);

impl Writing {
    /// The writer is done with a checkpoint.
    pub(super) fn done(&self, begun: Instant) {
        let nanoseconds = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(BUSY - 1);
        self.0.store(nanoseconds, Ordering::Relaxed);
    }
}

/// When the next checkpoint is due.
pub(super) struct Pace {
    every: Option<u64>,
    /// The rows and the time of the last one, and what it took to gather it.
    rows: u64,
    at: Instant,
    gathering: Duration,
    pub(super) writing: Writing,
}

impl Pace {
    /// Of a run that begins at this row.
    pub(super) fn new(every: Option<u64>, rows: u64) -> Self {
        let (gathering, writing) = (Duration::ZERO, Writing::default());
        Self { every, rows, at: Instant::now(), gathering, writing }
    }

    /// Whether a checkpoint is due after so many rows. One that is older than `fresh` is due whatever the rows since then, if there
    /// are any.
    pub(super) fn is_due(&self, rows: u64, fresh: Option<Duration>) -> bool {
        let new = rows.saturating_sub(self.rows);
        if self.every.is_some_and(|every| new >= every) {
            return true;
        }
        let old = fresh.is_some_and(|fresh| new > 0 && self.at.elapsed() >= fresh);
        (old || self.every.is_none() && new >= ROWS) && self.has_rested()
    }

    fn has_rested(&self) -> bool {
        let writing = self.writing.0.load(Ordering::Relaxed);
        let took = self.gathering.saturating_add(Duration::from_nanos(writing));
        writing != BUSY && self.at.elapsed() >= took.saturating_mul(REST)
    }

    /// A checkpoint of so many rows, begun at this moment, has been gathered and is about to be written.
    pub(super) fn gathered(&mut self, rows: u64, begun: Instant) {
        self.writing.0.store(BUSY, Ordering::Relaxed);
        (self.rows, self.at, self.gathering) = (rows, Instant::now(), begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace whose last checkpoint, at row 0, was that long ago and took that long.
    fn pace(every: Option<u64>, ago: Duration, took: Duration) -> Pace {
        let mut pace = Pace::new(every, 0);
        pace.gathered(0, Instant::now());
        pace.at = Instant::now().checked_sub(ago).unwrap();
        pace.writing.done(Instant::now().checked_sub(took).unwrap());
        pace
    }

    #[test]
    fn a_number_of_rows_that_is_given_is_kept_whatever_it_takes() {
        let slow = pace(Some(3), Duration::ZERO, Duration::from_secs(9));
        assert!(slow.is_due(3, None) && !slow.is_due(2, None));
    }

    #[test]
    fn without_one_saving_takes_a_tenth_of_the_time_at_most() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert!(pace(None, minute, second).is_due(ROWS, None));
        assert!(!pace(None, minute, second).is_due(ROWS - 1, None));
        assert!(!pace(None, 9 * second, second).is_due(100 * ROWS, None));
        assert!(Pace::new(None, 5).is_due(ROWS + 5, None), "the first waits for nothing");
        let mut busy = pace(None, minute, second);
        busy.gathered(0, Instant::now());
        assert!(!busy.is_due(ROWS, None), "the last one is not written yet");
    }

    #[test]
    fn while_rows_are_awaited_a_checkpoint_stays_fresh_if_it_is_cheap() {
        let (second, blink) = (Duration::from_secs(1), Duration::from_millis(1));
        for (every, ago, took, rows, due) in [
            (None, second, blink, 1, true),
            (None, second, blink, 0, false),
            (Some(1000), second, blink, 1, true),
            (None, second, second, 1, false),
            (None, blink, blink, 1, false),
        ] {
            assert_eq!(pace(every, ago, took).is_due(rows, Some(second)), due);
        }
    }
}
