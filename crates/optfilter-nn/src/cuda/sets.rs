//! What goes to the card: weights, images and labels as the kernels read them.

use super::error::CudaError;
use super::sizes::PITCH;

/// An error unless there is as much as needed.
pub(super) fn sized(what: &'static str, found: usize, needed: usize) -> Result<(), CudaError> {
    if found == needed { Ok(()) } else { Err(CudaError::Size { what, needed, found }) }
}

/// An error unless there are `chains` weight vectors of this network.
pub(super) fn check_weights(weights: &[Vec<f32>], chains: usize) -> Result<(), CudaError> {
    sized("weight vectors", weights.len(), chains)?;
    weights.iter().try_for_each(|w| sized("weights of a chain", w.len(), 28_193))
}

/// Images and labels of several sets as the kernels read them: `capacity` images per set, and how many there are.
pub(super) struct Sets {
    pub(super) images: Vec<f32>,
    pub(super) labels: Vec<f32>,
    pub(super) counts: Vec<i32>,
}

impl Sets {
    pub(super) fn new(
        sets: &[(&[f32], &[u32])],
        expected: usize,
        capacity: usize,
    ) -> Result<Self, CudaError> {
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
pub(super) fn padded(weights: &[Vec<f32>]) -> Vec<f32> {
    let mut all = vec![0.0; weights.len() * PITCH];
    for (to, from) in all.chunks_exact_mut(PITCH).zip(weights) {
        to[..from.len()].copy_from_slice(from);
    }
    all
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
