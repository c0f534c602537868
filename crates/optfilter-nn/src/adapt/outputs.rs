//! The network for so many classes, its weights when there are more of them, and whether they are numbers still.

use super::AdaptError;
use crate::kernel::{Lane, Level, Op, Real};
use crate::layer::Shape;
use crate::network::Network;

/// Outputs of a network for so many classes (0: numbers).
fn outputs_of(classes: usize, numbers: usize) -> usize {
    match classes {
        0 => numbers,
        1 | 2 => 1,
        more => more,
    }
}

/// The network of a description for so many classes (0: numbers), unless it is larger than any machine would bear.
pub(super) fn network_of(
    text: &str,
    shape: Shape,
    classes: usize,
    numbers: usize,
) -> Result<Network, AdaptError> {
    /// Units of a layer: the weights between two such layers are still counted by 64 bits.
    const WIDEST: u64 = 1_000_000;
    /// Weights: with an optimizer's memory and a bank of them, some gigabytes.
    const MOST: usize = 100_000_000;
    let sizes = text.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty());
    for number in sizes {
        if number.parse::<u64>().map_or(true, |n| n > WIDEST) {
            return Err(AdaptError::Setting(format!(
                "network {text:?}: a layer of {number} units is too wide; at most {WIDEST}"
            )));
        }
    }
    let network = Network::from_description(text, shape, outputs_of(classes, numbers))?;
    if network.len() > MOST {
        let found = network.len();
        return Err(AdaptError::Setting(format!(
            "network {text:?} has {found} weights, too many to be followed (at most {MOST}); take narrower layers"
        )));
    }
    Ok(network)
}

/// Log-odds of a class that was never seen.
pub(super) const RARE: f32 = -4.0;

/// Weights of a network with more outputs: the last layer's old outputs are kept, those of new classes begin at zero but for a bias
/// that makes them `rare`. The one output `z` of two classes becomes the pair (0, z), which says the same.
pub(super) fn grown(old: &Network, new: &Network, weights: &[f32], rare: f32) -> Vec<f32> {
    let mut out = vec![0.0; new.len()];
    let (before, after) = (old.outputs(), new.outputs());
    let shift = usize::from(before == 1);
    let pairs = old.parameters().iter().zip(new.parameters());
    for (i, (from, to)) in pairs.enumerate() {
        let from_values = &weights[from.offset..from.offset + from.len()];
        let to_values = &mut out[to.offset..to.offset + to.len()];
        // The last two tensors are the bias and the kernel of the last layer.
        if i + 2 < old.parameters().len() {
            to_values.copy_from_slice(from_values);
            continue;
        }
        let rows = from_values.chunks_exact(before).zip(to_values.chunks_exact_mut(after));
        for (from, to) in rows {
            to[shift..shift + before].copy_from_slice(from);
        }
        if i + 2 == old.parameters().len() {
            to_values[shift + before..].fill(rare);
        }
    }
    out
}

/// Whether all weights are finite: an exponent of ones, and nothing else, carries into the sign's place.
pub(super) fn all_finite(weights: &[f32]) -> bool {
    struct Carried<'a>(&'a [f32]);
    impl Op<f32> for Carried<'_> {
        type Out = u32;
        #[inline(always)]
        unsafe fn run<V: Lane<E = f32>>(self) -> u32 {
            let carried = |w: &f32| (w.to_bits() & 0x7f80_0000) + 0x0080_0000;
            self.0.iter().fold(0, |all, w| all | carried(w))
        }
    }
    f32::dispatch(Level::detect(), Carried(weights)) & 0x8000_0000 == 0
}
