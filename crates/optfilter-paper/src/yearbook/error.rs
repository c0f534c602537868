//! Why the experiment cannot go on.

use super::data::DataError;

/// Why the experiment cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YearbookError {
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The printed tables.
    #[error(transparent)]
    Printed(#[from] crate::cells::DataError),
    /// The network or a batch for it.
    #[error(transparent)]
    Network(#[from] optfilter_nn::NetworkError),
    /// An optimizer.
    #[error(transparent)]
    Optimizer(#[from] optfilter::optim::OptimizerError),
    /// The variational filter.
    #[error(transparent)]
    Variational(#[from] optfilter_nn::filter::VariationalError),
    /// The particle filter.
    #[error(transparent)]
    Particle(#[from] optfilter_nn::filter::ParticleError),
    /// No images to pre-train on.
    #[error("{name} has no images of 1930 or before, so there is nothing to pre-train on")]
    NoEarlyImages {
        /// The data.
        name: String,
    },
    /// No year to follow.
    #[error("{name} has no images of the years {first} to {last}")]
    NoYears {
        /// The data.
        name: String,
        /// First year.
        first: i32,
        /// Last year.
        last: i32,
    },
    /// A chain of a seed that was not pre-trained: a defect of this module.
    #[error("seed {seed} was not prepared")]
    NoSeed {
        /// The seed.
        seed: u64,
    },
    /// The results cannot be written or read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// Told to stop; what was finished is saved.
    #[error(
        "stopped: {finished} of {units} chains are saved, and the same command goes on from there"
    )]
    Stopped {
        /// Chains saved.
        finished: usize,
        /// Chains asked for.
        units: usize,
    },
    /// The graphics card.
    #[error("--device cuda: {0}")]
    Cuda(
        /// What is wrong.
        String,
    ),
}

#[cfg(feature = "cuda")]
impl From<optfilter_nn::cuda::CudaError> for YearbookError {
    fn from(e: optfilter_nn::cuda::CudaError) -> Self {
        Self::Cuda(e.to_string())
    }
}
