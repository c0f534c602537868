//! NumPy's `.npz`, a zip archive of arrays, read stored or deflated and written stored; and its `.npy`, one array.
//!
//! Only what data files need: little-endian numbers, booleans and texts in C order. Everything is checked against the size of
//! the file, so that a damaged file is an error and not a crash.

use std::io::{Read, Write};
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

/// An npz file in memory.
#[derive(Clone, Debug)]
pub struct Npz {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Name, deflated or not, place of the local header, packed size, full size.
    entries: Vec<(String, bool, usize, usize, usize)>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field: [u8; N] = bytes.get(at..at.checked_add(N)?)?.try_into().ok()?;
    Some(field.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

impl Npz {
    /// Reads a file and its directory.
    pub fn open(path: &Path) -> Result<Self, NpzError> {
        let bytes = std::fs::read(path);
        Self::of(path, bytes.map_err(|source| NpzError::Io { path: path.into(), source })?)
    }

    /// The same of bytes; errors speak of `path`.
    pub fn of(path: &Path, bytes: Vec<u8>) -> Result<Self, NpzError> {
        let entries = directory(&bytes).ok_or_else(|| NpzError::Damaged {
            path: path.into(),
            reason: if bytes.is_empty() {
                "it is empty".into()
            } else {
                "no zip directory at its end".into()
            },
        })?;
        Ok(Self { path: path.into(), bytes, entries })
    }

    /// Names of the arrays.
    pub fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|e| e.0.as_str()).collect()
    }

    /// The numbers of that name.
    pub fn array(&self, name: &str) -> Result<Array, NpzError> {
        self.parsed(name, numbers)
    }

    /// The texts of that name, if the array holds texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, NpzError> {
        self.parsed(name, texts)
    }

    /// The elements of that name, whatever they are.
    pub(crate) fn content(&self, name: &str) -> Result<Content, NpzError> {
        self.parsed(name, content)
    }

    /// The lengths of the axes of that name; only the beginning of the array is unpacked.
    pub(crate) fn shape(&self, name: &str) -> Result<Vec<usize>, NpzError> {
        self.unpacked(name, Some(HEADER), |header| Ok(header.shape.clone()))
    }

    /// How many bytes the array of that name says it has when it is unpacked; one that has more is damaged.
    pub(crate) fn unpacked_size(&self, name: &str) -> usize {
        self.entries.iter().find(|e| e.0 == name).map_or(0, |e| e.4)
    }

    fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&Header<'_>) -> Result<T, String>,
    ) -> Result<T, NpzError> {
        self.unpacked(name, None, parse)
    }

    /// The array, or as many of its first bytes as are asked for.
    fn unpacked<T>(
        &self,
        name: &str,
        most: Option<usize>,
        parse: impl FnOnce(&Header<'_>) -> Result<T, String>,
    ) -> Result<T, NpzError> {
        let damaged = |reason: String| NpzError::Damaged { path: self.path.clone(), reason };
        let Some((_, deflated, at, packed, full)) = self.entries.iter().find(|e| e.0 == name)
        else {
            let found = self.names().join(", ");
            return Err(NpzError::Missing { path: self.path.clone(), name: name.into(), found });
        };
        let local = self.bytes.get(*at..).unwrap_or_default();
        let start = number::<2>(local, 26)
            .zip(number::<2>(local, 28))
            .map(|(name, extra)| 30 + (name + extra) as usize);
        let data = start.and_then(|s| local.get(s..s.checked_add(*packed)?));
        let data = data.ok_or_else(|| damaged(format!("array {name:?} reaches beyond the end")))?;
        let mut content = Vec::new();
        if *deflated {
            // One byte more than promised is enough to notice a lie; a bomb is not unpacked.
            flate2::read::DeflateDecoder::new(data)
                .take(most.unwrap_or(full.saturating_add(1)) as u64)
                .read_to_end(&mut content)
                .map_err(|e| damaged(format!("array {name:?}: {e}")))?;
        } else {
            let end = most.map_or(data.len(), |most| most.min(data.len()));
            content.extend_from_slice(data.get(..end).unwrap_or_default());
        }
        if most.is_none() && content.len() != *full {
            return Err(damaged(format!(
                "array {name:?} has {} bytes instead of {full}",
                content.len()
            )));
        }
        Header::of(&content)
            .and_then(|h| parse(&h))
            .map_err(|reason| damaged(format!("array {name:?}: {reason}")))
    }
}

/// Reads the zip directory (including the 64-bit sizes that NumPy writes for streamed files).
fn directory(bytes: &[u8]) -> Option<Vec<(String, bool, usize, usize, usize)>> {
    let end = (0..=bytes.len().checked_sub(22)?)
        .rev()
        .take(66_000)
        .find(|&i| bytes.get(i..).is_some_and(|b| b.starts_with(b"PK\x05\x06")))?;
    let count = number::<2>(bytes, end + 10)?;
    let mut at = number::<4>(bytes, end + 16)? as usize;
    let mut entries = Vec::new();
    for _ in 0..count {
        if !bytes.get(at..)?.starts_with(b"PK\x01\x02") {
            return None;
        }
        let method = number::<2>(bytes, at + 10)?;
        let mut packed = number::<4>(bytes, at + 20)?;
        let mut full = number::<4>(bytes, at + 24)?;
        let [name, extra, comment] =
            [28, 30, 32].map(|o| number::<2>(bytes, at + o).unwrap_or(0) as usize);
        let mut place = number::<4>(bytes, at + 42)?;
        let text = std::str::from_utf8(bytes.get(at + 46..at + 46 + name)?).ok()?;
        let mut field = at + 46 + name;
        while field + 4 <= at + 46 + name + extra {
            let size = number::<2>(bytes, field + 2)? as usize;
            if number::<2>(bytes, field)? == 1 {
                let mut wide = field + 4;
                for value in [&mut full, &mut packed, &mut place] {
                    if *value == u64::from(u32::MAX) {
                        *value = number::<8>(bytes, wide)?;
                        wide += 8;
                    }
                }
            }
            field += 4 + size;
        }
        if method != 0 && method != 8 {
            return None;
        }
        let plain = text.strip_suffix(".npy").unwrap_or(text).to_owned();
        entries.push((plain, method == 8, place as usize, packed as usize, full as usize));
        at += 46 + name + extra + comment;
    }
    Some(entries)
}

/// What a `.npy` array says about itself, and its bytes.
pub(crate) struct Header<'a> {
    kind: &'a str,
    pub(crate) shape: Vec<usize>,
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
        let shape: Vec<usize> =
            axes.collect::<Result<_, _>>().map_err(|e| format!("its shape: {e}"))?;
        let count = shape.iter().try_fold(1usize, |a, b| a.checked_mul(*b));
        let count = count.ok_or("its shape is too large")?;
        Ok(Self { kind, shape, count, data: bytes.get(end..).unwrap_or_default() })
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
