//! What a run needs, and what it keeps.

use super::lagged::Waiting;
use super::tally::Tally;
use crate::checksum::checksum;
use crate::failure::Failure;
use crate::{feed, files};
use optfilter::checkpoint::CheckpointError;
use optfilter_model::run::{Layout, Prepared};
use optfilter_model::table::{Format, Trail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Under which checkpoints are saved, and what all such kinds have begun with.
pub(super) const KIND: &str = "command line/filter/2";
pub(super) const FAMILY: &str = "command line/filter";

/// Rows per batch, and batches on the way.
pub const BATCH: usize = 4096;
pub const IN_FLIGHT: usize = 4;

/// What a checkpoint holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Saved {
    /// What must be the same in a run that goes on: names, and sums of their values.
    pub(super) settings: Vec<(String, u64)>,
    pub(super) tally: Tally,
    /// The rows so far.
    pub(super) trail: Trail,
    /// The length of the results, and the sum of their end.
    pub(super) output_len: u64,
    pub(super) tail: u64,
    /// The sizes of the tables in bytes when the run began, where their rows are put in order together.
    pub(super) sizes: Vec<u64>,
    /// Rows that wait for what comes after them.
    pub(super) waiting: Vec<Waiting>,
    /// Every series; without several there is one without a name.
    pub(super) tracks: Vec<SavedTrack>,
}

/// A series in a checkpoint.
#[derive(Serialize, Deserialize)]
pub(super) struct SavedTrack {
    pub(super) name: String,
    pub(super) last: Vec<f64>,
    /// Its inputs.
    pub(super) held: Vec<f64>,
    /// Clock and belief.
    pub(super) session: Vec<u8>,
}

/// What a run needs.
pub struct Job<'a> {
    pub prepared: &'a Prepared,
    pub layout: Layout,
    /// The tables, read one after the other, and whether a column of them names the series.
    pub tables: &'a [PathBuf],
    pub by: bool,
    pub format: Option<files::FormatName>,
    pub out: &'a Path,
    pub out_format: Format,
    /// Whether that is the format of the data, as nothing else was told.
    pub as_data: bool,
    pub full: bool,
    pub lagged: bool,
    pub follow: bool,
    pub checkpoint: Option<PathBuf>,
    /// Rows between two checkpoints; by the time that they take, unless given.
    pub checkpoint_every: Option<u64>,
    pub skip_done: bool,
    /// How much later than its neighbours a row may come, in units of the model's time.
    pub late: f64,
    pub plot: bool,
    /// The two states that are drawn against one another, if not all over time.
    pub plane: Option<&'a str>,
    /// Whether to show on a terminal how far it is.
    pub progress: bool,
}

impl Job<'_> {
    /// The sizes of the tables in bytes, where rows of all are put in order, so that a row that is added changes the places of
    /// those after it; else empty.
    pub(super) fn sizes(&self) -> Result<Vec<u64>, Failure> {
        if self.checkpoint.is_none() || (self.tables.len() < 2 && self.late == 0.0) {
            return Ok(Vec::new());
        }
        let size = |path: &PathBuf| match std::fs::metadata(path).ok().filter(|m| m.is_file()) {
            Some(known) => Ok(known.len()),
            None => Err(Failure::usage(format!(
                "--checkpoint: {} is no file, and a stream cannot be gone on with where rows wait for others (--late, several tables)",
                files::display(path)
            ))),
        };
        self.tables.iter().map(size).collect()
    }

    /// Refuses to go on where tables are no longer what they were, as rows would be lost or taken twice. Of tables that are read one
    /// after the other the last may have grown.
    pub(super) fn check_sizes(&self, before: &[u64], now: &[u64]) -> Result<(), Failure> {
        let in_turn = self.late == 0.0 && (self.by || self.layout.by.is_some());
        let fixed = if in_turn { now.len().saturating_sub(1) } else { now.len() };
        let pairs = self.tables.iter().zip(before.iter().zip(now)).take(fixed);
        match pairs.into_iter().find(|(_, (before, now))| before != now) {
            None => Ok(()),
            Some((path, _)) => Err(Failure::data(format!(
                "{} has changed since the checkpoint was begun; where rows of several tables, or rows that come late, are put in order \
                 the run cannot go on without losing some: remove the checkpoint to start afresh",
                files::display(path)
            ))),
        }
    }

    /// Whether what was written after a checkpoint can be taken back.
    pub(super) fn can_rewind(&self) -> bool {
        !files::is_standard(self.out) && std::fs::metadata(self.out).is_ok_and(|m| m.is_file())
    }

    /// Says that a row within which a table ends is neither answered nor in the checkpoint: its answer could not be taken back, or there is
    /// none as far as the row goes.
    pub(super) fn leave(&self, place: &str, failure: Option<Failure>) -> Result<(), Failure> {
        let why = match failure {
            None => "its answer could not be taken back".to_owned(),
            Some(Failure { code: 3 | 4, message }) => message,
            Some(other) => return Err(other),
        };
        files::remark(&format!("note: {place}, which is left for the run that goes on ({why})"));
        Ok(())
    }

    /// Says that a row within which a stream ends is to come again: it is answered and in no checkpoint, and a stream does not bring it twice.
    pub(super) fn want_again(&self, place: &str) {
        if files::is_standard(self.first()) {
            files::remark(&format!(
                "note: {place}, which is answered but not in the checkpoint; send all of it again to the run that goes on"
            ));
        }
    }

    /// The first table, which is the only one of a stream.
    pub(super) fn first(&self) -> &Path {
        self.tables.first().map_or(Path::new("-"), PathBuf::as_path)
    }
}

/// Everything that must be the same for a checkpoint to make sense: what it is called, and the sum of its value.
pub(super) fn settings(job: &Job<'_>) -> Result<Vec<(String, u64)>, Failure> {
    let values = |value: &dyn Fn() -> Result<Vec<u8>, CheckpointError>| {
        value().map(|bytes| checksum(&bytes)).map_err(Failure::other)
    };
    let model = values(&|| optfilter::checkpoint::save("", &job.prepared.spec))?;
    let columns = values(&|| optfilter::checkpoint::save("", &job.layout))?;
    // Of settings some are left out, so that their names are needed.
    let filter = serde_json::to_vec(&job.prepared.filter).map_err(Failure::other)?;
    let mut all = vec![
        ("the model", model),
        ("the filter", checksum(&filter)),
        ("--time, --by or --horizon", columns),
        ("--full", job.full.into()),
        ("--lagged or --follow", u64::from(job.lagged) * (1 + u64::from(job.follow))),
        ("--late", job.late.to_bits()),
        (OUT_FORMAT, job.out_format as u64),
        ("--out", files::is_standard(job.out).into()),
    ];
    // Rows are counted over all tables, so that these must be the same in the same order.
    if job.tables.len() > 1 {
        all.push(("the tables", checksum(feed::labels(job.tables).join("\0").as_bytes())));
    }
    Ok(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The format of the results among the settings.
const OUT_FORMAT: &str = "--out-format";

/// The names of settings that differ.
pub(super) fn differences(
    job: &Job<'_>,
    then: &[(String, u64)],
    now: &[(String, u64)],
) -> Vec<String> {
    let new = now.iter().filter(|(name, _)| then.iter().all(|(n, _)| n != name));
    let name_of = |(name, _): &(String, u64)| match (name.as_str(), job.as_data, job.format) {
        (OUT_FORMAT, true, Some(_)) => "--format".to_owned(),
        (OUT_FORMAT, true, None) => "--format or --out-format".to_owned(), // which of them is missing now
        _ => name.clone(),
    };
    then.iter().filter(|s| !now.contains(s)).chain(new).map(name_of).collect()
}
