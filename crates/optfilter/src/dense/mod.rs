//! Large matrices of plain numbers: products, factors and solves in blocks that stay in the caches, on all threads.
//!
//! What a Kalman filter of a hundred states takes is products of matrices. Each entry of a product is summed along the inner index in
//! blocks of [`DEPTH`], by fused multiplications, whatever the vector unit and the number of threads: they change no bit. Of
//! products that are known to be symmetric one half is computed. Factors and solves are small blocks by loops, and products.
//!
//! A processor without fused multiplication (x86 before 2013) has no use for it and stays with the loops of
//! [`linalg`](crate::linalg), as do small matrices and other scalars. `docs/decisions/0016-dense-products.md` says why this is ours.
//!
//! Reference: Goto and van de Geijn 2008.

mod solve;
mod tile;

pub(crate) use solve::{factor, solve_lower, solve_upper};

use alloc::vec;
use alloc::vec::Vec;
use tile::{Narrow, Tile};

/// Multiplications from which a product is large.
const LARGE: usize = 32 * 32 * 32;
/// Multiplications from which threads are woken for a product.
const SHARED: usize = 128 * 128 * 64;
/// The inner index at a time: a panel of each factor then stays in the caches.
const DEPTH: usize = 256;
/// Columns of the result for one task.
const TASK: usize = 48;
/// Panels of rows that are gone through before the next columns.
const GROUP: usize = 8;

/// Whether a product of these sizes is made here.
pub(crate) fn takes(rows: usize, inner: usize, columns: usize) -> bool {
    rows.saturating_mul(inner).saturating_mul(columns) >= LARGE && tile::is_fused()
}

/// A matrix of any layout: entry (i, j) at `i * down + j * across`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    values: &'a [f64],
    down: usize,
    across: usize,
}

impl<'a> View<'a> {
    /// A matrix stored column by column.
    pub(crate) fn new(values: &'a [f64], rows: usize) -> Self {
        Self { values, down: 1, across: rows }
    }

    /// Its transpose.
    pub(crate) fn transposed(self) -> Self {
        Self { values: self.values, down: self.across, across: self.down }
    }

    /// What begins at row `i` and column `j`.
    fn from(self, i: usize, j: usize) -> Self {
        Self {
            values: self.values.get(i * self.down + j * self.across..).unwrap_or_default(),
            ..self
        }
    }
}

/// Where a product is added: whole columns of a matrix stored column by column, and in them the rows from `first` on.
pub(crate) struct Place<'a> {
    pub(crate) values: &'a mut [f64],
    /// Rows of the whole matrix.
    pub(crate) height: usize,
    pub(crate) first: usize,
    /// For a symmetric result, of which the lower half is enough: the number of the first of these columns.
    pub(crate) half: Option<usize>,
}

/// Adds `sign` A B to its place, with `inner` the columns of A.
pub(crate) fn add_product(
    place: &mut Place<'_>,
    sign: f64,
    a: View<'_>,
    b: View<'_>,
    inner: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if tile::is_wide() {
        return add_by::<tile::Wide>(place, sign, a, b, inner);
    }
    add_by::<Narrow>(place, sign, a, b, inner);
}

fn add_by<T: Tile>(place: &mut Place<'_>, sign: f64, a: View<'_>, b: View<'_>, inner: usize) {
    let (height, first, half) = (place.height, place.first, place.half);
    let rows = height - first;
    if rows == 0 || place.values.is_empty() {
        return;
    }
    let work = rows * inner * (place.values.len() / height);
    for start in (0..inner).step_by(DEPTH) {
        let depth = DEPTH.min(inner - start);
        let packed = pack::<T>(a.from(0, start), rows, depth);
        let task = |(number, columns): (usize, &mut [f64])| {
            let before = number * TASK;
            let half = half.map(|first| first + before);
            let place = Place { values: columns, height, first, half };
            add_columns::<T>(place, sign, &packed, b.from(start, before), depth);
        };
        if work < SHARED {
            place.values.chunks_mut(TASK * height).enumerate().for_each(task);
        } else {
            use rayon::prelude::*;
            place.values.par_chunks_mut(TASK * height).enumerate().for_each(task);
        }
    }
}

/// The rows of A in panels as high as a tile, each stored along the inner index; zeros beyond the last row.
fn pack<T: Tile>(a: View<'_>, rows: usize, depth: usize) -> Vec<f64> {
    let mut packed = vec![0.0; rows.div_ceil(T::ROWS) * T::ROWS * depth];
    for (number, panel) in packed.chunks_exact_mut(T::ROWS * depth).enumerate() {
        let top = number * T::ROWS;
        let used = T::ROWS.min(rows - top);
        interleave(panel, T::ROWS, used, a.from(top, 0), depth);
    }
    packed
}

/// Writes `used` rows of a matrix beside one another: `width` numbers for each of its columns, of which there are `depth`.
fn interleave(panel: &mut [f64], width: usize, used: usize, a: View<'_>, depth: usize) {
    if a.down == 1 {
        for (k, out) in panel.chunks_exact_mut(width).enumerate() {
            out[..used].copy_from_slice(&a.values[k * a.across..][..used]);
        }
        return;
    }
    for i in 0..used {
        let row = a.values[i * a.down..].iter().step_by(a.across).take(depth);
        for (out, v) in panel[i..].iter_mut().step_by(width).zip(row) {
            *out = *v;
        }
    }
}

/// The part of a product that lies in some columns.
fn add_columns<T: Tile>(place: Place<'_>, sign: f64, a: &[f64], b: View<'_>, depth: usize) {
    let Place { values, height, first, half } = place;
    let columns = values.len() / height;
    let b = pack_columns::<T>(b, columns, depth);
    let mut tile = [0.0; tile::MOST];
    for (group, panels) in a.chunks(GROUP * T::ROWS * depth).enumerate() {
        for (right, b) in b.chunks_exact(T::COLUMNS * depth).enumerate() {
            let left = right * T::COLUMNS;
            for (number, a) in panels.chunks_exact(T::ROWS * depth).enumerate() {
                let top = first + (group * GROUP + number) * T::ROWS;
                let bottom = height.min(top + T::ROWS);
                if half.is_some_and(|column| bottom <= column + left) {
                    continue; // all of it above the diagonal
                }
                T::multiply(depth, a, b, &mut tile);
                let wide = T::COLUMNS.min(columns - left);
                for (j, sums) in tile.chunks_exact(T::ROWS).take(wide).enumerate() {
                    let column = &mut values[(left + j) * height..][..height];
                    for (out, sum) in column[top..bottom].iter_mut().zip(sums) {
                        *out += sign * sum;
                    }
                }
            }
        }
    }
}

/// The columns of B in panels as wide as a tile, each stored along the inner index.
fn pack_columns<T: Tile>(b: View<'_>, columns: usize, depth: usize) -> Vec<f64> {
    let mut packed = vec![0.0; columns.div_ceil(T::COLUMNS) * T::COLUMNS * depth];
    for (number, panel) in packed.chunks_exact_mut(T::COLUMNS * depth).enumerate() {
        let left = number * T::COLUMNS;
        let used = T::COLUMNS.min(columns - left);
        interleave(panel, T::COLUMNS, used, b.from(0, left).transposed(), depth);
    }
    packed
}

/// Writes the lower half of a square matrix over its upper half, block by block, since one of the two is read or written
/// across columns.
pub(crate) fn mirror(values: &mut [f64], n: usize) {
    const BLOCK: usize = 16;
    for left in (0..n).step_by(BLOCK) {
        for top in (left..n).step_by(BLOCK) {
            for j in left..(left + BLOCK).min(n) {
                for i in top.max(j + 1)..(top + BLOCK).min(n) {
                    values[j + i * n] = values[i + j * n];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
