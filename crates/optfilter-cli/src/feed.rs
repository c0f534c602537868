//! What DATA stands for: one table, several, or a folder of them; read one after the other as if they were one.
//!
//! Several tables are several series, called by the names of their files, unless a column names the series (`--by`): then the
//! tables are parts of one, and a series goes on from one into the next. Tables of which none has all columns of the model are one
//! series with several clocks, joined by their times.

use crate::failure::Failure;
use crate::files::{self, FormatName};
use crate::join::{Join, is_joined};
use optfilter_model::ModelSpec;
use optfilter_model::run::Layout;
use optfilter_model::table::{Format, Rows, TableReader, TimeStyle, Wanted};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The column of the results that names the table of a row, where there are several.
pub const FILE_COLUMN: &str = "file";

/// The tables that DATA stands for: files as they are, folders as the tables in them, by name.
pub fn expand(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut out = Vec::new();
    for path in given {
        if files::is_standard(path) && given.len() > 1 {
            return Err(Failure::usage("`-` (standard input) cannot be one of several tables"));
        }
        match path.is_dir() {
            true => out.extend(tables_in(path)?),
            false => out.push(path.clone()),
        }
    }
    let mut seen = HashSet::with_capacity(out.len());
    match out.iter().find(|path| !seen.insert(path.as_path())) {
        Some(path) => Err(Failure::usage(format!("{} is given twice", path.display()))),
        None => Ok(out),
    }
}

/// Files of a folder whose names say that they are tables, but not hidden ones.
fn tables_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let name = folder.display();
    let fail = |e| Failure::data(format!("cannot read the folder {name}: {e}"));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
        if !hidden && path.is_file() && Format::of_path(&path).is_some() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(Failure::data(format!(
            "{name} holds no table: no name in it ends in .csv, .tsv, .jsonl, .parquet, .npz or .npy"
        )));
    }
    Ok(found)
}

/// What series are called after: the name of each file, or its whole path where two files have one name.
pub fn labels(tables: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| match path.file_name() {
        Some(name) => name.to_string_lossy().into_owned(),
        None => files::display(path),
    };
    let mut count: HashMap<String, usize> = HashMap::new();
    tables.iter().for_each(|path| *count.entry(name(path)).or_default() += 1);
    let of = |path| if count[&name(path)] > 1 { path.display().to_string() } else { name(path) };
    tables.iter().map(of).collect()
}

/// The layout of one table or several, in which series are named by a column or by their files.
pub fn layout(
    spec: &ModelSpec,
    time: Option<&str>,
    by: Option<&str>,
    (tables, format): (&[PathBuf], Option<FormatName>),
) -> Result<Layout, Failure> {
    let alone = Layout::new(spec, time);
    if by.is_some() || tables.len() < 2 {
        return Ok(alone.by(by));
    }
    let joined = is_joined(tables, format, &alone.wanted(spec), alone.time.is_some())?;
    Ok(alone.by((!joined).then_some(FILE_COLUMN)).joined(joined))
}

/// Tables being read one after the other.
pub struct Feed {
    tables: Vec<PathBuf>,
    /// What rows are labelled with, unless a column does that or there is one table only.
    labels: Option<Vec<String>>,
    format: Option<FormatName>,
    wanted: Vec<Wanted>,
    style: TimeStyle,
    reader: Reader,
    at: usize,
    /// Whether a row within which the last table ends is given by itself, and such a row that waits.
    apart: bool,
    waiting: Option<Rows>,
}

/// How tables are read: one after the other, or side by side.
enum Reader {
    One(Box<TableReader>),
    Joined(Join),
}

impl Feed {
    /// Opens the first table, or all that are joined. `late` is how much later than its neighbours a row may come. `by` says that a column of the tables has the names of the series; `more` are columns wanted
    /// besides those of the layout.
    pub fn open(
        tables: &[PathBuf],
        format: Option<FormatName>,
        spec: &ModelSpec,
        layout: &Layout,
        by: bool,
        more: &[Wanted],
        late: f64,
    ) -> Result<Self, Failure> {
        let mut wanted = layout.wanted(spec);
        let named = layout.by.is_some() && !by;
        if named {
            wanted.pop(); // no column of the tables
        }
        wanted.extend_from_slice(more);
        let first = tables.first().ok_or_else(|| Failure::usage("there is no table to read"))?;
        let joined = !by && !named && is_joined(tables, format, &wanted, layout.time.is_some())?;
        let reader = match joined || late > 0.0 {
            true => {
                let columns = (&wanted[..], &spec.input_rules[..]);
                Reader::Joined(Join::open(tables, format, columns, &spec.time_style, late)?)
            }
            false => {
                Reader::One(Box::new(files::reader(first, format, &wanted, &spec.time_style)?))
            }
        };
        let labels = named.then(|| labels(tables));
        let style = spec.time_style.clone();
        let (tables, apart, waiting) = (tables.to_vec(), false, None);
        Ok(Self { tables, labels, format, wanted, style, reader, at: 0, apart, waiting })
    }

    /// From now on a row within which the last table ends is given by itself, marked as torn; and if it cannot be read, as the table may still be
    /// written, it is left.
    pub fn keep_apart(&mut self) {
        self.apart = true;
    }

    /// A table that is open already.
    #[cfg(test)]
    pub fn of(reader: TableReader, path: &Path, wanted: Vec<Wanted>) -> Self {
        Self {
            tables: vec![path.to_owned()],
            labels: None,
            format: None,
            wanted,
            style: TimeStyle::default(),
            reader: Reader::One(Box::new(reader)),
            at: 0,
            apart: false,
            waiting: None,
        }
    }

    /// The name of the table that is being read, for messages.
    pub fn name(&self) -> String {
        self.name_of(self.at)
    }

    /// The name of a table by its number.
    pub fn name_of(&self, table: usize) -> String {
        self.tables.get(table).map_or_else(String::new, |path| files::display(path))
    }

    /// Appends up to `max_rows` rows of one table to rows of the same one, or to none; false at the end of the last table.
    pub fn read(&mut self, rows: &mut Rows, max_rows: usize) -> Result<bool, Failure> {
        if let Some(last) = self.waiting.take() {
            *rows = last;
            return Ok(true);
        }
        rows.table = self.at;
        let before = rows.rows;
        let reader = match &mut self.reader {
            Reader::One(reader) => reader,
            Reader::Joined(join) => return join.read(rows, max_rows),
        };
        let read = reader.read(rows, max_rows);
        let torn = self.apart && self.at + 1 == self.tables.len() && reader.is_torn();
        // A table that another follows ends where it ends.
        rows.torn &= torn;
        if let Some(label) = self.labels.as_ref().and_then(|labels| labels.get(self.at)) {
            rows.label_from(before, self.wanted.len(), label);
        }
        if rows.torn && rows.rows > before {
            let columns = self.wanted.len() + usize::from(self.labels.is_some());
            self.waiting = Some(rows.split_last(columns));
            return Ok(true);
        }
        match read {
            Err(e) if torn => {
                files::remark(&format!(
                    "note: {} ends within a row that cannot be read ({e}); it is left for the run that goes on",
                    self.name()
                ));
                return Ok(false);
            }
            read => {
                if read.map_err(|e| Failure::table(&self.name(), &e))? {
                    return Ok(true);
                }
            }
        }
        let Some(next) = self.tables.get(self.at + 1) else { return Ok(false) };
        self.reader =
            Reader::One(Box::new(files::reader(next, self.format, &self.wanted, &self.style)?));
        self.at += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_name_are_called_by_their_paths() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(labels(&paths(&["a/x.csv", "b/y.csv"])), ["x.csv", "y.csv"]);
        assert_eq!(
            labels(&paths(&["a/x.csv", "b/x.csv", "z.csv"])),
            ["a/x.csv", "b/x.csv", "z.csv"]
        );
    }
}
