//! What a page looks at: a model as text, and a table by its name here.
//!
//! Requests carry the text of the model and the name of the table, never anything that one of them has left behind, so that two
//! pages cannot disturb each other. What was parsed is kept for the next request with the same text.

use crate::fault::Fault;
use crate::gallery;
use crate::limits::MAX_OF_TABLE;
use crate::table::Table;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::{
    ColumnKind, Format, Rows, Source, TableReader, TextBounds, Wanted, format_time,
};
use serde::Deserialize;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The most rows of a table that a page shows.
pub const MAX_ROWS: usize = 1_000_000;
/// The longest model file.
const MAX_TEXT: usize = 1 << 20;
/// What a table that was dropped on a page may unpack to.
const BOUNDS: TextBounds = TextBounds { text: 256 << 20, line: 1 << 20 };
/// Parsed subjects and dropped tables that are kept.
const KEPT: usize = 8;

/// A model and a table, as a request names them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The text of the model file.
    pub model: String,
    /// Its name for messages.
    #[serde(default)]
    pub name: String,
    /// The name of the table.
    pub table: String,
}

/// A model over a table.
#[derive(Debug)]
pub struct Subject {
    /// The model.
    pub spec: ModelSpec,
    /// Its text.
    pub text: String,
    /// The rows.
    pub data: Dataset,
    /// The cells of the times as they were written.
    pub rows: Rows,
    /// Which columns are for what.
    pub layout: Layout,
    /// The table.
    pub table: Arc<Table>,
    /// Every column of the table.
    pub columns: Vec<String>,
    /// States whose true values the table holds.
    pub known: Vec<bool>,
    /// A number that no other subject has.
    pub key: u64,
}

/// Tables by name, and what was parsed of late.
#[derive(Default)]
pub struct Shelf {
    given: Option<Arc<Table>>,
    dropped: Mutex<Vec<(String, Arc<Table>)>>,
    parsed: Mutex<Vec<Arc<Subject>>>,
}

/// The number of anything that can be hashed.
pub fn number_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Shelf {
    /// With the table of the command line, if there is one.
    pub fn new(given: Option<Table>) -> Self {
        Self { given: given.map(Arc::new), ..Self::default() }
    }

    /// Keeps a table that was dropped on a page, and says its name here.
    pub fn keep(&self, name: &str, bytes: Vec<u8>) -> String {
        let id = format!("dropped-{:016x}", number_of(&(name, &bytes)));
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        dropped.retain(|(known, _)| *known != id);
        let table = Table { name: name.to_owned(), bytes };
        dropped.push((id.clone(), Arc::new(table)));
        if dropped.len() > KEPT {
            dropped.remove(0);
        }
        id
    }

    /// The table of that name.
    pub fn table(&self, id: &str) -> Result<Arc<Table>, Fault> {
        if let Some(given) = self.given.as_ref().filter(|_| id == "given") {
            return Ok(given.clone());
        }
        if let Some(table) = gallery::table(id)? {
            return Ok(table);
        }
        let dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let found = dropped.iter().find(|(known, _)| known == id).map(|(_, table)| table.clone());
        found.ok_or_else(|| {
            Fault::Data("the table is no longer here; drop it on the page once more".into())
        })
    }

    /// What the table of that name may unpack to: what the command line gave is the user's own choice.
    fn bounds(&self, id: &str) -> Option<TextBounds> {
        (self.given.is_none() || id != "given").then_some(BOUNDS)
    }

    /// A model over a table, parsed or remembered.
    pub fn subject(&self, named: &Named) -> Result<Arc<Subject>, Fault> {
        let key = number_of(&(&named.model, &named.name, &named.table));
        let parsed = || self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = parsed().iter().find(|s| s.key == key) {
            return Ok(found.clone());
        }
        if named.model.len() > MAX_TEXT {
            return Err(Fault::Limit("the model is longer than 1 MiB".into()));
        }
        let name = if named.name.is_empty() { "model" } else { &named.name };
        let spec = ModelSpec::parse(name, &named.model)?;
        let table = self.table(&named.table)?;
        let subject =
            Arc::new(Subject::read(spec, &named.model, table, self.bounds(&named.table), key)?);
        let mut parsed = parsed();
        parsed.push(subject.clone());
        if parsed.len() > KEPT {
            parsed.remove(0);
        }
        Ok(subject)
    }
}

impl Subject {
    /// Reads a table as a model asks for it. Columns called like a state that is not measured under that name hold
    /// its true values.
    pub fn read(
        spec: ModelSpec,
        text: &str,
        table: Arc<Table>,
        bounds: Option<TextBounds>,
        key: u64,
    ) -> Result<Self, Fault> {
        let layout = Layout::new(&spec, None);
        let format = Format::of_path(Path::new(&table.name)).unwrap_or(Format::Csv);
        let bytes = Box::new(Cursor::new(table.bytes.clone()));
        let source = match bounds {
            Some(bounds) => Source::Bounded(bytes, bounds),
            None => Source::Stream(bytes),
        };
        let mut wanted = layout.wanted(&spec);
        let mut truth = Vec::new();
        let mut reader = TableReader::open(source, format, |columns| {
            for (i, state) in spec.states.iter().enumerate() {
                let taken = wanted.iter().any(|w| w.column == *state);
                if !taken && columns.iter().filter(|c| *c == state).count() == 1 {
                    truth.push(i);
                }
            }
            let known = truth
                .iter()
                .map(|&i| Wanted { column: spec.states[i].clone(), kind: ColumnKind::Measurement });
            wanted.extend(known);
            wanted
        })
        .map_err(|e| wrong(&table, e))?
        .with_times(spec.time_style.clone());
        let columns = reader.columns().to_vec();
        let mut all = Rows::default();
        while reader.read(&mut all, 1 << 16).map_err(|e| wrong(&table, e))? {
            if all.rows > MAX_ROWS {
                let message = format!("{} has more than {MAX_ROWS} rows", table.name);
                return Err(Fault::Limit(message));
            }
        }
        if all.rows == 0 {
            return Err(Fault::Data(format!("{}: the table has no rows", table.name)));
        }
        let (width, n) = (layout.width(), spec.states.len());
        let widest = n.max(spec.observations.len());
        if all.rows.saturating_mul(widest) > MAX_OF_TABLE {
            let message = format!(
                "{}: {} rows of {widest} numbers are too many for the page",
                table.name, all.rows
            );
            return Err(Fault::Limit(message));
        }
        let mut known = vec![f64::NAN; if truth.is_empty() { 0 } else { all.rows * n }];
        let mut values = Vec::with_capacity(all.rows * width);
        for (row, cells) in all.values.chunks_exact(width + truth.len()).enumerate() {
            let (own, more) = cells.split_at(width);
            values.extend_from_slice(own);
            for (&state, value) in truth.iter().zip(more) {
                known[row * n + state] = *value;
            }
        }
        all.values = values;
        let mut data = Dataset::new(&spec, &layout, &all).map_err(|(row, before, after)| {
            let line = all.lines.get(row as usize - 1).copied().unwrap_or(row);
            let unit = spec.seconds_per_unit;
            let shown = |t: f64| if all.calendar { format_time(t * unit) } else { t.to_string() };
            Fault::Data(format!(
                "{}: time runs backwards at line {line}: {} after {}; sort the table by time",
                table.name,
                shown(after),
                shown(before)
            ))
        })?;
        if data.outputs.iter().all(|y| y.is_nan()) {
            let message = format!("{}: there is no measurement in any of its rows", table.name);
            return Err(Fault::Data(message));
        }
        data.truth = known;
        let known = (0..n).map(|i| truth.contains(&i)).collect();
        let text = text.to_owned();
        Ok(Self { spec, text, data, rows: all, layout, table, columns, known, key })
    }
}

fn wrong(table: &Table, error: impl std::fmt::Display) -> Fault {
    Fault::Data(format!("{}: {error}", table.name))
}
