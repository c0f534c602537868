//! The rows of one of NumPy's arrays, some at a time: what is held does not grow with the array.
//!
//! An array that is stored is read where it lies in its file, one that is deflated by an inflater of its own. Before a row is read it is
//! known that the array has as many bytes as its rows take, and the checksum of an archive; of a file that changes afterwards, what is found to be
//! damaged on the way is an error at its row.

use crate::elements::{Content, Elements};
use crate::error::TableError;
use crate::npz::Header;
use std::io::{self, Read};

/// Bytes that are unpacked at a time, or those of a row if it has more.
const BLOCK: usize = 1 << 16;

/// An array being read.
pub(crate) struct ArrayRows {
    name: String,
    input: Box<dyn Read + Send>,
    elements: Elements,
    /// Elements and bytes of a row.
    width: usize,
    row_bytes: usize,
    /// Rows that have not been unpacked, and the bytes of all.
    left: usize,
    full: usize,
    /// The rows that were unpacked last: the number of the first, and of the one after the last.
    content: Content,
    first: usize,
    end: usize,
    packed: Vec<u8>,
    /// What was wrong, for whoever asks again.
    damage: Option<String>,
}

impl ArrayRows {
    /// `input` gives an array with this header, which it begins with, of `full` bytes; rows are along its first axis.
    pub(crate) fn new(
        name: &str,
        header: &Header,
        full: usize,
        mut input: Box<dyn Read + Send>,
    ) -> Result<Self, TableError> {
        let wrong = |reason: String| TableError::Array { message: reason };
        let elements = header.elements(full).map_err(|e| wrong(format!("array {name:?}: {e}")))?;
        let rows = header.shape.first().copied().unwrap_or(0);
        let width = header.count.checked_div(rows).unwrap_or(0);
        let skipped = io::copy(&mut (&mut input).take(header.start as u64), &mut io::sink());
        skipped.map_err(|e| wrong(format!("array {name:?} is damaged: {e}")))?;
        Ok(Self {
            name: name.to_owned(),
            input,
            elements,
            width,
            row_bytes: width.saturating_mul(elements.size()),
            left: rows,
            full,
            content: Content::Numbers(Vec::new()),
            first: 0,
            end: 0,
            packed: Vec::new(),
            damage: None,
        })
    }

    /// What its elements are.
    pub(crate) fn elements(&self) -> Elements {
        self.elements
    }

    /// The rows at hand end before this one.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// The elements at hand, and the place of a row's element among them.
    pub(crate) fn at(&self, row: usize, place: usize) -> (&Content, usize) {
        (&self.content, row.saturating_sub(self.first) * self.width + place)
    }

    /// Goes on to the next rows.
    pub(crate) fn next(&mut self) -> Result<(), TableError> {
        if self.damage.is_none() {
            self.damage = self.unpack().err();
        }
        match &self.damage {
            None => Ok(()),
            Some(reason) => {
                let message = format!("array {:?} {reason}", self.name);
                Err(TableError::Array { message })
            }
        }
    }

    fn unpack(&mut self) -> Result<(), String> {
        let damaged = |e: io::Error| format!("is damaged: {e}");
        // As they are, or as numbers, whichever takes more.
        let row = self.row_bytes.max(self.width.saturating_mul(size_of::<f64>())).max(1);
        let rows = (BLOCK / row).clamp(1, self.left.max(1));
        let wanted = rows.saturating_mul(self.row_bytes);
        self.packed.clear();
        // Nothing is made room for that has not come: an archive may say anything.
        let read = (&mut self.input).take(wanted as u64).read_to_end(&mut self.packed);
        read.map_err(damaged)?;
        if self.packed.len() < wanted {
            let rest = self.left.saturating_mul(self.row_bytes);
            let found = self.full.saturating_sub(rest) + self.packed.len();
            return Err(format!("has {found} bytes instead of {}", self.full));
        }
        if rows == self.left && self.input.read(&mut [0]).map_err(damaged)? > 0 {
            return Err(format!("has more bytes than {}", self.full));
        }
        self.content = self.elements.decode(&self.packed);
        (self.first, self.end) = (self.end, self.end + rows);
        self.left -= rows;
        Ok(())
    }
}
