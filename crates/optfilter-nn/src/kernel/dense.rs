//! The dense layer of one sample: `out = b + x W`, and its way back.
//!
//! Forward, the outputs are the vector axis and `W` is `[in][out]`; on the way back the inputs are, and `W` is `[out][in]`. Both axes are
//! padded to whole lanes. The derivative by `W` is the product of two vectors; [`outer`] writes it, or adds it, to `[in][out]` without
//! padding, where it belongs.

use super::{Lane, Level, Op, Real};

struct Forward<'a, E> {
    x: &'a [E],
    w: &'a [E],
    bias: &'a [E],
    out: &'a mut [E],
}

impl<E: Real> Op<E> for Forward<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let n = self.out.len();
        assert!(n.is_multiple_of(V::N) && self.bias.len() >= n && self.w.len() >= self.x.len() * n);
        // Four running sums hide the latency of the multiply-add.
        for o in (0..n).step_by(V::N) {
            // SAFETY: lanes o.. exist in bias, out and in each row of w, by the assertions above.
            unsafe {
                let zero = V::splat(E::zero());
                let one = V::splat(E::one());
                let mut acc = [V::load(self.bias.as_ptr().add(o)), zero, zero, zero];
                for (i, &x) in self.x.iter().enumerate() {
                    let w = V::load(self.w.as_ptr().add(i * n + o));
                    acc[i % 4] = V::splat(x).mul_add(w, acc[i % 4]);
                }
                let sum = acc[1].mul_add(one, acc[0]).mul_add(one, acc[3].mul_add(one, acc[2]));
                sum.store(self.out.as_mut_ptr().add(o));
            }
        }
    }
}

/// `out = bias + x w` with `w` as `[x.len()][out.len()]`; `out.len()` is a multiple of the lane.
pub fn dense_forward<E: Real>(level: Level, x: &[E], w: &[E], bias: &[E], out: &mut [E]) {
    E::dispatch(level, Forward { x, w, bias, out });
}

struct Backward<'a, E> {
    wt: &'a [E],
    g: &'a [E],
    dx: &'a mut [E],
}

impl<E: Real> Op<E> for Backward<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let n = self.dx.len();
        assert!(n.is_multiple_of(V::N) && self.wt.len() >= n * self.g.len());
        for (o, &g) in self.g.iter().enumerate() {
            if g == E::zero() {
                continue; // a unit the ReLU switched off; its row would add zeros
            }
            for i in (0..n).step_by(V::N) {
                // SAFETY: row o of wt and lane i of dx exist by the assertion above.
                unsafe {
                    let dx = self.dx.as_mut_ptr().add(i);
                    let w = V::load(self.wt.as_ptr().add(o * n + i));
                    w.mul_add(V::splat(g), V::load(dx)).store(dx);
                }
            }
        }
    }
}

/// Adds `W g` to `dx`, with `W` as `wt`, `[g.len()][dx.len()]`; `dx.len()` is a multiple of the lane.
pub fn dense_backward<E: Real>(level: Level, wt: &[E], g: &[E], dx: &mut [E]) {
    E::dispatch(level, Backward { wt, g, dx });
}

struct Outer<'a, E> {
    x: &'a [E],
    g: &'a [E],
    out: &'a mut [E],
    add: bool,
}

impl<E: Real> Op<E> for Outer<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let n = self.g.len();
        let lanes = n - n % V::N;
        for (&x, row) in self.x.iter().zip(self.out.chunks_exact_mut(n.max(1))) {
            if !self.add {
                row.fill(E::zero());
            }
            if x == E::zero() {
                continue; // a unit the ReLU switched off; it would add zeros
            }
            for o in (0..lanes).step_by(V::N) {
                // SAFETY: g and row have n elements, and o + N <= n.
                unsafe {
                    let (g, to) = (V::load(self.g.as_ptr().add(o)), row.as_mut_ptr().add(o));
                    let before = V::load(to);
                    let sum = V::splat(x).mul_add(g, before);
                    V::select_eq(g, V::splat(E::zero()), before, sum).store(to);
                }
            }
            for (to, &g) in row.iter_mut().zip(self.g).skip(lanes) {
                // SAFETY: the instruction set is the caller's promise.
                unsafe { *to = V::one(x, g, *to) };
            }
        }
    }
}

/// `x g^T` into `out`, `[x.len()][g.len()]`, or added to it; nothing where `x` or `g` is zero.
pub fn outer<E: Real>(level: Level, x: &[E], g: &[E], out: &mut [E], add: bool) {
    // One column is a row of the transpose.
    let (x, g) = if g.len() == 1 { (g, &x[..out.len()]) } else { (x, g) };
    E::dispatch(level, Outer { x, g, out, add });
}
