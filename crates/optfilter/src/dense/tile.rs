//! A tile of a product: a few rows by a few columns, whose sums stay in the registers of a vector unit.

use super::View;

/// Entries of the largest tile.
pub(super) const MOST: usize = 192;

/// A panel of rows: entry (i, k) at `i + k * across`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f64],
    pub(super) across: usize,
}

/// How a vector unit multiplies panels.
pub(super) trait Tile {
    /// Rows of a tile.
    const ROWS: usize;
    /// Columns of a tile.
    const COLUMNS: usize;
    /// Writes the product of a panel of rows and one of columns, both `depth` long, column by column; of the rows, so many are needed.
    fn multiply(depth: usize, rows: usize, a: Rows<'_>, b: &[f64], out: &mut [f64; MOST]);
    /// Adds `sign` times the whole product to a whole tile of a matrix stored column by column, which begins at its first entry.
    fn add(depth: usize, a: Rows<'_>, b: &[f64], sign: f64, corner: &mut [f64], height: usize);
    /// Writes a panel: `used` rows of a matrix beside one another, for each of its columns. Further rows are left with anything.
    fn pack_rows(panel: &mut [f64], used: usize, a: View<'_>);
    /// The same of columns, for each of the matrix' rows.
    fn pack_columns(panel: &mut [f64], used: usize, b: View<'_>);
}

/// Writes `used` rows of a matrix beside one another: `WIDTH` numbers for each of its columns.
#[inline(always)]
fn interleave<const WIDTH: usize>(panel: &mut [f64], used: usize, a: View<'_>) {
    const LONG: usize = 8;
    let panel = panel.as_chunks_mut::<WIDTH>().0;
    if used < WIDTH {
        for (k, out) in panel.iter_mut().enumerate() {
            let from = a.values[k * a.across..].iter().step_by(a.down);
            out.iter_mut().zip(from).take(used).for_each(|(out, v)| *out = *v);
        }
    } else if a.down == 1 {
        for (k, out) in panel.iter_mut().enumerate() {
            out.copy_from_slice(&a.values[k * a.across..][..WIDTH]);
        }
    } else if a.across == 1 {
        // Stretches of each row are read as they lie, and turned.
        let rows: [&[f64]; WIDTH] =
            core::array::from_fn(|i| &a.values[i * a.down..][..panel.len()]);
        let stretches: [&[[f64; LONG]]; WIDTH] = rows.map(|row| row.as_chunks().0);
        let (whole, rest) = panel.as_chunks_mut::<LONG>();
        for (number, out) in whole.iter_mut().enumerate() {
            let stretch: [[f64; LONG]; WIDTH] = stretches.map(|stretches| stretches[number]);
            for k in 0..LONG {
                for i in 0..WIDTH {
                    out[k][i] = stretch[i][k];
                }
            }
        }
        let done = whole.len() * LONG;
        for (k, out) in rest.iter_mut().enumerate() {
            *out = rows.map(|row| row[done + k]);
        }
    } else {
        for (k, out) in panel.iter_mut().enumerate() {
            *out = core::array::from_fn(|i| a.values[i * a.down + k * a.across]);
        }
    }
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

    fn multiply(depth: usize, _: usize, a: Rows<'_>, b: &[f64], out: &mut [f64; MOST]) {
        let sums = narrow(depth, a, b);
        out.as_chunks_mut().0.iter_mut().zip(&sums).for_each(|(out, sums)| *out = *sums);
    }

    fn add(depth: usize, a: Rows<'_>, b: &[f64], sign: f64, corner: &mut [f64], height: usize) {
        for (j, sums) in narrow(depth, a, b).iter().enumerate() {
            let column = corner[j * height..].iter_mut();
            column.zip(sums).for_each(|(out, sum)| *out += sign * sum);
        }
    }

    fn pack_rows(panel: &mut [f64], used: usize, a: View<'_>) {
        interleave::<{ Self::ROWS }>(panel, used, a);
    }

    fn pack_columns(panel: &mut [f64], used: usize, b: View<'_>) {
        interleave::<{ Self::COLUMNS }>(panel, used, b.transposed());
    }
}

/// The sums of a narrow tile, column by column.
type NarrowSums = [[f64; Narrow::ROWS]; Narrow::COLUMNS];

#[inline(always)]
fn narrow(depth: usize, a: Rows<'_>, b: &[f64]) -> NarrowSums {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn avx2(depth: usize, a: Rows<'_>, b: &[f64]) -> NarrowSums {
            narrow_sums(depth, a, b)
        }
        if is_fused() {
            // SAFETY: the processor has just been asked for both features.
            return unsafe { avx2(depth, a, b) };
        }
    }
    narrow_sums(depth, a, b)
}

#[inline(always)]
fn narrow_sums(depth: usize, a: Rows<'_>, b: &[f64]) -> NarrowSums {
    let mut sums = [[0.0_f64; Narrow::ROWS]; Narrow::COLUMNS];
    let b = b.as_chunks::<{ Narrow::COLUMNS }>().0;
    for (k, b) in b.iter().take(depth).enumerate() {
        let a = &a.values[k * a.across..][..Narrow::ROWS];
        for j in 0..Narrow::COLUMNS {
            for i in 0..Narrow::ROWS {
                sums[j][i] = a[i].mul_add(b[j], sums[j][i]);
            }
        }
    }
    sums
}

/// Vectors of eight numbers: 24 rows, 8 columns.
#[cfg(target_arch = "x86_64")]
pub(super) struct Wide;

#[cfg(target_arch = "x86_64")]
impl Tile for Wide {
    const ROWS: usize = 24;
    const COLUMNS: usize = 8;

    fn multiply(depth: usize, rows: usize, a: Rows<'_>, b: &[f64], out: &mut [f64; MOST]) {
        // SAFETY: this tile is chosen only where `is_wide` has found the feature.
        unsafe {
            match rows {
                ..=8 => wide::<1>(depth, a, b, out),
                9..=16 => wide::<2>(depth, a, b, out),
                _ => wide::<3>(depth, a, b, out),
            }
        }
    }

    fn add(depth: usize, a: Rows<'_>, b: &[f64], sign: f64, corner: &mut [f64], height: usize) {
        // SAFETY: this tile is chosen only where `is_wide` has found the feature.
        unsafe { add_wide(depth, a, b, sign, corner, height) }
    }

    fn pack_rows(panel: &mut [f64], used: usize, a: View<'_>) {
        #[target_feature(enable = "avx512f")]
        fn pack(panel: &mut [f64], used: usize, a: View<'_>) {
            interleave::<{ Wide::ROWS }>(panel, used, a);
        }
        // SAFETY: this tile is chosen only where `is_wide` has found the feature.
        unsafe { pack(panel, used, a) }
    }

    fn pack_columns(panel: &mut [f64], used: usize, b: View<'_>) {
        #[target_feature(enable = "avx512f")]
        fn pack(panel: &mut [f64], used: usize, b: View<'_>) {
            interleave::<{ Wide::COLUMNS }>(panel, used, b.transposed());
        }
        // SAFETY: this tile is chosen only where `is_wide` has found the feature.
        unsafe { pack(panel, used, b) }
    }
}

/// One to three vectors for each column.
#[cfg(target_arch = "x86_64")]
type WideSums<const VECTORS: usize> = [[core::arch::x86_64::__m512d; VECTORS]; Wide::COLUMNS];

/// By name, since the compiler does not keep 192 sums in registers of its own accord.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
fn wide_sums<const VECTORS: usize>(depth: usize, a: Rows<'_>, b: &[f64]) -> WideSums<VECTORS> {
    use core::arch::x86_64::{
        __m512d, _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_setzero_pd,
    };
    let mut sums = [[_mm512_setzero_pd(); VECTORS]; Wide::COLUMNS];
    let b = &b.as_chunks::<{ Wide::COLUMNS }>().0[..depth];
    assert!(depth == 0 || (depth - 1) * a.across + Wide::ROWS <= a.values.len());
    for (k, b) in b.iter().enumerate() {
        let a: [__m512d; VECTORS] = core::array::from_fn(|v| {
            // SAFETY: eight numbers from 8 v on, of the 24 from `k * across` on, which were looked at above; there are at most three vectors.
            unsafe { _mm512_loadu_pd(a.values.as_ptr().add(k * a.across + 8 * v)) }
        });
        for j in 0..Wide::COLUMNS {
            let b = _mm512_set1_pd(b[j]);
            for v in 0..VECTORS {
                sums[j][v] = _mm512_fmadd_pd(a[v], b, sums[j][v]);
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn wide<const VECTORS: usize>(depth: usize, a: Rows<'_>, b: &[f64], out: &mut [f64; MOST]) {
    let sums = wide_sums::<VECTORS>(depth, a, b);
    for (column, sums) in out.chunks_exact_mut(Wide::ROWS).zip(&sums) {
        for (out, sum) in column.chunks_exact_mut(8).zip(sums) {
            // SAFETY: the chunk has eight numbers.
            unsafe { core::arch::x86_64::_mm512_storeu_pd(out.as_mut_ptr(), *sum) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn add_wide(depth: usize, a: Rows<'_>, b: &[f64], sign: f64, corner: &mut [f64], height: usize) {
    use core::arch::x86_64::{_mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_storeu_pd};
    let sums = wide_sums::<3>(depth, a, b);
    let sign = _mm512_set1_pd(sign);
    for (j, sums) in sums.iter().enumerate() {
        let column = corner[j * height..][..Wide::ROWS].chunks_exact_mut(8);
        for (out, sum) in column.zip(sums) {
            // SAFETY: the chunk has eight numbers.
            unsafe {
                let before = _mm512_loadu_pd(out.as_ptr());
                _mm512_storeu_pd(out.as_mut_ptr(), _mm512_fmadd_pd(sign, *sum, before));
            }
        }
    }
}
