//! What to fit, and by what.

use optfilter_run::SpecError;

/// What to estimate, and how hard to look.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Names of quantities or groups; where there are none, the model's `[fit]` table or every noise.
    pub free: Vec<String>,
    /// Climbs: from the model's values in the units of the rows, before that from what the rows tell where that is better, and from
    /// places around.
    pub starts: usize,
    /// Seed of those places.
    pub seed: u64,
    /// What is maximised; what suits the filter, unless given.
    pub criterion: Option<Criterion>,
    /// Past rows of a window; those of the filter, unless given.
    pub window: Option<u32>,
    /// The first rows of each series, at most so many, instead of all.
    pub max_rows: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { free: Vec::new(), starts: 4, seed: 0, criterion: None, window: None, max_rows: None }
    }
}

/// What a fit maximises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// The log-likelihood of a Gaussian filter, with exact gradients.
    Likelihood,
    /// That of windows, along paths that follow from first states which are found with the rest; with exact gradients.
    Window,
    /// That of the one-step predictions of an implicit filter; by differences.
    Prediction,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Likelihood, Self::Window, Self::Prediction];

    /// Their names.
    pub const NAMES: [&'static str; 3] = ["likelihood", "window", "prediction"];

    /// The criterion of that name.
    pub fn from_name(name: &str) -> Result<Self, SpecError> {
        let found = Self::ALL.into_iter().find(|criterion| criterion.name() == name);
        let known = Self::NAMES.join(", ");
        found.ok_or_else(|| SpecError::of("criterion", format!("{name:?} is not one of {known}")))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
