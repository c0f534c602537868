//! NumPy's `.npz`, a zip archive of arrays, read stored or deflated and written stored; and its `.npy`, one array.
//!
//! Only what data files need: little-endian numbers, booleans and texts in C order. Everything is checked against the size of
//! the file, so that a damaged file is an error and not a crash.

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
    #[error("{path}: not a readable npz file: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An array that is not there.
    #[error("{path} has no array {name:?}; it has: {found}")]
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
    Header::of(&bytes).and_then(|header| numbers(&header)).map_err(damaged)
}

/// The elements of any array that a table can hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Numbers(Vec<f64>),
    Texts(Vec<String>),
    /// Instants in seconds since 1970; NaN where there is none.
    Seconds(Vec<f64>),
}

/// Something of the one array of an `.npy` file.
pub(crate) fn npy<T>(
    bytes: &[u8],
    parse: impl FnOnce(&Header<'_>) -> Result<T, String>,
) -> Result<T, NpzError> {
    let damaged = |reason| NpzError::Damaged { path: PathBuf::new(), reason };
    Header::of(bytes).and_then(|header| parse(&header)).map_err(damaged)
}

/// The elements of an array, whatever they are.
pub(crate) fn content(array: &Header<'_>) -> Result<Content, String> {
    Ok(if let Some(texts) = texts(array)? {
        Content::Texts(texts)
    } else if let Some(seconds) = instants(array)? {
        Content::Seconds(seconds)
    } else {
        Content::Numbers(numbers(array)?.doubles())
    })
}

/// Bytes in which the description of an array ends; NumPy's own take 128.
const HEADER: usize = 1 << 16;
/// Axes of an array; NumPy's have no more, and naming a column takes time for each.
const MOST_AXES: usize = 64;

/// An npz file in memory.
#[derive(Clone, Debug)]
pub struct Npz {
    path: PathBuf,
    bytes: Vec<u8>,
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
        let directory = Directory::of(&bytes)
            .map_err(|reason| NpzError::Damaged { path: path.into(), reason })?;
        Ok(Self { path: path.into(), bytes, directory })
    }

    /// Names of the arrays.
    pub fn names(&self) -> Vec<&str> {
        self.directory.names().collect()
    }

    /// The numbers of that name.
    pub fn array(&self, name: &str) -> Result<Array, NpzError> {
        self.unpacked(name, None, numbers)
    }

    /// The texts of that name, if the array holds texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, NpzError> {
        self.unpacked(name, None, texts)
    }

    /// The elements of that name, whatever they are.
    pub(crate) fn content(&self, name: &str) -> Result<Content, NpzError> {
        self.unpacked(name, None, content)
    }

    /// The claims of the array of that name; only its beginning is unpacked.
    pub(crate) fn claims(&self, name: &str) -> Result<Claims, NpzError> {
        self.unpacked(name, Some(HEADER), |header| Ok(header.claims()))
    }

    /// How many bytes the array of that name says it has when it is unpacked; one that has more is damaged.
    pub(crate) fn unpacked_size(&self, name: &str) -> usize {
        self.directory.full(name)
    }

    /// Whether it has just as many. It is unpacked for this.
    pub(crate) fn is_whole(&self, name: &str) -> bool {
        self.directory.is_whole(&self.bytes, name)
    }

    /// The array, or as many of its first bytes as are asked for.
    fn unpacked<T>(
        &self,
        name: &str,
        most: Option<usize>,
        parse: impl FnOnce(&Header<'_>) -> Result<T, String>,
    ) -> Result<T, NpzError> {
        let damaged = |reason: String| NpzError::Damaged { path: self.path.clone(), reason };
        let Some(content) = self.directory.unpack(&self.bytes, name, most) else {
            let found = self.names().join(", ");
            return Err(NpzError::Missing { path: self.path.clone(), name: name.into(), found });
        };
        let content = content.map_err(damaged)?;
        Header::of(&content)
            .and_then(|h| parse(&h))
            .map_err(|reason| damaged(format!("array {name:?}: {reason}")))
    }
}

/// What an array says of its size before its elements are looked at.
pub(crate) struct Claims {
    /// The lengths of its axes.
    pub(crate) shape: Vec<usize>,
    /// The bytes that its elements take at least.
    pub(crate) bytes: usize,
}

/// What a `.npy` array says about itself, and its bytes.
pub(crate) struct Header<'a> {
    kind: &'a str,
    shape: Vec<usize>,
    count: usize,
    data: &'a [u8],
}

impl<'a> Header<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, String> {
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
            .ok_or("it has columns of several types; save each as an array of its own")?;
        if field("'fortran_order'").is_some_and(|t| t.starts_with("True")) {
            return Err("it is in Fortran order; save numpy.ascontiguousarray of it".into());
        }
        let shape = field("'shape'")
            .and_then(|t| t.strip_prefix('(')?.split(')').next())
            .ok_or("no shape")?;
        let axes = shape.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::parse);
        let shape: Vec<usize> = axes
            .take(MOST_AXES + 1)
            .collect::<Result<_, _>>()
            .map_err(|e| format!("its shape: {e}"))?;
        if shape.len() > MOST_AXES {
            return Err(format!("it has more than {MOST_AXES} axes"));
        }
        let count = shape.iter().try_fold(1usize, |a, b| a.checked_mul(*b));
        let count = count.ok_or("its shape is too large")?;
        Ok(Self { kind, shape, count, data: bytes.get(end..).unwrap_or_default() })
    }

    /// What it says of its size. Elements of unknown types, and texts without a length, are taken to have a byte.
    pub(crate) fn claims(&self) -> Claims {
        let kind = self.kind.trim_start_matches(['<', '|', '=']);
        let digits = kind.trim_start_matches(|c: char| !c.is_ascii_digit());
        let digits = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let size = digits.parse::<usize>().unwrap_or(1).max(1);
        let size = match kind.chars().next() {
            Some('U') => size.saturating_mul(4),
            Some('O') => 1, // pickled, each as long as it likes
            _ => size,
        };
        Claims { shape: self.shape.clone(), bytes: self.count.saturating_mul(size) }
    }
}

fn numbers(array: &Header<'_>) -> Result<Array, String> {
    let (count, data) = (array.count, array.data);
    macro_rules! doubles {
        ($t:ty) => {{
            const SIZE: usize = size_of::<$t>();
            let (chunks, rest) = data.as_chunks::<SIZE>();
            if chunks.len() != count || !rest.is_empty() {
                return Err(format!("{} bytes for {count} numbers of {SIZE}", data.len()));
            }
            Values::Doubles(chunks.iter().map(|b| <$t>::from_le_bytes(*b) as f64).collect())
        }};
    }
    let values = match array.kind.trim_start_matches(['<', '|', '=']) {
        "u1" | "b1" if data.len() == count => Values::Bytes(data.to_vec()),
        "u1" | "b1" => return Err(format!("{} bytes for {count} numbers", data.len())),
        "i1" => doubles!(i8),
        "i2" => doubles!(i16),
        "i4" => doubles!(i32),
        "i8" => doubles!(i64),
        "u2" => doubles!(u16),
        "u4" => doubles!(u32),
        "u8" => doubles!(u64),
        "f4" => doubles!(f32),
        "f8" => doubles!(f64),
        "O" => return Err(OBJECTS.into()),
        text if text.starts_with(['U', 'S']) => return Err("it holds texts, not numbers".into()),
        other => return Err(format!("number type {other:?} is not supported; save it as float64")),
    };
    Ok(Array { shape: array.shape.clone(), values })
}

const OBJECTS: &str = "it holds Python objects; save it with a type of numbers, or with dtype=str";

/// Texts of a fixed length, filled up with zeros: characters of four bytes, or bytes.
fn texts(array: &Header<'_>) -> Result<Option<Vec<String>>, String> {
    let kind = array.kind.trim_start_matches(['<', '|', '=']);
    let (length, width) = match (kind.strip_prefix('U'), kind.strip_prefix('S')) {
        (Some(length), _) => (length, 4),
        (_, Some(length)) => (length, 1),
        _ if kind == "O" => return Err(OBJECTS.into()),
        _ => return Ok(None),
    };
    let size = length.parse::<usize>().ok().and_then(|l| l.checked_mul(width));
    let size = size.filter(|s| *s > 0 || array.count == 0).ok_or("its texts have no length")?;
    if size.checked_mul(array.count) != Some(array.data.len()) {
        return Err(format!("{} bytes for {} texts of {size}", array.data.len(), array.count));
    }
    let text = |bytes: &[u8]| {
        let text: String = match width {
            1 => String::from_utf8_lossy(bytes).into_owned(),
            _ => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|c| char::from_u32(u32::from_le_bytes(*c)).unwrap_or('\u{fffd}'))
                .collect(),
        };
        text.trim_end_matches('\0').to_owned()
    };
    Ok(Some(array.data.chunks_exact(size.max(1)).map(text).collect()))
}

/// Instants of NumPy's datetime64 in seconds since 1970, if the array holds such.
fn instants(array: &Header<'_>) -> Result<Option<Vec<f64>>, String> {
    let kind = array.kind.trim_start_matches(['<', '|', '=']);
    let Some(unit) = kind.strip_prefix("M8[").and_then(|k| k.strip_suffix(']')) else {
        return Ok(None);
    };
    let per_second = match unit {
        "D" => 1.0 / 86_400.0,
        "h" => 1.0 / 3_600.0,
        "m" => 1.0 / 60.0,
        "s" => 1.0,
        "ms" => 1e3,
        "us" => 1e6,
        "ns" => 1e9,
        other => return Err(format!("times in units of {other:?}; save them as datetime64[us]")),
    };
    let (chunks, rest) = array.data.as_chunks::<8>();
    if chunks.len() != array.count || !rest.is_empty() {
        return Err(format!("{} bytes for {} times", array.data.len(), array.count));
    }
    let second = |bytes: &[u8; 8]| match i64::from_le_bytes(*bytes) {
        i64::MIN => f64::NAN, // NumPy's "not a time"
        ticks => ticks as f64 / per_second,
    };
    Ok(Some(chunks.iter().map(second).collect()))
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
