//! Eigenvalues and eigenvectors of a small symmetric matrix, many thousand times a second.
//!
//! A local ensemble filter needs one decomposition per state and measurement. The matrix is brought to
//! three diagonals by reflections, those to one by implicit QL steps (Bowdler, Martin, Reinsch and Wilkinson 1968).
//! Eigenvectors are kept as rows and rows are padded with zeros to whole vectors, so that every inner loop
//! runs over neighbours in memory; and many matrices can be iterated side by side, as lanes: each step of an iteration waits
//! for the one before, so that eight take little longer than one.

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
    for (a, b) in a.as_chunks::<WIDTH>().0.iter().zip(b.as_chunks::<WIDTH>().0) {
        for k in 0..WIDTH {
            s[k] += a[k] * b[k];
        }
    }
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

/// to += k from, of padded rows. Loaded before anything is stored: the compiler does not know the rows apart.
#[inline(always)]
pub(crate) fn add_scaled(to: &mut [f64], k: f64, from: &[f64]) {
    for (to, from) in to.as_chunks_mut::<WIDTH>().0.iter_mut().zip(from.as_chunks::<WIDTH>().0) {
        let (mut sum, from) = (*to, *from);
        for i in 0..WIDTH {
            sum[i] += k * from[i];
        }
        *to = sum;
    }
}

/// A symmetric positive semi-definite matrix of padded rows, and room for its decomposition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Eigen {
    pub(crate) size: usize,
    pub(crate) stride: usize,
    /// The matrix; after [`solve`](Self::solve), eigenvectors as rows.
    pub(crate) rows: Vec<f64>,
    /// The eigenvalues, in no particular order.
    pub(crate) values: Vec<f64>,
    pub(crate) beside: Vec<f64>,
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
        self.reduce();
        self.accumulate();
        let (mut d, mut e) = (core::mem::take(&mut self.values), core::mem::take(&mut self.beside));
        let sound = iterate(
            &mut d,
            &mut e,
            #[inline(always)]
            |i, c, s| self.turn(i, c, s),
        );
        (self.values, self.beside) = (d, e);
        sound
    }

    /// Turns rows i and i + 1.
    #[inline(always)]
    fn turn(&mut self, i: usize, c: f64, s: f64) {
        let (low, high) = self.rows[i * self.stride..].split_at_mut(self.stride);
        let high = high.as_chunks_mut::<WIDTH>().0.iter_mut();
        for (low, high) in low.as_chunks_mut::<WIDTH>().0.iter_mut().zip(high) {
            let (mut a, mut b) = (*low, *high);
            for k in 0..WIDTH {
                (a[k], b[k]) = (c * a[k] - s * b[k], s * a[k] + c * b[k]);
            }
            (*low, *high) = (a, b);
        }
    }

    /// A = Q T Q' with T of three diagonals: `values` and, beside it, `beside`. Q is the product of the
    /// reflections I - v v', whose v are the rows.
    #[inline(always)]
    pub(crate) fn reduce(&mut self) {
        let (size, stride) = (self.size, self.stride);
        // No entry of a covariance is larger than its largest variance.
        let mut trace = 0.0;
        for i in 0..size {
            trace += self.row(i)[i].abs();
        }
        if trace < 1e-140 {
            // Nothing, to all that is computed from it; squares of such numbers would vanish.
            self.reset(size);
            return;
        }
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
                for v in &mut v[from..] {
                    *v /= scale;
                }
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
    }

    /// Q' x in place.
    #[inline(always)]
    pub(crate) fn forward(&self, x: &mut [f64]) {
        for j in 0..self.size.saturating_sub(2) {
            let along = dot(x, self.row(j));
            add_scaled(x, -along, self.row(j));
        }
    }

    /// Q x in place.
    #[inline(always)]
    pub(crate) fn backward(&self, x: &mut [f64]) {
        for j in (0..self.size.saturating_sub(2)).rev() {
            let along = dot(x, self.row(j));
            add_scaled(x, -along, self.row(j));
        }
    }

    /// Q' in the place of the reflections.
    #[inline(always)]
    fn accumulate(&mut self) {
        let (size, stride) = (self.size, self.stride);
        let mut v = vec![0.0; stride];
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
}

/// Implicit QL steps on the diagonal d and on e beside it, in all lanes; `turn` is told every rotation of the coordinates
/// i and i + 1. A lane that has converged rests (c = 1, s = 0) until the others have.
#[inline(always)]
pub(crate) fn iterate<S: Scalar>(
    d: &mut [S],
    e: &mut [S],
    mut turn: impl FnMut(usize, S, S),
) -> bool {
    let size = d.len();
    let e = &mut e[..size];
    let (mut shift, mut scale) = (S::ZERO, S::ZERO);
    let half = S::from_f64(0.5);
    for l in 0..size {
        scale = scale.max(d[l].abs() + e[l].abs());
        let small = scale.scale(f64::EPSILON);
        // One where an entry beside the diagonal counts.
        let counts = |e: S| S::select_lt(small, e.abs(), S::ONE, S::ZERO);
        let mut end = l;
        while end < size && !S::all_lt(counts(e[end]), half) {
            end += 1;
        }
        if end == size {
            return false;
        }
        let mut left = 60;
        while end > l && !S::all_lt(counts(e[l]), half) {
            let active = counts(e[l]);
            left -= 1;
            if left == 0 {
                return false;
            }
            let keep = |new: S, old: S| S::select_lt(half, active, new, old);
            let first = d[l];
            let p = (d[l + 1] - first) / e[l].scale(2.0);
            let root = (p * p + S::ONE).sqrt();
            let both = p + S::select_lt(p, S::ZERO, -root, root);
            let (low, next) = (e[l] / both, e[l] * both);
            let moved = keep(first - low, S::ZERO);
            d[l] = keep(low, first);
            d[l + 1] = keep(next, d[l + 1]);
            for d in &mut d[l + 2..] {
                *d -= moved;
            }
            shift += moved;
            let mut p = d[end];
            let (mut c, mut c2, mut c3) = (S::ONE, S::ONE, S::ONE);
            let (mut s, mut s2) = (S::ZERO, S::ZERO);
            let beside_next = e[l + 1];
            for i in (l..end).rev() {
                (c3, c2, s2) = (c2, c, s);
                let (g, h) = (c * e[i], c * p);
                let r = (p * p + e[i] * e[i]).sqrt();
                // Where both are zero there is nothing to turn.
                let inverse = S::select_lt(S::ZERO, r, S::ONE / r, S::ZERO);
                e[i + 1] = keep(s * r, e[i + 1]);
                s = e[i] * inverse;
                c = S::select_lt(S::ZERO, r, p * inverse, S::ONE);
                p = c * d[i] - s * g;
                d[i + 1] = keep(h + s * (c * g + s * d[i]), d[i + 1]);
                turn(i, keep(c, S::ONE), keep(s, S::ZERO));
            }
            p = -s * s2 * c3 * beside_next * e[l] / next;
            e[l] = keep(s * p, e[l]);
            d[l] = keep(c * p, d[l]);
        }
        d[l] += shift;
        e[l] = S::ZERO;
    }
    let mut finite = true;
    for d in d.iter() {
        finite &= d.is_finite();
    }
    finite
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::scalar::Lanes;
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
    fn side_by_side_is_one_by_one() {
        // Of different sizes and ranks; the smaller end in zeros that nothing couples to them.
        let mut stream = Stream::new(2, 0, "eigen");
        let sizes = [(20, 20), (20, 3), (1, 1), (9, 0), (17, 16), (4, 2), (20, 40), (12, 12)];
        let zeros = Lanes([0.0; WIDTH]);
        let (mut d, mut e) = (vec![zeros; 20], vec![zeros; 20]);
        let mut alone = Vec::new();
        for (lane, (size, rank)) in sizes.into_iter().enumerate() {
            let b = DMatrix::from_fn(size, rank, |_, _| stream.normal());
            let a = &b * b.transpose();
            let mut eigen = Eigen::default();
            eigen.reset(size);
            for i in 0..size {
                (0..size).for_each(|j| eigen.row_mut(i)[j] = a[(i, j)]);
            }
            eigen.reduce();
            for i in 0..size {
                (d[i].0[lane], e[i].0[lane]) = (eigen.values[i], eigen.beside[i]);
            }
            let mut values: Vec<f64> = a.symmetric_eigenvalues().iter().copied().collect();
            values.sort_by(f64::total_cmp);
            alone.push(values);
        }
        assert!(iterate(&mut d, &mut e, |_, _, _| ()));
        for (lane, theirs) in alone.iter().enumerate() {
            let mut ours: Vec<f64> = d[..theirs.len()].iter().map(|d| d.0[lane]).collect();
            ours.sort_by(f64::total_cmp);
            for (a, b) in ours.iter().zip(theirs) {
                assert!((a - b).abs() < 1e-12, "{lane}: {a} {b}");
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
