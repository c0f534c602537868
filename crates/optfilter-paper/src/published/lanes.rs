//! Many trajectories side by side, and the choice of the vector instructions at run time.
//!
//! A [`V`] holds one number of each of `W` trajectories; an operation acts on all of them. Nothing is reordered or fused, so each
//! lane computes the very bits that scalar code would.

use core::ops::{Add, Div, Mul, Neg, Sub};

/// One number for each of `W` trajectories.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct V<const W: usize>(pub [f64; W]);

impl<const W: usize> V<W> {
    /// The same number in every lane.
    #[inline(always)]
    pub fn splat(value: f64) -> Self {
        Self([value; W])
    }

    /// Square root of every lane.
    #[inline(always)]
    pub fn sqrt(self) -> Self {
        let mut out = self.0;
        for v in &mut out {
            *v = v.sqrt();
        }
        Self(out)
    }
}

macro_rules! operator {
    ($trait:ident, $name:ident, $op:tt) => {
        impl<const W: usize> $trait for V<W> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                let mut out = self.0;
                for i in 0..W {
                    out[i] = out[i] $op other.0[i];
                }
                Self(out)
            }
        }
        impl<const W: usize> $trait<f64> for V<W> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: f64) -> Self {
                let mut out = self.0;
                for v in &mut out {
                    *v = *v $op other;
                }
                Self(out)
            }
        }
        impl<const W: usize> $trait<V<W>> for f64 {
            type Output = V<W>;
            #[inline(always)]
            fn $name(self, other: V<W>) -> V<W> {
                let mut out = other.0;
                for v in &mut out {
                    *v = self $op *v;
                }
                V(out)
            }
        }
    };
}
operator!(Add, add, +);
operator!(Sub, sub, -);
operator!(Mul, mul, *);
operator!(Div, div, /);

impl<const W: usize> Neg for V<W> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        let mut out = self.0;
        for v in &mut out {
            *v = -*v;
        }
        Self(out)
    }
}

/// A computation to be compiled once for each set of vector instructions.
///
/// `run` must be `#[inline(always)]`, and so must all that it calls in its loops.
pub trait Kernel {
    /// The result.
    type Output;
    /// Do the work.
    fn run(self) -> Self::Output;
}

/// Run a kernel with the widest vectors this processor has.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn avx512<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        #[target_feature(enable = "avx2")]
        fn avx2<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has just been asked for this feature.
            return unsafe { avx512(kernel) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has just been asked for this feature.
            return unsafe { avx2(kernel) };
        }
    }
    kernel.run()
}
