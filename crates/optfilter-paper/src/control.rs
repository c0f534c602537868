//! What a long computation needs to hear and to tell: whether to stop, how far it is, and where its time goes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The computation was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// Something happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The work ahead, in units of [`Event::Advance`].
    Plan {
        /// Total work.
        work: f64,
    },
    /// A piece of work begins.
    Begin {
        /// Its name.
        name: String,
    },
    /// So much work was done since the last event.
    Advance {
        /// Work done.
        work: f64,
    },
    /// A piece of work is done and saved.
    End {
        /// Its name.
        name: String,
        /// Time it took; `None` when it was taken over from an earlier run.
        time: Option<Duration>,
    },
    /// Something the user should know.
    Note {
        /// The text.
        text: String,
    },
}

/// Time spent in one kind of work.
#[derive(Clone, Debug)]
pub struct Phase {
    /// What was done.
    pub name: String,
    /// How long it took.
    pub time: Duration,
    /// How many configurations were run.
    pub configurations: usize,
}

/// Shared by all parts of a run.
pub struct Control<'a> {
    stop: &'a AtomicBool,
    tell: &'a (dyn Fn(Event) + Sync),
    phases: Mutex<Vec<Phase>>,
    taken_over: AtomicUsize,
}

impl<'a> Control<'a> {
    /// Stops when `stop` becomes true; `tell` hears every event.
    pub fn new(stop: &'a AtomicBool, tell: &'a (dyn Fn(Event) + Sync)) -> Self {
        Self { stop, tell, phases: Mutex::new(Vec::new()), taken_over: AtomicUsize::new(0) }
    }

    /// Whether to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Pass an event on.
    pub fn tell(&self, event: Event) {
        if let Event::End { time: None, .. } = event {
            self.taken_over.fetch_add(1, Ordering::Relaxed);
        }
        (self.tell)(event);
    }

    /// Run one phase, unless asked to stop; its time is booked under `name`, and `work` is reported as done.
    ///
    /// A result that was cut short by a stop is thrown away.
    pub fn phase<T>(
        &self,
        name: &str,
        configurations: usize,
        work: f64,
        run: impl FnOnce() -> T,
    ) -> Result<T, Stopped> {
        if self.stopped() {
            return Err(Stopped);
        }
        let begin = Instant::now();
        let out = run();
        let time = begin.elapsed();
        if self.stopped() {
            return Err(Stopped);
        }
        let mut phases = match self.phases.lock() {
            Ok(phases) => phases,
            Err(poisoned) => poisoned.into_inner(),
        };
        match phases.iter_mut().find(|p| p.name == name) {
            Some(phase) => {
                phase.time += time;
                phase.configurations += configurations;
            }
            None => phases.push(Phase { name: name.into(), time, configurations }),
        }
        drop(phases);
        self.tell(Event::Advance { work });
        Ok(out)
    }

    /// How many pieces were taken over from an earlier run.
    pub fn taken_over(&self) -> usize {
        self.taken_over.load(Ordering::Relaxed)
    }

    /// All phases so far.
    pub fn phases(&self) -> Vec<Phase> {
        match self.phases.lock() {
            Ok(phases) => phases.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        }
    }
}
