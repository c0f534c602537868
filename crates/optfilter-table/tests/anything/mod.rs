//! What must hold for any bytes: whole rows of numbers, or an error. For the fuzz targets, and for the test that
//! replays what they have found.
#![allow(dead_code)] // each user has its own part

use optfilter_table::npz::Npz;
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader, Trail, Wanted, parse_time};
use std::path::Path;

/// A table of text or an npz archive; the first byte chooses.
pub fn table(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 4 {
        0 => rows(bytes, Format::Csv),
        1 => rows(bytes, Format::Tsv),
        2 => rows(bytes, Format::JsonLines),
        _ => {
            rows(bytes, Format::Npy);
            // As it is, and with the checksums that it should have, which nobody guesses.
            for bytes in [bytes.to_vec(), mended(bytes)] {
                rows(&bytes, Format::Npz);
                if let Ok(file) = Npz::of(Path::new("any.npz"), bytes) {
                    for name in file.names() {
                        let _ = (file.array(name), file.texts(name));
                    }
                }
            }
        }
    }
}

/// An archive with the checksums of its stored entries, as far as it is one.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let number = |at: usize, length: usize| -> Option<usize> {
        let field = bytes.get(at..at.checked_add(length)?)?;
        Some(field.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)))
    };
    let entries = bytes.windows(4).enumerate().filter(|(_, w)| *w == b"PK\x01\x02");
    for (at, _) in entries.take(64) {
        let whole = || {
            let (length, place) = (number(at + 20, 4)?, number(at + 42, 4)?);
            let start = place + 30 + number(place + 26, 2)? + number(place + 28, 2)?;
            Some((place, bytes.get(start..start.checked_add(length)?)?))
        };
        let Some((place, data)) = whole() else { continue };
        let crc = data.iter().fold(u32::MAX, |crc, byte| {
            let turn = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            (0..8).fold(crc ^ u32::from(*byte), turn)
        });
        for at in [at + 16, place + 14] {
            if let Some(field) = out.get_mut(at..at + 4) {
                field.copy_from_slice(&(!crc).to_le_bytes());
            }
        }
    }
    out
}

/// A Parquet file.
pub fn parquet(data: &[u8]) {
    rows(data, Format::Parquet);
}

fn rows(bytes: &[u8], format: Format) {
    let input = Source::Stream(Box::new(std::io::Cursor::new(bytes.to_vec())));
    // The first column as time, the last as names, the others as measurements, whatever they are called. An array of
    // one value may have millions of them in a kilobyte; enough of them are enough.
    let mut width = 0;
    let choose = |columns: &[String]| {
        width = columns.len().min(10_000);
        let kind = |i| match i {
            0 => ColumnKind::Time { seconds_per_unit: 1.0 },
            _ if i + 1 == width => ColumnKind::Label,
            _ => ColumnKind::Measurement,
        };
        columns
            .iter()
            .take(width)
            .enumerate()
            .map(|(i, c)| Wanted { column: c.clone(), kind: kind(i) })
            .collect()
    };
    let Ok(mut reader) = TableReader::open(input, format, choose) else { return };
    let mut rows = Rows::default();
    // `{}` is a row of nothing; enough of them are enough.
    while rows.rows < 10_000 && matches!(reader.read(&mut rows, 3), Ok(true)) {}
    assert_eq!(rows.values.len(), rows.rows * width);
    let mut trail = Trail::default();
    for row in 0..rows.rows {
        trail.add(&rows, row, width, width.checked_sub(1));
        assert_eq!(trail.parted(&trail), None);
    }
    if rows.rows > 0 {
        let (mut before, torn) = (rows.clone(), rows.torn);
        let last = before.split_last(width);
        assert_eq!((last.rows, last.torn, before.rows + 1), (1, torn, rows.rows));
        assert_eq!([before.values, last.values.clone()].concat().len(), rows.values.len());
        assert_eq!(last.time_text(0), rows.time_text(rows.rows - 1));
    }
    for (i, row) in rows.values.chunks_exact(width.max(1)).enumerate() {
        assert!(row[0].is_finite() && row.iter().all(|v| !v.is_infinite()));
        let text = std::str::from_utf8(rows.time_text(i).unwrap()).unwrap();
        assert_eq!(parse_time(text).is_some() && text.parse::<f64>().is_err(), rows.calendar);
        assert!(width == 1 || rows.labels.get(row[width - 1] as usize).is_some());
    }
}
