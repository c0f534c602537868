//! A whole table in memory: what the commands that look back or ahead share.

use crate::failure::{Failure, Place};
use crate::files::{self, Fresh};
use crate::interrupt;
use crate::tables::TableFlags;
use optfilter::filter::FilterError;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::{Format, OutputColumn, Rows};
use optfilter_run::{FilterSpec, RunError};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A table: its rows as they were read, and as steps.
pub struct Whole {
    pub name: String,
    pub layout: Layout,
    pub rows: Rows,
    pub data: Dataset,
}

impl Whole {
    /// Reads a table to its end.
    pub fn read(
        tables: &TableFlags,
        spec: &ModelSpec,
        filter: &FilterSpec,
    ) -> Result<Self, Failure> {
        let layout = Layout::new(spec, tables.time.as_deref());
        let name = files::display(&tables.data);
        let mut reader = files::table(&tables.data, tables.format, spec, &layout, &[])?;
        let mut rows = Rows::default();
        while reader.read(&mut rows, 1 << 16).map_err(|e| Failure::table(&name, &e))? {}
        if rows.rows == 0 {
            return Err(Failure::data(format!("{name}: the table has no rows")));
        }
        // Whether the first row is predicted is the filter's to say, flags included.
        let mut clocked = spec.clone();
        clocked.filter.predict_first = Some(filter.predict_first());
        let data = Dataset::new(&clocked, &layout, &rows).map_err(|(row, before, after)| {
            let line = rows.lines.get(row as usize - 1).copied().unwrap_or(row);
            let first = layout.split(&rows, 0).0.unwrap_or(f64::NEG_INFINITY);
            let calendar = rows.calendar.then_some(spec.seconds_per_unit);
            files::backwards(&name, line, [first, before, after], calendar)
        })?;
        if data.outputs.iter().all(|y| y.is_nan()) {
            let message = format!("{name}: there is no measurement in any of {} rows", data.len());
            return Err(Failure::data(message));
        }
        Ok(Self { name, layout, rows, data })
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
        Failure::filter(&Place { file: &self.name, line, spec, filter }, &error)
    }
}

/// Whether the program was asked to end.
pub fn asked_to_end() -> bool {
    interrupt::flag().load(Ordering::Relaxed)
}

/// Writes a table as a whole. A file of that name is replaced when the table is complete.
pub fn write_table(
    path: &Path,
    format: Format,
    columns: Vec<OutputColumn>,
    rows: impl Iterator<Item = (Vec<f64>, Option<Vec<u8>>)>,
) -> Result<(), Failure> {
    files::check_columns(&columns)?;
    let standard = files::is_standard(path);
    let name = if standard { "standard output".to_owned() } else { path.display().to_string() };
    let (out, fresh): (Box<dyn io::Write + Send>, _) = if standard {
        (Box::new(io::stdout()), None)
    } else {
        let (file, fresh) = Fresh::create(path).map_err(|e| Failure::write(&name, &e))?;
        (Box::new(file), Some(fresh))
    };
    let fail = |e| Failure::write_table(&name, &e);
    let mut writer = files::table_writer(out, path, format, columns, false)?;
    for (values, time) in rows {
        writer.row(&values, time.as_deref()).map_err(fail)?;
    }
    writer.finish().map_err(fail)?;
    fresh.map_or(Ok(()), |fresh| fresh.keep()).map_err(|e| Failure::write(&name, &e))
}
