//! Eigenvalues and eigenvectors of a small symmetric matrix, many thousand times a second.
//!
//! A local ensemble filter needs one decomposition per state and measurement. The matrix is brought to
//! three diagonals by reflections, those to one by implicit QL steps (Bowdler, Martin, Reinsch and Wilkinson 1968).
//! Eigenvectors are kept as rows and rows are padded with zeros to whole vectors, so that every inner loop
//! runs over neighbours in memory. At 20 x 20 this takes a third of nalgebra's time.

use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;

/// Numbers that go through a loop side by side; rows are padded to multiples of it.
pub(crate) const WIDTH: usize = 8;

/// The length of a padded row of `count` numbers.
pub(crate) fn padded(count: usize) -> usize {
    count.next_multiple_of(WIDTH)
}

/// a'b of padded rows.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut s = [0.0; WIDTH];
    for (a, b) in a.chunks_exact(WIDTH).zip(b.chunks_exact(WIDTH)) {
        for k in 0..WIDTH {
            s[k] += a[k] * b[k];
        }
    }
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

/// to += k from, of padded rows.
#[inline(always)]
pub(crate) fn add_scaled(to: &mut [f64], k: f64, from: &[f64]) {
    for (to, from) in to.chunks_exact_mut(WIDTH).zip(from.chunks_exact(WIDTH)) {
        for i in 0..WIDTH {
            to[i] += k * from[i];
        }
    }
}

/// A symmetric matrix of padded rows, and room for its decomposition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Eigen {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    /// The matrix; after [`solve`](Self::solve), eigenvectors as rows.
    pub(crate) rows: Vec<f64>,
    /// The eigenvalues, in no particular order.
    pub(crate) values: Vec<f64>,
    beside: Vec<f64>,
}

impl Eigen {
    /// A matrix of zeros; what was there before gives its memory.
    pub(crate) fn reset(&mut self, size: usize) {
        (self.size, self.stride) = (size, padded(size));
        self.rows.clear();
        self.rows.resize(size * self.stride, 0.0);
        self.values.clear();
        self.values.resize(size, 0.0);
        self.beside.clear();
        self.beside.resize(size, 0.0);
    }

    /// Row `i`.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.rows[i * self.stride..(i + 1) * self.stride]
    }

    /// Row `i`.
    #[inline(always)]
    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.rows[i * self.stride..(i + 1) * self.stride]
    }

    /// Decomposes the matrix; `false` if it holds what is not a number.
    #[inline(always)]
    pub(crate) fn solve(&mut self) -> bool {
        let largest = self.rows.iter().fold(0.0f64, |a, v| Scalar::max(a, v.abs()));
        if largest < 1e-140 {
            // Nothing, to all that is computed from it; squares of such numbers would vanish.
            let size = self.size;
            self.reset(size);
            (0..size).for_each(|i| self.row_mut(i)[i] = 1.0);
            return true;
        }
        self.reflect();
        self.iterate()
    }

    /// A = W' T W with T of three diagonals: `values` and, beside it, `beside`; W as rows.
    #[inline(always)]
    fn reflect(&mut self) {
        let (size, stride) = (self.size, self.stride);
        let mut both = vec![0.0; 2 * stride];
        let (v, w) = both.split_at_mut(stride);
        for j in 0..size.saturating_sub(2) {
            // Whole vectors from the one in which column j + 1 lies; v and w are zero before that column.
            let from = (j + 1) / WIDTH * WIDTH;
            self.values[j] = self.row(j)[j];
            v.fill(0.0);
            v[j + 1..size].copy_from_slice(&self.row(j)[j + 1..size]);
            let (head, square) = (v[j + 1], dot(&v[from..], &v[from..]));
            let norm = Scalar::sqrt(square);
            // I - v v' brings the row to (.., end, 0, 0, ..).
            let end = if head > 0.0 { -norm } else { norm };
            let scale = Scalar::sqrt(square + head.abs() * norm);
            if scale > 0.0 {
                v[j + 1] -= end;
                v.iter_mut().for_each(|v| *v /= scale);
                w.fill(0.0);
                for r in j + 1..size {
                    w[r] = dot(&self.row(r)[from..], &v[from..]);
                }
                let half = 0.5 * dot(&v[from..], &w[from..]);
                add_scaled(&mut w[from..], -half, &v[from..]);
                for r in j + 1..size {
                    let (vr, wr) = (v[r], w[r]);
                    let row = &mut self.rows[r * stride + from..(r + 1) * stride];
                    add_scaled(row, -vr, &w[from..]);
                    add_scaled(row, -wr, &v[from..]);
                }
            }
            self.beside[j] = end;
            self.row_mut(j).copy_from_slice(v);
        }
        for j in size.saturating_sub(2)..size {
            self.values[j] = self.row(j)[j];
            if j + 1 < size {
                self.beside[j] = self.row(j)[j + 1];
            }
            self.row_mut(j).fill(0.0);
        }
        for j in size.saturating_sub(2)..size {
            self.row_mut(j)[j] = 1.0;
        }
        for j in (0..size.saturating_sub(2)).rev() {
            let from = (j + 1) / WIDTH * WIDTH;
            v.copy_from_slice(self.row(j));
            for r in j + 1..size {
                let row = &mut self.rows[r * stride + from..(r + 1) * stride];
                let along = dot(row, &v[from..]);
                add_scaled(row, -along, &v[from..]);
            }
            self.row_mut(j).fill(0.0);
            self.row_mut(j)[j] = 1.0;
        }
    }

    /// Implicit QL steps on the three diagonals; every rotation also turns two rows.
    #[inline(always)]
    fn iterate(&mut self) -> bool {
        let (size, stride) = (self.size, self.stride);
        let (d, e) = (&mut self.values, &mut self.beside);
        let (mut shift, mut scale) = (0.0, 0.0);
        for l in 0..size {
            scale = Scalar::max(scale, d[l].abs() + e[l].abs());
            let small = f64::EPSILON * scale;
            let Some(end) = (l..size).find(|&i| e[i].abs() <= small) else { return false };
            let mut left = 60;
            while end > l && e[l].abs() > small {
                left -= 1;
                if left == 0 {
                    return false;
                }
                let first = d[l];
                let p = (d[l + 1] - first) / (2.0 * e[l]);
                let root = Scalar::sqrt(p * p + 1.0);
                let both = p + if p < 0.0 { -root } else { root };
                d[l] = e[l] / both;
                d[l + 1] = e[l] * both;
                let (next, moved) = (d[l + 1], first - d[l]);
                d[l + 2..].iter_mut().for_each(|d| *d -= moved);
                shift += moved;
                let mut p = d[end];
                let (mut c, mut c2, mut c3) = (1.0, 1.0, 1.0);
                let (mut s, mut s2) = (0.0, 0.0);
                let beside_next = e[l + 1];
                for i in (l..end).rev() {
                    (c3, c2, s2) = (c2, c, s);
                    let (g, h) = (c * e[i], c * p);
                    let r = Scalar::sqrt(p * p + e[i] * e[i]);
                    e[i + 1] = s * r;
                    let inverse = 1.0 / r;
                    (s, c) = (e[i] * inverse, p * inverse);
                    p = c * d[i] - s * g;
                    d[i + 1] = h + s * (c * g + s * d[i]);
                    let (low, high) = self.rows[i * stride..].split_at_mut(stride);
                    let pairs = low.chunks_exact_mut(WIDTH).zip(high.chunks_exact_mut(WIDTH));
                    for (low, high) in pairs {
                        for k in 0..WIDTH {
                            let (a, b) = (low[k], high[k]);
                            high[k] = s * a + c * b;
                            low[k] = c * a - s * b;
                        }
                    }
                }
                p = -s * s2 * c3 * beside_next * e[l] / next;
                (e[l], d[l]) = (s * p, c * p);
            }
            d[l] += shift;
            e[l] = 0.0;
        }
        self.values.iter().all(|v| v.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use nalgebra::DMatrix;

    #[test]
    fn equals_nalgebra_of_every_size_and_rank() {
        let mut stream = Stream::new(1, 0, "eigen");
        for size in (1..12).chain([16, 20, 33]) {
            for rank in [0, 1, size / 2, size] {
                let b = DMatrix::from_fn(size, rank, |_, _| stream.normal());
                let a = &b * b.transpose();
                let mut eigen = Eigen::default();
                eigen.reset(size);
                for i in 0..size {
                    (0..size).for_each(|j| eigen.row_mut(i)[j] = a[(i, j)]);
                }
                assert!(eigen.solve());
                let mut values = eigen.values.clone();
                values.sort_by(f64::total_cmp);
                let mut theirs: Vec<f64> = a.symmetric_eigenvalues().iter().copied().collect();
                theirs.sort_by(f64::total_cmp);
                // Both to a few roundings of the largest eigenvalue.
                let unit = 1e-13 * theirs.iter().fold(1.0f64, |a, v| a.max(v.abs()));
                for (ours, theirs) in values.iter().zip(&theirs) {
                    assert!((ours - theirs).abs() < unit, "{size} {rank}: {ours} {theirs}");
                }
                for i in 0..size {
                    for j in 0..size {
                        let one = if i == j { 1.0 } else { 0.0 };
                        assert!((dot(eigen.row(i), eigen.row(j)) - one).abs() < 1e-13);
                        let again: f64 = (0..size)
                            .map(|k| eigen.values[k] * eigen.row(k)[i] * eigen.row(k)[j])
                            .sum();
                        assert!((again - a[(i, j)]).abs() < unit, "{size} {rank} {i} {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_ends() {
        for bad in [f64::NAN, f64::INFINITY] {
            let mut eigen = Eigen::default();
            eigen.reset(3);
            eigen.rows.fill(1.0);
            eigen.row_mut(1)[2] = bad;
            eigen.row_mut(2)[1] = bad;
            assert!(!eigen.solve());
        }
    }
}
