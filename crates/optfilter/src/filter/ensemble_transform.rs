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

use crate::eigen::{Eigen, WIDTH, add_scaled, dot, iterate};
use crate::rng::Stream;
use crate::scalar::{Lanes, Scalar};
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

    /// Of S'S and SS' the smaller, over N - 1.
    #[inline(always)]
    fn matrix(&self, near: &[(usize, f64)], out: &mut Eigen) {
        let free = (self.count - 1) as f64;
        if near.len() >= self.count {
            out.reset(self.count);
            for &(j, weight) in near {
                // Rows of the matrix may be shorter than rows of members, but for padding.
                let (row, share) = (&self.row(j)[..out.stride], weight / free);
                for r in 0..self.count {
                    add_scaled(out.row_mut(r), row[r] * share, row);
                }
            }
            return;
        }
        out.reset(near.len());
        for (a, &(i, one)) in near.iter().enumerate() {
            for (b, &(j, other)) in near.iter().enumerate().take(a + 1) {
                let product = dot(self.row(i), self.row(j)) / free;
                let product = product * Scalar::sqrt(one * other);
                out.row_mut(a)[b] = product;
                out.row_mut(b)[a] = product;
            }
        }
    }

    /// S'd.
    #[inline(always)]
    fn pulled(&self, near: &[(usize, f64)]) -> Vec<f64> {
        let mut out = vec![0.0; self.stride];
        for &(j, weight) in near {
            add_scaled(&mut out, weight * self.innovation[j], self.row(j));
        }
        out
    }
}

/// What an analysis does to the deviations of every state from its mean.
#[derive(Default)]
pub(super) struct Transform {
    /// Every measurement, with weight one.
    near: Vec<(usize, f64)>,
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

impl Transform {
    /// From all measurements; `false` if a number is not finite.
    #[inline(always)]
    pub(super) fn find(&mut self, seen: &Whitened<'_>) -> bool {
        self.near.extend((0..seen.innovation.len()).map(|j| (j, 1.0)));
        seen.matrix(&self.near, &mut self.eigen);
        self.pulled = seen.pulled(&self.near);
        let sound = self.eigen.solve();
        self.finish(seen);
        sound
    }

    /// Directions, what is taken along each, and w, from the decomposition.
    #[inline(always)]
    fn finish(&mut self, seen: &Whitened<'_>) {
        let (count, stride, near) = (seen.count, seen.stride, &self.near);
        let (free, size) = ((count - 1) as f64, self.eigen.size);
        self.weights = vec![0.0; stride];
        self.along = vec![0.0; size * stride];
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

/// The analysis of one state by the measurements near it. Of T only its effect on that state's deviations is asked
/// for, so eigenvectors are never formed: two vectors go through the reflections and rotations, one comes back.
#[derive(Default)]
pub(super) struct Local {
    /// The measurements that count, with their weights.
    pub(super) near: Vec<(usize, f64)>,
    eigen: Eigen,
    /// The deviations, and what they are told: as members have them (S'S) or as measurements do (SS').
    own: Vec<f64>,
    told: Vec<f64>,
}

impl Local {
    /// Applies up to eight analyses, each to the deviations of its own state; by how much the means move, or `None` if a
    /// number is not finite.
    #[inline(always)]
    pub(super) fn apply_all(
        all: &mut [Self],
        seen: &Whitened<'_>,
        rows: &mut [f64],
    ) -> Option<Lanes<WIDTH>> {
        let (zeros, free) = (Lanes([0.0; WIDTH]), (seen.count - 1) as f64);
        let mut size = 0;
        for (one, row) in all.iter_mut().zip(rows.chunks_exact(seen.stride)) {
            one.prepare(seen, row);
            size = size.max(one.eigen.size);
        }
        // Smaller matrices end in zeros, which nothing couples to them.
        let (mut d, mut e) = (vec![zeros; size], vec![zeros; size]);
        let (mut own, mut told) = (d.clone(), d.clone());
        let (mut direct, mut turns) = (zeros, Vec::with_capacity(2 * size * size));
        for (lane, one) in all.iter().enumerate() {
            direct.0[lane] = if one.near.len() >= seen.count { 1.0 } else { 0.0 };
            for i in 0..one.eigen.size {
                d[i].0[lane] = one.eigen.values[i];
                e[i].0[lane] = one.eigen.beside[i];
                own[i].0[lane] = one.own[i];
                told[i].0[lane] = one.told[i];
            }
        }
        let sound = iterate(
            &mut d,
            &mut e,
            #[inline(always)]
            |i, c, s| {
                for z in [&mut own, &mut told] {
                    (z[i], z[i + 1]) = (c * z[i] - s * z[i + 1], s * z[i] + c * z[i + 1]);
                }
                turns.push((i, c, s));
            },
        );
        if !sound {
            return None;
        }
        let (mut moved, one) = (zeros, Lanes([1.0; WIDTH]));
        let rest = (one - direct).scale(1.0 / free);
        for k in 0..size {
            let x = d[k].max(zeros);
            let root = (one + x).sqrt();
            moved += own[k] * told[k] / (one + x);
            own[k] = own[k] * (direct * x + rest) / (root * (root + one));
        }
        for &(i, c, s) in turns.iter().rev() {
            (own[i], own[i + 1]) = (c * own[i] + s * own[i + 1], c * own[i + 1] - s * own[i]);
        }
        for (lane, (one, row)) in all.iter_mut().zip(rows.chunks_exact_mut(seen.stride)).enumerate()
        {
            for i in 0..one.eigen.size {
                one.own[i] = own[i].0[lane];
            }
            one.eigen.backward(&mut one.own);
            if one.near.len() >= seen.count {
                add_scaled(&mut row[..one.eigen.stride], -1.0, &one.own);
            } else {
                for (&part, &(j, weight)) in one.own.iter().zip(&one.near) {
                    add_scaled(row, -part * Scalar::sqrt(weight), seen.row(j));
                }
            }
        }
        Some(moved.scale(1.0 / free))
    }

    #[inline(always)]
    fn prepare(&mut self, seen: &Whitened<'_>, row: &[f64]) {
        seen.matrix(&self.near, &mut self.eigen);
        if self.near.len() >= seen.count {
            self.told = seen.pulled(&self.near);
            self.told.truncate(self.eigen.stride);
            self.own.clear();
            self.own.extend_from_slice(&row[..self.eigen.stride]);
        } else {
            for buffer in [&mut self.own, &mut self.told] {
                buffer.clear();
                buffer.resize(self.eigen.stride, 0.0);
            }
            for (k, &(j, weight)) in self.near.iter().enumerate() {
                let root = Scalar::sqrt(weight);
                self.own[k] = root * dot(seen.row(j), row);
                self.told[k] = root * seen.innovation[j];
            }
        }
        self.eigen.reduce();
        self.eigen.forward(&mut self.own);
        self.eigen.forward(&mut self.told);
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
