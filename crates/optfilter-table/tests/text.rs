//! CSV, TSV and JSON lines in their corners.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod shared;

use optfilter_table::{
    ColumnKind, Format, OutputColumn, Rows, Source, TableError, TableReader, TableWriter,
    TimeStyle, Wanted,
};
use shared::Shared;
use std::io::{Cursor, Read, Write};

const SECONDS: ColumnKind = ColumnKind::Time { seconds_per_unit: 1.0 };

/// Rows, and what went wrong after them.
fn read(bytes: &[u8], format: Format, columns: &[(&str, ColumnKind)]) -> (Rows, Option<String>) {
    read_from(Box::new(Cursor::new(bytes.to_vec())), format, columns)
}

fn read_from(
    input: Box<dyn Read + Send>,
    format: Format,
    columns: &[(&str, ColumnKind)],
) -> (Rows, Option<String>) {
    let wanted = |_: &[String]| {
        columns.iter().map(|(c, kind)| Wanted { column: (*c).to_owned(), kind: *kind }).collect()
    };
    let mut rows = Rows::default();
    let mut reader = match TableReader::open(Source::Stream(input), format, wanted) {
        Ok(reader) => reader,
        Err(e) => return (rows, Some(e.to_string())),
    };
    loop {
        match reader.read(&mut rows, 3) {
            Ok(true) => {}
            Ok(false) => return (rows, None),
            Err(e) => {
                assert_eq!(rows.values.len(), rows.rows * columns.len(), "a torn row is left");
                return (rows, Some(e.to_string()));
            }
        }
    }
}

fn numbers(bytes: &[u8], format: Format) -> Vec<f64> {
    let (rows, error) = read(bytes, format, &[("y", ColumnKind::Measurement)]);
    assert_eq!(error, None, "{:?}", String::from_utf8_lossy(bytes));
    rows.values
}

#[track_caller]
fn fails(bytes: &[u8], format: Format, expected: &str) {
    let columns = [("t", SECONDS), ("y", ColumnKind::Measurement)];
    let error = read(bytes, format, &columns).1.unwrap_or_default();
    assert!(error.contains(expected), "said {error:?}, expected {expected:?}");
}

/// As texts, because NaN is not equal to itself.
fn shown(values: &[f64]) -> String {
    values.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_empty_line_of_a_single_column_is_a_missing_measurement() {
    for (text, expected) in [
        ("y\n1\n\n3\n", "1 NaN 3"),
        ("y\n1\n\n3", "1 NaN 3"),
        ("y\r\n1\r\n\r\n3\r\n", "1 NaN 3"),
        ("y\r1\r\r3\r", "1 NaN 3"),
        ("\n# a comment\n\ny\n\n# another\n\n", "NaN NaN"),
        ("y\n1\n", "1"),
        ("y\n\"1\"\n\"\"\n", "1 NaN"),
        ("\u{feff}y\n1\n \n", "1 NaN"),
    ] {
        assert_eq!(shown(&numbers(text.as_bytes(), Format::Csv)), expected, "{text:?}");
        assert_eq!(shown(&numbers(text.as_bytes(), Format::Tsv)), expected, "{text:?}");
    }
    // Between the columns of a wider table, it is nothing.
    assert_eq!(shown(&numbers(b"a,y\n1,2\n\n3,4\n", Format::Csv)), "2 4");
    let (_, error) = read(b"u\n1\n\n", Format::Csv, &[("u", ColumnKind::Input)]);
    assert!(error.unwrap().starts_with("line 3, column \"u\": \"\" is not a number"));
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    for text in [
        "# one\n\na,y\n\n1,2\n# six\n3,x\n",
        "a,y\r\n1,2\r\n\r\n\r\n\r\n# six\r\n3,x\r\n",
        "a,y\r1,2\r\r\r\r\r3,x\r",
        "a,y\n\"1\n2\n3\n4\",5\n3,x",
    ] {
        let (_, error) = read(text.as_bytes(), Format::Csv, &[("y", ColumnKind::Measurement)]);
        let line = if text.contains("\"1\n") { "line 6," } else { "line 7," };
        assert!(error.as_ref().unwrap().starts_with(line), "{text:?}: {error:?}");
    }
}

#[test]
fn calendar_times_mean_the_same_everywhere() {
    for (text, seconds) in [
        ("2026-11-15", 1_794_700_800.0),
        ("2026-11-15T13:04:05.5Z", 1_794_747_845.5),
        ("2026-11-15 15:04:05+02:00", 1_794_747_845.0),
        ("2026-11-15T14:04:05[Europe/Berlin]", 1_794_747_845.0),
    ] {
        for (file, format) in [
            (format!("t\n{text}\n"), Format::Csv),
            (format!("{{\"t\": \"{text}\"}}\n"), Format::JsonLines),
        ] {
            let (rows, error) = read(file.as_bytes(), format, &[("t", SECONDS)]);
            assert_eq!((rows.values, error), (vec![seconds], None), "{file}");
            assert!(rows.calendar);
        }
    }
    let clock = "2026-11-15 14:00:00-\u{1f553}";
    fails(format!("t,y\n{clock},1\n").as_bytes(), Format::Csv, "line 2, column \"t\"");
    let json = format!("{{\"t\": \"{clock}\", \"y\": 1}}");
    fails(json.as_bytes(), Format::JsonLines, "line 1, column \"t\"");
}

#[test]
fn dates_and_numbers_in_one_column_are_a_mistake() {
    let said = "line 4, column \"t\": \"3\" is not a calendar time";
    fails(b"t,y\n2026-11-15,1\n2026-11-16,2\n3,3\n", Format::Csv, said);
    let said = "line 3, column \"t\": \"2026-11-15\" is not a plain number";
    fails(b"t\ty\n1\t1\n2026-11-15\t2\n", Format::Tsv, said);
    let said = "line 2, column \"t\": \"7\" is not a calendar time";
    fails(b"{\"t\":\"2026-11-15\",\"y\":1}\n{\"t\":7,\"y\":1}\n", Format::JsonLines, said);
}

#[test]
fn words_for_numbers_in_json() {
    let text =
        b"{\"y\": NaN}\n{\"y\":null}\n{}\n{\"y\":\"NaN\"}\n{\"a\": \"NaN \\\" NaN\", \"y\": 2}\n";
    assert_eq!(shown(&numbers(text, Format::JsonLines)), "NaN NaN NaN NaN 2");
    let (rows, error) = read(
        b"{\"y\": 1, \"z\": NaN}\n{\"z\": -NaN, \"y\": -Infinity}\n",
        Format::JsonLines,
        &[("y", ColumnKind::Measurement)],
    );
    assert_eq!(rows.values, [1.0]);
    assert!(error.unwrap().starts_with("line 2, column \"y\": \"-Infinity\" is not a finite"));
    // Words stay what they are inside a text, and rubbish stays rubbish.
    fails(b"{\"t\": NaNo}\n", Format::JsonLines, "line 1: not valid JSON at column 7");
}

#[test]
fn files_of_other_kinds_are_named() {
    let utf16: Vec<u8> = "t,y\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&b"\xff\xfe"[..], &utf16].concat();
    let zip = |name: &[u8]| [&b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0"[..], &[0; 16], name].concat();
    for (bytes, expected) in [
        (utf16, "text in UTF-16; save it as UTF-8"),
        (marked, "text in UTF-16; save it as UTF-8"),
        (zip(b"[Content_Types].xml"), "an Excel workbook; save it as CSV"),
        (zip(b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"), "OpenDocument"),
        (zip(b"x.npy"), "a NumPy archive"),
        (zip(b"notes.txt"), "a zip archive"),
        (b"ARROW1\0\0".to_vec(), "an Arrow or Feather file"),
        (b"PAR1\x15\x04".to_vec(), "a Parquet file; name it .parquet"),
        (b"\x89HDF\r\n\x1a\n".to_vec(), "an HDF5 file"),
        (b"\x28\xb5\x2f\xfd....".to_vec(), "compressed with zstd; unpack it"),
        (b"\x01\x02\0\x03".to_vec(), "a binary file"),
    ] {
        for format in [Format::Csv, Format::Tsv, Format::JsonLines] {
            fails(&bytes, format, expected);
        }
    }
}

#[test]
fn what_is_packed_with_gzip_reads_back() {
    let columns = || vec![OutputColumn::Time("t".into()), OutputColumn::Number("y".into())];
    for format in [Format::Csv, Format::Tsv, Format::JsonLines] {
        let out = Shared::default();
        let mut writer =
            TableWriter::new(Box::new(out.clone()), format, columns(), false).unwrap().gzip();
        for k in 0..50_000 {
            writer.row(&[f64::from(k), f64::from(k).sqrt()], None).unwrap();
            if k % 10_000 == 0 {
                writer.flush().unwrap();
            }
        }
        writer.finish().unwrap();
        let packed = out.0.lock().unwrap().clone();
        assert!(packed.starts_with(b"\x1f\x8b"));
        let columns = [("t", SECONDS), ("y", ColumnKind::Measurement)];
        let (rows, error) = read(&packed, format, &columns);
        assert_eq!((rows.rows, error), (50_000, None));
        assert_eq!(rows.values[2 * 49_999 + 1].to_bits(), 49_999f64.sqrt().to_bits());
        // Half of it is an error after the rows that were there; two members are one table.
        let (rows, error) = read(&packed[..packed.len() / 2], format, &columns);
        assert!(rows.rows > 1000 && error.is_some());
    }
    let pack = |text: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    };
    let two = [pack(b"y\n1\n"), pack(b"2\n")].concat();
    assert_eq!(numbers(&two, Format::Csv), [1.0, 2.0]);
    fails(&pack(b"PAR1"), Format::Csv, "a Parquet file");
}

/// Hands out one byte at a time, as a slow sensor does.
struct Drip(Cursor<Vec<u8>>);

impl Read for Drip {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let end = into.len().min(1);
        self.0.read(&mut into[..end])
    }
}

#[test]
fn a_stream_that_comes_byte_by_byte_is_read_as_if_it_came_at_once() {
    let columns = [("a b", ColumnKind::Input), ("y", ColumnKind::Measurement)];
    for text in
        ["# note\n\n\"a b\";c;y\n1;2;3\n4;5;\n", "\u{feff}a b\tc\ty\r\n1\t2\t3\r\n4\t5\t\r\n"]
    {
        let slow = Box::new(Drip(Cursor::new(text.as_bytes().to_vec())));
        let (rows, error) = read_from(slow, Format::Csv, &columns);
        assert_eq!((shown(&rows.values).as_str(), error), ("1 3 4 NaN", None), "{text:?}");
    }
}

#[test]
fn labels_are_numbered_as_they_come() {
    let columns = [("kind", ColumnKind::Label), ("y", ColumnKind::Measurement)];
    let text = b"kind,y\nup,1\n\" down\",2\nup,3\n";
    let (rows, error) = read(text, Format::Csv, &columns);
    assert_eq!((rows.values, error), (vec![0.0, 1.0, 1.0, 2.0, 0.0, 3.0], None));
    assert_eq!(rows.labels, ["up", " down"]);
    let (_, error) = read(b"kind,y\nup,1\n,2\n", Format::Csv, &columns);
    assert!(error.unwrap().contains("line 3, column \"kind\": \"\" is not a label"));
}

#[test]
fn semicolons_leave_commas_to_numbers() {
    assert_eq!(shown(&numbers(b"y;z\n1,5;2\n-3,25e1;x\n;1\n7;\n", Format::Csv)), "1.5 -32.5 NaN 7");
    assert_eq!(shown(&numbers(b"y;z\n1.5;2\n3;1\n", Format::Csv)), "1.5 3");
    // One sign in one table, and no sign for thousands.
    let (rows, error) =
        read(b"y;z\n1,5;2\n2.5;2\n", Format::Csv, &[("y", ColumnKind::Measurement)]);
    assert_eq!((rows.rows, rows.values[0]), (1, 1.5));
    assert!(error.is_some_and(|e| e.contains("a decimal comma, as those before")));
    fails(b"t;y\n0;1.5\n1;2,5\n", Format::Csv, "a decimal point, as those before");
    fails(b"t;y\n0;1.234,5\n", Format::Csv, "without thousands separators");
    fails(b"t\ty\n0\t1,5\n", Format::Tsv, "\"1,5\"");
    // A fraction of a second may follow a comma all the same.
    let columns = [("t", SECONDS), ("y", ColumnKind::Measurement)];
    let (rows, error) = read(b"t;y\n1970-01-01T00:00:01,5Z;1.5\n", Format::Csv, &columns);
    assert_eq!((rows.values, error), (vec![1.5, 1.5], None));
}

#[test]
fn times_may_be_written_by_a_pattern_or_count_from_1970() {
    let open = |bytes: &[u8], style: TimeStyle| {
        let wanted = |_: &[String]| {
            let time = Wanted { column: "t".into(), kind: SECONDS };
            vec![time, Wanted { column: "y".into(), kind: ColumnKind::Measurement }]
        };
        let source = Source::Stream(Box::new(Cursor::new(bytes.to_vec())));
        let mut reader = TableReader::open(source, Format::Csv, wanted).unwrap().with_times(style);
        let mut rows = Rows::default();
        let read = reader.read(&mut rows, 10).map_err(|e| e.to_string());
        (rows, read.err())
    };
    let dotted = TimeStyle { pattern: Some("%d.%m.%Y %H:%M".into()), epoch: None };
    let (rows, error) = open(b"t;y\n02.01.1970 00:01;1,5\n", dotted.clone());
    assert_eq!((rows.values, rows.calendar, error), (vec![86_460.0, 1.5], true, None));
    let (_, error) = open(b"t;y\n1970-01-02;1,5\n", dotted);
    assert!(error.unwrap().contains("a time in the given format"));
    let milliseconds = TimeStyle { pattern: None, epoch: Some(1e-3) };
    let (rows, _) = open(b"t,y\n1794747845250,1\n", milliseconds);
    assert_eq!((rows.values, rows.calendar), (vec![1_794_747_845.25, 1.0], true));
}

/// A reader that turns 1 and 1.0 into one number must not find them as numbers.
#[test]
fn names_that_look_like_numbers_stay_apart_in_json() {
    let names = [
        "1",
        "1.0",
        "1e3",
        "1000",
        "-0",
        "0",
        "12345678901234567890",
        "-2.5",
        "007",
        "1e15",
        "0.1",
    ];
    let columns = vec![OutputColumn::Label("who".into())];
    let out = Shared::default();
    let mut writer =
        TableWriter::new(Box::new(out.clone()), Format::JsonLines, columns, false).unwrap();
    let labels = names.map(str::to_owned);
    for number in 0..names.len() {
        writer.labelled_row(&[number as f64], None, &labels).unwrap();
    }
    writer.finish().unwrap();
    let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
    let found: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("{\"who\":").unwrap().strip_suffix('}').unwrap())
        .collect();
    let expected = [
        "1",
        "\"1.0\"",
        "\"1e3\"",
        "1000",
        "\"-0\"",
        "0",
        "\"12345678901234567890\"",
        "-2.5",
        "\"007\"",
        "\"1e15\"",
        "0.1",
    ];
    assert_eq!(found, expected);
}

#[test]
fn blanks_are_parts_of_a_name() {
    let label = [("y", ColumnKind::Measurement), ("s", ColumnKind::Label)];
    for (text, format) in [
        ("y,s\n1,a\n2,\"a \"\n3, a\n4,a \n", Format::Csv),
        ("y\ts\n1\ta\n2\ta \n3\t a\n4\t\"a \"\n", Format::Tsv),
        (
            "{\"y\":1,\"s\":\"a\"}\n{\"y\":2,\"s\":\"a \"}\n{\"y\":3,\"s\":\" a\"}\n{\"y\":4,\"s\":\"a \"}\n",
            Format::JsonLines,
        ),
    ] {
        let (rows, error) = read(text.as_bytes(), format, &label);
        assert_eq!((error, &rows.labels[..]), (None, &["a", "a ", " a"].map(str::to_owned)[..]));
        assert_eq!(rows.values, [1.0, 0.0, 2.0, 1.0, 3.0, 2.0, 4.0, 1.0]);
    }
    // Those of classes are not, and numbers have none.
    let class = [("y", ColumnKind::Measurement), ("s", ColumnKind::Category)];
    let (rows, _) = read(b"y,s\n 1 ,a\n2,\"a \"\n", Format::Csv, &class);
    assert_eq!((rows.values, rows.labels.len()), (vec![1.0, 0.0, 2.0, 0.0], 1));
    // A truth is no number, and letters that nobody can read are not all the same.
    let (rows, _) = read(b"{\"y\":1,\"s\":true}\n{\"y\":1,\"s\":1}\n", Format::JsonLines, &label);
    assert_eq!(rows.labels, ["true", "1"]);
    for (text, format) in [
        (&b"y,s\n1,\xff\n"[..], Format::Csv),
        (b"y,s\n1,\n", Format::Csv),
        (b"{\"y\":1,\"s\":\"\"}\n", Format::JsonLines),
        (b"{\"y\":1,\"s\":null}\n", Format::JsonLines),
        (b"{\"y\":1,\"s\":[1]}\n", Format::JsonLines),
    ] {
        assert!(read(text, format, &label).1.unwrap().contains("is not a label"));
    }
}

#[test]
fn a_key_that_is_read_is_there_once() {
    let error =
        |text: &str| read(text.as_bytes(), Format::JsonLines, &[("y", ColumnKind::Measurement)]).1;
    assert_eq!(error("{\"y\":1,\"z\":1,\"z\":2}\n"), None);
    for text in ["{\"y\":1,\"y\":7}\n", "{\"y\":NaN,\"y\":7}\n", "{\"y\":1,\"\\u0079\":1}\n"] {
        assert_eq!(error(text).unwrap(), "line 1: the key \"y\" appears twice");
    }
    assert!(error("{\"y\":1}\n{\"y\":1,\"y\":1}\n").unwrap().starts_with("line 2"));
    assert!(error("{\"y\":[1,2]}\n").unwrap().contains("\"[...]\" is not a finite number"));
}

/// Whatever the file is, what a writer was about to finish is told from what it has finished.
#[test]
fn the_last_row_may_lack_its_end() {
    let torn = |text: &str, format, at_once| {
        let wanted =
            |_: &[String]| vec![Wanted { column: "y".into(), kind: ColumnKind::Measurement }];
        let source = Source::Stream(Box::new(Cursor::new(text.as_bytes().to_vec())));
        let mut reader = TableReader::open(source, format, wanted).unwrap();
        let (mut rows, mut torn) = (Rows::default(), Vec::new());
        loop {
            rows.clear();
            let more = reader.read(&mut rows, at_once);
            torn.extend((0..rows.rows).map(|row| rows.torn && row + 1 == rows.rows));
            match more {
                Ok(true) => {}
                Ok(false) => return (torn, reader.is_torn()),
                Err(_) => return (torn, reader.is_torn()),
            }
        }
    };
    for at_once in [1, 2, 10] {
        for (text, format, rows, end) in [
            ("y\n1\n2\n", Format::Csv, vec![false, false], false),
            ("y\n1\n2", Format::Csv, vec![false, true], true),
            ("y\n1\n2\r", Format::Csv, vec![false, false], false),
            ("y\n1\n\"2\n", Format::Csv, vec![false, true], true),
            ("y,z\n1,1\n2,1", Format::Csv, vec![false, true], true),
            ("y,z\n1,1\n2", Format::Csv, vec![false], true),
            ("y\tz\n1\t1\n2e", Format::Tsv, vec![false], true),
            ("n,y\na,1\n\"b,2", Format::Csv, vec![false], true),
            ("n,y\na,1\n\"b,2\nc,3\n", Format::Csv, vec![false], false),
            ("y,n\n1,a\nx,\"b\nc,3", Format::Csv, vec![false], false),
            ("y\n1\n2\n#", Format::Csv, vec![false, false], false),
            ("{\"y\":1}\n{\"y\":2}\n", Format::JsonLines, vec![false, false], false),
            ("{\"y\":1}\n{\"y\":2}", Format::JsonLines, vec![false, true], true),
            ("{\"y\":1}\n{\"y\":2", Format::JsonLines, vec![false], true),
            ("{\"y\":1}", Format::JsonLines, vec![true], true),
        ] {
            assert_eq!(torn(text, format, at_once), (rows, end), "{text:?}");
        }
    }
    // It is taken away with its time.
    let (mut rows, _) =
        read(b"t,y\n2026-01-01,1\n2026-01-02,2", Format::Csv, &[("t", SECONDS), ("y", SECONDS)]);
    assert_eq!((rows.rows, rows.torn), (0, false), "{rows:?}");
    let columns = [("t", SECONDS), ("y", ColumnKind::Measurement)];
    (rows, _) = read(b"t,y\n2026-01-01,1\n2026-01-02,2", Format::Csv, &columns);
    let last = rows.split_last(2);
    assert_eq!((rows.rows, rows.torn, rows.time_text(0)), (1, false, Some(&b"2026-01-01"[..])));
    assert_eq!((last.rows, last.torn, last.time_text(0)), (1, true, Some(&b"2026-01-02"[..])));
    assert_eq!((rows.values.len(), last.values[1], &last.lines[..]), (2, 2.0, &[3][..]));
}

/// A file that ends, and has grown when it is read once more.
struct Growing(Vec<Vec<u8>>);

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let Some(part) = self.0.first_mut() else { return Ok(0) };
        let count = (&part[..]).read(into)?;
        part.drain(..count);
        if count == 0 {
            self.0.remove(0);
        }
        Ok(count)
    }
}

/// What is written after the end was seen is for the next run: with the half row before it, it would be two rows.
#[test]
fn the_end_of_a_text_that_grows_stays_where_it_was_seen() {
    for at_once in [1, 2, 10] {
        for (text, more, format, values, torn) in [
            ("y\n1\n12.", "75\n14\n", Format::Csv, "1 12", true),
            ("y\n1\n12.", "\n14\n", Format::Tsv, "1 12", true),
            ("y\n1\n12\n", "75\n14\n", Format::Csv, "1 12", false),
            ("y\n1\n#comm", "99\n14\n", Format::Csv, "1", false),
            ("y\n1\n", "99\n", Format::Csv, "1", false),
            ("y\n", "99\n", Format::Csv, "", false),
            ("y", "\n99\n", Format::Csv, "", true),
            ("{\"y\":1}\n{\"y\":2}", "\n{\"y\":3}\n", Format::JsonLines, "1 2", true),
            ("{\"y\":1}\n{\"y\":2", "}\n{\"y\":3}\n", Format::JsonLines, "1", true),
            ("{\"y\":1}\n", "{\"y\":3}\n", Format::JsonLines, "1", false),
        ] {
            let parts = [text, more].map(|part| part.as_bytes().to_vec()).to_vec();
            let wanted =
                |_: &[String]| vec![Wanted { column: "y".into(), kind: ColumnKind::Measurement }];
            let source = Source::Stream(Box::new(Growing(parts)));
            let mut reader = TableReader::open(source, format, wanted).unwrap();
            let mut all = Vec::new();
            // Whoever asks again gets the same answer.
            for _ in 0..20 {
                let mut rows = Rows::default();
                let _ = reader.read(&mut rows, at_once);
                all.extend(rows.values);
            }
            assert_eq!((shown(&all).as_str(), reader.is_torn()), (values, torn), "{text:?}");
        }
    }
    for text in ["", "# a note"] {
        let parts = [text, "y\n99\n"].map(|part| part.as_bytes().to_vec()).to_vec();
        let opened =
            TableReader::open(Source::Stream(Box::new(Growing(parts))), Format::Csv, |_| vec![]);
        assert!(matches!(opened.err(), Some(TableError::Empty)), "{text:?}");
    }
    // Packed, the end of a member is none of the file.
    let pack = |text: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    };
    let parts = vec![[pack(b"y\n1\n"), pack(b"2\n")].concat(), pack(b"3\n")];
    let (rows, error) =
        read_from(Box::new(Growing(parts)), Format::Csv, &[("y", ColumnKind::Measurement)]);
    assert_eq!((rows.values, error), (vec![1.0, 2.0], None));
}

/// Bytes without an end.
struct Endless(u8);

impl Read for Endless {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        bytes.fill(self.0);
        Ok(bytes.len())
    }
}

#[test]
fn no_line_is_longer_than_any_table_has() {
    let long = |start: &str, byte, format| {
        let input = Cursor::new(start.as_bytes().to_vec()).chain(Endless(byte));
        read_from(Box::new(input), format, &[]).1.unwrap()
    };
    assert!(long("", b'y', Format::Csv).contains("line 1: it is longer than 64 MiB"));
    assert!(long("y\n", b'1', Format::Tsv).contains("line 2: it is longer than 64 MiB"));
    assert!(long("y", b',', Format::Csv).contains("line 1: it has more than 2097152 cells"));
    assert!(long("{\"", b'y', Format::JsonLines).contains("line 1: it is longer than 64 MiB"));
}

#[test]
fn messages_are_for_people_whatever_they_quote() {
    let name = "n".repeat(5 << 20);
    for (text, format) in [
        (format!("{name}\n1\n"), Format::Csv),
        (format!("{name},b\n1,2\n"), Format::Csv),
        (format!("{{\"{name}\":1}}\n"), Format::JsonLines),
        (format!("y\n{name}\n"), Format::Csv),
        (format!("{{\"y\":\"{name}\"}}\n"), Format::JsonLines),
    ] {
        let columns = [("y", ColumnKind::Measurement)];
        let error = read(text.as_bytes(), format, &columns).1.unwrap();
        assert!(error.len() < 400, "{} bytes", error.len());
    }
    let error = read(b"y\n1\n", Format::Csv, &[(&name, ColumnKind::Measurement)]).1.unwrap();
    assert!(error.len() < 400, "{} bytes", error.len());
}
