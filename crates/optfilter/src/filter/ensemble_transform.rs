//! The analysis of an ensemble filter, in the space of its members; plain numbers, no model.
//!
//! With S the whitened spread of the predicted measurements (a row per measurement, a column per member) and
//! d the whitened innovation, both times the roots of the tapering weights:
//!
//! ```text
//! X = S'S / (N-1)            w = ((N-1) (I + X))^-1 S'd          T = (I + X)^-1/2      (symmetric)
//! mean <- mean + A w         A <- A T
//! ```
//!
//! Of the N x N matrix S'S and the p x p matrix SS' the smaller is decomposed. With an eigenvalue x and
//! r = sqrt(1 + x), T takes from a row a the part x / (r (r + 1)) along the eigenvector v; in terms of the
//! other matrix's eigenvector u, 1 / ((N-1) r (r + 1)) along S'u. No eigenvalue is divided by, so none is too
//! small.

use crate::eigen::{Eigen, add_scaled, dot};
use crate::rng::Stream;
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;

/// The whitened measurements: a row of members' deviations for each, and innovations.
pub(super) struct Whitened<'a> {
    pub(super) rows: &'a [f64],
    pub(super) innovation: &'a [f64],
    pub(super) count: usize,
    pub(super) stride: usize,
}

impl Whitened<'_> {
    #[inline(always)]
    fn row(&self, j: usize) -> &[f64] {
        &self.rows[j * self.stride..(j + 1) * self.stride]
    }
}

/// What an analysis does to the deviations of a state from its mean; memory that is used again and again.
#[derive(Default)]
pub(super) struct Transform {
    /// The measurements that count, with their weights.
    pub(super) near: Vec<(usize, f64)>,
    eigen: Eigen,
    /// Directions in the space of the members, a padded row each.
    along: Vec<f64>,
    /// What T takes along each direction.
    shrink: Vec<f64>,
    /// w.
    weights: Vec<f64>,
    /// S'd.
    pulled: Vec<f64>,
    room: Vec<f64>,
}

impl AsMut<Eigen> for Transform {
    fn as_mut(&mut self) -> &mut Eigen {
        &mut self.eigen
    }
}

impl Transform {
    /// From the measurements in `near`, with their weights; `false` if a number is not finite.
    #[inline(always)]
    pub(super) fn find(&mut self, seen: &Whitened<'_>) -> bool {
        self.prepare(seen);
        let sound = self.eigen.solve();
        self.finish(seen);
        sound
    }

    /// [`find`](Self::find) of up to eight transforms side by side.
    #[inline(always)]
    pub(super) fn find_all(all: &mut [Self], seen: &Whitened<'_>) -> bool {
        for one in all.iter_mut() {
            one.prepare(seen);
        }
        let sound = Eigen::solve_all(all);
        for one in all.iter_mut() {
            one.finish(seen);
        }
        sound
    }

    /// The matrix to be decomposed, and S'd.
    #[inline(always)]
    fn prepare(&mut self, seen: &Whitened<'_>) {
        let (count, stride, near) = (seen.count, seen.stride, &self.near);
        let free = (count - 1) as f64;
        self.pulled.clear();
        self.pulled.resize(stride, 0.0);
        for &(j, weight) in near {
            add_scaled(&mut self.pulled, weight * seen.innovation[j], seen.row(j));
        }
        if near.len() >= count {
            self.eigen.reset(count);
            for &(j, weight) in near {
                // Rows of the matrix may be shorter than rows of members, but for padding.
                let (row, share) = (&seen.row(j)[..self.eigen.stride], weight / free);
                for r in 0..count {
                    add_scaled(self.eigen.row_mut(r), row[r] * share, row);
                }
            }
        } else {
            self.eigen.reset(near.len());
            for (a, &(i, one)) in near.iter().enumerate() {
                for (b, &(j, other)) in near.iter().enumerate().take(a + 1) {
                    let product = dot(seen.row(i), seen.row(j)) / free;
                    let product = product * Scalar::sqrt(one * other);
                    self.eigen.row_mut(a)[b] = product;
                    self.eigen.row_mut(b)[a] = product;
                }
            }
        }
    }

    /// Directions, what is taken along each, and w, from the decomposition.
    #[inline(always)]
    fn finish(&mut self, seen: &Whitened<'_>) {
        let (count, stride, near) = (seen.count, seen.stride, &self.near);
        let (free, size) = ((count - 1) as f64, self.eigen.size);
        self.weights.clear();
        self.weights.resize(stride, 0.0);
        self.shrink.clear();
        self.along.clear();
        self.along.resize(size * stride, 0.0);
        for k in 0..size {
            let x = Scalar::max(self.eigen.values[k], 0.0);
            let root = Scalar::sqrt(1.0 + x);
            let along = &mut self.along[k * stride..(k + 1) * stride];
            if near.len() >= count {
                along[..self.eigen.stride].copy_from_slice(self.eigen.row(k));
                self.shrink.push(x / (root * (root + 1.0)));
                let part = dot(along, &self.pulled) / (free * (1.0 + x));
                add_scaled(&mut self.weights, part, along);
            } else {
                let mut part = 0.0;
                for (&u, &(j, weight)) in self.eigen.row(k).iter().zip(near) {
                    let share = u * Scalar::sqrt(weight);
                    add_scaled(along, share, seen.row(j));
                    part += share * seen.innovation[j];
                }
                self.shrink.push(1.0 / (free * root * (root + 1.0)));
                add_scaled(&mut self.weights, part / (free * (1.0 + x)), along);
            }
        }
    }

    /// d' (I + SS' / (N-1))^-1 d and ln det(I + SS' / (N-1)).
    pub(super) fn evidence(&self, seen: &Whitened<'_>) -> (f64, f64) {
        let square: f64 = seen.innovation.iter().map(|d| d * d).sum();
        let explained: f64 = self.pulled.iter().zip(&self.weights).map(|(g, w)| g * w).sum();
        let volume = self.eigen.values.iter().map(|x| Scalar::ln_1p(Scalar::max(*x, 0.0)));
        (square - explained, volume.sum())
    }

    /// Applies the transform to the deviations of one state; returns by how much its mean moves.
    #[inline(always)]
    pub(super) fn apply(&mut self, row: &mut [f64]) -> f64 {
        let moved = dot(row, &self.weights);
        self.room.clear();
        for (along, shrink) in self.along.chunks_exact(row.len()).zip(&self.shrink) {
            self.room.push(shrink * dot(along, row));
        }
        for (along, part) in self.along.chunks_exact(row.len()).zip(&self.room) {
            add_scaled(row, -part, along);
        }
        moved
    }
}

/// A random rotation of the members that keeps every mean: uniform among the orthogonal matrices that leave
/// (1, 1, .., 1) where it is (Sakov and Oke 2008), as a product of reflections (Stewart 1980).
pub(super) struct Rotation {
    stride: usize,
    /// v of I - v v', a padded row each; the first exchanges (1, .., 1) / sqrt(N) and the first member.
    reflections: Vec<f64>,
    /// The sign that each of the others gives to its first coordinate.
    signs: Vec<f64>,
}

impl Rotation {
    pub(super) fn draw(count: usize, stride: usize, stream: &mut Stream) -> Self {
        let mut reflections = vec![0.0; count * stride];
        let mut signs = vec![1.0; count];
        let even = 1.0 / Scalar::sqrt(count as f64);
        for (k, v) in reflections.chunks_exact_mut(stride).enumerate() {
            let target = &mut v[k..count];
            if k == 0 {
                target.fill(-even);
            } else {
                stream.fill_normal(target);
            }
            let square: f64 = target.iter().map(|v| v * v).sum();
            let norm = Scalar::sqrt(square);
            let (head, end) = (target[0], if target[0] > 0.0 { -norm } else { norm });
            // Without the sign, the image of the first coordinate would be drawn from half a sphere.
            signs[k] = if k > 0 && head > 0.0 { -1.0 } else { 1.0 };
            let scale = 1.0 / Scalar::sqrt(square + head.abs() * norm);
            target[0] -= end;
            target.iter_mut().for_each(|v| *v *= scale);
        }
        Self { stride, reflections, signs }
    }

    /// Turns the deviations of one state.
    #[inline(always)]
    pub(super) fn apply(&self, row: &mut [f64]) {
        let reflect = |row: &mut [f64], v: &[f64]| {
            let along = dot(row, v);
            add_scaled(row, -along, v);
        };
        for (k, v) in self.reflections.chunks_exact(self.stride).enumerate() {
            row[k] *= self.signs[k];
            reflect(row, v);
        }
        reflect(row, &self.reflections[..self.stride]);
    }
}
