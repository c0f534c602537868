//! Prequential scores: each time step is predicted, scored and learnt, in this order.

use super::follow::Follower;
use super::score::Score;
use super::tally::Tally;
use super::{AdaptError, Stream};
use std::ops::Range;

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
