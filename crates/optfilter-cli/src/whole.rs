//! Whole series in memory: what the commands that look at more than one row share.

use crate::failure::{Failure, Place};
use crate::feed::{self, Feed};
use crate::files::{self, FormatName, Fresh};
use crate::interrupt;
use optfilter::filter::FilterError;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Dataset, Layout, Part, Split};
use optfilter_model::table::{ColumnKind, Format, OutputColumn, Rows, TableWriter, Wanted};
use optfilter_run::{CancelCheck, FilterSpec, RunError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The tables that series are read from.
pub struct Source<'a> {
    pub tables: &'a [PathBuf],
    pub format: Option<FormatName>,
    /// The column with the time, unless it is the model file's.
    pub time: Option<&'a str>,
    /// The column with the names of series, if there is one.
    pub by: Option<&'a str>,
    /// States whose true values are in columns of these names.
    pub truth: &'a [(String, String)],
    /// Whether the first row is predicted: the filter's to say, flags included.
    pub predict_first: bool,
}

/// A series: its rows as they were read, and as steps.
pub struct Whole {
    /// Its name; empty where there is one only.
    pub key: String,
    pub layout: Layout,
    pub rows: Rows,
    pub data: Dataset,
    /// The place of each row among those of all series.
    pub places: Vec<usize>,
    tables: Arc<Origins>,
}

/// Which table each row came from.
struct Origins {
    names: Vec<String>,
    /// The place of the first of some rows of one table, and its number.
    runs: Vec<(usize, usize)>,
}

impl Origins {
    /// The name of the table of a row.
    fn name(&self, place: usize) -> &str {
        let next = self.runs.partition_point(|(first, _)| *first <= place);
        let table = self.runs.get(next.saturating_sub(1)).map_or(0, |(_, table)| *table);
        self.names.get(table).map_or("", String::as_str)
    }
}

impl Source<'_> {
    /// Reads tables to their end. There is a measurement in at least one series.
    pub fn read(&self, spec: &ModelSpec) -> Result<Vec<Whole>, Failure> {
        self.read_some(spec, usize::MAX).map(|(series, _)| series)
    }

    /// Reads no more than the first `most` rows of one series; of several whole ones, evenly spread, that have no more together. Also
    /// says how many rows there are in all, unless the table was left before its end.
    pub fn read_some(
        &self,
        spec: &ModelSpec,
        most: usize,
    ) -> Result<(Vec<Whole>, Option<usize>), Failure> {
        let layout = feed::layout(spec, self.time, self.by, (self.tables, self.format))?;
        let wanted =
            |column: &String| Wanted { column: column.clone(), kind: ColumnKind::Measurement };
        let more: Vec<Wanted> = self.truth.iter().map(|(_, column)| wanted(column)).collect();
        let by = self.by.is_some();
        let mut feed = Feed::open(self.tables, self.format, spec, &layout, by, &more, 0.0)?;
        let (mut split, mut known, mut tables) = (Split::within(most), Vec::new(), Vec::new());
        let (mut all, mut more_rows) = (0, true);
        // A row more than is wanted says that there are more.
        let enough = if layout.by.is_none() { most } else { usize::MAX };
        while more_rows && all <= enough {
            let mut batch = Rows::default();
            let rows = enough.saturating_sub(all).saturating_add(1).min(1 << 16);
            more_rows = feed.read(&mut batch, rows)?;
            known.extend(self.take_truth(spec, &layout, &mut batch));
            split.add(&layout, &batch).map_err(|row| {
                let line = batch.lines.get(row).copied().unwrap_or(0);
                let name = feed.name_of(batch.table_of(row));
                Failure::data(format!(
                    "{name}: at line {line} the times of a series are dates, and numbers before, or the other way \
                     round; write them all alike"
                ))
            })?;
            for row in 0..batch.rows {
                let table = batch.table_of(row);
                if tables.last().is_none_or(|(_, last)| *last != table) {
                    tables.push((all + row, table));
                }
            }
            all += batch.rows;
        }
        let name = self.tables.first().map_or_else(String::new, |path| files::display(path));
        if all == 0 {
            check_measured(&name, spec, (0, 0), false)?;
        }
        let names = self.tables.iter().map(|path| files::display(path)).collect();
        let tables = Arc::new(Origins { names, runs: tables });
        let mut clocked = spec.clone();
        clocked.filter.predict_first = Some(self.predict_first);
        let one =
            |(key, part)| Whole::new(&clocked, &layout, key, part, (&known, self.by), &tables);
        let series: Vec<Whole> = split.series().map(one).collect::<Result<_, _>>()?;
        let taken = series.iter().map(|one| one.data.len()).sum();
        check_measured(&name, spec, (taken, all), series.iter().any(Whole::is_measured))?;
        Ok((series, (all <= enough).then_some(all)))
    }

    /// Takes the columns of true states out of the way of the layout: for each row all states, NaN for those not known.
    fn take_truth(&self, spec: &ModelSpec, layout: &Layout, batch: &mut Rows) -> Vec<f64> {
        let (width, extra) = (layout.width(), self.truth.len());
        if extra == 0 {
            return Vec::new();
        }
        // A label that is no column of the table comes after them.
        let at = width - usize::from(layout.by.is_some() && self.by.is_none());
        let mut known = vec![f64::NAN; batch.rows * spec.states.len()];
        let mut plain = Vec::with_capacity(batch.rows * width);
        let rows = batch.values.chunks_exact(width + extra);
        for (row, states) in rows.zip(known.chunks_exact_mut(spec.states.len())) {
            plain.extend_from_slice(&row[..at]);
            plain.extend_from_slice(&row[at + extra..]);
            for ((state, _), value) in self.truth.iter().zip(&row[at..]) {
                if let Some(i) = spec.states.iter().position(|s| s == state) {
                    states[i] = *value;
                }
            }
        }
        batch.values = plain;
        known
    }
}

/// Refuses tables without a row, or without a measurement in any that was taken, of all that were read.
pub fn check_measured(
    name: &str,
    spec: &ModelSpec,
    (taken, all): (usize, usize),
    measured: bool,
) -> Result<(), Failure> {
    if all == 0 {
        return Err(Failure::data(format!("{name}: the table has no rows")));
    }
    if measured {
        return Ok(());
    }
    let columns: Vec<_> =
        spec.observations.iter().map(|y| format!("{:?}", spec.column(y))).collect();
    let rows = match taken < all {
        true => format!("the {taken} rows that were taken; --max-rows takes more"),
        false => format!("{all} rows; is it the right column?"),
    };
    Err(Failure::data(format!(
        "{name}: there is no measurement in column {} in any of {rows}",
        columns.join(", "),
    )))
}

impl Whole {
    fn new(
        spec: &ModelSpec,
        layout: &Layout,
        key: String,
        Part { rows, places }: Part,
        (known, by): (&[f64], Option<&str>),
        tables: &Arc<Origins>,
    ) -> Result<Self, Failure> {
        let mut data = Dataset::new(spec, layout, &rows).map_err(|(row, before, after)| {
            let index = row as usize - 1;
            let line = rows.lines.get(index).copied().unwrap_or(row);
            let first = layout.split(&rows, 0).0.unwrap_or(f64::NEG_INFINITY);
            let calendar = rows.calendar.then_some(spec.seconds_per_unit);
            let name = tables.name(places.get(index).copied().unwrap_or(0));
            files::backwards(name, line, [first, before, after], calendar, by).of_series(&key)
        })?;
        if !known.is_empty() {
            let n = spec.states.len();
            data.truth = places.iter().flat_map(|row| &known[row * n..][..n]).copied().collect();
        }
        Ok(Self { key, layout: layout.clone(), rows, data, places, tables: tables.clone() })
    }

    /// Whether there is a measurement in any row.
    pub fn is_measured(&self) -> bool {
        self.data.outputs.iter().any(|y| !y.is_nan())
    }

    /// The failure of a run over these rows, with the line it stopped at.
    pub fn failure(&self, spec: &ModelSpec, filter: &FilterSpec, error: RunError) -> Failure {
        let error = match error {
            RunError::Spec(error) => return error.into(),
            RunError::Filter(FilterError::Empty { argument: "watch" }) => {
                return Failure::interrupted("");
            }
            RunError::Filter(error) => error,
        };
        let index = match &error {
            FilterError::Diverged { index, .. }
            | FilterError::Uneven { index, .. }
            | FilterError::NothingToDraw { index, .. }
            | FilterError::Impossible { index, .. } => Some(*index),
            FilterError::NotPositiveDefinite { index, .. }
            | FilterError::NotFinite { index, .. }
            | FilterError::Size { index, .. } => *index,
            _ => None,
        };
        let row = index.and_then(|index| usize::try_from(index).ok()).unwrap_or(1).max(1) - 1;
        let line = self.rows.lines.get(row).or(self.rows.lines.last()).copied().unwrap_or(0);
        let file = self.tables.name(self.places.get(row).copied().unwrap_or(0));
        let step = self.data.steps.get(row).copied();
        let row = step.map(|step| (self.data.input(row), step));
        Failure::filter(&Place { file, line, spec, filter, row }, &error).of_series(&self.key)
    }
}

/// Whether the program was asked to end.
pub fn asked_to_end() -> bool {
    interrupt::flag().load(Ordering::Relaxed)
}

/// A run that ends when the program was asked to.
pub const WHEN_ASKED: CancelCheck<'static> = CancelCheck { stride: 1, stop: &asked_to_end };

/// A row of a table: numbers in the order of its columns, and the time as it was read.
pub type Row = (Vec<f64>, Option<Vec<u8>>);

/// A table of results on its way. A file of that name is replaced when the table is complete.
pub struct Results {
    writer: TableWriter,
    fresh: Option<Fresh>,
    name: String,
}

impl Results {
    /// Starts a table.
    pub fn create(
        path: &Path,
        format: Format,
        columns: Vec<OutputColumn>,
    ) -> Result<Self, Failure> {
        files::check_columns(&columns)?;
        let standard = files::is_standard(path);
        let name = if standard { "standard output".to_owned() } else { path.display().to_string() };
        let (out, fresh): (Box<dyn io::Write + Send>, _) = if standard {
            (Box::new(io::stdout()), None)
        } else {
            let (file, fresh) = Fresh::create(path)?;
            (Box::new(file), Some(fresh))
        };
        let writer = files::table_writer(out, path, format, columns, false)?;
        Ok(Self { writer, fresh, name })
    }

    /// Writes a row, with the names that numbers in columns of labels stand for.
    pub fn row(&mut self, (values, time): &Row, labels: &[String]) -> Result<(), Failure> {
        let written = self.writer.labelled_row(values, time.as_deref(), labels);
        written.map_err(|e| Failure::write_table(&self.name, &e))
    }

    /// Hands on what was written so far.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map(drop).map_err(|e| Failure::write_table(&self.name, &e))
    }

    /// Ends the table.
    pub fn finish(self) -> Result<(), Failure> {
        self.writer.finish().map_err(|e| Failure::write_table(&self.name, &e))?;
        let kept = self.fresh.map_or(Ok(()), |fresh| fresh.keep());
        kept.map_err(|e| Failure::write(&self.name, &e))
    }
}

/// Writes a table as a whole.
pub fn write_table(
    path: &Path,
    format: Format,
    columns: Vec<OutputColumn>,
    labels: &[String],
    mut rows: impl Iterator<Item = Row>,
) -> Result<(), Failure> {
    let mut results = Results::create(path, format, columns)?;
    rows.try_for_each(|row| results.row(&row, labels))?;
    results.finish()
}
