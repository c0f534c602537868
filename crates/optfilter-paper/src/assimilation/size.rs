//! What a cycle costs at any size, in bare model steps, and how well it follows.
//!
//! A cycle of a window of L past rows with K conjugate-gradient iterations makes 2 + 2 L forward steps, L backward ones for the gradient, and K times
//! L tangent and L backward ones; a probe of the curvature is L backward ones. A tangent and a backward step count as two forward ones. For
//! one gradient step per measurement (L = 0, K = 1) the bare step is the count. Everything is on one thread.

use super::scene::DT;
use nalgebra::{DVector, Dyn};
use optfilter::filter::{
    Belief, Filter, FilterError, ImplicitMap, PointBelief, Window, WindowBelief,
};
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{Dynamics, Integrated, Lorenz96, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use std::time::Instant;

/// A filter at some size.
#[derive(Clone, Debug)]
pub struct Size {
    /// States, all of them measured.
    pub states: usize,
    /// The filter.
    pub filter: String,
    /// Measurements in time.
    pub cycles: usize,
    /// Mean over the cycles after the first third.
    pub rmse: f64,
    /// Seconds of a bare model step.
    pub step: f64,
    /// Seconds of a cycle once the window is full.
    pub cycle: f64,
    /// What a cycle would take in bare steps.
    pub count: f64,
    /// Memory beyond what the simulation itself holds, in vectors of as many doubles as there are states (Linux).
    pub vectors: Option<f64>,
}

impl Size {
    /// The mean error, if it is worth a look: not where the window has just been filled.
    pub fn error(&self) -> Option<f64> {
        (self.cycles >= ENOUGH).then_some(self.rmse)
    }

    /// A cycle in bare model steps.
    pub fn steps(&self) -> f64 {
        self.cycle / self.step
    }
}

/// Cycles below which a mean error says nothing.
const ENOUGH: usize = 50;

/// A window over Lorenz '96.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Past rows.
    pub length: usize,
    /// Iterations.
    pub iterations: u32,
    /// Probes of the curvature.
    pub probes: u32,
}

impl Shape {
    /// Bare steps that a cycle should take.
    fn count(&self) -> f64 {
        let (l, k) = (self.length as f64, f64::from(self.iterations));
        2.0 + 4.0 * l + 4.0 * l * k + 2.0 * l * f64::from(self.probes)
    }

    fn name(&self) -> String {
        let Self { length, iterations, probes } = self;
        match probes {
            0 => format!("L={length}, cg K={iterations}"),
            _ => format!("L={length}, cg K={iterations}, {probes} probes"),
        }
    }
}

/// The most memory this process has held, in bytes; forgets it first where the system lets it.
fn peak(forget: bool) -> Option<f64> {
    if forget {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024.0 * line.split_whitespace().next()?.parse::<f64>().ok()?)
}

/// How long something takes on a machine that may have other work: the fastest time on the clock, which is right for what is
/// short; or the mean time on the processor (Linux), which is right for what is not.
struct Timer {
    fastest: f64,
    on_cpu: f64,
    count: f64,
}

impl Timer {
    /// Processor time below which ticks are too coarse to say anything.
    const LITTLE: f64 = 0.2;

    fn new() -> Self {
        Self { fastest: f64::INFINITY, on_cpu: 0.0, count: 0.0 }
    }

    /// Seconds that this thread has spent on the processor.
    fn spent() -> f64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        text.split_whitespace()
            .next()
            .and_then(|ns| ns.parse::<f64>().ok())
            .map_or(0.0, |ns| 1e-9 * ns)
    }

    fn time<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let (spent, begun) = (Self::spent(), Instant::now());
        let out = f();
        self.fastest = self.fastest.min(begun.elapsed().as_secs_f64());
        self.on_cpu += Self::spent() - spent;
        self.count += 1.0;
        out
    }

    fn seconds(&self) -> f64 {
        match self.on_cpu > Self::LITTLE {
            true => self.fastest.min(self.on_cpu / self.count),
            false => self.fastest,
        }
    }
}

/// A truth that moves on, with every state measured with unit variance.
struct Twin {
    model: Integrated<Lorenz96<Dyn>>,
    truth: Vec<f64>,
    next: Vec<f64>,
    seen: Vec<f64>,
    stream: Stream,
}

impl Twin {
    fn new(states: usize) -> Self {
        let mut stream = Stream::new(1, 0, "window cost");
        let truth: Vec<f64> = (0..states).map(|_| 8.0 + 0.1 * stream.normal()).collect();
        let model = Lorenz96::new(Dyn(states), 8.0).rk4();
        let (next, seen) = (truth.clone(), truth.clone());
        let mut twin = Self { model, truth, next, seen, stream };
        for k in 1..=400 {
            twin.advance(&Step::even(k, DT));
        }
        twin
    }

    fn advance(&mut self, step: &Step) {
        self.model.transition(&self.truth, &[], step, &mut self.next);
        std::mem::swap(&mut self.truth, &mut self.next);
    }

    fn measure(&mut self) {
        for (y, x) in self.seen.iter_mut().zip(&self.truth) {
            *y = x + self.stream.normal();
        }
    }

    /// Seconds of a bare model step.
    fn bare(&mut self) -> f64 {
        let (step, steps) = (Step::even(1, DT), (100_000 / self.truth.len()).max(1));
        let mut timer = Timer::new();
        for _ in 0..50 {
            timer.time(|| {
                for _ in 0..steps {
                    self.model.transition(&self.truth, &[], &step, &mut self.next);
                    std::hint::black_box(&mut self.next);
                }
            });
        }
        timer.seconds() / steps as f64
    }

    fn start(&mut self) -> DVector<f64> {
        let Self { truth, stream, .. } = self;
        DVector::from_iterator(truth.len(), truth.iter().map(|x| x + stream.normal()))
    }

    /// Runs a filter, which `warm` cycles fill.
    fn measure_filter<F>(
        &mut self,
        name: String,
        filter: &F,
        mut belief: F::Belief,
        (cycles, warm, count): (usize, usize, f64),
        hear: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Size>, FilterError>
    where
        F: Filter<State = Dyn, Output = Dyn>,
        F::Belief: Belief<Dyn>,
    {
        let n = self.truth.len();
        let bare = self.bare();
        let before = peak(true);
        let (mut timer, mut error) = (Timer::new(), 0.0);
        for k in 1..=cycles {
            if !hear(&format!("D = {n}: {name}, {} of {cycles} cycles", (k - 1) / 10 * 10)) {
                return Ok(None);
            }
            let step = Step::even(k as u64, DT);
            self.advance(&step);
            self.measure();
            if k == warm + 1 {
                timer = Timer::new();
            }
            timer.time(|| {
                filter.predict(&mut belief, &[], &step)?;
                filter.update(&mut belief, &self.seen, &[], &step)
            })?;
            if k > cycles / 3 {
                error += optfilter::metrics::rmse(belief.mean().as_slice(), &self.truth);
            }
        }
        let held = peak(false).zip(before).map(|(after, before)| (after - before) / 8.0 / n as f64);
        // Of small states all may fit into what the process had before.
        let held = held.filter(|held| n >= TOLD && *held >= 1.0);
        Ok(Some(Size {
            states: n,
            filter: name,
            cycles,
            rmse: error / (cycles - cycles / 3) as f64,
            // The machine may have become faster or slower.
            step: bare.min(self.bare()),
            cycle: timer.seconds(),
            count,
            vectors: held,
        }))
    }
}

/// States from which on memory is told.
const TOLD: usize = 10_000;

/// Cycles of one gradient step per measurement.
const FEW: usize = 60;

/// One gradient step per measurement, and then a window for `cycles` cycles (a few more than its length, at least), on one simulation; `hear` is told
/// of every cycle and ends it by `false`.
pub fn measure(
    states: usize,
    cycles: usize,
    shape: Shape,
    hear: &dyn Fn(&str) -> bool,
) -> Result<Option<[Size; 2]>, FilterError> {
    let mut twin = Twin::new(states);
    let rate = 0.2;
    let rule = GradientDescent::new(rate).map_err(|_| FilterError::Setting {
        argument: "rate",
        value: rate,
        requirement: "positive and finite",
    })?;
    let one = ImplicitMap::new(twin.model, SquaredError, rule, 1)?;
    let begin = PointBelief::new(twin.start())?;
    let name = format!("L=0, gd K=1 lr={rate}");
    let Some(one) = twin.measure_filter(name, &one, begin, (FEW, 2, 1.0), hear)? else {
        return Ok(None);
    };
    let Shape { length, iterations, probes } = shape;
    let cg = ConjugateGradients::default().with_probes(probes);
    let window = Window::new(twin.model, SquaredError, cg, iterations, length)?;
    let begin = WindowBelief::new(twin.start())?;
    let plan = (cycles.max(length + 4), length + 1, shape.count());
    let window = twin.measure_filter(shape.name(), &window, begin, plan, hear)?;
    Ok(window.map(|window| [one, window]))
}
