//! The directory of a zip archive, every claim of it held against the bytes of the archive before work is done by it.
//!
//! A directory says where each entry begins and how long it is, packed and unpacked. A file of a few kilobytes can say
//! anything: that an entry unpacks to gigabytes, or that thousands of entries share the same packed bytes, each of which
//! would be unpacked anew. So here
//!
//! - an entry lies within the file, behind a local header that has its name;
//! - one that is stored is as long unpacked as it is packed, and one that is deflated at most [`DENSEST`] times as long;
//! - no two entries have bytes in common, and no two have one name.
//!
//! What all entries unpack to is thus bounded by the length of the file. An entry that claims too much is refused when it is asked
//! for; entries that overlap or share a name are no archive that any program writes, which is refused as a whole.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

/// Bytes that one deflated byte can stand for: a run of 258 takes two bits.
const DENSEST: usize = 1032;
/// Bytes of a local header before the name, and of an entry of the directory.
const LOCAL: usize = 30;
const CENTRAL: usize = 46;

/// The number of `N` bytes at a place, lowest byte first.
pub(crate) fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field: [u8; N] = bytes.get(at..at.checked_add(N)?)?.try_into().ok()?;
    Some(field.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// What the directory says of an entry, as far as the file bears it out.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    deflated: bool,
    /// Where its packed bytes are, or why it cannot be read.
    packed: Result<Range<usize>, &'static str>,
    /// Its length when it is unpacked; there may still be less.
    full: usize,
}

/// The entries of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    places: HashMap<String, usize>,
}

impl Directory {
    /// Reads the directory at the end of an archive (including the 64-bit sizes that NumPy writes for streamed files).
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("it is empty".into());
        }
        let entries = entries(bytes).ok_or("no zip directory at its end")?;
        let mut places = HashMap::with_capacity(entries.len());
        for (i, entry) in entries.iter().enumerate() {
            if places.insert(entry.name.clone(), i).is_some() {
                return Err(format!("it has two arrays {:?}", entry.name));
            }
        }
        let mut used: Vec<&Range<usize>> =
            entries.iter().filter_map(|e| e.packed.as_ref().ok()).collect();
        used.sort_by_key(|range| (range.start, range.end));
        if used.windows(2).any(|pair| matches!(pair, [a, b] if b.start < a.end)) {
            return Err("its arrays overlap".into());
        }
        Ok(Self { entries, places })
    }

    /// Names of the entries, less `.npy`.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|e| e.name.as_str())
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.places.get(name).and_then(|place| self.entries.get(*place))
    }

    /// The length that an entry says it has unpacked, at most what its packed bytes can stand for; zero where there is none.
    pub(crate) fn full(&self, name: &str) -> usize {
        self.entry(name).filter(|e| e.packed.is_ok()).map_or(0, |e| e.full)
    }

    /// Whether an entry unpacks to just the length that it says it has. It is unpacked for this, and kept nowhere.
    pub(crate) fn is_whole(&self, bytes: &[u8], name: &str) -> bool {
        let Some(entry) = self.entry(name) else { return false };
        let Some(packed) = entry.packed.as_ref().ok().and_then(|p| bytes.get(p.clone())) else {
            return false;
        };
        if !entry.deflated {
            return packed.len() == entry.full;
        }
        let mut unpacked = inflate(packed, entry.full.saturating_add(1));
        std::io::copy(&mut unpacked, &mut std::io::sink()).is_ok_and(|n| n == entry.full as u64)
    }

    /// The bytes of an entry, or as many of its first ones as are asked for; nothing, if it is not there.
    pub(crate) fn unpack<'a>(
        &self,
        bytes: &'a [u8],
        name: &str,
        most: Option<usize>,
    ) -> Option<Result<Cow<'a, [u8]>, String>> {
        let entry = self.entry(name)?;
        Some(entry.unpack(bytes, most).map_err(|reason| format!("array {name:?} {reason}")))
    }
}

impl Entry {
    fn unpack<'a>(&self, bytes: &'a [u8], most: Option<usize>) -> Result<Cow<'a, [u8]>, String> {
        let packed = bytes.get(self.packed.clone()?).unwrap_or_default();
        let limit = most.unwrap_or(usize::MAX);
        let content = if self.deflated {
            let mut content = Vec::new();
            // One byte more than promised is enough to notice a lie; a bomb is not unpacked.
            let read = inflate(packed, limit.min(self.full.saturating_add(1)))
                .read_to_end(&mut content)
                .map_err(|e| format!("is damaged: {e}"));
            read?;
            Cow::Owned(content)
        } else {
            Cow::Borrowed(packed.get(..limit.min(packed.len())).unwrap_or_default())
        };
        if most.is_none() && content.len() != self.full {
            return Err(format!("has {} bytes instead of {}", content.len(), self.full));
        }
        Ok(content)
    }
}

fn inflate(packed: &[u8], most: usize) -> impl Read {
    flate2::read::DeflateDecoder::new(packed).take(most as u64)
}

/// The entries that the directory lists; none, if it is no directory.
fn entries(bytes: &[u8]) -> Option<Vec<Entry>> {
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
        let start = at + CENTRAL + name;
        let text = std::str::from_utf8(bytes.get(at + CENTRAL..start)?).ok()?;
        let mut field = start;
        while field + 4 <= start + extra {
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
        let deflated = method == 8;
        entries.push(Entry {
            name: text.strip_suffix(".npy").unwrap_or(text).to_owned(),
            deflated,
            packed: held(bytes, text, (place, packed, full), deflated),
            full: usize::try_from(full).unwrap_or(usize::MAX),
        });
        at = start + extra + comment;
    }
    Some(entries)
}

/// Where the packed bytes of an entry are, if its place and its lengths, packed and full, can be true.
fn held(
    bytes: &[u8],
    name: &str,
    (place, packed, full): (u64, u64, u64),
    deflated: bool,
) -> Result<Range<usize>, &'static str> {
    const BEYOND: &str = "reaches beyond the end";
    let [place, packed, full] = [place, packed, full].map(usize::try_from);
    let (place, packed, full) =
        (place.map_err(|_| BEYOND)?, packed.map_err(|_| BEYOND)?, full.map_err(|_| BEYOND)?);
    let local = bytes.get(place..).ok_or(BEYOND)?;
    let lengths = number::<2>(local, 26).zip(number::<2>(local, 28));
    let (name_length, extra) = lengths.ok_or(BEYOND)?;
    let named = local.get(LOCAL..LOCAL + name_length as usize);
    if !local.starts_with(b"PK\x03\x04") || named != Some(name.as_bytes()) {
        return Err("is not where the directory says");
    }
    let start = place + LOCAL + (name_length + extra) as usize;
    let end = start.checked_add(packed).filter(|end| *end <= bytes.len()).ok_or(BEYOND)?;
    let longest = if deflated { packed.saturating_mul(DENSEST) } else { packed };
    if full > longest || !deflated && full != packed {
        return Err("is shorter than the directory says");
    }
    Ok(start..end)
}
