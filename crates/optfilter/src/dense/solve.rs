//! A = L D L' and solves with it, in blocks: the small triangles on the diagonal are inverted, and everything else is products.

use super::{Place, View, add_product};
use crate::simd;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// The most rows of a block.
const BLOCK: usize = 64;

/// The rows of every block, from the top: blocks of about the same height.
fn blocks(m: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let height = m.div_ceil(m.div_ceil(BLOCK).max(1)).next_multiple_of(8);
    (0..m.div_ceil(height.max(1))).map(move |k| k * height..m.min((k + 1) * height))
}

/// Factors the lower half of a symmetric matrix (m x m) in place: L below the diagonal, D as `pivots`, and whether all of
/// those are positive numbers. The upper half and the diagonal are left with anything.
pub(crate) fn factor(l: &mut [f64], pivots: &mut [f64]) -> bool {
    let m = pivots.len();
    let mut positive = true;
    for block in blocks(m) {
        // What the columns before do to the block is already taken off.
        positive &= simd::dispatch(
            #[inline(always)]
            || factor_block(l, pivots, &block),
        );
        let (wide, below) = (block.len(), m - block.end);
        if below == 0 || !positive {
            break;
        }
        // What is below it: L21 D1 = A21 L11^-T, and what that does to all later columns: A22 - L21 D1 L21'.
        let inverse = inverse(l, m, &block);
        let a21 = View::new(l, m).from(block.end, block.start);
        let mut scaled = vec![0.0; below * wide];
        let inverse = View::new(&inverse, wide).transposed();
        add_product(&mut Place::whole(&mut scaled, below), 1.0, a21, inverse, wide);
        for (j, scaled) in block.clone().zip(scaled.chunks_exact(below)) {
            let column = &mut l[j * m + block.end..(j + 1) * m];
            let inverse = 1.0 / pivots[j];
            column.iter_mut().zip(scaled).for_each(|(out, v)| *out = v * inverse);
        }
        let (done, later) = l.split_at_mut(block.end * m);
        let l21 = View::new(done, m).from(block.end, block.start);
        let scaled = View::new(&scaled, below).transposed();
        let rows = block.end..m;
        let mut place = Place { values: later, height: m, rows, half: Some(block.end) };
        add_product(&mut place, -1.0, l21, scaled, wide);
    }
    positive
}

/// Factors a block on the diagonal; whether its pivots are positive numbers.
#[inline(always)]
fn factor_block(l: &mut [f64], pivots: &mut [f64], block: &Range<usize>) -> bool {
    let m = pivots.len();
    let mut positive = true;
    for j in block.clone() {
        for k in block.start..j {
            let (before, column) = l.split_at_mut(j * m);
            let from = &before[k * m..(k + 1) * m];
            let factor = from[j] * pivots[k];
            for (out, v) in column[j..block.end].iter_mut().zip(&from[j..]) {
                *out -= v * factor;
            }
        }
        let column = &mut l[j * m..(j + 1) * m];
        pivots[j] = column[j];
        positive &= pivots[j] > f64::MIN_POSITIVE && pivots[j] < f64::INFINITY;
        let inverse = 1.0 / pivots[j];
        column[j + 1..block.end].iter_mut().for_each(|v| *v *= inverse);
    }
    positive
}

/// (L D L')^-1 B in place, with L as [`factor`] leaves it and D as `pivots`.
pub(crate) fn solve(l: &[f64], pivots: &[f64], b: &mut [f64]) {
    let m = pivots.len();
    let inverses: Vec<Vec<f64>> = blocks(m).map(|block| inverse(l, m, &block)).collect();
    solve_lower(l, m, &inverses, b);
    for column in b.chunks_exact_mut(m) {
        column.iter_mut().zip(pivots).for_each(|(v, d)| *v /= d);
    }
    solve_upper(l, m, &inverses, b);
}

/// L^-1 B in place, L unit lower triangular (m x m).
fn solve_lower(l: &[f64], m: usize, inverses: &[Vec<f64>], b: &mut [f64]) {
    for (block, inverse) in blocks(m).zip(inverses) {
        // The block's rows become L11^-1 B1, and L21 L11^-1 B1 goes off the rows below: one product.
        let (wide, height) = (block.len(), m - block.start);
        let mut left = vec![0.0; height * wide];
        for (left, inverse) in left.chunks_exact_mut(height).zip(inverse.chunks_exact(wide)) {
            left[..wide].copy_from_slice(inverse);
        }
        let below = View::new(l, m).from(block.end, block.start);
        let mut place = Place { values: &mut left, height, rows: wide..height, half: None };
        add_product(&mut place, -1.0, below, View::new(inverse, wide), wide);
        let taken = taken_out(b, m, &block);
        let mut place = Place { values: b, height: m, rows: block.start..m, half: None };
        add_product(&mut place, 1.0, View::new(&left, height), View::new(&taken, wide), wide);
    }
}

/// L^-T B in place, L unit lower triangular (m x m).
fn solve_upper(l: &[f64], m: usize, inverses: &[Vec<f64>], b: &mut [f64]) {
    for (block, inverse) in blocks(m).rev().zip(inverses.iter().rev()) {
        // The block's rows become L22^-T B2, and L21' L22^-T B2 goes off the rows above.
        let wide = block.len();
        let mut left = vec![0.0; wide * block.end];
        left[wide * block.start..].copy_from_slice(inverse);
        let before = View::new(l, m).from(block.start, 0);
        let above = &mut left[..wide * block.start];
        add_product(&mut Place::whole(above, wide), -1.0, View::new(inverse, wide), before, wide);
        let taken = taken_out(b, m, &block);
        let left = View::new(&left, wide).transposed();
        let mut place = Place { values: b, height: m, rows: 0..block.end, half: None };
        add_product(&mut place, 1.0, left, View::new(&taken, wide), wide);
    }
}

/// The inverse of a block on the diagonal of a unit lower triangular matrix (m x m), column by column.
fn inverse(l: &[f64], m: usize, block: &Range<usize>) -> Vec<f64> {
    let wide = block.len();
    let mut inverse = vec![0.0; wide * wide];
    simd::dispatch(
        #[inline(always)]
        || {
            for (j, column) in inverse.chunks_exact_mut(wide).enumerate() {
                column[j] = 1.0;
                for k in j..wide {
                    let v = column[k];
                    let below = &l[(block.start + k) * m + block.start + k + 1..];
                    for (out, l) in column[k + 1..].iter_mut().zip(below) {
                        *out -= l * v;
                    }
                }
            }
        },
    );
    inverse
}

/// Some rows of a matrix of height m, which are zero afterwards.
fn taken_out(b: &mut [f64], m: usize, rows: &Range<usize>) -> Vec<f64> {
    let mut taken = Vec::with_capacity(b.len() / m * rows.len());
    for column in b.chunks_exact_mut(m) {
        taken.extend_from_slice(&column[rows.clone()]);
        column[rows.clone()].fill(0.0);
    }
    taken
}
