//! Several trajectories side by side, one per vector lane.
//!
//! Plain arrays with element-wise loops: the compiler turns each loop into vector instructions of
//! whatever width the surrounding function may use (see [`crate::simd`]). 16 or 32 lanes measured
//! best, since divisions and square roots have long latency and several must be in flight.

use super::{Liftable, Scalar};
use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// `L` numbers that go through the same operations.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Lanes<const L: usize>(pub [f64; L]);

impl<const L: usize> Lanes<L> {
    /// Applies a function of one number to every lane.
    #[inline(always)]
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let mut out = self;
        for v in &mut out.0 {
            *v = f(*v);
        }
        out
    }

    /// Applies a function of two numbers to the lanes of two vectors.
    #[inline(always)]
    pub fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut out = self;
        for i in 0..L {
            out.0[i] = f(self.0[i], other.0[i]);
        }
        out
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $assign:ident, $assign_method:ident, $op:tt) => {
        impl<const L: usize> $trait for Lanes<L> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.zip(other, |a, b| a $op b)
            }
        }
        impl<const L: usize> $assign for Lanes<L> {
            #[inline(always)]
            fn $assign_method(&mut self, other: Self) {
                *self = *self $op other;
            }
        }
    };
}
operator!(Add, add, AddAssign, add_assign, +);
operator!(Sub, sub, SubAssign, sub_assign, -);
operator!(Mul, mul, MulAssign, mul_assign, *);
operator!(Div, div, DivAssign, div_assign, /);

impl<const L: usize> Neg for Lanes<L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|a| -a)
    }
}

impl<const L: usize> Scalar for Lanes<L> {
    const ZERO: Self = Self([0.0; L]);
    const ONE: Self = Self([1.0; L]);

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self([value; L])
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        // Without early exit, so that it is a vector comparison.
        let mut all = true;
        for v in self.0 {
            all &= v.is_finite();
        }
        all
    }
    #[inline(always)]
    fn select_lt(a: Self, b: Self, then: Self, otherwise: Self) -> Self {
        let mut out = otherwise;
        for i in 0..L {
            out.0[i] = if a.0[i] < b.0[i] { then.0[i] } else { otherwise.0[i] };
        }
        out
    }
    #[inline(always)]
    fn all_lt(a: Self, b: Self) -> bool {
        let mut all = true;
        for i in 0..L {
            all &= a.0[i] < b.0[i];
        }
        all
    }
    const LANES: usize = L;
    const WIDE: bool = true;
    const KIND: u64 = 3 | (L as u64) << 2;
    fn lane(values: &[Self], lane: usize) -> Cow<'_, [f64]> {
        values.iter().map(|v| v.0[lane]).collect()
    }
    fn set_lane(values: &mut [Self], lane: usize, from: &[f64]) {
        values.iter_mut().zip(from).for_each(|(v, from)| v.0[lane] = *from);
    }
    fn large_product(inner: usize, a: &[Self], b: &[Self], out: &mut [Self]) -> bool {
        // The blocked kernel adds in an order of its own, so every lane goes through it alone.
        let mut product = vec![0.0; out.len()];
        for lane in 0..L {
            let (a, b) = (Self::lane(a, lane), Self::lane(b, lane));
            f64::large_product(inner, &a, &b, &mut product);
            Self::set_lane(out, lane, &product);
        }
        true
    }
    #[inline(always)]
    fn scale(self, k: f64) -> Self {
        self.map(|a| a * k)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map(Scalar::sqrt)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        self.map(Scalar::exp)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        self.map(Scalar::ln)
    }
    #[inline(always)]
    fn ln_1p(self) -> Self {
        self.map(Scalar::ln_1p)
    }
    #[inline(always)]
    fn sin(self) -> Self {
        self.map(Scalar::sin)
    }
    #[inline(always)]
    fn cos(self) -> Self {
        self.map(Scalar::cos)
    }
    #[inline(always)]
    fn tan(self) -> Self {
        self.map(Scalar::tan)
    }
    #[inline(always)]
    fn asin(self) -> Self {
        self.map(Scalar::asin)
    }
    #[inline(always)]
    fn acos(self) -> Self {
        self.map(Scalar::acos)
    }
    #[inline(always)]
    fn atan(self) -> Self {
        self.map(Scalar::atan)
    }
    #[inline(always)]
    fn atan2(self, other: Self) -> Self {
        self.zip(other, Scalar::atan2)
    }
    #[inline(always)]
    fn sinh(self) -> Self {
        self.map(Scalar::sinh)
    }
    #[inline(always)]
    fn cosh(self) -> Self {
        self.map(Scalar::cosh)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        self.map(Scalar::tanh)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map(f64::abs)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        self.map(Scalar::floor)
    }
    #[inline(always)]
    fn powi(self, n: i32) -> Self {
        self.map(|a| Scalar::powi(a, n))
    }
    #[inline(always)]
    fn powf(self, p: Self) -> Self {
        self.zip(p, Scalar::powf)
    }

    fn lift(x: &[Self], f: &mut Liftable<'_>, out: &mut [Self], jacobian: Option<&mut [Self]>) {
        let mut value = vec![0.0; out.len()];
        let mut plain = vec![0.0; jacobian.as_ref().map_or(0, |j| j.len())];
        let mut jacobian = jacobian;
        for lane in 0..L {
            let point: Vec<f64> = x.iter().map(|v| v.0[lane]).collect();
            match &mut jacobian {
                None => f(&point, &mut value, None),
                Some(jacobian) => {
                    f(&point, &mut value, Some(&mut plain));
                    for (j, &p) in jacobian.iter_mut().zip(&plain) {
                        j.0[lane] = p;
                    }
                }
            }
            for (o, &v) in out.iter_mut().zip(&value) {
                o.0[lane] = v;
            }
        }
    }
}
