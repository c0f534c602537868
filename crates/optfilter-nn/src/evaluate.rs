//! A network with working memory: outputs, losses and gradients of batches.
//!
//! One sample goes forward through all stages, and then back, before the next one: its activations stay in the
//! second-level cache. Samples are taken in order, so a result does not depend on anything but its inputs and the
//! instruction set.

use crate::kernel::{Aligned, Level, Loss, Real, Reduction, Targets};
use crate::network::{Network, NetworkError};
use crate::stage::{Form, Stage, plan};

/// Samples and labels, checked against a network.
#[derive(Clone, Copy, Debug)]
pub struct Minibatch<'a, E> {
    /// The samples, one after the other.
    pub samples: &'a [E],
    /// Their labels.
    pub targets: Targets<'a, E>,
    /// What is minimised.
    pub loss: Loss,
    /// Over the batch: sum or mean.
    pub reduction: Reduction,
}

impl<'a, E: Real> Minibatch<'a, E> {
    /// Checks sizes and labels once, so that no evaluation has to.
    pub fn new(
        network: &Network,
        samples: &'a [E],
        targets: Targets<'a, E>,
        loss: Loss,
        reduction: Reduction,
    ) -> Result<Self, NetworkError> {
        let outputs = network.outputs();
        match (loss, targets) {
            (Loss::SquaredError, Targets::Classes(_)) => {
                return Err(NetworkError::Labels {
                    loss: "squared error",
                    needs: "numbers, not classes",
                });
            }
            (Loss::BinaryCrossEntropy | Loss::SoftmaxCrossEntropy, Targets::Values(_)) => {
                return Err(NetworkError::Labels {
                    loss: "cross-entropy",
                    needs: "classes, not numbers",
                });
            }
            (Loss::BinaryCrossEntropy, _) if outputs != 1 => {
                let what = "outputs for binary cross-entropy";
                return Err(NetworkError::Size { what, found: outputs, expected: 1 });
            }
            _ => {}
        }
        if let Targets::Classes(classes) = targets {
            let last = if loss == Loss::BinaryCrossEntropy { 1 } else { outputs - 1 };
            if let Some((sample, &class)) =
                classes.iter().enumerate().find(|(_, c)| **c as usize > last)
            {
                return Err(NetworkError::Class { sample, class, last });
            }
        }
        let (found, expected) = (samples.len(), targets.len(outputs) * network.input().len());
        if found != expected {
            return Err(NetworkError::Size { what: "numbers in the samples", found, expected });
        }
        Ok(Self { samples, targets, loss, reduction })
    }
}

/// A network with its working memory; reused from call to call, one per thread.
#[derive(Clone, Debug)]
pub struct Evaluator<E: Real> {
    level: Level,
    sample_len: usize,
    outputs: usize,
    form: Form,
    input: Aligned<E>,
    stages: Vec<Stage<E>>,
}

impl<E: Real> Evaluator<E> {
    /// At the best instruction set of this machine.
    pub fn new(network: &Network) -> Self {
        Self::at_level(network, Level::detect())
    }

    /// At a given instruction set (or the best below it that is there).
    pub fn at_level(network: &Network, level: Level) -> Self {
        let (form, stages) = plan(network, level);
        Self {
            level,
            sample_len: network.input().len(),
            outputs: network.outputs(),
            form,
            input: Aligned::zeros(form.len()),
            stages,
        }
    }

    /// Number of samples in a batch.
    pub fn count(&self, batch: &Minibatch<'_, E>) -> usize {
        batch.samples.len() / self.sample_len.max(1)
    }

    fn load(&mut self, weights: &[E], transpose: bool) {
        for stage in &mut self.stages {
            if let Some(packed) = stage.weights() {
                packed.load(weights, transpose);
            }
        }
    }

    fn sample(&mut self, sample: &[E], keep: bool) {
        self.form.read(sample, &mut self.input);
        for s in 0..self.stages.len() {
            let (before, rest) = self.stages.split_at_mut(s);
            let x = before.last().map_or(&self.input[..], |stage| &stage.out[..]);
            rest[0].forward(self.level, x, keep);
        }
    }

    /// The outputs of the last sample; of a network without layers, the sample.
    fn last(&self) -> &[E] {
        self.stages.last().map_or(&self.input[..self.outputs], |stage| &stage.out[..self.outputs])
    }

    /// Writes the outputs of every sample.
    pub fn predict(&mut self, weights: &[E], samples: &[E], out: &mut [E]) {
        self.load(weights, false);
        for (x, z) in samples.chunks_exact(self.sample_len).zip(out.chunks_exact_mut(self.outputs))
        {
            self.sample(x, false);
            z.copy_from_slice(self.last());
        }
    }

    /// The loss of a batch.
    pub fn loss(&mut self, weights: &[E], batch: &Minibatch<'_, E>) -> E {
        self.load(weights, false);
        let mut scrap = vec![E::zero(); self.outputs];
        let (mut sum, mut count) = (E::zero(), 0);
        for (n, x) in batch.samples.chunks_exact(self.sample_len).enumerate() {
            self.sample(x, false);
            sum += batch.loss.sample(self.last(), batch.targets, n, &mut scrap);
            count = n + 1;
        }
        sum * scale(batch.reduction, count)
    }

    /// The loss of a batch; its derivative by the weights goes to `out`.
    pub fn gradient(&mut self, weights: &[E], batch: &Minibatch<'_, E>, out: &mut [E]) -> E {
        self.load(weights, true);
        self.stages.iter_mut().filter_map(Stage::weights).for_each(|p| p.clear());
        let mut dz = vec![E::zero(); self.outputs];
        let (mut sum, mut count) = (E::zero(), 0);
        // A stage passes its derivative on only if some stage before it has weights.
        let first = self.stages.iter_mut().position(|s| s.weights().is_some()).unwrap_or(0);
        for (n, x) in batch.samples.chunks_exact(self.sample_len).enumerate() {
            self.sample(x, true);
            sum += batch.loss.sample(self.last(), batch.targets, n, &mut dz);
            count = n + 1;
            if let Some(stage) = self.stages.last_mut() {
                stage.dout.fill(E::zero());
                stage.dout[..dz.len()].copy_from_slice(&dz);
            }
            for s in (first..self.stages.len()).rev() {
                let (before, rest) = self.stages.split_at_mut(s);
                let (x, dx) = match before.last_mut() {
                    Some(stage) => (&stage.out[..], (s > first).then_some(&mut stage.dout[..])),
                    None => (&self.input[..], None),
                };
                rest[0].backward(self.level, x, dx);
            }
        }
        let scale = scale(batch.reduction, count);
        for packed in self.stages.iter_mut().filter_map(Stage::weights) {
            packed.unload(scale, out);
        }
        sum * scale
    }
}

fn scale<E: Real>(reduction: Reduction, count: usize) -> E {
    match reduction {
        Reduction::Sum => E::one(),
        Reduction::Mean => E::one() / E::of(count.max(1) as f64),
    }
}
