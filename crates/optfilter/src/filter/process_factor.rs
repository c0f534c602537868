//! Roots of process noise, by which the path of a window may bend.

use crate::scalar::Scalar;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector};

/// C with C C' = Q, no larger than it must be.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessFactor {
    /// Standard deviations of independent components.
    Diagonal(Vec<f64>),
    /// Any factor, n x n.
    Dense(DMatrix<f64>),
}

impl ProcessFactor {
    /// x + C z
    pub(super) fn add<S: Scalar>(&self, z: &[S], x: &mut [S]) {
        match self {
            Self::Diagonal(c) => {
                for ((x, &z), &c) in x.iter_mut().zip(z).zip(c) {
                    *x += z.scale(c);
                }
            }
            Self::Dense(c) => {
                for (i, x) in x.iter_mut().enumerate() {
                    for (j, z) in z.iter().enumerate() {
                        *x += z.scale(c[(i, j)]);
                    }
                }
            }
        }
    }

    /// As a matrix, n x n.
    pub(crate) fn matrix(&self) -> DMatrix<f64> {
        match self {
            Self::Diagonal(c) => DMatrix::from_diagonal(&DVector::from_column_slice(c)),
            Self::Dense(c) => c.clone(),
        }
    }

    /// Changes z by what moves x + C z by `by`, where C can.
    pub(super) fn bend(&self, z: &mut [f64], by: &[f64]) {
        match self {
            Self::Diagonal(c) => {
                for ((z, &by), &c) in z.iter_mut().zip(by).zip(c) {
                    *z += if c > 0.0 { by / c } else { 0.0 };
                }
            }
            Self::Dense(c) => {
                let change = c.clone().lu().solve(&DVector::from_column_slice(by));
                for (z, d) in z.iter_mut().zip(change.iter().flatten()) {
                    *z += if d.is_finite() { *d } else { 0.0 };
                }
            }
        }
    }

    /// z + C' w
    pub(super) fn pull<S: Scalar>(&self, w: &[S], z: &[S], out: &mut [S]) {
        out.copy_from_slice(z);
        match self {
            Self::Diagonal(_) => self.add(w, out),
            Self::Dense(c) => {
                for (j, out) in out.iter_mut().enumerate() {
                    for (i, w) in w.iter().enumerate() {
                        *out += w.scale(c[(i, j)]);
                    }
                }
            }
        }
    }
}
