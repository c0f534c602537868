//! The time steps of a table, one after the other, as they are needed.
//!
//! A file is read in blocks; what comes by a pipe is read row by row, so that no row waits for a later one: a time step ends with
//! its last row where rows are counted, and with the first row of another time where there is a time column. Of a table with a bad row, every time step
//! before it is given.

use super::AdaptError;
use super::read::{CsvOptions, Look, MAX_CLASSES, MAX_NAMES, class_name, columns, is_missing};
use super::samples::{OF_A_BYTE, is_of_x, shape_of_columns};
use crate::layer::Shape;
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader, Trail, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Rows of a file that are read at a time, and looked at to see whether labels are classes.
const CHUNK: usize = 4096;
/// Rows of a pipe that are looked at for the same, as long as labels are whole numbers, which may be either.
const LOOK: usize = 200;
/// Numbers that are held of a file at a time, at most: the rows of wide tables are fewer.
const NUMBERS: usize = 1 << 20;

/// One time step of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its time.
    pub time: f64,
    /// Features, sample after sample.
    pub x: Vec<f64>,
    /// The label of each sample: the number of its class, or a value; NaN where it is missing.
    pub labels: Vec<f64>,
}

/// The time steps of a table, read as they are needed.
pub struct TableSteps {
    name: String,
    reader: TableReader,
    rows: Rows,
    /// The next row of `rows`, rows of the table before `rows`, those of earlier tables, and whether the table has ended.
    at: usize,
    before: u64,
    earlier: u64,
    ended: bool,
    /// What is wrong behind the rows that were read; said when these are used up.
    fault: Option<AdaptError>,
    /// Rows read at a time.
    chunk: usize,
    wanted: Vec<Wanted>,
    features: usize,
    shape: Shape,
    /// What a number counts: bytes of an array are shares of 255.
    factor: f64,
    timed: bool,
    every: Option<usize>,
    regress: bool,
    classes: HashMap<String, usize>,
    names: Vec<String>,
    /// What the classes look like, with the lines of texts, where nobody said that they are classes.
    look: Option<Look>,
    /// Whether a class may be new: not before one was met that came with the weights.
    joined: bool,
    last: f64,
    /// What the rows of the time steps so far were, and of how many the last one is.
    trail: Trail,
    before_step: Trail,
    /// Whether the table ended before the last time step had to.
    open: bool,
}

/// Whether labels are numbers to be predicted; nothing, where they may still be either. The error is the number of a text that does not belong
/// there, and what is wrong with it.
fn are_numbers(labels: &[String]) -> Result<Option<bool>, (usize, String)> {
    let mut look = Look::default();
    for (i, label) in labels.iter().enumerate().filter(|(_, label)| !is_missing(label)) {
        look.add(label, i);
    }
    if let Some((text, at)) = look.stray() {
        return Err((*at, Look::complaint(text)));
    }
    Ok(match look.all_numbers() {
        true => look.measured().then_some(true),
        false => Some(false),
    })
}

impl TableSteps {
    /// Begins to read. Labels are classes unless `options.regress` says otherwise or the first rows have numbers that are not whole
    /// (or too many different ones). Where it is said, the first row of a pipe is given before the second is there.
    pub fn open(
        source: Source,
        format: Format,
        name: &str,
        options: &CsvOptions,
    ) -> Result<Self, AdaptError> {
        let bad = |reason: String| AdaptError::File { path: name.into(), reason };
        let is_file = matches!(source, Source::File(_));
        let mut wanted = Vec::new();
        let choose = |names: &[String]| {
            wanted = columns(names, options, format);
            wanted.clone()
        };
        let mut reader =
            TableReader::open(source, format, choose).map_err(|e| bad(e.to_string()))?;
        let features = wanted.iter().filter(|w| w.kind == ColumnKind::Input).count();
        if features == 0 {
            return Err(bad("there is no column left for features".into()));
        }
        let few = NUMBERS / wanted.len();
        let (chunk, look) = match is_file {
            true => (few.clamp(1, CHUNK), few.clamp(LOOK, CHUNK)),
            false => (1, LOOK),
        };
        let named: Vec<&str> = wanted.iter().take(features).map(|w| w.column.as_str()).collect();
        let of_x = format == Format::Npz && named.iter().all(|name| is_of_x(name));
        let shape = match of_x {
            true => shape_of_columns(&named).map_err(|axes| {
                bad(format!("x has {} axes; it needs 2 to 4, samples first", axes + 1))
            })?,
            false => Shape::Vector(features),
        };
        let bytes = of_x && reader.are_bytes(0);
        let factor = if bytes { OF_A_BYTE } else { 1.0 };
        let timed = wanted.len() > features + 1;
        let mut rows = Rows::default();
        let mut fault = None;
        let (regress, ended) = loop {
            let ended = match reader.read(&mut rows, chunk) {
                Ok(more) => !more,
                Err(e) => {
                    fault = Some(bad(e.to_string()));
                    true
                }
            };
            if rows.rows == 0 {
                if let Some(fault) = fault {
                    return Err(fault);
                }
                return Err(bad("there are no samples: the table has a head and no rows".into()));
            }
            if let Some(regress) = options.regress {
                break (regress, ended);
            }
            let looked = are_numbers(&rows.labels).map_err(|(label, reason)| {
                let of_it = |row: &[f64]| row.get(features).is_some_and(|v| *v as usize == label);
                let row = rows.values.chunks_exact(wanted.len()).position(of_it);
                let line = row.and_then(|row| rows.lines.get(row)).copied().unwrap_or(0);
                bad(format!("line {line}: {reason}"))
            })?;
            match looked {
                Some(regress) => break (regress, ended),
                None if ended || rows.rows >= look => break (false, ended),
                None => {}
            }
        };
        Ok(Self {
            name: name.into(),
            reader,
            rows,
            at: 0,
            before: 0,
            earlier: 0,
            ended,
            fault,
            chunk,
            wanted,
            features,
            shape,
            factor,
            timed,
            every: options.every,
            regress,
            classes: HashMap::new(),
            names: Vec::new(),
            look: options.regress.is_none().then(Look::default),
            joined: true,
            last: f64::NEG_INFINITY,
            trail: Trail::default(),
            before_step: Trail::default(),
            open: false,
        })
    }

    /// Numbers of a sample.
    pub fn features(&self) -> usize {
        self.features
    }
    /// The shape of a sample: images are the arrays of an archive with three or four axes.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Whether labels are numbers to be predicted.
    pub fn regress(&self) -> bool {
        self.regress
    }
    /// The classes met so far, in the order in which they were met.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// Classes that are known already, in their order.
    pub fn know(&mut self, names: &[String]) {
        self.names = names.to_vec();
        self.joined = true;
        self.classes = names.iter().cloned().zip(0..).collect();
    }

    /// Classes that came with weights, in their order: labels that are all others belong to something else, and are refused. New classes may
    /// join once one that is known was met.
    pub fn expect(&mut self, names: &[String]) {
        self.know(names);
        self.joined = names.is_empty();
    }

    /// Which columns are what, and what a time step is: names and values.
    pub fn layout(&self) -> Vec<(String, String)> {
        let named = |kind: fn(&ColumnKind) -> bool| -> String {
            let those = self.wanted.iter().filter(|w| kind(&w.kind));
            those.map(|w| w.column.as_str()).collect::<Vec<_>>().join(",")
        };
        let mut all = vec![
            ("features".to_owned(), named(|k| *k == ColumnKind::Input)),
            ("label".to_owned(), named(|k| *k == ColumnKind::Category)),
        ];
        if self.timed {
            all.push(("time".into(), named(|k| matches!(k, ColumnKind::Time { .. }))));
        }
        if self.factor != 1.0 {
            all.push(("of".into(), "bytes".into()));
        }
        all.extend(self.every.map(|every| ("every".to_owned(), every.to_string())));
        all
    }

    /// What the first rows of the table were: all of the time steps given so far, or all but those of the last one.
    pub fn trail(&self, rows: u64) -> Trail {
        let all = rows == self.trail.rows();
        if all { self.trail.clone() } else { self.before_step.clone() }
    }

    /// Whether the table ended within the row that was read last, before the end of its line, and all rows before it were given.
    pub fn is_torn(&self) -> bool {
        self.at >= self.rows.rows && self.reader.is_torn()
    }

    /// Whether the table ended before the last time step had to: more of it may be to come.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The table goes on where others of these rows have ended: without a time column, time does.
    pub fn after(&mut self, done: &Trail) {
        self.earlier = done.rows();
        self.trail = done.clone();
    }

    /// Passes over rows that were seen before, if they are still what they were.
    pub fn skip(&mut self, done: &Trail) -> Result<(), AdaptError> {
        let bad = |name: &str, reason: String| AdaptError::File { path: name.into(), reason };
        let mut first = 0;
        while self.trail.rows() < done.rows() {
            if self.at >= self.rows.rows && !self.refill()? {
                let rows = done.rows();
                let reason =
                    format!("it has fewer rows than the {rows} that the checkpoint has seen");
                return Err(bad(&self.name, reason));
            }
            let line = self.rows.lines.get(self.at).copied().unwrap_or(0);
            if done.begins_block(&self.trail) {
                first = line;
            }
            self.take_row();
            if done.parted(&self.trail).is_some() {
                let changed = match first == line {
                    true => format!("line {line} is not what it was"),
                    false => format!("lines {first} to {line} are not what they were"),
                };
                return Err(bad(
                    &self.name,
                    format!(
                        "{changed} when the checkpoint was made; bring the rows back as they were, or remove the checkpoint to start afresh"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Passes over a row.
    fn take_row(&mut self) {
        self.trail.add(&self.rows, self.at, self.wanted.len(), Some(self.features));
        self.at += 1;
    }

    fn refill(&mut self) -> Result<bool, AdaptError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if self.ended {
            return Ok(false);
        }
        self.before += self.rows.rows as u64;
        self.at = 0;
        self.rows.clear();
        self.rows.forget_labels();
        match self.reader.read(&mut self.rows, self.chunk) {
            Ok(more) => self.ended = !more,
            Err(e) => {
                let fault = AdaptError::File { path: self.name.clone(), reason: e.to_string() };
                self.ended = true;
                if self.rows.rows == 0 {
                    return Err(fault);
                }
                self.fault = Some(fault);
            }
        }
        Ok(self.rows.rows > 0)
    }

    /// The number of a label, which may be new.
    fn label(&mut self, number: usize, line: u64) -> Result<f64, AdaptError> {
        let text = self.rows.labels.get(number).cloned().unwrap_or_default();
        if is_missing(&text) {
            return Ok(f64::NAN);
        }
        if self.regress {
            return match text.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok(v),
                _ => Err(AdaptError::File {
                    path: self.name.clone(),
                    reason: format!(
                        "line {line}: the label {text:?} is not a finite number, and numbers are predicted (--task classify for classes)"
                    ),
                }),
            };
        }
        let text = class_name(&text);
        if let Some(class) = self.classes.get(&text) {
            self.joined = true;
            return Ok(*class as f64);
        }
        let bad = |line: u64, reason: &str| AdaptError::File {
            path: self.name.clone(),
            reason: format!("line {line}: {reason}"),
        };
        if !self.joined {
            let known = self.names.join(", ");
            let reason = format!("the weights know no class {text:?}; they know {known}");
            return Err(bad(line, &reason));
        }
        if self.names.len() >= MAX_NAMES {
            let reason = "more than 10,000 classes; is the label a number? (--task regress)";
            return Err(bad(line, reason));
        }
        if let Some(look) = &mut self.look {
            look.add(&text, line as usize);
            // A text that came first has made classes of numbers.
            if let Some((text, at)) = look.stray().filter(|_| self.names.len() > MAX_CLASSES) {
                return Err(bad(*at as u64, &Look::complaint(text)));
            }
        }
        self.classes.insert(text.clone(), self.names.len());
        self.names.push(text);
        Ok((self.names.len() - 1) as f64)
    }

    /// The next time step; false at the end.
    pub fn next(&mut self, step: &mut Step) -> Result<bool, AdaptError> {
        step.x.clear();
        step.labels.clear();
        self.before_step = self.trail.clone();
        self.open = false;
        let width = self.features + 1 + usize::from(self.timed);
        loop {
            if self.at >= self.rows.rows && !self.refill()? {
                self.open = !step.labels.is_empty();
                return Ok(self.open);
            }
            let row = self.at * width..(self.at + 1) * width;
            let number = self.before + self.at as u64;
            let time = match (self.timed, self.every) {
                (true, _) => self.rows.values[row.end - 1],
                (_, Some(every)) => ((self.earlier + number) / every.max(1) as u64) as f64,
                _ => (self.earlier + number) as f64,
            };
            if step.labels.is_empty() {
                let line = self.rows.lines.get(self.at).copied().unwrap_or(number + 1);
                if time < self.last {
                    return Err(AdaptError::File {
                        path: self.name.clone(),
                        reason: format!(
                            "line {line}: time runs backwards, {time} after {}",
                            self.last
                        ),
                    });
                }
                (step.time, self.last) = (time, time);
            } else if time != step.time {
                return Ok(true);
            }
            let line = self.rows.lines.get(self.at).copied().unwrap_or(number + 1);
            let label = self.rows.values[row.start + self.features] as usize;
            let label = self.label(label, line)?;
            let x = &self.rows.values[row.start..row.start + self.features];
            match self.factor {
                1.0 => step.x.extend_from_slice(x),
                factor => step.x.extend(x.iter().map(|v| v * factor)),
            }
            step.labels.push(label);
            self.take_row();
            let every = self.every.unwrap_or(1).max(1) as u64;
            if !self.timed && (self.earlier + number + 1).is_multiple_of(every) {
                return Ok(true); // whatever comes next
            }
        }
    }
}
