//! Sizes that the kernels count on.

/// Floats from one weight vector to the next: 28,193 rounded up so that each begins on a cache line.
pub const PITCH: usize = 28_224;
/// Words of the weights of layers 2 to 4, forward and turned, in the order of the tiles.
pub(super) const FRAGMENTS: usize = 6 * 2304 * 4;
/// Threads per block of the network kernels and of the one for particles, as in `forward.cu` and `particles.cu`.
pub(super) const THREADS: u32 = 512;
pub(super) const PARTICLE_THREADS: u32 = 256;

/// Floats of shared memory that the network kernels have in common (`forward.cu`).
pub(super) const COMMON: u32 = 34 * 42 + 36 * (324 + 100 + 36) + 128 + 12 + 320 + 96 + 132;
/// Shared memory in bytes, computed as in the kernels: of the forward pass (`forward.cu`), ...
pub(super) const FORWARD_BYTES: u32 = 4 * (COMMON + 3 * 2304 * 4);
/// ... of the gradient (`back.cu`), ...
pub(super) const GRADIENT_BYTES: u32 =
    4 * (COMMON + 256 * 40 + 36 * (324 + 100 + 36) + 2720 + 512 + 2304 * 4);
/// ... and of particles in half precision (`particles.cu`).
pub(super) const HALF_BYTES: u32 = 4 * (34 * 42 + 20 * (324 + 100 + 36) + 128 + 3 * 2304 * 2);
