//! Which filter to run, with which settings.

use crate::file::{LikelihoodKind, ModelSpec, Settings};
use optfilter::optim::AnyOptimizer;
use serde::Serialize;

/// The filters by the names of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Implicit MAP: an optimizer and a number of steps.
    Imap,
    /// Extended Kalman filter.
    Ekf,
    /// Iterated extended Kalman filter.
    Iekf,
    /// Unscented Kalman filter.
    Ukf,
    /// Particle filter.
    Pf,
    /// Kalman filter, for linear models.
    Kf,
    /// Variational Kalman filter: an optimizer with an explicit prior.
    Vkf,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 7] =
        [Self::Imap, Self::Ekf, Self::Iekf, Self::Ukf, Self::Pf, Self::Kf, Self::Vkf];

    /// The method of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Imap => "imap",
            Self::Ekf => "ekf",
            Self::Iekf => "iekf",
            Self::Ukf => "ukf",
            Self::Pf => "pf",
            Self::Kf => "kf",
            Self::Vkf => "vkf",
        }
    }

    /// Whether it is driven by an optimizer.
    pub fn optimizes(self) -> bool {
        matches!(self, Self::Imap | Self::Vkf)
    }
}

/// Why a filter cannot be run on a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(String);

impl PlanError {
    pub(crate) fn new(message: impl ToString) -> Self {
        Self(message.to_string())
    }
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

/// A filter with all its settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The filter.
    pub method: Method,
    /// The optimizer's name.
    pub optimizer: String,
    /// Optimizer steps per measurement; linearisations for iekf.
    pub steps: u32,
    /// Learning rate.
    pub lr: f64,
    /// Decay, where the optimizer has one.
    pub decay: Option<f64>,
    /// Factor on the process noise.
    pub process_scale: f64,
    /// Particles.
    pub particles: u32,
    /// Seed of the particle filter.
    pub seed: u64,
    /// Whether standard deviations are wanted from the implicit filter.
    pub error_bars: bool,
    /// Whether the optimizer's state is carried from one row to the next.
    pub carry: bool,
}

impl Plan {
    /// The settings of a file, with defaults for what it leaves open: implicit MAP with Adam, 50 steps
    /// at 0.1, as in the paper.
    pub fn new(settings: &Settings) -> Self {
        let method = settings.method.as_deref().and_then(Method::from_name).unwrap_or(Method::Imap);
        Self {
            method,
            optimizer: settings.optimizer.clone().unwrap_or_else(|| "adam".into()),
            steps: settings.steps.unwrap_or(if method == Method::Iekf { 5 } else { 50 }),
            lr: settings.lr.unwrap_or(0.1),
            decay: settings.decay,
            process_scale: settings.process_scale.unwrap_or(1.0),
            particles: settings.particles.unwrap_or(1000),
            seed: 0,
            error_bars: true,
            carry: settings.carry.unwrap_or(false),
        }
    }

    /// What a model file would say to get this plan.
    pub fn settings(&self) -> Settings {
        let optimizes = self.method.optimizes();
        let steps = optimizes || self.method == Method::Iekf;
        let scaled = self.process_scale != 1.0;
        Settings {
            method: Some(self.method.name().into()),
            optimizer: optimizes.then(|| self.optimizer.clone()),
            steps: steps.then_some(self.steps),
            lr: optimizes.then_some(self.lr),
            decay: self.decay.filter(|_| optimizes),
            carry: (self.method == Method::Imap && self.carry).then_some(true),
            process_scale: scaled.then_some(self.process_scale),
            particles: (self.method == Method::Pf).then_some(self.particles),
        }
    }

    /// The flags that give this plan on the command line.
    pub fn flags(&self) -> String {
        let s = self.settings();
        let flags = [
            ("optimizer", s.optimizer),
            ("steps", s.steps.map(|v| v.to_string())),
            ("lr", s.lr.map(|v| v.to_string())),
            ("decay", s.decay.map(|v| v.to_string())),
            ("process-scale", s.process_scale.map(|v| v.to_string())),
            ("particles", s.particles.map(|v| v.to_string())),
        ];
        let mut out = format!("--method {}", self.method.name());
        for (name, value) in flags {
            if let Some(value) = value {
                out.push_str(&format!(" --{name} {value}"));
            }
        }
        if s.carry == Some(true) {
            out.push_str(" --carry");
        }
        out
    }

    /// The optimizer.
    pub fn optimizer(&self) -> Result<AnyOptimizer, PlanError> {
        AnyOptimizer::from_name(&self.optimizer, self.lr, self.decay).map_err(PlanError::new)
    }

    /// Whether the plan can run on a model, and why not.
    pub fn check(&self, spec: &ModelSpec) -> Result<(), PlanError> {
        let name = self.method.name();
        let needs_process = self.method != Method::Imap;
        if needs_process && spec.process_noise.is_none() {
            return Err(PlanError::new(format!(
                "method {name} needs [process_noise] in the model file; imap does not"
            )));
        }
        let needs_measurement =
            matches!(self.method, Method::Ekf | Method::Iekf | Method::Ukf | Method::Kf);
        if needs_measurement && spec.measurement_cov.is_none() {
            return Err(PlanError::new(format!(
                "method {name} needs [measurement_noise] in the model file; imap does not"
            )));
        }
        if self.method == Method::Kf {
            if !spec.compile().is_linear() {
                return Err(PlanError::new(
                    "method kf is for linear models and this one is not; use ekf, ukf or imap",
                ));
            }
            if spec.likelihoods.iter().any(|l| *l != LikelihoodKind::Gaussian) {
                return Err(PlanError::new(
                    "method kf is for gaussian measurements; use imap or pf for others",
                ));
            }
        }
        if self.method.optimizes() {
            self.optimizer()?;
        }
        Ok(())
    }
}
