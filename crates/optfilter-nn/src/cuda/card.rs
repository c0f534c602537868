//! The card and its kernels.

use super::error::CudaError;
use super::sizes::{FORWARD_BYTES, GRADIENT_BYTES, HALF_BYTES};
use crate::network::Network;
use cudarc::driver::{CudaContext, CudaFunction, CudaStream, LaunchConfig, sys};
use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use std::sync::Arc;

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

/// An opened card with the compiled kernels.
#[derive(Debug)]
pub struct Card {
    pub(super) stream: Arc<CudaStream>,
    name: String,
    pub(super) multiprocessors: usize,
    pub(super) gradient: CudaFunction,
    pub(super) predict: CudaFunction,
    pub(super) losses: CudaFunction,
    pub(super) losses_half: CudaFunction,
    pub(super) adam: CudaFunction,
    pub(super) blend: CudaFunction,
    pub(super) disturb: CudaFunction,
    pub(super) gather: CudaFunction,
    pub(super) average: CudaFunction,
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
pub(super) fn grid(x: usize, chains: usize, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (x as u32, chains as u32, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: shared,
    }
}
