//! The 3x3 same convolution of one image, forward, with the ReLU and the 2x2 max-pool in the same pass.
//!
//! `out[y, x, o] = b[o] + sum_{ky, kx, i} in[y + ky - 1, x + kx - 1, i] w[ky, kx, i, o]`.
//!
//! For a fixed `ky` the terms over `(kx, i)` lie side by side both in the image and in the weights, so the inner loop
//! runs over `3 * channels` neighbours: one weight vector is loaded and multiplied into P pixels x B lanes of
//! accumulators. With pooling the P pixels are whole 2x2 windows, so their maximum is taken in the registers and the
//! image before pooling is never written.

use super::{Lane, Level, Op, Real};

/// Sizes of one convolution; channels count the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Rows of the image without its border.
    pub height: usize,
    /// Columns of the image without its border.
    pub width: usize,
    /// Channels read per pixel.
    pub cin: usize,
    /// Channels written per pixel: a multiple of the lane.
    pub cout: usize,
}

impl ConvShape {
    /// Elements of the input with its border.
    pub fn input_len(&self) -> usize {
        (self.height + 2) * (self.width + 2) * self.cin
    }
    /// Elements of the output with its border, without pooling.
    pub fn output_len(&self) -> usize {
        (self.height + 2) * (self.width + 2) * self.cout
    }
    /// Elements of the output with its border, after pooling.
    pub fn pooled_len(&self) -> usize {
        (self.height / 2 + 2) * (self.width / 2 + 2) * self.cout
    }
    /// Pooling windows times channels.
    pub fn windows_len(&self) -> usize {
        (self.height / 2) * (self.width / 2) * self.cout
    }
    fn check<E>(&self, lane: usize, x: &[E], w: &[E], bias: &[E]) {
        assert!(self.cout.is_multiple_of(lane), "output channels are padded to whole lanes");
        assert!(
            x.len() >= self.input_len()
                && w.len() >= 9 * self.cin * self.cout
                && bias.len() >= self.cout
        );
    }
}

/// Accumulates P pixels x B lanes.
///
/// # Safety
/// The instruction set of `V`; `x + off[p] + ky * row + j` for `ky < 3`, `j < run` and `w + (ky * run + j) * cout + B * N`
/// lie in their slices.
#[inline(always)]
unsafe fn tile<V: Lane, const P: usize, const B: usize>(
    x: *const V::E,
    off: [usize; P],
    row: usize,
    run: usize,
    w: *const V::E,
    cout: usize,
    acc: &mut [[V; B]; P],
) {
    let mut w = w;
    for ky in 0..3 {
        // SAFETY: offsets are inside the image by the caller's promise.
        let base: [*const V::E; P] = std::array::from_fn(|p| unsafe { x.add(off[p] + ky * row) });
        for j in 0..run {
            // SAFETY: B lanes of this row of the weights, by the caller's promise.
            let wv: [V; B] = std::array::from_fn(|b| unsafe { V::load(w.add(b * V::N)) });
            for p in 0..P {
                // SAFETY: element j of pixel p's run.
                unsafe {
                    let s = V::splat(*base[p].add(j));
                    for b in 0..B {
                        acc[p][b] = s.mul_add(wv[b], acc[p][b]);
                    }
                }
            }
            w = w.wrapping_add(cout);
        }
    }
}

struct Plain<'a, E> {
    shape: ConvShape,
    x: &'a [E],
    w: &'a [E],
    bias: &'a [E],
    relu: bool,
    out: &'a mut [E],
}

impl<E: Real> Plain<'_, E> {
    /// P pixels of one row, B lanes from channel `c` on.
    ///
    /// # Safety
    /// The instruction set of `V`; `x0 + P <= width`, `y < height`, `c + B * N <= cout`; slices checked.
    #[inline(always)]
    unsafe fn block<V: Lane<E = E>, const P: usize, const B: usize>(
        &mut self,
        y: usize,
        x0: usize,
        c: usize,
    ) {
        let s = self.shape;
        let row = (s.width + 2) * s.cin;
        let off = std::array::from_fn(|p| y * row + (x0 + p) * s.cin);
        // SAFETY: rows y..y+3 and columns x0+p..x0+p+3 exist thanks to the border; channels c.. by the caller.
        unsafe {
            let b: [V; B] = std::array::from_fn(|b| V::load(self.bias.as_ptr().add(c + b * V::N)));
            let mut acc = [b; P];
            tile::<V, P, B>(
                self.x.as_ptr(),
                off,
                row,
                3 * s.cin,
                self.w.as_ptr().add(c),
                s.cout,
                &mut acc,
            );
            let zero = V::splat(E::zero());
            for p in 0..P {
                let at = ((y + 1) * (s.width + 2) + x0 + p + 1) * s.cout + c;
                for b in 0..B {
                    let v = if self.relu { acc[p][b].max(zero) } else { acc[p][b] };
                    v.store(self.out.as_mut_ptr().add(at + b * V::N));
                }
            }
        }
    }

    /// # Safety
    /// As for `block`, for every pixel of the image.
    #[inline(always)]
    unsafe fn image<V: Lane<E = E>, const B: usize>(&mut self, c: usize) {
        for y in 0..self.shape.height {
            let mut x = 0;
            while x + 4 <= self.shape.width {
                // SAFETY: x + 4 <= width.
                unsafe { self.block::<V, 4, B>(y, x, c) };
                x += 4;
            }
            while x < self.shape.width {
                // SAFETY: x < width.
                unsafe { self.block::<V, 1, B>(y, x, c) };
                x += 1;
            }
        }
    }
}

impl<E: Real> Op<E> for Plain<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(mut self) {
        self.shape.check(V::N, self.x, self.w, self.bias);
        assert!(self.out.len() >= self.shape.output_len());
        let mut c = 0;
        while c + 2 * V::N <= self.shape.cout {
            // SAFETY: two lanes from c on exist; slices checked above.
            unsafe { self.image::<V, 2>(c) };
            c += 2 * V::N;
        }
        if c < self.shape.cout {
            // SAFETY: cout is a multiple of the lane, so one lane is left.
            unsafe { self.image::<V, 1>(c) };
        }
    }
}

/// Convolution without pooling; writes the interior of `out`, never its border.
pub fn conv_forward<E: Real>(
    level: Level,
    shape: ConvShape,
    x: &[E],
    w: &[E],
    bias: &[E],
    relu: bool,
    out: &mut [E],
) {
    E::dispatch(level, Plain { shape, x, w, bias, relu, out });
}

struct Pooled<'a, E, const KEEP: bool> {
    shape: ConvShape,
    x: &'a [E],
    w: &'a [E],
    bias: &'a [E],
    relu: bool,
    out: &'a mut [E],
    which: &'a mut [E],
}

impl<E: Real, const KEEP: bool> Pooled<'_, E, KEEP> {
    /// P = 4 * windows pixels: the windows from column `x0` of the pooled row `y` on.
    ///
    /// # Safety
    /// The instruction set of `V`; windows, channels and slices exist.
    #[inline(always)]
    unsafe fn block<V: Lane<E = E>, const P: usize, const B: usize>(
        &mut self,
        y: usize,
        x0: usize,
        c: usize,
    ) {
        let s = self.shape;
        let row = (s.width + 2) * s.cin;
        // Pixel 4 v + 2 dy + dx of window v.
        let off = std::array::from_fn(|p| {
            (2 * y + (p / 2) % 2) * row + (2 * (x0 + p / 4) + p % 2) * s.cin
        });
        // SAFETY: the window's pixels are inside the image, their neighbours inside its border.
        unsafe {
            let b: [V; B] = std::array::from_fn(|b| V::load(self.bias.as_ptr().add(c + b * V::N)));
            let mut acc = [b; P];
            tile::<V, P, B>(
                self.x.as_ptr(),
                off,
                row,
                3 * s.cin,
                self.w.as_ptr().add(c),
                s.cout,
                &mut acc,
            );
            let zero = V::splat(E::zero());
            for v in 0..P / 4 {
                let at = ((y + 1) * (s.width / 2 + 2) + x0 + v + 1) * s.cout + c;
                for b in 0..B {
                    let mut best = acc[4 * v][b];
                    if KEEP {
                        // Strictly greater: of equal pixels the first one wins, as in JAX and PyTorch.
                        let mut which = zero;
                        for p in 1..4 {
                            let a = acc[4 * v + p][b];
                            which = V::select_gt(a, best, V::splat(E::of(p as f64)), which);
                            best = V::select_gt(a, best, a, best);
                        }
                        let at = (y * (s.width / 2) + x0 + v) * s.cout + c + b * V::N;
                        which.store(self.which.as_mut_ptr().add(at));
                    } else {
                        best = best
                            .max(acc[4 * v + 1][b])
                            .max(acc[4 * v + 2][b].max(acc[4 * v + 3][b]));
                    }
                    let value = if self.relu { best.max(zero) } else { best };
                    value.store(self.out.as_mut_ptr().add(at + b * V::N));
                }
            }
        }
    }

    /// # Safety
    /// As for `block`, for every window of the image.
    #[inline(always)]
    unsafe fn image<V: Lane<E = E>, const B: usize>(&mut self, c: usize) {
        let (height, width) = (self.shape.height / 2, self.shape.width / 2);
        for y in 0..height {
            let mut x = 0;
            if V::WINDOWS >= 2 {
                while x + 2 <= width {
                    // SAFETY: two windows from x on exist.
                    unsafe { self.block::<V, 8, B>(y, x, c) };
                    x += 2;
                }
            }
            while x < width {
                // SAFETY: x < width.
                unsafe { self.block::<V, 4, B>(y, x, c) };
                x += 1;
            }
        }
    }
}

impl<E: Real, const KEEP: bool> Op<E> for Pooled<'_, E, KEEP> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(mut self) {
        self.shape.check(V::N, self.x, self.w, self.bias);
        assert!(self.out.len() >= self.shape.pooled_len());
        assert!(!KEEP || self.which.len() >= self.shape.windows_len());
        let mut c = 0;
        while c + 2 * V::N <= self.shape.cout {
            // SAFETY: two lanes from c on exist; slices checked above.
            unsafe { self.image::<V, 2>(c) };
            c += 2 * V::N;
        }
        if c < self.shape.cout {
            // SAFETY: cout is a multiple of the lane, so one lane is left.
            unsafe { self.image::<V, 1>(c) };
        }
    }
}

/// Convolution and 2x2 max-pool in one pass. `which`, where given, receives the place of each maximum
/// (0 to 3: upper left, upper right, lower left, lower right) for the way back.
#[allow(clippy::too_many_arguments)] // a kernel: named sizes and slices, no hidden state
pub fn conv_pool_forward<E: Real>(
    level: Level,
    shape: ConvShape,
    x: &[E],
    w: &[E],
    bias: &[E],
    relu: bool,
    out: &mut [E],
    which: Option<&mut [E]>,
) {
    match which {
        Some(which) => {
            E::dispatch(level, Pooled::<E, true> { shape, x, w, bias, relu, out, which })
        }
        None => {
            E::dispatch(level, Pooled::<E, false> { shape, x, w, bias, relu, out, which: &mut [] })
        }
    }
}
