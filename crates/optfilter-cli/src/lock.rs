//! One writer at a time: a lock on each file that a command writes, or goes on with, while it runs.
//!
//! The lock is one of the system's, on a hidden file beside the one that is written, `.FILE.optfilter.lock`: the file itself is replaced
//! again and again, and on some systems what is locked cannot be read. It says who holds it. Who is killed lets go of it, whatever
//! is left behind; and whoever has it may clear what killed runs have left of the file, since nobody else is writing it.
//!
//! Where there is nothing to lock (standard output, a device) a lock holds nothing, and is no failure; nor is it one where nothing can
//! be put beside a file that is there, which is said.

use crate::checksum::checksum;
use crate::failure::Failure;
use optfilter_model::table::{cut, format_time};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that nobody else writes as long as this is kept.
pub struct Lock {
    target: PathBuf,
    held: Option<(File, PathBuf)>,
}

impl Lock {
    /// Locks a file, which need not be there. `flag` is what it was asked for by. If another run has it, who that is.
    pub fn take(flag: &str, path: &Path) -> Result<Self, Failure> {
        let target = resolved(path);
        let free = |target| Ok(Self { target, held: None });
        let unlocked = |target, e| {
            let name = path.display();
            let _ = writeln!(
                io::stderr(),
                "note: {name} cannot be locked ({e}); see that no other run uses it"
            );
            free(target)
        };
        if path.as_os_str() == "-" || std::fs::metadata(&target).is_ok_and(|m| !m.is_file()) {
            return free(target);
        }
        let mut name = OsString::from(".");
        name.push(stem(&target));
        name.push(".optfilter.lock");
        let beside = target.with_file_name(name);
        let mut file = loop {
            let opened =
                File::options().read(true).write(true).create(true).truncate(false).open(&beside);
            // What another user has left, or holds, can be locked if it can be read.
            let opened = opened.or_else(|e| match e.kind() {
                io::ErrorKind::PermissionDenied => File::open(&beside),
                _ => Err(e),
            });
            let file = match opened {
                Ok(file) => file,
                Err(e) if beside.exists() || target.exists() => return unlocked(target, e),
                Err(_) => return free(target), // it cannot be there either
            };
            match file.try_lock() {
                // Its last holder may have taken it away in the meantime.
                Ok(()) if is_there(&file, &beside) => break file,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::other(format!(
                        "{flag} {}: {} is using it; wait for it to end, or name another file",
                        path.display(),
                        holder(file)
                    )));
                }
                Err(TryLockError::Error(e)) => return unlocked(target, e),
            }
        };
        // That it cannot say who it is makes it no less a lock.
        let _ = file.set_len(0).and_then(|()| file.write_all(about().as_bytes()));
        clear(&target);
        Ok(Self { target, held: Some((file, beside)) })
    }

    /// The file, behind links.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// A name beside the file for what is to take its place.
    pub fn temporary(&self) -> PathBuf {
        let mut name = stem(&self.target);
        name.push(format!(".{}.tmp", std::process::id()));
        self.target.with_file_name(name)
    }

    /// Replaces the file by new bytes so that at every moment either the old or the new ones are there.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), Failure> {
        let temporary = self.temporary();
        let written = (|| {
            let mut file = File::create(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &self.target)
        })();
        written.map_err(|e| {
            let _ = std::fs::remove_file(&temporary);
            Failure::write(&self.target.display().to_string(), &e)
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Where it cannot be told whether an open file still has its name, the name stays.
        if let (true, Some((_, beside))) = (cfg!(unix), &self.held) {
            let _ = std::fs::remove_file(beside);
        }
    }
}

/// The file that a path leads to, also where it is yet to be; a link stays a link.
pub fn resolved(path: &Path) -> PathBuf {
    let folder_of = |path: &Path| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).to_owned()
    };
    let mut at = path.to_owned();
    // As many links as systems follow: they may go round in a circle.
    for _ in 0..40 {
        if let Ok(known) = at.canonicalize() {
            return known;
        }
        let Ok(next) = std::fs::read_link(&at) else { break };
        at = folder_of(&at).join(next);
    }
    let folder = folder_of(&at).canonicalize();
    folder.map_or_else(|_| path.to_owned(), |f| f.join(at.file_name().unwrap_or_default()))
}

/// What the names of files beside a file begin with: its own, or, if that leaves no room for their endings, its start and its sum.
fn stem(target: &Path) -> OsString {
    const LONGEST: usize = 255;
    const ENDING: usize = ".".len() + ".optfilter.lock".len();
    let name = target.file_name().unwrap_or_default();
    if name.len() + ENDING <= LONGEST {
        return name.to_owned();
    }
    let start: String = name.to_string_lossy().chars().take(40).collect();
    format!("{start}~{:016x}", checksum(name.as_encoded_bytes())).into()
}

/// Whether an open file has that name.
fn is_there(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let node = |m: std::fs::Metadata| (m.dev(), m.ino());
        let here = std::fs::metadata(path).ok().map(node);
        here.is_some() && file.metadata().ok().map(node) == here
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}

/// Who holds a lock, as far as that can be read.
fn holder(file: File) -> String {
    let mut text = String::new();
    let read = file.take(1000).read_to_string(&mut text);
    match read.is_ok() && !text.trim().is_empty() {
        true => text.trim().to_owned(),
        false => "another run".to_owned(),
    }
}

/// This process in words.
fn about() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    format!(
        "process {} (since {}: {})",
        std::process::id(),
        format_time(since as f64),
        cut(&words.join(" "), 200)
    )
}

/// Removes what runs that were killed have left of a file.
fn clear(target: &Path) {
    let (Some(folder), name) = (target.parent(), stem(target)) else { return };
    let (Ok(entries), Some(name)) = (std::fs::read_dir(folder), name.to_str()) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let of_it = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_prefix(name));
        let number = of_it.and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".tmp"));
        if number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
            let _ = std::fs::remove_file(path);
        }
    }
}
