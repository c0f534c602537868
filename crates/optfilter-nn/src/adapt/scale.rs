//! Features and labels brought to the size that a network likes, by the first samples or as the stream goes.
//!
//! Fixed: `(v - mean) * factor` with mean and deviation of the first time steps. Running: mean and deviation of all samples
//! so far, the newest included (features are known before they are judged). A feature that was constant for long has next to no
//! deviation, and the day it moves it would be thousands of deviations away; scaled features are kept within [`LARGEST`].
//!
//! Labels that are numbers have no scale before two different ones were seen. Until then nothing is learnt and nothing is scored,
//! so that units and offset of the label change nothing but the units of the errors.

use crate::layer::Shape;
use serde::{Deserialize, Serialize};

/// Running scaling keeps features within this many deviations.
pub const LARGEST: f64 = 8.0;

/// How numbers are brought to the size that a network likes: (value - mean) * factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Mean and factor of each feature.
    pub features: Vec<(f64, f64)>,
    /// Mean and factor of each label that is a number; `(0, 1)` where labels are classes.
    pub targets: Vec<(f64, f64)>,
}

impl Scaling {
    /// Numbers stay as they are.
    pub fn plain(features: usize, numbers: usize) -> Self {
        Self { features: vec![(0.0, 1.0); features], targets: vec![(0.0, 1.0); numbers] }
    }
}

/// Running mean and sum of squared differences (Welford).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// How many numbers there were.
    pub n: f64,
    /// Their mean.
    pub mean: f64,
    /// The sum of squared differences from it.
    pub square: f64,
    /// The largest magnitude.
    pub largest: f64,
}

impl Moments {
    /// As if so many numbers had had this mean and one over this deviation.
    pub fn of(mean: f64, factor: f64, n: f64) -> Self {
        Self { n, mean, square: n / (factor * factor), largest: mean.abs() }
    }

    /// One more number.
    pub fn add(&mut self, v: f64) {
        self.n += 1.0;
        let off = v - self.mean;
        self.mean += off / self.n;
        self.square += off * (v - self.mean);
        self.largest = self.largest.max(v.abs());
    }

    /// One over the deviation; 1 for what has all but never moved, which keeps its units.
    pub fn factor(&self) -> f64 {
        let std = (self.square / self.n.max(1.0)).sqrt();
        if std > 1e-6 * self.largest { 1.0 / std } else { 1.0 }
    }

    /// One over the deviation as soon as there is one; below 1e-12 of the largest number it is one of rounding.
    pub fn known_factor(&self) -> Option<f64> {
        let std = (self.square / self.n.max(1.0)).sqrt();
        (std > 1e-12 * self.largest).then(|| 1.0 / std)
    }
}

/// A scaling, fixed or running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Scaler {
    now: Scaling,
    /// Moments of the features, where the scaling follows the stream; then of the labels.
    running: Option<(Vec<Moments>, Vec<Moments>)>,
}

impl Scaler {
    pub fn fixed(scaling: Scaling) -> Self {
        Self { now: scaling, running: None }
    }

    /// Follows the stream, with so many numbers to each label; images stay as they are.
    pub fn running(shape: Shape, numbers: usize) -> Self {
        let n = shape.len();
        let moments = match shape {
            Shape::Vector(_) => vec![Moments::default(); n],
            Shape::Image { .. } => Vec::new(),
        };
        let running = Some((moments, vec![Moments::default(); numbers]));
        Self { now: Scaling::plain(n, numbers), running }
    }

    /// The scaling as it is.
    pub fn scaling(&self) -> &Scaling {
        &self.now
    }

    /// Numbers of a sample.
    pub fn width(&self) -> usize {
        self.now.features.len()
    }

    /// Numbers of a label.
    pub fn numbers(&self) -> usize {
        self.now.targets.len()
    }

    /// Features of samples that are about to be judged.
    pub fn see(&mut self, x: &[f64]) {
        let Some((features, _)) = &mut self.running else { return };
        if features.is_empty() {
            return;
        }
        add_rows(features, x);
        for (to, m) in self.now.features.iter_mut().zip(features) {
            *to = (m.mean, m.factor());
        }
    }

    /// Labels that have been judged.
    pub fn see_labels(&mut self, values: &[f64]) {
        if let Some((_, targets)) = &mut self.running {
            add_rows(targets, values);
            for (to, m) in self.now.targets.iter_mut().zip(targets) {
                *to = (m.mean, m.known_factor().unwrap_or(1.0));
            }
        }
    }

    /// Another scaling; one that follows the stream goes on as if it were that of so many samples.
    pub fn set(&mut self, scaling: Scaling, samples: f64) {
        if let Some((features, targets)) = &mut self.running {
            let moments = |&(mean, factor): &(f64, f64)| Moments::of(mean, factor, samples);
            if !features.is_empty() {
                *features = scaling.features.iter().map(moments).collect();
            }
            *targets = scaling.targets.iter().map(moments).collect();
        }
        self.now = scaling;
    }

    /// One over the deviation of labels with these among them; a fixed one stays.
    pub fn factors_with(&self, values: &[f64]) -> Vec<f64> {
        let now = self.now.targets.iter().map(|t| t.1);
        let Some((_, targets)) = &self.running else { return now.collect() };
        let mut targets = targets.clone();
        add_rows(&mut targets, values);
        targets.iter().zip(now).map(|(m, now)| m.known_factor().unwrap_or(now)).collect()
    }

    /// Whether labels that are numbers have a scale yet; of several, whether one has.
    pub fn knows_labels(&self) -> bool {
        let known = |targets: &[Moments]| targets.iter().any(|m| m.known_factor().is_some());
        self.running.as_ref().is_none_or(|(_, targets)| known(targets))
    }

    /// Samples in the network's units, into `out`.
    pub fn scale(&self, x: &[f64], out: &mut Vec<f32>) {
        out.clear();
        // Images have no deviations that they could be kept within.
        let follows = self.running.as_ref().is_some_and(|(features, _)| !features.is_empty());
        let most = if follows { LARGEST } else { f64::INFINITY };
        for row in x.chunks_exact(self.width().max(1)) {
            let scaled = row.iter().zip(&self.now.features);
            out.extend(scaled.map(|(v, (m, f))| ((v - m) * f).clamp(-most, most) as f32));
        }
    }

    /// Labels in the network's units, added to `out`.
    pub fn labels(&self, values: &[f64], out: &mut Vec<f32>) {
        let targets = self.now.targets.iter().cycle();
        out.extend(
            values.iter().zip(targets).map(|(v, (mean, factor))| ((v - mean) * factor) as f32),
        );
    }

    /// And back, in place; the mean while there is no scale.
    pub fn values(&self, out: &mut [f64]) {
        let known = self.knows_labels();
        for (v, (mean, factor)) in out.iter_mut().zip(self.now.targets.iter().cycle()) {
            *v = if known { f64::from(*v as f32) / factor + mean } else { *mean };
        }
    }
}

/// Rows of one number for each of the moments.
fn add_rows(moments: &mut [Moments], values: &[f64]) {
    for row in values.chunks_exact(moments.len().max(1)) {
        moments.iter_mut().zip(row).for_each(|(m, v)| m.add(*v));
    }
}

/// Mean, and one over the standard deviation. What is (all but) constant in the first time steps says nothing about its
/// scale, and one over rounding errors would blow it up the day it moves: such a feature keeps its own units.
pub(super) fn mean_and_factor(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / n;
    let largest = values.clone().fold(0.0, |a: f64, v| a.max(v.abs()));
    let std = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    (mean, if std > 1e-3 * largest { 1.0 / std } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_scaling_is_that_of_all_samples_so_far() {
        let mut scaler = Scaler::running(Shape::Vector(2), 1);
        let x = [1.0, 5.0, 3.0, 5.0, 8.0, 5.0];
        scaler.see(&x[..4]);
        scaler.see(&x[4..]);
        let (mean, factor) = mean_and_factor([1.0, 3.0, 8.0].into_iter());
        let now = scaler.scaling().features[0];
        assert!((now.0 - mean).abs() < 1e-12 && (now.1 - factor).abs() < 1e-12);
        // The second feature never moved, and the day it does it stays within bounds.
        assert_eq!(scaler.scaling().features[1], (5.0, 1.0));
        for _ in 0..1000 {
            scaler.see(&[1.0, 5.0]);
        }
        scaler.see(&[1.0, 6.0]);
        let mut out = Vec::new();
        scaler.scale(&[1.0, 6.0], &mut out);
        assert_eq!(out[1], LARGEST as f32);
        // Images are left as they are, whatever the size of their numbers.
        let image = Shape::Image { height: 1, width: 2, channels: 1 };
        let mut scaler = Scaler::running(image, 1);
        scaler.see(&[3.0, 255.0]);
        scaler.scale(&[3.0, 255.0], &mut out);
        assert_eq!(out, [3.0, 255.0]);
    }
}
