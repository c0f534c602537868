//! What a Parquet file says of its sizes, held against the bytes that are there before the parquet crate believes it.
//!
//! The crate reserves what a dictionary claims to hold and a page claims to unpack to, and skips lists of any claimed
//! length, whose elements may take no byte: 700 bytes could ask for gigabytes, or for hours. So the index and the heads
//! of pages, structures of Thrift's compact protocol, are walked here first.

use parquet::basic::{Compression, Encoding};
use parquet::column::page::Page;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::ChunkReader;

/// Rows per byte of a file: runs of one value take next to nothing, but pages and their heads do.
const ROWS: u64 = 1 << 16;
/// Bytes unpacked from one by the densest codec that the crate undoes, gzip (1032), and for a page of a few bytes.
const UNPACKED: u64 = 1100;
/// Numbers per byte that differences may stand for: blocks of 128 take five bytes or more.
const DIFFERENCES: u64 = 1 << 10;
/// Structures in structures; the crate follows them by calling itself.
const DEEPEST: usize = 60;

fn false_claim(what: &str) -> ParquetError {
    ParquetError::EOF(format!("it is damaged: {what}"))
}

/// The index at the end of a file.
pub(super) fn footer(reader: &impl ChunkReader) -> Result<()> {
    let end = reader.len().saturating_sub(8);
    let tail = reader.get_bytes(end, reader.len().min(8) as usize)?;
    let Some(length) = tail.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b))) else {
        return Ok(()); // too short, as the crate will say
    };
    let Some(start) = end.checked_sub(length) else { return Ok(()) };
    let bytes = reader.get_bytes(start, length as usize)?;
    // How many parts each column of the schema has: field 2, names in 4, parts in 5.
    let mut parts: Vec<i64> = Vec::new();
    let mut ordered = true;
    let walked =
        Walk { rest: &bytes, path: Vec::new() }.structure(INDEX, &mut |path, value| match path {
            [2, 4] => parts.push(0),
            [2, 5] => match parts.last_mut() {
                Some(last) if *last == 0 => *last = value,
                _ => ordered = false,
            },
            _ => {}
        });
    if walked.is_none() || !ordered || depth(&parts) > DEEPEST {
        return Err(false_claim("its index contradicts itself"));
    }
    Ok(())
}

/// How deep a schema is, from the numbers of parts of its columns, each before its parts.
fn depth(parts: &[i64]) -> usize {
    let (mut open, mut deepest) = (Vec::new(), 0);
    for count in parts {
        if *count > 0 {
            open.push(*count);
        } else {
            while let Some(last) = open.last_mut() {
                *last -= 1;
                if *last > 0 {
                    break;
                }
                open.pop();
            }
        }
        deepest = deepest.max(open.len());
    }
    deepest
}

/// Places and counts of the index.
pub(super) fn index(metadata: &ParquetMetaData, size: u64) -> Result<()> {
    let inside = |column: &ColumnChunkMetaData| {
        let (start, length) = place(column)?;
        let counts = column.uncompressed_size() >= 0 && column.num_values() >= 0;
        Some(counts && start.checked_add(length)? <= size)
    };
    let mut rows = 0u64;
    for group in metadata.row_groups() {
        if !group.columns().iter().all(|c| inside(c) == Some(true)) {
            return Err(false_claim("its index points to places outside of it"));
        }
        let more = u64::try_from(group.num_rows()).ok();
        rows = more
            .and_then(|more| rows.checked_add(more))
            .filter(|rows| *rows <= size.saturating_mul(ROWS))
            .ok_or_else(|| false_claim("it claims more rows than it has room for"))?;
    }
    Ok(())
}

/// Where the pages of a column begin, and how many bytes they take.
fn place(column: &ColumnChunkMetaData) -> Option<(u64, u64)> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    Some((start.try_into().ok()?, column.compressed_size().try_into().ok()?))
}

/// The heads of a column's pages.
pub(super) fn pages(reader: &impl ChunkReader, column: &ColumnChunkMetaData) -> Result<()> {
    let broken = || false_claim("a page claims more than it can hold");
    let (mut at, mut left) = place(column).ok_or_else(broken)?;
    let packed = !matches!(column.compression(), Compression::UNCOMPRESSED | Compression::ZSTD(_));
    while left > 0 {
        // Heads are short, unless they state long texts.
        let head =
            |length: u64| Ok::<_, ParquetError>(head(&reader.get_bytes(at, length as usize)?));
        let short = head(left.min(1 << 10))?;
        let whole = if short.is_none() { head(left)? } else { None };
        let (length, unpacked, size) = short.or(whole).ok_or_else(broken)?;
        let taken = length.checked_add(size).filter(|t| *t <= left).ok_or_else(broken)?;
        if packed && unpacked > UNPACKED * (size + 1) {
            return Err(broken());
        }
        (at, left) = (at + taken, left - taken);
    }
    Ok(())
}

/// Length of a page's head, and what it says of the page: its size unpacked (field 2) and packed (field 3).
fn head(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let mut walk = Walk { rest: bytes, path: Vec::new() };
    let (mut unpacked, mut packed) = (-1, -1);
    walk.structure(PAGE_HEAD, &mut |path, value| match path {
        [2] => unpacked = value,
        [3] => packed = value,
        _ => {}
    })?;
    let length = (bytes.len() - walk.rest.len()) as u64;
    Some((length, unpacked.try_into().ok()?, packed.try_into().ok()?))
}

/// A page, unpacked: what its decoders would reserve.
pub(super) fn page(page: &Page, optional: bool) -> Result<()> {
    let bytes: &[u8] = page.buffer();
    let values = || match page {
        Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
            bytes.get(*def_levels_byte_len as usize + *rep_levels_byte_len as usize..)
        }
        // The levels come after their length.
        Page::DataPage { .. } if optional => bytes
            .split_first_chunk()
            .and_then(|(length, rest)| rest.get(u32::from_le_bytes(*length) as usize..)),
        _ => Some(bytes),
    };
    let holds = match (page, page.encoding()) {
        // Every value takes a byte at least.
        (Page::DictionaryPage { num_values, .. }, _) => *num_values as usize <= bytes.len(),
        (_, Encoding::DELTA_LENGTH_BYTE_ARRAY) => values().and_then(differences).is_some(),
        (_, Encoding::DELTA_BYTE_ARRAY) => {
            values().and_then(differences).and_then(differences).is_some()
        }
        _ => true,
    };
    if holds { Ok(()) } else { Err(false_claim("a page claims more values than it has room for")) }
}

/// What follows a list of differences, if it is not longer than there is room for.
fn differences(bytes: &[u8]) -> Option<&[u8]> {
    let mut walk = Walk { rest: bytes, path: Vec::new() };
    let (block, parts, count) = (walk.varint()?, walk.varint()?, walk.varint()?);
    walk.varint()?; // the first number
    let per_part = block.checked_div(parts).filter(|n| *n > 0)?;
    if count > DIFFERENCES * bytes.len() as u64 {
        return None;
    }
    let mut left = count.saturating_sub(1);
    while left > 0 {
        walk.varint()?; // the least difference
        let (widths, rest) = walk.rest.split_at_checked(usize::try_from(parts).ok()?)?;
        walk.rest = rest;
        for width in widths {
            if left == 0 {
                break; // the widths of what is not there mean nothing
            }
            walk.skip(u64::from(*width).checked_mul(per_part)? / 8)?;
            left = left.saturating_sub(per_part);
        }
    }
    Some(walk.rest)
}

/// Thrift's compact protocol, walked through without keeping anything. Every step takes a byte at least, so that no
/// claim of a length lasts longer than the bytes do.
struct Walk<'a> {
    rest: &'a [u8],
    /// The fields on the way here.
    path: Vec<i16>,
}

/// Hears of each whole number, and of each text's length, at its path.
type See<'s> = &'s mut dyn FnMut(&[i16], i64);

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number whose sign is its last bit.
    fn signed(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn structure(&mut self, fields: &[Kind], see: See<'_>) -> Option<()> {
        let mut field = 0i16;
        loop {
            let head = self.byte()?;
            let code = head & 0x0f;
            if code == 0 {
                return Some(());
            }
            field = match head >> 4 {
                0 => self.signed()? as i16,
                more => field.wrapping_add(i16::from(more)),
            };
            let at = usize::try_from(field).ok().and_then(|f| f.checked_sub(1));
            let kind = at.and_then(|f| fields.get(f)).copied().unwrap_or(Any);
            match (code, kind) {
                (1 | 2, Truth | Any) => {} // it is in the head
                (1 | 2, _) => return None,
                _ => {
                    self.path.push(field);
                    self.value(code, kind, see)?;
                    self.path.pop();
                }
            }
        }
    }

    fn value(&mut self, code: u8, kind: Kind, see: See<'_>) -> Option<()> {
        match (code, kind) {
            (3, Byte | Any) => self.skip(1),
            (4..=6, Int | Any) => {
                let value = self.signed()?;
                see(&self.path, value);
                Some(())
            }
            (7, Double | Any) => self.skip(8),
            (8, Text | Any) => {
                let length = self.varint()?;
                see(&self.path, length as i64);
                self.skip(length)
            }
            (9, List(_)) | (9 | 10, Any) => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                let kind = if let List(kind) = kind { *kind } else { Any };
                self.elements(count, &[head & 0x0f], kind, see)
            }
            (11, Any) => match self.varint()? {
                0 => Some(()),
                count => {
                    let codes = self.byte()?;
                    self.elements(count, &[codes >> 4, codes & 0x0f], Any, see)
                }
            },
            (12, Parts(fields)) if self.path.len() < DEEPEST => self.structure(fields, see),
            (12, Any) if self.path.len() < DEEPEST => self.structure(&[], see),
            (13, Any) => self.skip(16),
            _ => None, // truths in a list, too, which no Parquet file has: the crate takes no byte for them
        }
    }

    fn elements(&mut self, count: u64, codes: &[u8], kind: Kind, see: See<'_>) -> Option<()> {
        // Lists in lists are no part of a path, but of its depth.
        if self.path.len() >= DEEPEST {
            return None;
        }
        for _ in 0..count {
            for code in codes {
                let nested = matches!(code, 9..=11);
                if nested {
                    self.path.push(0);
                }
                self.value(*code, kind, see)?;
                if nested {
                    self.path.pop();
                }
            }
        }
        Some(())
    }
}

/// What a field holds. The crate believes that fields it knows hold what they should, and loses its way where they do not.
#[derive(Clone, Copy)]
enum Kind {
    Truth,
    Byte,
    Int,
    Double,
    Text,
    List(&'static Kind),
    /// A structure, by its fields from 1 on.
    Parts(&'static [Kind]),
    /// What the crate does not know, and skips.
    Any,
}
use Kind::{Any, Byte, Double, Int, List, Parts, Text, Truth};

// The structures of parquet.thrift, version 2.12.
const NONE: Kind = Parts(&[]);
const STATISTICS: Kind = Parts(&[Text, Text, Int, Int, Text, Text, Truth, Truth]);
const TIME: Kind = Parts(&[Truth, Parts(&[NONE, NONE, NONE])]);
const LOGICAL_TYPE: Kind = Parts(&[
    NONE,
    NONE,
    NONE,
    NONE,
    Parts(&[Int, Int]),
    NONE,
    TIME,
    TIME,
    Any,
    Parts(&[Byte, Truth]),
    NONE,
    NONE,
    NONE,
    NONE,
    NONE,
    Parts(&[Byte]),
    Parts(&[Text]),
    Parts(&[Text, Int]),
]);
const SCHEMA_ELEMENT: Kind = Parts(&[Int, Int, Int, Text, Int, Int, Int, Int, Int, LOGICAL_TYPE]);
const COLUMN_METADATA: Kind = Parts(&[
    Int,
    List(&Int),
    List(&Text),
    Int,
    Int,
    Int,
    Int,
    List(&KEY_VALUE),
    Int,
    Int,
    Int,
    STATISTICS,
    List(&Parts(&[Int, Int, Int])),
    Int,
    Int,
    Parts(&[Int, List(&Int), List(&Int)]),
    Parts(&[Parts(&[Double, Double, Double, Double, Double, Double, Double, Double]), List(&Int)]),
]);
const KEY_VALUE: Kind = Parts(&[Text, Text]);
const COLUMN: Kind = Parts(&[
    Text,
    Int,
    COLUMN_METADATA,
    Int,
    Int,
    Int,
    Int,
    Parts(&[NONE, Parts(&[List(&Text), Text])]),
    Text,
]);
const SORTING: Kind = Parts(&[Int, Truth, Truth]);
const ROW_GROUP: Kind = Parts(&[List(&COLUMN), Int, Int, List(&SORTING), Int, Int, Int]);
const CIPHER: Kind = Parts(&[Text, Text, Truth]);
const INDEX: &[Kind] = &[
    Int,
    List(&SCHEMA_ELEMENT),
    Int,
    List(&ROW_GROUP),
    List(&KEY_VALUE),
    Text,
    List(&Parts(&[NONE, NONE])),
    Parts(&[CIPHER, CIPHER]),
    Text,
];
const PAGE_HEAD: &[Kind] = &[
    Int,
    Int,
    Int,
    Int,
    Parts(&[Int, Int, Int, Int, STATISTICS]),
    NONE,
    Parts(&[Int, Int, Truth]),
    Parts(&[Int, Int, Int, Int, Int, Int, Truth, STATISTICS]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(bytes: &[u8]) -> bool {
        Walk { rest: bytes, path: Vec::new() }
            .structure(&[List(&Int), Int], &mut |_, _| {})
            .is_some()
    }

    #[test]
    fn no_claim_lasts_longer_than_the_bytes() {
        // A list of three numbers, and one of 2^31 - 1.
        assert!(walk(&[0x19, 0x35, 2, 4, 6, 0]));
        assert!(!walk(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x07, 2, 4, 6, 0]));
        // Truths in a list take no byte in the crate: lists of lists of them would last for ever.
        assert!(!walk(&[
            0x19, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x07, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0
        ]));
        // A field that is not what it should be.
        assert!(!walk(&[0x15, 2, 0]) && !walk(&[0x29, 0x15, 2, 0]) && walk(&[0x25, 2, 0]));
        // Structures in structures.
        assert!(walk(&[&[0x3c][..], &[0x1c; 9], &[0; 10], &[0]].concat()));
        assert!(!walk(&[&[0x3c][..], &[0x1c; 9000], &[0; 9001], &[0]].concat()));
        assert_eq!(depth(&[2, 0, 3, 0, 0, 1, 0]), 3);
    }

    #[test]
    fn a_page_holds_no_more_than_it_can() {
        // A dictionary of 2^30 bytes, packed in ten: fields 1 to 3.
        let head_of_page = [0x15, 4, 0x15, 0x80, 0x80, 0x80, 0x80, 0x08, 0x15, 20, 0, 9, 9];
        assert_eq!(head(&head_of_page), Some((11, 1 << 30, 10)));
        assert_eq!(head(&[0x15, 4, 0x15, 1, 0x15, 20, 0]), None); // less than nothing
        let dictionary = |num_values| {
            let buf = vec![0u8; 40].into();
            Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false }
        };
        assert!(page(&dictionary(10), true).is_ok());
        assert!(page(&dictionary(1 << 30), true).is_err());
        // Blocks of 128 numbers in four parts: 129 equal ones, and 2^30.
        let list = [0x80, 1, 4, 0x81, 1, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!(differences(&list), Some(&[7][..]));
        let list = [0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 4, 0, 0, 0, 0, 0, 0];
        assert_eq!(differences(&list), None);
    }
}
