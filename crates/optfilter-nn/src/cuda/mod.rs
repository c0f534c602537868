//! The paper's network on an NVIDIA card, many weight vectors at once (feature `cuda`).
//!
//! The kernels (`network.cu`, `particles.cu`) are compiled by NVRTC when the card is opened, so building needs nothing of CUDA's, and a
//! machine without a card gets a sentence instead of a crash. Only the paper's network is known here: its sizes are
//! what makes one block per image possible. Every other network runs on the CPU.
//!
//! | | where |
//! |---|---|
//! | [`Card`] | opens the card and compiles |
//! | [`Chains`] | Adam on many chains at once |
//! | [`Particles`] | particle filters: noise, losses, resampling |

mod chains;
mod particles;
pub(crate) mod yearbook;

pub use chains::Chains;
pub use particles::Particles;

use crate::network::Network;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, sys};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use std::sync::Arc;

/// Floats from one weight vector to the next: 28,193 rounded up so that each begins on a cache line.
pub const PITCH: usize = 28_224;
/// Floats of turned weights per chain.
const TURNED: usize = 3 * 9216;
/// Threads per block of the network kernels, as in `network.cu`.
const THREADS: u32 = 512;
/// Shared memory of the forward kernels and of the gradient kernel in bytes; computed as in `network.cu`.
const FORWARD_BYTES: u32 = 4 * (1156 + 32 * (324 + 100 + 36) + 128 + 64);
const GRADIENT_BYTES: u32 = FORWARD_BYTES + 4 * (128 + 512 + 2048 + 8192 + 324 * 32 + 2720);

/// Shared memory of the kernel that uses the tensor cores, as in `particles.cu`.
const TENSOR_BYTES: u32 = 4 * (2 * (1156 + 36 * (324 + 100 + 36) + 128) + 2 * 9216 + 64);
/// All kernels.
const SOURCE: &str = concat!(include_str!("network.cu"), include_str!("particles.cu"));

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
}

/// An opened card with the compiled kernels.
#[derive(Debug)]
pub struct Card {
    stream: Arc<CudaStream>,
    name: String,
    gradient: CudaFunction,
    predict: CudaFunction,
    losses: CudaFunction,
    losses_tf32: CudaFunction,
    adam: CudaFunction,
    disturb: CudaFunction,
    gather: CudaFunction,
    average: CudaFunction,
}

impl Card {
    /// Opens the first card and compiles the kernels (a few seconds).
    pub fn open(network: &Network) -> Result<Self, CudaError> {
        if *network != Network::paper_cnn() {
            return Err(CudaError::OtherNetwork);
        }
        // SAFETY: these only look for the libraries; cudarc's other calls panic where they are missing.
        let (driver, compiler) = unsafe {
            (cudarc::driver::sys::is_culib_present(), cudarc::nvrtc::sys::is_culib_present())
        };
        if !driver {
            return Err(CudaError::NoDriver);
        }
        if !compiler {
            return Err(CudaError::NoCompiler);
        }
        let context = CudaContext::new(0).map_err(|e| CudaError::NoCard(e.to_string()))?;
        // One stream only: the events that order several would cost more than the launches.
        // SAFETY: every buffer of this crate is used on the default stream alone.
        unsafe { context.disable_event_tracking() };
        let name = context.name()?;
        let shared = context.attribute(
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?;
        let needed = GRADIENT_BYTES.max(TENSOR_BYTES);
        if shared < needed as i32 {
            return Err(CudaError::SmallCard {
                name,
                found: shared / 1024,
                needed: needed.div_ceil(1024),
            });
        }
        let (major, minor) = context.compute_capability()?;
        let options = CompileOptions {
            options: vec![
                format!("--gpu-architecture=compute_{major}{minor}"),
                "--std=c++17".into(),
            ],
            ..CompileOptions::default()
        };
        let ptx = compile_ptx_with_opts(SOURCE, options)
            .map_err(|e| CudaError::Compile(format!("{e:?}").replace("\\n", "\n")))?;
        let module = context.load_module(ptx)?;
        let function = |name: &str, shared: u32| -> Result<CudaFunction, CudaError> {
            let function = module.load_function(name)?;
            let attribute =
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, shared as i32)?;
            Ok(function)
        };
        Ok(Self {
            gradient: function("gradient", GRADIENT_BYTES)?,
            predict: function("predict", FORWARD_BYTES)?,
            losses: function("losses", FORWARD_BYTES)?,
            losses_tf32: function("losses_tf32", TENSOR_BYTES)?,
            adam: module.load_function("adam")?,
            disturb: module.load_function("disturb")?,
            gather: module.load_function("gather")?,
            average: module.load_function("average")?,
            stream: context.default_stream(),
            name,
        })
    }

    /// The card's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until everything asked for is done.
    pub fn wait(&self) -> Result<(), CudaError> {
        Ok(self.stream.synchronize()?)
    }
}

/// Blocks of the network kernels.
fn network_grid(x: usize, chains: usize, shared: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (x as u32, chains as u32, 1),
        block_dim: (THREADS, 1, 1),
        shared_mem_bytes: shared,
    }
}

/// Blocks of the plain kernels.
fn plain_grid(x: usize, chains: usize, threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (x as u32, chains as u32, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Weight vectors one after the other, with the padding between them.
fn padded(weights: &[Vec<f32>]) -> Vec<f32> {
    let mut all = vec![0.0; weights.len() * PITCH];
    for (to, from) in all.chunks_exact_mut(PITCH).zip(weights) {
        to[..from.len()].copy_from_slice(from);
    }
    all
}

/// Two words that name a chain's noise.
fn noise_key(seed: u64, purpose: &str) -> [u32; 2] {
    let bits = optfilter::rng::Stream::new(seed, 0, purpose).bits();
    [bits as u32, (bits >> 32) as u32]
}
