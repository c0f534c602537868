//! NumPy's `.npz`, a zip archive of arrays, read stored or deflated and written stored; and its `.npy`, one array.
//!
//! Only what data files need: little-endian numbers, booleans and texts in C order. Everything is checked against the size of
//! the file, so that a damaged file is an error and not a crash.

use crate::elements::{Content, Elements};
use crate::names::{cut, short};
use crate::store::Store;
use crate::zip::{Directory, number};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Why an npz file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpzError {
    /// The file system.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// Not an npz file, or a damaged one.
    #[error("{path}: not a readable npz file: {}", cut(reason, 400))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An array that is not there.
    #[error("{path} has no array {:?}; it has: {}", short(name), cut(found, 400))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The array.
        name: String,
        /// What is there.
        found: String,
    },
}

/// An array of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Lengths of its axes.
    pub shape: Vec<usize>,
    /// The numbers, last axis fastest.
    pub values: Values,
}

/// The numbers of an array: bytes are kept as such, all else becomes doubles.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Unsigned bytes.
    Bytes(Vec<u8>),
    /// Any other numbers.
    Doubles(Vec<f64>),
}

impl Array {
    /// The numbers as doubles.
    pub fn doubles(&self) -> Vec<f64> {
        match &self.values {
            Values::Bytes(b) => b.iter().map(|v| f64::from(*v)).collect(),
            Values::Doubles(d) => d.clone(),
        }
    }
}

/// Reads a `.npy` file: one array of numbers.
pub fn read_npy(path: &Path) -> Result<Array, NpzError> {
    let bytes = std::fs::read(path).map_err(|source| NpzError::Io { path: path.into(), source })?;
    let damaged = |reason| NpzError::Damaged { path: path.into(), reason };
    Header::of(&bytes).and_then(|header| numbers(&header, &bytes)).map_err(damaged)
}

/// Bytes in which the description of an array ends; NumPy's own take 128.
pub(crate) const HEADER: usize = 1 << 16;
/// Axes of an array; NumPy's have no more, and naming a column takes time for each.
const MAX_AXES: usize = 64;

/// An npz file in memory.
#[derive(Clone, Debug)]
pub struct Npz {
    path: PathBuf,
    store: Store,
    directory: Directory,
}

impl Npz {
    /// Reads a file and its directory.
    pub fn open(path: &Path) -> Result<Self, NpzError> {
        let bytes = std::fs::read(path);
        Self::of(path, bytes.map_err(|source| NpzError::Io { path: path.into(), source })?)
    }

    /// The same of bytes; errors speak of `path`.
    pub fn of(path: &Path, bytes: Vec<u8>) -> Result<Self, NpzError> {
        let store = Store::from(bytes);
        let directory = Directory::of(&store)
            .map_err(|source| NpzError::Io { path: path.into(), source })?
            .map_err(|reason| NpzError::Damaged { path: path.into(), reason })?;
        Ok(Self { path: path.into(), store, directory })
    }

    /// Names of the arrays.
    pub fn names(&self) -> Vec<&str> {
        self.directory.names().collect()
    }

    /// The numbers of that name.
    pub fn array(&self, name: &str) -> Result<Array, NpzError> {
        self.unpacked(name, numbers)
    }

    /// The texts of that name, if the array holds texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, NpzError> {
        self.unpacked(name, texts)
    }

    fn unpacked<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&Header, &[u8]) -> Result<T, String>,
    ) -> Result<T, NpzError> {
        let damaged = |reason: String| NpzError::Damaged { path: self.path.clone(), reason };
        let Some(content) = self.directory.unpack(&self.store, name) else {
            let found = self.names().join(", ");
            return Err(NpzError::Missing { path: self.path.clone(), name: name.into(), found });
        };
        let content = content.map_err(damaged)?;
        Header::of(&content)
            .and_then(|h| parse(&h, &content))
            .map_err(|reason| damaged(format!("array {name:?}: {reason}")))
    }
}

/// What a `.npy` array says about itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    /// The type of its elements, as NumPy spells it after the order of bytes (`f8`, `U12`).
    kind: String,
    /// The lengths of its axes.
    pub(crate) shape: Vec<usize>,
    /// How many elements that is.
    pub(crate) count: usize,
    /// Where they begin.
    pub(crate) start: usize,
}

impl Header {
    /// By the first bytes of an array.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(b"\x93NUMPY") {
            return Err("not a NumPy array".into());
        }
        let (start, len) = match bytes.get(6) {
            Some(1) => (10, number::<2>(bytes, 8)),
            _ => (12, number::<4>(bytes, 8)),
        };
        let end = start + len.ok_or("no header")? as usize;
        let header =
            bytes.get(start..end).and_then(|h| std::str::from_utf8(h).ok()).ok_or("no header")?;
        let field = |key: &str| Some(header.split_once(key)?.1.split_once(':')?.1.trim_start());
        let kind = field("'descr'")
            .and_then(|t| t.strip_prefix('\'')?.split('\'').next())
            .map(|t| t.trim_start_matches(['<', '|', '=']))
            .ok_or("it has columns of several types; save each as an array of its own")?;
        if field("'fortran_order'").is_some_and(|t| t.starts_with("True")) {
            return Err("it is in Fortran order; save numpy.ascontiguousarray of it".into());
        }
        let shape = field("'shape'")
            .and_then(|t| t.strip_prefix('(')?.split(')').next())
            .ok_or("no shape")?;
        let axes = shape.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::parse);
        let shape: Vec<usize> = axes
            .take(MAX_AXES + 1)
            .collect::<Result<_, _>>()
            .map_err(|e| format!("its shape: {e}"))?;
        if shape.len() > MAX_AXES {
            return Err(format!("it has more than {MAX_AXES} axes"));
        }
        let count = shape.iter().try_fold(1usize, |a, b| a.checked_mul(*b));
        let count = count.ok_or("its shape is too large")?;
        Ok(Self { kind: kind.to_owned(), shape, count, start: end })
    }

    /// What its elements are, if an array of so many bytes, this header included, has all of them and nothing else.
    pub(crate) fn elements(&self, bytes: usize) -> Result<Elements, String> {
        let elements = Elements::of(&self.kind)?;
        elements.check(self.count, bytes.saturating_sub(self.start))?;
        Ok(elements)
    }

    /// The bytes that the elements take at least. Those of unknown types, and texts without a length, are taken to have one.
    pub(crate) fn least(&self) -> usize {
        let kind = self.kind.as_str();
        let digits = kind.trim_start_matches(|c: char| !c.is_ascii_digit());
        let digits = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let size = digits.parse::<usize>().unwrap_or(1).max(1);
        let size = match kind.chars().next() {
            Some('U') => size.saturating_mul(4),
            Some('O') => 1, // pickled, each as long as it likes
            _ => size,
        };
        self.count.saturating_mul(size)
    }
}

fn numbers(array: &Header, bytes: &[u8]) -> Result<Array, String> {
    let elements = Elements::of(&array.kind)?;
    if elements.are_texts() {
        return Err("it holds texts, not numbers".into());
    }
    if elements.are_instants() {
        return Err(format!("number type {:?} is not supported; save it as float64", array.kind));
    }
    array.elements(bytes.len())?;
    let data = bytes.get(array.start..).unwrap_or_default();
    let values = match elements.are_bytes() {
        true => Values::Bytes(data.to_vec()),
        false => Values::Doubles(elements.numbers(data)),
    };
    Ok(Array { shape: array.shape.clone(), values })
}

fn texts(array: &Header, bytes: &[u8]) -> Result<Option<Vec<String>>, String> {
    // Numbers of a type that nobody knows are no texts.
    if !array.kind.starts_with(['U', 'S', 'O']) {
        return Ok(None);
    }
    let data = bytes.get(array.start..).unwrap_or_default();
    Ok(match array.elements(bytes.len())?.decode(data) {
        Content::Texts(texts) => Some(texts),
        Content::Numbers(_) | Content::Seconds(_) => None,
    })
}

/// Writes one array as an `.npy` file.
pub(crate) fn write_npy(
    out: &mut dyn Write,
    shape: &[usize],
    content: &Content,
) -> std::io::Result<()> {
    out.write_all(&encoded(shape, content))
}

/// Writes arrays as an `.npz` file, stored as they are.
pub(crate) fn write_npz(
    out: &mut dyn Write,
    arrays: &[(String, Vec<usize>, Content)],
) -> std::io::Result<()> {
    let too_large =
        || std::io::Error::other("an archive of more than 4 GB cannot be written; write Parquet");
    let small = |size: usize| u32::try_from(size).map_err(|_| too_large());
    let mut directory = Vec::new();
    let mut at = 0usize;
    for (name, shape, content) in arrays {
        let name = format!("{name}.npy");
        let data = encoded(shape, content);
        let mut crc = flate2::Crc::new();
        crc.update(&data);
        let (size, length) = (small(data.len())?, small(name.len())? as u16);
        // What a local header and the directory have in common: version 2.0, UTF-8 names, stored, 1 January 1980.
        let mut common = Vec::new();
        for field in [20u16, 1 << 11, 0, 0, 0x21] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc.sum(), size, size] {
            common.extend(field.to_le_bytes());
        }
        common.extend(length.to_le_bytes());
        common.extend([0; 2]);
        out.write_all(b"PK\x03\x04")?;
        out.write_all(&common)?;
        out.write_all(name.as_bytes())?;
        out.write_all(&data)?;
        directory.extend(b"PK\x01\x02");
        directory.extend(20u16.to_le_bytes());
        directory.extend(&common);
        directory.extend([0; 10]); // no comment, one disk, no attributes
        directory.extend(small(at)?.to_le_bytes());
        directory.extend(name.as_bytes());
        at += 4 + common.len() + name.len() + data.len();
    }
    out.write_all(&directory)?;
    let count = u16::try_from(arrays.len()).map_err(|_| {
        std::io::Error::other("an archive of more than 65,535 arrays cannot be written")
    })?;
    out.write_all(b"PK\x05\x06")?;
    out.write_all(&[0; 4])?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&count.to_le_bytes())?;
    out.write_all(&small(directory.len())?.to_le_bytes())?;
    out.write_all(&small(at)?.to_le_bytes())?;
    out.write_all(&[0; 2])
}

/// An array as NumPy writes it.
fn encoded(shape: &[usize], content: &Content) -> Vec<u8> {
    let (kind, data): (String, Vec<u8>) = match content {
        Content::Numbers(numbers) => {
            ("<f8".into(), numbers.iter().flat_map(|v| v.to_le_bytes()).collect())
        }
        Content::Seconds(seconds) => {
            let ticks = |s: &f64| if s.is_finite() { (s * 1e6).round() as i64 } else { i64::MIN };
            ("<M8[us]".into(), seconds.iter().flat_map(|s| ticks(s).to_le_bytes()).collect())
        }
        Content::Texts(texts) => {
            let length = texts.iter().map(|t| t.chars().count()).max().unwrap_or(0).max(1);
            let padded = |text: &String| {
                let filled = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(length);
                filled.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
            };
            (format!("<U{length}"), texts.iter().flat_map(padded).collect())
        }
    };
    let axes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let dictionary = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        axes.join(", ")
    );
    // Ten bytes come before it; the numbers begin at a multiple of 64.
    let length = (10 + dictionary.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{dictionary:<width$}\n", width = length - 1).bytes());
    bytes.extend(data);
    bytes
}
