//! Features and labels brought to the size that a network likes, by mean and deviation of all samples learnt from so far.
//!
//! `(v - mean) / deviation`, kept within [`LARGEST`]: a feature that was constant for long has next to no deviation, and the
//! day it moves it would be thousands of them away. What has never moved keeps its units.

use optfilter_nn::adapt::{LARGEST, Moments};
use serde::{Deserialize, Serialize};

/// The scaling of a follower; with `on` false numbers pass as they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Scaler {
    pub on: bool,
    pub features: Vec<Moments>,
    pub labels: Vec<Moments>,
    /// Mean and factor of each feature and label, as the moments say.
    now: (Vec<(f64, f64)>, Vec<(f64, f64)>),
}

impl Scaler {
    pub fn new(on: bool, features: usize, labels: usize) -> Self {
        let plain = |n| vec![(0.0, 1.0); n];
        Self {
            on,
            features: vec![Moments::default(); features],
            labels: vec![Moments::default(); labels],
            now: (plain(features), plain(labels)),
        }
    }

    /// Samples and labels (none, where they are classes) that are about to be learnt from.
    pub fn see(&mut self, x: &[f64], y: &[f64]) {
        if !self.on {
            return;
        }
        for (moments, numbers, now) in
            [(&mut self.features, x, &mut self.now.0), (&mut self.labels, y, &mut self.now.1)]
        {
            for row in numbers.chunks_exact(moments.len().max(1)) {
                moments.iter_mut().zip(row).for_each(|(m, v)| m.add(*v));
            }
            for (to, m) in now.iter_mut().zip(moments).filter(|(_, m)| m.n > 0.0) {
                *to = (m.mean, m.factor());
            }
        }
    }

    /// Sets the scaling, as if it were that of so many samples.
    pub fn set(&mut self, features: &[(f64, f64)], labels: &[(f64, f64)], samples: f64) {
        let moments = |&(mean, factor): &(f64, f64)| Moments::of(mean, factor, samples);
        self.features = features.iter().map(moments).collect();
        self.labels = labels.iter().map(moments).collect();
        self.now = (features.to_vec(), labels.to_vec());
    }

    /// Mean and factor of every feature, and of every label.
    pub fn now(&self) -> &(Vec<(f64, f64)>, Vec<(f64, f64)>) {
        &self.now
    }

    /// Samples in the network's units.
    pub fn scaled(&self, x: &[f64]) -> Vec<f32> {
        if !self.on {
            return x.iter().map(|v| *v as f32).collect();
        }
        let rows = x.chunks_exact(self.now.0.len().max(1));
        let one = |(v, (mean, factor)): (&f64, &(f64, f64))| {
            ((v - mean) * factor).clamp(-LARGEST, LARGEST) as f32
        };
        rows.flat_map(|row| row.iter().zip(&self.now.0).map(one)).collect()
    }

    /// Labels in the network's units.
    pub fn labels(&self, y: &[f64]) -> Vec<f32> {
        let rows = y.chunks_exact(self.now.1.len().max(1));
        rows.flat_map(|row| row.iter().zip(&self.now.1).map(|(v, (m, f))| ((v - m) * f) as f32))
            .collect()
    }

    /// Outputs in the labels' units.
    pub fn values(&self, z: &[f32]) -> Vec<f64> {
        let rows = z.chunks_exact(self.now.1.len().max(1));
        rows.flat_map(|row| row.iter().zip(&self.now.1).map(|(v, (m, f))| f64::from(*v) / f + m))
            .collect()
    }
}
