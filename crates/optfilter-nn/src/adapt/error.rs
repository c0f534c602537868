//! Why a stream cannot be followed.

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
    pub(super) fn at(self, time: f64) -> Self {
        match self {
            Self::Diverged { .. } => Self::Diverged { time },
            other => other,
        }
    }
}
