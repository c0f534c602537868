//! Labels of samples.

use std::ops::Range;

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
