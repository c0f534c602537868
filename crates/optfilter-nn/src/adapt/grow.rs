//! A network that makes room for classes nobody knew of.

use crate::network::Network;

/// Weights of a network with more outputs: the last layer's old outputs are kept, those of new classes begin at zero but for a bias
/// that makes them rare. The one output `z` of two classes becomes the pair (0, z), which says the same.
pub(super) fn grown(old: &Network, new: &Network, weights: &[f32]) -> Vec<f32> {
    /// Log-odds of a class that was never seen.
    const RARE: f32 = -4.0;
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
            to_values[shift + before..].fill(RARE);
        }
    }
    out
}
