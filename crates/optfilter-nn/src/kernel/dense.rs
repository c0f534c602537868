//! The dense layer of some samples: `out = b + x W`, and its way back.
//!
//! Forward, the outputs are the vector axis and `W` is `[in][out]`; on the way back the inputs are, and `W` is `[out][in]`. Both axes are
//! padded to whole lanes. The derivative by `W` is the sum of a product of two vectors for each sample; [`outer`] writes it, or adds it, to
//! `[in][out]` without padding, where it belongs.
//!
//! Up to [`BLOCK`] samples go together, so that weights and derivatives are read once for all of them. Every number is the sum
//! it would be if they came one after the other, in that order: no bit depends on how samples are put together. Units that a ReLU switched off are
//! not left out: adding their zeros is quicker than asking for each of them.

use super::{Lane, Level, Op, Real};
use num_traits::{One, Zero};

/// Samples that go through a dense layer together.
pub const BLOCK: usize = 4;

/// Calls a kernel for four rows at a time, then two, then one; narrow registers hold the sums of two at most.
macro_rules! in_blocks {
    ($V:ty, $count:expr, $call:ident ( $($arg:expr),* )) => {{
        let mut row = 0;
        while row < $count {
            let left = $count - row;
            if left >= 4 && <$V>::N >= 16 {
                $call::<$V, 4>(row, $($arg),*);
                row += 4;
            } else if left >= 2 {
                $call::<$V, 2>(row, $($arg),*);
                row += 2;
            } else {
                $call::<$V, 1>(row, $($arg),*);
                row += 1;
            }
        }
    }};
}

/// Rows of `used` numbers that begin every `stride`.
#[derive(Clone, Copy)]
pub struct Strided<'a, E> {
    /// Where the first begins.
    pub rows: &'a [E],
    /// From one to the next.
    pub stride: usize,
    /// Numbers of each that count.
    pub used: usize,
}

impl<E> Strided<'_, E> {
    /// Whether there are so many.
    fn holds(&self, count: usize) -> bool {
        self.used <= self.stride && self.rows.len() >= count * self.stride
    }
}

struct Forward<'a, E> {
    x: Strided<'a, E>,
    w: &'a [E],
    bias: &'a [E],
    out: &'a mut [E],
    count: usize,
}

impl<E: Real> Op<E> for Forward<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let Self { x, w, bias, out, count } = self;
        let n = bias.len();
        assert!(n.is_multiple_of(V::N) && w.len() >= x.used * n);
        assert!(x.holds(count) && out.len() >= count * n);
        // SAFETY: the sizes were just asserted; the instruction set is the caller's promise.
        unsafe { in_blocks!(V, count, forward_rows(x, w, bias, &mut *out)) }
    }
}

/// `B` samples from `row` on.
///
/// # Safety
/// Rows `row..row + B` exist in `x` and in `out` (as long as `bias`, whole lanes); `w` has as many rows of that length as `x` has numbers.
#[inline(always)]
unsafe fn forward_rows<V: Lane, const B: usize>(
    row: usize,
    x: Strided<'_, V::E>,
    w: &[V::E],
    bias: &[V::E],
    out: &mut [V::E],
) {
    let n = bias.len();
    // SAFETY: every place is inside, by the contract.
    unsafe {
        let (from, w) = (x.rows.as_ptr().add(row * x.stride), w.as_ptr());
        let at = |b: usize, i: usize| V::splat(*from.add(b * x.stride + i));
        let (zero, one) = (V::splat(V::E::zero()), V::splat(V::E::one()));
        let whole = x.used - x.used % 4;
        for o in (0..n).step_by(V::N) {
            // Four running sums for each sample hide the latency of the multiply-add.
            let mut acc = [[V::load(bias.as_ptr().add(o)), zero, zero, zero]; B];
            for i in (0..whole).step_by(4) {
                for k in 0..4 {
                    let w = V::load(w.add((i + k) * n + o));
                    for (b, acc) in acc.iter_mut().enumerate() {
                        acc[k] = at(b, i + k).mul_add(w, acc[k]);
                    }
                }
            }
            for k in 0..3 {
                if whole + k >= x.used {
                    break;
                }
                let w = V::load(w.add((whole + k) * n + o));
                for (b, acc) in acc.iter_mut().enumerate() {
                    acc[k] = at(b, whole + k).mul_add(w, acc[k]);
                }
            }
            for (b, acc) in acc.iter().enumerate() {
                let sum = acc[1].mul_add(one, acc[0]).mul_add(one, acc[3].mul_add(one, acc[2]));
                sum.store(out.as_mut_ptr().add((row + b) * n + o));
            }
        }
    }
}

/// `out = bias + x w` for `count` samples, with `w` as `[inputs][bias.len()]`; `bias.len()` is a multiple of the lane.
pub fn dense_forward<E: Real>(
    level: Level,
    count: usize,
    x: Strided<'_, E>,
    w: &[E],
    bias: &[E],
    out: &mut [E],
) {
    E::dispatch(level, Forward { x, w, bias, out, count });
}

struct Backward<'a, E> {
    wt: &'a [E],
    g: Strided<'a, E>,
    dx: &'a mut [E],
    n: usize,
    count: usize,
}

impl<E: Real> Op<E> for Backward<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let Self { wt, g, dx, n, count } = self;
        assert!(n.is_multiple_of(V::N) && wt.len() >= n * g.used);
        assert!(g.holds(count) && dx.len() >= count * n);
        // SAFETY: the sizes were just asserted; the instruction set is the caller's promise.
        unsafe { in_blocks!(V, count, backward_rows(wt, g, &mut *dx, n)) }
    }
}

/// `B` samples from `row` on.
///
/// # Safety
/// Rows `row..row + B` exist in `g` and in `dx` (of `n` each, whole lanes); `wt` has as many rows of `n` as `g` has numbers.
#[inline(always)]
unsafe fn backward_rows<V: Lane, const B: usize>(
    row: usize,
    wt: &[V::E],
    g: Strided<'_, V::E>,
    dx: &mut [V::E],
    n: usize,
) {
    // SAFETY: every place is inside, by the contract.
    unsafe {
        let (from, wt) = (g.rows.as_ptr().add(row * g.stride), wt.as_ptr());
        let at = |b: usize, o: usize| V::splat(*from.add(b * g.stride + o));
        let to = dx.as_mut_ptr().add(row * n);
        let zero = V::splat(V::E::zero());
        let pairs = n - n % (2 * V::N);
        for i in (0..pairs).step_by(2 * V::N) {
            let mut acc = [[zero; 2]; B];
            for o in 0..g.used {
                let w = wt.add(o * n + i);
                let w = [V::load(w), V::load(w.add(V::N))];
                for (b, acc) in acc.iter_mut().enumerate() {
                    *acc = [w[0].mul_add(at(b, o), acc[0]), w[1].mul_add(at(b, o), acc[1])];
                }
            }
            for (b, acc) in acc.iter().enumerate() {
                acc[0].store(to.add(b * n + i));
                acc[1].store(to.add(b * n + i + V::N));
            }
        }
        if pairs < n {
            let mut acc = [zero; B];
            for o in 0..g.used {
                let w = V::load(wt.add(o * n + pairs));
                for (b, acc) in acc.iter_mut().enumerate() {
                    *acc = w.mul_add(at(b, o), *acc);
                }
            }
            for (b, acc) in acc.iter().enumerate() {
                acc.store(to.add(b * n + pairs));
            }
        }
    }
}

/// `dx = W g` for `count` samples, with `W` as `wt`, `[outputs][n]`; the inputs `n` are a multiple of the lane.
pub fn dense_backward<E: Real>(
    level: Level,
    count: usize,
    wt: &[E],
    g: Strided<'_, E>,
    (dx, n): (&mut [E], usize),
) {
    E::dispatch(level, Backward { wt, g, dx, n, count });
}

struct Outer<'a, E> {
    x: Strided<'a, E>,
    g: Strided<'a, E>,
    out: &'a mut [E],
    count: usize,
    add: bool,
}

impl<E: Real> Op<E> for Outer<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let Self { x, g, out, count, add } = self;
        assert!(x.holds(count) && g.holds(count) && out.len() >= x.used * g.used);
        let begun = std::cell::Cell::new(add);
        // SAFETY: the sizes were just asserted; the instruction set is the caller's promise.
        unsafe { in_blocks!(V, count, outer_rows(x, g, &mut *out, begun.replace(true))) }
    }
}

/// `B` samples from `row` on.
///
/// # Safety
/// Rows `row..row + B` exist in `x` and in `g`; `out` has as many rows as `x` has numbers, each as long as `g` has.
#[inline(always)]
unsafe fn outer_rows<V: Lane, const B: usize>(
    row: usize,
    x: Strided<'_, V::E>,
    g: Strided<'_, V::E>,
    out: &mut [V::E],
    add: bool,
) {
    let n = g.used;
    let lanes = n - n % V::N;
    // SAFETY: every place is inside, by the contract.
    unsafe {
        let x_at = |b: usize, i: usize| *x.rows.as_ptr().add((row + b) * x.stride + i);
        let g_at = |b: usize, o: usize| g.rows.as_ptr().add((row + b) * g.stride + o);
        for i in 0..x.used {
            let to = out.as_mut_ptr().add(i * n);
            for o in (0..lanes).step_by(V::N) {
                let zero = V::splat(V::E::zero());
                let mut sum = if add { V::load(to.add(o)) } else { zero };
                for b in 0..B {
                    sum = V::splat(x_at(b, i)).mul_add(V::load(g_at(b, o)), sum);
                }
                sum.store(to.add(o));
            }
            for o in lanes..n {
                let mut sum = if add { *to.add(o) } else { V::E::zero() };
                for b in 0..B {
                    sum = V::one(x_at(b, i), *g_at(b, o), sum);
                }
                *to.add(o) = sum;
            }
        }
    }
}

/// The sum of `x g^T` over `count` samples into `out`, `[x.used][g.used]`, or added to it.
pub fn outer<E: Real>(
    level: Level,
    count: usize,
    x: Strided<'_, E>,
    g: Strided<'_, E>,
    out: &mut [E],
    add: bool,
) {
    // One column is a row of the transpose.
    let (x, g) = if g.used == 1 { (g, x) } else { (x, g) };
    E::dispatch(level, Outer { x, g, out, count, add });
}

struct Turn<'a, E> {
    from: &'a [E],
    m: usize,
    to: &'a mut [E],
    stride: usize,
}

impl<E: Real> Op<E> for Turn<'_, E> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<V: Lane<E = E>>(self) {
        let Self { from, m, to, stride } = self;
        let n = from.len() / m.max(1);
        let (rows, columns) = (n - n % V::SIDE, m - m % V::SIDE);
        assert!(n <= stride && to.len() + stride >= m * stride + n);
        for i in (0..rows).step_by(V::SIDE) {
            for o in (0..columns).step_by(V::SIDE) {
                // SAFETY: the square at (i, o) is inside `from`, and the one at (o, i) inside `to`, as was just asserted.
                unsafe {
                    let to = to.as_mut_ptr().add(o * stride + i);
                    V::turn(from.as_ptr().add(i * m + o), m, to, stride);
                }
            }
        }
        for o in 0..m {
            for i in if o < columns { rows..n } else { 0..n } {
                to[o * stride + i] = from[i * m + o];
            }
        }
    }
}

/// Writes rows of `m` numbers as columns: the rows of the result begin every `stride`.
pub fn turn<E: Real>(level: Level, from: &[E], m: usize, to: &mut [E], stride: usize) {
    E::dispatch(level, Turn { from, m, to, stride });
}
