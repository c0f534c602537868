//! Which settings are worse than the best by more than luck.
//!
//! Many settings are compared at once, and with the one that came out best of them: both make differences look
//! larger than they are. The threshold is therefore that of the largest t of any pair where all settings are equally
//! good, so that it holds whichever is best (a bootstrap of the range, as in the model confidence set of Hansen,
//! Lunde and Nason, 2011). Losses are compared in pairs, over blocks of rows, since neighbouring rows are not
//! independent.

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
    if said.len() < 5 || !finite[best] {
        return finite.iter().map(|f| !f).collect();
    }
    let kept: Vec<usize> = (0..losses.len()).filter(|&k| finite[k]).collect();
    let mean =
        |k: usize, picked: &[usize]| picked.iter().map(|&b| blocks[k][b]).sum::<f64>() / count;
    let means: Vec<f64> = (0..losses.len()).map(|k| mean(k, &said)).collect();
    // Standard errors of the difference of each pair.
    let error = |j: usize, k: usize| {
        let off = |&b: &usize| (blocks[j][b] - blocks[k][b] - (means[j] - means[k])).powi(2);
        (said.iter().map(off).sum::<f64>() / (count - 1.0) / count).sqrt()
    };
    let errors: Vec<Vec<f64>> =
        kept.iter().map(|&j| kept.iter().map(|&k| error(j, k)).collect()).collect();
    let t = |difference: f64, error: f64| if error > 0.0 { difference / error } else { 0.0 };
    let mut stream = Stream::new(0, 0, "verdict");
    let mut largest: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let pick = |_| said[(stream.uniform() * count) as usize];
            let picked: Vec<usize> = (0..said.len()).map(pick).collect();
            let shifts: Vec<f64> = kept.iter().map(|&k| mean(k, &picked) - means[k]).collect();
            let pair = |i: usize, j: usize| t(shifts[i] - shifts[j], errors[i][j]);
            let any = (0..kept.len()).flat_map(|i| (0..kept.len()).map(move |j| (i, j)));
            any.map(|(i, j)| pair(i, j)).fold(0.0, f64::max)
        })
        .collect();
    largest.sort_by(f64::total_cmp);
    let threshold = largest[((1.0 - LEVEL) * RESAMPLES as f64) as usize];
    let worse = |k: usize| !finite[k] || t(means[k] - means[best], error(k, best)) > threshold;
    (0..losses.len()).map(worse).collect()
}
