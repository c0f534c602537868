//! The five ways to keep the weights up to date, and those that look back over years, with their configurations.

use optfilter::optim::{Adam, OptimizerError};
use optfilter_nn::filter::{Memory, Window};

/// Learning rate of every method and of the pre-training.
pub const LR: f64 = 1e-3;
/// Adam steps of the direct fit and of the variational filter.
pub const LONG: u32 = 1000;

/// Which of the paper's filters looks back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The implicit MAP filter.
    ImplicitMap,
    /// The direct fit: the same with many steps.
    DirectFit,
    /// The variational filter with this variance.
    Variational(
        /// sigma^2.
        f64,
    ),
}

/// A filter that looks back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beyond {
    /// Which one.
    pub rule: Rule,
    /// Adam steps per year.
    pub steps: u32,
    /// How far back.
    pub window: Window,
    /// Whether Adam's memory is carried from year to year.
    pub memory: Memory,
    /// Decay of a running average of the weights that is judged in their place; 0 for none.
    pub average: f64,
    /// Share of the distance to the pre-trained weights that is lost from year to year; 0 for none.
    pub decay: f64,
    /// How much Adam keeps of its two running means from step to step.
    pub betas: [f64; 2],
}

impl Beyond {
    /// What Adam usually keeps.
    pub const BETAS: [f64; 2] = [0.9, 0.999];

    /// Its optimizer.
    pub(super) fn adam(&self) -> Result<Adam, OptimizerError> {
        let [beta1, beta2] = self.betas;
        Adam::with_decay(LR, beta1, beta2)
    }

    /// Its name in the outputs.
    pub fn name(&self) -> &'static str {
        match self.rule {
            Rule::ImplicitMap => "windowed IMAP-Adam",
            Rule::DirectFit => "windowed direct-fit",
            Rule::Variational(_) => "windowed VKF",
        }
    }

    /// Window, discount, memory, and what is not as usual, in words.
    pub fn words(&self) -> String {
        let memory = if self.memory == Memory::Carry { "carried" } else { "restarted" };
        let mut words = format!("L={}", self.window.length());
        if self.window.length() > 0 {
            words += &format!(" g={}", self.window.discount());
        }
        words += &format!(" {memory}");
        if self.average > 0.0 {
            words += &format!(" average={}", self.average);
        }
        if self.decay > 0.0 {
            words += &format!(" decay={}", self.decay);
        }
        if self.betas != Self::BETAS {
            words += &format!(" b1={} b2={}", self.betas[0], self.betas[1]);
        }
        words
    }
}

/// A method with its configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum YearbookMethod {
    /// The pre-trained weights.
    Static,
    /// Implicit MAP with K Adam steps.
    ImplicitMap(
        /// K.
        u32,
    ),
    /// 1000 Adam steps.
    DirectFit,
    /// Variational Kalman filter.
    Variational(
        /// sigma^2.
        f64,
    ),
    /// Particle filter.
    Particle(
        /// sigma^2.
        f64,
    ),
    /// A filter with a window of past years, which the paper does not have.
    Beyond(
        /// Which one, and how far back.
        Beyond,
    ),
}

impl YearbookMethod {
    /// Its name in the outputs, as in the paper's table.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::ImplicitMap(_) => "IMAP-Adam",
            Self::DirectFit => "direct-fit",
            Self::Variational(_) => "VKF",
            Self::Particle(_) => "PF",
            Self::Beyond(beyond) => beyond.name(),
        }
    }
    /// Optimizer steps per year.
    pub fn steps(&self) -> Option<u32> {
        match self {
            Self::ImplicitMap(k) => Some(*k),
            Self::DirectFit | Self::Variational(_) => Some(LONG),
            Self::Beyond(beyond) => Some(beyond.steps),
            _ => None,
        }
    }
    /// sigma^2.
    pub fn sigma2(&self) -> Option<f64> {
        match self {
            Self::Variational(s) | Self::Particle(s) => Some(*s),
            Self::Beyond(Beyond { rule: Rule::Variational(s), .. }) => Some(*s),
            _ => None,
        }
    }
    /// Whether both protocols do the same.
    pub fn shared(&self) -> bool {
        self.sigma2().is_none() || matches!(self, Self::Beyond(_))
    }
    /// Its settings in words: `K=50 sigma^2=0.01 L=7 g=0.8 carried`.
    pub fn configuration(&self) -> String {
        let steps = self.steps().map(|k| format!("K={k}"));
        let sigma2 = self.sigma2().map(|s| format!("sigma^2={s}"));
        let beyond = match self {
            Self::Beyond(beyond) => Some(beyond.words()),
            _ => None,
        };
        steps.into_iter().chain(sigma2).chain(beyond).collect::<Vec<_>>().join(" ")
    }
    /// Work per year in Adam steps: 1000 forward passes cost about as much as 400 steps.
    pub(crate) fn work(&self, particles: usize) -> f64 {
        match self {
            Self::Static => 1.0,
            Self::Particle(_) => 0.4 * particles as f64,
            Self::Beyond(b) => f64::from(b.steps) * (b.window.length() + 1) as f64 + 1.0,
            _ => f64::from(self.steps().unwrap_or(0)) + 1.0,
        }
    }
}
