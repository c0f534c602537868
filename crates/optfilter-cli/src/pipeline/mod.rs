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
mod lagged;
mod pace;
mod progress;
mod sink;
mod stream;
mod tally;
mod worker;

pub use job::Job;
pub use job::{BATCH, IN_FLIGHT};
pub use progress::is_wanted as progress_is_wanted;
pub use stream::{GLANCE, read_all};
pub use tally::Tally;

use crate::failure::Failure;
use crate::feed::Feed;
use crate::files;
use crate::plot::StripChart;
use job::{KIND, Saved};
use optfilter_model::run::Interpolation;
use optfilter_model::table::Rows;
use sink::Sink;
use std::io;
use worker::Worker;

/// What a run leaves behind.
pub struct Outcome {
    pub tally: Tally,
    pub plot: Option<StripChart>,
    pub resumed_at: u64,
    /// How many series there were.
    pub series: usize,
}

/// Runs a job to the end of its data.
pub fn run(job: &Job<'_>) -> Result<Outcome, Failure> {
    let mut worker = Worker::new(job)?;
    let resumed = resume(job, &mut worker)?;
    let mut reader =
        Feed::open(job.tables, job.format, job.spec, &job.layout, job.by, &[], job.late)?;
    let resumed_at = worker.tally.rows;
    let mut lines = Interpolation::new(job.spec, &job.layout);
    if job.skip_done || !files::is_standard(job.first()) {
        skip(&mut reader, &mut lines, resumed_at)?;
    }
    // Only now, so that a run that cannot begin leaves older results alone.
    let (sink, fresh) = Sink::open(job, resumed.as_ref())?;
    if job.follow {
        follow::run(job, &mut worker, reader, sink)?;
    } else {
        stream::run(job, &mut worker, (reader, lines), sink)?;
    }
    // A table without rows is a result, too, if nothing went wrong.
    if let Some(fresh) = fresh {
        fresh.keep().map_err(|e| Failure::write(&job.out.display().to_string(), &e))?;
    }
    let series = worker.series();
    Ok(Outcome { tally: worker.tally, plot: worker.plot, resumed_at, series })
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
    job.check_sizes(&saved.sizes, &job.sizes()?)?;
    worker.restore(&saved).map_err(|e| Failure::other(format!("{name}: {}", e.message)))?;
    Ok(Some(saved))
}

/// Passes over rows that are done, but for what their inputs say of those after them.
fn skip(reader: &mut Feed, lines: &mut Option<Interpolation>, rows: u64) -> Result<(), Failure> {
    let mut left = rows as usize;
    let mut scratch = Rows::default();
    while left > 0 {
        scratch.clear();
        let more = reader.read(&mut scratch, left.min(BATCH))?;
        if scratch.rows == 0 && !more {
            let name = reader.name();
            return Err(Failure::data(format!(
                "{name} has fewer rows than the {rows} that the checkpoint has filtered"
            )));
        }
        left -= scratch.rows;
        if let Some(lines) = lines {
            lines.pass(std::mem::take(&mut scratch));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use optfilter_model::ModelSpec;
    use optfilter_model::run::Layout;
    use optfilter_model::table::{Format, Source, TableReader};
    use optfilter_run::FilterSpec;

    /// A table that ends with a panic.
    struct Torn(io::Cursor<Vec<u8>>);

    impl io::Read for Torn {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.read(into)? {
                0 => panic!("the table is torn"),
                bytes => Ok(bytes),
            }
        }
    }

    /// The rows that were answered before a thread of the program broke are there, and the run is a failure.
    #[test]
    fn a_panic_while_reading_leaves_whole_rows_and_a_failure() {
        let spec = ModelSpec::parse("m.toml", "system = \"local-level\"\n").unwrap();
        let filter = FilterSpec::of("kf").unwrap();
        let layout = Layout::new(&spec, None);
        let tables = [std::path::PathBuf::from("torn.csv")];
        for follow in [false, true] {
            let name = format!("optfilter-torn-{}-{follow}.csv", std::process::id());
            let out = std::env::temp_dir().join(name);
            let job = Job {
                spec: &spec,
                filter: &filter,
                layout: layout.clone(),
                tables: &tables,
                by: false,
                format: None,
                out: &out,
                out_format: Format::Csv,
                full: false,
                follow,
                lagged: false,
                checkpoint: None,
                checkpoint_every: Some(1),
                skip_done: false,
                plot: false,
                plane: None,
                late: 0.0,
                progress: false,
            };
            let text = format!("y\n{}", "1\n".repeat(2 * BATCH));
            let source = Source::Stream(Box::new(Torn(io::Cursor::new(text.into_bytes()))));
            let wanted = layout.wanted(&spec);
            let reader = TableReader::open(source, Format::Csv, |_| wanted).unwrap();
            let reader = Feed::of(reader, &tables[0]);
            let mut worker = Worker::new(&job).unwrap();
            let (sink, _) = Sink::open(&job, None).unwrap();
            let run = match follow {
                true => follow::run(&job, &mut worker, reader, sink),
                false => stream::run(&job, &mut worker, (reader, None), sink),
            };
            let failure = run.unwrap_err();
            assert_eq!((failure.code, failure.message.as_str()), (1, ""));
            let written = std::fs::read_to_string(&out).unwrap();
            let _ = std::fs::remove_file(&out);
            let rows = written.lines().count() - 1;
            assert!(rows >= BATCH && written.ends_with(",ok\n"), "{rows} rows");
            assert_eq!(rows as u64, worker.tally.rows);
        }
    }
}
