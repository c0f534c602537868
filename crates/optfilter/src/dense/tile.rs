//! A tile of a product: a few rows by a few columns, whose sums stay in the registers of a vector unit.

/// Entries of the largest tile.
pub(super) const MOST: usize = 192;

/// How a vector unit multiplies panels.
pub(super) trait Tile {
    /// Rows of a tile.
    const ROWS: usize;
    /// Columns of a tile.
    const COLUMNS: usize;
    /// Writes the product of a panel of rows and one of columns, both `depth` long, column by column.
    fn multiply(depth: usize, a: &[f64], b: &[f64], out: &mut [f64; MOST]);
}

/// Whether this processor fuses multiplication and addition.
pub(super) fn is_fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// Whether its vectors hold eight numbers.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_wide() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// Vectors of two or four numbers: 8 rows, 6 columns.
pub(super) struct Narrow;

impl Tile for Narrow {
    const ROWS: usize = 8;
    const COLUMNS: usize = 6;

    fn multiply(depth: usize, a: &[f64], b: &[f64], out: &mut [f64; MOST]) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,fma")]
            fn avx2(depth: usize, a: &[f64], b: &[f64], out: &mut [f64; MOST]) {
                narrow(depth, a, b, out);
            }
            if is_fused() {
                // SAFETY: the processor has just been asked for both features.
                return unsafe { avx2(depth, a, b, out) };
            }
        }
        narrow(depth, a, b, out);
    }
}

#[inline(always)]
fn narrow(depth: usize, a: &[f64], b: &[f64], out: &mut [f64; MOST]) {
    let mut sums = [[0.0_f64; Narrow::ROWS]; Narrow::COLUMNS];
    let (a, b) = (a.as_chunks::<{ Narrow::ROWS }>().0, b.as_chunks::<{ Narrow::COLUMNS }>().0);
    for (a, b) in a.iter().zip(b).take(depth) {
        for j in 0..Narrow::COLUMNS {
            for i in 0..Narrow::ROWS {
                sums[j][i] = a[i].mul_add(b[j], sums[j][i]);
            }
        }
    }
    for (out, sums) in out.chunks_exact_mut(Narrow::ROWS).zip(&sums) {
        out.copy_from_slice(sums);
    }
}

/// Vectors of eight numbers: 24 rows, 8 columns.
#[cfg(target_arch = "x86_64")]
pub(super) struct Wide;

#[cfg(target_arch = "x86_64")]
impl Tile for Wide {
    const ROWS: usize = 24;
    const COLUMNS: usize = 8;

    fn multiply(depth: usize, a: &[f64], b: &[f64], out: &mut [f64; MOST]) {
        // SAFETY: this tile is chosen only where `is_wide` has found the feature.
        unsafe { wide(depth, a, b, out) }
    }
}

/// By name, since the compiler does not keep 192 sums in registers of its own accord.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn wide(depth: usize, a: &[f64], b: &[f64], out: &mut [f64; MOST]) {
    use core::arch::x86_64::{
        __m512d, _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_setzero_pd,
        _mm512_storeu_pd,
    };
    let mut sums = [[_mm512_setzero_pd(); 3]; Wide::COLUMNS];
    let (a, b) = (a.as_chunks::<{ Wide::ROWS }>().0, b.as_chunks::<{ Wide::COLUMNS }>().0);
    for (a, b) in a.iter().zip(b).take(depth) {
        let a: [__m512d; 3] = core::array::from_fn(|v| {
            // SAFETY: eight numbers from 8 v on, of the 24 of the array.
            unsafe { _mm512_loadu_pd(a.as_ptr().add(8 * v)) }
        });
        for j in 0..Wide::COLUMNS {
            let b = _mm512_set1_pd(b[j]);
            for v in 0..3 {
                sums[j][v] = _mm512_fmadd_pd(a[v], b, sums[j][v]);
            }
        }
    }
    for (out, sum) in out.chunks_exact_mut(8).zip(sums.iter().flatten()) {
        // SAFETY: the chunk has eight numbers.
        unsafe { _mm512_storeu_pd(out.as_mut_ptr(), *sum) };
    }
}
