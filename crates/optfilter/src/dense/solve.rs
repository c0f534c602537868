//! A = L D L' and solves with it, in blocks: small triangles by loops, the rest by products.

use super::{Place, View, add_product};
use alloc::vec::Vec;

/// Rows of a block.
const BLOCK: usize = 48;

/// Factors the lower half of a symmetric matrix (m x m) in place: L below the diagonal, D as `pivots`, and whether all of
/// those are positive numbers. The upper half and the diagonal are left with anything.
pub(crate) fn factor(l: &mut [f64], pivots: &mut [f64]) -> bool {
    let m = pivots.len();
    let mut positive = true;
    for start in (0..m).step_by(BLOCK) {
        let end = m.min(start + BLOCK);
        // The block's columns, all the way down: what the columns before them do is already taken off.
        for j in start..end {
            for k in start..j {
                let (before, column) = l.split_at_mut(j * m);
                let from = &before[k * m..(k + 1) * m];
                let factor = from[j] * pivots[k];
                for (out, v) in column[j..m].iter_mut().zip(&from[j..]) {
                    *out -= v * factor;
                }
            }
            let column = &mut l[j * m..(j + 1) * m];
            pivots[j] = column[j];
            positive &= pivots[j] > f64::MIN_POSITIVE && pivots[j] < f64::INFINITY;
            let inverse = 1.0 / pivots[j];
            column[j + 1..].iter_mut().for_each(|v| *v *= inverse);
        }
        if end == m || !positive {
            break;
        }
        // What they do to all later columns: A22 - L21 D1 L21'.
        let wide = end - start;
        let panel: Vec<f64> =
            (start..end).flat_map(|j| &l[j * m + end..(j + 1) * m]).copied().collect();
        let scaled: Vec<f64> = panel
            .chunks_exact(m - end)
            .zip(&pivots[start..end])
            .flat_map(|(c, d)| c.iter().map(move |v| v * d))
            .collect();
        let mut place = Place { values: &mut l[end * m..], height: m, first: end, half: Some(end) };
        let (panel, scaled) = (View::new(&panel, m - end), View::new(&scaled, m - end));
        add_product(&mut place, -1.0, panel, scaled.transposed(), wide);
    }
    positive
}

/// L^-1 B in place, L unit lower triangular (m x m).
pub(crate) fn solve_lower(l: &[f64], m: usize, b: &mut [f64]) {
    for start in (0..m).step_by(BLOCK) {
        let end = m.min(start + BLOCK);
        for column in b.chunks_exact_mut(m) {
            for k in start..end {
                let v = column[k];
                for (out, l) in column[k + 1..end].iter_mut().zip(&l[k * m + k + 1..]) {
                    *out -= l * v;
                }
            }
        }
        let solved = rows(b, m, start, end);
        let below = View::new(l, m).from(end, start);
        let mut place = Place { values: b, height: m, first: end, half: None };
        add_product(&mut place, -1.0, below, View::new(&solved, end - start), end - start);
    }
}

/// L^-T B in place, L unit lower triangular (m x m).
pub(crate) fn solve_upper(l: &[f64], m: usize, b: &mut [f64]) {
    for start in (0..m).step_by(BLOCK).rev() {
        let end = m.min(start + BLOCK);
        if end < m {
            // Less what the rows below, which are solved, contribute.
            let columns = b.len() / m;
            let mut sums = alloc::vec![0.0; (end - start) * columns];
            let solved = rows(b, m, end, m);
            let right = View::new(l, m).from(end, start).transposed();
            let mut place = Place { values: &mut sums, height: end - start, first: 0, half: None };
            add_product(&mut place, 1.0, right, View::new(&solved, m - end), m - end);
            for (column, sums) in b.chunks_exact_mut(m).zip(sums.chunks_exact(end - start)) {
                column[start..end].iter_mut().zip(sums).for_each(|(out, sum)| *out -= sum);
            }
        }
        // The block's triangle by rows, so that neighbours in memory go through the same operations.
        let wide = end - start;
        let triangle: Vec<f64> =
            (start..end).flat_map(|i| (start..end).map(move |j| l[i + j * m])).collect();
        for column in b.chunks_exact_mut(m) {
            let x = &mut column[start..end];
            for i in (1..wide).rev() {
                let v = x[i];
                for (out, l) in x[..i].iter_mut().zip(&triangle[i * wide..]) {
                    *out -= l * v;
                }
            }
        }
    }
}

/// A copy of some rows of a matrix of height m.
fn rows(b: &[f64], m: usize, start: usize, end: usize) -> Vec<f64> {
    b.chunks_exact(m).flat_map(|column| &column[start..end]).copied().collect()
}
