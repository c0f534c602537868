//! The dense layer of one sample: `out = b + x W`, and its way back.
//!
//! Forward, the outputs are the vector axis and `W` is `[in][out]`; on the way back the inputs are, and both `W` and
//! its derivative are `[out][in]`. Both axes are padded to whole lanes. The derivative of a single sample is the product of two vectors and
//! needs no sum over samples: [`outer`] writes it where it belongs, to the bit what the sum and its transpose would be.

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
    x: &'a [E],
    wt: &'a [E],
    g: &'a [E],
    sums: Option<(&'a mut [E], &'a mut [E])>,
    dx: Option<&'a mut [E]>,
}

impl<E: Real> Op<E> for Backward<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(mut self) {
        let n = self.x.len();
        let whole = n * self.g.len();
        assert!(n.is_multiple_of(V::N) && self.wt.len() >= whole);
        assert!(self.dx.as_ref().is_none_or(|dx| dx.len() >= n));
        assert!(
            self.sums
                .as_ref()
                .is_none_or(|(dwt, db)| { dwt.len() >= whole && db.len() >= self.g.len() })
        );
        for (o, &g) in self.g.iter().enumerate() {
            if g == E::zero() {
                continue; // a unit the ReLU switched off; its row would add zeros
            }
            if let Some((dwt, dbias)) = &mut self.sums {
                dbias[o] += g;
                for i in (0..n).step_by(V::N) {
                    // SAFETY: row o of dwt and lane i of x exist by the assertions above.
                    unsafe {
                        let dw = dwt.as_mut_ptr().add(o * n + i);
                        V::load(self.x.as_ptr().add(i)).mul_add(V::splat(g), V::load(dw)).store(dw);
                    }
                }
            }
            if let Some(dx) = self.dx.as_deref_mut() {
                for i in (0..n).step_by(V::N) {
                    // SAFETY: row o of wt and lane i of dx exist by the assertions above.
                    unsafe {
                        let dx = dx.as_mut_ptr().add(i);
                        let w = V::load(self.wt.as_ptr().add(o * n + i));
                        w.mul_add(V::splat(g), V::load(dx)).store(dx);
                    }
                }
            }
        }
    }
}

/// Adds `g x^T` and `g` to `sums` (`[g.len()][x.len()]`, and one for each `g`), and `W g` to `dx`, of those that are asked for;
/// `x.len()` is a multiple of the lane.
pub fn dense_backward<E: Real>(
    level: Level,
    x: &[E],
    wt: &[E],
    g: &[E],
    sums: Option<(&mut [E], &mut [E])>,
    dx: Option<&mut [E]>,
) {
    E::dispatch(level, Backward { x, wt, g, sums, dx });
}

struct Outer<'a, E> {
    x: &'a [E],
    g: &'a [E],
    out: &'a mut [E],
}

impl<E: Real> Op<E> for Outer<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let n = self.g.len();
        let lanes = n - n % V::N;
        for (&x, row) in self.x.iter().zip(self.out.chunks_exact_mut(n.max(1))) {
            for o in (0..lanes).step_by(V::N) {
                // SAFETY: g and row have n elements, and o + N <= n.
                unsafe {
                    let zero = V::splat(E::zero());
                    let g = V::load(self.g.as_ptr().add(o));
                    let product = V::splat(x).mul_add(g, zero); // plus zero: no negative one
                    V::select_eq(g, zero, zero, product).store(row.as_mut_ptr().add(o));
                }
            }
            for (to, &g) in row.iter_mut().zip(self.g).skip(lanes) {
                *to = if g == E::zero() { E::zero() } else { x * g + E::zero() };
            }
        }
    }
}

/// `x g^T` into `out`, `[x.len()][g.len()]`; zero where `g` is, whatever `x`.
pub fn outer<E: Real>(level: Level, x: &[E], g: &[E], out: &mut [E]) {
    E::dispatch(level, Outer { x, g, out });
}
