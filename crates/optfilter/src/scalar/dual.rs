//! Forward derivatives: a value with `D` directional derivatives.
//!
//! `Dual { re, eps }` stands for re + sum_d eps[d] e_d with e_a e_b = 0, so a function f of it gives
//! f(re) + f'(re) eps. The base `S` may be lanes or duals again (second derivatives).

use super::{Liftable, Scalar};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A number with `D` directional derivatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual<S, const D: usize> {
    /// The value.
    pub re: S,
    /// The derivatives of the value along each of the `D` directions.
    pub eps: [S; D],
}

impl<S: Scalar, const D: usize> Dual<S, D> {
    /// A number that does not depend on any direction.
    #[inline(always)]
    pub fn constant(re: S) -> Self {
        Self { re, eps: [S::ZERO; D] }
    }

    /// A number that moves at unit speed along direction `d`, or along none if `d >= D`.
    #[inline(always)]
    pub fn variable(re: S, d: usize) -> Self {
        let mut out = Self::constant(re);
        if d < D {
            out.eps[d] = S::ONE;
        }
        out
    }

    /// The image of this number under a function with the given value and derivative at `re`.
    #[inline(always)]
    fn chain(self, value: S, derivative: S) -> Self {
        let mut eps = self.eps;
        for e in &mut eps {
            *e *= derivative;
        }
        Self { re: value, eps }
    }
}

impl<S: Scalar, const D: usize> Add for Dual<S, D> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let mut eps = self.eps;
        for d in 0..D {
            eps[d] += other.eps[d];
        }
        Self { re: self.re + other.re, eps }
    }
}

impl<S: Scalar, const D: usize> Sub for Dual<S, D> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let mut eps = self.eps;
        for d in 0..D {
            eps[d] -= other.eps[d];
        }
        Self { re: self.re - other.re, eps }
    }
}

impl<S: Scalar, const D: usize> Mul for Dual<S, D> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let mut eps = self.eps;
        for d in 0..D {
            eps[d] = self.eps[d] * other.re + self.re * other.eps[d];
        }
        Self { re: self.re * other.re, eps }
    }
}

impl<S: Scalar, const D: usize> Div for Dual<S, D> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // (a/b)' = (a' - (a/b) b') / b, with one division for all directions.
        let re = self.re / other.re;
        let inverse = S::ONE / other.re;
        let mut eps = self.eps;
        for d in 0..D {
            eps[d] = (self.eps[d] - re * other.eps[d]) * inverse;
        }
        Self { re, eps }
    }
}

impl<S: Scalar, const D: usize> Neg for Dual<S, D> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        let mut eps = self.eps;
        for e in &mut eps {
            *e = -*e;
        }
        Self { re: -self.re, eps }
    }
}

macro_rules! assign {
    ($trait:ident, $method:ident, $op:tt) => {
        impl<S: Scalar, const D: usize> $trait for Dual<S, D> {
            #[inline(always)]
            fn $method(&mut self, other: Self) {
                *self = *self $op other;
            }
        }
    };
}
assign!(AddAssign, add_assign, +);
assign!(SubAssign, sub_assign, -);
assign!(MulAssign, mul_assign, *);
assign!(DivAssign, div_assign, /);

impl<S: Scalar, const D: usize> Scalar for Dual<S, D> {
    const ZERO: Self = Self { re: S::ZERO, eps: [S::ZERO; D] };
    const ONE: Self = Self { re: S::ONE, eps: [S::ZERO; D] };
    const DIFFERENTIAL: bool = true;
    const WIDE: bool = S::WIDE;
    const KIND: u64 = S::KIND << 10 | (D as u64) << 2;

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self::constant(S::from_f64(value))
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.re.is_finite() && self.eps.iter().all(|e| e.is_finite())
    }
    #[inline(always)]
    fn select_lt(a: Self, b: Self, then: Self, otherwise: Self) -> Self {
        let mut eps = otherwise.eps;
        for d in 0..D {
            eps[d] = S::select_lt(a.re, b.re, then.eps[d], otherwise.eps[d]);
        }
        Self { re: S::select_lt(a.re, b.re, then.re, otherwise.re), eps }
    }
    #[inline(always)]
    fn all_lt(a: Self, b: Self) -> bool {
        S::all_lt(a.re, b.re)
    }
    #[inline(always)]
    fn confined(self, low: f64, high: f64) -> Self {
        Self { re: self.re.confined(low, high), eps: self.eps }
    }
    #[inline(always)]
    fn scale(self, k: f64) -> Self {
        let mut eps = self.eps;
        for e in &mut eps {
            *e = e.scale(k);
        }
        Self { re: self.re.scale(k), eps }
    }
    #[inline(always)]
    fn square(self) -> Self {
        self.chain(self.re * self.re, self.re + self.re)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        let root = self.re.sqrt();
        let derivative = S::from_f64(0.5) / root;
        let mut eps = self.eps;
        for e in &mut eps {
            // The root of a zero that does not move does not move, though its slope is infinite. (A NaN
            // stays: it is neither below nor above zero.)
            let moved = *e * derivative;
            *e = S::select_lt(*e, S::ZERO, moved, S::select_lt(S::ZERO, *e, moved, *e));
        }
        Self { re: root, eps }
    }
    #[inline(always)]
    fn exp(self) -> Self {
        let e = self.re.exp();
        self.chain(e, e)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        self.chain(self.re.ln(), S::ONE / self.re)
    }
    #[inline(always)]
    fn ln_1p(self) -> Self {
        self.chain(self.re.ln_1p(), S::ONE / (S::ONE + self.re))
    }
    #[inline(always)]
    fn sin(self) -> Self {
        self.chain(self.re.sin(), self.re.cos())
    }
    #[inline(always)]
    fn cos(self) -> Self {
        self.chain(self.re.cos(), -self.re.sin())
    }
    #[inline(always)]
    fn tan(self) -> Self {
        let t = self.re.tan();
        self.chain(t, S::ONE + t * t)
    }
    #[inline(always)]
    fn asin(self) -> Self {
        self.chain(self.re.asin(), S::ONE / (S::ONE - self.re * self.re).sqrt())
    }
    #[inline(always)]
    fn acos(self) -> Self {
        self.chain(self.re.acos(), -(S::ONE / (S::ONE - self.re * self.re).sqrt()))
    }
    #[inline(always)]
    fn atan(self) -> Self {
        self.chain(self.re.atan(), S::ONE / (S::ONE + self.re * self.re))
    }
    #[inline(always)]
    fn atan2(self, other: Self) -> Self {
        // d atan2(y, x) = (x dy - y dx) / (x^2 + y^2)
        let inverse = S::ONE / (self.re * self.re + other.re * other.re);
        let mut eps = self.eps;
        for d in 0..D {
            eps[d] = (other.re * self.eps[d] - self.re * other.eps[d]) * inverse;
        }
        Self { re: self.re.atan2(other.re), eps }
    }
    #[inline(always)]
    fn sinh(self) -> Self {
        self.chain(self.re.sinh(), self.re.cosh())
    }
    #[inline(always)]
    fn cosh(self) -> Self {
        self.chain(self.re.cosh(), self.re.sinh())
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        let t = self.re.tanh();
        self.chain(t, S::ONE - t * t)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        let sign = S::select_lt(self.re, S::ZERO, -S::ONE, S::ONE);
        self.chain(self.re.abs(), sign)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self::constant(self.re.floor())
    }
    #[inline(always)]
    fn powi(self, n: i32) -> Self {
        if n == 0 {
            return Self::ONE;
        }
        self.chain(self.re.powi(n), self.re.powi(n - 1).scale(f64::from(n)))
    }
    #[inline(always)]
    fn powf(self, p: Self) -> Self {
        // d x^p = p x^(p-1) dx + x^p ln(x) dp. The second term is dropped where the exponent does not
        // move, so that a negative base with a constant whole exponent keeps a finite derivative.
        let value = self.re.powf(p.re);
        let by_base = p.re * self.re.powf(p.re - S::ONE);
        let mut eps = self.eps;
        for e in &mut eps {
            *e *= by_base;
        }
        if p.eps.iter().any(|e| *e != S::ZERO) {
            let by_exponent = value * self.re.ln();
            for d in 0..D {
                eps[d] += by_exponent * p.eps[d];
            }
        }
        Self { re: value, eps }
    }

    fn lift(x: &[Self], f: &mut Liftable<'_>, out: &mut [Self], jacobian: Option<&mut [Self]>) {
        let (n, m) = (x.len(), out.len());
        let point: Vec<S> = x.iter().map(|v| v.re).collect();
        let mut value = vec![S::ZERO; m];
        let mut partial = vec![S::ZERO; m * n];
        S::lift(&point, f, &mut value, Some(&mut partial));
        for i in 0..m {
            let mut result = Self::constant(value[i]);
            for j in 0..n {
                for d in 0..D {
                    result.eps[d] += partial[i * n + j] * x[j].eps[d];
                }
            }
            out[i] = result;
        }
        if let Some(jacobian) = jacobian {
            for (j, p) in jacobian.iter_mut().zip(partial) {
                *j = Self::constant(p);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every function of the trait, under one name, for the derivative check below.
    fn functions<S: Scalar>(x: S) -> [S; 18] {
        [
            x.sqrt(),
            x.exp(),
            x.ln(),
            x.ln_1p(),
            x.sin(),
            x.cos(),
            x.tan(),
            x.asin(),
            x.acos(),
            x.atan(),
            x.atan2(x * x + S::ONE),
            x.sinh(),
            x.cosh(),
            x.tanh(),
            (-x).abs(),
            x.powi(-3),
            x.powf(x),
            (x.square() + S::ONE / x).max(x).min(S::from_f64(9.0)),
        ]
    }

    #[test]
    fn derivatives_agree_with_central_differences() {
        for x in [0.2, 0.37, 0.81] {
            let exact = functions(Dual::<f64, 1>::variable(x, 0));
            let h = 1e-6;
            let (up, down) = (functions(x + h), functions(x - h));
            for (i, e) in exact.iter().enumerate() {
                let slope = (up[i] - down[i]) / (2.0 * h);
                // Central differences carry h^2 f'''/6 plus rounding of about 1e-16/h.
                assert!(
                    (e.eps[0] - slope).abs() < 1e-7 * (1.0 + slope.abs()),
                    "function {i} at {x}: {} against {slope}",
                    e.eps[0]
                );
            }
        }
    }

    #[test]
    fn duals_of_duals_give_second_derivatives() {
        let x = Dual::<Dual<f64, 1>, 1>::variable(Dual::variable(0.7, 0), 0);
        let y = x.sin() * x;
        let second = 2.0 * 0.7f64.cos() - 0.7 * 0.7f64.sin();
        assert!((y.eps[0].eps[0] - second).abs() < 1e-15);
    }

    #[test]
    fn a_lifted_function_follows_the_chain_rule() {
        let mut f = |x: &[f64], out: &mut [f64], jacobian: Option<&mut [f64]>| {
            out[0] = x[0] * x[1];
            if let Some(j) = jacobian {
                j[0] = x[1];
                j[1] = x[0];
            }
        };
        let t = Dual::<f64, 1>::variable(2.0, 0);
        let mut out = [Dual::ZERO];
        Scalar::lift(&[t * t, t.sin()], &mut f, &mut out, None);
        let direct = t * t * t.sin();
        assert!((out[0].re - direct.re).abs() < 1e-15);
        assert!((out[0].eps[0] - direct.eps[0]).abs() < 1e-14);
    }
}
