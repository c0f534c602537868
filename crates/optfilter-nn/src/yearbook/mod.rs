//! The paper's Yearbook experiment: 80 years of portraits, a network that names a class, and five ways to keep its
//! 28,193 weights up to date with 32 labelled images a year.
//!
//! [`run`] does it all: reads the data (or makes up the stand-in), pre-trains, follows every method through the years on
//! all cores, saves each finished chain to `yearbook.csv`, and goes on from that file when it is started again.
//!
//! Two protocols, never mixed: *published*, what the paper's program did ([`published`]), and *specified*, what its text
//! says, with the library's own filters. They differ in the variational and the particle filter only; the results of
//! the other methods are the same for both and are computed once.

pub mod chain;
pub mod data;
mod generated;
pub mod published;
pub(crate) mod run;
pub mod split;
mod store;
mod summary;

pub use chain::{Method, YearResult};
pub use data::{DataError, Dataset};
pub use run::{Device, Options, Outcome, Progress, run};
pub use store::Row;
pub use summary::{Figure, Line, TableRow};

/// Which description of the experiment is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// What the paper's program did.
    Published,
    /// What the paper's text says.
    Specified,
}

impl Protocol {
    /// Its name in the outputs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Specified => "specified",
        }
    }
}

/// Why the experiment cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YearbookError {
    /// The data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network or a batch for it.
    #[error(transparent)]
    Network(#[from] crate::NetworkError),
    /// An optimizer.
    #[error(transparent)]
    Optimizer(#[from] optfilter::optim::OptimizerError),
    /// The variational filter.
    #[error(transparent)]
    Variational(#[from] crate::filter::VariationalError),
    /// The particle filter.
    #[error(transparent)]
    Particle(#[from] crate::filter::ParticleError),
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
