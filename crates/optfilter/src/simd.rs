//! Vector code chosen at run time for the CPU at hand, on stable Rust.
//!
//! [`dispatch`] runs a closure inside a function compiled for the widest vector unit the CPU has. All
//! code that is inlined into the closure (kernels here are `#[inline(always)]`) is compiled for that
//! unit. No unit changes a result: Rust neither fuses nor reorders floating-point operations, so the
//! AVX-512, AVX2 and portable versions agree bit for bit.
//!
//! The crate multiversion does the same for free functions by a macro; a closure also covers generic
//! models and needs no dependency.

/// Runs `f` compiled for the widest vector unit at hand.
#[inline(always)]
pub fn dispatch<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx512cd,avx2,bmi1,bmi2")]
        fn avx512<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn avx2<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        let bmi = is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
        if bmi && is_x86_feature_detected!("avx512f") {
            let rest = is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx2");
            if rest {
                // SAFETY: every feature that `avx512` enables was detected on this CPU just above.
                return unsafe { avx512(f) };
            }
        }
        if bmi && is_x86_feature_detected!("avx2") {
            // SAFETY: every feature that `avx2` enables was detected on this CPU just above.
            return unsafe { avx2(f) };
        }
    }
    f()
}
