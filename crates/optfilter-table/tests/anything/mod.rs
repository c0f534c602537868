//! What must hold for any bytes: whole rows of numbers, or an error. For the fuzz targets, and for the test that
//! replays what they have found.
#![allow(dead_code)] // each user has its own part

use optfilter_table::npz::Npz;
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader, Wanted, parse_time};
use std::path::Path;

/// A table of text or an npz archive; the first byte chooses.
pub fn table(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    match kind % 4 {
        0 => rows(bytes, Format::Csv),
        1 => rows(bytes, Format::Tsv),
        2 => rows(bytes, Format::JsonLines),
        _ => {
            rows(bytes, Format::Npz);
            rows(bytes, Format::Npy);
            if let Ok(file) = Npz::of(Path::new("any.npz"), bytes.to_vec()) {
                for name in file.names() {
                    let _ = (file.array(name), file.texts(name));
                }
            }
        }
    }
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
    for (i, row) in rows.values.chunks_exact(width.max(1)).enumerate() {
        assert!(row[0].is_finite() && row.iter().all(|v| !v.is_infinite()));
        let text = std::str::from_utf8(rows.time_text(i).unwrap()).unwrap();
        assert_eq!(parse_time(text).is_some() && text.parse::<f64>().is_err(), rows.calendar);
        assert!(width == 1 || rows.labels.get(row[width - 1] as usize).is_some());
    }
}
