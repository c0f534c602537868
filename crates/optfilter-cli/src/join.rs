//! Tables with a clock of their own each, as one: rows in the order of their times, each with what its table measures.
//!
//! An accelerometer writes a hundred rows a second into one file, a receiver one row a second into another; the model reads both.
//! A column that a table lacks is missing in its rows, but for inputs, which stay as they were unless they are interpolated.
//! Rows that come late within a table are put in their place as long as they are no later than is tolerated.

use crate::failure::Failure;
use crate::files::{self, FormatName};
use optfilter_model::table::{ColumnKind, Rows, TableReader, TimeStyle, Wanted};
use std::path::PathBuf;

/// Rows that are read at once from each table.
const CHUNK: usize = 1024;

/// One of the tables.
struct Clock {
    reader: TableReader,
    name: String,
    /// The place of each of its columns among all that are wanted.
    places: Vec<usize>,
    rows: Rows,
    /// Rows that wait for their turn: by time, and then as they were read.
    waiting: Vec<(f64, usize)>,
    newest: f64,
    ended: bool,
}

/// Tables being read side by side.
pub struct Join {
    clocks: Vec<Clock>,
    width: usize,
    /// The places of inputs that stay as they were, and their last values.
    inputs: Vec<(usize, f64)>,
    late: f64,
}

impl Join {
    /// Opens the tables. The first of the wanted columns is the time, which each of them has.
    pub fn open(
        tables: &[PathBuf],
        format: Option<FormatName>,
        (wanted, held): (&[Wanted], &[usize]),
        style: &TimeStyle,
        late: f64,
    ) -> Result<Self, Failure> {
        let mut clocks = Vec::new();
        for path in tables {
            let mut places = Vec::new();
            let reader = files::reader_of(path, format, style, |columns| {
                let here = |w: &Wanted| columns.contains(&w.column);
                let own = wanted.iter().enumerate().filter(|(i, w)| *i == 0 || here(w));
                let (at, own): (Vec<usize>, Vec<Wanted>) = own.map(|(i, w)| (i, w.clone())).unzip();
                places = at;
                own
            })?;
            let name = files::display(path);
            let waiting = Vec::new();
            let (rows, newest, ended) = (Rows::default(), f64::NEG_INFINITY, false);
            clocks.push(Clock { reader, name, places, rows, waiting, newest, ended });
        }
        let inputs = held.iter().map(|place| (*place, f64::NAN)).collect();
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
            let Some((_, i)) = first else { return Ok(false) };
            self.take(i, out);
        }
        Ok(true)
    }

    fn take(&mut self, i: usize, out: &mut Rows) {
        let clock = &mut self.clocks[i];
        let (_, row) = clock.waiting.remove(0);
        let columns = clock.places.len();
        let values = &clock.rows.values[row * columns..][..columns];
        let mut all = vec![f64::NAN; self.width];
        clock.places.iter().zip(values).for_each(|(place, value)| all[*place] = *value);
        for (place, last) in &mut self.inputs {
            if all[*place].is_nan() {
                all[*place] = *last;
            }
            *last = all[*place];
        }
        let line = clock.rows.lines.get(row).copied().unwrap_or(0);
        let text = clock.rows.time_text(row).unwrap_or_default().to_vec();
        out.push_row(&all, &text, line, clock.rows.calendar);
    }
}

impl Clock {
    /// The time of the row whose turn is next; `None` at the end.
    fn next(&mut self, late: f64) -> Result<Option<f64>, Failure> {
        loop {
            let settled =
                self.waiting.first().filter(|(t, _)| self.ended || t + late <= self.newest);
            if let Some((time, _)) = settled {
                return Ok(Some(*time));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill(late)?;
        }
    }

    /// Reads on.
    fn fill(&mut self, late: f64) -> Result<(), Failure> {
        // What waits stays where it is until nothing does.
        if self.waiting.is_empty() {
            self.rows.clear();
        }
        let (before, columns) = (self.rows.rows, self.places.len());
        let more = self.reader.read(&mut self.rows, CHUNK);
        self.ended = !more.map_err(|e| Failure::table(&self.name, &e))?;
        for row in before..self.rows.rows {
            let time = self.rows.values[row * columns];
            if time < self.newest - late {
                let line = self.rows.lines.get(row).copied().unwrap_or(0);
                return Err(Failure::data(format!(
                    "{}: times run backwards at line {line}, further than --late tolerates; sort the table, or tolerate more",
                    self.name
                )));
            }
            self.newest = self.newest.max(time);
            let at = self.waiting.partition_point(|(t, _)| *t <= time);
            self.waiting.insert(at, (time, row));
        }
        Ok(())
    }
}

/// Whether these tables have one clock each: every one has the time, none has all columns, and together they do.
pub fn is_joined(tables: &[PathBuf], wanted: &[Wanted], timed: bool) -> bool {
    if tables.len() < 2 || !timed || wanted.iter().any(|w| w.kind == ColumnKind::Label) {
        return false;
    }
    let mut found = vec![false; wanted.len()];
    for path in tables {
        let mut here = Vec::new();
        let opened = files::reader_of(path, None, &TimeStyle::default(), |columns| {
            here = wanted.iter().map(|w| columns.contains(&w.column)).collect();
            Vec::new()
        });
        let whole = here.iter().all(|v| *v);
        if opened.is_err() || whole || here.first() != Some(&true) {
            return false;
        }
        found.iter_mut().zip(&here).for_each(|(f, h)| *f |= h);
    }
    found.iter().all(|v| *v)
}
