//! Vector code chosen at run time for the CPU at hand, on stable Rust.
//!
//! [`dispatch`] runs a closure, or any other [`Kernel`], inside a function compiled for the widest vector unit the CPU
//! has. All code that is inlined into it (kernels here are `#[inline(always)]`) is compiled for that
//! unit. No unit changes a result: Rust neither fuses nor reorders floating-point operations, so the
//! AVX-512, AVX2 and portable versions agree bit for bit.
//!
//! Builds for tests know two versions, the widest and the portable one: a third would take as long to compile again.
//!
//! The crate multiversion does the same for free functions by a macro; a kernel also covers generic
//! models and needs no dependency.

use crate::scratch::is_long;
use nalgebra::Dim;

/// A computation to be compiled once for each vector unit.
///
/// Closures are kernels. A large one may be compiled on its own all the same, for no particular unit; a type whose `run` is
/// `#[inline(always)]`, as all that it calls in its loops, never is.
pub trait Kernel {
    /// The result.
    type Output;
    /// Does the work.
    fn run(self) -> Self::Output;
}

impl<R, F: FnMut() -> R> Kernel for F {
    type Output = R;
    #[inline(always)]
    fn run(mut self) -> R {
        // Not as `FnOnce`: the compiler would put a function of its own around the closure, which no attribute reaches, and
        // compile both for no particular unit.
        self()
    }
}

/// Runs a kernel compiled for the widest vector unit at hand.
#[inline(always)]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_if(true, kernel)
}

/// [`dispatch`] for a kernel that goes through vectors of dimension `N` with `len` numbers: only where these are
/// [long](crate::scratch::is_long). The portable version is that for short ones, too, and a dimension that is a type gets no other.
#[inline(always)]
pub(crate) fn dispatch_long<N: Dim, K: Kernel>(len: usize, kernel: K) -> K::Output {
    // Constant, so that nothing else is compiled for a dimension that is a type, which takes no memory.
    match const { size_of::<N>() > 0 } {
        true => dispatch_if(is_long::<N>(len), kernel),
        false => kernel.run(),
    }
}

/// Runs a kernel compiled for the widest vector unit at hand, if that is worth it, else the portable version of it.
#[inline(always)]
fn dispatch_if<K: Kernel>(worth: bool, kernel: K) -> K::Output {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    {
        // Without `avx512vl`: with it the compiler takes large kernels over lanes apart into halves of vectors and keeps them in memory
        // (an implicit filter with Adam on 32 trajectories took twelve times as long).
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512cd,avx2,bmi1,bmi2")]
        fn avx512<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        #[cfg(not(debug_assertions))]
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn avx2<K: Kernel>(kernel: K) -> K::Output {
            kernel.run()
        }
        let bmi = worth && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
        if bmi && is_x86_feature_detected!("avx512f") {
            let rest = is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx2");
            if rest {
                // SAFETY: every feature that `avx512` enables was detected on this CPU just above.
                return unsafe { avx512(kernel) };
            }
        }
        #[cfg(not(debug_assertions))]
        if bmi && is_x86_feature_detected!("avx2") {
            // SAFETY: every feature that `avx2` enables was detected on this CPU just above.
            return unsafe { avx2(kernel) };
        }
    }
    let _ = worth;
    kernel.run()
}
