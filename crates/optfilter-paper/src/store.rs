//! Finished pieces of a run, kept so that an interrupted run continues where it stopped.
//!
//! Each piece is a small file under `DIR/state`. Its first line names everything that decides its content (program version, protocol, runs,
//! seed); a file whose first line differs is from another run and is computed again. Files appear whole or not at all: they are
//! written under another name first and then renamed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Changes whenever the same options would give other numbers.
const FORMAT: u32 = 1;

/// Where pieces are kept, and what they must have been made with.
pub struct Store {
    folder: PathBuf,
    key: String,
}

impl Store {
    /// Pieces under `folder`, made with `key`.
    pub fn new(folder: &Path, key: &str) -> Self {
        Self {
            folder: folder.to_path_buf(),
            key: format!("optfilter {} format {FORMAT} {key}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Where the pieces are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, piece: &str) -> PathBuf {
        let name: String =
            piece.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.folder.join(format!("{name}.csv"))
    }

    /// The lines of a finished piece.
    pub fn load(&self, piece: &str) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.path(piece)).ok()?;
        let mut lines = text.lines();
        if lines.next()? != self.key {
            return None;
        }
        // The last line says that the file is complete, should a disk have lost its end.
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        (lines.pop()? == "end").then_some(lines)
    }

    /// Keep a finished piece.
    pub fn save(&self, piece: &str, lines: &[String]) -> io::Result<()> {
        let mut text = self.key.clone();
        for line in lines {
            text.push('\n');
            text.push_str(line);
        }
        text.push_str("\nend\n");
        fs::create_dir_all(&self.folder)?;
        write_whole(&self.path(piece), text.as_bytes())
    }
}

/// Write a file so that it is never seen half-written.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let part = path.with_file_name(name);
    fs::write(&part, content)?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_only_to_the_run_that_made_them() {
        let folder = std::env::temp_dir().join(format!("optfilter-store-{}", std::process::id()));
        let store = Store::new(&folder, "published runs 5 seed 0");
        assert!(store.load("toy").is_none());
        store.save("toy", &["a,b".into(), "c".into()]).unwrap();
        assert_eq!(store.load("toy").unwrap(), ["a,b", "c"]);
        assert!(Store::new(&folder, "published runs 5 seed 1").load("toy").is_none());
        let path = store.path("toy");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        assert!(store.load("toy").is_none(), "a cut file must not pass");
        fs::remove_dir_all(&folder).unwrap();
    }
}
