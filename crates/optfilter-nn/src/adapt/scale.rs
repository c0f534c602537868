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
    /// Mean and factor of the label, when it is a number.
    pub target: (f64, f64),
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
    /// Moments of the features, where the scaling follows the stream; then of the label.
    running: Option<(Vec<Moments>, Moments)>,
}

impl Scaler {
    pub fn fixed(scaling: Scaling) -> Self {
        Self { now: scaling, running: None }
    }

    /// Follows the stream; images stay as they are.
    pub fn running(shape: Shape) -> Self {
        let n = shape.len();
        let now = Scaling { features: vec![(0.0, 1.0); n], target: (0.0, 1.0) };
        let moments = match shape {
            Shape::Vector(_) => vec![Moments::default(); n],
            Shape::Image { .. } => Vec::new(),
        };
        Self { now, running: Some((moments, Moments::default())) }
    }

    /// The scaling as it is.
    pub fn scaling(&self) -> &Scaling {
        &self.now
    }

    /// Numbers of a sample.
    pub fn width(&self) -> usize {
        self.now.features.len()
    }

    /// Features of samples that are about to be judged.
    pub fn see(&mut self, x: &[f64]) {
        let Some((features, _)) = &mut self.running else { return };
        if features.is_empty() {
            return;
        }
        for row in x.chunks_exact(features.len()) {
            features.iter_mut().zip(row).for_each(|(m, v)| m.add(*v));
        }
        for (to, m) in self.now.features.iter_mut().zip(features) {
            *to = (m.mean, m.factor());
        }
    }

    /// Labels that have been judged.
    pub fn see_labels(&mut self, values: &[f64]) {
        if let Some((_, target)) = &mut self.running {
            values.iter().for_each(|v| target.add(*v));
            self.now.target = (target.mean, target.known_factor().unwrap_or(1.0));
        }
    }

    /// Another scaling; one that follows the stream goes on as if it were that of so many samples.
    pub fn set(&mut self, scaling: Scaling, samples: f64) {
        if let Some((features, target)) = &mut self.running {
            let moments = |&(mean, factor): &(f64, f64)| Moments::of(mean, factor, samples);
            if !features.is_empty() {
                *features = scaling.features.iter().map(moments).collect();
            }
            *target = moments(&scaling.target);
        }
        self.now = scaling;
    }

    /// One over the deviation of labels with these among them; a fixed one stays.
    pub fn factor_with(&self, values: &[f64]) -> f64 {
        let Some((_, target)) = &self.running else { return self.now.target.1 };
        let mut target = *target;
        values.iter().for_each(|v| target.add(*v));
        target.known_factor().unwrap_or(self.now.target.1)
    }

    /// Whether labels that are numbers have a scale yet.
    pub fn knows_labels(&self) -> bool {
        self.running.as_ref().is_none_or(|(_, target)| target.known_factor().is_some())
    }

    /// Samples in the network's units, into `out`.
    pub fn scale(&self, x: &[f64], out: &mut Vec<f32>) {
        out.clear();
        let most = if self.running.is_some() { LARGEST } else { f64::INFINITY };
        for row in x.chunks_exact(self.width().max(1)) {
            let scaled = row.iter().zip(&self.now.features);
            out.extend(scaled.map(|(v, (m, f))| ((v - m) * f).clamp(-most, most) as f32));
        }
    }

    /// A label in the network's units.
    pub fn label(&self, v: f64) -> f32 {
        ((v - self.now.target.0) * self.now.target.1) as f32
    }

    /// And back; the mean while there is no scale.
    pub fn value(&self, z: f32) -> f64 {
        match self.knows_labels() {
            true => f64::from(z) / self.now.target.1 + self.now.target.0,
            false => self.now.target.0,
        }
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
        let mut scaler = Scaler::running(Shape::Vector(2));
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
    }
}
