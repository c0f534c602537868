//! A number that leaves a trace: reverse derivatives of functions written over [`Scalar`].
//!
//! An evaluation writes every operation to the tape of its thread: what it read, and the slopes. Read backwards, the tape
//! gives the transposed Jacobian times a vector, for the cost of a few evaluations whatever the number of inputs,
//! where duals need one for every eight. The slopes are those of [`Dual`]; a branch that was not taken leaves no
//! trace. The tape holds one evaluation at a time, so its length is that of one model step.

use super::{Dual, Liftable, Scalar, VectorFunction};
use crate::scratch::Scratch;
use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};
use std::cell::{Cell, RefCell};
use std::vec::Vec;

/// An operation: the places of what it read, and the slopes by them.
#[derive(Clone, Copy)]
struct Operation {
    read: [u32; 2],
    slopes: [f64; 2],
}

/// An operation that reads nothing.
const LEAF: Operation = Operation { read: [NOWHERE; 2], slopes: [0.0; 2] };

/// Operations that are written before they go to the rest of the tape, few enough to stay near the processor.
const CHUNK: usize = 512;

std::thread_local! {
    /// The end of the tape. These cells have no destructor, so that nothing asks at every operation whether they are still there.
    static END: Cell<[Operation; CHUNK]> = const { Cell::new([LEAF; CHUNK]) };
    /// How many operations are on the tape.
    static LEN: Cell<usize> = const { Cell::new(0) };
    /// How many inputs it has: they have places before the operations, and stand nowhere.
    static INPUTS: Cell<usize> = const { Cell::new(0) };
    /// The tape but for its end.
    static TAPE: RefCell<Vec<Operation>> = const { RefCell::new(Vec::new()) };
}

/// The place of a number that depends on nothing.
const NOWHERE: u32 = u32::MAX;

/// A number and its place on the tape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recorded {
    value: f64,
    place: u32,
}

/// Writes the transposed Jacobian of `f` at `x` times `r` to `out`. Lanes are recorded one after the other.
pub(crate) fn vjp<S: Scalar, F: VectorFunction>(f: &F, x: &[S], r: &[S], out: &mut [S]) {
    let mut both = Scratch::new(x.len() + r.len());
    both[..x.len()].copy_from_slice(x);
    both[x.len()..].copy_from_slice(r);
    let mut plain = |point: &[f64], out: &mut [f64], _: Option<&mut [f64]>| {
        let (x, r) = point.split_at(x.len());
        pull_back_plain(f, x, r, out);
    };
    S::lift(&both, &mut plain, out, None);
}

fn pull_back_plain<F: VectorFunction>(f: &F, x: &[f64], r: &[f64], out: &mut [f64]) {
    // The tape is not empty where a function that is being recorded asks for a derivative itself.
    let (start, before, n) = (LEN.get(), INPUTS.get(), x.len());
    let first = start + before;
    INPUTS.set(before + n);
    let mut point = Scratch::new(n);
    for (i, (point, value)) in point.iter_mut().zip(x).enumerate() {
        *point = Recorded { value: *value, place: (first + i) as u32 };
    }
    let mut image = Scratch::new(r.len());
    image.fill(Recorded::ZERO);
    f.eval(&point, &mut image);
    TAPE.with_borrow_mut(|tape| {
        // What was recorded here, and is not at the end, is on the rest of the tape.
        let (len, spilled) = (LEN.get(), tape.len());
        let mut adjoints = Scratch::new(n + len - start);
        adjoints.fill(0.0);
        let mut adjoints = &mut adjoints[..];
        for (y, r) in image.iter().zip(r) {
            if let Some(adjoint) = adjoints.get_mut(own(y.place, first)) {
                *adjoint += r;
            }
        }
        let mut back = |operation: Operation| {
            let Some((w, before)) = std::mem::take(&mut adjoints).split_last_mut() else { return };
            adjoints = before;
            // What was not used passes nothing back, be its slope infinite.
            if *w == 0.0 {
                return;
            }
            for (place, slope) in operation.read.into_iter().zip(operation.slopes) {
                if let Some(adjoint) = adjoints.get_mut(own(place, first)) {
                    *adjoint += *w * slope;
                }
            }
        };
        with_end(|end| {
            let recorded = &end[start.saturating_sub(spilled)..len - spilled];
            recorded.iter().rev().for_each(|operation| back(operation.get()));
        });
        tape[start.min(spilled)..].iter().rev().for_each(|operation| back(*operation));
        out.copy_from_slice(&adjoints[..n]);
        // What was there before is the end again.
        if start < spilled {
            let full = start - start % CHUNK;
            with_end(|end| end.iter().zip(&tape[full..start]).for_each(|(end, was)| end.set(*was)));
            tape.truncate(full);
        }
    });
    LEN.set(start);
    INPUTS.set(before);
}

/// The number of a place among those of the recording that begins at `first`; beyond them for any other.
#[inline(always)]
fn own(place: u32, first: usize) -> usize {
    (place as usize).wrapping_sub(first)
}

#[inline(always)]
fn with_end<R>(f: impl FnOnce(&[Cell<Operation>]) -> R) -> R {
    END.with(|end| f((end as &Cell<[Operation]>).as_slice_of_cells()))
}

#[inline(always)]
fn record(value: f64, read: [u32; 2], slopes: [f64; 2]) -> Recorded {
    let len = LEN.get();
    with_end(|end| end[len % CHUNK].set(Operation { read, slopes }));
    LEN.set(len + 1);
    if (len + 1).is_multiple_of(CHUNK) {
        spill();
    }
    Recorded { value, place: (len + INPUTS.get()) as u32 }
}

/// Makes room for the next chunk.
#[cold]
#[inline(never)]
fn spill() {
    TAPE.with_borrow_mut(|tape| tape.extend_from_slice(&END.get()));
}

impl Recorded {
    fn constant(value: f64) -> Self {
        Self { value, place: NOWHERE }
    }

    #[inline(always)]
    fn chain(self, value: f64, slope: f64) -> Self {
        if self.place == NOWHERE {
            return Self::constant(value);
        }
        record(value, [self.place, NOWHERE], [slope, 0.0])
    }

    /// A function of one number, by the rule of duals.
    #[inline(always)]
    fn map(self, f: impl Fn(Dual<f64, 1>) -> Dual<f64, 1>) -> Self {
        let Dual { re, eps } = f(Dual { re: self.value, eps: [1.0] });
        self.chain(re, eps[0])
    }

    #[inline(always)]
    fn join(self, other: Self, value: f64, slopes: [f64; 2]) -> Self {
        // What a constant is added to moves as before and stays where it is.
        if other.place == NOWHERE && (self.place == NOWHERE || slopes[0] == 1.0) {
            return Self { value, place: self.place };
        }
        if self.place == NOWHERE && slopes[1] == 1.0 {
            return Self { value, place: other.place };
        }
        record(value, [self.place, other.place], slopes)
    }

    /// A function of two numbers, by the rule of duals.
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(Dual<f64, 2>, Dual<f64, 2>) -> Dual<f64, 2>) -> Self {
        let Dual { re, eps } =
            f(Dual { re: self.value, eps: [1.0, 0.0] }, Dual { re: other.value, eps: [0.0, 1.0] });
        self.join(other, re, eps)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $assign:ident, $assign_method:ident, |$a:ident, $b:ident| $value:expr, $slopes:expr) => {
        impl $trait for Recorded {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self.value, other.value);
                self.join(other, $value, $slopes)
            }
        }
        impl $assign for Recorded {
            #[inline(always)]
            fn $assign_method(&mut self, other: Self) {
                *self = $trait::$method(*self, other);
            }
        }
    };
}
operator!(Add, add, AddAssign, add_assign, |a, b| a + b, [1.0, 1.0]);
operator!(Sub, sub, SubAssign, sub_assign, |a, b| a - b, [1.0, -1.0]);
operator!(Mul, mul, MulAssign, mul_assign, |a, b| a * b, [b, a]);
operator!(Div, div, DivAssign, div_assign, |a, b| a / b, [1.0 / b, -(a / b) / b]);

impl Neg for Recorded {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.chain(-self.value, -1.0)
    }
}

/// Functions that are those of duals.
macro_rules! functions {
    ($($name:ident)*) => {
        $(#[inline]
        fn $name(self) -> Self {
            self.map(Scalar::$name)
        })*
    };
}

impl Scalar for Recorded {
    const ZERO: Self = Self { value: 0.0, place: NOWHERE };
    const ONE: Self = Self { value: 1.0, place: NOWHERE };
    const DIFFERENTIAL: bool = true;
    const KIND: u64 = 2;

    fn from_f64(value: f64) -> Self {
        Self::constant(value)
    }
    fn is_finite(self) -> bool {
        self.value.is_finite()
    }
    #[inline(always)]
    fn select_lt(a: Self, b: Self, then: Self, otherwise: Self) -> Self {
        if a.value < b.value { then } else { otherwise }
    }
    fn all_lt(a: Self, b: Self) -> bool {
        a.value < b.value
    }
    #[inline(always)]
    fn scale(self, k: f64) -> Self {
        self.chain(self.value * k, k)
    }
    #[inline]
    fn sqrt(self) -> Self {
        let root = Scalar::sqrt(self.value);
        // A root of zero passes nothing back: of what stands below it, it is not known whether it moves.
        self.chain(root, if root > 0.0 { 0.5 / root } else { root })
    }
    functions!(square exp ln ln_1p sin cos tan asin acos atan sinh cosh tanh abs);
    fn floor(self) -> Self {
        Self::constant(Scalar::floor(self.value))
    }
    fn atan2(self, other: Self) -> Self {
        self.zip(other, Scalar::atan2)
    }
    fn powi(self, n: i32) -> Self {
        self.map(|x| x.powi(n))
    }
    fn powf(self, p: Self) -> Self {
        self.zip(p, Scalar::powf)
    }

    fn lift(x: &[Self], f: &mut Liftable<'_>, out: &mut [Self], jacobian: Option<&mut [Self]>) {
        let point: Vec<f64> = x.iter().map(|v| v.value).collect();
        let mut values = std::vec![0.0; out.len()];
        let mut slopes = std::vec![0.0; out.len() * x.len()];
        f(&point, &mut values, Some(&mut slopes));
        for (out, (value, slopes)) in
            out.iter_mut().zip(values.into_iter().zip(slopes.chunks(x.len().max(1))))
        {
            let sum = x
                .iter()
                .zip(slopes)
                .fold(Self::ZERO, |sum, (x, &slope)| sum.join(*x, value, [1.0, slope]));
            *out = Self { value, ..sum };
        }
        for (target, slope) in jacobian.into_iter().flatten().zip(slopes) {
            *target = Self::constant(slope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derivative;
    use crate::scalar::Lanes;
    use nalgebra::{Const, Dyn};
    use std::cell::Cell;

    /// Every function of the trait; counts its evaluations.
    struct Everything<'a>(&'a Cell<u32>);
    impl VectorFunction for Everything<'_> {
        fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
            self.0.set(self.0.get() + 1);
            let mut sum = S::ZERO;
            for pair in x.windows(2) {
                let (a, b) = (pair[0], pair[1]);
                let (c, d) = (a.sqrt() * b.exp() - a.ln() / b.ln_1p(), a.sin() + b.cos() * a.tan());
                let e = a.asin().atan2(b.acos()) + a.atan().sinh() * b.cosh().scale(0.1) - b.tanh();
                let f = (-a).abs() + b.floor() + a.powi(-3) + a.powf(b) + b.powf(S::from_f64(1.5));
                let (low, high) = (a.min(b * b), (a - b).max(S::from_f64(0.1)).square());
                sum += c * d + S::select_lt(a, b, e, f) + low * high + (a - b).wrap_angle();
            }
            out[0] = sum;
            out[1] = x[0] * x[x.len() - 1];
            out[2] = S::from_f64(4.0);
        }
    }

    fn point(n: usize) -> Vec<f64> {
        (0..n).map(|i| 0.5 + 0.3 * (1.3 * i as f64).sin()).collect()
    }

    #[test]
    fn the_tape_has_the_slopes_of_duals_and_needs_one_evaluation() {
        let count = Cell::new(0);
        let (x, r) = (point(40), [0.7, -2.0, 5.0]);
        let (_, matrix) = derivative::jacobian(&Everything(&count), &x, Dyn(40), Const::<3>);
        let expected = matrix.transpose() * nalgebra::Vector3::from(r);
        count.set(0);
        let mut gradient = std::vec![0.0; 40];
        vjp(&Everything(&count), &x, &r, &mut gradient);
        assert_eq!(
            (count.get(), LEN.get(), INPUTS.get(), TAPE.with_borrow(Vec::len)),
            (1, 0, 0, 0)
        );
        for (g, e) in gradient.iter().zip(expected.iter()) {
            // Sums of a dozen terms in another order.
            assert!((g - e).abs() <= 1e-13 * (1.0 + e.abs()), "{g} {e}");
        }
        // Lanes are as many recordings.
        let lanes = |v: &[f64], s: f64| v.iter().map(|v| Lanes([*v, v * s])).collect::<Vec<_>>();
        let mut both = std::vec![Lanes([0.0; 2]); 40];
        vjp(&Everything(&count), &lanes(&x, 0.9), &lanes(&r, 1.0), &mut both);
        assert!(both.iter().zip(&gradient).all(|(b, g)| b.0[0].to_bits() == g.to_bits()));
        // Where a score is asked for, it is that of the value, for one more evaluation.
        count.set(0);
        let mut scored = std::vec![0.0; 40];
        let score = |value: &[f64], out: &mut [f64]| {
            assert_eq!(value[2], 4.0);
            out.copy_from_slice(&r);
        };
        derivative::vjp(&Everything(&count), &x, Dyn(40), Const::<3>, score, &mut scored);
        assert_eq!((count.get(), scored), (2, gradient));
    }

    #[test]
    fn a_recording_inside_a_recording_leaves_it_as_it_was() {
        /// Over several chunks, with as many operations of another recording in between.
        struct Around(bool);
        impl VectorFunction for Around {
            fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
                let sum = |from: S| (0..1300).fold(from, |sum, k| sum * x[1].scale(0.9) + x[k % 3]);
                let first = sum(x[2]);
                if self.0 {
                    let mut inner = [0.0; 3];
                    vjp(&Around(false), &[0.1, 0.2, 0.3], &[1.0], &mut inner);
                    assert!(inner.iter().all(|g| g.is_finite() && *g != 0.0));
                }
                out[0] = sum(first * x[0]) * first;
            }
        }
        let gradient = |nested: bool| {
            let mut out = [0.0; 3];
            vjp(&Around(nested), &[0.3, -0.7, 0.5], &[2.0], &mut out);
            out.map(f64::to_bits)
        };
        assert_eq!(gradient(true), gradient(false));
        assert_eq!((LEN.get(), INPUTS.get(), TAPE.with_borrow(Vec::len)), (0, 0, 0));
    }

    #[test]
    fn what_was_not_used_passes_nothing_back() {
        struct Edge;
        impl VectorFunction for Edge {
            fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
                out[0] = (x[0].square() + x[1].square()).sqrt() + x[2].scale(2.0);
                out[1] = S::select_lt(S::ZERO, x[0], x[2] / x[0], x[2]);
            }
        }
        let mut gradient = [f64::NAN; 3];
        vjp(&Edge, &[0.0, 0.0, 1.0], &[1.0, 0.5], &mut gradient);
        assert_eq!(gradient, [0.0, 0.0, 2.5]);
    }

    #[test]
    fn functions_of_plain_numbers_are_recorded_with_their_jacobian() {
        struct Lifted;
        impl VectorFunction for Lifted {
            fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
                let mut f = |x: &[f64], out: &mut [f64], jacobian: Option<&mut [f64]>| {
                    out.copy_from_slice(&[x[0] * x[1] + x[2], x[2] * x[2]]);
                    if let Some(jacobian) = jacobian {
                        jacobian.copy_from_slice(&[x[1], x[0], 1.0, 0.0, 0.0, 2.0 * x[2]]);
                    }
                };
                let doubled: Vec<S> = x.iter().map(|v| v.scale(2.0)).collect();
                S::lift(&doubled, &mut f, out, None);
            }
        }
        let mut gradient = [0.0; 3];
        vjp(&Lifted, &[1.0, 2.0, 3.0], &[1.0, 10.0], &mut gradient);
        assert_eq!(gradient, [8.0, 4.0, 242.0]);
    }
}
