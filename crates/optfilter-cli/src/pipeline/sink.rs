//! Where results and checkpoints go.

use super::job::{Job, KIND, Saved};
use super::lagged::Lagged;
use crate::failure::Failure;
use crate::files::{self, Fresh, tail};
use crate::lock::Lock;
use optfilter_model::table::{Rows, TableWriter};
use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;
use std::sync::Arc;

/// Where results and checkpoints go.
pub(super) struct Sink {
    writer: TableWriter,
    /// Columns of the results.
    width: usize,
    file: Option<File>,
    name: String,
    start_len: u64,
    /// Whether rows have the name of their series, after the time.
    named: bool,
    /// The rows that wait for smoothed states, where those are written.
    lagged: Option<Lagged>,
    /// The output, if it may still lie beside an older one, and whether it has rows.
    fresh: Option<Arc<Fresh>>,
    has_rows: bool,
    /// Whether what is there before the end is of any use.
    whole: bool,
    /// The file of the checkpoint, and that of results which go on.
    pub(super) checkpoint: Option<Lock>,
    going_on: Option<Lock>,
    out: PathBuf,
}

impl Sink {
    /// Starts the output, or goes on where the checkpoint says that it was. A new one has its name from its first row on;
    /// the caller gives it its name if the run ends well without any.
    pub(super) fn open(
        job: &Job<'_>,
        resumed: Option<&Saved>,
        checkpoint: Option<Lock>,
    ) -> Result<(Self, Option<Arc<Fresh>>), Failure> {
        let columns = job.layout.output_columns(&job.prepared.spec, job.full, job.lagged);
        let width = columns.len();
        files::check_columns(&columns)?;
        let named = job.layout.by.is_some();
        let mut lagged = job.lagged.then(|| {
            let states = job.prepared.spec.states.len();
            Lagged::new(1 + usize::from(named), states, job.prepared.filter.window(), !job.follow)
        });
        if let (Some(lagged), Some(saved)) = (&mut lagged, resumed) {
            lagged.restore(&saved.waiting);
        }
        let going_on = match resumed {
            Some(_) => Some(Lock::take("--out", job.out)?),
            None => None,
        };
        let start = |out, name: &str, file, start_len, fresh: Option<Arc<Fresh>>| {
            let continues = resumed.is_some();
            let writer = files::table_writer(out, job.out, job.out_format, columns, continues)?;
            let sink = Self {
                writer,
                width,
                named,
                lagged,
                file,
                name: name.to_owned(),
                start_len,
                fresh: fresh.clone(),
                has_rows: false,
                whole: !job.out_format.is_text(),
                checkpoint,
                going_on,
                out: job.out.to_owned(),
            };
            Ok((sink, fresh))
        };
        if files::is_standard(job.out) {
            return start(Box::new(io::stdout()), "standard output", None, 0, None);
        }
        let name = job.out.display().to_string();
        let fail = |e: io::Error| Failure::write(&name, &e);
        let (file, start_len, fresh) = match resumed {
            None => {
                let (file, fresh) = Fresh::create(job.out)?;
                (file, 0, Some(Arc::new(fresh)))
            }
            Some(saved) => {
                let mut file = File::options().write(true).open(job.out).map_err(|e| {
                    Failure::other(format!(
                        "the checkpoint goes on in {name}, which cannot be opened: {e}"
                    ))
                })?;
                let known = file.metadata().map_err(fail)?;
                let len = known.len();
                if known.is_file() && len < saved.output_len {
                    return Err(Failure::other(format!(
                        "{name} has {len} bytes, but the checkpoint was made after {} of them",
                        saved.output_len
                    )));
                }
                if known.is_file() {
                    // Nothing of anybody else is cut.
                    if tail(job.out, saved.output_len).map_err(fail)? != saved.tail {
                        return Err(Failure::other(format!(
                            "{name} does not hold the results that the checkpoint goes on with; name the file of that run, or remove the \
                             checkpoint to start afresh"
                        )));
                    }
                    // Rows written after the checkpoint will be written again.
                    file.set_len(saved.output_len).map_err(fail)?;
                    file.seek(io::SeekFrom::End(0)).map_err(fail)?;
                }
                (file, saved.output_len, None)
            }
        };
        // Devices cannot be synchronised, and need not be.
        let is_file = file.metadata().map_err(fail)?.is_file();
        let copy = is_file.then(|| file.try_clone()).transpose().map_err(fail)?;
        start(Box::new(file), &name, copy, start_len, fresh)
    }

    pub(super) fn rows(&mut self, batch: &Rows, results: &[f64]) -> Result<(), Failure> {
        for (i, row) in results.chunks_exact(self.width).enumerate() {
            if let Some(lagged) = &mut self.lagged {
                let series = self.named.then(|| batch.labels.get(row[1] as usize)).flatten();
                lagged.push(row, batch.time_text(i), series.map_or("", String::as_str));
                self.write_known()?;
                continue;
            }
            self.writer
                .labelled_row(row, batch.time_text(i), &batch.labels)
                .map_err(|e| Failure::write_table(&self.name, &e))?;
        }
        if !self.has_rows && !results.is_empty() {
            self.has_rows = true;
            if !self.whole {
                self.flush()?;
                self.keep()?;
            }
        }
        Ok(())
    }

    /// Writes the rows whose smoothed states are known, as far as it is their turn.
    fn write_known(&mut self) -> Result<(), Failure> {
        while let Some(mut row) = self.lagged.as_mut().and_then(Lagged::next) {
            if self.named {
                row.values[1] = 0.0;
            }
            let names = std::slice::from_ref(&row.series);
            self.writer
                .labelled_row(&row.values, row.time.as_deref(), names)
                .map_err(|e| Failure::write_table(&self.name, &e))?;
        }
        Ok(())
    }

    /// Writes the rows that still wait, with the states of the last window of each series, oldest first.
    pub(super) fn rest(&mut self, paths: &[(String, Vec<f64>)]) -> Result<(), Failure> {
        if let Some(lagged) = &mut self.lagged {
            paths.iter().for_each(|(series, path)| lagged.end(series, path));
        }
        self.write_known()
    }

    /// Gives the output its name.
    fn keep(&self) -> Result<(), Failure> {
        let kept = self.fresh.as_ref().map_or(Ok(()), |fresh| fresh.keep());
        kept.map_err(|e| Failure::write(&self.name, &e))
    }

    pub(super) fn flush(&mut self) -> Result<u64, Failure> {
        self.writer.flush().map_err(|e| Failure::write_table(&self.name, &e))
    }

    /// Makes the rows so far durable, then replaces the checkpoint.
    pub(super) fn mark(&mut self, mut saved: Saved) -> Result<(), Failure> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        if self.fresh.as_ref().is_some_and(|fresh| !fresh.is_kept()) {
            return Ok(()); // nothing yet: the file of that name is an older one
        }
        let written = self.writer.flush().map_err(|e| Failure::write_table(&self.name, &e))?;
        saved.output_len = self.start_len + written;
        saved.waiting = self.lagged.as_ref().map(Lagged::save).unwrap_or_default();
        if let Some(file) = &self.file {
            let end = file.sync_data().and_then(|()| tail(&self.out, saved.output_len));
            saved.tail = end.map_err(|e| Failure::write(&self.name, &e))?;
        }
        let bytes = optfilter::checkpoint::save(KIND, &saved).map_err(Failure::other)?;
        checkpoint.replace(&bytes)
    }

    /// Ends the table.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let (name, fresh) = (self.name, self.fresh.filter(|_| self.has_rows));
        self.writer.finish().map_err(|e| Failure::write_table(&name, &e))?;
        drop(self.going_on); // not before the last row is out
        fresh.map_or(Ok(()), |fresh| fresh.keep()).map_err(|e| Failure::write(&name, &e))
    }
}
