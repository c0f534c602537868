//! Settings that are one of a few names.

use serde::{Deserialize, Serialize};

/// Declares a choice: each name once.
macro_rules! choices {
    ($($(#[$doc:meta])* $type:ident { $($(#[$each:meta])* $variant:ident = $name:literal,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$each])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Their names.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            /// The one of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|choice| choice.name() == name)
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        })*
    };
}

choices! {
    /// The filters by the names that users give them.
    Method {
        /// Implicit MAP: an optimizer and a number of steps.
        #[default]
        Imap = "imap",
        /// Extended Kalman filter.
        Ekf = "ekf",
        /// Iterated extended Kalman filter.
        Iekf = "iekf",
        /// Unscented Kalman filter.
        Ukf = "ukf",
        /// Particle filter.
        Pf = "pf",
        /// Kalman filter, for linear models.
        Kf = "kf",
        /// Variational Kalman filter: an optimizer with an explicit prior.
        Vkf = "vkf",
        /// Ensemble transform Kalman filter.
        Etkf = "etkf",
        /// Local ensemble transform Kalman filter.
        Letkf = "letkf",
    }

    /// What an optimizer descends.
    Loss {
        /// The negative logarithm of the likelihood, with the measurement noise R.
        #[default]
        Likelihood = "likelihood",
        /// Half the squared error, R = I, as in the paper.
        Squared = "squared",
    }

    /// What to make of irregular times under a model that knows no time.
    IrregularSteps {
        /// An error.
        #[default]
        Error = "error",
        /// Every row is one step, however long it took.
        PerRow = "per_row",
    }

    /// What an implicit filter makes of a measurement that comes after a gap.
    GapPolicy {
        /// It takes more steps, as the wider prior asks for.
        #[default]
        Widen = "widen",
        /// It takes as many steps as ever.
        Ignore = "ignore",
    }

    /// How far a window trusts the dynamics.
    Constraint {
        /// Altogether: the path through the window follows from its first state.
        #[default]
        Strong = "strong",
        /// As far as Q says: the path may bend at every row.
        Weak = "weak",
    }

    /// What happens to a measurement beyond the gate.
    GatingMode {
        /// It is left out.
        #[default]
        Reject = "reject",
        /// It counts as much as one at the gate would.
        Inflate = "inflate",
        /// It counts, and its row is flagged.
        Flag = "flag",
    }
}

impl Method {
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
