//! A network with a filter, its scaling of features, and what it predicts.

use super::setup::{Scaling, Setup};
use super::{AdaptError, Labels, Stream};
use crate::evaluate::{Evaluator, Minibatch};
use crate::filter::{Resumable, Static, fit};
use crate::kernel::{Loss, Reduction, Targets};
use crate::layer::Shape;
use crate::network::Network;
use optfilter::optim::Adam;
use std::ops::Range;

/// What the network says about some samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// Probabilities of all classes, sample by sample.
    Classes(
        /// Rows of probabilities.
        Vec<Vec<f64>>,
    ),
    /// A number per sample.
    Values(
        /// The numbers.
        Vec<f64>,
    ),
}

/// A network that follows a stream.
pub struct Follower {
    network: Network,
    evaluator: Evaluator<f32>,
    filter: Box<dyn Resumable<f32> + Send>,
    scaling: Scaling,
    classes: usize,
    pretrain: usize,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("network", &self.network)
            .field("classes", &self.classes)
            .finish_non_exhaustive()
    }
}

/// Mean, and one over the standard deviation. What is (all but) constant in the first time steps says nothing about its
/// scale, and one over rounding errors would blow it up the day it moves: such a feature keeps its own units.
fn mean_and_factor(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / n;
    let largest = values.clone().fold(0.0, |a: f64, v| a.max(v.abs()));
    let std = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
    (mean, if std > 1e-3 * largest { 1.0 / std } else { 1.0 })
}

/// Scaling by some samples; images are left as they are.
fn scaling_by(stream: &Stream, samples: Range<usize>) -> Scaling {
    let width = stream.shape().len();
    let features = match stream.shape() {
        Shape::Image { .. } => vec![(0.0, 1.0); width],
        Shape::Vector(_) => {
            let x = stream.x(samples.clone());
            (0..width).map(|i| mean_and_factor(x.iter().skip(i).step_by(width).copied())).collect()
        }
    };
    let target = match stream.labels() {
        Labels::Values(v) => mean_and_factor(v[samples].iter().copied()),
        Labels::Classes { .. } => (0.0, 1.0),
    };
    Scaling { features, target }
}

impl Follower {
    /// Scales features by the first `pretrain` time steps (images are left as they are), starts at `weights` or at drawn
    /// ones, and fits those to the first `pretrain` steps.
    pub fn new(
        stream: &Stream,
        setup: &Setup,
        weights: Option<Vec<f32>>,
    ) -> Result<Self, AdaptError> {
        let (classes, outputs) = match stream.labels() {
            Labels::Classes { names, .. } if names.len() == 2 => (2, 1),
            Labels::Classes { names, .. } => (names.len(), names.len()),
            Labels::Values(_) => (0, 1),
        };
        if setup.pretrain >= stream.steps() {
            let (asked, steps) = (setup.pretrain, stream.steps());
            return Err(AdaptError::Setting(format!(
                "{asked} time steps to pre-train on, but the data have {steps}"
            )));
        }
        let network = Network::from_description(&setup.network, stream.shape(), outputs)?;
        let early = stream.range(0..setup.pretrain.max(1));
        let width = stream.shape().len();
        let scaling = match &setup.scaling {
            Some(given) => given.clone(),
            None => scaling_by(stream, early.clone()),
        };
        if scaling.features.len() != width {
            let found = scaling.features.len();
            return Err(AdaptError::Data(format!(
                "the weights are for samples of {found} numbers; the data have {width}"
            )));
        }
        let mut evaluator = Evaluator::new(&network);
        let given = weights.is_some();
        let mut start = match weights {
            Some(weights) => weights,
            None => {
                network.init(&mut optfilter::rng::Stream::new(setup.seed, 0, "initial weights"))
            }
        };
        if start.len() != network.len() {
            let (found, needed) = (start.len(), network.len());
            return Err(AdaptError::Setting(format!("{found} weights for a network of {needed}")));
        }
        let mut follower = Self {
            evaluator: evaluator.clone(),
            filter: Box::new(Static(Vec::new())),
            scaling,
            classes,
            pretrain: setup.pretrain,
            network,
        };
        if setup.pretrain > 0 && !given {
            let (x, labels, values) = follower.prepare(stream, early);
            let batch = follower.batch(&x, &labels, &values, Reduction::Mean)?;
            // Enough for a small network on a first time step; a network that needs more comes with its weights.
            fit(&Adam::new(3e-3)?, &mut evaluator, &batch, &mut start, 500, 1e-4);
        }
        follower.filter = setup.filter(start)?;
        Ok(follower)
    }

    /// First time step that may be judged.
    pub fn first(&self) -> usize {
        self.pretrain
    }
    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// How features and labels are scaled.
    pub fn scaling(&self) -> &Scaling {
        &self.scaling
    }
    /// The weights as they are.
    pub fn weights(&self) -> &[f32] {
        self.filter.weights()
    }

    /// Samples and labels of a range in the network's units.
    pub(super) fn prepare(
        &self,
        stream: &Stream,
        samples: Range<usize>,
    ) -> (Vec<f32>, Vec<u32>, Vec<f32>) {
        let x = self.scaled(stream.x(samples.clone()));
        match stream.labels() {
            Labels::Classes { of, .. } => (x, of[samples].to_vec(), Vec::new()),
            Labels::Values(v) => (
                x,
                Vec::new(),
                v[samples]
                    .iter()
                    .map(|v| ((v - self.scaling.target.0) * self.scaling.target.1) as f32)
                    .collect(),
            ),
        }
    }

    fn scaled(&self, x: &[f64]) -> Vec<f32> {
        x.chunks_exact(self.scaling.features.len().max(1))
            .flat_map(|row| {
                row.iter()
                    .zip(&self.scaling.features)
                    .map(|(v, (mean, factor))| ((v - mean) * factor) as f32)
            })
            .collect()
    }

    pub(super) fn batch<'a>(
        &self,
        x: &'a [f32],
        classes: &'a [u32],
        values: &'a [f32],
        reduction: Reduction,
    ) -> Result<Minibatch<'a, f32>, AdaptError> {
        let (loss, targets) = match self.classes {
            0 => (Loss::SquaredError, Targets::Values(values)),
            2 => (Loss::BinaryCrossEntropy, Targets::Classes(classes)),
            _ => (Loss::SoftmaxCrossEntropy, Targets::Classes(classes)),
        };
        Ok(Minibatch::new(&self.network, x, targets, loss, reduction)?)
    }

    /// Mean loss of some samples at the weights as they are.
    pub(super) fn loss(&mut self, batch: &Minibatch<'_, f32>) -> f64 {
        f64::from(
            self.evaluator
                .loss(self.filter.weights(), &Minibatch { reduction: Reduction::Mean, ..*batch }),
        )
    }

    /// Predicts samples given in the stream's units.
    pub fn predict(&mut self, x: &[f64]) -> Prediction {
        let x = self.scaled(x);
        let outputs = self.network.outputs();
        let mut z = vec![0.0; x.len() / self.scaling.features.len().max(1) * outputs];
        self.evaluator.predict(self.filter.weights(), &x, &mut z);
        match self.classes {
            0 => Prediction::Values(
                z.iter()
                    .map(|v| f64::from(*v) / self.scaling.target.1 + self.scaling.target.0)
                    .collect(),
            ),
            2 => Prediction::Classes(
                z.iter()
                    .map(|v| 1.0 / (1.0 + (-f64::from(*v)).exp()))
                    .map(|p| vec![1.0 - p, p])
                    .collect(),
            ),
            _ => Prediction::Classes(z.chunks_exact(outputs).map(softmax).collect()),
        }
    }

    /// Time passes, then labels arrive.
    pub(super) fn learn(&mut self, batch: &Minibatch<'_, f32>) -> bool {
        self.filter.predict();
        self.filter.update(&mut self.evaluator, batch);
        self.filter.weights().iter().all(|w| w.is_finite())
    }

    /// Learns from samples in the stream's units.
    pub fn learn_from(&mut self, x: &[f64], labels: &Labels) -> Result<(), AdaptError> {
        let x = self.scaled(x);
        let (classes, values) = match labels {
            Labels::Classes { of, .. } => (of.clone(), Vec::new()),
            Labels::Values(v) => (
                Vec::new(),
                v.iter()
                    .map(|v| ((v - self.scaling.target.0) * self.scaling.target.1) as f32)
                    .collect(),
            ),
        };
        let batch = self.batch(&x, &classes, &values, Reduction::Sum)?;
        if !self.learn(&batch) {
            return Err(AdaptError::Diverged { time: f64::NAN });
        }
        Ok(())
    }
}

fn softmax(z: &[f32]) -> Vec<f64> {
    let top = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f64> = z.iter().map(|v| f64::from(v - top).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|v| v / sum).collect()
}
