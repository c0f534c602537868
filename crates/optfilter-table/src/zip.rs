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

use crate::store::{Part, Store};
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read, Take};
use std::ops::Range;

/// Bytes that one deflated byte can stand for: a run of 258 takes two bits.
const DENSEST: u64 = 1032;
/// Bytes of a local header before the name, and of an entry of the directory.
const LOCAL: usize = 30;
const CENTRAL: usize = 46;
/// Bytes of the record at the end before its comment, and of the longest comment.
const END: usize = 22;
const COMMENT: usize = 1 << 16;

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
    packed: Result<Range<u64>, &'static str>,
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
    /// Reads the directory at the end of an archive (including the 64-bit sizes that NumPy writes for streamed files, and
    /// those of archives beyond 4 GB). The text is what is wrong with it.
    pub(crate) fn of(store: &Store) -> io::Result<Result<Self, String>> {
        if store.len() == 0 {
            return Ok(Err("it is empty".into()));
        }
        let Some(entries) = entries(store)? else {
            return Ok(Err("no zip directory at its end".into()));
        };
        let mut places = HashMap::with_capacity(entries.len());
        for (i, entry) in entries.iter().enumerate() {
            if places.insert(entry.name.clone(), i).is_some() {
                return Ok(Err(format!("it has two arrays {:?}", entry.name)));
            }
        }
        let mut used: Vec<&Range<u64>> =
            entries.iter().filter_map(|e| e.packed.as_ref().ok()).collect();
        used.sort_by_key(|range| (range.start, range.end));
        if used.windows(2).any(|pair| matches!(pair, [a, b] if b.start < a.end)) {
            return Ok(Err("its arrays overlap".into()));
        }
        Ok(Ok(Self { entries, places }))
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
    pub(crate) fn is_whole(&self, store: &Store, name: &str) -> bool {
        let Some(Ok(mut entry)) = self.open(store, name) else { return false };
        let full = self.full(name) as u64;
        io::copy(&mut entry, &mut io::sink()).is_ok_and(|n| n == full)
    }

    /// The bytes of an entry, one after the other; nothing, if it is not there.
    pub(crate) fn open(&self, store: &Store, name: &str) -> Option<Result<Unpacked, String>> {
        let entry = self.entry(name)?;
        Some(entry.open(store).map_err(|reason| format!("array {name:?} {reason}")))
    }

    /// The bytes of an entry, or as many of its first ones as are asked for; nothing, if it is not there.
    pub(crate) fn unpack<'a>(
        &self,
        store: &'a Store,
        name: &str,
        most: Option<usize>,
    ) -> Option<Result<Cow<'a, [u8]>, String>> {
        let entry = self.entry(name)?;
        Some(entry.unpack(store, most).map_err(|reason| format!("array {name:?} {reason}")))
    }
}

/// An entry being unpacked: one byte more than promised is enough to notice a lie, and a bomb is not unpacked.
pub(crate) enum Unpacked {
    Stored(Part),
    Deflated(Box<Take<DeflateDecoder<Part>>>),
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(part) => part.read(into),
            Self::Deflated(part) => part.read(into),
        }
    }
}

impl Entry {
    fn open(&self, store: &Store) -> Result<Unpacked, &'static str> {
        let part = store.part(self.packed.clone()?);
        Ok(match self.deflated {
            false => Unpacked::Stored(part),
            true => {
                let most = (self.full as u64).saturating_add(1);
                Unpacked::Deflated(Box::new(DeflateDecoder::new(part).take(most)))
            }
        })
    }

    fn unpack<'a>(&self, store: &'a Store, most: Option<usize>) -> Result<Cow<'a, [u8]>, String> {
        let limit = most.unwrap_or(usize::MAX);
        let stored = self.packed.as_ref().ok().filter(|_| !self.deflated);
        let content = match stored.and_then(|range| store.slice(range)) {
            Some(bytes) => Cow::Borrowed(bytes.get(..limit.min(bytes.len())).unwrap_or_default()),
            None => {
                let mut content = Vec::new();
                let read = self.open(store)?.take(limit as u64).read_to_end(&mut content);
                read.map_err(|e| format!("is damaged: {e}"))?;
                Cow::Owned(content)
            }
        };
        if most.is_none() && content.len() != self.full {
            return Err(format!("has {} bytes instead of {}", content.len(), self.full));
        }
        Ok(content)
    }
}

/// Where the directory begins and how many entries it has.
fn directory_place(store: &Store) -> io::Result<Option<(u64, u64)>> {
    let tail = store.len().min((END + COMMENT) as u64) as usize;
    let first = store.len() - tail as u64;
    let Some(bytes) = store.get(first, tail)? else { return Ok(None) };
    let Some(last) = bytes.len().checked_sub(END) else { return Ok(None) };
    let mut places = (0..=last).rev();
    let is_end = |i: &usize| bytes.get(*i..).is_some_and(|b| b.starts_with(b"PK\x05\x06"));
    let Some(end) = places.find(is_end) else { return Ok(None) };
    let (count, at) = (number::<2>(&bytes, end + 10), number::<4>(&bytes, end + 16));
    let (Some(count), Some(at)) = (count, at) else { return Ok(None) };
    if count != u64::from(u16::MAX) && at != u64::from(u32::MAX) {
        return Ok(Some((at, count)));
    }
    // Beyond 4 GB or 65,534 entries: a record before the end says where the wide one is.
    let before = (first + end as u64).checked_sub(20);
    let Some(locator) = before.map(|at| store.get(at, 20)).transpose()?.flatten() else {
        return Ok(Some((at, count)));
    };
    let wide = number::<8>(&locator, 8).filter(|_| locator.starts_with(b"PK\x06\x07"));
    let Some(wide) = wide.map(|at| store.get(at, 56)).transpose()?.flatten() else {
        return Ok(Some((at, count)));
    };
    let found = number::<8>(&wide, 48).zip(number::<8>(&wide, 32));
    Ok(found.filter(|_| wide.starts_with(b"PK\x06\x06")))
}

/// The entries that the directory lists; none, if it is no directory.
fn entries(store: &Store) -> io::Result<Option<Vec<Entry>>> {
    let Some((mut at, count)) = directory_place(store)? else { return Ok(None) };
    let mut entries = Vec::new();
    // A count may say anything: each entry takes bytes of the file.
    for _ in 0..count {
        let Some(fixed) = store.get(at, CENTRAL)? else { return Ok(None) };
        let lengths = [28, 30, 32].map(|o| number::<2>(&fixed, o).unwrap_or(0) as usize);
        let [name, extra, comment] = lengths;
        let Some(rest) = store.get(at + CENTRAL as u64, name + extra)? else { return Ok(None) };
        let Some(listed) = Listed::of(&fixed, &rest, name) else { return Ok(None) };
        let packed = held(store, &listed)?;
        let Listed { name: text, deflated, full, .. } = listed;
        entries.push(Entry {
            name: text.strip_suffix(".npy").unwrap_or(text).to_owned(),
            deflated,
            packed,
            full: usize::try_from(full).unwrap_or(usize::MAX),
        });
        at += (CENTRAL + name + extra + comment) as u64;
    }
    Ok(Some(entries))
}

/// An entry as the directory lists it.
struct Listed<'a> {
    name: &'a str,
    deflated: bool,
    place: u64,
    packed: u64,
    full: u64,
}

impl<'a> Listed<'a> {
    /// By its fixed part and what follows it: a name of so many bytes, and extra fields.
    fn of(fixed: &[u8], rest: &'a [u8], name: usize) -> Option<Self> {
        if !fixed.starts_with(b"PK\x01\x02") {
            return None;
        }
        let method = number::<2>(fixed, 10)?;
        let mut packed = number::<4>(fixed, 20)?;
        let mut full = number::<4>(fixed, 24)?;
        let mut place = number::<4>(fixed, 42)?;
        let mut field = name;
        while field + 4 <= rest.len() {
            let size = number::<2>(rest, field + 2)? as usize;
            if number::<2>(rest, field)? == 1 {
                let mut wide = field + 4;
                for value in [&mut full, &mut packed, &mut place] {
                    if *value == u64::from(u32::MAX) {
                        *value = number::<8>(rest, wide)?;
                        wide += 8;
                    }
                }
            }
            field += 4 + size;
        }
        let name = std::str::from_utf8(rest.get(..name)?).ok()?;
        let deflated = method == 8;
        (deflated || method == 0).then_some(Self { name, deflated, place, packed, full })
    }
}

/// Where the packed bytes of an entry are, if its place and its lengths, packed and full, can be true.
fn held(store: &Store, listed: &Listed<'_>) -> io::Result<Result<Range<u64>, &'static str>> {
    const BEYOND: &str = "reaches beyond the end";
    let Listed { name, deflated, place, packed, full } = *listed;
    let Some(local) = store.get(place, LOCAL)? else { return Ok(Err(BEYOND)) };
    let lengths = number::<2>(&local, 26).zip(number::<2>(&local, 28));
    let Some((name_length, extra)) = lengths else { return Ok(Err(BEYOND)) };
    let named = store.get(place + LOCAL as u64, name_length as usize)?;
    if !local.starts_with(b"PK\x03\x04") || named.as_deref() != Some(name.as_bytes()) {
        return Ok(Err("is not where the directory says"));
    }
    let start = place + LOCAL as u64 + name_length + extra;
    let Some(end) = start.checked_add(packed).filter(|end| *end <= store.len()) else {
        return Ok(Err(BEYOND));
    };
    let longest = if deflated { packed.saturating_mul(DENSEST) } else { packed };
    if full > longest || !deflated && full != packed {
        return Ok(Err("is shorter than the directory says"));
    }
    Ok(Ok(start..end))
}
