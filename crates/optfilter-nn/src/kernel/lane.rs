//! A register's worth of numbers, so that each kernel is written once for every instruction set.
//!
//! A kernel is an [`Op`]: a function over any [`Lane`]. [`Real::dispatch`] chooses the lane by the [`Level`] and calls
//! the kernel inside a function compiled for that instruction set. The lane's operations are intrinsics, not arrays
//! left to the vectoriser: register blocks of 16 accumulators then stay in registers, where blocks of plain arrays
//! fall off a cliff (30 times slower) at sizes that depend on the compiler's mood.

use num_traits::Float;

/// The instruction set a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Level {
    /// Plain Rust, separate multiply and add; runs everywhere.
    Portable,
    /// AVX2 and FMA: 8 single-precision numbers.
    Avx2,
    /// AVX-512F: 16 single-precision numbers.
    Avx512,
}

impl Level {
    /// The best level of this machine.
    ///
    /// ```
    /// use optfilter_nn::kernel::Level;
    /// assert!(Level::detect() >= Level::Portable);
    /// ```
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
            {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// Every level this machine can run, the portable one first.
    pub fn available() -> Vec<Self> {
        [Self::Portable, Self::Avx2, Self::Avx512]
            .into_iter()
            .filter(|l| *l <= Self::detect())
            .collect()
    }
}

/// `N` numbers in a register.
///
/// # Safety
/// Every method may be called only on a machine that has the lane's instruction set; `load` and `store` touch `N`
/// elements at the pointer, which must be valid for that.
#[allow(clippy::missing_safety_doc)] // the trait's contract is the same for each method
pub unsafe trait Lane: Copy {
    /// The element type.
    type E: Real;
    /// Elements per lane.
    const N: usize;
    /// Pooling windows of 2x2 pixels whose accumulators fit in the registers together.
    const WINDOWS: usize;
    /// All elements equal to `x`.
    unsafe fn splat(x: Self::E) -> Self;
    /// Reads `N` elements.
    unsafe fn load(p: *const Self::E) -> Self;
    /// Writes `N` elements.
    unsafe fn store(self, p: *mut Self::E);
    /// `self * b + c`.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `a * b + c` of single numbers, rounded as [`Lane::mul_add`] does.
    unsafe fn one(a: Self::E, b: Self::E, c: Self::E) -> Self::E;
    /// The larger of each pair.
    unsafe fn max(self, b: Self) -> Self;
    /// `if a > b { x } else { y }`, element by element.
    unsafe fn select_gt(a: Self, b: Self, x: Self, y: Self) -> Self;
    /// `if a == b { x } else { y }`, element by element.
    unsafe fn select_eq(a: Self, b: Self, x: Self, y: Self) -> Self;
    /// Side of the squares that [`Lane::turn`] turns.
    const SIDE: usize;
    /// Writes a square as its transpose; rows begin every `m` elements, and every `stride` in the result. All of it must be valid to read and
    /// to write.
    unsafe fn turn(from: *const Self::E, m: usize, to: *mut Self::E, stride: usize);
}

/// A kernel: code over any lane.
pub trait Op<E: Real> {
    /// What the kernel returns.
    type Out;
    /// Runs the kernel. Implementations are `#[inline(always)]`, so that they are compiled for the caller's
    /// instruction set.
    ///
    /// # Safety
    /// The machine has the instruction set of `V`.
    unsafe fn run<V: Lane<E = E>>(self) -> Self::Out;
}

/// A number type the kernels work on: `f32` (every level) or `f64` (portable only; for derivative checks).
pub trait Real:
    Float + Default + Send + Sync + std::fmt::Debug + std::ops::AddAssign + std::iter::Sum + 'static
{
    /// Runs `op` at `level`, or at the best level below it that exists for this type.
    fn dispatch<O: Op<Self>>(level: Level, op: O) -> O::Out;
    /// Elements per lane at `level`: channels are padded to a multiple of it.
    fn lane(level: Level) -> usize;
    /// From a double.
    fn of(x: f64) -> Self;
    /// To a double.
    fn to_double(self) -> f64;
    /// A small whole number 0 to 3, as the place of a maximum is stored.
    fn place(self) -> usize;
}

/// Four numbers in plain Rust.
#[derive(Clone, Copy)]
struct Plain<E>([E; 4]);

// SAFETY: plain Rust, no instruction set needed; load and store touch N = 4 elements.
unsafe impl<E: Real> Lane for Plain<E> {
    type E = E;
    const N: usize = 4;
    const WINDOWS: usize = 1;
    #[inline(always)]
    unsafe fn splat(x: E) -> Self {
        Self([x; 4])
    }
    #[inline(always)]
    unsafe fn load(p: *const E) -> Self {
        // SAFETY: the caller vouches for 4 readable elements; read_unaligned asks for no alignment.
        Self(unsafe { p.cast::<[E; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut E) {
        // SAFETY: the caller vouches for 4 writable elements.
        unsafe { p.cast::<[E; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        let (a, b, c) = (self.0, b.0, c.0);
        Self([a[0] * b[0] + c[0], a[1] * b[1] + c[1], a[2] * b[2] + c[2], a[3] * b[3] + c[3]])
    }
    #[inline(always)]
    unsafe fn one(a: E, b: E, c: E) -> E {
        a * b + c
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        // SAFETY: no instruction set needed.
        unsafe { Self::select_gt(self, b, self, b) }
    }
    #[inline(always)]
    unsafe fn select_gt(a: Self, b: Self, x: Self, y: Self) -> Self {
        Self(std::array::from_fn(|i| if a.0[i] > b.0[i] { x.0[i] } else { y.0[i] }))
    }
    #[inline(always)]
    unsafe fn select_eq(a: Self, b: Self, x: Self, y: Self) -> Self {
        Self(std::array::from_fn(|i| if a.0[i] == b.0[i] { x.0[i] } else { y.0[i] }))
    }
    const SIDE: usize = 4;
    #[inline(always)]
    unsafe fn turn(from: *const E, m: usize, to: *mut E, stride: usize) {
        for row in 0..4 {
            for column in 0..4 {
                // SAFETY: the caller vouches for both squares.
                unsafe { *to.add(column * stride + row) = *from.add(row * m + column) };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lane, Op};
    use core::arch::x86_64::*;

    /// Sixteen numbers in a zmm register.
    #[derive(Clone, Copy)]
    pub struct F32x16(__m512);

    // SAFETY: each method is one AVX-512F intrinsic, allowed by the trait's contract; load and store touch 16 elements.
    unsafe impl Lane for F32x16 {
        type E = f32;
        const N: usize = 16;
        const WINDOWS: usize = 2;
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: AVX-512F by contract.
            Self(unsafe { _mm512_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: AVX-512F and 16 readable elements by contract.
            Self(unsafe { _mm512_loadu_ps(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: AVX-512F and 16 writable elements by contract.
            unsafe { _mm512_storeu_ps(p, self.0) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: AVX-512F by contract.
            Self(unsafe { _mm512_fmadd_ps(self.0, b.0, c.0) })
        }
        #[inline(always)]
        unsafe fn one(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }
        #[inline(always)]
        unsafe fn max(self, b: Self) -> Self {
            // SAFETY: AVX-512F by contract.
            Self(unsafe { _mm512_max_ps(self.0, b.0) })
        }
        #[inline(always)]
        unsafe fn select_gt(a: Self, b: Self, x: Self, y: Self) -> Self {
            // SAFETY: AVX-512F by contract.
            Self(unsafe {
                _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a.0, b.0), y.0, x.0)
            })
        }
        #[inline(always)]
        unsafe fn select_eq(a: Self, b: Self, x: Self, y: Self) -> Self {
            // SAFETY: AVX-512F by contract.
            Self(unsafe {
                _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a.0, b.0), y.0, x.0)
            })
        }
        const SIDE: usize = 8;
        #[inline(always)]
        unsafe fn turn(from: *const f32, m: usize, to: *mut f32, stride: usize) {
            // SAFETY: AVX and both squares by contract.
            unsafe { turn_8(from, m, to, stride) }
        }
    }

    /// Eight numbers in a ymm register.
    #[derive(Clone, Copy)]
    pub struct F32x8(__m256);

    // SAFETY: each method is one AVX or FMA intrinsic, allowed by the trait's contract; load and store touch 8 elements.
    unsafe impl Lane for F32x8 {
        type E = f32;
        const N: usize = 8;
        const WINDOWS: usize = 1;
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: AVX by contract.
            Self(unsafe { _mm256_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> Self {
            // SAFETY: AVX and 8 readable elements by contract.
            Self(unsafe { _mm256_loadu_ps(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut f32) {
            // SAFETY: AVX and 8 writable elements by contract.
            unsafe { _mm256_storeu_ps(p, self.0) }
        }
        #[inline(always)]
        unsafe fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: FMA by contract.
            Self(unsafe { _mm256_fmadd_ps(self.0, b.0, c.0) })
        }
        #[inline(always)]
        unsafe fn one(a: f32, b: f32, c: f32) -> f32 {
            a.mul_add(b, c)
        }
        #[inline(always)]
        unsafe fn max(self, b: Self) -> Self {
            // SAFETY: AVX by contract.
            Self(unsafe { _mm256_max_ps(self.0, b.0) })
        }
        #[inline(always)]
        unsafe fn select_gt(a: Self, b: Self, x: Self, y: Self) -> Self {
            // SAFETY: AVX by contract.
            Self(unsafe { _mm256_blendv_ps(y.0, x.0, _mm256_cmp_ps::<_CMP_GT_OQ>(a.0, b.0)) })
        }
        #[inline(always)]
        unsafe fn select_eq(a: Self, b: Self, x: Self, y: Self) -> Self {
            // SAFETY: AVX by contract.
            Self(unsafe { _mm256_blendv_ps(y.0, x.0, _mm256_cmp_ps::<_CMP_EQ_OQ>(a.0, b.0)) })
        }
        const SIDE: usize = 8;
        #[inline(always)]
        unsafe fn turn(from: *const f32, m: usize, to: *mut f32, stride: usize) {
            // SAFETY: AVX and both squares by contract.
            unsafe { turn_8(from, m, to, stride) }
        }
    }

    /// The transpose of 8 x 8 numbers: halves of rows 4 apart are loaded side by side, so that what is left happens within halves.
    ///
    /// # Safety
    /// The machine has AVX; both squares are valid.
    #[inline(always)]
    unsafe fn turn_8(from: *const f32, m: usize, to: *mut f32, stride: usize) {
        // SAFETY: AVX, and places inside the squares, by contract.
        unsafe {
            for half in 0..2 {
                let pair = |row: usize| {
                    let at = from.add(row * m + 4 * half);
                    let low = _mm256_castps128_ps256(_mm_loadu_ps(at));
                    _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(at.add(4 * m)))
                };
                let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
                let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
                let columns = [
                    _mm256_shuffle_ps::<0x44>(ab0, cd0),
                    _mm256_shuffle_ps::<0xee>(ab0, cd0),
                    _mm256_shuffle_ps::<0x44>(ab1, cd1),
                    _mm256_shuffle_ps::<0xee>(ab1, cd1),
                ];
                for (k, column) in columns.into_iter().enumerate() {
                    _mm256_storeu_ps(to.add((4 * half + k) * stride), column);
                }
            }
        }
    }

    /// # Safety
    /// The machine has AVX-512F.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn avx512<O: Op<f32>>(op: O) -> O::Out {
        // SAFETY: the instruction set is the caller's promise.
        unsafe { op.run::<F32x16>() }
    }

    /// # Safety
    /// The machine has AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn avx2<O: Op<f32>>(op: O) -> O::Out {
        // SAFETY: the instruction set is the caller's promise.
        unsafe { op.run::<F32x8>() }
    }
}

impl Real for f32 {
    #[inline]
    fn dispatch<O: Op<Self>>(level: Level, op: O) -> O::Out {
        #[cfg(target_arch = "x86_64")]
        {
            // The detection is one cached load; it keeps a hand-made `Level` from reaching instructions that are not there.
            match level.min(Level::detect()) {
                // SAFETY: detect() has seen the instruction set.
                Level::Avx512 => return unsafe { x86::avx512(op) },
                // SAFETY: likewise.
                Level::Avx2 => return unsafe { x86::avx2(op) },
                Level::Portable => {}
            }
        }
        let _ = level;
        // SAFETY: the plain lane needs no instruction set.
        unsafe { op.run::<Plain<f32>>() }
    }
    fn lane(level: Level) -> usize {
        match level.min(Level::detect()) {
            Level::Avx512 => 16,
            Level::Avx2 => 8,
            Level::Portable => 4,
        }
    }
    fn of(x: f64) -> Self {
        x as f32
    }
    fn to_double(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn place(self) -> usize {
        (self as i32 & 3) as usize
    }
}

impl Real for f64 {
    #[inline]
    fn dispatch<O: Op<Self>>(_: Level, op: O) -> O::Out {
        // SAFETY: the plain lane needs no instruction set.
        unsafe { op.run::<Plain<f64>>() }
    }
    fn lane(_: Level) -> usize {
        4
    }
    fn of(x: f64) -> Self {
        x
    }
    fn to_double(self) -> f64 {
        self
    }
    #[inline(always)]
    fn place(self) -> usize {
        (self as i32 & 3) as usize
    }
}
