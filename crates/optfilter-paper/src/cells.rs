//! The printed cells of the paper, and how ours compare with them.
//!
//! `data/tables.csv` holds the cells as printed. `data/exceptions.csv` holds those which the published program itself does not give:
//! misprints, with what the program gives instead, and cells that are numerically chaotic, with the tolerance to which they can be held.
//! An exception never changes a value; it only explains a difference, and only where the program's own value is met.

use crate::grid::GridMethod;
use crate::row::Row;
use crate::systems::System;
use serde::Deserialize;
use thiserror::Error;

const TABLES: &str = include_str!("../data/tables.csv");
const EXCEPTIONS: &str = include_str!("../data/exceptions.csv");

/// A data file of this crate cannot be read.
#[derive(Debug, Error)]
#[error("data/{file}: {source}")]
pub struct DataError {
    file: &'static str,
    source: csv::Error,
}

/// A cell as the paper prints it; all columns as text.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct Printed {
    pub table: String,
    pub system: String,
    pub q: String,
    pub r: String,
    pub alpha: String,
    pub dynamics: String,
    pub method: String,
    pub steps: String,
    pub lr: String,
    pub decay: String,
    pub q_search: String,
    pub value: String,
    pub ci: String,
}

impl Printed {
    /// Whether the cell belongs to this system.
    pub fn is_of(&self, system: &System) -> bool {
        system.key()
            == [&self.system, &self.q, &self.r, &self.alpha, &self.dynamics].map(String::clone)
    }

    /// Value and half-width as numbers; NaN where there is none.
    pub fn interval(&self) -> (f64, f64) {
        let number = |text: &str| text.parse().unwrap_or(f64::NAN);
        (number(&self.value), number(&self.ci))
    }

    /// The cell's row in the grid of its system: the named configuration, or the best of a Q search.
    pub fn find<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        if self.q_search == "yes" {
            return best(rows.iter().filter(|row| self.is_search(&row.method)));
        }
        let key = [&self.steps, &self.lr, &self.decay].map(String::as_str);
        rows.iter().find(|row| {
            let [steps, lr, decay, q] = row.method.parameters();
            row.method.name() == self.method && key == [steps.as_str(), &lr, &decay] && q.is_empty()
        })
    }

    /// The cell's row in the specified protocol: where the paper reports the best of a search, the configuration that the tuning
    /// runs choose; elsewhere the named configuration.
    pub fn find_tuned<'a>(&self, rows: &'a [Row]) -> Option<&'a Row> {
        if !self.is_tuned() {
            return self.find(rows);
        }
        rows.iter()
            .filter(|row| self.is_candidate(&row.method))
            .filter_map(|row| Some((row, row.tuning?.rmse)))
            .filter(|(_, rmse)| rmse.is_finite())
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(row, _)| row)
    }

    /// Whether the paper found this cell by a search: the optimizers of its main tables, and the Q searches.
    pub fn is_tuned(&self) -> bool {
        self.q_search == "yes"
            || (self.table.starts_with("experiment") && self.method.starts_with("IMAP"))
    }

    /// Whether a method took part in the search behind this cell.
    pub fn is_candidate(&self, method: &GridMethod) -> bool {
        if self.q_search == "yes" {
            return self.is_search(method);
        }
        matches!(method, GridMethod::Imap(_)) && method.name() == self.method
    }

    /// Whether a method is part of the Q search behind this cell.
    pub fn is_search(&self, method: &GridMethod) -> bool {
        match method {
            GridMethod::EkfSearch { .. } => self.method == "EKF-optimized",
            GridMethod::UkfSearch { .. } => self.method == "UKF-optimized",
            _ => false,
        }
    }
}

/// The row with the smallest mean among those that the paper's searches consider; the first of equals.
pub fn best<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<&'a Row> {
    rows.filter(|row| row.summary.in_search())
        .min_by(|a, b| a.summary.rmse.total_cmp(&b.summary.rmse))
}

/// All printed cells, in the order of the tables.
pub fn printed() -> Result<Vec<Printed>, DataError> {
    read("tables.csv", TABLES)
}

fn read<T: for<'a> Deserialize<'a>>(file: &'static str, text: &str) -> Result<Vec<T>, DataError> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(|source| DataError { file, source })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Misprint,
    Fragile,
}

#[derive(Debug, Deserialize)]
struct Exception {
    table: String,
    q: String,
    r: String,
    alpha: String,
    dynamics: String,
    method: String,
    steps: String,
    lr: String,
    decay: String,
    kind: Kind,
    program_value: String,
    program_ci: String,
    tolerance: Option<f64>,
    reason: String,
}

impl Exception {
    fn is_about(&self, cell: &Printed) -> bool {
        let ours = [
            &self.table,
            &self.q,
            &self.r,
            &self.alpha,
            &self.dynamics,
            &self.method,
            &self.steps,
            &self.lr,
            &self.decay,
        ];
        let theirs = [
            &cell.table,
            &cell.q,
            &cell.r,
            &cell.alpha,
            &cell.dynamics,
            &cell.method,
            &cell.steps,
            &cell.lr,
            &cell.decay,
        ];
        ours == theirs
    }
}

/// How our value compares with the printed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Value and half-width agree in every printed digit.
    Exact,
    /// The paper misprints the cell, and ours is what the program gives.
    Misprint,
    /// The cell is numerically chaotic, and ours lies within its tolerance.
    Fragile,
    /// Anything else.
    Differs,
}

impl Verdict {
    /// The word in `cells.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Misprint => "misprint",
            Self::Fragile => "fragile",
            Self::Differs => "differs",
        }
    }

    /// One character for a table.
    pub fn mark(self) -> char {
        match self {
            Self::Exact => '=',
            Self::Misprint => 'm',
            Self::Fragile => '~',
            Self::Differs => '!',
        }
    }
}

/// Judges cells of the published protocol.
pub struct Judge {
    exceptions: Vec<Exception>,
}

impl Judge {
    /// With the documented exceptions.
    pub fn new() -> Result<Self, DataError> {
        Ok(Self { exceptions: read("exceptions.csv", EXCEPTIONS)? })
    }

    /// The verdict on a value and half-width of the published protocol, and the reason where it is not exact.
    pub fn published(&self, cell: &Printed, value: f64, ci: f64) -> (Verdict, String) {
        if agrees(value, &cell.value) && agrees(ci, &cell.ci) {
            return (Verdict::Exact, String::new());
        }
        for exception in self.exceptions.iter().filter(|e| e.is_about(cell)) {
            let reason = || exception.reason.clone();
            match exception.kind {
                Kind::Misprint => {
                    if agrees(value, &exception.program_value) && agrees(ci, &exception.program_ci)
                    {
                        return (Verdict::Misprint, reason());
                    }
                }
                Kind::Fragile => {
                    let (paper, _) = cell.interval();
                    let held = exception
                        .tolerance
                        .is_none_or(|tolerance| (value - paper).abs() <= tolerance * paper);
                    if held {
                        return (Verdict::Fragile, reason());
                    }
                }
            }
        }
        (Verdict::Differs, String::new())
    }

    /// The verdict on a value of the specified protocol: the tables print another experiment, so nothing explains a difference.
    pub fn specified(&self, cell: &Printed, value: f64, ci: f64) -> Verdict {
        if agrees(value, &cell.value) && agrees(ci, &cell.ci) {
            Verdict::Exact
        } else {
            Verdict::Differs
        }
    }
}

/// Whether a number, rounded to as many places as the text has, is that text.
fn agrees(value: f64, text: &str) -> bool {
    let places = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    format!("{value:.places$}") == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_317_cells_and_every_exception_is_one_of_them() {
        let cells = printed().unwrap();
        assert_eq!(cells.len(), 317);
        assert_eq!(cells.iter().filter(|c| c.system != "yearbook").count(), 307);
        let judge = Judge::new().unwrap();
        assert_eq!(judge.exceptions.len(), 30);
        for exception in &judge.exceptions {
            assert_eq!(cells.iter().filter(|c| exception.is_about(c)).count(), 1, "{exception:?}");
        }
    }

    #[test]
    fn an_exception_explains_only_the_programs_own_value() {
        let cells = printed().unwrap();
        let judge = Judge::new().unwrap();
        let pf = cells
            .iter()
            .find(|c| c.table == "experiment_2_q1" && c.dynamics == "euler" && c.method == "PF")
            .unwrap();
        assert_eq!(judge.published(pf, 7.9993, 0.3368).0, Verdict::Misprint);
        assert_eq!(judge.published(pf, 7.9, 0.3368).0, Verdict::Differs);
        assert_eq!(judge.published(pf, 1.725, 0.031).0, Verdict::Exact);
        let grw = cells
            .iter()
            .find(|c| {
                c.table == "experiment_2_q1" && c.dynamics == "grw" && c.method == "IMAP-Adadelta"
            })
            .unwrap();
        assert_eq!(judge.published(grw, 10.78, 0.2).0, Verdict::Fragile);
        assert_eq!(judge.published(grw, 11.0, 0.2).0, Verdict::Differs);
    }
}
