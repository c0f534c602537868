//! A network with working memory: outputs, losses and gradients of batches.
//!
//! One sample goes forward through all stages, and then back, before the next one: its activations stay in the
//! second-level cache. Through networks of dense layers alone a few go together, from one batch or from several, so that weights are read once for
//! all of them. Samples are taken in order and sums are those of one after the other, so a result does not depend on anything but its
//! inputs and the instruction set.

use crate::kernel::{Aligned, BLOCK, Level, Loss, Real, Reduction, Targets};
use crate::network::{Network, NetworkError};
use crate::stage::{Form, Packed, Stage, plan};

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

    /// One sample of it.
    pub fn sample(&self, n: usize, sample_len: usize, outputs: usize) -> Self {
        let targets = match self.targets {
            Targets::Classes(classes) => Targets::Classes(&classes[n..n + 1]),
            Targets::Values(values) => Targets::Values(&values[n * outputs..(n + 1) * outputs]),
        };
        Self { samples: &self.samples[n * sample_len..(n + 1) * sample_len], targets, ..*self }
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
    /// Most samples that go together.
    block: usize,
    /// Derivative of the loss by the outputs.
    slope: Vec<E>,
}

impl<E: Real> Evaluator<E> {
    /// At the best instruction set of this machine.
    pub fn new(network: &Network) -> Self {
        Self::at_level(network, Level::detect())
    }

    /// At a given instruction set (or the best below it that is there).
    pub fn at_level(network: &Network, level: Level) -> Self {
        let (form, stages) = plan(network, level);
        let dense = !stages.is_empty() && stages.iter().all(Stage::puts);
        let block = if dense { BLOCK } else { 1 };
        Self {
            level,
            sample_len: network.input().len(),
            outputs: network.outputs(),
            form,
            input: Aligned::zeros(block * form.len()),
            stages,
            block,
            slope: vec![E::zero(); network.outputs()],
        }
    }

    /// The instruction set it runs on.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Numbers of a sample.
    pub fn sample_len(&self) -> usize {
        self.sample_len
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of samples in a batch.
    pub fn count(&self, batch: &Minibatch<'_, E>) -> usize {
        batch.samples.len() / self.sample_len.max(1)
    }

    fn load(&mut self, weights: &[E], transpose: bool) {
        // Nothing goes back beyond the first stage with weights, so that one's transpose is not needed.
        let mut first = true;
        for packed in self.stages.iter_mut().filter_map(Stage::weights) {
            packed.load(self.level, weights, transpose && !first);
            first = false;
        }
    }

    /// Puts a sample in place `row` of the block.
    fn take(&mut self, row: usize, sample: &[E]) {
        let len = self.form.len();
        self.form.read(sample, &mut self.input[row * len..(row + 1) * len]);
    }

    /// Takes the first `count` samples of the block forward.
    fn forward(&mut self, weights: &[E], count: usize, keep: bool) {
        for s in 0..self.stages.len() {
            let (before, rest) = self.stages.split_at_mut(s);
            let x = before.last().map_or(&self.input[..], |stage| &stage.out[..]);
            rest[0].forward(self.level, weights, count, x, keep);
        }
    }

    /// The outputs of a sample of the block; of a network without layers, the sample.
    fn outputs_of(&self, row: usize) -> &[E] {
        match self.stages.last() {
            Some(stage) => &stage.out[row * stage.output.len()..][..self.outputs],
            None => &self.input[..self.outputs],
        }
    }

    /// Writes the outputs of every sample.
    pub fn predict(&mut self, weights: &[E], samples: &[E], out: &mut [E]) {
        self.load(weights, false);
        let (width, each) = (self.block * self.sample_len, self.block * self.outputs);
        for (samples, out) in samples.chunks(width).zip(out.chunks_mut(each)) {
            let count = samples.len() / self.sample_len;
            for (row, x) in samples.chunks_exact(self.sample_len).enumerate() {
                self.take(row, x);
            }
            self.forward(weights, count, false);
            for (row, z) in out.chunks_exact_mut(self.outputs).take(count).enumerate() {
                z.copy_from_slice(self.outputs_of(row));
            }
        }
    }

    /// The loss of a batch.
    pub fn loss(&mut self, weights: &[E], batch: &Minibatch<'_, E>) -> E {
        self.loss_over(weights, &[(*batch, E::one())])
    }

    /// The loss of several batches, each with a factor: their weighted sum, or (reduction of the first) the weighted mean.
    pub fn loss_over(&mut self, weights: &[E], parts: &[(Minibatch<'_, E>, E)]) -> E {
        self.over(weights, parts, None, true)
    }

    /// The loss of a batch; its derivative by the weights goes to `out`.
    pub fn gradient(&mut self, weights: &[E], batch: &Minibatch<'_, E>, out: &mut [E]) -> E {
        self.gradient_over(weights, &[(*batch, E::one())], out)
    }

    /// [`Evaluator::loss_over`], and its derivative by the weights.
    pub fn gradient_over(
        &mut self,
        weights: &[E],
        parts: &[(Minibatch<'_, E>, E)],
        out: &mut [E],
    ) -> E {
        self.over(weights, parts, Some(out), true)
    }

    /// The derivative alone.
    pub fn slope_over(&mut self, weights: &[E], parts: &[(Minibatch<'_, E>, E)], out: &mut [E]) {
        self.over(weights, parts, Some(out), false);
    }

    /// Every sample forward, and back as well where a derivative is asked for; the loss is zero where it is not asked for.
    fn over(
        &mut self,
        weights: &[E],
        parts: &[(Minibatch<'_, E>, E)],
        mut out: Option<&mut [E]>,
        value: bool,
    ) -> E {
        self.load(weights, out.is_some());
        if out.is_some() {
            self.sums().for_each(|p| p.clear());
        }
        let (mut sum, mut count, mut begun) = (value.then(E::zero), 0.0, false);
        // Samples of the block: which of which part.
        let (mut held, mut filled) = ([(0, 0); BLOCK], 0);
        for (p, (batch, factor)) in parts.iter().enumerate() {
            for (n, x) in batch.samples.chunks_exact(self.sample_len).enumerate() {
                self.take(filled, x);
                held[filled] = (p, n);
                filled += 1;
                if filled == self.block {
                    self.through(
                        (weights, parts),
                        &held[..filled],
                        &mut sum,
                        (out.as_deref_mut(), begun),
                    );
                    (filled, begun) = (0, true);
                }
            }
            count += factor.to_double() * self.count(batch) as f64;
        }
        if filled > 0 {
            self.through((weights, parts), &held[..filled], &mut sum, (out.as_deref_mut(), begun));
            begun = true;
        }
        let scale = scale(parts, count);
        if let Some(out) = out {
            if !begun {
                out.fill(E::zero()); // there was no sample
            }
            self.finish(scale, out);
        }
        sum.map_or(E::zero(), |sum| sum * scale)
    }

    /// The samples of the block forward, their losses to `sum` if there is one, and back where a derivative is asked for: written, or added to others.
    fn through(
        &mut self,
        (weights, parts): (&[E], &[(Minibatch<'_, E>, E)]),
        held: &[(usize, usize)],
        sum: &mut Option<E>,
        (out, add): (Option<&mut [E]>, bool),
    ) {
        self.forward(weights, held.len(), out.is_some());
        let mut dz = std::mem::take(&mut self.slope);
        for (row, &(p, n)) in held.iter().enumerate() {
            let (batch, factor) = &parts[p];
            let (z, targets) = (self.outputs_of(row), batch.targets);
            match sum {
                Some(sum) => *sum += *factor * batch.loss.sample(z, targets, n, &mut dz),
                None => batch.loss.slope(z, targets, n, &mut dz),
            }
            if out.is_some() {
                if *factor != E::one() {
                    dz.iter_mut().for_each(|d| *d = *d * *factor);
                }
                self.slope_at(row, &dz);
            }
        }
        self.slope = dz;
        if let Some(out) = out {
            self.back(held.len(), (out, add));
        }
    }

    /// Sets the derivative by the outputs of a sample of the block.
    fn slope_at(&mut self, row: usize, dz: &[E]) {
        if let Some(stage) = self.stages.last_mut() {
            let len = stage.output.len();
            let to = &mut stage.dout[row * len..(row + 1) * len];
            to.fill(E::zero());
            to[..dz.len()].copy_from_slice(dz);
        }
    }

    /// The weights of the stages that sum derivatives up in a layout of their own.
    fn sums(&mut self) -> impl Iterator<Item = &mut Packed<E>> {
        self.stages.iter_mut().filter(|stage| !stage.puts()).filter_map(Stage::weights)
    }

    /// Brings all derivatives to their places, times `scale`.
    fn finish(&mut self, scale: E, out: &mut [E]) {
        self.sums().for_each(|packed| packed.unload(scale, out));
        if scale != E::one() {
            let put = self.stages.iter_mut().filter(|stage| stage.puts());
            put.filter_map(Stage::weights).for_each(|packed| packed.rescale(scale, out));
        }
    }

    /// Takes the derivatives by the outputs of `count` samples back to the weights, where they are added, or written to `flat` (or added there).
    fn back(&mut self, count: usize, (flat, add): (&mut [E], bool)) {
        // A stage passes its derivative on only if some stage before it has weights.
        let first = self.stages.iter_mut().position(|s| s.weights().is_some()).unwrap_or(0);
        for s in (first..self.stages.len()).rev() {
            let (before, rest) = self.stages.split_at_mut(s);
            let (x, dx) = match before.last_mut() {
                Some(stage) => (&stage.out[..], (s > first).then_some(&mut stage.dout[..])),
                None => (&self.input[..], None),
            };
            rest[0].backward(self.level, count, x, dx, (&mut *flat, add));
        }
    }

    /// Outputs of one sample, and the derivative of each by every weight: `jacobian` is outputs x weights, row by row.
    pub fn jacobian(&mut self, weights: &[E], sample: &[E], out: &mut [E], jacobian: &mut [E]) {
        self.load(weights, true);
        let mut dz = std::mem::take(&mut self.slope);
        for (o, row) in jacobian.chunks_exact_mut(weights.len().max(1)).enumerate() {
            // Activations are overwritten on the way back, so each output goes forward anew.
            self.take(0, sample);
            self.forward(weights, 1, true);
            out.copy_from_slice(self.outputs_of(0));
            self.sums().for_each(|p| p.clear());
            dz.fill(E::zero());
            dz[o] = E::one();
            self.slope_at(0, &dz);
            self.back(1, (&mut *row, false));
            self.finish(E::one(), row);
        }
        self.slope = dz;
    }
}

/// Of a sum 1, of a mean one over the weighted number of samples.
fn scale<E: Real>(parts: &[(Minibatch<'_, E>, E)], count: f64) -> E {
    match parts.first().map(|(batch, _)| batch.reduction) {
        Some(Reduction::Mean) => E::one() / E::of(if count > 0.0 { count } else { 1.0 }),
        _ => E::one(),
    }
}
