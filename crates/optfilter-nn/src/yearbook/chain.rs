//! One chain of the experiment: a method with its configuration followed through the years for one seed.

use super::data::Dataset;
use super::published::{BestParticle, noisy_walk};
use super::split::{Part, YearSplit, pretraining_batch};
use super::{Protocol, YearbookError};
use crate::evaluate::{Batch, Evaluator};
use crate::filter::{ImplicitMap, Particle, Static, Variational, WeightFilter};
use crate::kernel::{Loss, Reduction, Targets};
use crate::network::Network;
use optfilter::optim::{Adam, GradientDescent, Optimizer};
use optfilter::rng::Stream;

/// Learning rate of every method and of the pre-training.
pub const LR: f64 = 1e-3;
/// Adam steps of the direct fit and of the variational filter.
pub const LONG: u32 = 1000;

/// A method with its configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// The pre-trained weights.
    Static,
    /// Implicit MAP with K Adam steps.
    ImplicitMap(
        /// K.
        u32,
    ),
    /// 1000 Adam steps.
    DirectFit,
    /// Variational Kalman filter.
    Variational(
        /// sigma^2.
        f64,
    ),
    /// Particle filter.
    Particle(
        /// sigma^2.
        f64,
    ),
}

impl Method {
    /// Its name in the outputs, as in the paper's table.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::ImplicitMap(_) => "IMAP-Adam",
            Self::DirectFit => "direct-fit",
            Self::Variational(_) => "VKF",
            Self::Particle(_) => "PF",
        }
    }
    /// Optimizer steps per year.
    pub fn steps(&self) -> Option<u32> {
        match self {
            Self::ImplicitMap(k) => Some(*k),
            Self::DirectFit | Self::Variational(_) => Some(LONG),
            _ => None,
        }
    }
    /// sigma^2.
    pub fn sigma2(&self) -> Option<f64> {
        match self {
            Self::Variational(s) | Self::Particle(s) => Some(*s),
            _ => None,
        }
    }
    /// Whether both protocols do the same.
    pub fn shared(&self) -> bool {
        self.sigma2().is_none()
    }
    /// Work per year in Adam steps: 1000 forward passes cost about as much as 400 steps.
    pub(crate) fn work(&self, particles: usize) -> f64 {
        match self {
            Self::Static => 1.0,
            Self::Particle(_) => 0.4 * particles as f64,
            _ => f64::from(self.steps().unwrap_or(0)) + 1.0,
        }
    }
}

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
) -> Result<Batch<'a, f32>, YearbookError> {
    let targets = Targets::Classes(&part.labels);
    Ok(Batch::new(network, &part.images, targets, Loss::BinaryCrossEntropy, Reduction::Sum)?)
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

/// Percent of the images whose class the weights name; none for no images.
pub(crate) fn accuracy(
    evaluator: &mut Evaluator<f32>,
    weights: &[f32],
    part: &Part,
) -> Option<f64> {
    if part.labels.is_empty() {
        return None;
    }
    let mut z = vec![0.0; part.labels.len()];
    evaluator.predict(weights, &part.images, &mut z);
    let right = z.iter().zip(&part.labels).filter(|(z, y)| (**z > 0.0) == (**y == 1)).count();
    Some(100.0 * right as f64 / part.labels.len() as f64)
}

/// Accuracies of one year.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YearResult {
    /// The year.
    pub year: i32,
    /// Percent on the test images.
    pub accuracy: f64,
    /// Percent on the validation images, where the year has some.
    pub val_accuracy: Option<f64>,
    /// Number of test images.
    pub n_test: usize,
}

/// The filter of a method.
pub(crate) fn filter(
    method: Method,
    protocol: Protocol,
    weights: Vec<f32>,
    particles: usize,
    seed: u64,
) -> Result<Box<dyn WeightFilter<f32> + Send>, YearbookError> {
    let adam = Adam::new(LR)?;
    Ok(match (method, protocol) {
        (Method::Static, _) => Box::new(Static(weights)),
        (Method::ImplicitMap(k), _) => Box::new(ImplicitMap::new(adam, k, weights)),
        (Method::DirectFit, _) => Box::new(ImplicitMap::direct_fit(adam, weights)),
        (Method::Variational(sigma2), Protocol::Specified) => {
            Box::new(Variational::new(adam, LONG, sigma2, weights)?)
        }
        (Method::Variational(sigma2), Protocol::Published) => Box::new(
            Variational::new(adam, LONG, sigma2, weights)?
                .with_transition(noisy_walk(sigma2, seed)),
        ),
        (Method::Particle(sigma2), Protocol::Specified) => {
            Box::new(Particle::new(particles, sigma2, weights, seed)?)
        }
        (Method::Particle(sigma2), Protocol::Published) => {
            Box::new(BestParticle::new(particles, sigma2, weights, seed))
        }
    })
}

/// Follows a method through the years; `year_done` is called after each and may end the chain by returning false.
pub fn follow(
    data: &Dataset,
    network: &Network,
    seed: &Seed,
    method: Method,
    protocol: Protocol,
    particles: usize,
    year_done: &dyn Fn() -> bool,
) -> Result<Option<Vec<YearResult>>, YearbookError> {
    let mut evaluator = Evaluator::new(network);
    let mut filter = filter(method, protocol, seed.pretrained.clone(), particles, seed.seed)?;
    let mut results = Vec::new();
    for split in &seed.years {
        filter.predict();
        let train = split.train(data);
        if !train.labels.is_empty() {
            filter.update(&mut evaluator, &batch(network, &train)?);
        }
        if let Some(accuracy_now) = accuracy(&mut evaluator, filter.weights(), &split.test(data)) {
            let val_accuracy = accuracy(&mut evaluator, filter.weights(), &split.validation(data));
            let n_test = split.n_test();
            results.push(YearResult {
                year: split.year,
                accuracy: accuracy_now,
                val_accuracy,
                n_test,
            });
        }
        if !year_done() {
            return Ok(None);
        }
    }
    Ok(Some(results))
}
