//! Tables with a clock of their own each, as one: rows in the order of their times, each with what its table measures.
//!
//! An accelerometer writes a hundred rows a second into one file, a receiver one row a second into another; the model reads both.
//! A column that a table lacks is missing in its rows; what its rows have of inputs is said where a model's inputs are filled in
//! (`optfilter_model::run`). Rows at one time come in an order that does not depend on that of the tables.
//! Rows that come late within a table are put in their place as long as they are no later than is tolerated. What is kept in memory
//! are the rows that wait: as many as a table has within that time, and one chunk.

use crate::failure::Failure;
use crate::files::{self, FormatName};
use optfilter_model::table::{ColumnKind, Rows, TableReader, TimeStyle, Wanted, short};
use optfilter_model::{InputRule, Missing};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Rows that are read at once from each table.
const CHUNK: usize = 1024;

/// A row that waits for its turn.
struct Waiting {
    time: f64,
    values: Vec<f64>,
    text: Vec<u8>,
    line: u64,
}

/// One of the tables.
struct Clock {
    reader: TableReader,
    name: String,
    /// Its number among the tables.
    table: usize,
    /// The place of each of its columns among all that are wanted.
    places: Vec<usize>,
    /// Rows as they are read.
    rows: Rows,
    /// By time, and then as they were read.
    waiting: VecDeque<Waiting>,
    newest: f64,
    /// Whether its times are dates, once it has a row.
    calendar: Option<bool>,
    ended: bool,
}

/// Tables being read side by side.
pub struct Join {
    clocks: Vec<Clock>,
    width: usize,
    /// What holds of the inputs, which come after the time, and their last values.
    inputs: Vec<(Missing, f64)>,
    late: f64,
}

impl Join {
    /// Opens the tables. The first of the wanted columns is the time, which each of them has.
    pub fn open(
        tables: &[PathBuf],
        format: Option<FormatName>,
        (wanted, rules): (&[Wanted], &[InputRule]),
        style: &TimeStyle,
        late: f64,
    ) -> Result<Self, Failure> {
        let mut clocks = Vec::new();
        for (table, path) in tables.iter().enumerate() {
            let mut places = Vec::new();
            // A table by itself has all columns, or says which it lacks.
            let alone = tables.len() == 1;
            let reader = files::reader_of(path, format, style, |columns| {
                let here = |w: &Wanted| alone || columns.contains(&w.column);
                let own = wanted.iter().enumerate().filter(|(i, w)| *i == 0 || here(w));
                let (at, own): (Vec<usize>, Vec<Wanted>) = own.map(|(i, w)| (i, w.clone())).unzip();
                places = at;
                own
            })?;
            clocks.push(Clock::new(reader, (files::display(path), table), places));
        }
        // What is stated at one time is taken in this order: inputs come first.
        clocks.sort_by(|a, b| (&a.places, &a.name).cmp(&(&b.places, &b.name)));
        let inputs = rules.iter().map(|rule| (rule.missing, f64::NAN)).collect();
        Ok(Self { clocks, width: wanted.len(), inputs, late })
    }

    /// Appends up to `max_rows` rows; false at the end of all tables.
    pub fn read(&mut self, out: &mut Rows, max_rows: usize) -> Result<bool, Failure> {
        for _ in 0..max_rows {
            let mut first: Option<(f64, usize)> = None;
            for (i, clock) in self.clocks.iter_mut().enumerate() {
                let next = clock.next(self.late)?;
                if let Some(time) = next.filter(|t| first.is_none_or(|(least, _)| *t < least)) {
                    first = Some((time, i));
                }
            }
            self.check_alike()?;
            let Some((_, i)) = first else { return Ok(false) };
            self.take(i, out);
        }
        Ok(true)
    }

    /// Refuses dates in one table and numbers in another: nothing says how they are in line.
    fn check_alike(&self) -> Result<(), Failure> {
        let with = |dates| self.clocks.iter().find(|clock| clock.calendar == Some(dates));
        let (Some(dates), Some(numbers)) = (with(true), with(false)) else { return Ok(()) };
        Err(Failure::data(format!(
            "the times of {} are dates and those of {} numbers, so that their rows cannot be put in order; write them all alike",
            dates.name, numbers.name
        )))
    }

    fn take(&mut self, i: usize, out: &mut Rows) {
        let clock = &mut self.clocks[i];
        let Some(row) = clock.waiting.pop_front() else { return };
        let mut all = vec![f64::NAN; self.width];
        clock.places.iter().zip(&row.values).for_each(|(place, value)| all[*place] = *value);
        let (calendar, table) = (clock.calendar.unwrap_or(false), clock.table);
        for (k, (missing, last)) in self.inputs.iter_mut().enumerate() {
            let has = |clock: &Clock| clock.places.contains(&(k + 1));
            let more = |clock: &Clock| has(clock) && !(clock.ended && clock.waiting.is_empty());
            let stated = *missing == Missing::Hold && has(&self.clocks[i]);
            // An empty cell of its own table, or no value to come that a row could wait for.
            if all[k + 1].is_nan() && (stated || !self.clocks.iter().any(more)) {
                all[k + 1] = *last;
            }
            if !all[k + 1].is_nan() {
                *last = all[k + 1];
            }
        }
        out.push_row(&all, &row.text, row.line, (calendar, table));
    }
}

impl Clock {
    fn new(reader: TableReader, (name, table): (String, usize), places: Vec<usize>) -> Self {
        let (rows, waiting) = (Rows::default(), VecDeque::new());
        let (newest, calendar, ended) = (f64::NEG_INFINITY, None, false);
        Self { reader, name, table, places, rows, waiting, newest, calendar, ended }
    }

    /// The time of the row whose turn is next; `None` at the end.
    fn next(&mut self, late: f64) -> Result<Option<f64>, Failure> {
        loop {
            let first = self.waiting.front().map(|row| row.time);
            if let Some(time) = first.filter(|t| self.ended || t + late <= self.newest) {
                return Ok(Some(time));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill(late)?;
        }
    }

    /// Reads on.
    fn fill(&mut self, late: f64) -> Result<(), Failure> {
        self.rows.clear();
        let columns = self.places.len();
        let more = self.reader.read(&mut self.rows, CHUNK);
        self.ended = !more.map_err(|e| Failure::table(&self.name, &e))?;
        if self.rows.rows > 0 {
            self.calendar = Some(self.rows.calendar);
        }
        for row in 0..self.rows.rows {
            let values = self.rows.values[row * columns..][..columns].to_vec();
            let (time, line) = (values[0], self.rows.lines.get(row).copied().unwrap_or(0));
            if time < self.newest - late {
                return Err(Failure::data(format!(
                    "{}: times run backwards at line {line}, further than --late tolerates; sort the table, or tolerate more",
                    self.name
                )));
            }
            self.newest = self.newest.max(time);
            let text = self.rows.time_text(row).unwrap_or_default().to_vec();
            let at = self.waiting.partition_point(|before| before.time <= time);
            self.waiting.insert(at, Waiting { time, values, text, line });
        }
        Ok(())
    }
}

/// Whether these tables have one clock each: every one has the time, none has all columns, and together they do. A column that
/// none of such tables has is an error.
pub fn is_joined(
    tables: &[PathBuf],
    format: Option<FormatName>,
    wanted: &[Wanted],
    timed: bool,
) -> Result<bool, Failure> {
    if tables.len() < 2 || !timed || wanted.iter().any(|w| w.kind == ColumnKind::Label) {
        return Ok(false);
    }
    let mut found = vec![false; wanted.len()];
    let mut timeless = None;
    for path in tables {
        let columns = files::columns(path, format)?;
        let here: Vec<bool> = wanted.iter().map(|w| columns.contains(&w.column)).collect();
        if here.iter().all(|v| *v) {
            return Ok(false);
        }
        if here.first() != Some(&true) {
            timeless.get_or_insert(path);
        }
        found.iter_mut().zip(&here).for_each(|(f, h)| *f |= h);
    }
    if let Some((w, _)) = wanted.iter().zip(&found).find(|(_, found)| !**found) {
        let names: Vec<String> = tables.iter().map(|path| files::display(path)).collect();
        let column = short(&w.column);
        return Err(Failure::data(format!(
            "there is no column {column:?} in any of {}",
            names.join(", ")
        )));
    }
    match (timeless, wanted.first()) {
        (Some(path), Some(time)) => Err(Failure::data(format!(
            "{} has no column {:?}; tables that are joined to one series need the time in each",
            files::display(path),
            short(&time.column)
        ))),
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optfilter_model::table::{Format, Source};

    /// However long a table is, what waits is a chunk and what may still come late.
    #[test]
    fn rows_that_wait_are_few() {
        let mut text = "t,y\n".to_owned();
        (0..50_000).for_each(|k| text += &format!("{},{k}\n", k ^ 1)); // every other row is late by one
        let wanted = ["t", "y"].map(|column| Wanted {
            column: column.to_owned(),
            kind: match column {
                "t" => ColumnKind::Time { seconds_per_unit: 1.0 },
                _ => ColumnKind::Measurement,
            },
        });
        let source = Source::Stream(Box::new(std::io::Cursor::new(text)));
        let reader = TableReader::open(source, Format::Csv, |_| wanted.to_vec()).unwrap();
        let clocks = vec![Clock::new(reader, ("t.csv".into(), 0), vec![0, 1])];
        let mut join = Join { clocks, width: 2, inputs: Vec::new(), late: 10.0 };
        let (mut rows, mut more, mut seen) = (Rows::default(), true, 0);
        while more {
            rows.clear();
            more = join.read(&mut rows, 100).unwrap();
            for time in rows.values.chunks_exact(2).map(|row| row[0]) {
                assert_eq!(time, f64::from(seen));
                seen += 1;
            }
            let (waiting, read) = (join.clocks[0].waiting.len(), join.clocks[0].rows.rows);
            assert!(waiting <= CHUNK + 12 && read <= CHUNK, "{waiting} wait, {read} are read");
        }
        assert_eq!(seen, 50_000);
    }
}
