//! A table from end to end: reader, filter and writer side by side.

use super::job::{BATCH, IN_FLIGHT, Job, Saved};
use super::sink::Sink;
use super::worker::Worker;
use crate::failure::Failure;
use optfilter_model::table::{Rows, TableReader};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What goes from the filter to the writer.
enum Message {
    Rows(Rows, Vec<f64>),
    Mark(Box<Saved>),
    /// The states of the last window.
    Rest(Vec<f64>),
}

pub(super) fn run(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    reader: TableReader,
    sink: Sink,
) -> Result<(), Failure> {
    let (full_to, full_from) = sync_channel::<Result<Rows, Failure>>(IN_FLIGHT);
    let (empty_to, empty_from) = sync_channel::<Rows>(2 * IN_FLIGHT);
    let (result_to, result_from) = sync_channel::<Message>(IN_FLIGHT);
    let (spare_to, spare_from) = sync_channel::<(Rows, Vec<f64>)>(2 * IN_FLIGHT);
    let name = worker.data_name.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || read_all(reader, &name, BATCH, &full_to, &empty_from));
        let writing = scope.spawn(move || write_all(sink, &result_from, &spare_to));
        let filtered = filter_all(job, worker, &full_from, &empty_to, &result_to, &spare_from);
        // Ends the writer, and the reader if the filter stopped early.
        drop(result_to);
        drop(full_from);
        drop(empty_to);
        let written = match writing.join() {
            Ok(done) => done,
            Err(_) => Err(Failure::other("the writer stopped unexpectedly")),
        };
        // A failed write also makes the filter stop, so the writer's reason comes first.
        written.and(filtered)
    })
}

/// Hands on batches of up to `rows` rows until the table ends.
pub(super) fn read_all(
    mut reader: TableReader,
    name: &str,
    rows: usize,
    to: &SyncSender<Result<Rows, Failure>>,
    empties: &Receiver<Rows>,
) {
    loop {
        let mut batch = empties.try_recv().unwrap_or_default();
        batch.clear();
        let more = reader.read(&mut batch, rows);
        // Whole rows before a bad one still count; a torn row's cells are cut off.
        let failed = more.as_ref().err().map(|e| Failure::table(name, e));
        if batch.rows > 0 && to.send(Ok(batch)).is_err() {
            return;
        }
        if let Some(failure) = failed {
            let _ = to.send(Err(failure));
            return;
        }
        if !matches!(more, Ok(true)) {
            return;
        }
    }
}

fn write_all(
    mut sink: Sink,
    from: &Receiver<Message>,
    spare: &SyncSender<(Rows, Vec<f64>)>,
) -> Result<(), Failure> {
    for message in from {
        match message {
            Message::Rows(batch, results) => {
                sink.rows(&batch, &results)?;
                let _ = spare.try_send((batch, results));
            }
            Message::Mark(saved) => sink.mark(*saved)?,
            Message::Rest(path) => sink.rest(&path)?,
        }
    }
    sink.finish()
}

fn filter_all(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    batches: &Receiver<Result<Rows, Failure>>,
    empties: &SyncSender<Rows>,
    results_to: &SyncSender<Message>,
    spare: &Receiver<(Rows, Vec<f64>)>,
) -> Result<(), Failure> {
    let mut marked = worker.session.rows();
    let stopped = || Failure::other("the writer stopped");
    let mut end = Ok(());
    for batch in batches {
        let batch = match batch {
            Ok(batch) => batch,
            Err(failure) => {
                end = Err(failure);
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
        let taken = worker.take(&batch, &mut results);
        results_to.send(Message::Rows(batch, results)).map_err(|_| stopped())?;
        if let Err(failure) = taken {
            end = Err(failure);
            break;
        }
        if job.checkpoint.is_some() && worker.session.rows() >= marked + job.checkpoint_every {
            let saved = Box::new(worker.save()?);
            results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
            marked = worker.session.rows();
        }
    }
    if job.checkpoint.is_some() {
        let saved = Box::new(worker.save()?);
        results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
    }
    if job.lagged {
        results_to.send(Message::Rest(worker.session.path())).map_err(|_| stopped())?;
    }
    end
}
