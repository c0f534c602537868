//! Where a table comes from.

use crate::error::TableError;
use crate::foreign;
use flate2::read::MultiGzDecoder;
use std::io::{BufRead, BufReader, Cursor, Read};

/// Where a table comes from.
pub enum Source {
    /// A file, of which parts can be read in any order.
    File(std::fs::File),
    /// Bytes that come one after the other.
    Stream(Box<dyn Read + Send>),
    /// The same from somebody who may send anything: unpacked, its text or its arrays are no longer than this.
    Bounded(Box<dyn Read + Send>, TextBounds),
}

/// How much text a table may have when it is unpacked: a few megabytes of gzip can hold gigabytes, or one endless line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextBounds {
    /// Bytes of the whole text.
    pub text: u64,
    /// Bytes of each of its lines.
    pub line: u64,
}

/// Bytes of a row of text, and cells of it: more than any table has (a field of a million numbers, and what is measured of it).
pub(crate) const MAX_LINE: usize = 1 << 26;
pub(crate) const MAX_COLUMNS: usize = 1 << 21;

/// Bytes of text.
pub(crate) type Text = Box<dyn BufRead + Send>;

impl Source {
    /// How long it may be when it is unpacked, if that is bounded.
    pub(crate) fn bounds(&self) -> Option<TextBounds> {
        if let Self::Bounded(_, bounds) = self { Some(*bounds) } else { None }
    }

    pub(crate) fn into_stream(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Stream(input) | Self::Bounded(input, _) => input,
        }
    }

    /// The text, unpacked if it is compressed with gzip, and how it starts. What is no text is named.
    pub(crate) fn into_text(self) -> Result<(Vec<u8>, Text), TableError> {
        let bounds = self.bounds();
        let mut input: Box<dyn Read + Send> =
            Box::new(Ending { input: self.into_stream(), ended: false });
        let mut head = start(&mut input)?;
        let packed = head.starts_with(b"\x1f\x8b");
        if packed || bounds.is_some() {
            input = Box::new(Cursor::new(head).chain(input));
            if packed {
                input = Box::new(MultiGzDecoder::new(input));
            }
            if let Some(bounds) = bounds {
                input = Box::new(Bounded { input, bounds, text: 0, line: 0 });
            }
            head = start(&mut input)?;
        }
        if let Some(kind) = foreign::of_start(&head) {
            return Err(TableError::Foreign { kind });
        }
        if let Some(plain) = head.strip_prefix(b"\xef\xbb\xbf") {
            head = plain.to_vec(); // a mark that says UTF-8
        }
        let rest = BufReader::with_capacity(1 << 18, input);
        Ok((head.clone(), Box::new(Cursor::new(head).chain(rest))))
    }
}

/// Bytes whose end stays where it was first seen. A file may be written while it is read: what it has grown by would become rows of
/// its own, cut off from the half row before them. It is there for whoever opens the file again.
struct Ending<R> {
    input: R,
    ended: bool,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.ended || bytes.is_empty() {
            return Ok(0);
        }
        let count = self.input.read(bytes)?;
        self.ended = count == 0;
        Ok(count)
    }
}

/// Text that ends with an error where it leaves its bounds.
struct Bounded<R> {
    input: R,
    bounds: TextBounds,
    /// Bytes so far, and those of the present line.
    text: u64,
    line: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(bytes)?;
        let new = bytes.get(..count).unwrap_or_default();
        self.text += count as u64;
        for (k, part) in new.split(is_end).enumerate() {
            self.line = part.len() as u64 + if k == 0 { self.line } else { 0 };
            if self.line > self.bounds.line {
                return Err(too_long("a line", self.bounds.line));
            }
        }
        if self.text > self.bounds.text {
            return Err(too_long("its text", self.bounds.text));
        }
        Ok(count)
    }
}

fn too_long(what: &str, bytes: u64) -> std::io::Error {
    std::io::Error::other(format!("{what} is longer than {}", size(bytes)))
}

/// A number of bytes in words.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{bytes} bytes") } else { format!("{} MiB", bytes >> 20) }
}

/// The first bytes, up to the end of the first line that says something: a stream may not have more yet.
fn start(input: &mut impl Read) -> Result<Vec<u8>, TableError> {
    let (mut head, mut chunk) = (Vec::new(), [0; 1 << 13]);
    // Where the line begins that is not yet whole: a stream may come byte by byte, and each is looked at once.
    let (mut line, mut seen) = (0, 0);
    while head.len() < 1 << 16 {
        while let Some(end) = head.iter().skip(seen).position(is_end) {
            if says_something(head.get(line..seen + end).unwrap_or_default()) {
                return Ok(head);
            }
            seen += end + 1;
            line = seen;
        }
        seen = head.len();
        match input.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => head.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(head)
}

/// The first whole line that is neither empty nor a comment.
pub(crate) fn first_line(text: &[u8]) -> Option<&[u8]> {
    let mut lines = text.split(is_end).peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() && says_something(line) {
            return Some(line);
        }
    }
    None
}

fn is_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn says_something(line: &[u8]) -> bool {
    !line.starts_with(b"#") && !line.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    const BOUNDS: TextBounds = TextBounds { text: 1000, line: 100 };

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::default());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    /// All of a text, or why it is not read.
    fn read(bytes: Vec<u8>, bounds: TextBounds) -> Result<Vec<u8>, String> {
        let source = Source::Bounded(Box::new(Cursor::new(bytes)), bounds);
        let (_, mut text) = source.into_text().map_err(|e| e.to_string())?;
        let mut all = Vec::new();
        text.read_to_end(&mut all).map_err(|e| e.to_string())?;
        Ok(all)
    }

    #[test]
    fn text_within_its_bounds_is_read_whole_packed_or_not() {
        let text = "1,2,3\r\n".repeat(142);
        for bytes in [text.clone().into_bytes(), packed(text.as_bytes())] {
            assert_eq!(read(bytes, BOUNDS).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn text_beyond_its_bounds_is_an_error_packed_or_not() {
        let (long, wide) = ("1,2,3\n".repeat(167), format!("x\n{}\n", "1".repeat(101)));
        for (text, why) in [
            (long, "its text is longer than 1000 bytes"),
            (wide, "a line is longer than 100 bytes"),
        ] {
            for bytes in [text.clone().into_bytes(), packed(text.as_bytes())] {
                assert_eq!(read(bytes, BOUNDS).unwrap_err(), why);
            }
        }
    }

    /// However its bytes come: comments and empty lines are passed over, and a torn line is no line.
    #[test]
    fn a_start_ends_with_the_first_line_that_says_something() {
        struct Bytewise<'a>(&'a [u8]);
        impl Read for Bytewise<'_> {
            fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
                let one = bytes.len().min(1);
                self.0.read(bytes.split_at_mut(one).0)
            }
        }
        for (text, head) in [
            ("#c\n\n \r\n#d\na,b\n1,2\n", "#c\n\n \r\n#d\na,b\n"),
            ("a,b", "a,b"),
            ("\r\r\n", "\r\r\n"),
            ("", ""),
        ] {
            assert_eq!(start(&mut Bytewise(text.as_bytes())).unwrap(), head.as_bytes());
            assert_eq!(first_line(head.as_bytes()).is_some(), head.contains("a,b\n"));
        }
        let comments = "#\n".repeat(1 << 16);
        assert_eq!(start(&mut Bytewise(comments.as_bytes())).unwrap().len(), 1 << 16);
    }

    /// A line of a gigabyte is not unpacked to the end: the reader of what is packed stops at the bound.
    #[test]
    fn no_more_than_the_bound_is_unpacked() {
        let bounds = TextBounds { text: 4 << 20, line: 1 << 20 };
        let why = read(packed(&vec![b'1'; 64 << 20]), bounds).unwrap_err();
        assert_eq!(why, "a line is longer than 1 MiB");
    }
}
