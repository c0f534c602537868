//! Why the card cannot be used.

use cudarc::driver::DriverError;

/// Why the card cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// No driver.
    #[error("no NVIDIA driver was found on this machine (libcuda is missing); use --device cpu")]
    NoDriver,
    /// No compiler.
    #[error(
        "the CUDA run-time compiler was not found (libnvrtc is missing; it is part of the CUDA toolkit)"
    )]
    NoCompiler,
    /// No card.
    #[error("the NVIDIA driver is there, but no card: {0}")]
    NoCard(
        /// What the driver says.
        String,
    ),
    /// A card that is too small.
    #[error(
        "{name} has {found} KiB of shared memory per block; {needed} KiB are needed (H100, H200 and later)"
    )]
    SmallCard {
        /// The card.
        name: String,
        /// What it has.
        found: i32,
        /// What is needed.
        needed: u32,
    },
    /// The kernels do not compile: a defect of this program or an incompatible compiler.
    #[error("the kernels could not be compiled: {0}")]
    Compile(
        /// The compiler's words.
        String,
    ),
    /// Something failed on the card.
    #[error("the card reports {0}")]
    Driver(#[from] DriverError),
    /// A network the kernels do not know.
    #[error("on the card only the paper's network of 28,193 weights can be run")]
    OtherNetwork,
    /// Something of the wrong size.
    #[error("{what}: {found} where {needed} are needed")]
    Size {
        /// What was given.
        what: &'static str,
        /// How much there should be, or at most.
        needed: usize,
        /// How much there is.
        found: usize,
    },
}
