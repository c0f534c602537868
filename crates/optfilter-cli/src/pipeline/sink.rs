//! Where results and checkpoints go.

use super::{Job, KIND, Saved};
use crate::failure::Failure;
use crate::files;
use optfilter_model::table::{Rows, TableWriter};
use std::fs::File;
use std::io::{self, Seek};
use std::path::PathBuf;

/// Where results and checkpoints go.
pub(super) struct Sink {
    writer: TableWriter,
    /// Columns of the results.
    width: usize,
    file: Option<File>,
    name: String,
    start_len: u64,
    pub(super) checkpoint: Option<PathBuf>,
}

impl Sink {
    /// Starts the output, or goes on where the checkpoint says that it was.
    pub(super) fn open(job: &Job<'_>, resumed: Option<&Saved>) -> Result<Self, Failure> {
        let columns = job.layout.output_columns(job.spec, job.full);
        let width = columns.len();
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].iter().any(|c| c.name() == column.name()) {
                return Err(Failure::usage(format!(
                    "the results would have two columns called `{}`; rename a state of the model",
                    column.name()
                )));
            }
        }
        if files::is_standard(job.out) {
            let writer = TableWriter::new(
                Box::new(io::stdout()),
                job.out_format,
                columns,
                resumed.is_some(),
            )
            .map_err(|e| Failure::write_table("standard output", &e))?;
            let checkpoint = job.checkpoint.clone();
            return Ok(Self {
                writer,
                width,
                file: None,
                name: "standard output".into(),
                start_len: 0,
                checkpoint,
            });
        }
        let name = job.out.display().to_string();
        let fail = |e: io::Error| Failure::write(&name, &e);
        let (file, start_len) = match resumed {
            None => (File::create(job.out).map_err(fail)?, 0),
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
                    // Rows written after the checkpoint will be written again.
                    file.set_len(saved.output_len).map_err(fail)?;
                    file.seek(io::SeekFrom::End(0)).map_err(fail)?;
                }
                (file, saved.output_len)
            }
        };
        // Devices cannot be synchronised, and need not be.
        let is_file = file.metadata().map_err(fail)?.is_file();
        let copy = is_file.then(|| file.try_clone()).transpose().map_err(fail)?;
        let writer = TableWriter::new(Box::new(file), job.out_format, columns, resumed.is_some())
            .map_err(|e| Failure::write_table(&name, &e))?;
        Ok(Self { writer, width, file: copy, name, start_len, checkpoint: job.checkpoint.clone() })
    }

    pub(super) fn rows(&mut self, batch: &Rows, results: &[f64]) -> Result<(), Failure> {
        for (i, row) in results.chunks_exact(self.width).enumerate() {
            self.writer
                .row(row, batch.time_text(i))
                .map_err(|e| Failure::write_table(&self.name, &e))?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<u64, Failure> {
        self.writer.flush().map_err(|e| Failure::write_table(&self.name, &e))
    }

    /// Makes the rows so far durable, then replaces the checkpoint.
    pub(super) fn mark(&mut self, mut saved: Saved) -> Result<(), Failure> {
        let Some(path) = self.checkpoint.clone() else { return Ok(()) };
        saved.output_len = self.start_len + self.flush()?;
        if let Some(file) = &self.file {
            file.sync_data().map_err(|e| Failure::write(&self.name, &e))?;
        }
        let bytes = optfilter::checkpoint::save(KIND, &saved).map_err(Failure::other)?;
        files::replace_atomically(&path, &bytes)
            .map_err(|e| Failure::write(&path.display().to_string(), &e))
    }

    /// Ends the table.
    pub(super) fn finish(self) -> Result<(), Failure> {
        self.writer.finish().map_err(|e| Failure::write_table(&self.name, &e))
    }
}
