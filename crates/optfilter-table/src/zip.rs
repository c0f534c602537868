//! The directory of a zip archive, every claim of it held against the bytes of the archive before work is done by it.
//!
//! A directory says where each entry begins and how long it is, packed and unpacked. A file of a few kilobytes can say
//! anything: that an entry unpacks to gigabytes, or that thousands of entries share the same packed bytes, each of which
//! would be unpacked anew. So here
//!
//! - the directory ends where the record after it begins, and the file with that record and its comment;
//! - an entry lies within the file, behind a local header that says the same of it;
//! - one that is stored is as long unpacked as it is packed, and one that is deflated at most [`DENSEST`] times as long;
//! - no two entries have bytes in common, and no two have one name;
//! - the bytes of an entry have the checksum (CRC-32) that the directory states: a reader ends with an error where they do not.
//!
//! What all entries unpack to is thus bounded by the length of the file. An entry that claims too much is refused when it is asked
//! for; entries that overlap or share a name are no archive that any program writes, which is refused as a whole.

use crate::store::{Part, Store};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Take};
use std::ops::Range;

/// Bytes that one deflated byte can stand for: a run of 258 takes two bits.
const DENSEST: u64 = 1032;
/// Bytes of a local header before the name, and of an entry of the directory.
const LOCAL: usize = 30;
const CENTRAL: usize = 46;
/// Bytes of the record at the end before its comment, and of the longest comment.
const END: usize = 22;
const COMMENT: usize = 1 << 16;
/// Bytes that are unpacked at a time to be checked.
const BLOCK: usize = 1 << 16;

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
    /// The checksum of its bytes when they are unpacked.
    crc: u32,
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
        let entries = match entries(store)? {
            Ok(entries) => entries,
            Err(reason) => return Ok(Err(reason.into())),
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

    /// Whether an entry unpacks to just the length and the checksum that it says it has. It is unpacked for this, and kept nowhere.
    pub(crate) fn check(&self, store: &Store, name: &str) -> Result<(), String> {
        let Some(entry) = self.open(store, name) else { return Ok(()) };
        let mut bytes = BufReader::with_capacity(BLOCK, entry?);
        let (found, full) = (io::copy(&mut bytes, &mut io::sink()), self.full(name));
        match found {
            Ok(found) if found == full as u64 => Ok(()),
            Ok(found) => Err(format!("array {name:?} has {found} bytes instead of {full}")),
            Err(e) => Err(format!("array {name:?} is damaged: {e}")),
        }
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

/// An entry being unpacked. It ends with an error if its bytes are as many as was said, and others.
pub(crate) struct Unpacked {
    bytes: Inner,
    crc: Crc,
    count: u64,
    /// The length and the checksum that the directory states.
    stated: (u64, u32),
}

/// One byte more than promised is enough to notice a lie, and a bomb is not unpacked.
enum Inner {
    Stored(Part),
    Deflated(Box<Take<DeflateDecoder<Part>>>),
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.bytes {
            Inner::Stored(part) => part.read(into)?,
            Inner::Deflated(part) => part.read(into)?,
        };
        self.crc.update(into.get(..read).unwrap_or_default());
        self.count += read as u64;
        if read == 0 && !into.is_empty() && self.count == self.stated.0 {
            check_sum(&self.crc, self.stated.1)?;
        }
        Ok(read)
    }
}

fn check_sum(found: &Crc, stated: u32) -> io::Result<()> {
    match found.sum() == stated {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its checksum (CRC-32) does not match; copy or save the file again",
        )),
    }
}

impl Entry {
    fn open(&self, store: &Store) -> Result<Unpacked, &'static str> {
        let part = store.part(self.packed.clone()?);
        let full = self.full as u64;
        let bytes = match self.deflated {
            false => Inner::Stored(part),
            true => {
                Inner::Deflated(Box::new(DeflateDecoder::new(part).take(full.saturating_add(1))))
            }
        };
        Ok(Unpacked { bytes, crc: Crc::new(), count: 0, stated: (full, self.crc) })
    }

    fn unpack<'a>(&self, store: &'a Store, most: Option<usize>) -> Result<Cow<'a, [u8]>, String> {
        let limit = most.unwrap_or(usize::MAX);
        let stored = self.packed.as_ref().ok().filter(|_| !self.deflated);
        let damaged = |e: io::Error| format!("is damaged: {e}");
        let content = match stored.and_then(|range| store.slice(range)) {
            Some(bytes) => {
                if most.is_none() {
                    let mut crc = Crc::new();
                    crc.update(bytes);
                    check_sum(&crc, self.crc).map_err(damaged)?;
                }
                Cow::Borrowed(bytes.get(..limit.min(bytes.len())).unwrap_or_default())
            }
            None => {
                let mut content = Vec::new();
                let read = self.open(store)?.take(limit as u64).read_to_end(&mut content);
                read.map_err(damaged)?;
                Cow::Owned(content)
            }
        };
        if most.is_none() && content.len() != self.full {
            return Err(format!("has {} bytes instead of {}", content.len(), self.full));
        }
        Ok(content)
    }
}

/// Where the directory is, and how many entries it has; or what is wrong with the end of the file.
fn directory_place(store: &Store) -> io::Result<Result<(Range<u64>, u64), &'static str>> {
    const NONE: &str = "no zip directory at its end";
    let tail = store.len().min((END + COMMENT) as u64) as usize;
    let first = store.len() - tail as u64;
    let Some(bytes) = store.get(first, tail)? else { return Ok(Err(NONE)) };
    let Some(last) = bytes.len().checked_sub(END) else { return Ok(Err(NONE)) };
    let mut places = (0..=last).rev();
    let is_end = |i: &usize| bytes.get(*i..).is_some_and(|b| b.starts_with(b"PK\x05\x06"));
    let Some(end) = places.find(is_end) else { return Ok(Err(NONE)) };
    let field = |at: usize| number::<4>(&bytes, end + at).unwrap_or(0);
    let short = |at: usize| number::<2>(&bytes, end + at).unwrap_or(0);
    let (count, size, at, comment) = (short(10), field(12), field(16), short(20));
    if (end + END) as u64 + comment != bytes.len() as u64 {
        return Ok(Err("something follows its directory"));
    }
    let mut found = (at, size, count, first + end as u64);
    if count == u64::from(u16::MAX) || [at, size].contains(&u64::from(u32::MAX)) {
        // Beyond 4 GB or 65,534 entries: a record before the end says where the wide one is.
        let before = found.3.checked_sub(20);
        let locator = before.map(|at| store.get(at, 20)).transpose()?.flatten();
        let place = locator.filter(|l| l.starts_with(b"PK\x06\x07"));
        if let Some(place) = place.and_then(|l| number::<8>(&l, 8)) {
            let wide = store.get(place, 56)?.filter(|w| w.starts_with(b"PK\x06\x06"));
            let Some(wide) = wide else { return Ok(Err(NONE)) };
            let field = |at: usize| number::<8>(&wide, at).unwrap_or(0);
            found = (field(48), field(40), field(32), place);
        }
    }
    let (at, size, count, end) = found;
    match at.checked_add(size) == Some(end) {
        true => Ok(Ok((at..end, count))),
        false => Ok(Err("its directory is not where its end says")),
    }
}

/// The entries that the directory lists; or why it is no directory.
fn entries(store: &Store) -> io::Result<Result<Vec<Entry>, &'static str>> {
    const BROKEN: &str = "its directory is damaged";
    let (place, count) = match directory_place(store)? {
        Ok(found) => found,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut at = place.start;
    let mut entries = Vec::new();
    // A count may say anything: each entry takes bytes of the file.
    for _ in 0..count {
        let Some(fixed) = store.get(at, CENTRAL)? else { return Ok(Err(BROKEN)) };
        let lengths = [28, 30, 32].map(|o| number::<2>(&fixed, o).unwrap_or(0) as usize);
        let [name, extra, comment] = lengths;
        let Some(rest) = store.get(at + CENTRAL as u64, name + extra)? else {
            return Ok(Err(BROKEN));
        };
        let Some(listed) = Listed::of(&fixed, &rest, name) else { return Ok(Err(BROKEN)) };
        let packed = held(store, &listed)?;
        let Listed { name: text, deflated, full, crc, .. } = listed;
        entries.push(Entry {
            name: text.strip_suffix(".npy").unwrap_or(text).to_owned(),
            deflated,
            packed,
            full: usize::try_from(full).unwrap_or(usize::MAX),
            crc: crc as u32,
        });
        at += (CENTRAL + name + extra + comment) as u64;
    }
    Ok(if at == place.end { Ok(entries) } else { Err(BROKEN) })
}

/// An entry as the directory lists it.
struct Listed<'a> {
    name: &'a str,
    deflated: bool,
    encrypted: bool,
    place: u64,
    packed: u64,
    full: u64,
    crc: u64,
}

impl<'a> Listed<'a> {
    /// By its fixed part and what follows it: a name of so many bytes, and extra fields.
    fn of(fixed: &[u8], rest: &'a [u8], name: usize) -> Option<Self> {
        if !fixed.starts_with(b"PK\x01\x02") {
            return None;
        }
        let (flags, method) = (number::<2>(fixed, 8)?, number::<2>(fixed, 10)?);
        let crc = number::<4>(fixed, 16)?;
        let mut packed = number::<4>(fixed, 20)?;
        let mut full = number::<4>(fixed, 24)?;
        let mut place = number::<4>(fixed, 42)?;
        widen(rest.get(name..)?, [&mut full, &mut packed, &mut place])?;
        let name = std::str::from_utf8(rest.get(..name)?).ok()?;
        let (deflated, encrypted) = (method == 8, flags & 1 == 1);
        let listed = Self { name, deflated, encrypted, place, packed, full, crc };
        (deflated || method == 0).then_some(listed)
    }

    /// Whether a local header, with its extra fields, says the same. Where sizes and checksum follow the bytes, it may leave them out.
    fn is_borne_out(&self, local: &[u8], extra: &[u8]) -> Option<bool> {
        let (flags, method, crc) =
            (number::<2>(local, 6)?, number::<2>(local, 8)?, number::<4>(local, 14)?);
        let mut packed = number::<4>(local, 18)?;
        let mut full = number::<4>(local, 22)?;
        widen(extra, [&mut full, &mut packed])?;
        let follow = flags & 8 != 0;
        let alike = |here: u64, there: u64| here == there || follow && here == 0;
        let method = method == if self.deflated { 8 } else { 0 };
        let sizes = alike(packed, self.packed) && alike(full, self.full);
        Some(method && sizes && alike(crc, self.crc))
    }
}

/// Numbers of 64 bits from extra fields, in this order, in place of those that are too large for 32.
fn widen<const N: usize>(extra: &[u8], values: [&mut u64; N]) -> Option<()> {
    let mut values: Vec<&mut u64> =
        values.into_iter().filter(|value| **value == u64::from(u32::MAX)).collect();
    let mut field = 0;
    while field + 4 <= extra.len() {
        let size = number::<2>(extra, field + 2)? as usize;
        if number::<2>(extra, field)? == 1 {
            let places = (field + 4..).step_by(8);
            for (value, at) in values.iter_mut().zip(places) {
                **value = number::<8>(extra, at)?;
            }
        }
        field += 4 + size;
    }
    Some(())
}

/// Where the packed bytes of an entry are, if its place and its lengths, packed and full, can be true.
fn held(store: &Store, listed: &Listed<'_>) -> io::Result<Result<Range<u64>, &'static str>> {
    const BEYOND: &str = "reaches beyond the end";
    let Listed { name, deflated, encrypted, place, packed, full, .. } = *listed;
    if encrypted {
        return Ok(Err("is encrypted"));
    }
    let Some(local) = store.get(place, LOCAL)? else { return Ok(Err(BEYOND)) };
    let lengths = number::<2>(&local, 26).zip(number::<2>(&local, 28));
    let Some((name_length, extra)) = lengths else { return Ok(Err(BEYOND)) };
    let named = store.get(place + LOCAL as u64, name_length as usize)?;
    if !local.starts_with(b"PK\x03\x04") || named.as_deref() != Some(name.as_bytes()) {
        return Ok(Err("is not where the directory says"));
    }
    let fields = place + LOCAL as u64 + name_length;
    let Some(extras) = store.get(fields, extra as usize)? else { return Ok(Err(BEYOND)) };
    let start = fields + extra;
    let Some(end) = start.checked_add(packed).filter(|end| *end <= store.len()) else {
        return Ok(Err(BEYOND));
    };
    let longest = if deflated { packed.saturating_mul(DENSEST) } else { packed };
    if full > longest || !deflated && full != packed {
        return Ok(Err("is shorter than the directory says"));
    }
    if listed.is_borne_out(&local, &extras) != Some(true) {
        return Ok(Err("contradicts the directory in its own header"));
    }
    Ok(Ok(start..end))
}
