//! `f64` and `f32` as scalars: the platform's functions with `std`, libm's without.

use super::{Liftable, Scalar};
use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DMatrixView, DMatrixViewMut};

/// Calls the std method or, without std, the libm function of the same meaning.
macro_rules! math {
    ($x:expr, $std:ident, $libm:path $(, $arg:expr)?) => {{
        #[cfg(feature = "std")]
        {
            $x.$std($($arg)?)
        }
        #[cfg(not(feature = "std"))]
        {
            $libm($x $(, $arg)?)
        }
    }};
}

macro_rules! real {
    ($t:ident, $sqrt:path, $exp:path, $ln:path, $ln_1p:path, $sin:path, $cos:path, $tan:path,
     $asin:path, $acos:path, $atan:path, $atan2:path, $sinh:path, $cosh:path, $tanh:path,
     $floor:path, $pow:path, $lifted:expr; $($more:tt)*) => {
        impl Scalar for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const MANY: bool = false;
            $($more)*

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn lifted(values: &[f64]) -> Cow<'_, [Self]> {
                $lifted(values)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            #[inline(always)]
            fn select_lt(a: Self, b: Self, then: Self, otherwise: Self) -> Self {
                if a < b { then } else { otherwise }
            }
            #[inline(always)]
            fn all_lt(a: Self, b: Self) -> bool {
                a < b
            }
            fn large_product(inner: usize, a: &[Self], b: &[Self], out: &mut [Self]) -> bool {
                let (rows, columns) = (a.len() / inner, b.len() / inner);
                let a = DMatrixView::from_slice(a, rows, inner);
                let b = DMatrixView::from_slice(b, inner, columns);
                DMatrixViewMut::from_slice(out, rows, columns).gemm(1.0, &a, &b, 0.0);
                true
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                math!(self, sqrt, $sqrt)
            }
            #[inline]
            fn exp(self) -> Self {
                math!(self, exp, $exp)
            }
            #[inline]
            fn ln(self) -> Self {
                math!(self, ln, $ln)
            }
            #[inline]
            fn ln_1p(self) -> Self {
                math!(self, ln_1p, $ln_1p)
            }
            #[inline]
            fn sin(self) -> Self {
                math!(self, sin, $sin)
            }
            #[inline]
            fn cos(self) -> Self {
                math!(self, cos, $cos)
            }
            #[inline]
            fn tan(self) -> Self {
                math!(self, tan, $tan)
            }
            #[inline]
            fn asin(self) -> Self {
                math!(self, asin, $asin)
            }
            #[inline]
            fn acos(self) -> Self {
                math!(self, acos, $acos)
            }
            #[inline]
            fn atan(self) -> Self {
                math!(self, atan, $atan)
            }
            #[inline]
            fn atan2(self, other: Self) -> Self {
                math!(self, atan2, $atan2, other)
            }
            #[inline]
            fn sinh(self) -> Self {
                math!(self, sinh, $sinh)
            }
            #[inline]
            fn cosh(self) -> Self {
                math!(self, cosh, $cosh)
            }
            #[inline]
            fn tanh(self) -> Self {
                math!(self, tanh, $tanh)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                math!(self, floor, $floor)
            }
            #[inline(always)]
            fn powi(self, n: i32) -> Self {
                // By squaring, written out so that every platform multiplies in the same order.
                let (mut base, mut e, mut acc) = (self, n.unsigned_abs(), 1.0);
                while e > 0 {
                    if e & 1 == 1 {
                        acc *= base;
                    }
                    e >>= 1;
                    if e > 0 {
                        base *= base;
                    }
                }
                if n < 0 { 1.0 / acc } else { acc }
            }
            #[inline]
            fn powf(self, p: Self) -> Self {
                math!(self, powf, $pow, p)
            }
            fn lift(
                x: &[Self],
                f: &mut Liftable<'_>,
                out: &mut [Self],
                jacobian: Option<&mut [Self]>,
            ) {
                // The copies are needed for f32 only; f64 pays them too, since a lifted function
                // (an interpreter, a foreign callback) costs far more than a short copy.
                let point: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
                let mut value = vec![0.0; out.len()];
                match jacobian {
                    None => f(&point, &mut value, None),
                    Some(jacobian) => {
                        let mut plain = vec![0.0; jacobian.len()];
                        f(&point, &mut value, Some(&mut plain));
                        for (j, p) in jacobian.iter_mut().zip(plain) {
                            *j = p as $t;
                        }
                    }
                }
                for (o, v) in out.iter_mut().zip(value) {
                    *o = v as $t;
                }
            }
        }
    };
}

real!(
    f64,
    libm::sqrt,
    libm::exp,
    libm::log,
    libm::log1p,
    libm::sin,
    libm::cos,
    libm::tan,
    libm::asin,
    libm::acos,
    libm::atan,
    libm::atan2,
    libm::sinh,
    libm::cosh,
    libm::tanh,
    libm::floor,
    libm::pow,
    Cow::Borrowed;
    const LANES: usize = 1;
    const KIND: u64 = 1;
    #[inline(always)]
    fn lane(values: &[f64], _lane: usize) -> Cow<'_, [f64]> {
        Cow::Borrowed(values)
    }
    #[inline(always)]
    fn doubles_mut(values: &mut [f64]) -> Option<&mut [f64]> {
        Some(values)
    }
    #[inline(always)]
    fn set_lane(values: &mut [f64], _lane: usize, from: &[f64]) {
        values.copy_from_slice(from);
    }
);
real!(
    f32,
    libm::sqrtf,
    libm::expf,
    libm::logf,
    libm::log1pf,
    libm::sinf,
    libm::cosf,
    libm::tanf,
    libm::asinf,
    libm::acosf,
    libm::atanf,
    libm::atan2f,
    libm::sinhf,
    libm::coshf,
    libm::tanhf,
    libm::floorf,
    libm::powf,
    |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<_>>().into();
);
