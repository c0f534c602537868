//! Rows through a filter: reading, filtering and writing at the same time, in constant memory.
//!
//! ```text
//! reader thread --batches--> this thread (filter) --results--> writer thread
//! ```
//!
//! Batches go round in a circle of a few buffers. A checkpoint travels with the results: the writer
//! first makes the rows before it durable and only then replaces the checkpoint file, so that a run
//! killed at any moment can go on without a lost or doubled row. With `--follow` a batch is one row, and
//! its result is out before the next one is looked at.

mod follow;
mod job;
mod sink;
mod stream;
mod tally;
mod worker;

pub use job::Job;
pub use tally::Tally;

use crate::failure::Failure;
use crate::files;
use crate::plot::StripChart;
use job::{BATCH, KIND, Saved};
use optfilter_model::table::{Rows, TableReader};
use sink::Sink;
use std::io;
use worker::Worker;

/// What a run leaves behind.
pub struct Outcome {
    pub tally: Tally,
    pub plot: Option<StripChart>,
    pub resumed_at: u64,
}

/// Runs a job to the end of its data.
pub fn run(job: &Job<'_>) -> Result<Outcome, Failure> {
    let mut worker = Worker::new(job)?;
    let resumed = resume(job, &mut worker)?;
    let mut reader = files::table(job.data, job.format, job.spec, &job.layout, &[])?;
    let resumed_at = worker.session.rows();
    if job.skip_done || !files::is_standard(job.data) {
        skip(&mut reader, resumed_at, &files::display(job.data))?;
    }
    // Only now, so that a run that cannot begin leaves older results alone.
    let (sink, fresh) = Sink::open(job, resumed.as_ref())?;
    if job.follow {
        follow::run(job, &mut worker, reader, sink)?;
    } else {
        stream::run(job, &mut worker, reader, sink)?;
    }
    // A table without rows is a result, too, if nothing went wrong.
    if let Some(fresh) = fresh {
        fresh.keep().map_err(|e| Failure::write(&job.out.display().to_string(), &e))?;
    }
    Ok(Outcome { tally: worker.tally, plot: worker.plot, resumed_at })
}

fn resume(job: &Job<'_>, worker: &mut Worker<'_>) -> Result<Option<Saved>, Failure> {
    let Some(path) = &job.checkpoint else { return Ok(None) };
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return Err(Failure::usage(format!("--checkpoint: {} is not a file", path.display())));
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Failure::other(format!("cannot read {}: {e}", path.display()))),
    };
    let name = path.display();
    let saved: Saved = optfilter::checkpoint::load(KIND, &bytes)
        .map_err(|e| Failure::other(format!("{name}: {e}")))?;
    if saved.fingerprint != worker.fingerprint {
        return Err(Failure::usage(format!(
            "{name} was made with another model or other flags; remove it to start afresh"
        )));
    }
    worker.session.restore(&saved.session).map_err(|e| Failure::other(format!("{name}: {e}")))?;
    worker.tally = saved.tally.clone();
    Ok(Some(saved))
}

fn skip(reader: &mut TableReader, rows: u64, name: &str) -> Result<(), Failure> {
    let mut left = rows as usize;
    let mut scratch = Rows::default();
    while left > 0 {
        scratch.clear();
        reader.read(&mut scratch, left.min(BATCH)).map_err(|e| Failure::table(name, &e))?;
        if scratch.rows == 0 {
            return Err(Failure::data(format!(
                "{name} has fewer rows than the {rows} that the checkpoint has filtered"
            )));
        }
        left -= scratch.rows;
    }
    Ok(())
}
