//! `yearbook.csv`: every finished chain, written as soon as it is finished, read again when a run goes on.
//!
//! Beside it lies `yearbook.run`, which names the data and the sizes the rows belong to. Rows of other data or sizes are
//! not mixed in: such a run starts over.

use super::error::YearbookError;
use super::method::YearbookMethod;
use crate::protocol::Protocol;
use crate::store::write_whole;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// First line of the file.
pub const HEADER: &str = "protocol,method,steps,sigma2,seed,year,accuracy,val_accuracy,n_test";

/// Accuracies of one year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YearResult {
    /// The year.
    pub year: i32,
    /// Percent on the test images.
    pub accuracy: f64,
    /// Percent on the validation images, where the year has some.
    pub val_accuracy: Option<f64>,
    /// Number of test images.
    pub n_test: usize,
}

/// One line: a method with its configuration, a seed and a year.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The protocol.
    pub protocol: Protocol,
    /// The method.
    pub method: YearbookMethod,
    /// The seed.
    pub seed: u64,
    /// The accuracies.
    pub result: YearResult,
}

/// Names a chain: everything of a row but the year.
pub(super) fn key(protocol: Protocol, method: YearbookMethod, seed: u64) -> String {
    let steps = method.steps().map(|s| s.to_string()).unwrap_or_default();
    let sigma2 = method.sigma2().map(|s| s.to_string()).unwrap_or_default();
    let words = match method {
        YearbookMethod::Beyond(beyond) => format!(" {}", beyond.words()),
        _ => String::new(),
    };
    format!("{},{}{words},{steps},{sigma2},{seed}", protocol.name(), method.name())
}

/// The file with what it already holds.
pub(super) struct Store {
    path: PathBuf,
    finished: BTreeMap<String, Vec<YearResult>>,
    /// Whether rows of something else were dropped.
    pub started_over: bool,
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> YearbookError + '_ {
    |source| YearbookError::Io { path: path.into(), source }
}

impl Store {
    /// Opens or begins the file in `folder`. A chain counts as finished when it has a row for every year in `years`.
    pub fn open(folder: &Path, about: &str, years: &[i32]) -> Result<Self, YearbookError> {
        std::fs::create_dir_all(folder).map_err(io(folder))?;
        let (path, about_path) = (folder.join("yearbook.csv"), folder.join("yearbook.run"));
        let same = std::fs::read_to_string(&about_path).is_ok_and(|old| old == about);
        let mut finished: BTreeMap<String, Vec<YearResult>> = BTreeMap::new();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let started_over = !same && text.lines().count() > 1;
        if same {
            for line in text.lines().skip(1) {
                if let Some((key, result)) = parse(line) {
                    finished.entry(key).or_default().push(result);
                }
            }
            finished.retain(|_, results| results.iter().map(|r| r.year).eq(years.iter().copied()));
        }
        std::fs::write(&about_path, about).map_err(io(&about_path))?;
        let store = Self { path, finished, started_over };
        store.write()?;
        Ok(store)
    }

    /// The finished chain of that name.
    pub fn get(&self, key: &str) -> Option<&Vec<YearResult>> {
        self.finished.get(key)
    }

    /// Adds a finished chain, on disk first.
    pub fn add(&mut self, key: String, results: Vec<YearResult>) -> Result<(), YearbookError> {
        let mut file =
            std::fs::OpenOptions::new().append(true).open(&self.path).map_err(io(&self.path))?;
        file.write_all(lines(&key, &results).as_bytes()).map_err(io(&self.path))?;
        self.finished.insert(key, results);
        Ok(())
    }

    /// Writes the whole file in order, so that the result does not show in which order the chains were finished.
    pub fn write(&self) -> Result<(), YearbookError> {
        let mut text = format!("{HEADER}\n");
        for (key, results) in &self.finished {
            text.push_str(&lines(key, results));
        }
        write_whole(&self.path, text.as_bytes()).map_err(io(&self.path))
    }
}

fn lines(key: &str, results: &[YearResult]) -> String {
    results.iter().fold(String::new(), |mut text, r| {
        let validation = r.val_accuracy.map(|v| v.to_string()).unwrap_or_default();
        let _ = writeln!(text, "{key},{},{},{validation},{}", r.year, r.accuracy, r.n_test);
        text
    })
}

fn parse(line: &str) -> Option<(String, YearResult)> {
    let fields: Vec<&str> = line.split(',').collect();
    let [.., year, accuracy, validation, n_test] = fields[..] else { return None };
    if fields.len() != 9 {
        return None;
    }
    let result = YearResult {
        year: year.parse().ok()?,
        accuracy: accuracy.parse().ok()?,
        val_accuracy: if validation.is_empty() { None } else { Some(validation.parse().ok()?) },
        n_test: n_test.parse().ok()?,
    };
    Some((fields[..5].join(","), result))
}
