//! One row at a time: each result is out before the next row is awaited.
//!
//! A thread of its own waits for rows, so that this one can keep the checkpoint fresh while nothing arrives, and
//! can end in order when it is told to (Ctrl-C, SIGTERM): the last row that was answered is the last one saved.

use super::job::{IN_FLIGHT, Job};
use super::pace::Pace;
use super::sink::Sink;
use super::stream::{GLANCE, ended, read_all};
use super::worker::Worker;
use crate::failure::Failure;
use crate::feed::Feed;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

/// How old a checkpoint may get, unless it takes long.
const FRESH: Duration = Duration::from_secs(1);

pub(super) fn run(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    reader: Feed,
    mut sink: Sink,
) -> Result<(), Failure> {
    let (rows_to, rows_from) = sync_channel(IN_FLIGHT);
    let (spare_to, spare_from) = sync_channel(2 * IN_FLIGHT);
    // Not joined: it may be waiting for input that never comes.
    let mut reading = Some(spawn(move || read_all(reader, 1, None, &rows_to, &spare_from)));
    let mut pace = Pace::new(job.checkpoint_every, worker.tally.rows);
    let (mut results, mut torn) = (Vec::new(), false);
    sink.flush()?; // the header goes out before the first row arrives
    let end = loop {
        let end = match rows_from.recv_timeout(GLANCE) {
            Ok(Ok(batch)) if batch.torn && sink.checkpoint.is_some() && !job.can_rewind() => {
                job.leave(&worker.place(&batch), None).err().map(Err)
            }
            Ok(Ok(batch)) => {
                if batch.torn && sink.checkpoint.is_some() {
                    // Saved before it: it is done again when all of it is there.
                    torn = true;
                    sink.mark(worker.save()?)?;
                }
                results.clear();
                let taken = worker.take(&batch, &mut results);
                sink.rows(&batch, &results)?;
                sink.flush()?;
                let failed = match (taken, torn) {
                    (Ok(()), true) => {
                        job.want_again(&worker.place(&batch));
                        None
                    }
                    (Ok(()), false) => None,
                    (Err(failure), true) => Some(job.leave(&worker.place(&batch), Some(failure))),
                    (Err(failure), false) => Some(Err(failure)),
                };
                let _ = spare_to.try_send(batch);
                failed
            }
            Ok(Err(failure)) => Some(Err(failure)),
            Err(RecvTimeoutError::Disconnected) => Some(ended(reading.take())),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let asked = worker.stop.load(Ordering::Relaxed);
        let end = end.or_else(|| asked.then(|| Err(Failure::interrupted(""))));
        let due = pace.is_due(worker.tally.rows, Some(FRESH));
        if !torn && sink.checkpoint.is_some() && (end.is_some() || due) {
            let begun = Instant::now();
            let saved = worker.save()?;
            pace.gathered(worker.tally.rows, begun);
            let begun = Instant::now();
            sink.mark(saved)?;
            pace.writing.done(begun);
        }
        if let Some(end) = end {
            break end;
        }
    };
    if job.lagged {
        sink.rest(&worker.paths())?;
    }
    sink.finish().and(end)
}
