//! What all chains of a seed share: the splits of the years and the pre-trained weights.

use super::data::Dataset;
use super::error::YearbookError;
use super::method::LR;
use super::split::{Part, YearSplit, pretraining_batch};
use optfilter::optim::{GradientDescent, Optimizer};
use optfilter::rng::Stream;
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};

/// What all chains of a seed share: the splits and the pre-trained weights.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The seed.
    pub seed: u64,
    /// One split per year.
    pub years: Vec<YearSplit>,
    /// Weights after the pre-training.
    pub pretrained: Vec<f32>,
}

/// The summed loss over some images.
pub(crate) fn batch<'a>(
    network: &Network,
    part: &'a Part,
) -> Result<Minibatch<'a, f32>, YearbookError> {
    let targets = Targets::Classes(&part.labels);
    Ok(Minibatch::new(network, &part.images, targets, Loss::BinaryCrossEntropy, Reduction::Sum)?)
}

impl Seed {
    /// Splits the years and pre-trains: 200 steps of gradient descent on the summed loss of 64 images each.
    pub fn new(
        data: &Dataset,
        network: &Network,
        years: &[i32],
        seed: u64,
    ) -> Result<Self, YearbookError> {
        let early: Vec<usize> = (0..data.len()).filter(|i| data.year[*i] <= 1930).collect();
        if early.is_empty() {
            return Err(YearbookError::NoEarlyImages { name: data.name.clone() });
        }
        let mut weights = network.init(&mut Stream::new(seed, 0, "initial weights"));
        let mut evaluator = Evaluator::new(network);
        let mut stream = Stream::new(seed, 0, "pre-training batches");
        let sgd = GradientDescent::new(LR)?;
        let mut state = sgd.init(&weights);
        let mut g = weights.clone();
        for _ in 0..200 {
            let part = pretraining_batch(data, &early, &mut stream);
            evaluator.gradient(&weights, &batch(network, &part)?, &mut g);
            sgd.step(&mut weights, &g, &mut state);
        }
        let years = years.iter().map(|y| YearSplit::new(data, *y, seed)).collect();
        Ok(Self { seed, years, pretrained: weights })
    }
}
