//! What a follower remembers, and one time step of it.

use super::scale::Scaler;
use optfilter::optim::{Adam, AnyOptimizer, AnyState, Optimizer};
use optfilter_nn::adapt::Score;
use optfilter_nn::filter::{Past, Window, WindowObjective, descend_at, fit_until};
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, NetworkError, Reduction, Targets};

/// How the weights follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub rule: AnyOptimizer,
    pub steps: u32,
    pub carry: bool,
    pub window: Window,
    pub loss: Loss,
}

/// Labels as they come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Labels<'a> {
    Classes(&'a [u32]),
    Values(&'a [f64]),
}

impl<'a> Labels<'a> {
    /// Those of some samples; `outputs` numbers each.
    pub fn cut(self, from: usize, to: usize, outputs: usize) -> Self {
        match self {
            Self::Classes(c) => Self::Classes(c.get(from..to).unwrap_or_default()),
            Self::Values(v) => {
                Self::Values(v.get(from * outputs..to * outputs).unwrap_or_default())
            }
        }
    }

    fn values(self) -> &'a [f64] {
        match self {
            Self::Classes(_) => &[],
            Self::Values(v) => v,
        }
    }

    /// As the network takes them; numbers in its units are `scaled`.
    fn targets<'b>(self, scaled: &'b [f32]) -> Targets<'b, f32>
    where
        'a: 'b,
    {
        match self {
            Self::Classes(c) => Targets::Classes(c),
            Self::Values(_) => Targets::Values(scaled),
        }
    }
}

/// Why a time step was not learnt from.
pub(super) enum Failure {
    Network(NetworkError),
    Diverged { update: u64, quantity: &'static str },
    Stopped,
}

/// Weights, optimizer's memory, window, scaling, and the number of updates.
pub(super) type Kept = (Vec<f32>, AnyState<Vec<f32>>, Past<f32>, Scaler, u64);

/// Everything that changes.
pub(super) struct Moving {
    evaluator: Evaluator<f32>,
    weights: Vec<f32>,
    memory: AnyState<Vec<f32>>,
    past: Past<f32>,
    pub scaler: Scaler,
    pub updates: u64,
}

impl Moving {
    pub fn new(network: &Network, rules: &Rules, weights: Vec<f32>, scale: bool) -> Self {
        let labels = if rules.loss == Loss::SquaredError { network.outputs() } else { 0 };
        Self {
            evaluator: Evaluator::new(network),
            memory: rules.rule.init(&weights),
            past: Past::new(rules.window),
            scaler: Scaler::new(scale, network.input().len(), labels),
            weights,
            updates: 0,
        }
    }

    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// From other weights, with nothing remembered.
    pub fn begin(&mut self, rules: &Rules, weights: Vec<f32>) {
        self.memory = rules.rule.init(&weights);
        self.past = Past::new(rules.window);
        self.weights = weights;
    }

    pub fn kept(&self) -> (&Vec<f32>, &AnyState<Vec<f32>>, &Past<f32>, &Scaler, u64) {
        (&self.weights, &self.memory, &self.past, &self.scaler, self.updates)
    }

    /// Whether what was kept fits; if not, nothing has changed.
    pub fn take_up(&mut self, kept: Kept) -> bool {
        let fits = kept.0.len() == self.weights.len()
            && kept.2.window() == self.past.window()
            && std::mem::discriminant(&kept.1) == std::mem::discriminant(&self.memory)
            && kept.3.features.len() == self.scaler.features.len()
            && kept.3.labels.len() == self.scaler.labels.len();
        if fits {
            (self.weights, self.memory, self.past, self.scaler, self.updates) = kept;
        }
        fits
    }

    fn raw_outputs(&mut self, x: &[f32], outputs: usize, width: usize) -> Vec<f32> {
        let mut z = vec![0.0; x.len() / width.max(1) * outputs];
        self.evaluator.predict(&self.weights, x, &mut z);
        z
    }

    pub fn outputs(&mut self, network: &Network, rules: &Rules, x: &[f64]) -> Vec<f64> {
        let (width, outputs) = (network.input().len(), network.outputs());
        let x = self.scaler.scaled(x);
        let z = self.raw_outputs(&x, outputs, width);
        match rules.loss {
            Loss::SquaredError => self.scaler.values(&z),
            _ => z.into_iter().map(f64::from).collect(),
        }
    }

    /// Time passes, and nothing is labelled.
    pub fn skip(&mut self) {
        self.past.advance();
    }

    /// K steps on the window that ends with these samples, or nothing at all.
    pub fn learn(
        &mut self,
        network: &Network,
        rules: &Rules,
        x: &[f64],
        labels: Labels<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let aside =
            (self.weights.clone(), self.memory.clone(), self.past.clone(), self.scaler.clone());
        let learnt = self.try_learn(network, rules, x, labels, stop);
        match learnt {
            Ok(()) => self.updates += 1,
            Err(_) => (self.weights, self.memory, self.past, self.scaler) = aside,
        }
        learnt
    }

    fn try_learn(
        &mut self,
        network: &Network,
        rules: &Rules,
        x: &[f64],
        labels: Labels<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        self.scaler.see(x, labels.values());
        let x = self.scaler.scaled(x);
        let values = self.scaler.labels(labels.values());
        let targets = labels.targets(&values);
        let batch = Minibatch::new(network, &x, targets, rules.loss, Reduction::Sum)
            .map_err(Failure::Network)?;
        if !rules.carry {
            self.memory = rules.rule.init(&self.weights);
        }
        self.past.advance();
        self.past.put(&batch);
        let parts = self.past.parts(&batch);
        let floor = if rules.carry { 1e-30 } else { 0.0 };
        let level = self.evaluator.level();
        let mut objective =
            WindowObjective::new(&mut self.evaluator, &parts).with_floor(Some(floor));
        for _ in 0..rules.steps {
            if stop() {
                return Err(Failure::Stopped);
            }
            let (weights, memory) = (&mut self.weights, &mut self.memory);
            descend_at(level, &rules.rule, &mut objective, (weights, memory), 1);
        }
        match self.weights.iter().all(|w| w.is_finite()) {
            true => Ok(()),
            false => Err(Failure::Diverged { update: self.updates, quantity: "a weight" }),
        }
    }

    /// Adam on the mean loss of all samples until it has all but settled, or `most` steps; then nothing is remembered but
    /// the weights and the scaling.
    pub fn settle(
        &mut self,
        network: &Network,
        rules: &Rules,
        x: &[f64],
        labels: Labels<'_>,
        (most, tolerance): (u32, f64),
        stop: &dyn Fn() -> bool,
    ) -> Result<(u32, f64), Failure> {
        let mut scaler = self.scaler.clone();
        scaler.see(x, labels.values());
        let x = scaler.scaled(x);
        let values = scaler.labels(labels.values());
        let targets = labels.targets(&values);
        let batch = Minibatch::new(network, &x, targets, rules.loss, Reduction::Mean)
            .map_err(Failure::Network)?;
        let diverged = Failure::Diverged { update: self.updates, quantity: "the loss" };
        let Ok(adam) = Adam::new(3e-3) else { return Err(diverged) };
        let mut weights = self.weights.clone();
        let budget = (most, tolerance);
        let fitted = fit_until(&adam, &mut self.evaluator, &batch, &mut weights, budget, stop);
        let fitted = fitted.ok_or(Failure::Stopped)?;
        let sound = most == 0 || fitted.loss.is_finite();
        if !sound || !weights.iter().all(|w| w.is_finite()) {
            return Err(diverged);
        }
        self.scaler = scaler;
        self.begin(rules, weights);
        Ok((fitted.steps, fitted.loss))
    }

    /// Scores the samples of a time step as they are predicted now.
    fn score(
        &mut self,
        network: &Network,
        rules: &Rules,
        x: &[f64],
        labels: Labels<'_>,
    ) -> Result<Score, Failure> {
        let (width, outputs) = (network.input().len(), network.outputs());
        let scaled = self.scaler.scaled(x);
        let values = self.scaler.labels(labels.values());
        let targets = labels.targets(&values);
        Minibatch::new(network, &scaled, targets, rules.loss, Reduction::Mean)
            .map_err(Failure::Network)?;
        let z = self.raw_outputs(&scaled, outputs, width);
        let mut scrap = vec![0.0; outputs];
        let rows = z.chunks_exact(outputs.max(1));
        let n = rows.len();
        let sum: f64 = rows
            .clone()
            .enumerate()
            .map(|(i, z)| f64::from(rules.loss.sample(z, targets, i, &mut scrap)))
            .sum();
        let right = match labels {
            Labels::Classes(classes) => {
                rows.zip(classes).filter(|(z, c)| said(z) == **c as usize).count()
            }
            Labels::Values(_) => 0,
        };
        let squared_error = match labels {
            Labels::Classes(_) => 0.0,
            Labels::Values(y) => {
                self.scaler.values(&z).iter().zip(y).map(|(a, b)| (a - b) * (a - b)).sum()
            }
        };
        Ok(Score { time: 0.0, n, right, squared_error, loss: sum / n.max(1) as f64 })
    }

    /// Predicts, scores and learns, time step after time step.
    #[allow(clippy::too_many_arguments)] // data, where they end, and two ways to be heard
    pub fn follow(
        &mut self,
        network: &Network,
        rules: &Rules,
        x: &[f64],
        labels: Labels<'_>,
        ends: &[usize],
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Vec<Score>, Failure> {
        let (width, outputs) = (network.input().len(), network.outputs());
        let mut scores = Vec::with_capacity(ends.len());
        let (mut from, mut told) = (0, 0);
        for (step, &to) in ends.iter().enumerate() {
            let rows = x.get(from * width..to * width).unwrap_or_default();
            let cut = labels.cut(from, to, outputs);
            scores.push(Score { time: step as f64, ..self.score(network, rules, rows, cut)? });
            self.learn(network, rules, rows, cut, stop)?;
            if to - told >= 1000 || step + 1 == ends.len() {
                told = to;
                if !tell(step + 1) {
                    return Err(Failure::Stopped);
                }
            }
            from = to;
        }
        Ok(scores)
    }
}

/// The class that outputs name: one is the log-odds of class 1, several are one per class.
fn said(z: &[f32]) -> usize {
    match z {
        [one] => usize::from(*one > 0.0),
        _ => z.iter().enumerate().fold(0, |best, (i, v)| if *v > z[best] { i } else { best }),
    }
}
