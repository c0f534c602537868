//! Many trajectories or many hyper-parameters at once: lanes times threads.
//!
//! [`Batch`] packs series that share their times side by side; an implicit filter then runs 32 or 8
//! of them as lanes of one vector computation, and groups of them on all cores. [`sweep`] does the same
//! for one series under many optimizers. Both give, bit for bit, what [`Run::run`] gives for each
//! trajectory alone, on any number of threads.
//!
//! Series that cannot share a vector - other times or inputs, other gaps, an impossible measurement - are
//! run one by one, so a batch never refuses what a single run accepts.
//!
//! The Gaussian and particle filters have [`run_many`]: threads only (a particle filter is vector code
//! within). Series of a linear model run side by side through [`CommonGain`](crate::filter::CommonGain).

use crate::Shapes;
use crate::drive::{Run, Trace};
use crate::error::{FilterError, check_len};
use crate::filter::{Belief, Filter, ImplicitMap, MeasurementLoss, Memory, PointBelief};
use crate::filter::{LARGEST, check_parts};
use crate::model::Model;
use crate::model::likelihood::{Likelihood, Observed};
use crate::optim::{AnyOptimizer, Bounds, Optimizer, descend_within};
use crate::scalar::{Lanes, Scalar};
use crate::series::Series;
use crate::simd::dispatch;
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim, OVector, U1};

/// Runs one filter over many series, on all cores, each from its own belief.
pub fn run_many<F>(
    filter: &F,
    beliefs: &mut [F::Belief],
    series: &[Series<'_>],
) -> Result<Vec<Result<Trace, FilterError>>, FilterError>
where
    F: Filter + Sync,
    F::Belief: Belief<F::State> + Send,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    check_len("beliefs", series.len(), beliefs.len(), None)?;
    Ok(parallel(beliefs.iter_mut().zip(series).collect(), |(belief, series)| {
        filter.run(belief, series)
    }))
}

/// Applies `f` to every item, in order, on all cores where there are threads.
fn parallel<T: Send, R: Send>(items: Vec<T>, f: impl Fn(T) -> R + Sync) -> Vec<R> {
    #[cfg(feature = "std")]
    {
        use rayon::prelude::*;
        items.into_par_iter().map(&f).collect()
    }
    #[cfg(not(feature = "std"))]
    {
        items.into_iter().map(f).collect()
    }
}

/// Series packed side by side.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    series: Vec<Series<'a>>,
    groups: Vec<Group>,
}

/// Some consecutive series.
#[derive(Clone, Debug)]
struct Group {
    first: usize,
    count: usize,
    width: usize,
    /// Measurements, time x component x lane; `None` if the series cannot share a vector.
    packed: Option<Vec<f64>>,
}

impl<'a> Batch<'a> {
    /// Packs series for side-by-side runs.
    pub fn new(series: Vec<Series<'a>>) -> Self {
        let mut groups = Vec::new();
        let mut first = 0;
        while first < series.len() {
            let left = series.len() - first;
            let width = match left {
                25.. => 32,
                _ => 8,
            };
            let count = left.min(width);
            let packed = pack(&series[first..first + count], width);
            groups.push(Group { first, count, width, packed });
            first += count;
        }
        Self { series, groups }
    }

    /// The number of series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Runs an implicit filter over every series, trajectory `b` from `starts[b]`.
    pub fn run<M, L, O>(
        &self,
        filter: &ImplicitMap<M, L, O>,
        starts: &[OVector<f64, M::State>],
    ) -> Result<Estimates, FilterError>
    where
        M: Model + Sync,
        L: Likelihood + Sync,
        O: Optimizer<f64> + Optimizer<Lanes<8>> + Optimizer<Lanes<32>> + Sync,
        OVector<f64, M::State>: Sync,
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        self.run_by(filter, &filter.optimizer, starts)
    }

    /// [`run`](Self::run) where the filter's rule takes plain numbers only: `rule` is the same one for lanes. Series that cannot be lanes
    /// are run by the filter's own.
    pub fn run_by<M, L, O, R>(
        &self,
        filter: &ImplicitMap<M, L, O>,
        rule: &R,
        starts: &[OVector<f64, M::State>],
    ) -> Result<Estimates, FilterError>
    where
        M: Model + Sync,
        L: Likelihood + Sync,
        O: Optimizer<f64> + Sync,
        R: Optimizer<Lanes<8>> + Optimizer<Lanes<32>> + Sync,
        OVector<f64, M::State>: Sync,
        DefaultAllocator: Shapes<M::State, M::Output>,
    {
        check_len("starts", self.len(), starts.len(), None)?;
        let blocks = parallel(self.groups.iter().collect(), |group: &Group| {
            let series = &self.series[group.first..group.first + group.count];
            let starts = &starts[group.first..group.first + group.count];
            let n = filter.model.state_dim().value();
            let sized = starts.iter().all(|start| start.nrows() == n);
            let dims = [Optimizer::<Lanes<8>>::dim(rule), Optimizer::<Lanes<32>>::dim(rule)];
            let sized = sized && dims.iter().flatten().all(|dim| *dim == n);
            let lanes = group.packed.as_ref().filter(|_| sized && fits(filter, series));
            let k = filter.steps;
            let block = lanes.and_then(|y| match group.width {
                32 => run_lanes::<_, _, _, 32>(filter, rule, k, &series[0], y, starts),
                _ => run_lanes::<_, _, _, 8>(filter, rule, k, &series[0], y, starts),
            });
            block.unwrap_or_else(|| run_singly(filter, series, starts))
        });
        let state_dim = filter.model.state_dim().value();
        Ok(Estimates { state_dim, blocks, firsts: self.groups.iter().map(|g| g.first).collect() })
    }
}

/// Runs one series under many optimizers of any kinds with `steps[j]` steps of `optimizers[j]`, from one
/// start. Trajectory j of the result belongs to optimizer j.
///
/// Optimizers of one kind and number of steps become lanes of one computation.
pub fn sweep<M, L>(
    filter: &ImplicitMap<M, L, AnyOptimizer>,
    optimizers: &[(AnyOptimizer, u32)],
    start: &OVector<f64, M::State>,
    series: &Series<'_>,
) -> Result<Estimates, FilterError>
where
    M: Model + Sync + Clone,
    L: Likelihood + Sync + Clone,
    OVector<f64, M::State>: Sync,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    const WIDTH: usize = 8;
    if optimizers.iter().any(|(_, steps)| *steps == 0) {
        return Err(FilterError::Zero { argument: "steps" });
    }
    // Consecutive optimizers of one kind and number of steps share a group.
    let mut groups: Vec<&[(AnyOptimizer, u32)]> = Vec::new();
    for run in optimizers.chunk_by(|(a, j), (b, k)| a.same_kind(b) && j == k) {
        groups.extend(run.chunks(WIDTH));
    }
    let shared = vec![*series; WIDTH];
    let packed = pack(&shared, WIDTH);
    let lanes_fit = fits(filter, &shared[..1]);
    let blocks = parallel(groups.clone(), |group| {
        let members: Vec<AnyOptimizer> = group.iter().map(|(o, _)| *o).collect();
        let steps = group.first().map_or(1, |(_, k)| *k);
        let lanes = AnyOptimizer::to_lanes::<WIDTH>(&members).zip(packed.as_ref());
        let block = lanes.filter(|_| lanes_fit).and_then(|(optimizer, y)| {
            let starts = vec![start.clone(); group.len()];
            run_lanes::<_, _, _, WIDTH>(filter, &optimizer, steps, series, y, &starts)
        });
        block.unwrap_or_else(|| {
            let mut block = Block::new(group.len());
            for (lane, &(optimizer, steps)) in group.iter().enumerate() {
                let single = ImplicitMap { optimizer, steps, ..filter.clone() };
                block.put(lane, single_run(&single, series, start));
            }
            block
        })
    });
    let firsts = groups.iter().scan(0, |next, g| {
        let first = *next;
        *next += g.len();
        Some(first)
    });
    let state_dim = filter.model.state_dim().value();
    Ok(Estimates { state_dim, firsts: firsts.collect(), blocks })
}

/// Estimates of every trajectory of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimates {
    state_dim: usize,
    firsts: Vec<usize>,
    blocks: Vec<Block>,
}

/// Estimates of one group, time x component x lane.
#[derive(Clone, Debug, PartialEq)]
struct Block {
    width: usize,
    values: Vec<f64>,
    /// Lanes whose results were computed singly, or failed.
    singles: Vec<Option<Result<Vec<f64>, FilterError>>>,
}

impl Block {
    fn new(count: usize) -> Self {
        Self { width: 0, values: Vec::new(), singles: vec![None; count] }
    }

    fn put(&mut self, lane: usize, result: Result<Vec<f64>, FilterError>) {
        self.singles[lane] = Some(result);
    }
}

impl Estimates {
    /// The number of trajectories.
    pub fn len(&self) -> usize {
        self.blocks.iter().map(|b| b.singles.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The estimates of trajectory `b`, T x n, or why it has none.
    pub fn trajectory(&self, b: usize) -> Option<Result<Vec<f64>, FilterError>> {
        let group = self.firsts.partition_point(|&first| first <= b).checked_sub(1)?;
        let (block, lane) = (&self.blocks[group], b - self.firsts[group]);
        match block.singles.get(lane)? {
            Some(single) => Some(single.clone()),
            None => {
                Some(Ok(block.values.iter().skip(lane).step_by(block.width).copied().collect()))
            }
        }
    }

    /// Makes an error of trajectory `b`.
    pub fn refuse(&mut self, b: usize, error: FilterError) {
        let group = self.firsts.partition_point(|&first| first <= b).checked_sub(1);
        if let Some(group) = group
            && let Some(lane) = self.blocks[group].singles.get_mut(b - self.firsts[group])
        {
            *lane = Some(Err(error));
        }
    }

    /// The root mean squared error of trajectory `b` against the truth (T x n); NaN if it diverged.
    pub fn rmse(&self, b: usize, truth: &[f64]) -> f64 {
        match self.trajectory(b) {
            Some(Ok(estimates)) => crate::metrics::rmse(&estimates, truth),
            _ => f64::NAN,
        }
    }

    /// Components of the state.
    pub fn state_dim(&self) -> usize {
        self.state_dim
    }
}

/// Measurements side by side, if the series have the same length, times, inputs and gaps.
fn pack(series: &[Series<'_>], width: usize) -> Option<Vec<f64>> {
    let first = series.first()?;
    let (len, m) = (first.len(), first.output_dim());
    let alike = series
        .iter()
        .all(|s| s.len() == len && s.output_dim() == m && s.input_dim() == first.input_dim());
    if !alike {
        return None;
    }
    let mut packed = vec![0.0; len * m * width];
    for k in 0..len {
        let (step, input, leader) = (first.step(k), first.input(k), first.observation(k));
        for (lane, s) in series.iter().enumerate() {
            let y = s.observation(k);
            let same_gaps = y.iter().zip(leader).all(|(a, b)| a.is_nan() == b.is_nan());
            let same_clock = s.step(k) == step && s.predicts(k) == first.predicts(k);
            if !same_clock || s.input(k) != input || !same_gaps {
                return None;
            }
            for (i, &v) in y.iter().enumerate() {
                packed[(k * m + i) * width + lane] = v;
            }
        }
        // Unused lanes repeat the first series, so that they compute nothing unusual.
        for lane in series.len()..width {
            for (i, &v) in leader.iter().enumerate() {
                packed[(k * m + i) * width + lane] = v;
            }
        }
    }
    Some(packed)
}

/// Whether the filter can take every measurement of the series.
fn fits<M: Model, L: Likelihood, O: Optimizer<f64>>(
    filter: &ImplicitMap<M, L, O>,
    series: &[Series<'_>],
) -> bool {
    let (m, inputs) = (filter.model.output_dim().value(), filter.model.input_dim());
    let sized = check_parts(&filter.model, &filter.likelihood, &filter.optimizer, None).is_ok();
    sized
        && series.iter().all(|s| {
            s.output_dim() == m
                && s.input_dim() == inputs
                && (0..s.len()).all(|k| {
                    // After a gap every lane takes as many steps as it needs.
                    !filter.widens || s.step(k).gap() == 1.0
                })
                && (0..s.len()).all(|k| {
                    let y = s.observation(k);
                    y.iter().enumerate().all(|(i, &v)| v.is_nan() || filter.likelihood.admits(i, v))
                })
        })
}

fn single_run<M, L, O>(
    filter: &ImplicitMap<M, L, O>,
    series: &Series<'_>,
    start: &OVector<f64, M::State>,
) -> Result<Vec<f64>, FilterError>
where
    M: Model,
    L: Likelihood,
    O: Optimizer<f64>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let mut belief = PointBelief::new(start.clone())?;
    filter.run(&mut belief, series).map(|trace| trace.means)
}

fn run_singly<M, L, O>(
    filter: &ImplicitMap<M, L, O>,
    series: &[Series<'_>],
    starts: &[OVector<f64, M::State>],
) -> Block
where
    M: Model,
    L: Likelihood,
    O: Optimizer<f64>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let mut block = Block::new(series.len());
    for (lane, (series, start)) in series.iter().zip(starts).enumerate() {
        block.put(lane, single_run(filter, series, start));
    }
    block
}

/// Predicts and updates `W` trajectories side by side; `None` if a carried optimizer state or a predicted
/// measurement leaves the numbers in one of them, which ends that one alone: single runs find it.
fn run_lanes<M, L, O, const W: usize>(
    filter: &ImplicitMap<M, L, impl Sized>,
    optimizer: &O,
    steps: u32,
    clock: &Series<'_>,
    packed: &[f64],
    starts: &[OVector<f64, M::State>],
) -> Option<Block>
where
    M: Model,
    L: Likelihood,
    O: Optimizer<Lanes<W>>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let (model, likelihood) = (&filter.model, &filter.likelihood);
    let carry = filter.memory == Memory::Carry;
    let (n, m) = (model.state_dim(), model.output_dim());
    let mut block = Block {
        width: W,
        values: vec![0.0; clock.len() * n.value() * W],
        singles: vec![None; starts.len()],
    };
    let mut x = OVector::<Lanes<W>, M::State>::from_element_generic(n, U1, Lanes([0.0; W]));
    for lane in 0..W {
        let start = starts.get(lane).unwrap_or(&starts[0]);
        for i in 0..n.value() {
            x[i].0[lane] = start.get(i).copied().unwrap_or(f64::NAN);
        }
    }
    flag(&mut block, &x, None);
    let rows = m.value();
    let mask: Vec<bool> =
        (0..clock.len()).flat_map(|k| clock.observation(k)).map(|v| !v.is_nan()).collect();
    let sound = dispatch(
        #[inline(always)]
        || {
            let bounds: Option<&Bounds> = filter.bounds.as_ref();
            if let Some(bounds) = bounds {
                bounds.project(x.as_mut_slice());
            }
            let mut state = optimizer.init(&x);
            let mut y =
                OVector::<Lanes<W>, M::Output>::from_element_generic(m, U1, Lanes([0.0; W]));
            let mut eta = y.clone();
            let mut next = x.clone();
            for (k, mask) in mask.chunks_exact(rows).enumerate() {
                let (step, u) = (clock.step(k), clock.input(k));
                if clock.predicts(k) {
                    model.transition(x.as_slice(), u, &step, next.as_mut_slice());
                    if let Some(bounds) = bounds {
                        bounds.project(next.as_mut_slice());
                    }
                    flag(&mut block, &next, Some((step.index, "prediction", &x)));
                    core::mem::swap(&mut x, &mut next);
                }
                for i in 0..m.value() {
                    y[i].0.copy_from_slice(&packed[(k * m.value() + i) * W..][..W]);
                }
                let complete = mask.iter().all(|&seen| seen);
                let observed = if complete { Observed::All } else { Observed::Some(mask) };
                if complete || mask.iter().any(|&seen| seen) {
                    if !carry {
                        state = optimizer.init(&x);
                    }
                    next.copy_from(&x);
                    model.observe(x.as_slice(), u, &step, eta.as_mut_slice());
                    likelihood.expect(eta.as_mut_slice());
                    let mut loss = MeasurementLoss {
                        model,
                        likelihood,
                        y: y.as_slice(),
                        u,
                        step: &step,
                        observed,
                    };
                    descend_within(optimizer, &mut loss, &mut x, &mut state, steps, bounds);
                    flag(&mut block, &x, Some((step.index, "estimate", &next)));
                    let sound = !carry || optimizer.is_sound(&state);
                    if !sound || !is_known(&block, y.as_slice(), eta.as_slice(), mask) {
                        return false;
                    }
                }
                for i in 0..n.value() {
                    block.values[(k * n.value() + i) * W..][..W].copy_from_slice(&x[i].0);
                }
            }
            true
        },
    );
    sound.then_some(block)
}

/// Whether every lane of every number is sure to measure something still: the sum is no less than any of them.
#[inline(always)]
fn is_sane<const W: usize>(x: &[Lanes<W>]) -> bool {
    let mut sum = Lanes([0.0; W]);
    for v in x {
        sum += v.abs();
    }
    Scalar::all_lt(sum, Lanes([LARGEST; W]))
}

/// Whether every lane that has not failed yet predicted a number wherever something was measured.
#[inline(always)]
fn is_known<const W: usize>(
    block: &Block,
    y: &[Lanes<W>],
    eta: &[Lanes<W>],
    mask: &[bool],
) -> bool {
    let mut sum = Lanes([0.0; W]);
    for i in 0..y.len() {
        if mask[i] {
            sum += (y[i] - eta[i]).abs();
        }
    }
    if Scalar::all_lt(sum, Lanes([f64::INFINITY; W])) {
        return true;
    }
    let seen = || (0..y.len()).filter(|&i| mask[i]);
    let mut running = block.singles.iter().enumerate().filter(|(_, single)| single.is_none());
    running.all(|(lane, _)| seen().all(|i| (y[i] - eta[i]).0[lane].is_finite()))
}

/// Records the first failure of every lane that is not sane: a divergence at a time, or (without one) a
/// start that is not finite.
#[cold]
#[inline(never)]
fn flag_slow<N: Dim, const W: usize>(
    block: &mut Block,
    x: &OVector<Lanes<W>, N>,
    at: Option<(u64, &'static str, &OVector<Lanes<W>, N>)>,
) where
    DefaultAllocator: nalgebra::allocator::Allocator<N>,
{
    for (lane, single) in block.singles.iter_mut().enumerate() {
        let lost = |v: &Lanes<W>| match at {
            None => !v.0[lane].is_finite(),
            Some(_) => v.0[lane].abs().partial_cmp(&LARGEST) != Some(core::cmp::Ordering::Less),
        };
        let Some(component) = x.iter().position(lost) else { continue };
        if single.is_none() {
            *single = Some(Err(match at {
                None => FilterError::NotFinite { argument: "initial mean", component, index: None },
                Some((index, quantity, before)) => {
                    let last_good = before.iter().map(|v| v.0[lane]).collect();
                    FilterError::Diverged { index, quantity, last_good }
                }
            }));
        }
    }
}

#[inline(always)]
fn flag<N: Dim, const W: usize>(
    block: &mut Block,
    x: &OVector<Lanes<W>, N>,
    at: Option<(u64, &'static str, &OVector<Lanes<W>, N>)>,
) where
    DefaultAllocator: nalgebra::allocator::Allocator<N>,
{
    if !is_sane(x.as_slice()) {
        flag_slow(block, x, at);
    }
}
