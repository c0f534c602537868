//! Files of which a bit has turned, or the end is missing or too long: refused, or read as what they were.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod archive;

use archive::{Entry, Kept, archive, npy};
use flate2::Compression;
use flate2::write::GzEncoder;
use optfilter_table::npz::Npz;
use optfilter_table::{ColumnKind, Format, Rows, Source, TableError, TableReader, Wanted};
use std::io::{Cursor, Write};
use std::path::Path;

/// The numbers of column `y`, of a file and of a pipe, which say the same.
fn read(bytes: &[u8], format: Format) -> Result<Vec<f64>, String> {
    let of = |source: Source| {
        let wanted =
            |_: &[String]| vec![Wanted { column: "y".into(), kind: ColumnKind::Measurement }];
        let mut reader = TableReader::open(source, format, wanted)?;
        let mut rows = Rows::default();
        while reader.read(&mut rows, 7)? {}
        Ok(rows.values)
    };
    let said = |read: Result<Vec<f64>, TableError>| read.map_err(|e| e.to_string());
    let file = said(of(Kept::new(bytes).source()));
    let pipe = said(of(Source::Stream(Box::new(Cursor::new(bytes.to_vec())))));
    assert_eq!(file, pipe);
    pipe
}

fn numbers() -> Vec<f64> {
    (0..50).map(|k| f64::from(k) * 0.37).collect()
}

fn array() -> Vec<u8> {
    let data: Vec<u8> = numbers().iter().flat_map(|v| v.to_le_bytes()).collect();
    npy("<f8", "50,", &data)
}

/// Every bit of an archive, one after the other, is turned: nothing but what does not bear on the numbers may pass.
#[test]
fn an_archive_in_which_a_bit_has_turned_gives_no_other_numbers() {
    for deflated in [false, true] {
        let good = archive(&[Entry::new("y", array(), deflated)]);
        assert_eq!(read(&good, Format::Npz), Ok(numbers()));
        let (mut refused, mut total) = (0, 0);
        for at in 0..good.len() {
            for bit in 0..8 {
                // All of the ends, and a part of the middle.
                if at > 60 && at + 120 < good.len() && (at + bit) % 5 > 0 {
                    continue;
                }
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                total += 1;
                match read(&bad, Format::Npz) {
                    Ok(values) => assert_eq!(values, numbers(), "byte {at}, bit {bit}"),
                    Err(_) => refused += 1,
                }
                let whole = Npz::of(Path::new("a.npz"), bad).and_then(|file| file.array("y"));
                assert!(whole.is_err() || whole.unwrap().doubles() == numbers());
            }
        }
        assert!(refused * 10 > total * 6, "{refused} of {total}");
    }
}

#[test]
fn a_checksum_that_is_wrong_is_named() {
    for deflated in [false, true] {
        let entry = Entry { crc: Some(7), ..Entry::new("y", array(), deflated) };
        let error = read(&archive(&[entry]), Format::Npz).unwrap_err();
        assert!(error.contains("array \"y\" is damaged: its checksum (CRC-32)"), "{error}");
        // What is not asked for may be what it likes.
        let other = Entry { crc: Some(7), ..Entry::new("z", array(), deflated) };
        let both = archive(&[other, Entry::new("y", array(), deflated)]);
        assert_eq!(read(&both, Format::Npz), Ok(numbers()));
    }
}

#[test]
fn an_archive_ends_where_it_says() {
    let good = archive(&[Entry::new("y", array(), false)]);
    for (bytes, why) in [
        ([&good[..], b"x"].concat(), "something follows its directory"),
        (good[..good.len() - 1].to_vec(), "no zip directory"),
        (good[..good.len() - 22].to_vec(), "no zip directory"),
    ] {
        let error = read(&bytes, Format::Npz).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    // A comment is part of the end.
    let mut commented = good.clone();
    let length = commented.len();
    commented[length - 2] = 5;
    commented.extend(b"hello");
    assert_eq!(read(&commented, Format::Npz), Ok(numbers()));
    // The header in front of an array says something else than the directory.
    for at in [8, 14, 18, 22] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let error = read(&bytes, Format::Npz).unwrap_err();
        assert!(error.contains("contradicts the directory"), "{at}: {error}");
    }
    let mut secret = good.clone();
    let directory = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    secret[directory + 8] = 1;
    assert!(read(&secret, Format::Npz).unwrap_err().contains("is encrypted"));
}

#[test]
fn an_array_alone_has_as_many_bytes_as_it_says() {
    let good = array();
    let values = |bytes: &[u8]| read(bytes, Format::Npy);
    assert_eq!(values(&good), Ok(numbers()));
    assert!(values(&good[..good.len() - 1]).is_err());
    assert!(values(&[&good[..], b"\0"].concat()).is_err());
}

#[test]
fn packed_text_is_checked() {
    let text: String = numbers().iter().map(|v| format!("{v}\n")).collect();
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(format!("y\n{text}").as_bytes()).unwrap();
    let good = out.finish().unwrap();
    assert_eq!(read(&good, Format::Csv), Ok(numbers()));
    let end = good.len();
    // The checksum, the length, a part of the end, and something after it.
    for (at, mask) in [(end - 8, 1), (end - 4, 1), (end / 2, 4)] {
        let mut bad = good.clone();
        bad[at] ^= mask;
        assert!(read(&bad, Format::Csv).is_err(), "{at}");
    }
    assert!(read(&good[..end - 3], Format::Csv).is_err());
    assert!(read(&[&good[..], b"rubbish"].concat(), Format::Csv).is_err());
    // Two of them are one text.
    let twice = read(&[&good[..], &good].concat(), Format::Csv);
    assert!(twice.unwrap_err().contains("\"y\" is not"));
}

/// Written by pyarrow with a checksum in every page.
#[cfg(feature = "parquet")]
#[test]
fn pages_that_carry_a_checksum_are_held_to_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/checksums.parquet");
    let good = std::fs::read(path).unwrap();
    let values: Vec<f64> = (0..64).map(|k| f64::from(k) / 8.0).collect();
    assert_eq!(read(&good, Format::Parquet), Ok(values));
    let at = good.windows(8).position(|w| w == 3.125f64.to_le_bytes()).unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1;
    let error = read(&bad, Format::Parquet).unwrap_err();
    assert!(error.contains("CRC"), "{error}");
}
