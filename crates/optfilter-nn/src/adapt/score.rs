//! How well time steps were predicted.

use super::Labels;

/// How well one time step was predicted before its labels were used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Its time.
    pub time: f64,
    /// Samples.
    pub n: usize,
    /// Samples whose class was named; 0 where labels are numbers.
    pub right: usize,
    /// Sum of squared errors in the label's units; 0 where labels are classes.
    pub squared_error: f64,
    /// Mean loss.
    pub loss: f64,
}

/// The score of predictions: rows of probabilities, or numbers (then the loss is half the squared error after `factors`, one over the
/// deviation of each number of a label).
pub fn judge(
    time: f64,
    predicted: &[f64],
    labels: &Labels,
    classes: usize,
    factors: &[f64],
) -> Score {
    let each = if classes == 0 { factors.len().max(1) } else { 1 };
    let n = labels.len() / each;
    let (mut right, mut squared_error, mut loss) = (0, 0.0, 0.0);
    match labels {
        Labels::Classes { of, .. } => {
            for (row, y) in predicted.chunks_exact(classes.max(1)).zip(of) {
                right += usize::from(most_likely(row) == *y as usize);
                // Probabilities of single-precision outputs reach 0; nothing is that certain.
                loss -= row.get(*y as usize).copied().unwrap_or(0.0).max(1e-15).ln();
            }
        }
        Labels::Values(values) => {
            for (i, factor) in factors.iter().enumerate() {
                let pairs = predicted.iter().zip(values).skip(i).step_by(each);
                let square: f64 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
                squared_error += square;
                loss += 0.5 * square * factor * factor;
            }
        }
    }
    // A row that is not a number is not infinitely wrong, it is no answer.
    let loss = if predicted.iter().any(|p| p.is_nan()) { f64::NAN } else { loss };
    Score { time, n, right, squared_error, loss: loss / n.max(1) as f64 }
}

/// Percent right, or root mean squared error, over some time steps.
pub fn level(scores: &[Score], labels: &Labels) -> f64 {
    let n: f64 = scores.iter().map(|s| s.n as f64).sum();
    match labels {
        Labels::Classes { .. } => 100.0 * scores.iter().map(|s| s.right as f64).sum::<f64>() / n,
        Labels::Values(_) => (scores.iter().map(|s| s.squared_error).sum::<f64>() / n).sqrt(),
    }
}

/// Mean loss per sample.
pub fn mean_loss(scores: &[Score]) -> f64 {
    let n: f64 = scores.iter().map(|s| s.n as f64).sum();
    scores.iter().map(|s| s.loss * s.n as f64).sum::<f64>() / n
}

/// The class with the largest probability; the first of equal ones.
pub fn most_likely(row: &[f64]) -> usize {
    row.iter().enumerate().fold(0, |best, (i, p)| if *p > row[best] { i } else { best })
}
