//! Prequential scores, and the choice of steps and learning rate by them.

use super::follow::Follower;
use super::setup::{Setup, WeightMethod};
use super::tally::Tally;
use super::{AdaptError, Labels, Stream};
use rayon::prelude::*;
use std::ops::Range;

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

/// Predicts, scores and learns, time step after time step. Time steps that cannot be scored, because numbers are predicted whose
/// scale nobody knows yet, have a score of no samples.
pub fn prequential(
    follower: &mut Follower,
    stream: &Stream,
    steps: Range<usize>,
) -> Result<Vec<Score>, AdaptError> {
    prequential_into(follower, stream, steps, &mut Tally::default())
}

/// [`prequential`], with the totals added to a [`Tally`].
pub fn prequential_into(
    follower: &mut Follower,
    stream: &Stream,
    steps: Range<usize>,
    tally: &mut Tally,
) -> Result<Vec<Score>, AdaptError> {
    let mut scores = Vec::with_capacity(steps.len());
    let mut predicted = Vec::new();
    for step in steps {
        let samples = stream.range(step..step + 1);
        let time = stream.time(step);
        let (x, labels) = (stream.x(samples.clone()), stream.labels().part(samples));
        let score = follower.step(time, x, &labels, &mut predicted)?;
        if score.n > 0 {
            tally.add(&score, &predicted, &labels, follower.classes());
        }
        scores.push(score);
    }
    Ok(scores)
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

/// One configuration that was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// Steps per time step.
    pub steps: u32,
    /// Learning rate.
    pub lr: f64,
    /// Mean prequential loss per sample; infinite if it diverged.
    pub loss: f64,
}

/// Tries every K and learning rate with the implicit MAP filter on the given steps and returns all, best first. Nothing but
/// the prequential loss is looked at, so the choice uses no label before its time.
pub fn tune(
    stream: &Stream,
    setup: &Setup,
    weights: Option<&Vec<f32>>,
    steps: Range<usize>,
    grid: (&[u32], &[f64]),
) -> Result<Vec<Tuned>, AdaptError> {
    let pairs: Vec<(u32, f64)> =
        grid.0.iter().flat_map(|k| grid.1.iter().map(|lr| (*k, *lr))).collect();
    let tried: Result<Vec<Tuned>, AdaptError> = pairs
        .par_iter()
        .map(|&(k, lr)| {
            let setup =
                Setup { method: WeightMethod::ImplicitMap { steps: k }, lr, ..setup.clone() };
            let mut follower = Follower::new(stream, &setup, weights.cloned())?;
            let loss = match prequential(&mut follower, stream, steps.clone()) {
                Ok(scores) => mean_loss(&scores),
                Err(AdaptError::Diverged { .. }) => f64::INFINITY,
                Err(e) => return Err(e),
            };
            Ok(Tuned { steps: k, lr, loss })
        })
        .collect();
    let mut tried = tried?;
    tried.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    Ok(tried)
}

/// What [`tune_rolling`] did in one window of time steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Time of its first step.
    pub time: f64,
    /// Chosen by the windows before it.
    pub chosen: Tuned,
    /// Best in this window, which is known only afterwards.
    pub best: Tuned,
}

impl Choice {
    /// Whether what the past chose was much worse here than something else: the world has changed, and the choice is void.
    pub fn is_void(&self) -> bool {
        self.chosen.loss > 1.1 * self.best.loss + 0.01
    }
}

/// A choice made again and again.
#[derive(Clone, Debug)]
pub struct Rolling {
    /// The windows after the first, in order.
    pub choices: Vec<Choice>,
    /// Scores of the windows after the first, each with the configuration that the window before it chose.
    pub scores: Vec<Score>,
    /// The same as a tally.
    pub tally: Tally,
    /// What the last window would choose for the next.
    pub next: Tuned,
}

/// Tries every K and learning rate over all of `steps`, cut into `windows` windows; in each window after the first, the configuration
/// with the smallest loss in the window before it counts. No label is used before its time. A configuration that diverges is out from
/// there on.
pub fn tune_rolling(
    stream: &Stream,
    setup: &Setup,
    weights: Option<&Vec<f32>>,
    steps: Range<usize>,
    grid: (&[u32], &[f64]),
    windows: usize,
) -> Result<Rolling, AdaptError> {
    let (n, windows) = (steps.len(), windows.clamp(2, steps.len().max(2)));
    let cuts: Vec<usize> = (0..=windows).map(|w| steps.start + w * n / windows).collect();
    let pairs: Vec<(u32, f64)> =
        grid.0.iter().flat_map(|k| grid.1.iter().map(|lr| (*k, *lr))).collect();
    type Window = Option<(Vec<Score>, Tally)>;
    let tried: Result<Vec<Vec<Window>>, AdaptError> = pairs
        .par_iter()
        .map(|&(k, lr)| {
            let method = WeightMethod::ImplicitMap { steps: k };
            let setup = Setup { method, lr, ..setup.clone() };
            let mut follower = Follower::new(stream, &setup, weights.cloned())?;
            let mut out = Vec::new();
            for cut in cuts.windows(2) {
                let mut tally = Tally::default();
                match prequential_into(&mut follower, stream, cut[0]..cut[1], &mut tally) {
                    Ok(scores) => out.push(Some((scores, tally))),
                    Err(AdaptError::Diverged { .. }) => break,
                    Err(e) => return Err(e),
                }
            }
            out.resize(windows, None);
            Ok(out)
        })
        .collect();
    let tried = tried?;
    let tuned = |c: usize, w: usize| {
        let loss = match &tried[c][w] {
            Some((_, tally)) => tally.mean_loss(),
            None => f64::INFINITY,
        };
        Tuned { steps: pairs[c].0, lr: pairs[c].1, loss }
    };
    let best = |w: usize| {
        (0..pairs.len()).min_by(|a, b| tuned(*a, w).loss.total_cmp(&tuned(*b, w).loss)).unwrap_or(0)
    };
    let (mut choices, mut scores, mut tally) = (Vec::new(), Vec::new(), Tally::default());
    for w in 1..windows {
        let chosen = best(w - 1);
        let Some((s, t)) = &tried[chosen][w] else {
            return Err(AdaptError::Diverged { time: stream.time(cuts[w]) });
        };
        scores.extend_from_slice(s);
        tally.append(t);
        let time = stream.time(cuts[w]);
        choices.push(Choice { time, chosen: tuned(chosen, w), best: tuned(best(w), w) });
    }
    Ok(Rolling { choices, scores, tally, next: tuned(best(windows - 1), windows - 1) })
}
