//! Streams from files: an npz with `x`, `y` and `time`, or a table with a label and a time column.

use super::samples::{OF_A_BYTE, is_of_x, shape_of_axes};
use super::{AdaptError, Labels, Stream};
use crate::layer::Shape;
use optfilter_table::npz::{Npz, Values};
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader, Wanted};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Most classes a column of whole numbers may have before it is taken for a number to be predicted.
pub(super) const MAX_CLASSES: usize = 50;

/// Most classes of any kind: a column with more is no label, or a number.
pub(super) const MAX_NAMES: usize = 10_000;

/// What stands for a label that is missing.
pub(super) fn is_missing(text: &str) -> bool {
    ["", "?", ".", "nan", "na", "n/a", "null", "none"].iter().any(|m| text.eq_ignore_ascii_case(m))
}

/// The name of a class: a number is the same class however it is written (`0`, `0.0`, `+0`), but for codes that begin with a zero
/// (`007`) and numbers of more digits than a double has.
pub fn class_name(text: &str) -> String {
    let digits = text.trim_start_matches(['+', '-']);
    let code = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    match text.parse::<f64>() {
        Ok(v) if v.abs() < 1e15 && !code => (v + 0.0).to_string(), // -0 + 0 is 0
        _ => text.to_owned(),
    }
}

/// What the different labels of a stream look like, whoever reads them: numbers to be predicted where some are not whole or there are too many
/// of them, else classes. A text among such numbers is a mistake.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    numbers: usize,
    /// Whether some number is not whole.
    broken: bool,
    texts: usize,
    /// The first text, and where it stands.
    first: Option<(String, usize)>,
}

impl Look {
    /// A label that has not been seen before, and where it stands.
    pub fn add(&mut self, label: &str, at: usize) {
        match label.parse::<f64>() {
            Ok(v) if v.is_finite() => {
                self.numbers += 1;
                self.broken |= v.fract() != 0.0;
            }
            _ => {
                self.texts += 1;
                self.first.get_or_insert_with(|| (label.to_owned(), at));
            }
        }
    }

    /// Whether the numbers among the labels are no classes.
    pub fn measured(&self) -> bool {
        self.broken || self.numbers > MAX_CLASSES
    }

    /// Whether all labels are numbers.
    pub fn all_numbers(&self) -> bool {
        self.texts == 0
    }

    /// A text among numbers that are no classes, at most one in ten, with where it stands.
    pub fn stray(&self) -> Option<&(String, usize)> {
        let few = self.numbers >= 10 * self.texts;
        self.first.as_ref().filter(|_| self.measured() && few)
    }

    /// What to say of a stray text.
    pub fn complaint(text: &str) -> String {
        format!(
            "the label {text:?} is a text among numbers; mend it, or take all labels as classes (--task classify)"
        )
    }
}

/// Columns of a table.
#[derive(Clone, Debug, Default)]
pub struct CsvOptions {
    /// The label's column; by default `y`, `label`, `class` or `target`, else the last one.
    pub label: Option<String>,
    /// The time's column; by default `time`, `t` or `date`, else the row number.
    pub time: Option<String>,
    /// Take this many rows as a time step, whatever their time.
    pub every: Option<usize>,
    /// Columns to leave out.
    pub ignore: Vec<String>,
    /// Whether the label is a number to be predicted rather than a class; guessed if not told.
    pub regress: Option<bool>,
}

/// Reads `x` (samples first; two axes for vectors, three or four for images), `y` and, where it is there, `time`. Images of
/// bytes are scaled to `[0, 1]`.
pub fn read_npz(
    path: &Path,
    every: Option<usize>,
    regress: Option<bool>,
) -> Result<Stream, AdaptError> {
    let file = Npz::open(path)?;
    let bad = |reason: String| AdaptError::File { path: path.display().to_string(), reason };
    let x = file.array("x")?;
    let told = match file.texts("y")? {
        Some(texts) => named(texts, regress),
        None => numbered(file.array("y")?.doubles(), regress),
    };
    let labels = told.map_err(|wrong| wrong.of(path, |i| format!("y, sample {i}")))?;
    let shape = shape_of_axes(x.shape.get(1..).unwrap_or_default()).ok_or_else(|| {
        bad(format!("x has shape {:?}; it needs 2 to 4 axes, samples first", x.shape))
    })?;
    let scale = if matches!(x.values, Values::Bytes(_)) { OF_A_BYTE } else { 1.0 };
    let values: Vec<f64> = x.doubles().iter().map(|v| v * scale).collect();
    let n = x.shape[0];
    let time = if file.names().contains(&"time") {
        file.array("time")?.doubles()
    } else {
        (0..n).map(|i| i as f64).collect()
    };
    Stream::new(shape, values, labels, grouped(time, every)).map_err(|e| bad(e.to_string()))
}

/// Every `every` rows get the time of the first of them.
fn grouped(time: Vec<f64>, every: Option<usize>) -> Vec<f64> {
    match every {
        None => time,
        Some(every) => (0..time.len()).map(|i| (i / every.max(1)) as f64).collect(),
    }
}

/// Why labels cannot be taken, and which of them.
#[derive(Debug)]
struct Wrong {
    at: Option<usize>,
    reason: String,
    /// Whether it is only missing.
    missing: bool,
}

impl Wrong {
    fn new(at: Option<usize>, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into(), missing: false }
    }

    /// The same of a file, with the place of the sample in words.
    fn of(self, path: &Path, place: impl FnOnce(usize) -> String) -> AdaptError {
        let Self { at, reason, missing } = self;
        let path = path.display().to_string();
        let reason = match at {
            Some(i) => format!("{}: {reason}", place(i)),
            None => reason,
        };
        match missing {
            true => AdaptError::MissingLabel { path, reason },
            false => AdaptError::File { path, reason },
        }
    }
}

/// Numbers as labels: few whole ones are classes, others are values.
fn numbered(y: Vec<f64>, regress: Option<bool>) -> Result<Labels, Wrong> {
    let measured = || y.iter().any(|v| v.is_finite() && v.fract() != 0.0);
    if regress.unwrap_or_else(measured) && y.iter().all(|v| v.is_finite()) {
        return Ok(Labels::Values(y)); // as below, without spelling every number
    }
    named(y.iter().map(f64::to_string).collect(), regress)
}

/// Texts as labels: the classes in order, or, where all of them are numbers, perhaps values.
fn named(labels: Vec<String>, regress: Option<bool>) -> Result<Labels, Wrong> {
    if let Some(i) = labels.iter().position(|label| is_missing(label)) {
        let label = &labels[i];
        let reason = format!("the label {label:?} is a missing one");
        return Err(Wrong { missing: true, ..Wrong::new(Some(i), reason) });
    }
    let labels: Vec<String> = labels.iter().map(|label| class_name(label)).collect();
    let (mut seen, mut look) = (HashSet::new(), Look::default());
    for (i, label) in labels.iter().enumerate() {
        if seen.insert(label) {
            look.add(label, i);
        }
    }
    if let (None, Some((text, at))) = (regress, look.stray()) {
        return Err(Wrong::new(Some(*at), Look::complaint(text)));
    }
    if regress.unwrap_or(look.measured() && look.all_numbers()) {
        let number = |(i, label): (usize, &String)| match label.parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(v),
            _ => {
                let reason = format!(
                    "the label {label:?} is not a finite number, and numbers are predicted (--task classify for classes)"
                );
                Err(Wrong::new(Some(i), reason))
            }
        };
        let values: Result<Vec<f64>, _> = labels.iter().enumerate().map(number).collect();
        return values.map(Labels::Values);
    }
    let mut names: Vec<&String> = seen.into_iter().collect();
    names.sort_unstable();
    if names.len() < 2 && regress != Some(false) {
        return Err(Wrong::new(None, "all labels are the same: there is nothing to learn"));
    }
    if names.len() > MAX_NAMES {
        let reason = "more than 10,000 classes; is the label a number? (--task regress)";
        return Err(Wrong::new(None, reason));
    }
    // Numbers in order of value, not of spelling.
    names.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    });
    let places: HashMap<&String, u32> = names.iter().zip(0..).map(|(n, i)| (*n, i)).collect();
    let of = labels.iter().filter_map(|label| places.get(label).copied()).collect();
    Ok(Labels::Classes { of, names: names.into_iter().cloned().collect() })
}

/// Reads a table with a head, in any format that its name may end in; without one, CSV. Every column but label, time and
/// the ignored ones is a feature and must be numbers. Calendar times are counted in days.
pub fn read_csv(path: &Path, options: &CsvOptions) -> Result<Stream, AdaptError> {
    let bad = |reason: String| AdaptError::File { path: path.display().to_string(), reason };
    let file = std::fs::File::open(path).map_err(|e| bad(e.to_string()))?;
    let format = Format::of_path(path).unwrap_or(Format::Csv);
    let mut wanted = Vec::new();
    let choose = |names: &[String]| {
        wanted = columns(names, options, format);
        wanted.clone()
    };
    let mut reader =
        TableReader::open(Source::File(file), format, choose).map_err(|e| bad(e.to_string()))?;
    let width = wanted.len();
    let features = wanted.iter().filter(|w| w.kind == ColumnKind::Input).count();
    if features == 0 {
        return Err(bad("there is no column left for features".into()));
    }
    let mut rows = Rows::default();
    while reader.read(&mut rows, 1 << 16).map_err(|e| bad(e.to_string()))? {}
    if rows.rows == 0 {
        return Err(bad("there are no samples: the table has a head and no rows".into()));
    }
    let (mut x, mut labels, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (i, row) in rows.values.chunks_exact(width).enumerate() {
        x.extend_from_slice(&row[..features]);
        labels.push(rows.labels.get(row[features] as usize).cloned().unwrap_or_default());
        times.push(row.get(features + 1).copied().unwrap_or(i as f64));
    }
    let column = wanted.get(features).map_or("", |w| w.column.as_str());
    let labels = named(labels, options.regress).map_err(|wrong| {
        wrong.of(path, |i| {
            let line = rows.lines.get(i).copied().unwrap_or(0);
            format!("line {line}, column {column:?}")
        })
    })?;
    Stream::new(Shape::Vector(features), x, labels, grouped(times, options.every))
        .map_err(|e| bad(e.to_string()))
}

/// The features, the label and, if it is asked for, the time; and columns to be left out that are not there, so that the reader says so.
/// Where an archive has an array `x`, samples are of that, with the labels `y` and `time`, as [`read_npz`] has it.
pub(super) fn columns(names: &[String], options: &CsvOptions, format: Format) -> Vec<Wanted> {
    let array = format == Format::Npz && names.iter().any(|n| is_of_x(n));
    let find = |told: &Option<String>, usual: &[&str]| {
        let known = |u: &&str| names.iter().find(|n| n.eq_ignore_ascii_case(u)).cloned();
        told.clone().or_else(|| usual.iter().find_map(known))
    };
    let (label, time) = match array {
        true => (Some(options.label.clone().unwrap_or_else(|| "y".into())), &["time"][..]),
        false => {
            (find(&options.label, &["y", "label", "class", "target"]), &["time", "t", "date"][..])
        }
    };
    let label = label.or_else(|| names.last().cloned()).unwrap_or_default();
    let time = find(&options.time, time).filter(|t| *t != label);
    let other =
        |n: &&String| **n == label || Some(*n) == time.as_ref() || options.ignore.contains(n);
    let features = names.iter().filter(|n| !other(n) && (!array || is_of_x(n)));
    let features = features.map(|n| (n.clone(), ColumnKind::Input));
    let kind = ColumnKind::Time { seconds_per_unit: 86_400.0 };
    let time = time.iter().filter(|_| options.every.is_none()).map(|t| (t.clone(), kind));
    let absent = options.ignore.iter().filter(|i| !names.contains(i));
    let absent = absent.map(|i| (i.clone(), ColumnKind::Measurement));
    let all = features.chain([(label.clone(), ColumnKind::Category)]).chain(time).chain(absent);
    all.map(|(column, kind)| Wanted { column, kind }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("optfilter-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn of(text: &str, name: &str) -> Result<Stream, String> {
        let path = written(name, text.as_bytes());
        let read = read_csv(&path, &CsvOptions::default());
        std::fs::remove_file(path).unwrap();
        read.map_err(|e| e.to_string())
    }

    /// Quotes, semicolons, comments and dates are no trouble: the tables of the filters are read the same way.
    #[test]
    fn tables_are_read_as_everywhere() {
        let csv = "# from a logger\n\"a, left\";kind;date\n1;\"x; y\";2026-11-15\n2;z;2026-11-16\n3;z;2026-11-16\n";
        let json = "{\"a\":1,\"kind\":0,\"label\":\"x; y\",\"t\":0}\n{\"a\":2,\"kind\":0,\"label\":\"z\",\"t\":1}\n";
        let options = CsvOptions { label: Some("kind".into()), ..CsvOptions::default() };
        let path = written("quoted.csv", csv.as_bytes());
        let stream = read_csv(&path, &options).unwrap();
        std::fs::remove_file(path).unwrap();
        let names = vec!["x; y".to_owned(), "z".to_owned()];
        assert_eq!(*stream.labels(), Labels::Classes { of: vec![0, 1, 1], names: names.clone() });
        assert_eq!((stream.steps(), stream.time(1) - stream.time(0)), (2, 1.0));
        assert_eq!(stream.x(0..3), [1.0, 2.0, 3.0]);
        let stream = of(json, "lines.jsonl").unwrap();
        assert_eq!(*stream.labels(), Labels::Classes { of: vec![0, 1], names });
        let error = of("a,label,t\n1,u,0\nx,v,1\n", "wrong.csv").unwrap_err();
        assert!(error.contains("line 3, column \"a\": \"x\""), "{error}");
        for mark in ["", "?", "NA", "none", "NaN", "n/a", "NULL", "."] {
            let error = of(&format!("a,label,t\n1,u,0\n2,{mark},1\n"), "gap.csv").unwrap_err();
            assert!(error.contains("line 3, column \"label\""), "{mark} {error}");
        }
        let error = of("a,label,t\n", "head.csv").unwrap_err();
        assert!(error.contains("a head and no rows"), "{error}");
        let ignore = vec!["colour".to_owned()];
        let path = written("ignore.csv", b"a,label\n1,u\n2,v\n");
        let options = CsvOptions { ignore, ..CsvOptions::default() };
        let error = read_csv(&path, &options).unwrap_err().to_string();
        std::fs::remove_file(path).unwrap();
        assert!(error.contains("colour"), "{error}");
    }

    #[test]
    fn numbers_are_classes_in_order_of_value_or_values() {
        let names = |labels: &Labels| match labels {
            Labels::Classes { names, .. } => names.join(" "),
            Labels::Values(values) => format!("{values:?}"),
        };
        assert_eq!(names(of("a,y\n1,10\n2,9\n", "c.csv").unwrap().labels()), "9 10");
        assert_eq!(names(of("a,y\n1,1.5\n2,9\n", "v.csv").unwrap().labels()), "[1.5, 9.0]");
        assert_eq!(names(of("a,y\n1,0\n2,0.0\n3,1\n4,-0\n", "z.csv").unwrap().labels()), "0 1");
        assert_eq!(names(of("a,y\n1,007\n2,7\n", "b.csv").unwrap().labels()), "007 7");
        assert!(of("a,y\n1,9\n2,9\n", "s.csv").unwrap_err().contains("nothing to learn"));
        assert!(of("y\n1\n", "n.csv").unwrap_err().contains("no column left"));
    }

    #[test]
    fn texts_in_an_archive_are_classes() {
        // numpy.savez(x=[[1.0], [2.0]], y=["up", "down"]), as NumPy writes it.
        let array = |kind: &str, shape: &str, data: &[u8]| {
            let head =
                format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
            [b"\x93NUMPY\x01\0", &(head.len() as u16).to_le_bytes()[..], head.as_bytes(), data]
                .concat()
        };
        let text: Vec<u8> = "up\0\0down".chars().flat_map(|c| (c as u32).to_le_bytes()).collect();
        let doubles: Vec<u8> = [1.0f64, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let arrays =
            [("x.npy", array("<f8", "(2, 1)", &doubles)), ("y.npy", array("<U4", "(2,)", &text))];
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for (name, data) in &arrays {
            let (at, size) = (file.len() as u32, (data.len() as u32).to_le_bytes());
            // The checksum CRC-32, bit by bit.
            let mut crc = u32::MAX;
            for byte in data {
                crc ^= u32::from(*byte);
                (0..8).for_each(|_| crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 });
            }
            let crc = (!crc).to_le_bytes();
            // Version, flags, method, time, date, checksum, sizes, lengths of names.
            let sizes =
                [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0], &crc[..], &size, &size, &[5, 0, 0, 0]].concat();
            file.extend([b"PK\x03\x04", &sizes[..], name.as_bytes(), data].concat());
            directory.extend(
                [b"PK\x01\x02\x14\0", &sizes[..], &[0; 10], &at.to_le_bytes(), name.as_bytes()]
                    .concat(),
            );
        }
        let (at, size) = (file.len() as u32, directory.len() as u32);
        file.extend(directory);
        file.extend(
            [
                b"PK\x05\x06\0\0\0\0\x02\0\x02\0",
                &size.to_le_bytes()[..],
                &at.to_le_bytes(),
                &[0, 0],
            ]
            .concat(),
        );
        let path = written("texts.npz", &file);
        let stream = read_npz(&path, None, None).unwrap();
        std::fs::remove_file(path).unwrap();
        let names = vec!["down".to_owned(), "up".to_owned()];
        assert_eq!(*stream.labels(), Labels::Classes { of: vec![1, 0], names });
    }

    /// Labels of an archive are what the same numbers are in a table.
    #[test]
    fn numbers_of_an_archive_are_those_of_a_table() {
        for (y, expected) in [
            (vec![-1.0, 1.0, -1.0], "-1 1"),
            (vec![60.0, 10.0, 60.0], "10 60"),
            (vec![0.0, 2.0, -0.0], "0 2"),
            (vec![0.5, 1.0, 2.0], "values"),
            ((0..60).map(f64::from).collect(), "values"),
        ] {
            let kind = |labels: Labels| match labels {
                Labels::Classes { names, .. } => names.join(" "),
                Labels::Values(_) => "values".to_owned(),
            };
            let rows: String = y.iter().map(|v| format!("1,{v}\n")).collect();
            let table = of(&format!("a,y\n{rows}"), "same.csv").unwrap();
            assert_eq!(kind(table.labels().clone()), expected);
            assert_eq!(kind(numbered(y, None).unwrap()), expected);
        }
        assert_eq!(numbered(vec![0.0, f64::NAN], None).unwrap_err().at, Some(1));
    }

    #[test]
    fn a_text_among_numbers_is_a_mistake() {
        let rows: String = (0..40).map(|i| format!("{i},{}.5\n", i % 20)).collect();
        let error = of(&format!("a,y\n{rows}1,oops\n"), "stray.csv").unwrap_err();
        assert!(error.contains("line 42, column \"y\"") && error.contains("oops"), "{error}");
        // Versions of something: one text in four.
        let some = of("a,y\n1,1.5\n2,2.5\n3,2.6\n4,beta\n", "version.csv").unwrap();
        assert!(matches!(some.labels(), Labels::Classes { names, .. } if names.len() == 4));
    }
}
