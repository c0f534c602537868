//! What the error of a window's parameters is made of, and how it changes when the window grows or moves on.
//!
//! The parameters are the first state s, and under a weak constraint the increments z_1, z_2, ... behind it: e = (error of s, z_1,
//! z_2, ...), N numbers. The covariance of e is a sum of squares: of what older noises left in it, and of a derivative by each noise
//! that is still inside the window.

use crate::linalg::sandwich;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};

/// Matrices column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Errors {
    /// The covariance (N x N) of what does not come from noises inside the window.
    pub(super) rest: Vec<f64>,
    /// The derivative of e by the measurement noise of each row (N x m).
    pub(super) measured: VecDeque<Vec<f64>>,
    /// The derivative of e by the process noise on the way to each row (N x n).
    pub(super) moved: VecDeque<Vec<f64>>,
}

/// The way from a window's first row to its second.
pub(super) struct Way {
    /// F
    pub(super) f: DMatrix<f64>,
    /// Q, where the dynamics lead there.
    pub(super) q: Option<DMatrix<f64>>,
    /// R, where something was measured in the first row.
    pub(super) r: Option<DMatrix<f64>>,
    /// The factor of the second row's increment, where the constraint is weak; zero where the path cannot bend.
    pub(super) bend: Option<DMatrix<f64>>,
}

/// Columns of `rows` numbers as a matrix.
pub(super) fn matrix(rows: usize, values: &[f64]) -> DMatrix<f64> {
    DMatrix::from_column_slice(rows, values.len() / rows.max(1), values)
}

fn flat(matrix: &DMatrix<f64>) -> Vec<f64> {
    matrix.as_slice().to_vec()
}

impl Errors {
    /// Of a first state with that covariance, before any row.
    pub(super) fn of_start(cov: &[f64]) -> Self {
        Self { rest: cov.to_vec(), ..Self::default() }
    }

    /// Room for a row of `m` measurements and `n` states, and `increments` more parameters, which are zero so far.
    pub(super) fn grow(&mut self, n: usize, m: usize, increments: usize) {
        let size = self.rest.len().isqrt();
        if increments > 0 {
            let longer = |values: &[f64]| {
                let old = matrix(size, values);
                let columns = old.ncols();
                flat(&old.resize(size + increments, columns, 0.0))
            };
            let wider = matrix(size, &self.rest).resize(size + increments, size + increments, 0.0);
            self.rest = flat(&wider);
            for to in self.measured.iter_mut().chain(self.moved.iter_mut()) {
                *to = longer(to);
            }
        }
        self.measured.push_back(vec![0.0; (size + increments) * m]);
        self.moved.push_back(vec![0.0; (size + increments) * n]);
    }

    /// The window moves on by a row: e <- F e + C z - q, and what is known of the first noises goes into the rest.
    pub(super) fn shift(&mut self, way: &Way) {
        let (n, size) = (way.f.nrows(), self.rest.len().isqrt());
        let carried = |of: &DMatrix<f64>| match &way.bend {
            None => &way.f * of,
            Some(c) => {
                let first = &way.f * of.rows(0, n) + c * of.rows(n, n);
                let mut out = DMatrix::zeros(size - n, of.ncols());
                out.rows_mut(0, n).copy_from(&first);
                out.rows_mut(n, size - 2 * n).copy_from(&of.rows(2 * n, size - 2 * n));
                out
            }
        };
        let measured = self.measured.pop_front();
        self.moved.pop_front();
        let mut rest = carried(&carried(&matrix(size, &self.rest)).transpose());
        if let (Some(to), Some(r)) = (measured, &way.r) {
            rest += sandwich(&carried(&matrix(size, &to)), r);
        }
        if let (Some(to), Some(q)) = (self.moved.front(), &way.q) {
            let mut to = carried(&matrix(size, to));
            for i in 0..n {
                to[(i, i)] -= 1.0;
            }
            rest += sandwich(&to, q);
        }
        self.rest = flat(&rest);
        for to in self.measured.iter_mut().chain(self.moved.iter_mut()) {
            *to = flat(&carried(&matrix(size, to)));
        }
        // What has gone into the rest is no longer a noise of its own.
        if let Some(to) = self.moved.front_mut() {
            to.fill(0.0);
        }
    }
}
