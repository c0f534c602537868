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
}

/// Bytes of text.
pub(crate) type Text = Box<dyn BufRead + Send>;

impl Source {
    pub(crate) fn into_stream(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Stream(input) => input,
        }
    }

    /// The text, unpacked if it is compressed with gzip, and how it starts. What is no text is named.
    pub(crate) fn into_text(self) -> Result<(Vec<u8>, Text), TableError> {
        let mut input = self.into_stream();
        let mut head = start(&mut input)?;
        if head.starts_with(b"\x1f\x8b") {
            input = Box::new(MultiGzDecoder::new(Cursor::new(head).chain(input)));
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

/// The first bytes, up to the end of the first line that says something: a stream may not have more yet.
fn start(input: &mut impl Read) -> Result<Vec<u8>, TableError> {
    let (mut head, mut chunk) = (Vec::new(), [0; 1 << 13]);
    while head.len() < 1 << 16 && first_line(&head).is_none() {
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
    let mut lines = text.split(|b| matches!(b, b'\n' | b'\r')).peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_some() && !line.starts_with(b"#") && !line.trim_ascii().is_empty() {
            return Some(line);
        }
    }
    None
}
