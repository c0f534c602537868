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

mod chains;
mod particles;

pub use chains::Chains;
pub use particles::Particles;

use crate::network::Network;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, sys};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use std::sync::Arc;

/// Floats from one weight vector to the next: 28,193 rounded up so that each begins on a cache line.
pub const PITCH: usize = 28_224;
/// Words of the weights of layers 2 to 4, forward and turned, in the order of the tiles.
const FRAGMENTS: usize = 6 * 2304 * 4;
/// Threads per block of the network kernels and of the one for particles, as in `forward.cu` and `particles.cu`.
const THREADS: u32 = 512;
const PARTICLE_THREADS: u32 = 256;

/// Floats of shared memory that the network kernels have in common (`forward.cu`).
const COMMON: u32 = 34 * 42 + 36 * (324 + 100 + 36) + 128 + 12 + 320 + 96 + 132;
/// Shared memory in bytes, computed as in the kernels: of the forward pass (`forward.cu`), ...
const FORWARD_BYTES: u32 = 4 * (COMMON + 3 * 2304 * 4);
/// ... of the gradient (`back.cu`), ...
const GRADIENT_BYTES: u32 = 4 * (COMMON + 256 * 40 + 36 * (324 + 100 + 36) + 2720 + 512 + 2304 * 4);
/// ... and of particles in half precision (`particles.cu`).
const HALF_BYTES: u32 = 4 * (34 * 42 + 20 * (324 + 100 + 36) + 128 + 3 * 2304 * 2);
/// All kernels.
const SOURCE: &str = concat!(
    include_str!("tile.cu"),
    include_str!("layer.cu"),
    include_str!("forward.cu"),
    include_str!("back.cu"),
    include_str!("gradient.cu"),
    include_str!("adam.cu"),
    include_str!("cloud.cu"),
    include_str!("particles.cu")
);

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

/// An opened card with the compiled kernels.
#[derive(Debug)]
pub struct Card {
    stream: Arc<CudaStream>,
    name: String,
    multiprocessors: usize,
    gradient: CudaFunction,
    predict: CudaFunction,
    losses: CudaFunction,
    losses_half: CudaFunction,
    adam: CudaFunction,
    blend: CudaFunction,
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
        let needed = GRADIENT_BYTES.max(FORWARD_BYTES);
        if shared < needed as i32 {
            return Err(CudaError::SmallCard {
                name,
                found: shared / 1024,
                needed: needed.div_ceil(1024),
            });
        }
        let multiprocessors = context
            .attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?
            .max(1) as usize;
        let (major, minor) = context.compute_capability()?;
        let mut words = vec![
            format!("--gpu-architecture=compute_{major}{minor}"),
            "--std=c++17".into(),
            format!("-DFORWARD_BYTES={FORWARD_BYTES}"),
            format!("-DGRADIENT_BYTES={GRADIENT_BYTES}"),
            format!("-DHALF_BYTES={HALF_BYTES}"),
        ];
        // For those who tune the kernels: -DSTAGES prints the cycles of the gradient's stages.
        if let Ok(more) = std::env::var("OPTFILTER_CUDA_OPTIONS") {
            words.extend(more.split_whitespace().map(String::from));
        }
        let options = CompileOptions { options: words, ..CompileOptions::default() };
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
            losses_half: function("losses_half", HALF_BYTES)?,
            adam: module.load_function("adam")?,
            blend: module.load_function("blend")?,
            disturb: module.load_function("disturb")?,
            gather: module.load_function("gather")?,
            average: module.load_function("average")?,
            stream: context.default_stream(),
            name,
            multiprocessors,
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

/// Blocks of threads, with shared memory.
fn grid(x: usize, chains: usize, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (x as u32, chains as u32, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: shared,
    }
}

/// An error unless there is as much as needed.
fn sized(what: &'static str, found: usize, needed: usize) -> Result<(), CudaError> {
    if found == needed { Ok(()) } else { Err(CudaError::Size { what, needed, found }) }
}

/// An error unless there are `chains` weight vectors of this network.
fn check_weights(weights: &[Vec<f32>], chains: usize) -> Result<(), CudaError> {
    sized("weight vectors", weights.len(), chains)?;
    weights.iter().try_for_each(|w| sized("weights of a chain", w.len(), 28_193))
}

/// Images and labels of several sets as the kernels read them: `capacity` images per set, and how many there are.
struct Sets {
    images: Vec<f32>,
    labels: Vec<f32>,
    counts: Vec<i32>,
}

impl Sets {
    fn new(sets: &[(&[f32], &[u32])], expected: usize, capacity: usize) -> Result<Self, CudaError> {
        sized("sets of images", sets.len(), expected)?;
        let mut images = vec![0.0; expected * capacity * 1024];
        let mut labels = vec![0.0; expected * capacity];
        for (s, (pixels, classes)) in sets.iter().enumerate() {
            if classes.len() > capacity {
                let (what, found) = ("labels of a set", classes.len());
                return Err(CudaError::Size { what, needed: capacity, found });
            }
            sized("pixels of a set", pixels.len(), classes.len() * 1024)?;
            images[s * capacity * 1024..][..pixels.len()].copy_from_slice(pixels);
            for (l, class) in labels[s * capacity..].iter_mut().zip(*classes) {
                *l = *class as f32;
            }
        }
        let counts = sets.iter().map(|(_, classes)| classes.len() as i32).collect();
        Ok(Self { images, labels, counts })
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
pub fn noise_key(seed: u64, purpose: &str) -> [u32; 2] {
    let bits = optfilter::rng::Stream::new(seed, 0, purpose).bits();
    [bits as u32, (bits >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sizes_are_errors() {
        let (pixels, labels) = (vec![0.0; 2 * 1024], [0, 1]);
        let size = |sets: &[(&[f32], &[u32])]| match Sets::new(sets, 1, 2) {
            Err(CudaError::Size { what, needed, found }) => Some((what, needed, found)),
            _ => None,
        };
        assert_eq!(size(&[(&pixels, &labels)]), None);
        assert_eq!(size(&[]), Some(("sets of images", 1, 0)));
        assert_eq!(size(&[(&pixels[1..], &labels)]), Some(("pixels of a set", 2048, 2047)));
        assert_eq!(size(&[(&pixels, &[0, 1, 1])]), Some(("labels of a set", 2, 3)));
        assert!(check_weights(&[vec![0.0; 28_192]], 1).is_err());
    }
}
