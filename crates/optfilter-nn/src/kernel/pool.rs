//! 2x2 max-pool of one image with stride 2, where no convolution stands before it to be fused with.
//!
//! Odd rows and columns at the end are dropped, as in Flax's default padding. Of equal pixels the first one wins.

use super::Real;

/// Pools a bordered image of `height` x `width` x `channels` into a bordered `out`; `which` receives the places of the maxima.
pub fn pool_forward<E: Real>(
    x: &[E],
    height: usize,
    width: usize,
    channels: usize,
    out: &mut [E],
    which: &mut [E],
) {
    let (h, w) = (height / 2, width / 2);
    for y in 0..h {
        for x0 in 0..w {
            for c in 0..channels {
                let pixel = |p: usize| {
                    x[((2 * y + p / 2 + 1) * (width + 2) + 2 * x0 + p % 2 + 1) * channels + c]
                };
                let mut best = 0;
                for p in 1..4 {
                    if pixel(p) > pixel(best) {
                        best = p;
                    }
                }
                out[((y + 1) * (w + 2) + x0 + 1) * channels + c] = pixel(best);
                which[(y * w + x0) * channels + c] = E::of(best as f64);
            }
        }
    }
}

/// Adds the derivative `g` of the pooled image to that of the image, `dx`.
pub fn pool_backward<E: Real>(
    g: &[E],
    which: &[E],
    height: usize,
    width: usize,
    channels: usize,
    dx: &mut [E],
) {
    let (h, w) = (height / 2, width / 2);
    for y in 0..h {
        for x0 in 0..w {
            for c in 0..channels {
                let p = which[(y * w + x0) * channels + c].place();
                dx[((2 * y + p / 2 + 1) * (width + 2) + 2 * x0 + p % 2 + 1) * channels + c] +=
                    g[((y + 1) * (w + 2) + x0 + 1) * channels + c];
            }
        }
    }
}
