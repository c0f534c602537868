//! The choice of steps and learning rate by prequential scores.

use super::follow::Follower;
use super::prequential::{prequential, prequential_into};
use super::score::{Score, mean_loss};
use super::setup::{Setup, WeightMethod};
use super::tally::Tally;
use super::{AdaptError, Stream};
use rayon::prelude::*;
use std::ops::Range;

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
/// there on; where it was the chosen one, the choice is void with an infinite loss, and scores are those of the next best of the window before
/// that goes on.
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
        let (chosen, time) = (best(w - 1), stream.time(cuts[w]));
        let mut by_past: Vec<usize> = (0..pairs.len()).collect();
        by_past.sort_by(|a, b| tuned(*a, w - 1).loss.total_cmp(&tuned(*b, w - 1).loss));
        let Some((s, t)) = by_past.iter().find_map(|c| tried[*c][w].as_ref()) else {
            return Err(AdaptError::Diverged { time });
        };
        scores.extend_from_slice(s);
        tally.append(t);
        choices.push(Choice { time, chosen: tuned(chosen, w), best: tuned(best(w), w) });
    }
    Ok(Rolling { choices, scores, tally, next: tuned(best(windows - 1), windows - 1) })
}
