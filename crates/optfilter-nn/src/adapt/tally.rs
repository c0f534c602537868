//! Scores of a stream of any length in constant memory: totals, balance between classes, calibration, and the course over time.

use super::Labels;
use super::score::{Score, most_likely};
use serde::{Deserialize, Serialize};

/// Bins of the calibration.
const BINS: usize = 15;
/// Most points of the course; when there are more, neighbours are joined.
const POINTS: usize = 2048;

/// One piece of the course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Time of its last time step.
    pub time: f64,
    /// Samples.
    pub n: f64,
    /// Samples whose class was named.
    pub right: f64,
    /// Sum of squared errors.
    pub squared_error: f64,
    /// Sum of the losses.
    pub loss: f64,
}

impl Piece {
    fn join(&mut self, other: &Self) {
        self.time = other.time;
        self.n += other.n;
        self.right += other.right;
        self.squared_error += other.squared_error;
        self.loss += other.loss;
    }

    /// Percent right, or root mean squared error.
    pub fn level(&self, classes: bool) -> f64 {
        match classes {
            true => 100.0 * self.right / self.n,
            false => (self.squared_error / self.n).sqrt(),
        }
    }
}

/// Scores so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Everything.
    pub total: Piece,
    /// Time steps judged.
    pub steps: u64,
    /// Samples without a label.
    pub unlabelled: u64,
    /// Samples of each class, and those of them that were named.
    pub by_class: Vec<(u64, u64)>,
    /// For each bin of the largest probability: samples, sum of it, samples named rightly.
    bins: Vec<(f64, f64, f64)>,
    /// The course, `each` time steps to a piece.
    course: Vec<Piece>,
    each: u64,
    open: (u64, Piece),
}

impl Tally {
    /// Adds the score of a time step, with the predictions it was made of.
    pub fn add(&mut self, score: &Score, predicted: &[f64], labels: &Labels, classes: usize) {
        let n = score.n as f64;
        let piece = Piece {
            time: score.time,
            n,
            right: score.right as f64,
            squared_error: score.squared_error,
            loss: score.loss * n,
        };
        self.total.join(&piece);
        self.steps += 1;
        if let Labels::Classes { of, .. } = labels {
            self.bins.resize(BINS, (0.0, 0.0, 0.0));
            for (row, y) in predicted.chunks_exact(classes.max(1)).zip(of) {
                let y = *y as usize;
                if self.by_class.len() <= y {
                    self.by_class.resize(y + 1, (0, 0));
                }
                let named = most_likely(row);
                self.by_class[y].0 += 1;
                self.by_class[y].1 += u64::from(named == y);
                let sure = row[named];
                let bin = &mut self.bins[((sure * BINS as f64) as usize).min(BINS - 1)];
                *bin = (bin.0 + 1.0, bin.1 + sure, bin.2 + f64::from(u8::from(named == y)));
            }
        }
        self.each = self.each.max(1);
        self.open.1.join(&piece);
        self.open.0 += 1;
        if self.open.0 >= self.each {
            self.course.push(std::mem::take(&mut self.open).1);
        }
        if self.course.len() >= POINTS {
            self.halve();
        }
    }

    /// Adds what another tally has of later time steps.
    pub fn append(&mut self, later: &Self) {
        self.total.join(&later.total);
        self.steps += later.steps;
        self.unlabelled += later.unlabelled;
        if self.by_class.len() < later.by_class.len() {
            self.by_class.resize(later.by_class.len(), (0, 0));
        }
        for (to, from) in self.by_class.iter_mut().zip(&later.by_class) {
            *to = (to.0 + from.0, to.1 + from.1);
        }
        if self.bins.len() < later.bins.len() {
            self.bins.resize(later.bins.len(), (0.0, 0.0, 0.0));
        }
        for (to, from) in self.bins.iter_mut().zip(&later.bins) {
            *to = (to.0 + from.0, to.1 + from.1, to.2 + from.2);
        }
        self.course.extend(later.course().copied());
        self.each = self.each.max(later.each).max(1);
        while self.course.len() >= POINTS {
            self.halve();
        }
    }

    /// Joins neighbours.
    fn halve(&mut self) {
        let pairs = self.course.chunks(2).map(|pair| {
            let mut joined = pair[0];
            pair.iter().skip(1).for_each(|p| joined.join(p));
            joined
        });
        self.course = pairs.collect();
        self.each *= 2;
    }

    /// Percent right, or root mean squared error.
    pub fn level(&self, classes: bool) -> f64 {
        self.total.level(classes)
    }

    /// Mean loss per sample.
    pub fn mean_loss(&self) -> f64 {
        self.total.loss / self.total.n
    }

    /// Mean over the classes of the percentage of each that was named: a class that is rare counts as much as any other.
    pub fn balanced_accuracy(&self) -> f64 {
        let of = |(n, right): &(u64, u64)| 100.0 * *right as f64 / *n as f64;
        let seen: Vec<f64> = self.by_class.iter().filter(|(n, _)| *n > 0).map(of).collect();
        seen.iter().sum::<f64>() / seen.len() as f64
    }

    /// Expected calibration error: how far the largest probability is from how often it is right, over 15 bins, in percent.
    pub fn calibration_error(&self) -> f64 {
        let off: f64 = self.bins.iter().map(|(_, sure, right)| (sure - right).abs()).sum();
        100.0 * off / self.total.n
    }

    /// The course in pieces of about as many time steps each.
    pub fn course(&self) -> impl Iterator<Item = &Piece> {
        self.course.iter().chain(Some(&self.open.1).filter(|p| p.n > 0.0))
    }

    /// One of three equal parts of the course, by time steps.
    pub fn third(&self, which: usize) -> Piece {
        let pieces: Vec<&Piece> = self.course().collect();
        let n = pieces.len();
        let mut sum = Piece::default();
        pieces[which * n / 3..(which + 1) * n / 3].iter().for_each(|p| sum.join(p));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_classes_count_and_certainty_is_held_against_truth() {
        let mut tally = Tally::default();
        for i in 0..10_000 {
            let label = u32::from(i % 10 == 0);
            let (predicted, labels) = ([0.8, 0.2], Labels::classes(vec![label], 2));
            let right = usize::from(label == 0);
            let score = Score { time: f64::from(i), n: 1, right, squared_error: 0.0, loss: 0.5 };
            tally.add(&score, &predicted, &labels, 2);
        }
        assert!((tally.level(true) - 90.0).abs() < 1e-9);
        assert!((tally.balanced_accuracy() - 50.0).abs() < 1e-9);
        // 80 % sure and 90 % right.
        assert!((tally.calibration_error() - 10.0).abs() < 1e-6);
        assert!((tally.mean_loss() - 0.5).abs() < 1e-12);
        let course: Vec<_> = tally.course().collect();
        assert!(course.len() <= POINTS && course.len() >= POINTS / 2);
        assert_eq!(course.iter().map(|p| p.n).sum::<f64>(), 10_000.0);
        assert_eq!(course.last().map(|p| p.time), Some(9_999.0));
        assert!((tally.third(1).level(true) - 90.0).abs() < 1.0);
    }
}
