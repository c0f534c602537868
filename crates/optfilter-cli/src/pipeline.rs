//! Rows through a filter: reading, filtering and writing at the same time, in constant memory.
//!
//! ```text
//! reader thread --batches--> this thread (filter) --results--> writer thread
//! ```
//!
//! Batches go round in a circle of a few buffers. A checkpoint travels with the results: the writer
//! first makes the rows before it durable and only then replaces the checkpoint file, so that a run
//! killed at any moment can go on without a lost or doubled row. With `--follow` everything happens in
//! one thread, a row at a time.

use crate::failure::Failure;
use crate::files;
use crate::plot::Thinned;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Clock, Engine, Estimate, Layout, Plan};
use optfilter_model::table::{Batch, Format, OutputColumn, TableReader, TableWriter};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Rows per batch, and batches on the way.
const BATCH: usize = 4096;
const IN_FLIGHT: usize = 4;

/// What is counted along the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    pub rows: u64,
    pub missing: u64,
    pub partial: u64,
    pub outliers: u64,
    /// The row at which an implicit filter's error bars were lost.
    pub bars_lost: Option<u64>,
    pub log_likelihood: f64,
    had_bars: bool,
    nis: f64,
    observed: u64,
    error_squares: Vec<f64>,
    change_squares: Vec<f64>,
    counts: Vec<u64>,
    last: Vec<f64>,
}

impl Tally {
    fn new(outputs: usize) -> Self {
        Self {
            had_bars: true,
            error_squares: vec![0.0; outputs],
            change_squares: vec![0.0; outputs],
            counts: vec![0; outputs],
            last: vec![f64::NAN; outputs],
            ..Self::default()
        }
    }

    #[inline]
    fn add(&mut self, y: &[f64], estimate: &Estimate) {
        self.rows += 1;
        let has_bars = !estimate.std[0].is_nan();
        if self.had_bars && !has_bars && self.bars_lost.is_none() {
            self.bars_lost = Some(self.rows);
        }
        self.had_bars = has_bars;
        if estimate.observed == 0 {
            self.missing += 1;
            return;
        }
        self.partial += u64::from(estimate.observed < y.len());
        self.log_likelihood += estimate.log_likelihood;
        self.nis += estimate.nis;
        self.observed += estimate.observed as u64;
        for i in 0..y.len() {
            let (e, change) = (estimate.innovation[i], y[i] - self.last[i]);
            // Both sums over the same rows: those that have a measurement before them.
            if !e.is_nan() && !change.is_nan() {
                self.error_squares[i] += e * e;
                self.change_squares[i] += change * change;
                self.counts[i] += 1;
            }
            if !y[i].is_nan() {
                self.last[i] = y[i];
            }
        }
    }

    /// Root mean square one-step prediction error of each observation.
    pub fn prediction_errors(&self) -> Vec<f64> {
        let root = |(s, n): (&f64, &u64)| (s / *n as f64).sqrt();
        self.error_squares.iter().zip(&self.counts).map(root).collect()
    }

    /// The same for a prediction that repeats the measurement before.
    pub fn repeat_errors(&self) -> Vec<f64> {
        let root = |(s, n): (&f64, &u64)| (s / *n as f64).sqrt();
        self.change_squares.iter().zip(&self.counts).map(root).collect()
    }

    /// Mean normalised innovation squared per observed component; 1 for a consistent filter.
    pub fn mean_nis(&self) -> f64 {
        self.nis / self.observed as f64
    }
}

/// What a checkpoint holds besides the belief.
#[derive(Serialize, Deserialize)]
struct Saved {
    fingerprint: u64,
    clock: Clock,
    tally: Tally,
    output_len: u64,
    belief: Vec<u8>,
}

/// What a run needs.
pub struct Job<'a> {
    pub spec: &'a ModelSpec,
    pub plan: &'a Plan,
    pub layout: Layout,
    pub data: &'a Path,
    pub format: Option<files::FormatName>,
    pub out: &'a Path,
    pub out_format: Format,
    pub full: bool,
    pub follow: bool,
    pub checkpoint: Option<PathBuf>,
    pub checkpoint_every: u64,
    pub skip_done: bool,
    pub plot: bool,
}

/// What a run leaves behind.
pub struct Outcome {
    pub tally: Tally,
    pub plot: Option<Thinned>,
    pub resumed_at: u64,
}

/// The filter with all that it keeps from row to row.
struct Worker<'a> {
    spec: &'a ModelSpec,
    layout: Layout,
    engine: Box<dyn Engine>,
    clock: Clock,
    estimate: Estimate,
    tally: Tally,
    /// NIS above this, by observed components, is an outlier.
    gates: Vec<f64>,
    full: bool,
    plot: Option<Thinned>,
    data_name: String,
    row: Vec<f64>,
}

impl Worker<'_> {
    /// Filters a batch and appends its results; those before a failure are there as well.
    fn take(&mut self, batch: &Batch, results: &mut Vec<f64>) -> Result<(), Failure> {
        for row in 0..batch.rows {
            let (time, u, y) = self.layout.split(batch, row);
            let (predict, step) =
                self.clock.next(time, batch.calendar).map_err(|(before, after)| {
                    files::backwards(&self.data_name, self.clock.rows() + 1, before, after)
                })?;
            self.engine
                .step(predict, &step, u, y, &mut self.estimate)
                .map_err(|e| Failure::filter(&self.data_name, &e))?;
            self.tally.add(y, &self.estimate);
            let flag = self.flag(y.len());
            self.tally.outliers += u64::from(flag == 3);
            let time = time.unwrap_or(step.time);
            self.layout.result(time, &self.estimate, flag, self.full, &mut self.row);
            results.extend_from_slice(&self.row);
            if let Some(plot) = &mut self.plot {
                plot.push(time, y, &self.estimate);
            }
        }
        Ok(())
    }

    #[inline]
    fn flag(&self, outputs: usize) -> usize {
        let estimate = &self.estimate;
        match estimate.observed {
            0 => return 1,
            k if estimate.nis > self.gates[k] => return 3,
            k if k < outputs => return 2,
            _ => {}
        }
        let at_bound = self.spec.bounds.iter().flatten().zip(&estimate.mean);
        4 * usize::from(at_bound.into_iter().any(|((low, high), x)| x <= low || x >= high))
    }

    fn save(&self, fingerprint: u64) -> Result<Saved, Failure> {
        Ok(Saved {
            fingerprint,
            clock: self.clock.clone(),
            tally: self.tally.clone(),
            output_len: 0,
            belief: self.engine.save().map_err(Failure::other)?,
        })
    }
}

/// The 99.9 % point of chi-square with `dof` degrees of freedom (Wilson and Hilferty 1931).
fn chi_square_999(dof: usize) -> f64 {
    let d = dof as f64;
    let c = 2.0 / (9.0 * d);
    d * (1.0 - c + 3.090_232 * c.sqrt()).powi(3)
}

/// Where results and checkpoints go.
struct Sink {
    writer: TableWriter,
    file: Option<File>,
    name: String,
    start_len: u64,
    checkpoint: Option<PathBuf>,
}

impl Sink {
    fn rows(&mut self, width: usize, batch: &Batch, results: &[f64]) -> Result<(), Failure> {
        for (i, row) in results.chunks_exact(width).enumerate() {
            self.writer
                .row(row, batch.time_text(i))
                .map_err(|e| Failure::write_table(&self.name, &e))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<u64, Failure> {
        self.writer.flush().map_err(|e| Failure::write_table(&self.name, &e))
    }

    /// Makes the rows so far durable, then replaces the checkpoint.
    fn mark(&mut self, mut saved: Saved) -> Result<(), Failure> {
        let Some(path) = self.checkpoint.clone() else { return Ok(()) };
        saved.output_len = self.start_len + self.flush()?;
        if let Some(file) = &self.file {
            file.sync_data().map_err(|e| Failure::write(&self.name, &e))?;
        }
        let bytes = optfilter::checkpoint::save(KIND, &saved).map_err(Failure::other)?;
        files::replace_atomically(&path, &bytes)
            .map_err(|e| Failure::write(&path.display().to_string(), &e))
    }
}

const KIND: &str = "command line/filter";

/// What goes from the filter to the writer.
enum Message {
    Rows(Batch, Vec<f64>),
    Mark(Box<Saved>),
}

/// Runs a job to the end of its data.
pub fn run(job: &Job<'_>) -> Result<Outcome, Failure> {
    let Job { spec, plan, .. } = *job;
    let data_name = files::display(job.data);
    let mut worker = Worker {
        spec,
        layout: job.layout.clone(),
        engine: plan.engine(spec)?,
        clock: Clock::new(spec.dt),
        estimate: Estimate::new(spec.states.len(), spec.observations.len()),
        tally: Tally::new(spec.observations.len()),
        gates: (0..=spec.observations.len()).map(chi_square_999).collect(),
        full: job.full,
        plot: job.plot.then(|| Thinned::new(spec)),
        data_name: data_name.clone(),
        row: Vec::new(),
    };
    let fingerprint = fingerprint(job);
    let resumed = resume(job, &mut worker, fingerprint)?;
    let columns = job.layout.output_columns(spec, job.full);
    let sink = open_sink(job, columns.clone(), resumed.as_ref())?;
    let mut reader = files::table(job.data, job.format, spec, &job.layout, &[])?;
    let resumed_at = resumed.as_ref().map_or(0, |s| s.clock.rows());
    if job.skip_done || !files::is_standard(job.data) {
        skip(&mut reader, resumed_at, &data_name)?;
    }
    let width = columns.len();
    if job.follow {
        follow(job, &mut worker, reader, sink, width, fingerprint)?;
    } else {
        stream(job, &mut worker, reader, sink, width, fingerprint)?;
    }
    Ok(Outcome { tally: worker.tally, plot: worker.plot, resumed_at })
}

/// Everything that must be the same for a checkpoint to make sense, as one number.
fn fingerprint(job: &Job<'_>) -> u64 {
    let text = format!("{:?}{:?}{:?}{}", job.spec, job.plan, job.layout, job.full);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn resume(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    fingerprint: u64,
) -> Result<Option<Saved>, Failure> {
    let Some(path) = &job.checkpoint else { return Ok(None) };
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Failure::other(format!("cannot read {}: {e}", path.display()))),
    };
    let name = path.display();
    let saved: Saved = optfilter::checkpoint::load(KIND, &bytes)
        .map_err(|e| Failure::other(format!("{name}: {e}")))?;
    if saved.fingerprint != fingerprint {
        return Err(Failure::usage(format!(
            "{name} was made with another model or other flags; remove it to start afresh"
        )));
    }
    worker.engine.restore(&saved.belief).map_err(|e| Failure::other(format!("{name}: {e}")))?;
    worker.clock = saved.clock.clone();
    worker.tally = saved.tally.clone();
    Ok(Some(saved))
}

fn open_sink(
    job: &Job<'_>,
    columns: Vec<OutputColumn>,
    resumed: Option<&Saved>,
) -> Result<Sink, Failure> {
    if files::is_standard(job.out) {
        let writer =
            TableWriter::new(Box::new(io::stdout()), job.out_format, columns, resumed.is_some())
                .map_err(|e| Failure::write_table("standard output", &e))?;
        let checkpoint = job.checkpoint.clone();
        return Ok(Sink {
            writer,
            file: None,
            name: "standard output".into(),
            start_len: 0,
            checkpoint,
        });
    }
    let name = job.out.display().to_string();
    let fail = |e: io::Error| Failure::write(&name, &e);
    let same = |a: &Path, b: &Path| {
        a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
    };
    if same(job.out, job.data) {
        return Err(Failure::usage(format!("{name} is the data; write the results elsewhere")));
    }
    let (file, start_len) = match resumed {
        None => (File::create(job.out).map_err(fail)?, 0),
        Some(saved) => {
            let mut file = File::options().write(true).open(job.out).map_err(|e| {
                Failure::other(format!(
                    "the checkpoint goes on in {name}, which cannot be opened: {e}"
                ))
            })?;
            let len = file.metadata().map_err(fail)?.len();
            if len < saved.output_len {
                return Err(Failure::other(format!(
                    "{name} has {len} bytes, but the checkpoint was made after {} of them",
                    saved.output_len
                )));
            }
            // Rows written after the checkpoint will be written again.
            file.set_len(saved.output_len).map_err(fail)?;
            file.seek(io::SeekFrom::End(0)).map_err(fail)?;
            (file, saved.output_len)
        }
    };
    let copy = file.try_clone().map_err(fail)?;
    let writer = TableWriter::new(Box::new(file), job.out_format, columns, resumed.is_some())
        .map_err(|e| Failure::write_table(&name, &e))?;
    Ok(Sink { writer, file: Some(copy), name, start_len, checkpoint: job.checkpoint.clone() })
}

fn skip(reader: &mut TableReader, rows: u64, name: &str) -> Result<(), Failure> {
    let mut left = rows as usize;
    let mut scratch = Batch::default();
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

/// One row at a time: each result is out before the next row is awaited.
fn follow(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    mut reader: TableReader,
    mut sink: Sink,
    width: usize,
    fingerprint: u64,
) -> Result<(), Failure> {
    let (mut batch, mut results) = (Batch::default(), Vec::new());
    let (mut marked_rows, mut marked_at) = (worker.clock.rows(), Instant::now());
    sink.flush()?; // the header goes out before the first row arrives
    loop {
        batch.clear();
        results.clear();
        let more = reader.read(&mut batch, 1).map_err(|e| Failure::table(&worker.data_name, &e));
        let taken = worker.take(&batch, &mut results);
        sink.rows(width, &batch, &results)?;
        sink.flush()?;
        let ended = !matches!(more, Ok(true)) || taken.is_err();
        let due = worker.clock.rows() >= marked_rows + job.checkpoint_every
            || marked_at.elapsed() >= Duration::from_secs(1);
        if sink.checkpoint.is_some() && (ended || due) && taken.is_ok() {
            sink.mark(worker.save(fingerprint)?)?;
            (marked_rows, marked_at) = (worker.clock.rows(), Instant::now());
        }
        taken?;
        if !more? {
            return sink.writer.finish().map_err(|e| Failure::write_table(&sink.name, &e));
        }
    }
}

/// Reader, filter and writer side by side.
fn stream(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    reader: TableReader,
    sink: Sink,
    width: usize,
    fingerprint: u64,
) -> Result<(), Failure> {
    let (full_to, full_from) = sync_channel::<Result<Batch, Failure>>(IN_FLIGHT);
    let (empty_to, empty_from) = sync_channel::<Batch>(2 * IN_FLIGHT);
    let (result_to, result_from) = sync_channel::<Message>(IN_FLIGHT);
    let (spare_to, spare_from) = sync_channel::<(Batch, Vec<f64>)>(2 * IN_FLIGHT);
    let name = worker.data_name.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || read_all(reader, &name, &full_to, &empty_from));
        let writing = scope.spawn(move || write_all(sink, width, &result_from, &spare_to));
        let filtered =
            filter_all(job, worker, &full_from, &empty_to, &result_to, &spare_from, fingerprint);
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

fn read_all(
    mut reader: TableReader,
    name: &str,
    to: &SyncSender<Result<Batch, Failure>>,
    empties: &Receiver<Batch>,
) {
    loop {
        let mut batch = empties.try_recv().unwrap_or_default();
        batch.clear();
        let more = reader.read(&mut batch, BATCH);
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
    width: usize,
    from: &Receiver<Message>,
    spare: &SyncSender<(Batch, Vec<f64>)>,
) -> Result<(), Failure> {
    for message in from {
        match message {
            Message::Rows(batch, results) => {
                sink.rows(width, &batch, &results)?;
                let _ = spare.try_send((batch, results));
            }
            Message::Mark(saved) => sink.mark(*saved)?,
        }
    }
    sink.writer.finish().map_err(|e| Failure::write_table(&sink.name, &e))
}

fn filter_all(
    job: &Job<'_>,
    worker: &mut Worker<'_>,
    batches: &Receiver<Result<Batch, Failure>>,
    empties: &SyncSender<Batch>,
    results_to: &SyncSender<Message>,
    spare: &Receiver<(Batch, Vec<f64>)>,
    fingerprint: u64,
) -> Result<(), Failure> {
    let mut marked = worker.clock.rows();
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
        taken?;
        if job.checkpoint.is_some() && worker.clock.rows() >= marked + job.checkpoint_every {
            let saved = Box::new(worker.save(fingerprint)?);
            results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
            marked = worker.clock.rows();
        }
    }
    if job.checkpoint.is_some() {
        let saved = Box::new(worker.save(fingerprint)?);
        results_to.send(Message::Mark(saved)).map_err(|_| stopped())?;
    }
    end
}
