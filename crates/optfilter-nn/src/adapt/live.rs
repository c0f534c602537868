//! Following a stream as it comes: constant memory, labels that come late or not at all, classes nobody knew of, and a state that
//! can be put aside.
//!
//! A [`TableSteps`] gives the time steps of a table one after the other; a [`Live`] predicts each, remembers it until its labels
//! are due (`delay` time steps later), scores and learns. Nothing grows with the length of the stream.

use super::read::{CsvOptions, MOST_CLASSES, columns};
use super::score::{Score, judge};
use super::tally::Tally;
use super::{AdaptError, Follower, Labels, Setup};
use crate::layer::Shape;
use optfilter::checkpoint;
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// Rows read at a time, and looked at to see whether labels are classes.
const CHUNK: usize = 4096;

/// One time step of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Its time.
    pub time: f64,
    /// Features, sample after sample.
    pub x: Vec<f64>,
    /// The label of each sample: the number of its class, or a value; NaN where it is missing.
    pub labels: Vec<f64>,
    /// Rows of the table up to its end.
    pub rows: u64,
}

/// The time steps of a table, read as they are needed.
pub struct TableSteps {
    name: String,
    reader: TableReader,
    rows: Rows,
    /// The next row of `rows`, rows before `rows`, and whether the table has ended.
    at: usize,
    before: u64,
    ended: bool,
    features: usize,
    timed: bool,
    every: Option<usize>,
    regress: bool,
    classes: HashMap<String, usize>,
    names: Vec<String>,
    last: f64,
}

/// What stands for a label that is missing.
fn is_missing(text: &str) -> bool {
    ["", "?", ".", "nan", "na", "n/a", "null", "none"].iter().any(|m| text.eq_ignore_ascii_case(m))
}

impl TableSteps {
    /// Begins to read. Labels are classes unless `options.regress` says otherwise or the first rows have numbers that are not whole
    /// (or too many different ones).
    pub fn open(
        source: Source,
        format: Format,
        name: &str,
        options: &CsvOptions,
    ) -> Result<Self, AdaptError> {
        let bad = |reason: String| AdaptError::File { path: name.into(), reason };
        let mut wanted = Vec::new();
        let choose = |names: &[String]| {
            wanted = columns(names, options);
            wanted.clone()
        };
        let mut reader =
            TableReader::open(source, format, choose).map_err(|e| bad(e.to_string()))?;
        let features = wanted.iter().filter(|w| w.kind == ColumnKind::Input).count();
        if features == 0 {
            return Err(bad("there is no column left for features".into()));
        }
        let timed = wanted.len() > features + 1;
        let mut rows = Rows::default();
        let ended = !reader.read(&mut rows, CHUNK).map_err(|e| bad(e.to_string()))?;
        if rows.rows == 0 {
            return Err(bad("there are no samples".into()));
        }
        let seen: Vec<&String> = rows.labels.iter().filter(|l| !is_missing(l)).collect();
        let numbers: Option<Vec<f64>> = seen.iter().map(|l| l.parse().ok()).collect();
        let values = numbers
            .is_some_and(|n| n.iter().any(|v: &f64| v.fract() != 0.0) || n.len() > MOST_CLASSES);
        Ok(Self {
            name: name.into(),
            reader,
            rows,
            at: 0,
            before: 0,
            ended,
            features,
            timed,
            every: options.every,
            regress: options.regress.unwrap_or(values),
            classes: HashMap::new(),
            names: Vec::new(),
            last: f64::NEG_INFINITY,
        })
    }

    /// Numbers of a sample.
    pub fn features(&self) -> usize {
        self.features
    }
    /// Whether labels are numbers to be predicted.
    pub fn regress(&self) -> bool {
        self.regress
    }
    /// The classes met so far, in the order in which they were met.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// Classes that are known already, in their order.
    pub fn know(&mut self, names: &[String]) {
        self.names = names.to_vec();
        self.classes = names.iter().cloned().zip(0..).collect();
    }

    /// Passes over rows that were seen before; false if there are not as many.
    pub fn skip(&mut self, rows: u64) -> Result<bool, AdaptError> {
        while self.before + (self.at as u64) < rows {
            if self.at >= self.rows.rows && !self.refill()? {
                return Ok(false);
            }
            let left = rows - self.before - self.at as u64;
            self.at += (self.rows.rows - self.at).min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        Ok(true)
    }

    fn refill(&mut self) -> Result<bool, AdaptError> {
        if self.ended {
            return Ok(false);
        }
        self.before += self.rows.rows as u64;
        self.at = 0;
        self.rows.clear();
        self.rows.forget_labels();
        let read = self.reader.read(&mut self.rows, CHUNK);
        let more =
            read.map_err(|e| AdaptError::File { path: self.name.clone(), reason: e.to_string() })?;
        self.ended = !more;
        Ok(self.rows.rows > 0)
    }

    /// The number of a label, which may be new.
    fn label(&mut self, number: usize, line: u64) -> Result<f64, AdaptError> {
        let text = self.rows.labels.get(number).cloned().unwrap_or_default();
        if is_missing(&text) {
            return Ok(f64::NAN);
        }
        if self.regress {
            return match text.parse::<f64>() {
                Ok(v) if v.is_finite() => Ok(v),
                _ => Err(AdaptError::File {
                    path: self.name.clone(),
                    reason: format!(
                        "line {line}: the label {text:?} is not a finite number, and numbers are predicted (--task classify for classes)"
                    ),
                }),
            };
        }
        if let Some(class) = self.classes.get(&text) {
            return Ok(*class as f64);
        }
        if self.names.len() >= 10_000 {
            return Err(AdaptError::File {
                path: self.name.clone(),
                reason: format!(
                    "line {line}: more than 10,000 classes; is the label a number? (--task regress)"
                ),
            });
        }
        self.classes.insert(text.clone(), self.names.len());
        self.names.push(text);
        Ok((self.names.len() - 1) as f64)
    }

    /// The next time step; false at the end.
    pub fn next(&mut self, step: &mut Step) -> Result<bool, AdaptError> {
        step.x.clear();
        step.labels.clear();
        let width = self.features + 1 + usize::from(self.timed);
        loop {
            if self.at >= self.rows.rows && !self.refill()? {
                return Ok(!step.labels.is_empty());
            }
            let row = self.at * width..(self.at + 1) * width;
            let number = self.before + self.at as u64;
            let time = match (self.timed, self.every) {
                (true, _) => self.rows.values[row.end - 1],
                (_, Some(every)) => (number / every.max(1) as u64) as f64,
                _ => number as f64,
            };
            if step.labels.is_empty() {
                let line = self.rows.lines.get(self.at).copied().unwrap_or(number + 1);
                if time < self.last {
                    return Err(AdaptError::File {
                        path: self.name.clone(),
                        reason: format!(
                            "line {line}: time runs backwards, {time} after {}",
                            self.last
                        ),
                    });
                }
                (step.time, self.last) = (time, time);
            } else if time != step.time {
                return Ok(true);
            }
            let line = self.rows.lines.get(self.at).copied().unwrap_or(number + 1);
            let label = self.rows.values[row.start + self.features] as usize;
            let label = self.label(label, line)?;
            step.x.extend_from_slice(&self.rows.values[row.start..row.start + self.features]);
            step.labels.push(label);
            self.at += 1;
            step.rows = self.before + self.at as u64;
        }
    }
}

/// A follower on a stream, with what it owes and what it has scored.
pub struct Live {
    follower: Follower,
    regress: bool,
    delay: usize,
    /// Time steps whose labels are not due yet, and what was predicted for them.
    pending: VecDeque<Step>,
    tally: Tally,
    rows: u64,
    names: Vec<String>,
    predicted: Vec<f64>,
}

/// What is kept between two runs.
type Kept = (Vec<u8>, bool, usize, Vec<Step>, Tally, u64, Vec<String>);

impl Live {
    /// Begins with drawn weights or given ones, and a scaling that follows the stream unless the settings bring one. Labels of a time
    /// step become known after `delay` further ones were predicted.
    pub fn new(
        features: usize,
        regress: bool,
        setup: &Setup,
        weights: Option<Vec<f32>>,
        names: &[String],
        delay: usize,
    ) -> Result<Self, AdaptError> {
        let classes = if regress { 0 } else { names.len().max(2) };
        let setup = Setup { pretrain: 0, running_scale: true, ..setup.clone() };
        Ok(Self {
            follower: Follower::begin(Shape::Vector(features), classes, &setup, weights)?,
            regress,
            delay,
            pending: VecDeque::new(),
            tally: Tally::default(),
            rows: 0,
            names: names.to_vec(),
            predicted: Vec::new(),
        })
    }

    /// The follower.
    pub fn follower(&self) -> &Follower {
        &self.follower
    }
    /// The scores so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
    /// Rows of the table that have been predicted.
    pub fn rows(&self) -> u64 {
        self.rows
    }
    /// The classes, in the order of the network's outputs.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// The labels' kind, with the classes' names.
    pub fn labels(&self) -> Labels {
        match self.regress {
            true => Labels::Values(Vec::new()),
            false => Labels::Classes { of: Vec::new(), names: self.names.clone() },
        }
    }

    /// The labels that a time step has, with its samples that have them.
    fn known(&self, step: &Step) -> (Vec<f64>, Labels) {
        let width = step.x.len() / step.labels.len().max(1);
        let samples = || step.labels.iter().enumerate().filter(|(_, v)| !v.is_nan());
        let x = samples().flat_map(|(i, _)| step.x[i * width..(i + 1) * width].iter().copied());
        let labels = match self.regress {
            true => Labels::Values(samples().map(|(_, v)| *v).collect()),
            false => Labels::Classes {
                of: samples().map(|(_, v)| *v as u32).collect(),
                names: Vec::new(),
            },
        };
        (x.collect(), labels)
    }

    /// Predicts a time step, scores it by the labels it has (nothing, if it has none), and learns from the one whose labels are due.
    /// `names` are the classes known by now. What does not fit is an error, and nothing was learnt.
    pub fn step(&mut self, step: &Step, names: &[String]) -> Result<Option<Score>, AdaptError> {
        self.follower.forecast(&step.x, &mut self.predicted)?;
        let classes = self.follower.classes();
        let each = classes.max(1);
        let (_, labels) = self.known(step);
        let kept = step.labels.iter().zip(self.predicted.chunks_exact(each));
        let judged: Vec<f64> =
            kept.filter(|(v, _)| !v.is_nan()).flat_map(|(_, row)| row.iter().copied()).collect();
        self.tally.unlabelled += (step.labels.len() - labels.len()) as u64;
        let score = (!labels.is_empty() && self.follower.is_judged()).then(|| {
            let score = judge(step.time, &judged, &labels, classes, self.follower.scaling());
            self.tally.add(&score, &judged, &labels, classes);
            score
        });
        if score.is_some_and(|s| !s.loss.is_finite()) {
            return Err(AdaptError::Diverged { time: step.time });
        }
        self.rows = step.rows;
        if names.len() > self.names.len() {
            self.names = names.to_vec();
            if !self.regress {
                self.follower.grow(self.names.len())?;
            }
        }
        if self.delay == 0 {
            self.learn(step)?;
        } else {
            self.pending.push_back(step.clone());
            if self.pending.len() > self.delay
                && let Some(due) = self.pending.pop_front()
            {
                self.learn(&due)?;
            }
        }
        Ok(score)
    }

    fn learn(&mut self, step: &Step) -> Result<(), AdaptError> {
        let (x, labels) = self.known(step);
        if labels.is_empty() {
            self.follower.pass();
            return Ok(());
        }
        self.follower.learn_from(&x, &labels).map_err(|e| match e {
            AdaptError::Diverged { .. } => AdaptError::Diverged { time: step.time },
            other => other,
        })
    }

    /// Everything, for [`Live::load`].
    pub fn save(&self) -> Result<Vec<u8>, AdaptError> {
        let pending: Vec<Step> = self.pending.iter().cloned().collect();
        let kept = (
            self.follower.save()?,
            self.regress,
            self.delay,
            pending,
            &self.tally,
            self.rows,
            &self.names,
        );
        Ok(checkpoint::save("adapt/live", &kept)?)
    }

    /// Goes on where [`Live::save`] was called, bit for bit; the settings must be those of then.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), AdaptError> {
        let (follower, regress, delay, pending, tally, rows, names): Kept =
            checkpoint::load("adapt/live", bytes)?;
        if regress != self.regress || delay != self.delay {
            let reason = "the checkpoint was made with another --task or --delay";
            return Err(AdaptError::Data(reason.into()));
        }
        self.follower.load(&follower)?;
        self.pending = pending.into();
        (self.tally, self.rows, self.names) = (tally, rows, names);
        Ok(())
    }
}
