//! What every kind of number can do.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A function of plain numbers that can be lifted to every scalar kind: it reads a point, writes the
/// value and, when asked, the row-major Jacobian (outputs x inputs).
pub type Liftable<'a> = dyn FnMut(&[f64], &mut [f64], Option<&mut [f64]>) + 'a;

/// A function of a vector, written once for every scalar.
pub trait VectorFunction {
    /// Writes f(x) to `out`.
    fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]);
}

/// A number that state-space models, likelihoods and optimizers are written over.
///
/// All operations act lane by lane. Nothing reorders or fuses operations, so every lane is bit for
/// bit what `f64` alone would give.
pub trait Scalar:
    Copy
    + Debug
    + PartialEq
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// The number zero, with zero derivatives.
    const ZERO: Self;
    /// The number one, with zero derivatives.
    const ONE: Self;

    /// Whether it carries derivatives.
    const DIFFERENTIAL: bool = false;

    /// Whether it is several numbers: lanes, or a value with derivatives.
    const MANY: bool = true;

    /// Whether each number is a vector, whose operations are worth a vector unit.
    const WIDE: bool = false;

    /// What tells this type from others in a constant; 0 for types that nobody has to tell apart.
    #[doc(hidden)]
    const KIND: u64 = 0;

    /// A constant, the same in every lane.
    fn from_f64(value: f64) -> Self;
    /// Plain numbers in this kind of number; `f64` borrows them.
    #[inline(always)]
    fn lifted(values: &[f64]) -> Cow<'_, [Self]> {
        values.iter().map(|&v| Self::from_f64(v)).collect::<Vec<_>>().into()
    }
    /// Whether every lane of the value and of every derivative is finite.
    fn is_finite(self) -> bool;
    /// `then` where `a < b`, else `otherwise`; a NaN on either side chooses `otherwise`.
    fn select_lt(a: Self, b: Self, then: Self, otherwise: Self) -> Self;
    /// Whether `a < b` in every lane; false where one is NaN.
    fn all_lt(a: Self, b: Self) -> bool;
    /// How many plain numbers it is, each of which goes through the same operations; 0 for a value with derivatives, and for
    /// single precision.
    const LANES: usize = 0;
    /// One of them of every value; there are [`LANES`](Self::LANES).
    #[inline(always)]
    fn lane(_values: &[Self], _lane: usize) -> Cow<'_, [f64]> {
        Cow::Borrowed(&[])
    }
    /// The values themselves, where each is one plain number.
    #[inline(always)]
    fn doubles_mut(_values: &mut [Self]) -> Option<&mut [f64]> {
        None
    }
    /// Replaces one of them of every value.
    #[inline(always)]
    fn set_lane(_values: &mut [Self], _lane: usize, _from: &[f64]) {}
    /// Writes the product of two large matrices, stored column by column, of inner dimension `inner`, and
    /// returns `true`, if this kind of number has a faster way than plain loops.
    #[inline(always)]
    fn large_product(_inner: usize, _a: &[Self], _b: &[Self], _out: &mut [Self]) -> bool {
        false
    }

    /// Square root.
    fn sqrt(self) -> Self;
    /// Exponential.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// `ln(1 + x)`, exact for small `x`.
    fn ln_1p(self) -> Self;
    /// Sine of radians.
    fn sin(self) -> Self;
    /// Cosine of radians.
    fn cos(self) -> Self;
    /// Tangent of radians.
    fn tan(self) -> Self;
    /// Inverse sine, in radians.
    fn asin(self) -> Self;
    /// Inverse cosine, in radians.
    fn acos(self) -> Self;
    /// Inverse tangent, in radians.
    fn atan(self) -> Self;
    /// The angle of the point (`other`, `self`), in radians.
    fn atan2(self, other: Self) -> Self;
    /// Hyperbolic sine.
    fn sinh(self) -> Self;
    /// Hyperbolic cosine.
    fn cosh(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Absolute value; its derivative at zero is that of the positive side.
    fn abs(self) -> Self;
    /// Largest whole number not above; its derivative is zero.
    fn floor(self) -> Self;
    /// An integer power.
    fn powi(self, n: i32) -> Self;
    /// A real power; the base must be positive for a real derivative.
    fn powf(self, p: Self) -> Self;

    /// Multiplication by a plain number. For duals and lanes this is cheaper than [`from_f64`]
    /// followed by a product of two full numbers.
    ///
    /// [`from_f64`]: Scalar::from_f64
    #[inline(always)]
    fn scale(self, k: f64) -> Self {
        self * Self::from_f64(k)
    }
    /// The larger of the two, lane by lane.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self::select_lt(self, other, other, self)
    }
    /// The smaller of the two, lane by lane.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self::select_lt(other, self, other, self)
    }
    /// The nearest number between two bounds. The derivative passes through unchanged: how far a number would have moved
    /// says how uncertain it is, also where a bound holds it.
    #[inline(always)]
    fn confined(self, low: f64, high: f64) -> Self {
        self.max(Self::from_f64(low)).min(Self::from_f64(high))
    }
    /// The square.
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }
    /// The angle in radians brought into [-pi, pi) by whole turns. The derivative passes through unchanged.
    #[inline(always)]
    fn wrap_angle(self) -> Self {
        self.wrap(core::f64::consts::TAU)
    }
    /// The same for an angle whose whole turn is this long: 360 for degrees.
    #[inline(always)]
    fn wrap(self, turn: f64) -> Self {
        self - (self.scale(1.0 / turn) + Self::from_f64(0.5)).floor().scale(turn)
    }

    /// Evaluates a function of plain numbers in this kind of number.
    ///
    /// Duals apply the chain rule with the Jacobian that `f` writes; lanes call `f` once per lane.
    /// Second derivatives (duals of duals) of `f` are taken as zero, since `f` cannot give them.
    /// If `jacobian` is given it receives the row-major Jacobian as constants of this kind.
    fn lift(x: &[Self], f: &mut Liftable<'_>, out: &mut [Self], jacobian: Option<&mut [Self]>);
}
