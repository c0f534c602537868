//! How good an estimate is, and whether its error bars are honest.

use crate::chi_square::at_normal;
use crate::scalar::Scalar;
use nalgebra::{Cholesky, DMatrix, DVector};

/// Numbers that are added up before their sum is added to the others'.
const BLOCK: usize = 1024;

/// The sum of many numbers: of blocks of 1024 in order, then of the blocks' sums in order.
///
/// Whoever splits the work at multiples of a block, on however many threads, gets these bits; and the
/// rounding grows with the length of a block and the number of blocks, not with their product.
///
/// ```
/// use optfilter::metrics::sum;
/// let values: Vec<f64> = (0..10_000).map(|k| 1.0 / (1.0 + k as f64)).collect();
/// let halves = sum(&[values[..1024].iter().sum(), sum(&values[1024..2048])]);
/// assert_eq!(halves, sum(&values[..2048]));
/// ```
pub fn sum(values: &[f64]) -> f64 {
    values.chunks(BLOCK).map(|block| block.iter().sum::<f64>()).sum()
}

/// The inner product of two vectors, in blocks as [`sum`] does it.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Eight sums side by side in each block, so that they are one vector.
    let block = |(a, b): (&[f64], &[f64])| {
        let mut sums = [0.0; 8];
        for (a, b) in a.chunks(8).zip(b.chunks(8)) {
            for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
                *sum += a * b;
            }
        }
        sums.iter().sum::<f64>()
    };
    a.chunks(BLOCK).zip(b.chunks(BLOCK)).map(block).sum()
}

/// The root of the mean squared difference over all numbers of two slices; NaN if they differ in length
/// or are empty. Squares are added one after the other: the tables of the paper are made of these bits.
pub fn rmse(estimates: &[f64], truth: &[f64]) -> f64 {
    if estimates.len() != truth.len() || truth.is_empty() {
        return f64::NAN;
    }
    let sum: f64 = estimates.iter().zip(truth).map(|(a, b)| (a - b) * (a - b)).sum();
    Scalar::sqrt(sum / truth.len() as f64)
}

/// The normalised estimation error squared e' P^-1 e, chi-square with n degrees of freedom if the
/// covariance (n x n, column by column) is right; `None` if it is not positive definite.
pub fn nees(estimate: &[f64], truth: &[f64], cov: &[f64]) -> Option<f64> {
    let n = truth.len();
    if estimate.len() != n || cov.len() != n * n {
        return None;
    }
    let error = DVector::from_fn(n, |i, _| estimate[i] - truth[i]);
    let factor = Cholesky::new(DMatrix::from_column_slice(n, n, cov))?;
    Some(error.dot(&factor.solve(&error)))
}

/// The interval that holds the mean of `count` independent chi-square values of `dof` degrees of freedom
/// with 95 % probability.
pub fn chi_square_band(dof: usize, count: usize) -> (f64, f64) {
    let total = (dof * count) as f64;
    let z = 1.959_963_984_540_054;
    (at_normal(total, -z) / count as f64, at_normal(total, z) / count as f64)
}
