//! The paper's network on an NVIDIA card, many weight vectors at once (feature `cuda`).
//!
//! The kernels are compiled by NVRTC when the card is opened, so building needs nothing of CUDA's, and a machine without a card
//! gets a sentence instead of a crash. Only the paper's network is known here: its sizes are what makes one block per
//! image possible. Every other network runs on the CPU.
//!
//! Convolutions run on the tensor cores. Where results must be as good as in single precision, each number is a pair of halves
//! (`tile.cu`); particles, whose losses are only compared, are rounded to one half (`particles.cu`).
//!
//! | | where |
//! |---|---|
//! | [`Card`] | opens the card and compiles |
//! | [`Chains`] | Adam on many chains at once |
//! | [`Particles`] | particle filters: noise, losses, resampling |

mod card;
mod chains;
mod error;
mod particles;
mod sets;
mod sizes;

pub use card::Card;
pub use chains::Chains;
pub use error::CudaError;
pub use particles::Particles;
pub use sizes::PITCH;

/// Two words that name a chain's noise.
pub fn noise_key(seed: u64, purpose: &str) -> [u32; 2] {
    let bits = optfilter::rng::Stream::new(seed, 0, purpose).bits();
    [bits as u32, (bits >> 32) as u32]
}
