//! The way back through a 3x3 convolution of one image.
//!
//! With `g[y, x, o]` the derivative of the loss by the convolution's output:
//! `dw[k, i, o] += sum_{y, x} in[y + ky, x + kx, i] g[y, x, o]` and
//! `din[y + ky, x + kx, i] += sum_o w[k, i, o] g[y, x, o]`.
//!
//! After a 2x2 max-pool at most one pixel of four carries a derivative, after a ReLU only about half of those. So for
//! each output channel the pixels with `g != 0` are listed, and only they are visited, the *input* channels being the
//! vector axis: 9 window places x B lanes of `dw` stay in registers while the list is walked, and likewise the weights
//! while `din` is scattered to. That is 4 to 8 times less arithmetic than the dense product. Where the input has fewer
//! channels than a lane (a grey image), the dense form with the output channels as vector axis is used for `dw`.
//!
//! Both weights and their derivative are held here as `[o][k][i]`, the transpose of the forward layout.

use super::{Aligned, ConvShape, Lane, Level, Op, Real};

/// Bytes of an image strip that stays in the first-level cache (32 or 48 KiB) beside the weights in use.
const STRIP_BYTES: usize = 24 * 1024;

/// Lists of the pixels that carry a derivative, per output channel.
#[derive(Clone, Debug, Default)]
pub struct ConvScratch<E> {
    at: Vec<u32>,
    g: Vec<E>,
    len: Vec<usize>,
    capacity: usize,
}

/// Derivative of the output: of the pooled image with the places of the maxima, or of the image itself.
#[derive(Clone, Copy, Debug)]
enum Arriving<'a, E> {
    Pooled { g: &'a [E], which: &'a [E] },
    Plain { g: &'a [E] },
}

struct Back<'a, E> {
    shape: ConvShape,
    x: &'a [E],
    wt: &'a [E],
    arriving: Arriving<'a, E>,
    dwt: &'a mut [E],
    dbias: &'a mut [E],
    dx: Option<&'a mut [E]>,
    scratch: &'a mut ConvScratch<E>,
}

impl<E: Real> Back<'_, E> {
    /// Rows of windows (or of pixels) per strip.
    fn strip_rows(&self) -> usize {
        let step = if matches!(self.arriving, Arriving::Pooled { .. }) { 2 } else { 1 };
        let row_bytes = (self.shape.width + 2) * self.shape.cin * size_of::<E>();
        ((STRIP_BYTES / row_bytes.max(1)).saturating_sub(2) / step).max(1)
    }

    /// Lists the derivatives of the rows `rows`.
    fn list(&mut self, rows: std::ops::Range<usize>) {
        let s = self.shape;
        let scratch = &mut *self.scratch;
        scratch.capacity = match self.arriving {
            Arriving::Pooled { .. } => rows.len() * (s.width / 2),
            Arriving::Plain { .. } => rows.len() * s.width,
        } + 1; // one spare place, so that the write below never needs a test
        scratch.len.clear();
        scratch.len.resize(s.cout, 0);
        if scratch.at.len() < scratch.capacity * s.cout {
            scratch.at.resize(scratch.capacity * s.cout, 0);
            scratch.g.resize(scratch.capacity * s.cout, E::zero());
        }
        let (wide, cap) = (s.width + 2, scratch.capacity);
        let (at, gs, len) = (
            &mut scratch.at[..cap * s.cout],
            &mut scratch.g[..cap * s.cout],
            &mut scratch.len[..s.cout],
        );
        match self.arriving {
            Arriving::Pooled { g, which } => {
                let width = s.width / 2;
                for y in rows {
                    for x in 0..width {
                        let gp = &g[((y + 1) * (width + 2) + x + 1) * s.cout..][..s.cout];
                        let wp = &which[(y * width + x) * s.cout..][..s.cout];
                        // Where the four pixels of the window start in the input, window places counted from its corner.
                        let corner = 2 * y * wide + 2 * x;
                        let places = [corner, corner + 1, corner + wide, corner + wide + 1]
                            .map(|p| (p * s.cin) as u32);
                        for o in 0..s.cout {
                            let n = len[o];
                            at[o * cap + n] = places[wp[o].place()];
                            gs[o * cap + n] = gp[o];
                            len[o] = n + usize::from(gp[o] != E::zero());
                        }
                    }
                }
            }
            Arriving::Plain { g } => {
                for y in rows {
                    for x in 0..s.width {
                        let gp = &g[((y + 1) * wide + x + 1) * s.cout..][..s.cout];
                        let place = ((y * wide + x) * s.cin) as u32;
                        for o in 0..s.cout {
                            let n = len[o];
                            at[o * cap + n] = place;
                            gs[o * cap + n] = gp[o];
                            len[o] = n + usize::from(gp[o] != E::zero());
                        }
                    }
                }
            }
        }
    }

    /// `dw[o, :, i..i + B N] += in * g` over the list of channel `o`.
    ///
    /// # Safety
    /// The instruction set of `V`; `i + B * N <= cin`; the list's places are windows inside the image.
    #[inline(always)]
    unsafe fn weights<V: Lane<E = E>, const B: usize>(&mut self, o: usize, i: usize) {
        let s = self.shape;
        let row = (s.width + 2) * s.cin;
        let cap = self.scratch.capacity;
        let n = self.scratch.len[o];
        let (at, g) = (&self.scratch.at[o * cap..][..n], &self.scratch.g[o * cap..][..n]);
        // SAFETY: dwt holds cout * 9 * cin elements, the window of a listed place lies in x (both checked by `run`).
        unsafe {
            let dw = self.dwt.as_mut_ptr().add(o * 9 * s.cin + i);
            let mut acc: [[V; B]; 9] = std::array::from_fn(|k| {
                std::array::from_fn(|b| V::load(dw.add(k * s.cin + b * V::N)))
            });
            for (&a, &g) in at.iter().zip(g) {
                let x = self.x.as_ptr().add(a as usize + i);
                let g = V::splat(g);
                for k in 0..9 {
                    for b in 0..B {
                        let v = V::load(x.add((k / 3) * row + (k % 3) * s.cin + b * V::N));
                        acc[k][b] = v.mul_add(g, acc[k][b]);
                    }
                }
            }
            for k in 0..9 {
                for b in 0..B {
                    acc[k][b].store(dw.add(k * s.cin + b * V::N));
                }
            }
        }
    }

    /// `din[window, i..i + B N] += w[o, :, i..] * g` over the list of channel `o`.
    ///
    /// # Safety
    /// As for `weights`; `dx` is as long as `x`.
    #[inline(always)]
    unsafe fn input<V: Lane<E = E>, const B: usize>(&mut self, o: usize, i: usize) {
        let s = self.shape;
        let row = (s.width + 2) * s.cin;
        let cap = self.scratch.capacity;
        let n = self.scratch.len[o];
        let (at, g) = (&self.scratch.at[o * cap..][..n], &self.scratch.g[o * cap..][..n]);
        let Some(dx) = self.dx.as_deref_mut() else { return };
        // SAFETY: wt holds cout * 9 * cin elements, the window of a listed place lies in dx (both checked by `run`).
        unsafe {
            let w = self.wt.as_ptr().add(o * 9 * s.cin + i);
            let w: [[V; B]; 9] = std::array::from_fn(|k| {
                std::array::from_fn(|b| V::load(w.add(k * s.cin + b * V::N)))
            });
            for (&a, &g) in at.iter().zip(g) {
                let x = dx.as_mut_ptr().add(a as usize + i);
                let g = V::splat(g);
                for k in 0..9 {
                    for b in 0..B {
                        let p = x.add((k / 3) * row + (k % 3) * s.cin + b * V::N);
                        w[k][b].mul_add(g, V::load(p)).store(p);
                    }
                }
            }
        }
    }

    /// One strip, input channels as vector axis.
    ///
    /// # Safety
    /// The instruction set of `V`; slices checked.
    #[inline(always)]
    unsafe fn strip<V: Lane<E = E>, const B: usize>(&mut self, i: usize) {
        for o in 0..self.shape.cout {
            // SAFETY: i + B * N <= cin by the caller.
            unsafe { self.weights::<V, B>(o, i) };
        }
        for o in 0..self.shape.cout {
            // SAFETY: likewise.
            unsafe { self.input::<V, B>(o, i) };
        }
    }

    /// `dw` with the output channels as vector axis, for images with fewer channels than a lane; result transposed
    /// into `dwt`, and the bias. `din` of such an image is scattered to element by element.
    ///
    /// # Safety
    /// The instruction set of `V`; slices checked; `cout` is a multiple of the lane.
    #[inline(always)]
    unsafe fn narrow<V: Lane<E = E>>(&mut self) {
        let s = self.shape;
        let wide = s.width + 2;
        for i in 0..s.cin {
            for c in (0..s.cout).step_by(V::N) {
                // SAFETY: all pixel windows lie inside the bordered image; channel blocks are whole lanes.
                unsafe {
                    let zero = V::splat(E::zero());
                    let one = V::splat(E::one());
                    let mut acc = [zero; 9];
                    let mut sum = zero;
                    match self.arriving {
                        Arriving::Pooled { g, which } => {
                            let width = s.width / 2;
                            for y in 0..s.height / 2 {
                                for x in 0..width {
                                    let gv = V::load(
                                        g.as_ptr()
                                            .add(((y + 1) * (width + 2) + x + 1) * s.cout + c),
                                    );
                                    let wv =
                                        V::load(which.as_ptr().add((y * width + x) * s.cout + c));
                                    sum = gv.mul_add(one, sum);
                                    for p in 0..4 {
                                        let gp =
                                            V::select_eq(wv, V::splat(E::of(p as f64)), gv, zero);
                                        let at =
                                            ((2 * y + p / 2) * wide + 2 * x + p % 2) * s.cin + i;
                                        for k in 0..9 {
                                            let v = *self
                                                .x
                                                .as_ptr()
                                                .add(at + ((k / 3) * wide + k % 3) * s.cin);
                                            acc[k] = V::splat(v).mul_add(gp, acc[k]);
                                        }
                                    }
                                }
                            }
                        }
                        Arriving::Plain { g } => {
                            for y in 0..s.height {
                                for x in 0..s.width {
                                    let gp = V::load(
                                        g.as_ptr().add(((y + 1) * wide + x + 1) * s.cout + c),
                                    );
                                    sum = gp.mul_add(one, sum);
                                    let at = (y * wide + x) * s.cin + i;
                                    for k in 0..9 {
                                        let v = *self
                                            .x
                                            .as_ptr()
                                            .add(at + ((k / 3) * wide + k % 3) * s.cin);
                                        acc[k] = V::splat(v).mul_add(gp, acc[k]);
                                    }
                                }
                            }
                        }
                    }
                    let mut lane = [E::zero(); 16];
                    if i == 0 {
                        sum.store(lane.as_mut_ptr());
                        for (l, v) in lane[..V::N].iter().enumerate() {
                            self.dbias[c + l] += *v;
                        }
                    }
                    for k in 0..9 {
                        acc[k].store(lane.as_mut_ptr());
                        for (l, v) in lane[..V::N].iter().enumerate() {
                            self.dwt[((c + l) * 9 + k) * s.cin + i] += *v;
                        }
                    }
                }
            }
        }
    }

    fn narrow_input(&mut self) {
        let (s, cap) = (self.shape, self.scratch.capacity);
        let Some(dx) = self.dx.as_deref_mut() else { return };
        for o in 0..s.cout {
            for n in 0..self.scratch.len[o] {
                let (at, g) = (self.scratch.at[o * cap + n] as usize, self.scratch.g[o * cap + n]);
                for k in 0..9 {
                    let place = at + ((k / 3) * (s.width + 2) + k % 3) * s.cin;
                    for i in 0..s.cin {
                        dx[place + i] += self.wt[(o * 9 + k) * s.cin + i] * g;
                    }
                }
            }
        }
    }
}

impl<E: Real> Op<E> for Back<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(mut self) {
        let s = self.shape;
        assert!(s.cout.is_multiple_of(V::N) && V::N <= 16);
        assert!(self.x.len() >= s.input_len() && self.wt.len() >= 9 * s.cin * s.cout);
        assert!(self.dwt.len() >= 9 * s.cin * s.cout && self.dbias.len() >= s.cout);
        assert!(
            self.dx.as_ref().is_none_or(|dx| dx.len() >= s.input_len())
                && s.input_len() <= u32::MAX as usize
        );
        let rows = match self.arriving {
            Arriving::Pooled { g, which } => {
                assert!(g.len() >= s.pooled_len() && which.len() >= s.windows_len());
                s.height / 2
            }
            Arriving::Plain { g } => {
                assert!(g.len() >= s.output_len());
                s.height
            }
        };
        let whole = s.cin.is_multiple_of(V::N);
        let strip = self.strip_rows();
        // A narrow image needs the lists only for its own derivative, which the first layer of a network is not asked for.
        let rows = if whole || self.dx.is_some() { rows } else { 0 };
        for first in (0..rows).step_by(strip) {
            self.list(first..(first + strip).min(rows));
            if whole {
                let cap = self.scratch.capacity;
                for o in 0..s.cout {
                    self.dbias[o] +=
                        self.scratch.g[o * cap..][..self.scratch.len[o]].iter().copied().sum::<E>();
                }
                let mut i = 0;
                while V::N == 16 && i + 32 <= s.cin {
                    // SAFETY: two lanes from i on exist; the list holds windows of this image.
                    unsafe { self.strip::<V, 2>(i) };
                    i += 32;
                }
                while i < s.cin {
                    // SAFETY: cin is a multiple of the lane.
                    unsafe { self.strip::<V, 1>(i) };
                    i += V::N;
                }
            } else {
                self.narrow_input();
            }
        }
        if !whole {
            // SAFETY: slices checked above.
            unsafe { self.narrow::<V>() };
        }
    }
}

/// Adds the derivative by the weights to `dwt` (`[o][k][i]`) and `dbias`, and by the image to `dx` (border included,
/// whose values mean nothing) where it is wanted. `g` is the derivative of the pooled image when `which` is given, of the
/// unpooled one otherwise.
#[allow(clippy::too_many_arguments)] // a kernel: named sizes and slices, no hidden state
pub fn conv_backward<E: Real>(
    level: Level,
    shape: ConvShape,
    x: &[E],
    wt: &[E],
    g: &[E],
    which: Option<&[E]>,
    dwt: &mut [E],
    dbias: &mut [E],
    dx: Option<&mut [E]>,
    scratch: &mut ConvScratch<E>,
) {
    let arriving = match which {
        Some(which) => Arriving::Pooled { g, which },
        None => Arriving::Plain { g },
    };
    E::dispatch(level, Back { shape, x, wt, arriving, dwt, dbias, dx, scratch });
}

/// A zeroed scratch and gradient pair is all a caller needs; kept here so that the sizes stand in one place.
impl<E: Real> ConvScratch<E> {
    /// An empty scratch; it grows at first use and is then reused.
    pub fn new() -> Self {
        Self::default()
    }
    /// Zeros for `dwt` of a convolution of this shape.
    pub fn derivative(shape: ConvShape) -> Aligned<E> {
        Aligned::zeros(9 * shape.cin * shape.cout)
    }
}
