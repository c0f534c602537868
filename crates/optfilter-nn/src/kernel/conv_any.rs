//! Convolution with a window of any size and stride, and pooling of any size: plain loops over one image.
//!
//! ```text
//! out[y, x, o] = b[o] + sum_{k, l, i} w[k, l, i, o] in[y s + k - p, x s + l - p, i]      (size n: k, l = 0..n; stride s, border p)
//! ```
//!
//! What lies outside the image is zero. The 3x3 window of stride 1 has kernels of its own (conv.rs), which are several times
//! faster; here the channels are the inner loop, which compilers turn into vectors. Images lie as everywhere in this crate: with a
//! border of one zero pixel, channels together.

use super::Real;

/// Sizes of a convolution; channels with their padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyConv {
    /// Rows and columns of the input.
    pub input: (usize, usize),
    /// Rows and columns of the output.
    pub output: (usize, usize),
    /// Rows and columns of the window.
    pub size: usize,
    /// By how much it moves.
    pub stride: usize,
    /// Rows and columns of zeros around the image.
    pub border: usize,
    /// Input channels.
    pub cin: usize,
    /// Output channels.
    pub cout: usize,
}

/// Where a pixel starts in a bordered image.
fn at(y: usize, x: usize, width: usize, channels: usize) -> usize {
    ((y + 1) * (width + 2) + x + 1) * channels
}

impl AnyConv {
    /// Calls `f(place of the output pixel, window place, place of the input pixel)` for all that lie inside the image.
    fn pairs(&self, mut f: impl FnMut(usize, usize, usize)) {
        for y in 0..self.output.0 {
            for x in 0..self.output.1 {
                let to = at(y, x, self.output.1, self.cout);
                for k in 0..self.size * self.size {
                    let row = (y * self.stride + k / self.size).wrapping_sub(self.border);
                    let column = (x * self.stride + k % self.size).wrapping_sub(self.border);
                    if row < self.input.0 && column < self.input.1 {
                        f(to, k, at(row, column, self.input.1, self.cin));
                    }
                }
            }
        }
    }

    /// Writes the output; `w` is `[window][cin][cout]`.
    pub fn forward<E: Real>(&self, x: &[E], w: &[E], bias: &[E], out: &mut [E]) {
        for y in 0..self.output.0 {
            for column in 0..self.output.1 {
                let to = at(y, column, self.output.1, self.cout);
                out[to..to + self.cout].copy_from_slice(bias);
            }
        }
        self.pairs(|to, k, from| {
            let pixel = &mut out[to..to + self.cout];
            for (i, &v) in x[from..from + self.cin].iter().enumerate() {
                let row = &w[(k * self.cin + i) * self.cout..][..self.cout];
                pixel.iter_mut().zip(row).for_each(|(o, w)| *o += v * *w);
            }
        });
    }

    /// Adds the derivatives by weights (`[cout][window][cin]`, as `wt` is), bias and, where wanted, input.
    pub fn backward<E: Real>(
        &self,
        (x, wt, g): (&[E], &[E], &[E]),
        (dwt, dbias): (&mut [E], &mut [E]),
        mut dx: Option<&mut [E]>,
    ) {
        for y in 0..self.output.0 {
            for column in 0..self.output.1 {
                let to = at(y, column, self.output.1, self.cout);
                dbias.iter_mut().zip(&g[to..to + self.cout]).for_each(|(d, g)| *d += *g);
            }
        }
        let taps = self.size * self.size;
        self.pairs(|to, k, from| {
            let pixel = &x[from..from + self.cin];
            for (o, &g) in g[to..to + self.cout].iter().enumerate() {
                let place = (o * taps + k) * self.cin;
                let rows = dwt[place..place + self.cin].iter_mut();
                rows.zip(pixel).for_each(|(d, v)| *d += g * *v);
                if let Some(dx) = dx.as_deref_mut() {
                    let rows = dx[from..from + self.cin].iter_mut();
                    rows.zip(&wt[place..place + self.cin]).for_each(|(d, w)| *d += g * *w);
                }
            }
        });
    }
}

/// Sizes of a pooling: windows of `size` x `size` beside one another; what is left over is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyPool {
    /// Rows and columns of the input.
    pub input: (usize, usize),
    /// Channels.
    pub channels: usize,
    /// Rows and columns of a window.
    pub size: usize,
    /// The mean instead of the largest.
    pub mean: bool,
}

impl AnyPool {
    fn each(&self, mut f: impl FnMut(usize, usize, &dyn Fn(usize) -> usize)) {
        let (h, w) = (self.input.0 / self.size, self.input.1 / self.size);
        for y in 0..h {
            for x in 0..w {
                for c in 0..self.channels {
                    let from = |p: usize| {
                        let (row, column) =
                            (y * self.size + p / self.size, x * self.size + p % self.size);
                        at(row, column, self.input.1, self.channels) + c
                    };
                    f(at(y, x, w, self.channels) + c, (y * w + x) * self.channels + c, &from);
                }
            }
        }
    }

    /// Writes the output; `which` receives the places of the maxima, the first of equal ones.
    pub fn forward<E: Real>(&self, x: &[E], out: &mut [E], which: &mut [E]) {
        let pixels = self.size * self.size;
        self.each(|to, place, from| {
            if self.mean {
                let mut sum = E::zero();
                (0..pixels).for_each(|p| sum += x[from(p)]);
                out[to] = sum / E::of(pixels as f64);
            } else {
                let mut best = 0;
                for p in 1..pixels {
                    if x[from(p)] > x[from(best)] {
                        best = p;
                    }
                }
                out[to] = x[from(best)];
                which[place] = E::of(best as f64);
            }
        });
    }

    /// Adds the derivative by the input.
    pub fn backward<E: Real>(&self, g: &[E], which: &[E], dx: &mut [E]) {
        let pixels = self.size * self.size;
        self.each(|to, place, from| {
            if self.mean {
                let share = g[to] / E::of(pixels as f64);
                (0..pixels).for_each(|p| dx[from(p)] += share);
            } else {
                let p = (which[place].to_double() as usize).min(pixels - 1);
                dx[from(p)] += g[to];
            }
        });
    }
}
