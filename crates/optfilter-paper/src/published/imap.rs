//! The implicit MAP filter with the five optimizers of the published program.
//!
//! At each measurement the state is carried by the filter's dynamics, then moved by `K` optimizer steps on `|y - h(x)|^2 / 2`
//! (R is ignored, as the paper says it may be). The optimizer starts afresh every time. All quantities are per component; eps = 1e-8.
//!
//! A block of lanes holds (configuration, run) pairs of one rule and one `K`, so that every lane does the same work.

use super::lanes::{Pairs, all};
use super::model::Model;
use super::quirks::Quirks;
use super::simulate::Data;
use crate::grid::{Optimizer, Rule};
use crate::stats::Summary;
use crate::systems::STEPS;
use optfilter::scalar::{Lanes, Scalar};
use optfilter::simd::{Kernel, dispatch};
use rayon::prelude::*;

const EPS: f64 = 1e-8;
const ADADELTA_DECAY: f64 = 0.9;
/// Trajectories per block: enough to hide the latency of division and square root.
const W: usize = 32;

/// Per-lane hyper-parameters.
struct Parameters<'a, const W: usize> {
    lr: Lanes<W>,
    decay: Lanes<W>,
    rest: Lanes<W>,
    /// `lr sqrt(1 - b) / (1 - b)`: Adam's rate with the bias correction of the first step.
    adam_rate: Lanes<W>,
    quirks: &'a Quirks,
}

impl<'a, const W: usize> Parameters<'a, W> {
    #[inline(always)]
    fn new(lr: Lanes<W>, decay: Lanes<W>, quirks: &'a Quirks) -> Self {
        let rest = all(1.0) - decay;
        Self { lr, decay, rest, adam_rate: lr * rest.sqrt() / rest, quirks }
    }
}

/// One optimizer: the state of one component, and the amount to add to it.
trait Update<const W: usize>: Copy {
    fn start() -> Self;
    fn step(&mut self, k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W>;
}

#[derive(Clone, Copy)]
struct Gd;
impl<const W: usize> Update<W> for Gd {
    #[inline(always)]
    fn start() -> Self {
        Self
    }
    #[inline(always)]
    fn step(&mut self, _k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W> {
        -(p.lr * g)
    }
}

#[derive(Clone, Copy)]
struct Adam<const W: usize> {
    mean: Lanes<W>,
    square: Lanes<W>,
}
impl<const W: usize> Update<W> for Adam<W> {
    #[inline(always)]
    fn start() -> Self {
        Self { mean: all(0.0), square: all(0.0) }
    }
    #[inline(always)]
    fn step(&mut self, _k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W> {
        self.mean = p.decay * self.mean + p.rest * g;
        self.square = p.decay * self.square + p.rest * (g * g);
        -(p.adam_rate * self.mean / (self.square.sqrt() + all(EPS)))
    }
}

/// Adam with the bias correction of each step: without the quirk.
#[derive(Clone, Copy)]
struct CorrectedAdam<const W: usize> {
    mean: Lanes<W>,
    square: Lanes<W>,
    /// `b^k`.
    power: Lanes<W>,
}
impl<const W: usize> Update<W> for CorrectedAdam<W> {
    #[inline(always)]
    fn start() -> Self {
        Self { mean: all(0.0), square: all(0.0), power: all(1.0) }
    }
    #[inline(always)]
    fn step(&mut self, _k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W> {
        self.mean = p.decay * self.mean + p.rest * g;
        self.square = p.decay * self.square + p.rest * (g * g);
        self.power *= p.decay;
        let correction = all(1.0) - self.power;
        -(p.lr * (self.mean / correction) / ((self.square / correction).sqrt() + all(EPS)))
    }
}

#[derive(Clone, Copy)]
struct RmsProp<const W: usize> {
    square: Lanes<W>,
}
impl<const W: usize> Update<W> for RmsProp<W> {
    #[inline(always)]
    fn start() -> Self {
        Self { square: all(0.0) }
    }
    #[inline(always)]
    fn step(&mut self, k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W> {
        if k == 0 && p.quirks.rmsprop_starts_at_gradient {
            self.square = g * g;
        }
        self.square = p.decay * self.square + p.rest * (g * g);
        -(p.lr * g / (self.square + all(EPS)).sqrt())
    }
}

#[derive(Clone, Copy)]
struct Adagrad<const W: usize> {
    sum: Lanes<W>,
}
impl<const W: usize> Update<W> for Adagrad<W> {
    #[inline(always)]
    fn start() -> Self {
        Self { sum: all(0.0) }
    }
    #[inline(always)]
    fn step(&mut self, _k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W> {
        self.sum += g * g;
        -(p.lr * g / (self.sum + all(EPS)).sqrt())
    }
}

#[derive(Clone, Copy)]
struct Adadelta<const W: usize> {
    square: Lanes<W>,
    moves: Lanes<W>,
}
impl<const W: usize> Update<W> for Adadelta<W> {
    #[inline(always)]
    fn start() -> Self {
        Self { square: all(0.0), moves: all(0.0) }
    }
    #[inline(always)]
    fn step(&mut self, k: u32, g: Lanes<W>, p: &Parameters<'_, W>) -> Lanes<W> {
        const REST: f64 = 1.0 - ADADELTA_DECAY;
        if k == 0 && p.quirks.adadelta_warm_start {
            self.square = g * g;
            self.moves = all(1.0);
        }
        self.square = self.square.scale(ADADELTA_DECAY) + (g * g).scale(REST);
        let delta = if p.quirks.adadelta_without_roots {
            -self.moves * g / self.square
        } else {
            -((self.moves + all(EPS)).sqrt() / (self.square + all(EPS)).sqrt()) * g
        };
        self.moves = self.moves.scale(ADADELTA_DECAY) + (delta * delta).scale(REST);
        delta
    }
}

/// `W` lanes, beginning with the `first` (configuration, run) pair.
struct Block<'a, const N: usize, M> {
    model: M,
    data: &'a Data<N>,
    configurations: &'a [Optimizer],
    first: usize,
    quirks: &'a Quirks,
}

impl<const N: usize, M: Model<N>> Block<'_, N, M> {
    #[inline(always)]
    fn filter<U: Update<W>>(&self, mut record: impl FnMut(&[Lanes<W>; N])) -> Lanes<W> {
        let pairs = Pairs::<W>::new(self.configurations.len(), self.data.runs, self.first);
        let parameter = |of: fn(&Optimizer) -> Option<f64>| {
            let values = self.configurations.iter().map(|o| of(o).unwrap_or(0.0));
            pairs.parameter(&values.collect::<Vec<_>>())
        };
        let p = Parameters::new(parameter(|o| o.lr), parameter(|o| o.decay), self.quirks);
        let mut x = pairs.rows(&self.data.start, 0);
        let steps = self.configurations[0].steps;
        let mut sum = all::<W>(0.0);
        for t in 0..STEPS {
            let y: [_; N] = pairs.rows(&self.data.y, t);
            let truth: [_; N] = pairs.rows(&self.data.x, t);
            self.model.predict(&mut x, t);
            let mut state = [U::start(); N];
            for k in 0..steps {
                let g = self.model.gradient(&x, &y);
                for c in 0..N {
                    x[c] += state[c].step(k, g[c], &p);
                }
            }
            record(&x);
            for c in 0..N {
                let error = x[c] - truth[c];
                sum += error * error;
            }
        }
        (sum / all((STEPS * N) as f64)).sqrt()
    }

    #[inline(always)]
    fn run_recording(self, record: impl FnMut(&[Lanes<W>; N])) -> Lanes<W> {
        match self.configurations[0].rule {
            Rule::Gd => self.filter::<Gd>(record),
            Rule::Adam if self.quirks.adam_correction_frozen => self.filter::<Adam<W>>(record),
            Rule::Adam => self.filter::<CorrectedAdam<W>>(record),
            Rule::RmsProp => self.filter::<RmsProp<W>>(record),
            Rule::Adagrad => self.filter::<Adagrad<W>>(record),
            Rule::Adadelta => self.filter::<Adadelta<W>>(record),
        }
    }
}

impl<const N: usize, M: Model<N>> Kernel for Block<'_, N, M> {
    type Output = Lanes<W>;
    #[inline(always)]
    fn run(self) -> Lanes<W> {
        self.run_recording(|_| {})
    }
}

/// The estimates of one run, step by step.
pub fn estimates<const N: usize, M: Model<N>>(
    model: M,
    data: &Data<N>,
    optimizer: Optimizer,
    run: usize,
    quirks: &Quirks,
) -> Vec<[f64; N]> {
    let mut out = Vec::with_capacity(STEPS);
    let block = Block { model, data, configurations: &[optimizer], first: run, quirks };
    block.run_recording(|x| out.push(core::array::from_fn(|c| x[c].0[0])));
    out
}

/// The iterates of Adam at one measurement of the toy system, beginning with the prediction `x`.
pub fn adam_iterates(x: f64, y: f64, optimizer: Optimizer, quirks: &Quirks) -> Vec<f64> {
    let lr = Lanes([optimizer.lr.unwrap_or(0.0)]);
    let decay = Lanes([optimizer.decay.unwrap_or(0.0)]);
    let p = Parameters::<1>::new(lr, decay, quirks);
    let toy = super::model::Toy::new(quirks);
    let mut state = Adam::<1>::start();
    let mut x = Lanes([x]);
    let mut out = vec![x.0[0]];
    for k in 0..optimizer.steps {
        let [g] = toy.gradient(&[x], &[Lanes([y])]);
        x += state.step(k, g, &p);
        out.push(x.0[0]);
    }
    out
}

/// Run configurations that share their rule and number of steps on all runs of a system; a summary for each.
pub fn imap<const N: usize, M: Model<N>>(
    model: M,
    data: &Data<N>,
    configurations: &[Optimizer],
    quirks: &Quirks,
) -> Vec<Summary> {
    debug_assert!(
        configurations.windows(2).all(|w| w[0].rule == w[1].rule && w[0].steps == w[1].steps)
    );
    let pairs = configurations.len() * data.runs;
    let rmses: Vec<f64> = (0..pairs.div_ceil(W))
        .into_par_iter()
        .flat_map_iter(|block| {
            let first = block * W;
            let out = dispatch(Block { model, data, configurations, first, quirks });
            out.0.into_iter().take(pairs - first)
        })
        .collect();
    rmses.chunks(data.runs).map(Summary::of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::model::Toy;
    use crate::published::simulate;

    /// The same filter written once more, for one run, in plain numbers.
    fn plain_adam(data: &Data<1>, o: &Optimizer, run: usize) -> f64 {
        let (lr, b) = (o.lr.unwrap(), o.decay.unwrap());
        let forcing = Toy::new(&Quirks::PUBLISHED).forcing;
        let mut x = data.start[run];
        let mut sum = 0.0;
        for t in 0..STEPS {
            let y = data.y[t * data.runs + run];
            x = 0.5 * x + 25.0 * x / (1.0 + x * x) + forcing[t];
            let (mut m, mut v) = (0.0, 0.0);
            for _ in 0..o.steps {
                let g = -(x / 10.0) * (y - x * x / 20.0);
                m = b * m + (1.0 - b) * g;
                v = b * v + (1.0 - b) * (g * g);
                x -= lr * (1.0 - b).sqrt() / (1.0 - b) * m / (v.sqrt() + EPS);
            }
            let error = x - data.x[t * data.runs + run];
            sum += error * error;
        }
        (sum / STEPS as f64).sqrt()
    }

    #[test]
    fn lanes_equal_plain_numbers_bit_for_bit() {
        let quirks = Quirks::PUBLISHED;
        let data = simulate::toy(3, 2, 7, 0, &quirks);
        let configurations = crate::grid::optimizers_of(Rule::Adam, 10);
        let summaries = imap(Toy::new(&quirks), &data, &configurations, &quirks);
        for (o, summary) in configurations.iter().zip(summaries) {
            let rmses: Vec<f64> = (0..7).map(|run| plain_adam(&data, o, run)).collect();
            assert_eq!(summary.rmse.to_bits(), Summary::of(&rmses).rmse.to_bits(), "{o:?}");
        }
    }
}
