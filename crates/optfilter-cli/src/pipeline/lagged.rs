//! Rows that wait for what the rows after them say: `--lagged`.
//!
//! A row has its smoothed states when the Lth row after it has come in its own series, and the last L of a series when the table
//! ends. From a table rows are written in their own order, so that one whose series is over keeps those behind it waiting; of a stream
//! that is followed each is written as soon as it is known, since nobody can tell whether a silent series is over.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A row on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// Its numbers; the last of them are the smoothed states, once they are known.
    pub(super) values: Vec<f64>,
    /// Its time as it was read.
    pub(super) time: Option<Vec<u8>>,
    pub(super) series: String,
    is_known: bool,
}

/// The rows that wait.
pub(super) struct Lagged {
    /// The place of the states in a row, their number, and how many rows late their smoothed values come.
    at: usize,
    states: usize,
    lag: usize,
    in_order: bool,
    /// By their numbers, and the numbers of those of each series whose smoothed states are not known.
    rows: BTreeMap<u64, Waiting>,
    unknown: HashMap<String, VecDeque<u64>>,
    came: u64,
    ready: VecDeque<Waiting>,
}

impl Lagged {
    pub(super) fn new(at: usize, states: usize, lag: usize, in_order: bool) -> Self {
        let (rows, unknown, ready) = (BTreeMap::new(), HashMap::new(), VecDeque::new());
        Self { at, states, lag, in_order, rows, unknown, came: 0, ready }
    }

    /// Goes on with rows that waited when a checkpoint was made.
    pub(super) fn restore(&mut self, saved: &[Waiting]) {
        saved.iter().for_each(|row| self.keep(row.clone()));
    }

    /// What a checkpoint keeps.
    pub(super) fn save(&self) -> Vec<Waiting> {
        self.rows.values().cloned().collect()
    }

    fn keep(&mut self, row: Waiting) {
        if !row.is_known {
            self.unknown.entry(row.series.clone()).or_default().push_back(self.came);
        }
        self.rows.insert(self.came, row);
        self.came += 1;
    }

    /// Takes a row, whose last numbers are the smoothed states of the row of its series that came L rows before it: NaN if the window does
    /// not reach back there.
    pub(super) fn push(&mut self, values: &[f64], time: Option<&[u8]>, series: &str) {
        let (values, time) = (values.to_vec(), time.map(<[u8]>::to_vec));
        let smoothed = values[values.len() - self.states..].to_vec();
        self.keep(Waiting { values, time, series: series.to_owned(), is_known: false });
        if self.unknown.get(series).is_some_and(|rows| rows.len() > self.lag) {
            self.know(series, &smoothed);
        }
        self.release();
    }

    /// Ends a series, with the states of the rows in its last window, oldest first.
    pub(super) fn end(&mut self, series: &str, path: &[f64]) {
        let left = self.unknown.get(series).map_or(0, VecDeque::len);
        let states: Vec<&[f64]> = path.chunks_exact(self.states).collect();
        let nothing = vec![f64::NAN; self.states];
        for ago in (0..left).rev() {
            let place = states.len().checked_sub(ago + 1);
            self.know(series, place.map_or(&nothing, |place| states[place]));
        }
        self.release();
    }

    /// Gives the row of a series that has waited longest its smoothed states. What a window has given up (`--shorten`) was not
    /// smoothed: it stays at its estimate.
    fn know(&mut self, series: &str, smoothed: &[f64]) {
        let Some(number) = self.unknown.get_mut(series).and_then(VecDeque::pop_front) else {
            return;
        };
        let Some(row) = self.rows.get_mut(&number) else { return };
        let estimated = row.values.len() - self.states;
        let (seen, own) = row.values.split_at_mut(estimated);
        let lost = smoothed.iter().any(|state| state.is_nan());
        own.copy_from_slice(if lost { &seen[self.at..][..self.states] } else { smoothed });
        row.is_known = true;
        if !self.in_order {
            self.ready.extend(self.rows.remove(&number));
        }
    }

    /// Rows before which none waits.
    fn release(&mut self) {
        while let Some(first) = self.rows.first_entry().filter(|first| first.get().is_known) {
            self.ready.push_back(first.remove());
        }
    }

    /// The next row to be written.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes rows (series, number, smoothed state of the row two before it) and returns what is written after each.
    fn written(in_order: bool, rows: &[(&str, f64, f64)]) -> (Lagged, Vec<Vec<(f64, f64)>>) {
        let mut lagged = Lagged::new(0, 1, 2, in_order);
        let mut out = Vec::new();
        for (series, state, smoothed) in rows {
            lagged.push(&[*state, *smoothed], None, series);
            out.push(taken(&mut lagged));
        }
        (lagged, out)
    }

    fn taken(lagged: &mut Lagged) -> Vec<(f64, f64)> {
        std::iter::from_fn(|| lagged.next()).map(|row| (row.values[0], row.values[1])).collect()
    }

    const ROWS: [(&str, f64, f64); 7] = [
        ("a", 1.0, 0.5),
        ("b", 2.0, 0.5),
        ("b", 3.0, 0.5),
        ("b", 4.0, 2.5),
        ("b", 5.0, 3.5),
        ("a", 6.0, 0.5),
        ("a", 7.0, 1.5),
    ];

    #[test]
    fn rows_of_a_table_keep_their_order() {
        let (mut lagged, out) = written(true, &ROWS);
        let all = vec![(1.0, 1.5), (2.0, 2.5), (3.0, 3.5)];
        assert_eq!(out, [vec![], vec![], vec![], vec![], vec![], vec![], all]);
        // Of a checkpoint the rest is the same.
        let mut other = Lagged::new(0, 1, 2, true);
        other.restore(&lagged.save());
        for lagged in [&mut lagged, &mut other] {
            lagged.end("a", &[1.6, 6.6, 7.6]);
            assert_eq!(taken(lagged), []);
            lagged.end("b", &[3.6, 4.6, 5.6]);
            assert_eq!(taken(lagged), [(4.0, 4.6), (5.0, 5.6), (6.0, 6.6), (7.0, 7.6)]);
            assert_eq!(lagged.save(), []);
        }
    }

    #[test]
    fn rows_that_are_followed_are_written_when_they_are_known() {
        let (mut lagged, out) = written(false, &ROWS);
        let none = Vec::new;
        let (four, five, seven) = (vec![(2.0, 2.5)], vec![(3.0, 3.5)], vec![(1.0, 1.5)]);
        assert_eq!(out, [none(), none(), none(), four, five, none(), seven]);
        lagged.end("b", &[3.6, 4.6, 5.6]);
        assert_eq!(taken(&mut lagged), [(4.0, 4.6), (5.0, 5.6)]);
    }

    /// A window that was shortened to two rows, and then to one, says nothing of those before.
    #[test]
    fn what_a_window_has_given_up_stays_as_it_was_estimated() {
        let nothing = f64::NAN;
        let rows = [("a", 1.0, 0.5), ("a", 2.0, 0.5), ("a", 3.0, nothing)];
        let (mut lagged, out) = written(true, &rows);
        assert_eq!(out[2], [(1.0, 1.0)]);
        lagged.end("a", &[3.6]);
        assert_eq!(taken(&mut lagged), [(2.0, 2.0), (3.0, 3.6)]);
        // Shorter than the lag, a series is whole in its last window.
        lagged.push(&[8.0, 0.5], None, "c");
        lagged.end("c", &[8.5]);
        assert_eq!(taken(&mut lagged), [(8.0, 8.5)]);
    }
}
