//! Which settings are worse than the best by more than luck.
//!
//! Losses are compared in pairs, over blocks of rows, since neighbouring rows are not independent. Many settings are compared at
//! once, and with the one that came out best of them: both make differences look larger than they are. So all are taken
//! together, much as in the model confidence set of Hansen, Lunde and Nason (2011): while the t of any against the best is beyond
//! what the largest of any pair would be if all that are left were equally good (a bootstrap of the range, so that it holds
//! whichever is best), the one with the worst score leaves. Those that left are worse, so that no setting is called worse while
//! another with a worse score is not.

use optfilter::rng::Stream;

const BLOCKS: usize = 20;
const RESAMPLES: usize = 500;
/// The chance that any of settings that are equally good is called worse.
const LEVEL: f64 = 0.05;

/// Whether the best of several settings, by their losses on the same rows, is better than each by more than noise.
/// NaN is a row without a loss; a setting with an infinite loss is worse than any.
pub fn clearly_worse(losses: &[Vec<f64>], best: usize) -> Vec<bool> {
    let rows = losses.first().map_or(0, Vec::len);
    let size = (rows / BLOCKS).max(1);
    let finite: Vec<bool> = losses.iter().map(|l| l.iter().all(|v| !v.is_infinite())).collect();
    let blocks: Vec<Vec<f64>> = losses
        .iter()
        .map(|l| l.chunks(size).map(|c| crate::run::mean(c.iter().copied())).collect())
        .collect();
    // Blocks in which nothing was measured say nothing.
    let said: Vec<usize> = (0..rows.div_ceil(size))
        .filter(|&b| blocks.iter().zip(&finite).all(|(l, finite)| !finite || !l[b].is_nan()))
        .collect();
    let count = said.len() as f64;
    let mut worse: Vec<bool> = finite.iter().map(|f| !f).collect();
    if said.len() < 5 || !finite[best] {
        return worse;
    }
    let mean =
        |k: usize, picked: &[usize]| picked.iter().map(|&b| blocks[k][b]).sum::<f64>() / count;
    let means: Vec<f64> = (0..losses.len()).map(|k| mean(k, &said)).collect();
    // Standard errors of the difference of each pair.
    let error = |j: usize, k: usize| {
        let off = |&b: &usize| (blocks[j][b] - blocks[k][b] - (means[j] - means[k])).powi(2);
        (said.iter().map(off).sum::<f64>() / (count - 1.0) / count).sqrt()
    };
    // The settings that are left, by their scores: the best first. What scores better than the best is another's choice, and stays.
    let scores: Vec<f64> = losses.iter().map(|l| crate::run::mean(l.iter().copied())).collect();
    let mut left: Vec<usize> = (0..losses.len()).filter(|&k| finite[k]).collect();
    left.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]).then((b == best).cmp(&(a == best))));
    let first = left.iter().position(|&k| k == best).unwrap_or(0);
    let errors: Vec<Vec<f64>> =
        left.iter().map(|&j| left.iter().map(|&k| error(j, k)).collect()).collect();
    let mut stream = Stream::new(0, 0, "verdict");
    let t = |difference: f64, error: f64| if error > 0.0 { difference / error } else { 0.0 };
    // Of each resample the largest t of any pair of the first so many: they leave from the end, so that each needs only the pairs with one more.
    let mut by_luck: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); left.len()];
    for _ in 0..RESAMPLES {
        let pick = |_| said[(stream.uniform() * count) as usize];
        let picked: Vec<usize> = (0..said.len()).map(pick).collect();
        let shifts: Vec<f64> = left.iter().map(|&k| mean(k, &picked) - means[k]).collect();
        let mut largest = 0.0_f64;
        for (i, (one, errors)) in shifts.iter().zip(&errors).enumerate() {
            let pairs = shifts[..i].iter().zip(errors);
            largest = pairs.map(|(other, e)| t((one - other).abs(), *e)).fold(largest, f64::max);
            by_luck[i].push(largest);
        }
    }
    let against_best: Vec<f64> =
        (0..left.len()).map(|i| t(means[left[i]] - means[best], errors[i][first])).collect();
    while left.len() > first + 1 {
        let by_luck = &mut by_luck[left.len() - 1];
        by_luck.sort_by(f64::total_cmp);
        let threshold = by_luck[((1.0 - LEVEL) * RESAMPLES as f64) as usize];
        if against_best.iter().take(left.len()).all(|t| *t <= threshold) {
            break;
        }
        left.pop().into_iter().for_each(|k| worse[k] = true);
    }
    worse
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each a little worse than the one before it, and all by more than luck: they leave one after the other, down to the best.
    #[test]
    fn many_leave_one_after_the_other() {
        let mut stream = Stream::new(1, 0, "losses");
        let common: Vec<f64> = (0..100).map(|_| stream.normal()).collect();
        let mut one = |k: usize| -> Vec<f64> {
            common.iter().map(|c| c + 0.1 * k as f64 + 1e-3 * stream.normal()).collect()
        };
        let losses: Vec<Vec<f64>> = (0..300).map(&mut one).collect();
        let worse = clearly_worse(&losses, 0);
        assert!(!worse[0] && worse[1..].iter().all(|worse| *worse));
    }

    /// One that is a little worse in every row beside one that is worse by far and erratic: whichever of them leaves, the one with
    /// the worse score is not the one that stays.
    #[test]
    fn verdicts_follow_scores() {
        for seed in 0..60 {
            let mut stream = Stream::new(seed, 0, "losses");
            let common: Vec<f64> = (0..400).map(|_| stream.normal()).collect();
            let mut losses = vec![common.clone()];
            for k in 1..6 {
                let (offset, spread) =
                    (0.02 * f64::from(k) * stream.uniform(), stream.uniform().powi(3));
                losses.push(common.iter().map(|c| c + offset + spread * stream.normal()).collect());
            }
            let scores: Vec<f64> =
                losses.iter().map(|l| crate::run::mean(l.iter().copied())).collect();
            let best = (0..6).min_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
            let worse = clearly_worse(&losses, best);
            assert!(!worse[best]);
            for (a, b) in (0..6).flat_map(|a| (0..6).map(move |b| (a, b))) {
                assert!(
                    !(worse[a] && !worse[b] && scores[b] > scores[a]),
                    "seed {seed}: {scores:?} {worse:?}"
                );
            }
        }
    }
}
