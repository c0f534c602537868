//! Archives of arrays that claim what they do not hold: refused by their bytes, before anything is done by their word.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use flate2::{Compression, write::DeflateEncoder};
use optfilter_table::npz::Npz;
use optfilter_table::{Format, Source, TableReader};
use std::io::{Cursor, Write};
use std::path::Path;

/// An array as NumPy writes it, with the elements given.
fn npy(kind: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), elements].concat()
}

/// What the directory says of an array; the archive has the truth but where it is told otherwise.
#[derive(Default)]
struct Entry {
    name: String,
    data: Vec<u8>,
    deflated: bool,
    packed: Option<u32>,
    full: Option<u32>,
    place: Option<u32>,
}

impl Entry {
    fn new(name: &str, data: Vec<u8>, deflated: bool) -> Self {
        Self { name: name.into(), data, deflated, ..Self::default() }
    }
}

fn archive(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let data = if entry.deflated {
            let mut out = DeflateEncoder::new(Vec::new(), Compression::best());
            out.write_all(&entry.data).unwrap();
            out.finish().unwrap()
        } else {
            entry.data.clone()
        };
        let place = entry.place.unwrap_or(bytes.len() as u32);
        let name = format!("{}.npy", entry.name);
        let mut common =
            [20, 0, if entry.deflated { 8 } else { 0 }, 0, 0, 0, 0].map(u16::to_le_bytes).concat();
        common.extend(entry.packed.unwrap_or(data.len() as u32).to_le_bytes());
        common.extend(entry.full.unwrap_or(entry.data.len() as u32).to_le_bytes());
        common.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &[0; 10]].concat());
        directory.extend([&place.to_le_bytes()[..], name.as_bytes()].concat());
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), &data].concat());
    }
    let (at, count) = (bytes.len() as u32, (entries.len() as u16).to_le_bytes());
    bytes.extend(&directory);
    bytes.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count[..]].concat());
    bytes.extend([(directory.len() as u32).to_le_bytes(), at.to_le_bytes()].concat());
    bytes.extend([0; 2]);
    bytes
}

/// The number of columns of an archive; wants the first of them.
fn columns(bytes: Vec<u8>) -> Result<usize, String> {
    let source = Source::Stream(Box::new(Cursor::new(bytes)));
    let want = |names: &[String]| {
        let kind = optfilter_table::ColumnKind::Measurement;
        vec![optfilter_table::Wanted { column: names[0].clone(), kind }]
    };
    let reader = TableReader::open(source, Format::Npz, want).map_err(|e| e.to_string())?;
    Ok(reader.columns().len())
}

fn refused(entries: &[Entry], expected: &str) {
    let error = columns(archive(entries)).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn archives_that_tell_the_truth_are_read() {
    for deflated in [false, true] {
        let short = Entry::new("short", npy("<f8", "1,", &[0; 8]), deflated);
        let wide = Entry::new("wide", npy("|u1", "1, 100, 100", &[7; 10_000]), deflated);
        assert_eq!(columns(archive(&[short, wide])), Ok(10_001));
        let texts = Entry::new("texts", npy("<U5", "2,", &[0; 40]), deflated);
        assert_eq!(columns(archive(&[texts])), Ok(1));
    }
    // As dense as deflate can be.
    let dense = npy("|u1", "1, 1000000", &vec![0; 1_000_000]);
    assert_eq!(columns(archive(&[Entry::new("dense", dense, true)])), Ok(1_000_000));
}

/// Found by fuzzing: the directory said that there were bytes for as many columns as the shape said.
#[test]
fn an_array_is_not_as_long_as_its_directory_says() {
    let wide = || npy("<f8", &"2, ".repeat(21), &[0; 16]);
    for deflated in [false, true] {
        let mut entry = Entry::new("y", wide(), deflated);
        entry.full = Some(u32::MAX - 1);
        refused(&[entry], "array \"y\" is shorter than the directory says");
    }
    // Within what its packed bytes could stand for, but not what they do.
    let mut state = 1u32;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    let noise: Vec<u8> = (0..8000).map(|_| noise()).collect();
    let mut entry = Entry::new("y", npy("|u1", "1, 2000000", &noise), true);
    entry.full = Some(2_000_100);
    refused(&[entry], "array \"y\" is shorter than its shape says");
    // Enough bytes for as many elements of one byte, but they have eight.
    let entry = Entry::new("y", npy("<f8", "1, 1000", &[0; 1000]), false);
    refused(&[entry], "array \"y\" is shorter than its shape says");
}

#[test]
fn an_array_is_not_where_its_directory_says() {
    let array = || npy("<f8", "1,", &[0; 8]);
    for (packed, place, expected) in [
        (Some(5000), None, "reaches beyond the end"),
        (Some(u32::MAX), None, "reaches beyond the end"),
        (None, Some(4000), "reaches beyond the end"),
        (None, Some(1), "is not where the directory says"),
    ] {
        let mut entry = Entry::new("y", array(), true);
        (entry.packed, entry.place) = (packed, place);
        refused(&[entry], expected);
    }
    let mut other = Entry::new("b", array(), true);
    other.place = Some(0);
    let bytes = archive(&[Entry::new("a", array(), true), other]);
    let file = Npz::of(Path::new("two.npz"), bytes).unwrap();
    assert!(file.array("a").is_ok());
    let error = file.array("b").unwrap_err().to_string();
    assert!(error.contains("array \"b\" is not where the directory says"), "{error}");
}

/// The same packed bytes under many names would be unpacked as often.
#[test]
fn arrays_share_neither_bytes_nor_names() {
    let array = || npy("<f8", "1,", &[0; 8]);
    let twice = [Entry::new("y", array(), true), Entry::new("y", array(), true)];
    refused(&twice, "it has two arrays \"y\"");
    // The first reaches over the header and the bytes of the second.
    let mut first = Entry::new("a", array(), true);
    first.packed = Some(150);
    refused(&[first, Entry::new("b", array(), true)], "its arrays overlap");
}

#[test]
fn names_of_columns_are_bounded() {
    // Each of a million columns would have the name of the array.
    let wide = npy("|u1", "1, 1000000", &vec![0; 1_000_000]);
    let long = Entry::new(&"n".repeat(2000), wide, true);
    refused(&[long], "has more columns than a table can");
    // Each of the names would have thousands of indices.
    let shape = format!("1, {} 100, 100", "1, ".repeat(3000));
    let deep = Entry::new("y", npy("|u1", &shape, &[0; 10_000]), true);
    refused(&[deep], "it has more than 64 axes");
}
