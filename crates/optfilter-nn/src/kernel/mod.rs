//! The arithmetic of a network on a CPU: convolution, dense product, pooling, losses.
//!
//! Images are height x width x channels with the channels together, because the channels are the vector axis: one
//! weight vector meets many pixels. Every image carries a border of one zero pixel, so that a 3x3 window never needs
//! a test for the edge. Channels are padded with zeros to whole lanes.
//!
//! Rejected: a matrix product over unfolded windows (im2col), which writes nine times the image and was four times
//! slower; layers over the whole batch, which stream the activations through the cache once per output channel. Here
//! one image goes forward through all layers, and then back, while it is in the cache.

mod buffer;
mod conv;
mod conv_any;
mod conv_back;
mod dense;
mod lane;
mod loss;
mod pool;

pub use buffer::Aligned;
pub use conv::{ConvShape, conv_forward, conv_pool_forward};
pub use conv_any::{AnyConv, AnyPool};
pub use conv_back::{ConvScratch, conv_backward};
pub use dense::{BLOCK, Strided, dense_backward, dense_forward, outer, turn};
pub use lane::{Lane, Level, Op, Real};
pub use loss::{Loss, Reduction, Targets};
pub use pool::{pool_backward, pool_forward};

/// `n` rounded up to a multiple of `lane`.
pub fn round_up(n: usize, lane: usize) -> usize {
    n.div_ceil(lane) * lane
}
