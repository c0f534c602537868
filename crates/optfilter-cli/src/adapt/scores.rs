//! The file of scores of a stream, which goes on where a checkpoint left it.

use crate::failure::Failure;
use crate::files;
use crate::lock::Lock;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Scores are on their way to the file no longer than this, as long as there are more.
const LONGEST: Duration = Duration::from_secs(1);

/// The file of scores, if one is wanted.
pub struct Scores {
    file: Option<BufWriter<File>>,
    path: String,
    /// Nobody else writes it.
    lock: Option<Lock>,
    /// Its length.
    written: u64,
    /// Whether every line is written at once: the next may be long in coming.
    at_once: bool,
    flushed: Instant,
}

impl Scores {
    /// Begins a file with its head, or goes on with one that had so many bytes when the checkpoint was made.
    pub fn open(
        path: Option<&Path>,
        resumed: Option<(u64, u64)>,
        head: &str,
        at_once: bool,
    ) -> Result<Self, Failure> {
        let (flushed, path_of_none) = (Instant::now(), String::new());
        let mut scores =
            Self { file: None, path: path_of_none, lock: None, written: 0, at_once, flushed };
        let Some(path) = path else { return Ok(scores) };
        scores.lock = Some(Lock::take("--csv", path)?);
        scores.path = path.display().to_string();
        let failed = |e: std::io::Error| Failure::write(&path.display().to_string(), &e);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(resumed.is_none());
        let length = resumed.map_or(0, |(length, _)| length);
        if let Some(known) = resumed {
            check(path, known, head)?;
        }
        let mut file = options.open(path).map_err(failed)?;
        if resumed.is_some() {
            // What was written after the checkpoint will be written again.
            file.set_len(length).map_err(failed)?;
            file.seek(SeekFrom::Start(length)).map_err(failed)?;
        }
        scores.file = Some(BufWriter::new(file));
        scores.written = length;
        if length == 0 {
            scores.line(head)?;
        }
        Ok(scores)
    }

    /// Whether there is a file.
    pub fn wanted(&self) -> bool {
        self.file.is_some()
    }

    /// How long the file is, and the sum of its end, once all is [on disk](Self::sync).
    pub fn end(&self) -> Result<(u64, u64), Failure> {
        match &self.lock {
            None => Ok((0, 0)),
            Some(lock) => files::tail(lock.target(), self.written)
                .map(|sum| (self.written, sum))
                .map_err(|e| Failure::write(&self.path, &e)),
        }
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        if let Some(file) = &mut self.file {
            let mut done = writeln!(file, "{text}");
            if self.at_once || self.flushed.elapsed() > LONGEST {
                done = done.and_then(|()| file.flush());
                self.flushed = Instant::now();
            }
            done.map_err(|e| Failure::write(&self.path, &e))?;
            self.written += text.len() as u64 + 1;
        }
        Ok(())
    }

    /// Everything on disk.
    pub fn sync(&mut self) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let synced = file.flush().and_then(|()| file.get_ref().sync_data());
        synced.map_err(|e| Failure::write(&self.path, &e))
    }
}

/// Whether a file is the one that a checkpoint speaks of: nothing of anybody else is cut, and nothing is missing.
fn check(path: &Path, (length, sum): (u64, u64), head: &str) -> Result<(), Failure> {
    let refused = |what: String| {
        Err(Failure::usage(format!(
            "--csv: {} {what}; name the file of the run that goes on, or leave out --csv",
            path.display()
        )))
    };
    let found = match std::fs::metadata(path) {
        Ok(about) => about.len(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && length == 0 => return Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return refused(format!("is not there, and the checkpoint is of {length} bytes of it"));
        }
        Err(e) => return Err(Failure::write(&path.display().to_string(), &e)),
    };
    if length == 0 && found > 0 {
        return refused("is there already, and the checkpoint was made without it".into());
    }
    if found < length {
        return refused(format!(
            "has {found} bytes, fewer than the {length} that it had when the checkpoint was made"
        ));
    }
    let mut first = String::new();
    let read = File::open(path).and_then(|file| BufReader::new(file).read_line(&mut first));
    if length > 0 && (read.is_err() || first.trim_end() != head) {
        return refused(format!("holds no scores of this run (its first line is not {head:?})"));
    }
    if length > 0 && files::tail(path, length).ok() != Some(sum) {
        return refused("holds other scores than when the checkpoint was made".into());
    }
    Ok(())
}
