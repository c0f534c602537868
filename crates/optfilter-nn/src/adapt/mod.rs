//! Following a user's own drifting stream: predict first, then learn from the labels, time step after time step.
//!
//! The score of a time step is computed before its labels are used (*prequential*), so nothing is ever judged on what it
//! has seen. [`Stream`] holds the data, [`Follower`] a network with a filter, [`prequential`] runs one over the other,
//! [`Live`] follows one that need not fit in memory, whose labels may be late or missing, and
//! [`tune`] chooses the number of steps and the learning rate by prequential loss alone.
//!
//! ```
//! use optfilter_nn::adapt::{Follower, Labels, Setup, Stream, WeightMethod, prequential};
//! use optfilter_nn::Shape;
//! // A threshold that moves: the label says whether x is above it.
//! let (mut x, mut y, mut time) = (Vec::new(), Vec::new(), Vec::new());
//! for t in 0..40 {
//!     for i in 0..20 {
//!         let value = f64::from(i) / 10.0 - 1.0;
//!         x.push(value);
//!         y.push(u32::from(value > f64::from(t) / 40.0 - 0.5));
//!         time.push(f64::from(t));
//!     }
//! }
//! let stream = Stream::new(Shape::Vector(1), x, Labels::classes(y, 2), time)?;
//! let score = |method| -> Result<f64, Box<dyn std::error::Error>> {
//!     let setup = Setup { network: "mlp:8".into(), method, lr: 0.01, ..Setup::default() };
//!     let mut follower = Follower::new(&stream, &setup, None)?;
//!     let scores = prequential(&mut follower, &stream, 1..stream.steps())?;
//!     Ok(scores.iter().map(|s| s.right as f64).sum::<f64>() / scores.iter().map(|s| s.n as f64).sum::<f64>())
//! };
//! assert!(score(WeightMethod::ImplicitMap { steps: 30 })? > score(WeightMethod::Static)? + 0.05);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bank;
mod follow;
mod live;
mod member;
mod outputs;
mod prequential;
mod read;
mod samples;
mod saved;
mod scale;
mod score;
mod setting;
mod setup;
mod steps;
mod tally;
mod tune;

pub use follow::{Follower, Prediction};
pub use live::Live;
pub use prequential::{prequential, prequential_into};
pub use read::{CsvOptions, class_name, read_csv, read_npz};
pub use saved::Saved;
pub use scale::{LARGEST, Moments, Scaling};
pub use score::{Score, judge, level, mean_loss, most_likely};
pub use setting::Setting;
pub use setup::{BankOptions, Setup, WeightMethod};
pub use steps::{Step, TableSteps};
pub use tally::{Piece, Tally};
pub use tune::{Choice, Rolling, Tuned, tune, tune_rolling};

use crate::layer::Shape;
use std::ops::Range;

/// Why a stream cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptError {
    /// A file.
    #[error("{path}: {reason}")]
    File {
        /// Its name.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Labels are missing, and somebody needs all of them.
    #[error("{path}: {reason}; --stream reads tables with missing labels")]
    MissingLabel {
        /// The file.
        path: String,
        /// Where the first of them is.
        reason: String,
    },
    /// An npz file.
    #[error(transparent)]
    Npz(#[from] optfilter_table::npz::NpzError),
    /// The network or a batch for it.
    #[error(transparent)]
    Network(#[from] crate::NetworkError),
    /// An optimizer.
    #[error(transparent)]
    Optimizer(#[from] optfilter::optim::OptimizerError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] optfilter::checkpoint::CheckpointError),
    /// A filter's setting.
    #[error("{0}")]
    Setting(
        /// What is wrong.
        String,
    ),
    /// The data do not fit together.
    #[error("{0}")]
    Data(
        /// What is wrong.
        String,
    ),
    /// Somebody asked for it.
    #[error("learning was stopped")]
    Stopped,
    /// The loss left the finite numbers.
    #[error(
        "the weights left the finite numbers at time {time}; use a smaller learning rate or fewer steps"
    )]
    Diverged {
        /// The time step.
        time: f64,
    },
}

impl AdaptError {
    /// The same, with the time at which weights diverged.
    fn at(self, time: f64) -> Self {
        match self {
            Self::Diverged { .. } => Self::Diverged { time },
            other => other,
        }
    }
}

/// Labels of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// One class per sample, and the classes' names.
    Classes {
        /// Class of each sample.
        of: Vec<u32>,
        /// Names of the classes.
        names: Vec<String>,
    },
    /// One number per sample.
    Values(
        /// The numbers.
        Vec<f64>,
    ),
}

impl Labels {
    /// Classes called 0, 1, and so on.
    pub fn classes(of: Vec<u32>, count: usize) -> Self {
        Self::Classes { of, names: (0..count).map(|c| c.to_string()).collect() }
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        match self {
            Self::Classes { of, .. } => of.len(),
            Self::Values(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of them, without the classes' names.
    pub fn part(&self, samples: Range<usize>) -> Self {
        match self {
            Self::Classes { of, .. } => {
                Self::Classes { of: of[samples].to_vec(), names: Vec::new() }
            }
            Self::Values(v) => Self::Values(v[samples].to_vec()),
        }
    }
}

/// Samples with labels in the order of time.
#[derive(Clone, Debug)]
pub struct Stream {
    shape: Shape,
    x: Vec<f64>,
    labels: Labels,
    time: Vec<f64>,
    steps: Vec<Range<usize>>,
}

impl Stream {
    /// Samples of equal time form a time step. Times must not run backwards; everything must be finite.
    pub fn new(
        shape: Shape,
        x: Vec<f64>,
        labels: Labels,
        time: Vec<f64>,
    ) -> Result<Self, AdaptError> {
        let n = time.len();
        if n == 0 {
            return Err(AdaptError::Data("there are no samples".into()));
        }
        if labels.len() != n || x.len() != n * shape.len() {
            let (l, x, s) = (labels.len(), x.len(), shape.len());
            return Err(AdaptError::Data(format!(
                "{n} times, {l} labels and {x} numbers for samples of {s} numbers"
            )));
        }
        if let Some(i) = x.iter().position(|v| !v.is_finite()) {
            return Err(AdaptError::Data(format!(
                "sample {} has a feature that is not a finite number",
                i / shape.len()
            )));
        }
        if let Some(i) = time.iter().position(|t| !t.is_finite()) {
            return Err(AdaptError::Data(format!(
                "sample {i} has a time that is not a finite number"
            )));
        }
        if let Labels::Values(values) = &labels
            && let Some(i) = values.iter().position(|v| !v.is_finite())
        {
            return Err(AdaptError::Data(format!(
                "sample {i} has a label that is not a finite number"
            )));
        }
        if let Labels::Classes { of, names } = &labels
            && let Some(i) = of.iter().position(|c| *c as usize >= names.len())
        {
            return Err(AdaptError::Data(format!(
                "sample {i} has class {} of {}",
                of[i],
                names.len()
            )));
        }
        let mut steps: Vec<Range<usize>> = Vec::new();
        for i in 0..n {
            match steps.last_mut() {
                Some(last) if time[last.start] == time[i] => last.end = i + 1,
                Some(last) if time[i] < time[last.start] => {
                    let before = time[last.start];
                    return Err(AdaptError::Data(format!(
                        "time runs backwards at sample {i}: {} after {before}",
                        time[i]
                    )));
                }
                _ => steps.push(i..i + 1),
            }
        }
        Ok(Self { shape, x, labels, time, steps })
    }

    /// Shape of one sample.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Number of time steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }
    /// Number of samples.
    pub fn len(&self) -> usize {
        self.time.len()
    }
    /// Whether there are none; never true.
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }
    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }
    /// The same stream with its classes numbered as these are; each of its own must be among them.
    pub fn with_classes(mut self, known: &[String]) -> Result<Self, AdaptError> {
        if let Labels::Classes { of, names } = &mut self.labels {
            let place = |name: &String| {
                known.iter().position(|k| k == name).map(|i| i as u32).ok_or_else(|| {
                    let known = known.join(", ");
                    AdaptError::Data(format!(
                        "the weights know no class {name:?}; they know {known}"
                    ))
                })
            };
            let places = names.iter().map(place).collect::<Result<Vec<u32>, _>>()?;
            of.iter_mut().for_each(|class| *class = places[*class as usize]);
            *names = known.to_vec();
        }
        Ok(self)
    }
    /// Time of a step.
    pub fn time(&self, step: usize) -> f64 {
        self.time[self.steps[step].start]
    }
    /// Samples of some consecutive steps.
    pub fn range(&self, steps: Range<usize>) -> Range<usize> {
        match (
            self.steps.get(steps.start),
            steps.end.checked_sub(1).and_then(|e| self.steps.get(e)),
        ) {
            (Some(first), Some(last)) if steps.start < steps.end => first.start..last.end,
            _ => 0..0,
        }
    }
    /// Features of some samples.
    pub fn x(&self, samples: Range<usize>) -> &[f64] {
        &self.x[samples.start * self.shape.len()..samples.end * self.shape.len()]
    }
}
