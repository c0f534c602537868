//! Resampling: which particles have offspring, and how many.
//!
//! Every scheme gives particle i an expected number N w_i of offspring; they differ in variance.
//!
//! | scheme | draws | variance |
//! |---|---|---|
//! | multinomial | N independent uniforms | largest |
//! | residual | floor(N w_i) copies, the rest multinomial | smaller |
//! | stratified | one uniform in each of N equal parts | smaller still |
//! | systematic | one uniform for all parts | usually smallest, and fastest |
//!
//! Reference: Douc, Cappe and Moulines 2005.

use crate::rng::{Stream, fast};
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A resampling scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// N independent draws.
    Multinomial,
    /// Whole copies first, independent draws for the rest.
    Residual,
    /// One draw in each of N equal strata.
    Stratified,
    /// One draw, shifted through N equal strata.
    #[default]
    Systematic,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 4] =
        [Self::Multinomial, Self::Residual, Self::Stratified, Self::Systematic];

    /// Their names.
    pub const NAMES: [&'static str; 4] = ["multinomial", "residual", "stratified", "systematic"];

    /// The scheme of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Multinomial => "multinomial",
            Self::Residual => "residual",
            Self::Stratified => "stratified",
            Self::Systematic => "systematic",
        }
    }
}

/// The parents of `weights.len()` new particles, in increasing order. Weights need not sum to one.
pub fn resample(scheme: Scheme, weights: &[f64], stream: &mut Stream) -> Vec<usize> {
    let count = weights.len();
    if count == 0 {
        return Vec::new();
    }
    match scheme {
        Scheme::Multinomial => parents(weights, &sorted_uniforms(count, stream)),
        Scheme::Residual => residual(weights, stream),
        Scheme::Stratified => {
            let mut points = vec![0.0; count];
            stream.fill_uniform(&mut points);
            for (i, p) in points.iter_mut().enumerate() {
                *p = (i as f64 + *p) / count as f64;
            }
            parents(weights, &points)
        }
        Scheme::Systematic => systematic(weights, stream.uniform()),
    }
}

/// One shift for all strata. Particle i ends at stratum ceil(N c_i - shift) for the cumulative weight
/// c_i, so no comparison depends on another and the loop has no unpredictable branch.
fn systematic(weights: &[f64], shift: f64) -> Vec<usize> {
    let count = weights.len();
    let scale = count as f64 / total(weights);
    let mut parents = vec![0; count + 1];
    let (mut sum, mut start) = (0.0, 0);
    for (i, &w) in weights.iter().enumerate() {
        // The last particle with offspring from `start` on is the one written last.
        parents[start] = i;
        sum += w;
        // One more than the floor, by cutting off the fraction of a number above zero.
        let end = (sum * scale - shift + 1.0) as i64 as usize;
        start = end.clamp(start, count);
    }
    parents.truncate(count);
    let mut last = 0;
    for p in &mut parents {
        last = last.max(*p);
        *p = last;
    }
    parents
}

/// The sum of the weights, eight partial sums at a time: a single one would be a chain of additions as long
/// as there are particles.
fn total(weights: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let chunks = weights.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (sum, w) in sums.iter_mut().zip(chunk) {
            *sum += w;
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// `count` uniforms in increasing order, by normalised sums of exponentials: no sorting.
fn sorted_uniforms(count: usize, stream: &mut Stream) -> Vec<f64> {
    let mut points = vec![0.0; count + 1];
    stream.fill_uniform(&mut points);
    crate::simd::dispatch(
        #[inline(always)]
        || {
            for p in &mut points {
                *p = -fast::ln(*p);
            }
        },
    );
    let mut sum = 0.0;
    for p in &mut points {
        sum += *p;
        *p = sum;
    }
    points.truncate(count);
    for p in &mut points {
        *p /= sum;
    }
    points
}

/// The particle in whose share of (0, 1) each of the increasing points lies.
fn parents(weights: &[f64], points: &[f64]) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let mut out = Vec::with_capacity(points.len());
    let (mut i, mut cumulative) = (0, weights[0]);
    for &p in points {
        while cumulative < p * total && i + 1 < weights.len() {
            i += 1;
            cumulative += weights[i];
        }
        out.push(i);
    }
    out
}

fn residual(weights: &[f64], stream: &mut Stream) -> Vec<usize> {
    let count = weights.len();
    let scale = count as f64 / weights.iter().sum::<f64>();
    let mut copies: Vec<usize> =
        weights.iter().map(|w| Scalar::floor(w * scale) as usize).collect();
    let whole: usize = copies.iter().sum();
    let rest: Vec<f64> = weights.iter().map(|w| w * scale - Scalar::floor(w * scale)).collect();
    // Rounding may leave no room, or a rest of nothing but zeros.
    if whole < count && rest.iter().sum::<f64>() > 0.0 {
        for i in parents(&rest, &sorted_uniforms(count - whole, stream)) {
            copies[i] += 1;
        }
    }
    let mut out: Vec<usize> = copies
        .iter()
        .enumerate()
        .flat_map(|(i, &c)| core::iter::repeat_n(i, c))
        .take(count)
        .collect();
    let last = out.last().copied().unwrap_or(0);
    out.resize(count, last);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offspring_are_expected_in_proportion_to_weight() {
        let weights = [0.1, 0.0, 2.5, 0.4, 1.0, 1e-9, 0.7, 0.3];
        let total: f64 = weights.iter().sum();
        let n = weights.len() as f64;
        let rounds = 20_000;
        for scheme in
            [Scheme::Multinomial, Scheme::Residual, Scheme::Stratified, Scheme::Systematic]
        {
            let mut stream = Stream::new(5, 0, "resampling test");
            let mut counts = [0.0; 8];
            for _ in 0..rounds {
                let parents = resample(scheme, &weights, &mut stream);
                assert_eq!(parents.len(), weights.len());
                assert!(parents.is_sorted());
                for p in parents {
                    counts[p] += 1.0;
                }
            }
            for (count, w) in counts.iter().zip(weights) {
                let expected = n * w / total;
                // Six standard errors of a mean of counts of at most multinomial variance.
                let error = 6.0 * (expected.max(1e-3) / f64::from(rounds)).sqrt();
                let mean = count / f64::from(rounds);
                assert!(
                    (mean - expected).abs() < error,
                    "{scheme:?}: {mean} offspring, not {expected}"
                );
            }
        }
    }

    #[test]
    fn systematic_gives_each_particle_its_share_to_within_one() {
        let mut stream = Stream::new(6, 0, "resampling test");
        for _ in 0..200 {
            let weights: Vec<f64> = (0..100).map(|_| stream.uniform().powi(4)).collect();
            let total: f64 = weights.iter().sum();
            let parents = resample(Scheme::Systematic, &weights, &mut stream);
            for (i, w) in weights.iter().enumerate() {
                let share = 100.0 * w / total;
                let count = parents.iter().filter(|&&p| p == i).count() as f64;
                assert!((count - share).abs() <= 1.0 + 1e-9, "{count} for a share of {share}");
            }
        }
    }
}
