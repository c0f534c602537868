//! Rows through a filter: reading, filtering and writing at the same time, in constant memory.
//!
//! ```text
//! reader thread --batches--> this thread (filter) --results--> writer thread
//! ```
//!
//! Batches go round in a circle of a few buffers. A checkpoint travels with the results: the writer
//! first makes the rows before it durable and only then replaces the checkpoint file, so that a run
//! killed at any moment can go on without a lost or doubled row. A row that ends with the table, before the end of its line, is answered
//! and in no checkpoint: if more of it comes, it is done again. With `--follow` a batch is one row, and
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
use crate::lock::Lock;
use crate::plot::StripChart;
use job::{FAMILY, KIND, Saved, differences};
use optfilter_model::run::Interpolation;
use optfilter_model::table::{Rows, Trail};
use sink::Sink;
use std::cmp::Ordering;
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
    let lock =
        job.checkpoint.as_deref().map(|path| Lock::take("--checkpoint", path)).transpose()?;
    let mut worker = Worker::new(job)?;
    let resumed = resume(job, &mut worker)?;
    let mut reader =
        Feed::open(job.tables, job.format, &job.prepared.spec, &job.layout, job.by, &[], job.late)?;
    if job.checkpoint.is_some() {
        reader.keep_apart();
    }
    let resumed_at = worker.tally.rows;
    let mut lines = Interpolation::new(&job.prepared.spec, &job.layout);
    if let Some(saved) = resumed.as_ref()
        && (job.skip_done || !files::is_standard(job.first()))
    {
        skip(job, &mut reader, &mut lines, &saved.trail)?;
    }
    // Only now, so that a run that cannot begin leaves older results alone.
    let (sink, fresh) = Sink::open(job, resumed.as_ref(), lock)?;
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
    let name = path.display().to_string();
    let saved: Saved = optfilter::checkpoint::load(KIND, &bytes)
        .map_err(|e| Failure::checkpoint(&name, FAMILY, &e))?;
    let others = differences(job, &saved.settings, &worker.settings);
    if !others.is_empty() {
        return Err(Failure::usage(format!(
            "{name} was made with another model or other flags: {} differs; go on as before, or remove it to start afresh",
            others.join(", ")
        )));
    }
    job.check_sizes(&saved.sizes, &job.sizes()?)?;
    worker.restore(&saved).map_err(|e| Failure::other(format!("{name}: {}", e.message)))?;
    Ok(Some(saved))
}

/// Passes over the rows that are done, if they are still what they were, but for what their inputs say of those after them.
fn skip(
    job: &Job<'_>,
    reader: &mut Feed,
    inputs: &mut Option<Interpolation>,
    done: &Trail,
) -> Result<(), Failure> {
    let (mut now, mut scratch) = (Trail::default(), Rows::default());
    let (width, label) = (job.layout.width(), job.layout.label());
    let mut lines = (0, 0);
    while now.rows() < done.rows() {
        let left = usize::try_from(done.rows() - now.rows()).unwrap_or(usize::MAX);
        scratch.clear();
        scratch.forget_labels();
        let more = reader.read(&mut scratch, left.min(BATCH))?;
        for row in 0..scratch.rows {
            lines.1 = scratch.lines.get(row).copied().unwrap_or(0);
            if done.begins_block(&now) {
                lines.0 = lines.1;
            }
            now.add(&scratch, row, width, label);
            if done.parted(&now).is_some() {
                let name = reader.name_of(scratch.table_of(row));
                return Err(changed(job, &name, lines));
            }
        }
        if scratch.rows == 0 && !more {
            let (name, rows) = (reader.name(), done.rows());
            return Err(Failure::data(format!(
                "{name} has fewer rows than the {rows} that the checkpoint has filtered; bring them back, or remove the checkpoint to \
                 start afresh"
            )));
        }
        if let Some(inputs) = inputs {
            inputs.pass(std::mem::take(&mut scratch));
        }
    }
    Ok(())
}

/// A table that does not begin with the rows that were filtered.
fn changed(job: &Job<'_>, name: &str, (first, last): (u64, u64)) -> Failure {
    let place = match first.cmp(&last) {
        Ordering::Equal => format!("line {last} is"),
        Ordering::Less => format!("lines {first} to {last} are"),
        Ordering::Greater => format!("the lines up to {last} are"), // from the end of the table before
    };
    let checkpoint = job.checkpoint.as_deref().map(files::display).unwrap_or_default();
    Failure::data(format!(
        "{name}: {place} not what was filtered before the checkpoint {checkpoint} was made: a row was changed, left out or added; \
         bring the rows back as they were, or remove the checkpoint to start afresh"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use optfilter_model::ModelSpec;
    use optfilter_model::run::Layout;
    use optfilter_model::run::Prepared;
    use optfilter_model::table::{Format, Source, TableReader};
    use optfilter_run::FilterSpec;
    use std::path::{Path, PathBuf};

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

    fn job<'a>(
        prepared: &'a Prepared,
        tables: &'a [PathBuf],
        out: &'a Path,
        follow: bool,
    ) -> Job<'a> {
        Job {
            prepared,
            layout: Layout::new(&prepared.spec, None),
            tables,
            by: false,
            format: None,
            out,
            out_format: Format::Csv,
            as_data: true,
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
        }
    }

    fn prepared() -> Prepared {
        let spec = ModelSpec::parse("m.toml", "system = \"local-level\"\n").unwrap();
        let problem = spec.problem().unwrap();
        Prepared::new(spec, problem, FilterSpec::of("kf").unwrap()).unwrap()
    }

    fn feed(job: &Job<'_>, bytes: impl io::Read + Send + 'static) -> Feed {
        let wanted = job.layout.wanted(&job.prepared.spec);
        let source = Source::Stream(Box::new(bytes));
        let reader = TableReader::open(source, Format::Csv, |_| wanted.clone()).unwrap();
        Feed::of(reader, &job.tables[0], wanted)
    }

    fn run_of(
        job: &Job<'_>,
        worker: &mut Worker<'_>,
        reader: Feed,
        sink: Sink,
    ) -> Result<(), Failure> {
        match job.follow {
            true => follow::run(job, worker, reader, sink),
            false => stream::run(job, worker, (reader, None), sink),
        }
    }

    /// The rows that were answered before a thread of the program broke are there, and the run is a failure.
    #[test]
    fn a_panic_while_reading_leaves_whole_rows_and_a_failure() {
        let prepared = prepared();
        let tables = [PathBuf::from("torn.csv")];
        for follow in [false, true] {
            let name = format!("optfilter-torn-{}-{follow}.csv", std::process::id());
            let out = std::env::temp_dir().join(name);
            let job = job(&prepared, &tables, &out, follow);
            let text = format!("y\n{}", "1\n".repeat(2 * BATCH));
            let reader = feed(&job, Torn(io::Cursor::new(text.into_bytes())));
            let mut worker = Worker::new(&job).unwrap();
            let (sink, _) = Sink::open(&job, None, None).unwrap();
            let failure = run_of(&job, &mut worker, reader, sink).unwrap_err();
            assert_eq!((failure.code, failure.message.as_str()), (1, ""));
            let written = std::fs::read_to_string(&out).unwrap();
            let _ = std::fs::remove_file(&out);
            let rows = written.lines().count() - 1;
            assert!(rows >= BATCH && written.ends_with(",ok\n"), "{rows} rows");
            assert_eq!(rows as u64, worker.tally.rows);
        }
    }

    /// A table that ends, and has grown when it is read once more.
    struct Growing(Vec<&'static [u8]>);

    impl io::Read for Growing {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let Some(part) = self.0.first_mut() else { return Ok(0) };
            let count = part.read(into)?;
            if count == 0 {
                self.0.remove(0);
            }
            Ok(count)
        }
    }

    /// What is written at the very moment at which a run sees the end is of the next run, as is the row that it belongs to.
    #[test]
    fn a_row_that_goes_on_after_the_end_was_seen_is_done_again() {
        let prepared = prepared();
        let folder = std::env::temp_dir().join(format!("optfilter-grown-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [data, out, kept, whole] = ["d.csv", "o.csv", "c", "w.csv"].map(|n| folder.join(n));
        let tables = [data.clone()];
        for follow in [false, true] {
            for (first, rest, done, rows) in [
                ("y\n1\n12.", "75\n14\n", 1, 3),
                ("y\n1\n12", "\n14\n", 1, 3),
                ("y\n1\n2\n#comm", "99\n14\n", 2, 3),
                ("y\n1\n2\n", "3\n", 2, 3),
            ] {
                let mut job = job(&prepared, &tables, &out, follow);
                job.checkpoint = Some(kept.clone());
                std::fs::write(&data, first).unwrap();
                let mut reader = feed(&job, Growing(vec![first.as_bytes(), rest.as_bytes()]));
                reader.keep_apart();
                let mut worker = Worker::new(&job).unwrap();
                let lock = Lock::take("--checkpoint", &kept).unwrap();
                let (sink, _) = Sink::open(&job, None, Some(lock)).unwrap();
                run_of(&job, &mut worker, reader, sink).unwrap();
                let bytes = std::fs::read(&kept).unwrap();
                let saved: Saved = optfilter::checkpoint::load(KIND, &bytes).unwrap();
                assert_eq!((saved.trail.rows(), saved.tally.rows), (done, done), "{first:?}");
                std::fs::write(&data, format!("{first}{rest}")).unwrap();
                let outcome = run(&job).unwrap();
                assert_eq!((outcome.resumed_at, outcome.tally.rows), (done, rows), "{first:?}");
                job.checkpoint = None;
                job.out = &whole;
                run(&job).unwrap();
                let read = |path: &Path| std::fs::read_to_string(path).unwrap();
                assert_eq!(read(&out), read(&whole), "{first:?}");
                std::fs::remove_file(&kept).unwrap();
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
