//! One member of a [bank](super::bank): a filter with a setting of its own, the evidence for it, and how sure it should be.

use super::setting::Setting;
use crate::evaluate::Minibatch;
use crate::filter::Resumable;
use crate::kernel::Loss;
use optfilter::checkpoint::CheckpointError;

/// A filter of a bank, and how well it has predicted.
pub(super) struct Member {
    pub(super) setting: Setting,
    pub(super) filter: Box<dyn Resumable<f32> + Send>,
    pub(super) evidence: f64,
    /// Which of the bank's networks.
    pub(super) net: usize,
    /// Whether it stays whatever happens: after a sudden change somebody quick must still be there.
    pub(super) anchor: bool,
    /// Running mean of squared errors, in the network's units.
    pub(super) square: f64,
    /// Factor of the outputs before the softmax: one over the temperature.
    pub(super) sharpness: f64,
    /// Running mean of the squared slope that it is learnt from.
    pub(super) slope_square: f64,
    /// Samples seen.
    pub(super) age: u64,
    /// Outputs for the samples predicted last.
    pub(super) outputs: Vec<f32>,
}

impl Member {
    pub(super) fn new(
        setting: Setting,
        net: usize,
        filter: Box<dyn Resumable<f32> + Send>,
        evidence: f64,
    ) -> Self {
        let outputs = Vec::new();
        Self {
            setting,
            net,
            filter,
            evidence,
            anchor: false,
            square: 1.0,
            sharpness: 1.0,
            slope_square: 1.0,
            age: 0,
            outputs,
        }
    }

    /// Learns the temperature: a step against the slope of the loss by the logarithm of the sharpness, in units of its usual size.
    /// (Cutting large slopes off instead would make members too sure where labels are noisy.)
    fn temper(&mut self, slope: f64, rate: f64) {
        let slope = self.sharpness * slope;
        self.slope_square += 0.01 * (slope * slope - self.slope_square);
        let step = rate * slope / self.slope_square.sqrt().max(1e-6);
        self.sharpness = (self.sharpness * (-step).exp()).clamp(0.01, 2.0);
    }

    /// The logarithm of the probability that sample `i` was given, from which its variance or temperature is learnt at the
    /// rate `temper`. `scaled` and `slopes` are scratch, an output each.
    pub(super) fn judge(
        &mut self,
        batch: &Minibatch<'_, f32>,
        i: usize,
        temper: f64,
        (scaled, slopes): (&mut [f32], &mut [f32]),
    ) -> f64 {
        let each = scaled.len();
        let z = &self.outputs[i * each..(i + 1) * each];
        let sharpness = if batch.loss == Loss::SquaredError { 1.0 } else { self.sharpness };
        for (to, z) in scaled.iter_mut().zip(z) {
            *to = *z * sharpness as f32;
        }
        let loss = f64::from(batch.loss.sample(scaled, batch.targets, i, slopes));
        if batch.loss == Loss::SquaredError {
            // Half the squared error is the loss; under a normal with the member's own variance.
            let gained = -(loss / self.square + 0.5 * self.square.ln());
            self.square = (0.99 * self.square + 0.01 * 2.0 * loss).max(1e-12);
            return gained;
        }
        let slope = slopes.iter().zip(z).map(|(d, z)| f64::from(*d) * f64::from(*z)).sum();
        self.temper(slope, temper);
        // A member that is certain and wrong is not out for ever.
        -loss.min(20.0)
    }

    /// How badly the outputs as they are say the labels, in nats; nothing is learnt from it.
    pub(super) fn surprise(
        &self,
        batch: &Minibatch<'_, f32>,
        (scaled, slopes): (&mut [f32], &mut [f32]),
    ) -> f64 {
        let squared = batch.loss == Loss::SquaredError;
        let (sharpness, unit) = if squared { (1.0, self.square) } else { (self.sharpness, 1.0) };
        let mut sum = 0.0;
        for (i, z) in self.outputs.chunks_exact(scaled.len()).enumerate() {
            scaled.iter_mut().zip(z).for_each(|(to, z)| *to = *z * sharpness as f32);
            sum += f64::from(batch.loss.sample(scaled, batch.targets, i, slopes)) / unit;
        }
        sum
    }

    /// All but what it is.
    pub(super) fn aside(&self) -> Result<Aside, CheckpointError> {
        let tempered = (self.sharpness, self.slope_square);
        Ok((self.filter.save()?, self.evidence, self.square, tempered, self.age))
    }

    /// Takes up what was put aside; on an error nothing has changed.
    pub(super) fn take_up(&mut self, aside: &Aside) -> Result<(), CheckpointError> {
        let (filter, evidence, square, tempered, age) = aside;
        self.filter.load(filter)?;
        (self.evidence, self.square, self.age) = (*evidence, *square, *age);
        (self.sharpness, self.slope_square) = *tempered;
        Ok(())
    }
}

/// What a member knows: its filter, evidence, variance, sharpness with its slope, and age.
pub(super) type Aside = (Vec<u8>, f64, f64, (f64, f64), u64);
