//! Why a row of a stream was not taken, in the words of its table.

use crate::failure::{Failure, Place};
use crate::files;
use optfilter_model::ModelSpec;
use optfilter_model::run::Layout;
use optfilter_model::table::Rows;
use optfilter_run::{FilterSpec, Session, SessionError};

/// A row, and whose it is.
pub struct Refused<'a> {
    pub spec: &'a ModelSpec,
    pub filter: &'a FilterSpec,
    pub layout: &'a Layout,
    /// The names of the tables.
    pub tables: &'a [String],
    /// The column that names the series, if one was asked for.
    pub by: Option<&'a str>,
    pub batch: &'a Rows,
    pub row: usize,
    /// The name of the row's series, or nothing.
    pub series: &'a str,
    pub session: &'a Session,
    /// The first time of the series.
    pub first_time: f64,
    /// The inputs as the filter had them.
    pub inputs: &'a [f64],
}

impl Refused<'_> {
    /// What to tell, and the code to end with.
    pub fn because(&self, error: SessionError) -> Failure {
        let Self { batch, row, spec, filter, .. } = *self;
        let line = batch.lines.get(row).copied().unwrap_or(0);
        let file = self.tables.get(batch.table_of(row)).map_or("", String::as_str);
        let failure = match error {
            SessionError::Backwards(before, after) => {
                let unit = batch.calendar.then_some(spec.seconds_per_unit);
                files::backwards(file, line, [self.first_time, before, after], unit, self.by)
            }
            SessionError::Filter(error) => {
                let time = self.layout.split(batch, row).0;
                let step = self.session.next_step(time, batch.calendar);
                let row = step.map(|step| (self.inputs, step));
                Failure::filter(&Place { file, line, spec, filter, row }, &error)
            }
        };
        failure.of_series(self.series)
    }
}
