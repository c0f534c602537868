//! What rows were, in a few kilobytes: whether a table still begins with the rows that were read of it before.
//!
//! Every row goes into one sum: the bits of its numbers, the text of its time and the name of its series. The sum is of what was read,
//! and not of the bytes of a file, so that it is the same for every format, and a comment may be mended. It is noted every so many
//! rows, fewer as there are more, so that it can be said where a table has changed. The sum is not made to withstand forgery.

use crate::columns::Rows;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Sums that are kept at most.
const MARKS: usize = 512;

/// What rows were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trail {
    rows: u64,
    sum: u64,
    /// The sum after each `every` rows.
    every: u64,
    marks: Vec<u64>,
}

impl Default for Trail {
    fn default() -> Self {
        Self { rows: 0, sum: 0, every: 1, marks: Vec::new() }
    }
}

impl Trail {
    /// How many rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// One more: a row of `columns` numbers, of which the one at `label` stands for a name.
    pub fn add(&mut self, rows: &Rows, row: usize, columns: usize, label: Option<usize>) {
        let print = rows.prints.get(row).copied();
        self.word(print.unwrap_or_else(|| Self::print(rows, row, columns, label)));
        self.rows += 1;
        if self.rows.is_multiple_of(self.every) {
            self.marks.push(self.sum);
            if self.marks.len() == MARKS {
                let mut count = 0;
                self.marks.retain(|_| {
                    count += 1;
                    count % 2 == 0
                });
                self.every *= 2;
            }
        }
    }

    /// A row as one number.
    pub fn print(rows: &Rows, row: usize, columns: usize, label: Option<usize>) -> u64 {
        let mut print = Self::default();
        let values = rows.values.get(row * columns..(row + 1) * columns).unwrap_or_default();
        for (i, value) in values.iter().enumerate() {
            match label == Some(i) {
                false => print.word(value.to_bits()),
                true => {
                    let name = rows.labels.get(*value as usize).map_or("", String::as_str);
                    print.text(name.as_bytes());
                }
            }
        }
        print.text(rows.time_text(row).unwrap_or_default());
        print.sum
    }

    /// Whether the next row of another trail is the first of those of which it can be said that one has changed.
    pub fn begins_block(&self, other: &Self) -> bool {
        other.rows.is_multiple_of(self.every)
    }

    /// Where the rows of another trail so far are no longer those of this one: among these, from 1. Asked after each row, it knows no later than at the
    /// last row of this one.
    pub fn parted(&self, other: &Self) -> Option<RangeInclusive<u64>> {
        let block = (other.rows / self.every) as usize;
        let known = match other.rows {
            rows if rows == self.rows => self.sum,
            rows if !rows.is_multiple_of(self.every) => return None,
            _ => *block.checked_sub(1).and_then(|k| self.marks.get(k))?,
        };
        let first = other.rows.saturating_sub(1) / self.every * self.every + 1;
        (known != other.sum).then_some(first..=other.rows)
    }

    fn text(&mut self, text: &[u8]) {
        self.word(text.len() as u64);
        for part in text.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// Each step can be undone, so that two sums of which one word differs differ.
    fn word(&mut self, word: u64) {
        let mixed = (self.sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn rows(values: &[f64]) -> Rows {
        let mut rows = Rows::default();
        (rows.values, rows.rows) = (values.to_vec(), values.len());
        rows
    }

    fn trail(rows: &Rows) -> Trail {
        let mut trail = Trail::default();
        (0..rows.rows).for_each(|row| trail.add(rows, row, 1, None));
        trail
    }

    /// Where a change of one row is found, going over the rows once more.
    fn found(before: &Trail, rows: &Rows) -> Option<RangeInclusive<u64>> {
        let mut now = Trail::default();
        (0..rows.rows).find_map(|row| {
            now.add(rows, row, 1, None);
            before.parted(&now)
        })
    }

    #[test]
    fn a_row_that_changed_is_found_and_where() {
        for count in [1usize, 7, 511, 512, 513, 5000] {
            let mut now = rows(&(0..count).map(|k| k as f64).collect::<Vec<_>>());
            let before = trail(&now);
            assert!(before.marks.len() < MARKS);
            assert_eq!(found(&before, &now), None);
            for place in [0, count / 2, count - 1] {
                now.values[place] += 0.5;
                let range = found(&before, &now).unwrap();
                let (first, last) = (*range.start(), *range.end());
                assert!(range.contains(&(place as u64 + 1)), "{range:?} of {count}");
                assert!(last - first < 1 + count as u64 / 200, "{range:?} of {count}");
                now.values[place] -= 0.5;
            }
        }
    }

    #[test]
    fn names_and_times_are_parts_of_a_row() {
        let of = |name: &str, time: &str| {
            let mut one = Rows::default();
            let number = one.number_of(name.as_bytes());
            (one.values, one.rows) = (vec![1.0, number], 1);
            one.push_time_text(time.as_bytes());
            let mut trail = Trail::default();
            trail.add(&one, 0, 2, Some(1));
            trail.sum
        };
        let all = [("a", "0"), ("a ", "0"), ("a", "0.0"), ("", "a0"), ("a0", "")];
        let mut sums: Vec<u64> = all.iter().map(|(name, time)| of(name, time)).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), all.len());
    }
}
