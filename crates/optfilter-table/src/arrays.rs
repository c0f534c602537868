//! Tables as NumPy's arrays: an archive of named arrays (`.npz`) whose first axis is the row, or one array (`.npy`).
//!
//! An array of one axis is a column of its name. Further axes are fields, as in model files: of an array `x` with 40 numbers in
//! a row the columns are `x[0]` to `x[39]`, of one with 12 x 16 they are `x[0,0]` to `x[11,15]`. The array of an `.npy` file has no
//! name and is called `y`. Texts are cells as in a CSV; datetime64 are calendar times.
//!
//! Of a file only the rows at hand are in memory, whatever its length ([`array_rows`](crate::array_rows)); what comes by a pipe is held, packed as
//! it is: the directory of an archive is at its end. NumPy says at the start of an array how long it is, so what is written is held, too.

use crate::array_rows::ArrayRows;
use crate::calendar::{TimeStyle, format_time, parse_time};
use crate::cell::{Cell, Cells, parse};
use crate::columns::{ColumnKind, OutputColumn, Rows, Wanted, flag, label};
use crate::elements::Content;
use crate::error::TableError;
use crate::names::short;
use crate::npz::{HEADER, Header, write_npy, write_npz};
use crate::source::{MAX_COLUMNS, Source, size};
use crate::store::Store;
use crate::zip::Directory;
use std::collections::HashMap;
use std::io::{Read, Write};

/// What the array of an `.npy` file is called.
const NAMELESS: &str = "y";

/// An array as columns.
struct Field {
    name: String,
    /// What it says of itself, or why it is no column.
    header: Result<Header, String>,
    /// How many columns it is.
    width: usize,
    /// Its rows, once they are asked for.
    rows: Option<ArrayRows>,
}

/// Where arrays come from: an archive with its directory, or one array.
struct File {
    store: Store,
    directory: Option<Directory>,
}

impl File {
    fn names(&self) -> Vec<String> {
        match &self.directory {
            Some(directory) => directory.names().map(str::to_owned).collect(),
            None => vec![NAMELESS.to_owned()],
        }
    }

    /// An array from its beginning.
    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        match &self.directory {
            Some(directory) => match directory.open(&self.store, name) {
                Some(entry) => Ok(Box::new(entry?)),
                None => Err(format!("there is no array {name:?}")),
            },
            None => Ok(Box::new(self.store.part(0..self.store.len()))),
        }
    }

    /// What an array says of itself, if there are bytes for as many elements as it says: to name the columns of one that
    /// only says so takes seconds.
    fn header(&self, name: &str) -> Result<Header, String> {
        let mut first = Vec::new();
        let read = self.open(name)?.take(HEADER as u64).read_to_end(&mut first);
        read.map_err(|e| format!("array {name:?} is damaged: {e}"))?;
        let header = Header::of(&first).map_err(|reason| match self.directory {
            Some(_) => format!("array {name:?}: {reason}"),
            None => reason,
        })?;
        let width = header.shape.iter().skip(1).fold(1usize, |a, b| a.saturating_mul(*b));
        if header.least() > self.unpacked_size(name) {
            return Err(format!("array {name:?} is shorter than its shape says"));
        }
        // A directory says how long an array is when it is unpacked. For few columns its word will do until they are asked for.
        if width > WIDE {
            self.check(name)?;
        }
        Ok(header)
    }

    /// Whether all bytes of an array are there and are what they were when it was written, as far as its file says.
    fn check(&self, name: &str) -> Result<(), String> {
        self.directory.as_ref().map_or(Ok(()), |directory| directory.check(&self.store, name))
    }

    /// Bytes of an array when it is unpacked.
    fn unpacked_size(&self, name: &str) -> usize {
        match &self.directory {
            Some(directory) => directory.full(name),
            None => usize::try_from(self.store.len()).unwrap_or(usize::MAX),
        }
    }
}

/// Bytes of all their names; the name of an array is in that of each of its columns.
const MAX_NAMES: usize = 1 << 28;
/// Columns of an array that are named only after all of it has been found to be there.
const WIDE: usize = 1 << 12;

/// A table of arrays being read.
pub(crate) struct ArrayReader {
    file: File,
    fields: Vec<Field>,
    header: Vec<String>,
    /// Field and place in its rows of each wanted column.
    wanted: Vec<(usize, usize, Wanted)>,
    /// The fields of which there are wanted columns.
    used: Vec<usize>,
    cells: Cells,
    rows: usize,
    row: usize,
    /// The first row that one of the fields does not have at hand.
    ready: usize,
    /// Bytes that the wanted arrays may unpack to.
    room: Option<u64>,
}

impl ArrayReader {
    pub(crate) fn new(source: Source, archive: bool) -> Result<Self, TableError> {
        let room = source.bounds().map(|bounds| bounds.text);
        let store = Store::of(source)?;
        let damaged = |message: String| TableError::Array { message };
        let directory = match archive {
            true => Some(Directory::of(&store)?.map_err(damaged)?),
            false => None,
        };
        let file = File { store, directory };
        let mut fields = Vec::new();
        let mut header = Vec::new();
        let mut letters = 0usize;
        for name in file.names() {
            // What cannot be read matters only if it is asked for.
            let (says, axes) = match file.header(&name) {
                Ok(says) => match says.shape.split_first() {
                    // A number without an axis is no column.
                    None => continue,
                    Some((0, _)) => (Err(format!("array {name:?} has no rows")), Vec::new()),
                    Some((_, axes)) => {
                        let axes = axes.to_vec();
                        (Ok(says), axes)
                    }
                },
                Err(reason) if archive => (Err(reason), Vec::new()),
                Err(reason) => return Err(damaged(reason)),
            };
            let width = axes.iter().try_fold(1usize, |a, b| a.checked_mul(*b));
            let width = width.filter(|w| header.len().saturating_add(*w) <= MAX_COLUMNS);
            let longest = |width: &usize| width.saturating_mul(longest_name(&name, &axes));
            letters = letters.saturating_add(width.as_ref().map_or(0, longest));
            let Some(width) = width.filter(|_| letters <= MAX_NAMES) else {
                let name = short(&name);
                let message = format!("array {name:?} has more columns than a table can");
                return Err(TableError::Array { message });
            };
            name_columns(&name, &axes, &mut header);
            fields.push(Field { name, header: says, width, rows: None });
        }
        if header.is_empty() {
            return Err(TableError::Empty);
        }
        Ok(Self {
            file,
            fields,
            header,
            wanted: Vec::new(),
            used: Vec::new(),
            cells: Cells::default(),
            rows: 0,
            row: 0,
            ready: 0,
            room,
        })
    }

    /// The names of the columns, which are many where arrays are wide: they can be had once.
    pub(crate) fn take_header(&mut self) -> Vec<String> {
        std::mem::take(&mut self.header)
    }

    pub(crate) fn set_style(&mut self, style: TimeStyle) {
        self.cells.style = style;
    }

    /// Whether a wanted column, by its number, holds unsigned bytes or truth values.
    pub(crate) fn are_bytes(&self, column: usize) -> bool {
        let field = self.wanted.get(column).and_then(|(field, ..)| self.fields.get(*field));
        let rows = field.and_then(|field| field.rows.as_ref());
        rows.is_some_and(|rows| rows.elements().are_bytes())
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
        let damaged = |message: String| TableError::Array { message };
        let mut first: Option<(String, usize)> = None;
        for (column, wanted) in wanted {
            let at = ends.partition_point(|end| *end <= column);
            let (Some(field), Some(end)) = (self.fields.get_mut(at), ends.get(at)) else {
                continue;
            };
            let header = field.header.as_ref().map_err(|reason| damaged(reason.clone()))?;
            let rows = header.shape.first().copied().unwrap_or(0);
            let (long, count) = first.get_or_insert_with(|| (field.name.clone(), rows));
            if *count != rows {
                let name = &field.name;
                return Err(TableError::Array {
                    message: format!("array {long:?} has {count} rows and {name:?} has {rows}"),
                });
            }
            if field.rows.is_none() {
                let full = self.file.unpacked_size(&field.name);
                if let Some(room) = &mut self.room {
                    let as_doubles = rows.saturating_mul(field.width).saturating_mul(8);
                    let needed = full.max(as_doubles) as u64;
                    *room = room.checked_sub(needed).ok_or_else(|| TableError::Array {
                        message: format!(
                            "array {:?} unpacks to {}, more than there is room for",
                            field.name,
                            size(needed)
                        ),
                    })?;
                }
                // Before the first row: of a damaged array none is answered.
                self.file.check(&field.name).map_err(damaged)?;
                let input = self.file.open(&field.name).map_err(damaged)?;
                field.rows = Some(ArrayRows::new(&field.name, header, full, input)?);
                self.used.push(at);
            }
            self.wanted.push((at, column + field.width - end, wanted));
        }
        self.rows = first.map_or(0, |(_, rows)| rows);
        Ok(())
    }

    /// Has the next row of every field at hand.
    fn go_on(&mut self) -> Result<(), TableError> {
        let mut ready = self.rows;
        for field in &self.used {
            if let Some(rows) = self.fields.get_mut(*field).and_then(|f| f.rows.as_mut()) {
                if rows.end() <= self.row {
                    rows.next()?;
                }
                ready = ready.min(rows.end());
            }
        }
        self.ready = ready;
        Ok(())
    }

    pub(crate) fn read(&mut self, into: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        for _ in 0..max_rows {
            if self.row == self.rows {
                return Ok(false);
            }
            if self.row >= self.ready {
                self.go_on()?;
            }
            let line = self.row as u64 + 1;
            for (field, place, wanted) in &self.wanted {
                let rows = self.fields.get(*field).and_then(|field| field.rows.as_ref());
                let Some((content, at)) = rows.map(|rows| rows.at(self.row, *place)) else {
                    continue;
                };
                let (cell, text) = cell(content, at, wanted.kind);
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
                // Numbers of arrays are read as doubles, which hold no longer names.
                ColumnKind::Label if value.abs() > 9_007_199_254_740_992.0 => (
                    Cell::Wrong("a label of at most 2^53; save labels with dtype=str"),
                    value.to_string(),
                ),
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
                Some(Kind::Flags(texts)) => texts.push(flag(value).to_owned()),
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
