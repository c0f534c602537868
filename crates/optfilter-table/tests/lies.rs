//! Archives of arrays that claim what they do not hold: refused by their bytes, before anything is done by their word.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod archive;

use archive::{Entry, Kept, archive, npy};
use optfilter_table::npz::Npz;
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader, Wanted};
use std::io::Cursor;
use std::path::Path;

/// The number of columns of an archive; wants the first of them. A file, which is read where it is needed, and a pipe, which is held, say
/// the same.
fn columns(bytes: Vec<u8>) -> Result<usize, String> {
    let of = |source: Source| {
        let want = |names: &[String]| {
            vec![Wanted { column: names[0].clone(), kind: ColumnKind::Measurement }]
        };
        let reader = TableReader::open(source, Format::Npz, want).map_err(|e| e.to_string())?;
        Ok(reader.columns().len())
    };
    let file = of(Kept::new(&bytes).source());
    let pipe = of(Source::Stream(Box::new(Cursor::new(bytes))));
    assert_eq!(file, pipe);
    pipe
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
    refused(&[entry], "bytes instead of 2000100");
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

/// All of a table with three columns, or the rows before an error with what it says.
fn all(source: Source) -> (Vec<String>, String) {
    let choose = |names: &[String]| {
        let kind = |name: &String| match name.as_str() {
            "kind" => ColumnKind::Category,
            _ => ColumnKind::Measurement,
        };
        names.iter().take(3).map(|n| Wanted { column: n.clone(), kind: kind(n) }).collect()
    };
    let mut rows = Rows::default();
    let mut reader = match TableReader::open(source, Format::Npz, choose) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), error.to_string()),
    };
    let end = loop {
        match reader.read(&mut rows, 7) {
            Ok(true) => {}
            Ok(false) => break String::new(),
            Err(error) => {
                let error = error.to_string();
                // Whoever asks again hears the same, and gets no rows.
                let before = rows.rows;
                assert_eq!(reader.read(&mut rows, 7).unwrap_err().to_string(), error);
                assert_eq!(rows.rows, before);
                break error;
            }
        }
    };
    // Texts, so that numbers that are missing compare.
    (rows.values.iter().map(|v| format!("{v}")).chain(rows.labels).collect(), end)
}

/// Any byte may be wrong: what is read of a file is what is read of the same bytes from a pipe, row by row and word by word.
#[test]
fn a_damaged_file_says_what_damaged_bytes_say() {
    let doubles: Vec<u8> = (0..40).flat_map(|i| (f64::from(i) / 8.0).to_le_bytes()).collect();
    let texts: Vec<u8> =
        "updown".repeat(10).chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
    for deflated in [false, true] {
        let good = archive(&[
            Entry::new("x", npy("<f8", "20, 2", &doubles), deflated),
            Entry::new("kind", npy("<U3", "20,", &texts), deflated),
        ]);
        let (values, error) = all(Kept::new(&good).source());
        assert_eq!((values.len(), error.as_str()), (20 * 3 + 2, ""));
        let mut wrong = 0;
        for at in 0..good.len() {
            for value in [0x00, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                let file = all(Kept::new(&bytes).source());
                wrong += usize::from(!file.1.is_empty());
                let pipe = all(Source::Stream(Box::new(Cursor::new(bytes))));
                assert_eq!(file, pipe, "byte {at} is {value}");
            }
            // And a file may end early.
            let bytes = good[..at].to_vec();
            let file = all(Kept::new(&bytes).source());
            assert!(!file.1.is_empty(), "the first {at} bytes are a table");
            assert_eq!(file, all(Source::Stream(Box::new(Cursor::new(bytes)))), "{at} bytes");
        }
        assert!(wrong > 100, "{wrong}");
    }
}

/// What is packed is longer or shorter than its directory says: an error before any row is given.
#[test]
fn an_array_that_ends_early_or_late_gives_no_row() {
    // More than a block of rows, and too few columns for all of them to be unpacked beforehand.
    let bytes: Vec<u8> =
        (0..30_000u32).flat_map(|i| f64::from(i * i % 8191).to_le_bytes()).collect();
    let told = npy("<f8", "30000,", &bytes);
    for less in [8, 0] {
        let shape = if less > 0 { "30000," } else { "29999," };
        let mut data = npy("<f8", shape, &bytes);
        let full = data.len() - if less > 0 { 0 } else { 8 };
        data.truncate(data.len() - less);
        let mut entry = Entry::new("y", data, true);
        entry.full = Some(full as u32);
        let (values, error) = all(Kept::new(&archive(&[entry])).source());
        assert!(error.contains("array \"y\" has") && error.contains("bytes instead of"), "{error}");
        assert_eq!(values.len(), 0);
    }
    let (values, error) = all(Kept::new(&archive(&[Entry::new("y", told, true)])).source());
    assert_eq!((values.len(), error.as_str()), (30_000, ""));
}

/// A file that is cut while it is being read ends with an error.
#[test]
fn a_file_that_shrinks_is_an_error() {
    let bytes: Vec<u8> = (0..100_000).flat_map(|i| f64::from(i).to_le_bytes()).collect();
    let kept = Kept::new(&archive(&[Entry::new("y", npy("<f8", "100000,", &bytes), false)]));
    let want =
        |names: &[String]| vec![Wanted { column: names[0].clone(), kind: ColumnKind::Measurement }];
    let mut reader = TableReader::open(kept.source(), Format::Npz, want).unwrap();
    let mut rows = Rows::default();
    assert!(reader.read(&mut rows, 10).unwrap());
    std::fs::OpenOptions::new().write(true).open(kept.path()).unwrap().set_len(400_000).unwrap();
    let error = loop {
        match reader.read(&mut rows, 1000) {
            Ok(more) => assert!(more, "the end of what is gone"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        error.contains("array \"y\" has 3999") && error.contains("bytes instead of 80"),
        "{error}"
    );
    assert_eq!(rows.values, (0..rows.rows).map(|i| i as f64).collect::<Vec<_>>());
}

/// Beyond 4 GB, or 65,534 arrays, an archive has a wide record before the one at its end.
#[test]
fn directories_of_large_archives_are_found() {
    let entries = [Entry::new("y", npy("<f8", "2,", &[0; 16]), false)];
    let plain = archive(&entries);
    let end = plain.len() - 22;
    let at = u64::from(u32::from_le_bytes(plain[end + 16..end + 20].try_into().unwrap()));
    let mut wide = b"PK\x06\x06".to_vec();
    wide.extend(44u64.to_le_bytes());
    wide.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    wide.extend([1u64, 1, end as u64 - at, at].map(u64::to_le_bytes).concat());
    let mut locator = b"PK\x06\x07\0\0\0\0".to_vec();
    locator.extend((end as u64).to_le_bytes());
    locator.extend(1u32.to_le_bytes());
    let mut last = plain[end..].to_vec();
    last[8..12].fill(0xff);
    last[16..20].fill(0xff);
    let bytes = [&plain[..end], &wide, &locator, &last].concat();
    assert_eq!(columns(bytes.clone()), Ok(1));
    // It may lie as well.
    for (place, value) in [(end + 32, 0xff), (end + 48, 0xff), (end, 0), (end + 56 + 8, 0xff)] {
        let mut bytes = bytes.clone();
        bytes[place] = value;
        let error = columns(bytes).unwrap_err();
        assert!(error.contains("directory"), "{error}");
    }
}
