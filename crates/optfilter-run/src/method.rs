//! The filters by name.

use serde::{Deserialize, Serialize};

/// The filters by the names that users give them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Implicit MAP: an optimizer and a number of steps.
    #[default]
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
    /// Ensemble transform Kalman filter.
    Etkf,
    /// Local ensemble transform Kalman filter.
    Letkf,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 9] = [
        Self::Imap,
        Self::Ekf,
        Self::Iekf,
        Self::Ukf,
        Self::Pf,
        Self::Kf,
        Self::Vkf,
        Self::Etkf,
        Self::Letkf,
    ];

    /// Their names.
    pub const NAMES: [&'static str; 9] =
        ["imap", "ekf", "iekf", "ukf", "pf", "kf", "vkf", "etkf", "letkf"];

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
            Self::Etkf => "etkf",
            Self::Letkf => "letkf",
        }
    }

    /// Whether its belief is a mean and a covariance.
    pub fn is_gaussian(self) -> bool {
        matches!(self, Self::Kf | Self::Ekf | Self::Iekf | Self::Ukf)
    }

    /// Whether it is an ensemble.
    pub fn is_ensemble(self) -> bool {
        matches!(self, Self::Etkf | Self::Letkf)
    }

    /// Whether it is driven by an optimizer.
    pub fn optimizes(self) -> bool {
        matches!(self, Self::Imap | Self::Vkf)
    }
}
