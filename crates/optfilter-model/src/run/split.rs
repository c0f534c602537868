//! A table with the rows of several series, taken apart: the one place that says which row belongs to which.
//!
//! Series are told apart by the text of a column ([`Layout::by`]) and numbered in the order in which they are first met.
//! Commands that stream keep only the [`Keys`]; those that need whole series let a [`Split`] collect them.

use super::layout::Layout;
use crate::table::Rows;
use std::collections::HashMap;

/// The names of series, numbered as they are met.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
}

impl Keys {
    /// The number of a series, and whether it is a new one.
    #[inline]
    pub fn number(&mut self, name: &str) -> (usize, bool) {
        if let Some(number) = self.numbers.get(name) {
            return (*number, false);
        }
        self.numbers.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        (self.names.len() - 1, true)
    }

    /// All names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Forgets them all.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.names.clear();
    }
}

/// One series of a table.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its rows in the order of the table, for the same [`Layout`].
    pub rows: Rows,
    /// The place of each in the whole table.
    pub places: Vec<usize>,
}

/// Whole series, collected from batches of their common table.
#[derive(Clone, Debug)]
pub struct Split {
    keys: Keys,
    parts: Vec<Part>,
    rows: usize,
    /// How many rows are kept at most, how many are, and of how many series one is kept.
    most: usize,
    kept: usize,
    of: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self::within(usize::MAX)
    }
}

impl Split {
    /// Of series that have more rows than so many together, some whole ones, evenly spread, are kept; of a single one its first rows.
    pub fn within(most: usize) -> Self {
        Self { keys: Keys::default(), parts: Vec::new(), rows: 0, most, kept: 0, of: 1 }
    }

    /// Gives up every other series until what is left is no more than may be kept.
    fn thin(&mut self) {
        while self.kept > self.most && self.of < self.parts.len() {
            self.of *= 2;
            for (_, part) in self.parts.iter_mut().enumerate().filter(|(i, _)| i % self.of != 0) {
                self.kept -= part.rows.rows;
                *part = Part::default();
            }
        }
    }

    /// Adds the rows of a batch to their series; without a column of names all belong to one, called "".
    ///
    /// The error is the first row of a series whose times are of the calendar where those before were not, or the other
    /// way round.
    pub fn add(&mut self, layout: &Layout, batch: &Rows) -> Result<(), usize> {
        let width = layout.width();
        for row in 0..batch.rows {
            let name = layout.series(batch, row).and_then(|n| batch.labels.get(n as usize));
            let (number, new) = self.keys.number(name.map_or("", String::as_str));
            if new {
                self.parts.push(Part::default());
            }
            self.rows += 1;
            let Part { rows, places } = &mut self.parts[number];
            if number % self.of != 0 || rows.rows >= self.most {
                continue;
            }
            if rows.rows > 0 && rows.calendar != batch.calendar {
                return Err(row);
            }
            rows.calendar = batch.calendar;
            rows.values.extend_from_slice(&batch.values[row * width..][..width]);
            rows.lines.push(batch.lines.get(row).copied().unwrap_or(0));
            if let Some(text) = batch.time_text(row) {
                rows.time_text.extend_from_slice(text);
                rows.time_ends.push(rows.time_text.len());
            }
            rows.rows += 1;
            places.push(self.rows - 1);
            self.kept += 1;
            self.thin();
        }
        Ok(())
    }

    /// The names of the series and their rows, in the order in which they were met.
    pub fn series(self) -> impl Iterator<Item = (String, Part)> {
        self.keys.names.into_iter().zip(self.parts).filter(|(_, part)| part.rows.rows > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelSpec;
    use crate::table::{Format, Source, TableReader};

    #[test]
    fn rows_go_to_their_series_with_lines_and_times() {
        let spec = ModelSpec::parse("m.toml", "system = \"local-level\"\n").unwrap();
        let layout = Layout::new(&spec, Some("t")).by(Some("who"));
        let text = "t,y,who\n0,1,a\n5,2,b\n1,3,a\n6,,b\n2.50,5,a\n";
        let source = Source::Stream(Box::new(std::io::Cursor::new(text)));
        let wanted = layout.wanted(&spec);
        let mut reader = TableReader::open(source, Format::Csv, |_| wanted).unwrap();
        let mut split = Split::default();
        // In batches of two rows, each of which numbers its labels anew.
        loop {
            let mut batch = Rows::default();
            let more = reader.read(&mut batch, 2).unwrap();
            split.add(&layout, &batch).unwrap();
            if !more {
                break;
            }
        }
        let found: Vec<(String, Part)> = split.series().collect();
        assert_eq!([&*found[0].0, &*found[1].0], ["a", "b"]);
        let (a, b) = (&found[0].1, &found[1].1);
        assert_eq!((&a.places, &a.rows.lines), (&vec![0, 2, 4], &vec![2, 4, 6]));
        assert_eq!(b.places, [1, 3]);
        assert_eq!(a.rows.time_text(2), Some(&b"2.50"[..]));
        assert_eq!(layout.split(&a.rows, 1), (Some(1.0), &[][..], &[3.0][..]));
        assert!(layout.split(&b.rows, 1).2[0].is_nan());
    }
}
