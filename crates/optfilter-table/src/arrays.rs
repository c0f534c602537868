//! Tables as NumPy's arrays: an archive of named arrays (`.npz`) whose first axis is the row, or one array (`.npy`).
//!
//! An array of one axis is a column of its name. Further axes are fields, as in model files: of an array `x` with 40 numbers in
//! a row the columns are `x[0]` to `x[39]`, of one with 12 x 16 they are `x[0,0]` to `x[11,15]`. The array of an `.npy` file has no
//! name and is called `y`. Texts are cells as in a CSV; datetime64 are calendar times.
//!
//! NumPy says at the start of an array how long it is, so what is read or written is held in memory.

use crate::calendar::{TimeStyle, format_time, parse_time};
use crate::cell::{Cell, Cells, parse};
use crate::columns::{ColumnKind, FLAG_NAMES, OutputColumn, Rows, Wanted, label};
use crate::error::TableError;
use crate::npz::{Content, Npz, NpzError, content, npy, write_npy, write_npz};
use crate::source::{Source, size};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;

/// What the array of an `.npy` file is called.
const NAMELESS: &str = "y";

impl From<NpzError> for TableError {
    fn from(error: NpzError) -> Self {
        match error {
            NpzError::Io { source, .. } => Self::Io(source),
            NpzError::Damaged { reason, .. } => Self::Array { message: reason },
            missing @ NpzError::Missing { .. } => Self::Array { message: missing.to_string() },
        }
    }
}

/// An array as columns.
struct Field {
    name: String,
    /// How many rows it has, or why it is no column.
    rows: Result<usize, String>,
    /// How many columns it is.
    width: usize,
    /// Its elements, once they are asked for.
    content: Option<Content>,
}

/// Where arrays come from.
enum File {
    Archive(Npz),
    Single(Vec<u8>),
}

impl File {
    /// The lengths of the axes of an array, if there are bytes for that many elements: to name the columns of one that
    /// only says so takes seconds.
    fn shape(&self, name: &str) -> Result<Vec<usize>, NpzError> {
        let claims = match self {
            Self::Archive(npz) => npz.claims(name)?,
            Self::Single(bytes) => npy(bytes, |header| Ok(header.claims()))?,
        };
        let width = claims.shape.iter().skip(1).fold(1usize, |a, b| a.saturating_mul(*b));
        // A directory says how long an array is when it is unpacked. For few columns its word will do until they are asked for.
        let held = claims.bytes <= self.unpacked_size(name)
            && match self {
                Self::Archive(npz) => width <= WIDE || npz.is_whole(name),
                Self::Single(_) => true,
            };
        if held {
            return Ok(claims.shape);
        }
        let reason = format!("array {name:?} is shorter than its shape says");
        Err(NpzError::Damaged { path: Default::default(), reason })
    }

    fn content(&self, name: &str) -> Result<Content, NpzError> {
        match self {
            Self::Archive(npz) => npz.content(name),
            Self::Single(bytes) => npy(bytes, content),
        }
    }

    /// Bytes of an array when it is unpacked.
    fn unpacked_size(&self, name: &str) -> usize {
        match self {
            Self::Archive(npz) => npz.unpacked_size(name),
            Self::Single(bytes) => bytes.len(),
        }
    }
}

/// More columns than any table has (a field of a million numbers, and what is measured of it): what says so is no table.
const MOST_COLUMNS: usize = 1 << 21;
/// Bytes of all their names; the name of an array is in that of each of its columns.
const MOST_NAMES: usize = 1 << 28;
/// Columns of an array that are named only after all of it has been found to be there.
const WIDE: usize = 1 << 12;

/// A table of arrays being read.
pub(crate) struct ArrayReader {
    file: File,
    fields: Vec<Field>,
    header: Vec<String>,
    /// Field and place in its rows of each wanted column.
    wanted: Vec<(usize, usize, Wanted)>,
    cells: Cells,
    rows: usize,
    row: usize,
    /// Bytes that the wanted arrays may unpack to.
    room: Option<u64>,
}

impl ArrayReader {
    pub(crate) fn new(source: Source, archive: bool) -> Result<Self, TableError> {
        let mut bytes = Vec::new();
        let room = source.bounds().map(|bounds| bounds.text);
        source.into_stream().read_to_end(&mut bytes)?;
        let (file, names) = if archive {
            let npz = Npz::of(Path::new(""), bytes)?;
            let names = npz.names().into_iter().map(str::to_owned).collect();
            (File::Archive(npz), names)
        } else {
            (File::Single(bytes), vec![NAMELESS.to_owned()])
        };
        let mut fields = Vec::new();
        let mut header = Vec::new();
        let mut letters = 0usize;
        for name in names {
            // What cannot be read matters only if it is asked for.
            let (rows, axes) = match file.shape(&name) {
                Ok(shape) => match shape.split_first() {
                    // A number without an axis is no column.
                    None => continue,
                    Some((0, _)) => (Err(format!("array {name:?} has no rows")), Vec::new()),
                    Some((rows, axes)) => (Ok(*rows), axes.to_vec()),
                },
                Err(NpzError::Damaged { reason, .. }) if archive => (Err(reason), Vec::new()),
                Err(error) => return Err(error.into()),
            };
            let width = axes.iter().try_fold(1usize, |a, b| a.checked_mul(*b));
            let width = width.filter(|w| header.len().saturating_add(*w) <= MOST_COLUMNS);
            let longest = |width: &usize| width.saturating_mul(longest_name(&name, &axes));
            letters = letters.saturating_add(width.as_ref().map_or(0, longest));
            let Some(width) = width.filter(|_| letters <= MOST_NAMES) else {
                let message = format!("array {name:?} has more columns than a table can");
                return Err(TableError::Array { message });
            };
            name_columns(&name, &axes, &mut header);
            fields.push(Field { name, rows, width, content: None });
        }
        if header.is_empty() {
            return Err(TableError::Empty);
        }
        let (wanted, cells) = (Vec::new(), Cells::default());
        Ok(Self { file, fields, header, wanted, cells, rows: 0, row: 0, room })
    }

    /// The names of the columns, which are many where arrays are wide: they can be had once.
    pub(crate) fn take_header(&mut self) -> Vec<String> {
        std::mem::take(&mut self.header)
    }

    pub(crate) fn set_style(&mut self, style: TimeStyle) {
        self.cells.style = style;
    }

    pub(crate) fn choose(&mut self, wanted: Vec<(usize, Wanted)>) -> Result<(), TableError> {
        let ends: Vec<usize> = self
            .fields
            .iter()
            .scan(0, |end, field| {
                *end += field.width;
                Some(*end)
            })
            .collect();
        let mut first: Option<(String, usize)> = None;
        for (column, wanted) in wanted {
            let at = ends.partition_point(|end| *end <= column);
            let (Some(field), Some(end)) = (self.fields.get_mut(at), ends.get(at)) else {
                continue;
            };
            let rows = match &field.rows {
                Ok(rows) => *rows,
                Err(message) => return Err(TableError::Array { message: message.clone() }),
            };
            let (long, count) = first.get_or_insert_with(|| (field.name.clone(), rows));
            if *count != rows {
                let name = &field.name;
                return Err(TableError::Array {
                    message: format!("array {long:?} has {count} rows and {name:?} has {rows}"),
                });
            }
            if field.content.is_none() {
                if let Some(room) = &mut self.room {
                    let as_doubles = rows.saturating_mul(field.width).saturating_mul(8);
                    let needed = self.file.unpacked_size(&field.name).max(as_doubles) as u64;
                    *room = room.checked_sub(needed).ok_or_else(|| TableError::Array {
                        message: format!(
                            "array {:?} unpacks to {}, more than there is room for",
                            field.name,
                            size(needed)
                        ),
                    })?;
                }
                field.content = Some(self.file.content(&field.name)?);
            }
            self.wanted.push((at, column + field.width - end, wanted));
        }
        self.rows = first.map_or(0, |(_, rows)| rows);
        Ok(())
    }

    pub(crate) fn read(&mut self, into: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        for _ in 0..max_rows {
            if self.row == self.rows {
                return Ok(false);
            }
            let line = self.row as u64 + 1;
            for (field, place, wanted) in &self.wanted {
                let Some(Field { width, content: Some(content), .. }) = self.fields.get(*field)
                else {
                    continue;
                };
                let (cell, text) = cell(content, self.row * width + place, wanted.kind);
                self.cells.push(into, wanted, cell, line, || text)?;
            }
            into.lines.push(line);
            into.rows += 1;
            self.row += 1;
        }
        Ok(true)
    }
}

/// An element as a cell, and its text where that is asked for.
fn cell(content: &Content, at: usize, kind: ColumnKind) -> (Cell, String) {
    let is_time = matches!(kind, ColumnKind::Time { .. });
    match content {
        Content::Texts(texts) => {
            let text = texts.get(at).cloned().unwrap_or_default();
            (parse(text.as_bytes(), kind), text)
        }
        Content::Seconds(seconds) => {
            let seconds = seconds.get(at).copied().unwrap_or(f64::NAN);
            match kind {
                ColumnKind::Time { seconds_per_unit } if seconds.is_finite() => {
                    (Cell::Calendar(seconds / seconds_per_unit), format_time(seconds))
                }
                ColumnKind::Time { .. } => (parse(b"NaT", kind), "NaT".into()),
                _ => (Cell::Wrong("a number"), format_time(seconds)),
            }
        }
        Content::Numbers(numbers) => {
            let value = numbers.get(at).copied().unwrap_or(f64::NAN);
            match kind {
                // Labels, inputs and times are checked as text is.
                ColumnKind::Measurement if value.is_finite() || value.is_nan() => {
                    (Cell::Number(value), String::new())
                }
                ColumnKind::Input if value.is_finite() => (Cell::Number(value), String::new()),
                _ => {
                    let text = value.to_string();
                    let cell = if is_time && value.is_finite() {
                        Cell::Number(value)
                    } else {
                        parse(text.as_bytes(), kind)
                    };
                    (cell, text)
                }
            }
        }
    }
}

/// The length of the longest name of a column.
fn longest_name(name: &str, axes: &[usize]) -> usize {
    let digits = |axis: &usize| axis.checked_ilog10().unwrap_or(0) as usize + 2;
    name.len() + 2 + axes.iter().map(digits).sum::<usize>()
}

/// Appends a number, without the machinery of formats: names come by the million.
fn push_digits(number: usize, text: &mut String) {
    if number >= 10 {
        push_digits(number / 10, text);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}

/// Names the columns of an array with these axes after the first.
fn name_columns(name: &str, axes: &[usize], names: &mut Vec<String>) {
    // NumPy's users often have a second axis of one.
    if axes.is_empty() || axes == [1] {
        names.push(name.to_owned());
        return;
    }
    let count: usize = axes.iter().product();
    let mut indices = vec![0usize; axes.len()];
    let mut text = String::new();
    names.reserve_exact(count);
    for _ in 0..count {
        text.clear();
        text.push_str(name);
        for (k, index) in indices.iter().enumerate() {
            text.push(if k == 0 { '[' } else { ',' });
            push_digits(*index, &mut text);
        }
        text.push(']');
        names.push(text.as_str().to_owned());
        for (index, axis) in indices.iter_mut().zip(axes).rev() {
            *index += 1;
            if *index < *axis {
                break;
            }
            *index = 0;
        }
    }
}

/// An array being collected.
struct Collected {
    name: String,
    /// The indices of its columns, in order.
    indices: Vec<Vec<usize>>,
    kind: Kind,
}

enum Kind {
    Numbers(Vec<f64>),
    /// Times as they were written.
    Times(Vec<f64>, Vec<String>),
    Flags(Vec<String>),
    Labels(Vec<String>),
}

/// A table of arrays being written.
pub(crate) struct ArrayWriter {
    out: Box<dyn Write + Send>,
    archive: bool,
    arrays: Vec<Collected>,
    /// The array of each column.
    places: Vec<usize>,
    /// All columns of an `.npy` file.
    plain: Vec<f64>,
    rows: usize,
}

impl ArrayWriter {
    pub(crate) fn new(out: Box<dyn Write + Send>, columns: &[OutputColumn], archive: bool) -> Self {
        let mut arrays: Vec<Collected> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut places = Vec::new();
        for column in columns {
            let (name, index) = match column {
                OutputColumn::Number(name) => split(name),
                OutputColumn::Time(name) | OutputColumn::Flag(name) | OutputColumn::Label(name) => {
                    (name.clone(), Vec::new())
                }
            };
            let place = *known.entry(name.clone()).or_insert(arrays.len());
            if place == arrays.len() {
                let kind = match column {
                    OutputColumn::Number(_) => Kind::Numbers(Vec::new()),
                    OutputColumn::Time(_) => Kind::Times(Vec::new(), Vec::new()),
                    OutputColumn::Flag(_) => Kind::Flags(Vec::new()),
                    OutputColumn::Label(_) => Kind::Labels(Vec::new()),
                };
                arrays.push(Collected { name, indices: Vec::new(), kind });
            }
            if let Some(array) = arrays.get_mut(place) {
                array.indices.push(index);
            }
            places.push(place);
        }
        Self { out, archive, arrays, places, plain: Vec::new(), rows: 0 }
    }

    pub(crate) fn row(&mut self, values: &[f64], time_text: Option<&[u8]>, labels: &[String]) {
        self.rows += 1;
        if !self.archive {
            self.plain.extend_from_slice(values);
            return;
        }
        for (&value, &place) in values.iter().zip(&self.places) {
            match self.arrays.get_mut(place).map(|array| &mut array.kind) {
                Some(Kind::Numbers(numbers)) => numbers.push(value),
                Some(Kind::Times(numbers, texts)) => {
                    numbers.push(value);
                    let text = time_text.map(|t| String::from_utf8_lossy(t).into_owned());
                    texts.push(text.unwrap_or_default());
                }
                Some(Kind::Labels(texts)) => texts.push(label(labels, value).to_owned()),
                Some(Kind::Flags(texts)) => {
                    let name = FLAG_NAMES.get(value as usize).copied().unwrap_or("?");
                    texts.push(name.to_owned());
                }
                None => {}
            }
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), TableError> {
        let rows = self.rows;
        if !self.archive {
            let shape = [rows, self.places.len()];
            write_npy(&mut self.out, &shape, &Content::Numbers(self.plain))?;
            return Ok(self.out.flush()?);
        }
        let arrays: Vec<_> = self
            .arrays
            .into_iter()
            .map(|array| {
                let shape = [vec![rows], axes(&array.indices)].concat();
                let content = match array.kind {
                    Kind::Numbers(numbers) => Content::Numbers(numbers),
                    Kind::Flags(texts) | Kind::Labels(texts) => Content::Texts(texts),
                    Kind::Times(numbers, texts) => times(numbers, &texts),
                };
                (array.name, shape, content)
            })
            .collect();
        write_npz(&mut self.out, &arrays)?;
        Ok(self.out.flush()?)
    }
}

/// Times as numbers where they were written as such, else as instants.
fn times(numbers: Vec<f64>, texts: &[String]) -> Content {
    let written = |text: &String| text.is_empty() || text.parse::<f64>().is_ok();
    if texts.iter().all(written) {
        return Content::Numbers(numbers);
    }
    let instants: Option<Vec<f64>> = texts.iter().map(|text| parse_time(text)).collect();
    instants.map_or_else(|| Content::Texts(texts.to_vec()), Content::Seconds)
}

/// The name without its index, and the index: `x[3]_std` is the array `x_std` at 3.
fn split(name: &str) -> (String, Vec<usize>) {
    let parts = || {
        let (base, rest) = name.split_once('[')?;
        let (index, suffix) = rest.split_once(']')?;
        let index: Result<Vec<usize>, _> = index.split(',').map(str::parse).collect();
        Some((format!("{base}{suffix}"), index.ok()?))
    };
    parts().unwrap_or_else(|| (name.to_owned(), Vec::new()))
}

/// The axes of columns with these indices: as the indices say if they are all there in their order, else one axis.
fn axes(indices: &[Vec<usize>]) -> Vec<usize> {
    let Some(last) = indices.last() else { return Vec::new() };
    let axes: Vec<usize> = last.iter().map(|i| i.saturating_add(1)).collect();
    let place = |index: &Vec<usize>| {
        index
            .iter()
            .zip(&axes)
            .try_fold(0usize, |p, (i, axis)| p.checked_mul(*axis)?.checked_add(*i))
    };
    let in_order = indices
        .iter()
        .enumerate()
        .all(|(k, index)| index.len() == axes.len() && place(index) == Some(k));
    if in_order { axes } else { vec![indices.len()] }
}
