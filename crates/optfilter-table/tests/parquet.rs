//! Parquet tables: those of pandas are read, ours read back, and what cannot be read says so.
#![cfg(feature = "parquet")]
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod shared;

use optfilter_table::{
    ColumnKind, Format, OutputColumn, Rows, Source, TableError, TableReader, TableWriter, Wanted,
};
use shared::Shared;

const HOURS: ColumnKind = ColumnKind::Time { seconds_per_unit: 3600.0 };

fn wanted(columns: &[(&str, ColumnKind)]) -> Vec<Wanted> {
    columns.iter().map(|(c, kind)| Wanted { column: (*c).to_owned(), kind: *kind }).collect()
}

fn read(source: Source, columns: &[(&str, ColumnKind)]) -> Result<Rows, TableError> {
    let mut reader = TableReader::open(source, Format::Parquet, |_| wanted(columns))?;
    let mut batch = Rows::default();
    while reader.read(&mut batch, 7)? {}
    Ok(batch)
}

fn golden(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Writes rows of a time, a number and a flag.
fn written(rows: &[(f64, Option<&str>, f64, usize)]) -> Vec<u8> {
    let columns = vec![
        OutputColumn::Time("when".into()),
        OutputColumn::Number("x".into()),
        OutputColumn::Flag("flag".into()),
    ];
    let out = Shared::default();
    let mut writer =
        TableWriter::new(Box::new(out.clone()), Format::Parquet, columns, false).unwrap();
    for (time, text, x, flag) in rows {
        writer.row(&[*time, *x, *flag as f64], text.map(str::as_bytes)).unwrap();
    }
    writer.finish().unwrap();
    out.0.lock().unwrap().clone()
}

fn from_bytes(bytes: Vec<u8>) -> Source {
    Source::Stream(Box::new(std::io::Cursor::new(bytes)))
}

#[test]
fn a_table_of_pandas_is_read() {
    let columns = [
        ("speed", ColumnKind::Measurement),
        ("when", HOURS),
        ("count", ColumnKind::Input),
        ("single", ColumnKind::Measurement),
    ];
    for file in [true, false] {
        let path = golden("pandas.parquet");
        let source = if file {
            Source::File(std::fs::File::open(path).unwrap())
        } else {
            from_bytes(std::fs::read(path).unwrap())
        };
        let batch = read(source, &columns).unwrap();
        assert_eq!(batch.rows, 40);
        assert!(batch.calendar);
        // `date -u -d 2026-11-15T13:00:00Z +%s`
        let start = 1_794_747_600.0;
        for (k, row) in batch.values.chunks(4).enumerate() {
            let n = k as f64;
            if k % 5 == 3 {
                assert!(row[0].is_nan());
            } else {
                assert_eq!(row[0], n * 0.125);
            }
            assert_eq!(row[1], (start + 1.5 * n) / 3600.0);
            assert_eq!(row[2], ((k * 7) % 11) as f64);
            assert_eq!(row[3], n / 8.0);
        }
        assert_eq!(batch.time_text(0), Some(&b"2026-11-15T13:00:00Z"[..]));
        assert_eq!(batch.time_text(3), Some(&b"2026-11-15T13:00:04.5Z"[..]));
    }
}

#[test]
fn dates_and_gzip_are_read() {
    let days = ColumnKind::Time { seconds_per_unit: 86_400.0 };
    let path = golden("dates.parquet");
    let batch = read(Source::File(std::fs::File::open(path).unwrap()), &[("when", days)]).unwrap();
    let first = 1_794_700_800.0 / 86_400.0;
    assert_eq!(batch.values, (0..40).map(|k| first + f64::from(k)).collect::<Vec<_>>());
    assert_eq!(batch.time_text(39), Some(&b"2026-12-24T00:00:00Z"[..]));
}

#[test]
fn what_is_written_reads_back_over_several_row_groups() {
    // More rows than a row group holds (65536).
    let rows: Vec<_> = (0..150_000)
        .map(|k| {
            let x = if k % 3 == 0 { f64::NAN } else { (f64::from(k)).sqrt() };
            (f64::from(k) / 8.0, None, x, 1)
        })
        .collect();
    let bytes = written(&rows);
    let columns =
        [("x", ColumnKind::Measurement), ("when", ColumnKind::Time { seconds_per_unit: 1.0 })];
    let batch = read(from_bytes(bytes), &columns).unwrap();
    assert_eq!(batch.rows, rows.len());
    assert!(!batch.calendar);
    for ((time, _, x, _), row) in rows.iter().zip(batch.values.chunks(2)) {
        assert_eq!((x.to_bits(), time.to_bits()), (row[0].to_bits(), row[1].to_bits()));
    }
}

#[test]
fn calendar_times_stay_calendar_times() {
    let bytes = written(&[
        (0.0, Some("2026-11-15T13:00:00.25Z"), 1.0, 0),
        (1.0, Some("2026-11-15 16:00:00+02:00"), 2.0, 0),
    ]);
    let batch = read(from_bytes(bytes), &[("when", HOURS)]).unwrap();
    let start = 1_794_747_600.0;
    assert!(batch.calendar);
    assert_eq!(batch.values, [(start + 0.25) / 3600.0, (start + 3600.0) / 3600.0]);
    assert_eq!(batch.time_text(1), Some(&b"2026-11-15T14:00:00Z"[..]));
}

#[test]
fn a_table_without_rows_has_its_columns() {
    let bytes = written(&[]);
    let mut reader = TableReader::open(from_bytes(bytes), Format::Parquet, |_| Vec::new()).unwrap();
    assert_eq!(reader.columns(), ["when", "x", "flag"]);
    assert!(!reader.read(&mut Rows::default(), 1).unwrap());
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let good = std::fs::read(golden("pandas.parquet")).unwrap();
    assert!(read(from_bytes(Vec::new()), &[]).is_err());
    assert!(read(from_bytes(b"speed,when\n1,2\n".to_vec()), &[]).is_err());
    let columns = [("speed", ColumnKind::Measurement), ("when", HOURS)];
    for cut in (0..good.len()).step_by(97) {
        assert!(read(from_bytes(good[..cut].to_vec()), &columns).is_err(), "{cut}");
    }
    for at in (0..good.len()).step_by(13) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        let _ = read(from_bytes(bytes), &columns); // whatever it says, it says it
    }
    let text = [("comment", ColumnKind::Measurement)];
    let error = read(from_bytes(good), &text).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("comment") && error.contains("row 0"), "{error}");
}

#[test]
fn zstd_and_lz4_are_read_in_pages_of_both_versions() {
    let days = ColumnKind::Time { seconds_per_unit: 86_400.0 };
    let columns = [
        ("step", ColumnKind::Measurement),
        ("when", days),
        ("count", ColumnKind::Input),
        ("speed", ColumnKind::Measurement),
    ];
    for name in ["zstd1.parquet", "zstd2.parquet", "lz4.parquet"] {
        let rows =
            read(Source::File(std::fs::File::open(golden(name)).unwrap()), &columns).unwrap();
        assert_eq!(rows.rows, 40, "{name}");
        for (k, row) in rows.values.chunks(4).enumerate() {
            let n = k as f64;
            let seen = |v: f64| if k % 5 == 3 { f64::NAN } else { v };
            let expected =
                [seen((k / 4) as f64), 20772.0 + n, ((k * 7) % 11) as f64, seen(n / 8.0)];
            for (a, b) in row.iter().zip(expected) {
                assert!(*a == b || a.is_nan() && b.is_nan(), "{name}, row {k}: {row:?}");
            }
        }
    }
    // Damage is an error here as well.
    let good = std::fs::read(golden("zstd2.parquet")).unwrap();
    for at in (4..good.len()).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x55;
        let _ = read(from_bytes(bytes), &columns[..1]);
    }
}

#[test]
fn what_cannot_be_unpacked_is_refused_before_the_first_row() {
    let file = std::fs::File::open(golden("brotli.parquet")).unwrap();
    let choose = |_: &[String]| wanted(&[("speed", ColumnKind::Measurement)]);
    let opened = TableReader::open(Source::File(file), Format::Parquet, choose);
    let error = opened.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("zstd") && error.contains("snappy"), "{error}");
}

#[test]
fn timestamps_of_older_programs_are_calendar_times() {
    let days = ColumnKind::Time { seconds_per_unit: 86_400.0 };
    let file = std::fs::File::open(golden("int96.parquet")).unwrap();
    let rows = read(Source::File(file), &[("when", days)]).unwrap();
    assert_eq!(rows.values[..2], [20772.0, 20773.0]);
    assert!(rows.calendar);
}

/// As in a CSV: infinity is a mistake, not a gap, and a time must be one that a calendar has.
#[test]
fn values_that_are_none_are_named_as_in_other_tables() {
    let open = || Source::File(std::fs::File::open(golden("odd.parquet")).unwrap());
    let error = read(open(), &[("odd", ColumnKind::Measurement)]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("\"inf\" is not a finite number"), "{error}");
    let error = read(open(), &[("far", HOURS)]).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("year 9999"), "{error}");
}

#[test]
fn a_file_of_another_kind_is_named() {
    for (bytes, expected) in [
        (&b"ARROW1\0\0........"[..], "an Arrow or Feather file"),
        (b"speed,when\n1,2\n", "not a Parquet file"),
        (b"PARE....PARE", "encrypted"),
    ] {
        let error = read(from_bytes(bytes.to_vec()), &[]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
