//! Tables in NumPy's files: what NumPy wrote is read, and what is written is what NumPy would write.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod shared;

use optfilter_table::{
    ColumnKind, Format, OutputColumn, Rows, Source, TableError, TableReader, TableWriter,
    TextBounds, Wanted,
};
use shared::Shared;
use std::fs::File;
use std::io::Cursor;
use std::path::Path;

const SECONDS: ColumnKind = ColumnKind::Time { seconds_per_unit: 1.0 };
const NUMBER: ColumnKind = ColumnKind::Measurement;

fn golden(name: &str) -> Source {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    Source::File(File::open(path).unwrap())
}

fn read(
    source: Source,
    format: Format,
    columns: &[(&str, ColumnKind)],
) -> Result<(Vec<String>, Rows), TableError> {
    let wanted = |_: &[String]| {
        columns.iter().map(|(c, kind)| Wanted { column: (*c).to_owned(), kind: *kind }).collect()
    };
    let mut reader = TableReader::open(source, format, wanted)?;
    let mut rows = Rows::default();
    while reader.read(&mut rows, 1)? {}
    Ok((reader.columns().to_vec(), rows))
}

#[test]
fn arrays_are_columns_and_fields() {
    let columns =
        [("when", SECONDS), ("x[2]", NUMBER), ("level", NUMBER), ("T[1,0]", ColumnKind::Input)];
    let (header, rows) = read(golden("table.npz"), Format::Npz, &columns).unwrap();
    let all = "when level x[0] x[1] x[2] T[0,0] T[0,1] T[1,0] T[1,1] short objects";
    assert_eq!(header.join(" "), all);
    // 2026-11-15 is day 20,772 of 1970's calendar.
    let day = 20_772.0 * 86_400.0;
    assert_eq!(rows.rows, 2);
    assert!(rows.calendar);
    assert_eq!(rows.values[..6], [day + 1.5, 2.0, 1.5, 2.0, day + 2.0, 5.0]);
    assert!(rows.values[6].is_nan() && rows.values[7] == 6.0, "{:?}", rows.values);
    assert_eq!(rows.time_text(0), Some(&b"2026-11-15T00:00:01.5Z"[..]));
    let (header, rows) = read(golden("table.npy"), Format::Npy, &[("y[1]", NUMBER)]).unwrap();
    assert_eq!((header.join(" "), rows.values), ("y[0] y[1]".to_owned(), vec![1.0, 3.0]));
}

/// A packed array may be a thousand times as long as its file: who may send anything is stopped before it is unpacked.
#[test]
fn arrays_of_strangers_are_bounded() {
    let read_within = |bytes: u64| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/table.npz");
        let bounds = TextBounds { text: bytes, line: 100 };
        let source = Source::Bounded(Box::new(File::open(path).unwrap()), bounds);
        read(source, Format::Npz, &[("level", NUMBER), ("x[2]", NUMBER)])
    };
    assert_eq!(read_within(1000).unwrap().1.rows, 2);
    let error = read_within(200).unwrap_err().to_string();
    assert!(error.contains("array \"x\" unpacks to 1"), "{error}");
    assert!(error.contains("bytes, more than there is room for"), "{error}");
}

#[test]
fn what_is_no_table_says_why() {
    for (columns, expected) in [
        (&[("level", NUMBER), ("short", NUMBER)][..], "\"level\" has 2 rows and \"short\" has 1"),
        (&[("objects", NUMBER)], "holds Python objects"),
        (&[("scalar", NUMBER)], "there is no column \"scalar\""),
        (&[("when", NUMBER)], "\"2026-11-15T00:00:01.5Z\" is not a number"),
        (&[("level", ColumnKind::Input)], "line 2, column \"level\": \"NaN\" is not a number"),
    ] {
        let error = read(golden("table.npz"), Format::Npz, columns).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let text = || Source::Stream(Box::new(Cursor::new(b"y\n1\n".to_vec())));
    for format in [Format::Npz, Format::Npy] {
        let error = read(text(), format, &[]).unwrap_err().to_string();
        assert!(error.starts_with("not a readable NumPy file"), "{error}");
    }
    let error = read(golden("table.npz"), Format::Csv, &[]).unwrap_err().to_string();
    assert!(error.contains("NumPy archive") && error.contains("name it .npz"), "{error}");
}

#[test]
fn what_is_written_reads_back() {
    let number = |name: &str| OutputColumn::Number(name.into());
    let columns = || {
        let mut columns = vec![OutputColumn::Time("t".into())];
        columns.extend(["x[0]", "x[0]_std", "x[1]", "x[1]_std", "z"].map(number));
        columns.push(OutputColumn::Flag("flag".into()));
        columns
    };
    let rows = [[0.5, 1.0, 0.1, f64::NAN, 0.2, 7.0, 0.0], [1.5, 3.0, 0.3, 4.0, 0.4, 8.0, 3.0]];
    let wanted =
        [("t", SECONDS), ("x[1]", NUMBER), ("x_std[0]", NUMBER), ("flag", ColumnKind::Label)];
    for (texts, calendar) in [(["0.5", "1.5"], false), (["1970-01-01", "1970-01-02"], true)] {
        let out = Shared::default();
        let mut writer =
            TableWriter::new(Box::new(out.clone()), Format::Npz, columns(), false).unwrap();
        for (row, text) in rows.iter().zip(texts) {
            writer.row(row, Some(text.as_bytes())).unwrap();
        }
        writer.finish().unwrap();
        let bytes = out.0.lock().unwrap().clone();
        let source = Source::Stream(Box::new(Cursor::new(bytes)));
        let (header, read) = read(source, Format::Npz, &wanted).unwrap();
        assert_eq!(header.join(" "), "t x[0] x[1] x_std[0] x_std[1] z flag");
        let times = if calendar { [0.0, 86_400.0] } else { [0.5, 1.5] };
        assert_eq!(read.calendar, calendar);
        assert!(read.values[1].is_nan());
        assert_eq!([read.values[0], read.values[4]], times);
        assert_eq!([read.values[2], read.values[5], read.values[6]], [0.1, 4.0, 0.3]);
        assert_eq!(read.labels, ["ok", "outlier"]);
    }
    let out = Shared::default();
    let mut writer =
        TableWriter::new(Box::new(out.clone()), Format::Npy, columns(), false).unwrap();
    rows.iter().for_each(|row| writer.row(row, None).unwrap());
    writer.finish().unwrap();
    let source = Source::Stream(Box::new(Cursor::new(out.0.lock().unwrap().clone())));
    let (_, read) = read(source, Format::Npy, &[("y[1]", NUMBER), ("y[6]", NUMBER)]).unwrap();
    assert_eq!(read.values, [1.0, 0.0, 3.0, 3.0]);
}

#[test]
fn an_array_that_says_it_is_wide_is_refused_before_its_columns_are_named() {
    let shape = format!("(1, {})", "2, ".repeat(21));
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(1.5f64.to_le_bytes());
    let source = Source::Stream(Box::new(Cursor::new(bytes)));
    let error = read(source, Format::Npy, &[]).unwrap_err().to_string();
    assert!(error.contains("is shorter than its shape says"), "{error}");
}
