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
//! rawzip decodes the records. It takes a directory at its word, so the rules are here.
//!
//! What all entries unpack to is thus bounded by the length of the file. An entry that claims too much is refused when it is asked
//! for; entries that overlap or share a name are no archive that any program writes, which is refused as a whole.

use crate::store::Store;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use rawzip::{
    CompressionMethod, Error, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive,
    ZipFileHeaderRecord, ZipLocator,
};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::ops::Range;

/// Bytes that one deflated byte can stand for: a run of 258 takes two bits.
const DENSEST: u64 = 1032;
/// Bytes of the record at the end before its comment, and those with the longest comment.
const END: usize = 22;
const TAIL: u64 = END as u64 + (1 << 16);
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
        let Some(entry) = self.entry(name) else { return Ok(()) };
        entry.copy(store, &mut io::sink()).map_err(|reason| format!("array {name:?} {reason}"))
    }

    /// The bytes of an entry, one after the other; nothing, if it is not there.
    pub(crate) fn open(&self, store: &Store, name: &str) -> Option<Result<Unpacked, String>> {
        let entry = self.entry(name)?;
        Some(entry.open(store).map_err(|reason| format!("array {name:?} {reason}")))
    }

    /// All bytes of an entry; nothing, if it is not there.
    pub(crate) fn unpack<'a>(
        &self,
        store: &'a Store,
        name: &str,
    ) -> Option<Result<Cow<'a, [u8]>, String>> {
        let entry = self.entry(name)?;
        Some(entry.unpack(store).map_err(|reason| format!("array {name:?} {reason}")))
    }
}

/// An entry being unpacked. It ends with an error if its bytes are as many as was said, and others.
pub(crate) struct Unpacked {
    bytes: Box<dyn Read + Send>,
    crc: Crc,
    count: u64,
    /// The length and the checksum that the directory states.
    stated: (u64, u32),
}

impl Read for Unpacked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(into)?;
        self.crc.update(into.get(..read).unwrap_or_default());
        self.count += read as u64;
        let (length, crc) = self.stated;
        if read == 0 && !into.is_empty() && self.count == length && self.crc.sum() != crc {
            let what = "its checksum (CRC-32) does not match; copy or save the file again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(read)
    }
}

impl Entry {
    fn open(&self, store: &Store) -> Result<Unpacked, &'static str> {
        let part = store.part(self.packed.clone()?);
        let full = self.full as u64;
        // One byte more than promised is enough to notice a lie, and a bomb is not unpacked.
        let bytes: Box<dyn Read + Send> = match self.deflated {
            false => Box::new(part),
            true => Box::new(DeflateDecoder::new(part).take(full.saturating_add(1))),
        };
        Ok(Unpacked { bytes, crc: Crc::new(), count: 0, stated: (full, self.crc) })
    }

    /// Hands on all bytes, and says whether they were those that were promised.
    fn copy(&self, store: &Store, to: &mut impl Write) -> Result<(), String> {
        let mut bytes = BufReader::with_capacity(BLOCK, self.open(store)?);
        match io::copy(&mut bytes, to) {
            Ok(found) if found == self.full as u64 => Ok(()),
            Ok(found) => Err(format!("has {found} bytes instead of {}", self.full)),
            Err(e) => Err(format!("is damaged: {e}")),
        }
    }

    fn unpack<'a>(&self, store: &'a Store) -> Result<Cow<'a, [u8]>, String> {
        let stored = self.packed.as_ref().ok().filter(|_| !self.deflated);
        if let Some(bytes) = stored.and_then(|range| store.slice(range)) {
            self.copy(store, &mut io::sink())?;
            return Ok(Cow::Borrowed(bytes));
        }
        let mut content = Vec::new();
        self.copy(store, &mut content)?;
        Ok(Cow::Owned(content))
    }
}

/// Where the directory begins and how many entries it has by the records at the end, the last of which is here; nothing, if it
/// does not end before them.
fn stated(store: &Store, end: u64) -> io::Result<Option<(u64, u64)>> {
    let Some(last) = store.get(end, END)? else { return Ok(None) };
    let field = |at: usize| number::<4>(&last, at).unwrap_or(0);
    let (at, size, count) = (field(16), field(12), number::<2>(&last, 10).unwrap_or(0));
    let mut found = (at, size, count, end);
    if count == u64::from(u16::MAX) || [at, size].contains(&u64::from(u32::MAX)) {
        // Beyond 4 GB or 65,534 entries: a record before the end says where the wide one is.
        let before = end.checked_sub(20);
        let locator = before.map(|at| store.get(at, 20)).transpose()?.flatten();
        let place = locator.filter(|l| l.starts_with(b"PK\x06\x07"));
        if let Some(place) = place.and_then(|l| number::<8>(&l, 8)) {
            let Some(wide) = store.get(place, 56)? else { return Ok(None) };
            let field = |at: usize| number::<8>(&wide, at).unwrap_or(0);
            found = (field(48), field(40), field(32), place);
        }
    }
    let (at, size, count, end) = found;
    Ok((at.checked_add(size) == Some(end)).then_some((at, count)))
}

/// What was wrong with a record: the file system, or what the record says.
fn broken<T>(
    error: Error,
    what: &'static str,
    cut: &'static str,
) -> io::Result<Result<T, &'static str>> {
    match error.into_kind() {
        ErrorKind::IO(e) if e.kind() != io::ErrorKind::UnexpectedEof => Err(e),
        ErrorKind::IO(_) | ErrorKind::Eof => Ok(Err(cut)),
        _ => Ok(Err(what)),
    }
}

/// The entries that the directory lists; or why it is no directory.
fn entries(store: &Store) -> io::Result<Result<Vec<Entry>, &'static str>> {
    const NONE: &str = "no zip directory at its end";
    const ELSEWHERE: &str = "its directory is not where its end says";
    const BROKEN: &str = "its directory is damaged";
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let locator = ZipLocator::new().max_search_space(TAIL);
    let archive = match locator.locate_in_reader(store, &mut buffer, store.len()) {
        Ok(archive) => archive,
        Err((_, e)) if matches!(e.kind(), ErrorKind::InvalidEndOfCentralDirectory) => {
            return Ok(Err(ELSEWHERE));
        }
        Err((_, e)) => return broken(e, NONE, NONE),
    };
    if archive.end_offset() != store.len() {
        return Ok(Err("something follows its directory"));
    }
    let stated = stated(store, archive.eocd_offset())?;
    let Some((_, count)) = stated.filter(|(at, _)| *at == archive.directory_offset()) else {
        return Ok(Err(ELSEWHERE));
    };
    let mut entries = Vec::new();
    let mut local = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let mut listed = archive.entries(&mut buffer);
    loop {
        let record = match listed.next_entry() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(e) => return broken(e, BROKEN, BROKEN),
        };
        let path = record.file_path();
        let Ok(name) = str::from_utf8(path.as_ref()) else { return Ok(Err(BROKEN)) };
        let method = record.compression_method();
        if ![CompressionMethod::STORE, CompressionMethod::DEFLATE].contains(&method) {
            return Ok(Err(BROKEN));
        }
        entries.push(Entry {
            name: name.strip_suffix(".npy").unwrap_or(name).to_owned(),
            deflated: method == CompressionMethod::DEFLATE,
            packed: held(&archive, &record, &mut local)?,
            full: usize::try_from(record.uncompressed_size_hint()).unwrap_or(usize::MAX),
            crc: record.crc32(),
        });
    }
    Ok(if entries.len() as u64 == count { Ok(entries) } else { Err(BROKEN) })
}

/// Where the packed bytes of an entry are, if its place and its lengths, packed and full, can be true.
fn held(
    archive: &ZipArchive<&Store>,
    listed: &ZipFileHeaderRecord<'_>,
    buffer: &mut [u8],
) -> io::Result<Result<Range<u64>, &'static str>> {
    const BEYOND: &str = "reaches beyond the end";
    const ELSEWHERE: &str = "is not where the directory says";
    if listed.flags().is_encrypted() {
        return Ok(Err("is encrypted"));
    }
    let entry = archive.get_entry(listed.wayfinder());
    let found = entry.and_then(|e| Ok((e.compressed_data_range(), e.local_header(buffer)?)));
    let ((start, end), local) = match found {
        Ok(found) => found,
        Err(e) => return broken(e, ELSEWHERE, BEYOND),
    };
    if local.file_path().as_ref() != listed.file_path().as_ref() {
        return Ok(Err(ELSEWHERE));
    }
    if end > archive.get_ref().len() {
        return Ok(Err(BEYOND));
    }
    let (packed, full) = (listed.compressed_size_hint(), listed.uncompressed_size_hint());
    let method = listed.compression_method();
    let stored = method == CompressionMethod::STORE;
    let longest = if stored { packed } else { packed.saturating_mul(DENSEST) };
    if full > longest || stored && full != packed {
        return Ok(Err("is shorter than the directory says"));
    }
    // Where sizes and checksum follow the bytes, a local header may leave them out.
    let follow = local.flags().has_data_descriptor();
    let alike = |here: u64, there: u64| here == there || follow && here == 0;
    let borne_out = method == local.compression_method()
        && alike(local.compressed_size_hint(), packed)
        && alike(local.uncompressed_size_hint(), full)
        && alike(local.crc32().into(), listed.crc32().into());
    Ok(if borne_out { Ok(start..end) } else { Err("contradicts the directory in its own header") })
}
