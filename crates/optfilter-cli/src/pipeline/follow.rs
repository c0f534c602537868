//! One row at a time: each result is out before the next row is awaited.
//!
//! A thread of its own waits for rows, so that this one can keep the checkpoint fresh while nothing arrives, and
//! can end in order when it is told to (Ctrl-C, SIGTERM): the last row that was answered is the last one saved.

use super::job::{IN_FLIGHT, Job};
use super::sink::Sink;
use super::stream::read_all;
use super::worker::Worker;
use crate::failure::Failure;
use crate::interrupt;
use optfilter_model::table::TableReader;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often to look whether the run should end, and how old a checkpoint may get.
const GLANCE: Duration = Duration::from_millis(50);
const FRESH: Duration = Duration::from_secs(1);

pub(super) fn run(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    reader: TableReader,
    mut sink: Sink,
) -> Result<(), Failure> {
    let stop = interrupt::flag();
    let (rows_to, rows_from) = sync_channel(IN_FLIGHT);
    let (spare_to, spare_from) = sync_channel(2 * IN_FLIGHT);
    let name = worker.data_name.clone();
    // Not joined: it may be waiting for input that never comes.
    std::thread::spawn(move || read_all(reader, &name, 1, &rows_to, &spare_from));
    let (mut saved_rows, mut saved_at) = (worker.session.rows(), Instant::now());
    let mut results = Vec::new();
    sink.flush()?; // the header goes out before the first row arrives
    let end = loop {
        let end = match rows_from.recv_timeout(GLANCE) {
            Ok(Ok(batch)) => {
                results.clear();
                let taken = worker.take(&batch, &mut results);
                sink.rows(&batch, &results)?;
                sink.flush()?;
                taken?;
                let _ = spare_to.try_send(batch);
                None
            }
            Ok(Err(failure)) => Some(Err(failure)),
            Err(RecvTimeoutError::Disconnected) => Some(Ok(())),
            Err(RecvTimeoutError::Timeout) => None,
        };
        let end = end.or_else(|| stop.load(Ordering::Relaxed).then(|| Err(Failure::interrupted())));
        let rows = worker.session.rows() - saved_rows;
        let due = rows >= job.checkpoint_every || rows > 0 && saved_at.elapsed() >= FRESH;
        if sink.checkpoint.is_some() && (end.is_some() || due) {
            sink.mark(worker.save()?)?;
            (saved_rows, saved_at) = (worker.session.rows(), Instant::now());
        }
        if let Some(end) = end {
            break end;
        }
    };
    if job.lagged {
        sink.rest(&worker.session.path())?;
    }
    sink.finish().and(end)
}
