//! A network with a filter (or a bank of them), its scaling of features, and what it predicts.
//!
//! Everything a follower knows can be put aside ([`Follower::save`]) and taken up again bit for bit ([`Follower::load`]). Classes
//! that nobody knew of may join ([`Follower::grow`]). Input that does not fit is an error and changes nothing.

use super::bank::{Bank, probabilities};
use super::outputs::{RARE, all_finite, grown, network_of};
use super::scale::{Scaler, Scaling, mean_and_factor};
use super::score::{Score, judge};
use super::setting::Setting;
use super::setup::{Setup, WeightMethod};
use super::{AdaptError, Labels, Stream};
use crate::evaluate::{Evaluator, Minibatch};
use crate::filter::{Resumable, fit_until};
use crate::kernel::{Loss, Reduction, Targets};
use crate::layer::Shape;
use crate::network::Network;
use optfilter::checkpoint;
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

/// One filter, or a bank of them.
enum Engine {
    Single(Box<dyn Resumable<f32> + Send>),
    Bank(Box<Bank>),
}

/// A network that follows a stream.
pub struct Follower {
    network: Network,
    shape: Shape,
    evaluator: Evaluator<f32>,
    engine: Engine,
    scaler: Scaler,
    classes: usize,
    setup: Setup,
    /// Whether a bank is put back where all of it fails.
    careful: bool,
    /// Samples and labels in the network's units, and its outputs: kept for their memory.
    x: Vec<f32>,
    labels: (Vec<u32>, Vec<f32>),
    outputs: Vec<f32>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("network", &self.network)
            .field("classes", &self.classes)
            .finish_non_exhaustive()
    }
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
    Scaling { features, targets: vec![target] }
}

impl Follower {
    /// Scales features by the first `pretrain` time steps (images are left as they are), starts at `weights` or at drawn
    /// ones, and fits those to the first `pretrain` steps.
    pub fn new(
        stream: &Stream,
        setup: &Setup,
        weights: Option<Vec<f32>>,
    ) -> Result<Self, AdaptError> {
        let classes = match stream.labels() {
            Labels::Classes { names, .. } => names.len().max(2),
            Labels::Values(_) => 0,
        };
        if setup.pretrain >= stream.steps() && setup.pretrain > 0 {
            let (asked, steps) = (setup.pretrain, stream.steps());
            return Err(AdaptError::Setting(format!(
                "{asked} time steps to pre-train on, but the data have {steps}"
            )));
        }
        let early = stream.range(0..setup.pretrain.max(1));
        let mut set = Setup { numbers: 1, ..setup.clone() };
        if set.scaling.is_none() && !set.running_scale {
            set.scaling = Some(scaling_by(stream, early.clone()));
        }
        let given = weights.is_some();
        let mut follower = Self::begin(stream.shape(), classes, &set, weights)?;
        follower.setup.scaling.clone_from(&setup.scaling);
        if setup.pretrain > 0 && !given {
            follower.scaler.see(stream.x(early.clone()));
            if let Labels::Values(values) = stream.labels() {
                follower.scaler.see_labels(&values[early.clone()]);
            }
            if !follower.is_judged() {
                return Ok(follower);
            }
            let labels = stream.labels().part(early.clone());
            follower.check_labels(stream.x(early.clone()), &labels)?;
            follower.load_batch(stream.x(early), &labels);
            // Enough for a small network on a first time step; a network that needs more comes with its weights.
            let time = stream.time(0);
            follower.fit_batch((500, 1e-4), &|| false).map_err(|e| e.at(time))?;
        }
        Ok(follower)
    }

    /// Begins anew from weights fitted to these samples: at most `most` steps of Adam on their mean loss, fewer if it changes by less
    /// than `tolerance` of itself over 20 of them. The scaling has seen them afterwards. If `stop` or infinite numbers
    /// end it, that is an error and nothing has changed.
    pub fn fit(
        &mut self,
        x: &[f64],
        labels: &Labels,
        (most, tolerance): (u32, f64),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), AdaptError> {
        self.check_labels(x, labels)?;
        let aside = self.scaler.clone();
        self.scaler.see(x);
        if let Labels::Values(values) = labels {
            self.scaler.see_labels(values);
        }
        self.load_batch(x, labels);
        let fitted = self.fit_batch((most, tolerance), stop);
        if fitted.is_err() {
            self.scaler = aside;
        }
        fitted
    }

    /// [`Follower::fit`] to the batch that was put in place.
    fn fit_batch(&mut self, budget: (u32, f64), stop: &dyn Fn() -> bool) -> Result<(), AdaptError> {
        let batch = batch(&self.network, self.classes, &self.x, &self.labels, Reduction::Mean)?;
        let diverged = AdaptError::Diverged { time: f64::NAN };
        match &mut self.engine {
            Engine::Bank(bank) => match bank.fit(&batch, budget, stop)? {
                true => Ok(()),
                false => Err(diverged),
            },
            Engine::Single(filter) => {
                let mut start = filter.weights().to_vec();
                let adam = Adam::new(3e-3)?;
                let evaluator = &mut self.evaluator;
                let fitted = fit_until(&adam, evaluator, &batch, &mut start, budget, stop);
                let fitted = fitted.ok_or(AdaptError::Stopped)?;
                if !(budget.0 == 0 || fitted.loss.is_finite()) || !all_finite(&start) {
                    return Err(diverged);
                }
                self.engine = engine(&self.network, &self.setup, start)?;
                Ok(())
            }
        }
    }

    /// A follower of samples of that shape and of so many classes (0: labels are numbers, as many as `setup` says), which has seen nothing yet: the
    /// weights given, or drawn ones; the scaling of `setup`, or one that follows the stream. For those who have no
    /// [`Stream`] but samples that come one after the other.
    pub fn begin(
        shape: Shape,
        classes: usize,
        setup: &Setup,
        weights: Option<Vec<f32>>,
    ) -> Result<Self, AdaptError> {
        let numbers = setup.numbers.max(1);
        if numbers > 1 && setup.method == WeightMethod::Auto {
            let reason = "a bank predicts one number of each sample; choose a filter for several";
            return Err(AdaptError::Setting(reason.into()));
        }
        let network = network_of(&setup.network, shape, classes, numbers)?;
        let scaler = match &setup.scaling {
            Some(given) => Scaler::fixed(given.clone()),
            None => Scaler::running(shape, numbers),
        };
        if scaler.width() != shape.len() {
            let (found, width) = (scaler.width(), shape.len());
            return Err(AdaptError::Data(format!(
                "the weights are for samples of {found} numbers; the data have {width}"
            )));
        }
        if scaler.numbers() != numbers {
            let found = scaler.numbers();
            return Err(AdaptError::Data(format!("a scaling of {found} labels for {numbers}")));
        }
        let given = weights.is_some();
        let start = match weights {
            Some(weights) => weights,
            None => {
                network.init(&mut optfilter::rng::Stream::new(setup.seed, 0, "initial weights"))
            }
        };
        if start.len() != network.len() {
            let (found, needed) = (start.len(), network.len());
            return Err(AdaptError::Setting(format!("{found} weights for a network of {needed}")));
        }
        let mut engine = engine(&network, setup, start)?;
        if let (Engine::Bank(bank), true) = (&mut engine, given) {
            bank.trust_the_weights();
        }
        Ok(Self {
            evaluator: Evaluator::new(&network),
            engine,
            shape,
            scaler,
            classes,
            setup: setup.clone(),
            careful: false,
            network,
            x: Vec::new(),
            labels: (Vec::new(), Vec::new()),
            outputs: Vec::new(),
        })
    }

    /// A time step that leads out of the finite numbers (of a bank: every member) leaves everything as it was, which costs a few percent of a small
    /// bank, and of a single filter a copy of what it knows at every time step. Else, after such an error, the follower must not be used on.
    pub fn carefully(mut self) -> Self {
        self.careful = true;
        self
    }

    /// First time step that may be judged.
    pub fn first(&self) -> usize {
        self.setup.pretrain
    }
    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }
    /// The settings.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
    /// Number of classes; 0 where the label is a number.
    pub fn classes(&self) -> usize {
        self.classes
    }
    /// How features and labels are scaled now.
    pub fn scaling(&self) -> &Scaling {
        self.scaler.scaling()
    }
    /// Another scaling, worth that of so many samples where it follows the stream.
    pub fn set_scaling(&mut self, scaling: Scaling, samples: f64) -> Result<(), AdaptError> {
        let found = (scaling.features.len(), scaling.targets.len());
        if found != (self.scaler.width(), self.scaler.numbers()) {
            let (width, numbers) = (self.scaler.width(), self.scaler.numbers());
            return Err(AdaptError::Data(format!(
                "a scaling of {} features and {} labels; {width} and {numbers} are needed",
                found.0, found.1
            )));
        }
        self.scaler.set(scaling, samples);
        Ok(())
    }
    /// The weights as they are; of a bank, those of the member that predicts best.
    pub fn weights(&self) -> &[f32] {
        match &self.engine {
            Engine::Single(filter) => filter.weights(),
            Engine::Bank(bank) => bank.weights(),
        }
    }
    /// Settings of a bank with their shares in what it predicts, the largest first; nothing of a single filter.
    pub fn shares(&self) -> Vec<(Setting, f64)> {
        match &self.engine {
            Engine::Single(_) => Vec::new(),
            Engine::Bank(bank) => bank.shares(),
        }
    }

    /// Checks samples in the stream's units, so that what follows cannot fail on them.
    fn check(&self, x: &[f64]) -> Result<usize, AdaptError> {
        let width = self.shape.len().max(1);
        if x.is_empty() || !x.len().is_multiple_of(width) {
            let n = x.len();
            return Err(AdaptError::Data(format!(
                "{n} numbers for samples of {width}; the network takes {}",
                self.shape
            )));
        }
        match x.iter().position(|v| !can_be_scaled(*v)) {
            Some(i) => {
                let why = not_scaled(x[i]);
                let (sample, feature) = (i / width, i % width);
                Err(AdaptError::Data(format!("sample {sample}, feature {feature}: {} {why}", x[i])))
            }
            None => Ok(x.len() / width),
        }
    }

    /// Predicts a time step, judges it, and then learns from it; what was predicted is left in `predicted`. Numbers are not judged
    /// before their scale is known: the score is then of no samples.
    pub fn step(
        &mut self,
        time: f64,
        x: &[f64],
        labels: &Labels,
        predicted: &mut Vec<f64>,
    ) -> Result<Score, AdaptError> {
        self.step_until(time, x, labels, predicted, &|| false)
    }

    /// [`Follower::step`], which `stop` ends between two optimizer steps of a single filter.
    pub fn step_until(
        &mut self,
        time: f64,
        x: &[f64],
        labels: &Labels,
        predicted: &mut Vec<f64>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Score, AdaptError> {
        let aside = self.careful.then(|| self.scaler.clone());
        self.forecast(x, predicted)?;
        let score = match self.is_judged() {
            true => judge(time, predicted, labels, self.classes, &self.label_factors(labels)),
            false => Score { time, n: 0, right: 0, squared_error: 0.0, loss: 0.0 },
        };
        let learnt = match score.loss.is_finite() {
            true => self.learn_until(x, labels, stop).map_err(|e| e.at(time)),
            false => Err(AdaptError::Diverged { time }),
        };
        if let (Err(_), Some(aside)) = (&learnt, aside) {
            self.scaler = aside;
        }
        learnt.map(|()| score)
    }

    /// What is predicted of a time step that has come, as [`Follower::look`] has it: a scaling that follows the stream has seen it. On an error
    /// nothing has changed.
    pub fn forecast(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<(), AdaptError> {
        self.check(x)?;
        self.scaler.see(x);
        self.look(x, out)
    }

    /// Probabilities (rows of as many as there are classes) or numbers for samples in the stream's units, into `out`, with
    /// everything as it is: nothing is learnt, not even their scaling.
    pub fn look(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<(), AdaptError> {
        let n = self.check(x)?;
        self.scaler.scale(x, &mut self.x);
        match &mut self.engine {
            Engine::Bank(bank) => bank.predict(&self.x, n, self.classes, out),
            Engine::Single(filter) => {
                let outputs = self.network.outputs();
                self.outputs.resize(n * outputs, 0.0);
                self.evaluator.predict(filter.weights(), &self.x, &mut self.outputs);
                if self.classes > 0 && filter.variance_along(&[]).is_some() {
                    moderate(&**filter, &mut self.evaluator, &self.x, &mut self.outputs);
                }
                let each = if self.classes == 0 { outputs } else { self.classes };
                out.resize(n * each, 0.0);
                let rows = self.outputs.chunks_exact(outputs).zip(out.chunks_exact_mut(each));
                rows.for_each(|(z, row)| probabilities(z, 1.0, self.classes, row));
            }
        }
        if self.classes == 0 {
            self.scaler.values(out);
        }
        Ok(())
    }

    /// What the network of a single filter says itself: log-odds or logits of classes; else as [`Follower::look`] has it. Rows of as many as are
    /// returned.
    pub fn outputs(&mut self, x: &[f64], out: &mut Vec<f64>) -> Result<usize, AdaptError> {
        self.look(x, out)?;
        Ok(match (&self.engine, self.classes) {
            (Engine::Single(_), 1..) => {
                out.clear();
                out.extend(self.outputs.iter().map(|z| f64::from(*z)));
                self.network.outputs()
            }
            (_, 0) => self.network.outputs(),
            (Engine::Bank(_), classes) => classes,
        })
    }

    /// Predicts samples given in the stream's units. Samples that do not fit are predicted as nothing.
    pub fn predict(&mut self, x: &[f64]) -> Prediction {
        self.try_predict(x).unwrap_or_else(|_| match self.classes {
            0 => Prediction::Values(Vec::new()),
            _ => Prediction::Classes(Vec::new()),
        })
    }

    /// Predicts samples given in the stream's units; an error says what does not fit.
    pub fn try_predict(&mut self, x: &[f64]) -> Result<Prediction, AdaptError> {
        let mut out = Vec::new();
        self.forecast(x, &mut out)?;
        Ok(match self.classes {
            0 => Prediction::Values(out),
            classes => {
                Prediction::Classes(out.chunks_exact(classes).map(<[f64]>::to_vec).collect())
            }
        })
    }

    /// Checks samples with their labels.
    fn check_labels(&self, x: &[f64], labels: &Labels) -> Result<(), AdaptError> {
        let n = self.check(x)?;
        let each = if self.classes == 0 { self.scaler.numbers() } else { 1 };
        if labels.len() != n * each {
            return Err(AdaptError::Data(format!("{} labels for {n} samples", labels.len())));
        }
        match (labels, self.classes) {
            (Labels::Classes { of, .. }, 1..) => {
                if let Some(class) = of.iter().find(|c| **c as usize >= self.classes) {
                    let known = self.classes;
                    return Err(AdaptError::Data(format!("class {class} of {known} known ones")));
                }
                Ok(())
            }
            (Labels::Values(values), 0) => {
                if let Some(i) = values.iter().position(|v| !can_be_scaled(*v)) {
                    let why = not_scaled(values[i]);
                    let value = values[i];
                    return Err(AdaptError::Data(format!(
                        "the label of sample {i}, {value}, {why}"
                    )));
                }
                Ok(())
            }
            (_, 0) => {
                let reason = "the labels are classes; this follower predicts numbers";
                Err(AdaptError::Data(reason.into()))
            }
            _ => {
                let reason = "the labels are numbers; this follower predicts classes";
                Err(AdaptError::Data(reason.into()))
            }
        }
    }

    /// Puts samples and labels in the network's units where the next batch is taken from.
    fn load_batch(&mut self, x: &[f64], labels: &Labels) {
        self.labels.0.clear();
        self.labels.1.clear();
        match labels {
            Labels::Classes { of, .. } => self.labels.0.extend_from_slice(of),
            Labels::Values(values) => self.scaler.labels(values, &mut self.labels.1),
        }
        self.scaler.scale(x, &mut self.x);
    }

    /// One over the deviation of labels, these included: after few labels, or many that are all but equal, the first that is different
    /// would else be thousands of deviations off.
    pub(super) fn label_factors(&self, labels: &Labels) -> Vec<f64> {
        match labels {
            Labels::Values(values) => self.scaler.factors_with(values),
            Labels::Classes { .. } => Vec::new(),
        }
    }

    /// Whether predictions can be scored by now: those of numbers once their scale is known, others always.
    pub fn is_judged(&self) -> bool {
        self.classes > 0 || self.scaler.knows_labels()
    }

    /// The labels of what was forecast last come later: [`Follower::settle`] is called when they are due.
    pub(super) fn owe(&mut self) {
        if let Engine::Bank(bank) = &mut self.engine {
            bank.owe();
        }
    }

    /// The labels of the oldest time step that is owed are due, those of the samples in `labelled`; they are learnt from next.
    pub(super) fn settle(&mut self, labelled: &[usize]) {
        if let Engine::Bank(bank) = &mut self.engine {
            bank.settle(labelled);
        }
    }

    /// Time passes without labels: the window moves on, and weights that decay do so.
    pub fn pass(&mut self) {
        match &mut self.engine {
            Engine::Single(filter) => filter.predict(),
            Engine::Bank(bank) => bank.pass(),
        }
    }

    /// Time passes, and samples that were not predicted come with their labels: the members of a bank are judged by them, and all
    /// learn. On an error everything is as it was, if it is kept [carefully](Follower::carefully). `stop` ends it between two optimizer steps of a
    /// single filter.
    pub fn observe(
        &mut self,
        x: &[f64],
        labels: &Labels,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), AdaptError> {
        self.check(x)?;
        let aside = self.scaler.clone();
        self.scaler.see(x);
        let learnt = self.learn_until(x, labels, stop);
        if learnt.is_err() {
            self.scaler = aside;
        }
        learnt
    }

    /// Time passes, and the samples in the stream's units get their labels. The first numbers only say where they are: they are
    /// learnt from once two of them differ.
    pub fn learn_from(&mut self, x: &[f64], labels: &Labels) -> Result<(), AdaptError> {
        self.learn_until(x, labels, &|| false)
    }

    fn learn_until(
        &mut self,
        x: &[f64],
        labels: &Labels,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), AdaptError> {
        self.check_labels(x, labels)?;
        if let Labels::Values(values) = labels {
            self.scaler.see_labels(values);
        }
        if !self.is_judged() {
            self.pass();
            return Ok(());
        }
        self.load_batch(x, labels);
        let batch = batch(&self.network, self.classes, &self.x, &self.labels, Reduction::Sum)?;
        let sound = match &mut self.engine {
            Engine::Bank(bank) => bank.learn(&batch, self.careful)?,
            Engine::Single(filter) => {
                let aside = if self.careful { Some(filter.save()?) } else { None };
                filter.predict();
                let done = filter.update_until(&mut self.evaluator, &batch, stop);
                let sound = done && all_finite(filter.weights());
                if let (false, Some(aside)) = (sound, aside) {
                    filter.load(&aside)?;
                }
                if !done {
                    return Err(AdaptError::Stopped);
                }
                sound
            }
        };
        if sound { Ok(()) } else { Err(AdaptError::Diverged { time: f64::NAN }) }
    }

    /// Makes room for more classes: the outputs of those known stay as they are, new ones begin at a small probability. Memory of
    /// optimizers and windows starts anew; members of a bank keep all else that they know. On an error nothing has changed.
    pub fn grow(&mut self, classes: usize) -> Result<(), AdaptError> {
        if self.classes == 0 || classes <= self.classes {
            return Ok(());
        }
        let network = network_of(&self.setup.network, self.shape, classes, 1)?;
        let grown = match &self.engine {
            Engine::Bank(bank) => Engine::Bank(Box::new(bank.grow(&self.network, &network)?)),
            Engine::Single(filter) => {
                let weights = grown(&self.network, &network, filter.weights(), RARE);
                engine(&network, &self.setup, weights)?
            }
        };
        self.engine = grown;
        self.evaluator = Evaluator::new(&network);
        self.network = network;
        self.classes = classes;
        Ok(())
    }

    /// Everything the follower knows but its settings, for [`Follower::load`].
    pub fn save(&self) -> Result<Vec<u8>, AdaptError> {
        let engine = match &self.engine {
            Engine::Single(filter) => filter.save()?,
            Engine::Bank(bank) => bank.save()?,
        };
        Ok(checkpoint::save("follower/2", &(self.classes, &self.scaler, engine))?)
    }

    /// Takes up what was saved by a follower of the same settings, bit for bit. After an error the follower must not be used on.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), AdaptError> {
        let (classes, scaler, state): (usize, Scaler, Vec<u8>) =
            checkpoint::load("follower/2", bytes)?;
        if (scaler.width(), scaler.numbers()) != (self.scaler.width(), self.scaler.numbers()) {
            let reason = "the checkpoint is of samples or labels of another size";
            return Err(AdaptError::Data(reason.into()));
        }
        self.grow(classes)?;
        match &mut self.engine {
            Engine::Single(filter) => filter.load(&state)?,
            Engine::Bank(bank) => bank.load(&state)?,
        }
        self.scaler = scaler;
        Ok(())
    }
}

/// Largest magnitude of a number: its square is finite, and so is the sum of many. After a larger one no deviation would ever be finite again.
const LARGEST_NUMBER: f64 = 1e150;

fn can_be_scaled(v: f64) -> bool {
    v.abs() <= LARGEST_NUMBER // and not NaN
}

/// What is wrong with a number that cannot be scaled.
fn not_scaled(v: f64) -> &'static str {
    if v.is_finite() { "is larger than 1e150" } else { "is not a finite number" }
}

/// Averages probabilities over the belief: an output z with variance s, by the linearised network, becomes z/sqrt(1 + pi s/8),
/// whose logistic function is close to the mean of that of a normal (MacKay 1992; for more classes, output by output).
fn moderate(
    filter: &(dyn Resumable<f32> + Send),
    evaluator: &mut Evaluator<f32>,
    x: &[f32],
    outputs: &mut [f32],
) {
    let (width, each, d) = (evaluator.sample_len(), evaluator.outputs(), filter.weights().len());
    let (mut z, mut jacobian) = (vec![0.0; each], vec![0.0; each * d]);
    for (sample, out) in x.chunks_exact(width).zip(outputs.chunks_exact_mut(each)) {
        evaluator.jacobian(filter.weights(), sample, &mut z, &mut jacobian);
        for (out, row) in out.iter_mut().zip(jacobian.chunks_exact(d)) {
            let var = filter.variance_along(row).unwrap_or(0.0);
            *out = (f64::from(*out) / (1.0 + std::f64::consts::PI * var / 8.0).sqrt()) as f32;
        }
    }
}

/// The filter or the bank of some settings.
fn engine(network: &Network, setup: &Setup, start: Vec<f32>) -> Result<Engine, AdaptError> {
    Ok(match setup.method {
        WeightMethod::Auto => {
            Engine::Bank(Box::new(Bank::new(network, setup, &start, setup.bank)?))
        }
        _ => Engine::Single(setup.filter(start)?),
    })
}

fn batch<'a>(
    network: &Network,
    classes: usize,
    x: &'a [f32],
    labels: &'a (Vec<u32>, Vec<f32>),
    reduction: Reduction,
) -> Result<Minibatch<'a, f32>, AdaptError> {
    let (loss, targets) = match classes {
        0 => (Loss::SquaredError, Targets::Values(&labels.1[..])),
        2 => (Loss::BinaryCrossEntropy, Targets::Classes(&labels.0[..])),
        _ => (Loss::SoftmaxCrossEntropy, Targets::Classes(&labels.0[..])),
    };
    Ok(Minibatch::new(network, x, targets, loss, reduction)?)
}
