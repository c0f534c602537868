//! Matrices that are read, and places that are written to.

use core::ops::Range;

/// A matrix of any layout: entry (i, j) at `i * down + j * across`.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(super) values: &'a [f64],
    pub(super) down: usize,
    pub(super) across: usize,
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
    pub(super) fn from(self, i: usize, j: usize) -> Self {
        Self {
            values: self.values.get(i * self.down + j * self.across..).unwrap_or_default(),
            ..self
        }
    }
}

/// Where a product is added: whole columns of a matrix stored column by column, and in them some rows.
pub(crate) struct Place<'a> {
    pub(crate) values: &'a mut [f64],
    /// Rows of the whole matrix.
    pub(crate) height: usize,
    pub(crate) rows: Range<usize>,
    /// For a symmetric result, of which the lower half is enough: the number of the first of these columns.
    pub(crate) half: Option<usize>,
}

impl<'a> Place<'a> {
    /// All of a matrix.
    pub(crate) fn whole(values: &'a mut [f64], height: usize) -> Self {
        Self { values, height, rows: 0..height, half: None }
    }
}
