//! Streams from files: an npz with `x`, `y` and `time`, or a CSV with a label and a time column.

use super::{AdaptError, Labels, Stream};
use crate::layer::Shape;
use optfilter_table::npz::{Npz, Values};
use std::path::Path;

/// Most classes a column of whole numbers may have before it is taken for a number to be predicted.
const MOST_CLASSES: usize = 50;

/// Columns of a CSV file.
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
    let (x, y) = (file.array("x")?, file.array("y")?.doubles());
    let shape = match x.shape[..] {
        [_, n] => Shape::Vector(n),
        [_, height, width] => Shape::Image { height, width, channels: 1 },
        [_, height, width, channels] => Shape::Image { height, width, channels },
        _ => {
            return Err(bad(format!(
                "x has shape {:?}; it needs 2 to 4 axes, samples first",
                x.shape
            )));
        }
    };
    let scale = if matches!(x.values, Values::Bytes(_)) { 1.0 / 255.0 } else { 1.0 };
    let values: Vec<f64> = x.doubles().iter().map(|v| v * scale).collect();
    let n = x.shape[0];
    let time = if file.names().contains(&"time") {
        file.array("time")?.doubles()
    } else {
        (0..n).map(|i| i as f64).collect()
    };
    let whole = y.iter().all(|v| v.fract() == 0.0 && *v >= 0.0 && *v < MOST_CLASSES as f64);
    let labels = if regress.unwrap_or(!whole) {
        Labels::Values(y)
    } else if whole {
        let count = y.iter().fold(1.0, |a: f64, b| a.max(*b)) as usize + 1;
        Labels::classes(y.iter().map(|v| *v as u32).collect(), count)
    } else {
        return Err(bad("y must be whole numbers from 0 on to be classes".into()));
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

/// Reads a table with a head. Every column but label, time and the ignored ones is a feature and must be numbers.
pub fn read_csv(path: &Path, options: &CsvOptions) -> Result<Stream, AdaptError> {
    let bad = |reason: String| AdaptError::File { path: path.display().to_string(), reason };
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let Some((_, head)) = lines.next() else { return Err(bad("it is empty".into())) };
    let names: Vec<&str> = cells(head);
    let find = |told: &Option<String>, usual: &[&str]| match told {
        Some(name) => match names.iter().position(|n| n == name) {
            Some(i) => Ok(Some(i)),
            None => {
                Err(bad(format!("there is no column {name:?}; there are {}", names.join(", "))))
            }
        },
        None => Ok(usual.iter().find_map(|u| names.iter().position(|n| n.eq_ignore_ascii_case(u)))),
    };
    let label =
        find(&options.label, &["y", "label", "class", "target"])?.unwrap_or(names.len() - 1);
    let time = find(&options.time, &["time", "t", "date"])?.filter(|t| *t != label);
    let features: Vec<usize> = (0..names.len())
        .filter(|i| {
            *i != label && Some(*i) != time && !options.ignore.iter().any(|n| n == names[*i])
        })
        .collect();
    if features.is_empty() {
        return Err(bad("there is no column left for features".into()));
    }
    let (mut x, mut raw, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for (line, row) in lines {
        let cells = cells(row);
        if cells.len() != names.len() {
            return Err(bad(format!(
                "line {}: {} cells under {} names",
                line + 1,
                cells.len(),
                names.len()
            )));
        }
        let number = |i: usize| {
            cells[i].parse::<f64>().map_err(|_| {
                bad(format!("line {}: {} is {:?}, not a number", line + 1, names[i], cells[i]))
            })
        };
        for &i in &features {
            x.push(number(i)?);
        }
        times.push(match time {
            Some(i) if options.every.is_none() => number(i)?,
            _ => times.len() as f64,
        });
        raw.push(cells[label]);
    }
    let numbers: Option<Vec<f64>> = raw.iter().map(|r| r.parse().ok()).collect();
    let mut classes: Vec<&str> = raw.clone();
    classes.sort_unstable();
    classes.dedup();
    // Numbers in order of value, not of spelling.
    classes.sort_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    });
    let looks_like_classes = numbers.as_ref().is_none_or(|n| n.iter().all(|v| v.fract() == 0.0))
        && classes.len() <= MOST_CLASSES;
    let labels = match (options.regress.unwrap_or(!looks_like_classes), numbers) {
        (true, Some(numbers)) => Labels::Values(numbers),
        (true, None) => {
            return Err(bad(format!("the label column {:?} is not numbers", names[label])));
        }
        (false, _) => {
            let of = raw
                .iter()
                .map(|r| classes.iter().position(|c| c == r).unwrap_or(0) as u32)
                .collect();
            Labels::Classes { of, names: classes.iter().map(ToString::to_string).collect() }
        }
    };
    if matches!(&labels, Labels::Classes { names, .. } if names.len() < 2) {
        return Err(bad("all labels are the same: there is nothing to learn".into()));
    }
    Stream::new(Shape::Vector(features.len()), x, labels, grouped(times, options.every))
        .map_err(|e| bad(e.to_string()))
}

/// Cells of a line; quotes around a cell are dropped. Cells with commas in them are not for numbers, so not supported.
fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(|c| c.trim().trim_matches('"')).collect()
}
