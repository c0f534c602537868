//! Products in blocks.

use super::tile::{self, Narrow, Rows, Tile};
use super::view::{Place, View};
use alloc::vec::Vec;
use core::cell::Cell;

/// Multiplications from which a product is large.
const LARGE: usize = 32 * 32 * 32;
/// Multiplications from which threads are woken for a product, and copies from which they are for the packing of panels.
const SHARED: usize = 128 * 128 * 64;
const SHARED_COPIES: usize = 1 << 18;
/// The inner index at a time: a panel of each factor then stays in the caches.
pub(super) const DEPTH: usize = 256;
/// Columns of the result for one task, at most, and tasks for each thread, if there are that many columns: those on the left of a symmetric
/// result take longer than those on the right.
const TASK: usize = 48;
const SHARES: usize = 4;
/// Rows that lie no further apart than so many numbers from one column to the next are read where they are: to pack them shows in products of
/// a hundred rows. (Unless the distance is a multiple of this many, at which the cache has few places.)
const NEAR: usize = 256;
const CROWDED: usize = 64;
/// Panels of rows that are gone through before the next columns.
const GROUP: usize = 8;

/// Whether a product of these sizes is made here.
#[inline]
pub(crate) fn takes(rows: usize, inner: usize, columns: usize) -> bool {
    rows.saturating_mul(inner).saturating_mul(columns) >= LARGE && tile::is_fused()
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

pub(super) fn add_by<T: Tile>(
    place: &mut Place<'_>,
    sign: f64,
    a: View<'_>,
    b: View<'_>,
    inner: usize,
) {
    let (height, half) = (place.height, place.half);
    let rows = place.rows.len();
    if rows == 0 || place.values.is_empty() {
        return;
    }
    let columns = place.values.len() / height;
    let shared = rows * inner * columns >= SHARED;
    // (To ask for threads starts them.)
    let task = match shared.then(rayon::current_num_threads) {
        Some(threads) if threads > 1 => {
            let fair = columns.div_ceil(SHARES * threads).next_multiple_of(T::COLUMNS);
            fair.clamp(2 * T::COLUMNS, TASK)
        }
        _ => TASK,
    };
    let lies_well = a.down == 1 && a.across <= NEAR && !a.across.is_multiple_of(CROWDED);
    let direct = if lies_well { rows / T::ROWS } else { 0 };
    let mut memory = ROWS.take();
    for start in (0..inner).step_by(DEPTH) {
        let depth = DEPTH.min(inner - start);
        let packed = sized(&mut memory, (rows.div_ceil(T::ROWS) - direct) * T::ROWS * depth);
        let pack = |(number, panel): (usize, &mut [f64])| {
            let top = (direct + number) * T::ROWS;
            T::pack_rows(panel, T::ROWS.min(rows - top), a.from(top, start));
        };
        each(packed, T::ROWS * depth, packed.len() >= SHARED_COPIES, pack);
        let panels = Panels { rows: a.from(0, start), direct, packed: &*packed, depth };
        let act = |(number, columns): (usize, &mut [f64])| {
            let before = number * task;
            let half = half.map(|first| first + before);
            let place = Place { values: columns, height, rows: place.rows.clone(), half };
            add_columns::<T>(place, sign, panels, b.from(start, before));
        };
        each(place.values, task * height, shared, act);
    }
    ROWS.set(memory);
}

/// Rows of a factor, a panel after the other.
#[derive(Clone, Copy)]
struct Panels<'a> {
    rows: View<'a>,
    /// So many panels are read where they are; those behind them are packed.
    direct: usize,
    packed: &'a [f64],
    depth: usize,
}

impl<'a> Panels<'a> {
    fn panel<T: Tile>(&self, number: usize) -> Rows<'a> {
        match number.checked_sub(self.direct) {
            None => Rows {
                values: self.rows.from(number * T::ROWS, 0).values,
                across: self.rows.across,
            },
            Some(number) => {
                let long = T::ROWS * self.depth;
                Rows { values: &self.packed[number * long..][..long], across: T::ROWS }
            }
        }
    }
}

thread_local! {
    /// Memory for panels of rows, and of columns: what would take as long to be had anew as a small product takes. It is taken out
    /// while it is used, so that whatever else a thread does meanwhile has its own.
    static ROWS: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
    static COLUMNS: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// So many numbers, with anything in them.
fn sized(memory: &mut Vec<f64>, count: usize) -> &mut [f64] {
    if memory.len() < count {
        memory.resize(count, 0.0);
    }
    &mut memory[..count]
}

/// Goes through parts of that length, by all threads if there is enough to do and there are several.
fn each(
    values: &mut [f64],
    part: usize,
    much: bool,
    act: impl Fn((usize, &mut [f64])) + Send + Sync,
) {
    if !much || rayon::current_num_threads() == 1 {
        values.chunks_mut(part).enumerate().for_each(act);
    } else {
        use rayon::prelude::*;
        values.par_chunks_mut(part).enumerate().for_each(act);
    }
}

/// The part of a product that lies in some columns.
fn add_columns<T: Tile>(place: Place<'_>, sign: f64, a: Panels<'_>, b: View<'_>) {
    let Place { values, height, rows: within, half } = place;
    let (columns, depth) = (values.len() / height, a.depth);
    let mut packed = COLUMNS.take();
    let panels = sized(&mut packed, columns.div_ceil(T::COLUMNS) * T::COLUMNS * depth);
    for (number, panel) in panels.chunks_exact_mut(T::COLUMNS * depth).enumerate() {
        let left = number * T::COLUMNS;
        T::pack_columns(panel, T::COLUMNS.min(columns - left), b.from(0, left));
    }
    let mut tile = [0.0; tile::MOST];
    let count = within.len().div_ceil(T::ROWS);
    for first in (0..count).step_by(GROUP) {
        for (right, b) in panels.chunks_exact(T::COLUMNS * depth).enumerate() {
            let left = right * T::COLUMNS;
            let wide = T::COLUMNS.min(columns - left);
            for number in first..count.min(first + GROUP) {
                let top = within.start + number * T::ROWS;
                let bottom = within.end.min(top + T::ROWS);
                if half.is_some_and(|column| bottom <= column + left) {
                    continue; // all of it above the diagonal
                }
                let (a, corner) = (a.panel::<T>(number), &mut values[left * height + top..]);
                if (bottom - top, wide) == (T::ROWS, T::COLUMNS) {
                    T::add(depth, a, b, sign, corner, height);
                    continue;
                }
                T::multiply(depth, bottom - top, a, b, &mut tile);
                for (j, sums) in tile.chunks_exact(T::ROWS).take(wide).enumerate() {
                    let column = &mut corner[j * height..][..bottom - top];
                    column.iter_mut().zip(sums).for_each(|(out, sum)| *out += sign * sum);
                }
            }
        }
    }
    COLUMNS.set(packed);
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
