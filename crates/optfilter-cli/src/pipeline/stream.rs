//! A table from end to end: reader, filter and writer side by side.

use super::job::{BATCH, IN_FLIGHT, Job, Saved};
use super::pace::{Pace, Writing};
use super::progress::RateLine;
use super::sink::Sink;
use super::worker::Worker;
use crate::defect::caught;
use crate::failure::Failure;
use crate::feed::Feed;
use optfilter_model::run::Interpolation;
use optfilter_model::table::Rows;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// How often to look whether the run should end while nothing arrives.
pub const GLANCE: Duration = Duration::from_millis(50);

/// What goes from the filter to the writer.
enum Message {
    Rows(Box<(Rows, Vec<f64>)>),
    Mark(Box<Saved>),
    /// The states of the last window of each series.
    Rest(Vec<(String, Vec<f64>)>),
}

pub(super) fn run(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    (reader, lines): (Feed, Option<Interpolation>),
    sink: Sink,
) -> Result<(), Failure> {
    let (full_to, full_from) = sync_channel::<Result<Rows, Failure>>(IN_FLIGHT);
    let (empty_to, empty_from) = sync_channel::<Rows>(2 * IN_FLIGHT);
    let (result_to, result_from) = sync_channel::<Message>(IN_FLIGHT);
    let (spare_to, spare_from) = sync_channel::<(Rows, Vec<f64>)>(2 * IN_FLIGHT);
    // Joined only when it has ended: it may be waiting for input that never comes.
    let reading = spawn(move || read_all(reader, BATCH, lines, &full_to, &empty_from));
    let pace = Pace::new(job.checkpoint_every, worker.tally.rows);
    let marking = pace.writing.clone();
    let writing = spawn(move || write_all(sink, &result_from, &spare_to, &marking));
    // Whatever happens to the filter, what it has answered is written.
    let filtered =
        caught(|| filter_all(job, worker, pace, &full_from, &empty_to, &result_to, &spare_from));
    // Ends the writer, and the reader if the filter stopped early.
    drop(result_to);
    drop(full_from);
    drop(empty_to);
    let written = writing.join().unwrap_or_else(|_| Err(Failure::defect()));
    let read = filtered.is_ok().then_some(reading);
    // A failed write also makes the filter stop, so the writer's reason comes first.
    written.and(filtered).and_then(|()| ended(read))
}

/// How the reader ended.
pub(super) fn ended(reading: Option<JoinHandle<()>>) -> Result<(), Failure> {
    reading.map_or(Ok(()), |r| r.join().map_err(|_| Failure::defect()))
}

/// Hands on batches of up to `rows` rows until the table ends, with inputs between those that are known in them.
pub fn read_all(
    mut reader: Feed,
    rows: usize,
    mut lines: Option<Interpolation>,
    to: &SyncSender<Result<Rows, Failure>>,
    empties: &Receiver<Rows>,
) {
    loop {
        let mut batch = empties.try_recv().unwrap_or_default();
        batch.clear();
        batch.forget_labels();
        let more = reader.read(&mut batch, rows);
        // Whole rows before a bad one still count; a torn row's cells are cut off.
        if batch.rows > 0 {
            let free = match &mut lines {
                Some(lines) => lines.push(batch),
                None => vec![batch],
            };
            if !free.into_iter().all(|batch| to.send(Ok(batch)).is_ok()) {
                return;
            }
        }
        if !matches!(more, Ok(true)) {
            let rest = lines.as_mut().map(Interpolation::finish).unwrap_or_default();
            if !rest.into_iter().all(|batch| to.send(Ok(batch)).is_ok()) {
                return;
            }
        }
        match more {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => {
                let _ = to.send(Err(failure));
                return;
            }
        }
    }
}

fn write_all(
    mut sink: Sink,
    from: &Receiver<Message>,
    spare: &SyncSender<(Rows, Vec<f64>)>,
    marking: &Writing,
) -> Result<(), Failure> {
    for message in from {
        match message {
            Message::Rows(both) => {
                let (batch, results) = *both;
                sink.rows(&batch, &results)?;
                let _ = spare.try_send((batch, results));
            }
            Message::Mark(saved) => {
                let begun = Instant::now();
                sink.mark(*saved)?;
                marking.done(begun);
            }
            Message::Rest(paths) => sink.rest(&paths)?,
        }
    }
    sink.finish()
}

fn filter_all(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    mut pace: Pace,
    batches: &Receiver<Result<Rows, Failure>>,
    empties: &SyncSender<Rows>,
    results_to: &SyncSender<Message>,
    spare: &Receiver<(Rows, Vec<f64>)>,
) -> Result<(), Failure> {
    let stopped = || Failure::other("the writer stopped");
    let (mut end, mut torn) = (Ok(()), None);
    let mut progress = job.progress.then(RateLine::new);
    loop {
        let batch = match batches.recv_timeout(GLANCE) {
            Ok(Ok(batch)) => batch,
            Ok(Err(failure)) => {
                end = Err(failure);
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if !worker.stop.load(Ordering::Relaxed) => continue,
            Err(RecvTimeoutError::Timeout) => {
                end = Err(Failure::interrupted(""));
                break;
            }
        };
        let mut results = match spare.try_recv() {
            Ok((used, results)) => {
                let _ = empties.try_send(used);
                results
            }
            Err(_) => Vec::new(),
        };
        results.clear();
        if batch.torn && job.checkpoint.is_some() {
            // Saved before it: it is done again when all of it is there.
            torn = Some(worker.place(&batch));
            let saved = Box::new(worker.save()?);
            results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
            if !job.can_rewind() {
                job.leave(&worker.place(&batch), None)?;
                continue;
            }
        }
        let taken = worker.take(&batch, &mut results);
        let both = Box::new((batch, results));
        results_to.send(Message::Rows(both)).map_err(|_| stopped())?;
        if let Err(failure) = taken {
            end = match torn {
                Some(ref place) => job.leave(place, Some(failure)),
                None => Err(failure),
            };
            break;
        }
        if let Some(place) = &torn {
            job.want_again(place);
        }
        if let Some(progress) = &mut progress {
            progress.rows(worker.tally.rows);
        }
        if torn.is_none() && job.checkpoint.is_some() && pace.is_due(worker.tally.rows, None) {
            let begun = Instant::now();
            let saved = Box::new(worker.save()?);
            pace.gathered(worker.tally.rows, begun);
            results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
        }
    }
    if torn.is_none() && job.checkpoint.is_some() {
        let saved = Box::new(worker.save()?);
        results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
    }
    if job.lagged {
        results_to.send(Message::Rest(worker.paths())).map_err(|_| stopped())?;
    }
    end
}
