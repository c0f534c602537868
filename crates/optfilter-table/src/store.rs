//! Bytes that are read where they are needed: those of a file, or some in memory.
//!
//! Several readers go through one file side by side, each at a place of its own: every read says where it begins.

use crate::source::Source;
use rawzip::{FileReader, RangeReader, ReaderAt};
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of which any part can be read. Clones are of the same bytes.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Memory(Arc<Vec<u8>>),
    /// A file, and how long it was when it was opened.
    File(Arc<FileReader>, u64),
}

impl From<Vec<u8>> for Store {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Memory(Arc::new(bytes))
    }
}

impl Store {
    /// A file stays where it is; what comes one byte after the other (a pipe, by name or not) is read to its end.
    pub(crate) fn of(source: Source) -> io::Result<Self> {
        match source {
            Source::File(file) if file.metadata()?.is_file() => {
                let length = file.metadata()?.len();
                Ok(Self::File(Arc::new(file.into()), length))
            }
            other => {
                let mut bytes = Vec::new();
                other.into_stream().read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }

    /// The bytes themselves, where they are in memory.
    pub(crate) fn slice(&self, range: &Range<u64>) -> Option<&[u8]> {
        let Self::Memory(bytes) = self else { return None };
        bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    /// So many bytes from a place on; nothing, if there are fewer. What is not there is not made room for.
    pub(crate) fn get(&self, at: u64, length: usize) -> io::Result<Option<Cow<'_, [u8]>>> {
        let Some(end) = at.checked_add(length as u64).filter(|end| *end <= self.len()) else {
            return Ok(None);
        };
        if let Some(bytes) = self.slice(&(at..end)) {
            return Ok(Some(Cow::Borrowed(bytes)));
        }
        let mut bytes = Vec::new();
        self.part(at..end).read_to_end(&mut bytes)?;
        Ok((bytes.len() == length).then_some(Cow::Owned(bytes)))
    }

    /// A reader of some of the bytes, with a place of its own.
    pub(crate) fn part(&self, range: Range<u64>) -> RangeReader<Self> {
        RangeReader::new(self.clone(), range)
    }
}

impl ReaderAt for Store {
    /// Reads from a place on; nothing at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read_at(into, at),
            // Systems refuse places that no file can have.
            Self::File(..) if at >= self.len() => Ok(0),
            Self::File(file, _) => file.read_at(into, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Two readers of one file, byte by byte in turn: neither moves the other. In memory it is the same.
    #[test]
    fn readers_have_places_of_their_own() {
        let bytes: Vec<u8> = (0..=255).collect();
        let path = std::env::temp_dir().join(format!("optfilter-store-{}", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let file = Store::of(Source::File(File::open(&path).unwrap())).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(matches!(file, Store::File(..)));
        for store in [file, bytes.clone().into()] {
            assert_eq!(store.len(), 256);
            let (mut low, mut high) = (store.part(10..20), store.part(200..205));
            let (mut from_low, mut from_high) = (Vec::new(), Vec::new());
            for _ in 0..20 {
                for (part, into) in [(&mut low, &mut from_low), (&mut high, &mut from_high)] {
                    part.take(1).read_to_end(into).unwrap();
                }
            }
            assert!(from_low.into_iter().eq(10..20) && from_high.into_iter().eq(200..205));
            assert_eq!(&*store.get(250, 6).unwrap().unwrap(), [250, 251, 252, 253, 254, 255]);
            assert!(store.get(250, 7).unwrap().is_none());
            assert!(store.get(u64::MAX, 1).unwrap().is_none());
            // What says that it is longer than it is ends where it ends.
            let mut rest = Vec::new();
            store.part(254..1 << 60).read_to_end(&mut rest).unwrap();
            assert_eq!(rest, [254, 255]);
        }
    }
}
