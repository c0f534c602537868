//! What was measured.

use super::attractor::Attractor;
use super::contest::Contender;
use super::scene::Scene;
use super::size::Size;

/// The result of one contender on the scenes of one setting.
#[derive(Clone, Debug)]
pub struct Score {
    /// The setting.
    pub setting: String,
    /// The contender.
    pub contender: Contender,
    /// The error on each scene; NaN where it diverged.
    pub errors: Vec<f64>,
}

impl Score {
    /// The mean over the scenes.
    pub fn mean(&self) -> f64 {
        self.errors.iter().sum::<f64>() / self.errors.len() as f64
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Every contender in every setting.
    pub scores: Vec<Score>,
    /// Error against the length of the window, for some numbers of iterations.
    pub sweep: Vec<(usize, u32, f64)>,
    /// Cycles that count in it.
    pub swept: usize,
    /// Lorenz '63.
    pub attractor: Vec<Attractor>,
    /// Cost and error against size, of one gradient step per measurement and of a window.
    pub sizes: Vec<[Size; 2]>,
    /// Seconds of a cycle of the local ensemble filter whose speed is compared with DAPPER's.
    pub local: Option<f64>,
    /// A scene with the estimates of a window on it, for a picture.
    pub shown: Option<(Scene, Vec<f64>)>,
    /// Whether it was ended early: then some of it is missing.
    pub stopped: bool,
    /// What ended it, if a filter could not go on.
    pub failed: Option<String>,
}
