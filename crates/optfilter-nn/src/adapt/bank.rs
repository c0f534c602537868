//! A bank of settings side by side: nobody has to choose a learning rate.
//!
//! Every member is a filter over weights of its own (optimizer, rate, K, L, memory). What the bank predicts is the mixture
//!
//! ```text
//! p(y) = sum_i v_i p_i(y),   v_i proportional to exp(e_i),   e_i <- f e_i + ln p_i(y)   when y becomes known
//! ```
//!
//! where `p_i` is the member's softmax at a temperature of its own, learnt from the same labels: a member with a large rate is quick
//! and too sure of itself, and once that is corrected it is worth listening to. `f` is the discount of evidence per sample: a member counts by how well it has predicted *lately* (for numbers, `p_i` is normal
//! with the member's own running variance). From time to time the member with the least evidence, if it is clearly behind,
//! is dropped (but for a few anchors, which stay so that somebody is quick after a sudden change), and a variation of the best one takes its place: another rate, another K, another window, memory carried or not,
//! starting from the weights of the best with a little less evidence. A member whose weights leave the finite numbers is replaced at once.
//!
//! Beside the network asked for a linear one is always tried: it costs next to nothing, and where labels follow each other it is
//! often the best.
//!
//! Work and memory are those of the members together; a bank of [`BankOptions::size`] members costs about that many
//! single filters. The draws of variations come from a stream named by the seed, so that a run can be repeated and resumed.
//!
//! Kin: dynamic model averaging (Raftery, Karny and Ettler 2010), whose forgetting this is; population-based training (Jaderberg
//! et al. 2017) for the replacement.

use super::AdaptError;
use super::setup::{Setup, WeightMethod};
use crate::evaluate::{Evaluator, Minibatch};
use crate::filter::{Memory, Resumable, Window};
use crate::kernel::Loss;
use crate::network::Network;
use optfilter::checkpoint::{self, CheckpointError};
use optfilter::rng::Stream;
use serde::{Deserialize, Serialize};

/// How a bank is kept. The defaults were chosen on the SEA and weather streams and on generated ones, and on nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BankOptions {
    /// Discount of evidence per sample.
    pub forget: f64,
    /// Number of members.
    pub size: usize,
    /// Samples between two trials of something new.
    pub patience: u64,
    /// Rate at which temperatures are learnt.
    pub temper: f64,
}

impl Default for BankOptions {
    fn default() -> Self {
        Self { forget: 0.995, size: 5, patience: 300, temper: 0.003 }
    }
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the optimizer.
    pub optimizer: String,
    /// Learning rate.
    pub lr: f64,
    /// K.
    pub steps: u32,
    /// How far back.
    pub window: Window,
    /// Whether the optimizer's memory is carried.
    pub carry: bool,
}

impl Setting {
    /// One step per time step, no window.
    pub fn new(optimizer: &str, lr: f64, carry: bool) -> Self {
        Self { optimizer: optimizer.into(), lr, steps: 1, window: Window::default(), carry }
    }

    /// As settings of a single filter.
    pub fn setup(&self, base: &Setup) -> Setup {
        Setup {
            method: WeightMethod::ImplicitMap { steps: self.steps },
            optimizer: self.optimizer.clone(),
            lr: self.lr,
            memory: if self.carry { Memory::Carry } else { Memory::Restart },
            window: self.window,
            ..base.clone()
        }
    }

    /// In a few words.
    pub fn label(&self) -> String {
        let mut words = format!("{} K={} lr={:.2e}", self.optimizer, self.steps, self.lr);
        if self.window.length() > 0 {
            words += &format!(" L={}", self.window.length());
        }
        if self.carry {
            words += " carried";
        }
        words
    }

    /// A neighbour: one thing is different.
    fn varied(&self, draw: &mut Stream) -> Self {
        let mut other = self.clone();
        match (draw.uniform() * 8.0) as u32 {
            0 | 1 => other.lr *= 3.0,
            2 | 3 => other.lr /= 3.0,
            4 => other.steps = if self.steps == 1 { 3 } else { 1 },
            5 => {
                let length = if self.window.length() == 0 { 3 } else { 0 };
                other.window = Window::new(length, 0.8).unwrap_or_default();
            }
            6 if self.optimizer == "adam" => other.carry = !self.carry,
            _ => {
                // The rates of gradient descent and of Adam are of different sizes.
                let (name, factor) = match self.optimizer.as_str() {
                    "adam" => ("gd", 30.0),
                    _ => ("adam", 1.0 / 30.0),
                };
                (other.optimizer, other.lr) = (name.into(), self.lr * factor);
                other.carry = name == "adam"; // gradient descent has no memory
            }
        }
        other.lr = other.lr.clamp(1e-6, 30.0);
        other
    }
}

struct Member {
    setting: Setting,
    filter: Box<dyn Resumable<f32> + Send>,
    evidence: f64,
    /// Which of the bank's networks.
    net: usize,
    /// Whether it stays whatever happens: after a sudden change somebody quick must still be there.
    anchor: bool,
    /// Running mean of squared errors, in the network's units.
    square: f64,
    /// Factor of the outputs before the softmax: one over the temperature.
    sharpness: f64,
    /// Running mean of the squared slope that it is learnt from.
    slope_square: f64,
    /// Samples seen.
    age: u64,
    /// Outputs for the samples predicted last.
    outputs: Vec<f32>,
}

impl Member {
    fn new(
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
}

/// Members of the network asked for that are never dropped for being behind.
const ANCHORS: usize = 3;
/// Linear members beside those of another network.
const LINEAR: usize = 3;

/// A bank of filters over one network.
pub(super) struct Bank {
    base: Setup,
    options: BankOptions,
    members: Vec<Member>,
    /// The network asked for first, then a linear one.
    evaluators: Vec<Evaluator<f32>>,
    outputs: usize,
    /// Samples that `outputs` of the members belong to.
    predicted: Vec<f32>,
    /// Samples learnt from, and those at the last trial.
    seen: u64,
    tried: u64,
}

/// What is kept of a member between two runs.
type KeptMember = (Setting, (usize, bool), Vec<u8>, f64, f64, (f64, f64), u64);

impl Bank {
    pub fn new(
        network: &Network,
        base: &Setup,
        start: &[f32],
        options: BankOptions,
    ) -> Result<Self, AdaptError> {
        let linear = Network::from_description("linear", network.input(), network.outputs())?;
        let alone = base.network == "linear";
        let mut plan: Vec<(usize, Setting)> =
            first(options.size, alone).into_iter().map(|setting| (0, setting)).collect();
        let mut evaluators = vec![Evaluator::new(network)];
        if !alone {
            plan.extend(first(LINEAR, true).into_iter().map(|setting| (1, setting)));
            evaluators.push(Evaluator::new(&linear));
        }
        let mut members = Vec::new();
        let mut anchors = [ANCHORS, 2];
        for (net, setting) in plan {
            let start = if net == 0 { start.to_vec() } else { vec![0.0; linear.len()] };
            let filter = setting.setup(base).filter(start)?;
            let anchor = anchors[net] > 0;
            anchors[net] = anchors[net].saturating_sub(1);
            members.push(Member { anchor, ..Member::new(setting, net, filter, 0.0) });
        }
        Ok(Self {
            base: base.clone(),
            options,
            members,
            evaluators,
            outputs: network.outputs(),
            predicted: Vec::new(),
            seen: 0,
            tried: 0,
        })
    }

    /// The member with most evidence.
    fn best(&self) -> usize {
        let better = |a: usize, b: usize| self.members[b].evidence > self.members[a].evidence;
        (0..self.members.len()).fold(0, |a, b| if better(a, b) { b } else { a })
    }

    /// Weights of the member with most evidence among those of the network asked for.
    pub fn weights(&self) -> &[f32] {
        let mine = self.members.iter().filter(|m| m.net == 0);
        let best = mine.max_by(|a, b| a.evidence.total_cmp(&b.evidence));
        best.map_or(&[], |m| m.filter.weights())
    }

    /// Settings and their shares in the mixture, the largest first.
    pub fn shares(&self) -> Vec<(Setting, f64)> {
        let shares = self.mixture();
        let mut all: Vec<_> = self.members.iter().map(|m| m.setting.clone()).zip(shares).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    fn mixture(&self) -> Vec<f64> {
        let top = self.members[self.best()].evidence;
        let raw: Vec<f64> = self.members.iter().map(|m| (m.evidence - top).exp()).collect();
        let sum: f64 = raw.iter().sum();
        raw.iter().map(|v| v / sum).collect()
    }

    fn run(&mut self, x: &[f32], n: usize) {
        for member in &mut self.members {
            member.outputs.resize(n * self.outputs, 0.0);
            self.evaluators[member.net].predict(member.filter.weights(), x, &mut member.outputs);
        }
        self.predicted.clear();
        self.predicted.extend_from_slice(x);
    }

    /// Probabilities of `classes` classes per sample, or numbers in the network's units (`classes` 0), into `out`.
    pub fn predict(&mut self, x: &[f32], n: usize, classes: usize, out: &mut Vec<f64>) {
        self.run(x, n);
        out.clear();
        out.resize(n * classes.max(1), 0.0);
        let mut row = vec![0.0; classes.max(1)];
        for (share, member) in self.mixture().into_iter().zip(&self.members) {
            if share < 1e-9 {
                continue;
            }
            for (z, out) in
                member.outputs.chunks_exact(self.outputs).zip(out.chunks_exact_mut(classes.max(1)))
            {
                probabilities(z, member.sharpness, classes, &mut row);
                out.iter_mut().zip(&row).for_each(|(o, p)| *o += share * p);
            }
        }
    }

    /// Time passes, labels arrive. False if no member has finite weights.
    pub fn learn(&mut self, batch: &Minibatch<'_, f32>) -> Result<bool, AdaptError> {
        let n = self.evaluators[0].count(batch);
        if self.predicted != batch.samples {
            self.run(batch.samples, n);
        }
        let keep = self.options.forget.powf(n as f64);
        let mut scaled = vec![0.0; self.outputs];
        let mut slopes = vec![0.0; self.outputs];
        for m in &mut self.members {
            let mut gained = 0.0;
            for i in 0..n {
                let z = &m.outputs[i * self.outputs..(i + 1) * self.outputs];
                let sharpness = if batch.loss == Loss::SquaredError { 1.0 } else { m.sharpness };
                for (to, z) in scaled.iter_mut().zip(z) {
                    *to = *z * sharpness as f32;
                }
                let loss = f64::from(batch.loss.sample(&scaled, batch.targets, i, &mut slopes));
                if batch.loss == Loss::SquaredError {
                    // Half the squared error is the loss; under a normal with the member's own variance.
                    gained -= loss / m.square + 0.5 * m.square.ln();
                    m.square = (0.99 * m.square + 0.01 * 2.0 * loss).max(1e-12);
                } else {
                    // A member that is certain and wrong is not out for ever.
                    gained -= loss.min(20.0);
                    let slope: f64 =
                        slopes.iter().zip(z).map(|(d, z)| f64::from(*d) * f64::from(*z)).sum();
                    m.temper(slope, self.options.temper);
                }
            }
            m.evidence = m.evidence * keep + gained;
            m.age += n as u64;
            m.filter.predict();
            m.filter.update(&mut self.evaluators[m.net], batch);
            let sound = super::follow::all_finite(m.filter.weights());
            if !sound || !m.evidence.is_finite() {
                m.evidence = f64::NEG_INFINITY;
            }
        }
        self.predicted.clear();
        self.seen += n as u64;
        self.replace()
    }

    /// Drops what has failed, and what is clearly behind when it is time for a trial.
    fn replace(&mut self) -> Result<bool, AdaptError> {
        let best = self.best();
        let top = self.members[best].evidence;
        if !top.is_finite() {
            return Ok(false);
        }
        let due = self.seen - self.tried >= self.options.patience;
        let mut worst = None;
        if due {
            self.tried = self.seen;
            let behind =
                |m: &Member| !m.anchor && m.age >= self.options.patience && m.evidence < top - 1.0;
            worst = (0..self.members.len())
                .filter(|i| *i != best && behind(&self.members[*i]))
                .min_by(|a, b| self.members[*a].evidence.total_cmp(&self.members[*b].evidence));
        }
        for i in 0..self.members.len() {
            if self.members[i].evidence.is_finite() && Some(i) != worst {
                continue;
            }
            // A variation of the best of its own network, so that each network keeps its members (and the cost stays).
            let net = self.members[i].net;
            let kin = (0..self.members.len())
                .filter(|k| self.members[*k].net == net && self.members[*k].evidence.is_finite())
                .max_by(|a, b| self.members[*a].evidence.total_cmp(&self.members[*b].evidence));
            let mut draw = Stream::new(self.base.seed, self.seen * 64 + i as u64, "bank");
            let (from, start) = match kin {
                Some(k) => {
                    (self.members[k].setting.clone(), self.members[k].filter.weights().to_vec())
                }
                // All of its network have failed: begin again with a small rate.
                None => {
                    let zeros = vec![0.0; self.members[i].filter.weights().len()];
                    (Setting::new("adam", 1e-3, true), zeros)
                }
            };
            let mut setting = from.varied(&mut draw);
            for _ in 0..8 {
                if self.members.iter().all(|m| m.net != net || m.setting != setting) {
                    break;
                }
                setting = from.varied(&mut draw);
            }
            let filter = setting.setup(&self.base).filter(start)?;
            let evidence = kin.map_or(top, |k| self.members[k].evidence) - 1.0;
            let mut member = Member::new(setting, net, filter, evidence);
            member.anchor = self.members[i].anchor;
            if let Some(k) = kin {
                member.square = self.members[k].square;
                member.sharpness = self.members[k].sharpness;
            }
            self.members[i] = member;
        }
        Ok(true)
    }

    pub fn save(&self) -> Result<Vec<u8>, CheckpointError> {
        let member = |m: &Member| -> Result<KeptMember, CheckpointError> {
            let Member {
                setting,
                net,
                anchor,
                filter,
                evidence,
                square,
                sharpness,
                slope_square,
                age,
                ..
            } = m;
            Ok((
                setting.clone(),
                (*net, *anchor),
                filter.save()?,
                *evidence,
                *square,
                (*sharpness, *slope_square),
                *age,
            ))
        };
        let members = self.members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        checkpoint::save("weights/bank", &(members, self.seen, self.tried))
    }

    pub fn load(&mut self, bytes: &[u8]) -> Result<(), AdaptError> {
        let (kept, seen, tried): (Vec<KeptMember>, u64, u64) =
            checkpoint::load("weights/bank", bytes)?;
        let mut members = Vec::new();
        for (setting, (net, anchor), bytes, evidence, square, temper, age) in kept {
            let Some(kin) = self.members.iter().find(|m| m.net == net) else {
                return Err(AdaptError::Data("the checkpoint is of other networks".into()));
            };
            let mut filter = setting.setup(&self.base).filter(kin.filter.weights().to_vec())?;
            filter.load(&bytes)?;
            let member = Member::new(setting, net, filter, evidence);
            let (sharpness, slope_square) = temper;
            members.push(Member { anchor, square, sharpness, slope_square, age, ..member });
        }
        if members.is_empty() {
            return Err(AdaptError::Data("the checkpoint holds an empty bank".into()));
        }
        (self.members, self.seen, self.tried) = (members, seen, tried);
        self.predicted.clear();
        Ok(())
    }
}

/// Probabilities of all classes from a network's outputs times `sharpness`; a number as it is.
pub(super) fn probabilities(z: &[f32], sharpness: f64, classes: usize, out: &mut [f64]) {
    match classes {
        0 => out[0] = f64::from(z[0]),
        2 => {
            let p = 1.0 / (1.0 + (-sharpness * f64::from(z[0])).exp());
            (out[0], out[1]) = (1.0 - p, p);
        }
        _ => {
            let top = z.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0.0;
            for (o, v) in out.iter_mut().zip(z) {
                *o = (sharpness * f64::from(v - top)).exp();
                sum += *o;
            }
            out.iter_mut().for_each(|o| *o /= sum);
        }
    }
}

/// The settings a bank begins with: rates over four decades. A deep network does not bear the large ones.
fn first(size: usize, linear: bool) -> Vec<Setting> {
    let all = match linear {
        true => [
            Setting::new("gd", 0.1, false),
            Setting::new("adam", 0.01, true),
            Setting::new("gd", 1.0, false),
            Setting::new("gd", 0.01, false),
            Setting::new("gd", 3.0, false),
            Setting::new("adam", 0.001, true),
            Setting::new("adam", 0.1, true),
        ],
        false => [
            Setting::new("gd", 0.1, false),
            Setting::new("adam", 0.001, true),
            Setting::new("gd", 0.01, false),
            Setting::new("adam", 0.0001, true),
            Setting::new("gd", 0.001, false),
            Setting::new("adam", 0.01, true),
            Setting::new("gd", 1.0, false),
        ],
    };
    all.into_iter().take(size.max(1)).collect()
}
