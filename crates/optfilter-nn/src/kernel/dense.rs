//! The dense layer of one sample: `out = b + x W`, and its way back.
//!
//! Forward, the outputs are the vector axis and `W` is `[in][out]`; on the way back the inputs are, and both `W` and
//! its derivative are `[out][in]`. Both axes are padded to whole lanes.

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
    dwt: &'a mut [E],
    dbias: &'a mut [E],
    dx: Option<&'a mut [E]>,
}

impl<E: Real> Op<E> for Backward<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(mut self) {
        let n = self.x.len();
        assert!(
            n.is_multiple_of(V::N)
                && self.wt.len() >= n * self.g.len()
                && self.dwt.len() >= n * self.g.len()
        );
        assert!(
            self.dbias.len() >= self.g.len() && self.dx.as_ref().is_none_or(|dx| dx.len() >= n)
        );
        for (o, &g) in self.g.iter().enumerate() {
            if g == E::zero() {
                continue; // a unit the ReLU switched off; its row would add zeros
            }
            self.dbias[o] += g;
            for i in (0..n).step_by(V::N) {
                // SAFETY: row o of wt and dwt and lane i of x and dx exist by the assertions above.
                unsafe {
                    let gv = V::splat(g);
                    let dw = self.dwt.as_mut_ptr().add(o * n + i);
                    V::load(self.x.as_ptr().add(i)).mul_add(gv, V::load(dw)).store(dw);
                    if let Some(dx) = self.dx.as_deref_mut() {
                        let dx = dx.as_mut_ptr().add(i);
                        V::load(self.wt.as_ptr().add(o * n + i)).mul_add(gv, V::load(dx)).store(dx);
                    }
                }
            }
        }
    }
}

/// Adds `g x^T` to `dwt` (`[g.len()][x.len()]`), `g` to `dbias` and `W g` to `dx`; `x.len()` is a multiple of the lane.
pub fn dense_backward<E: Real>(
    level: Level,
    x: &[E],
    wt: &[E],
    g: &[E],
    dwt: &mut [E],
    dbias: &mut [E],
    dx: Option<&mut [E]>,
) {
    E::dispatch(level, Backward { x, wt, g, dwt, dbias, dx });
}
