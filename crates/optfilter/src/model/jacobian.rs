//! A Jacobian to be written by hand.

use core::ops::{Index, IndexMut};

/// A Jacobian being written: `out[(i, j)]` is the derivative of output i by input j. Starts at zero.
#[derive(Debug)]
pub struct JacobianMut<'a> {
    pub(super) column_major: &'a mut [f64],
    pub(super) rows: usize,
}

impl Index<(usize, usize)> for JacobianMut<'_> {
    type Output = f64;
    #[inline(always)]
    fn index(&self, (i, j): (usize, usize)) -> &f64 {
        &self.column_major[i + j * self.rows]
    }
}

impl IndexMut<(usize, usize)> for JacobianMut<'_> {
    #[inline(always)]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut f64 {
        &mut self.column_major[i + j * self.rows]
    }
}
