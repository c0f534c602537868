//! What windows cost on Lorenz '96 of any size, in bare model steps, and how well they follow it.
//!
//! ```text
//! cargo run --release -p optfilter --example window_cost [STATES [CYCLES [L [K [PROBES]]]]]
//! ```
//!
//! A cycle of a window of L past rows with K conjugate-gradient iterations makes 2 + 2 L forward steps, L backward ones for the gradient, and K times
//! L tangent and L backward ones; a probe of the curvature is L backward ones. A tangent and a backward step count as two forward ones. The table has the time of a cycle
//! of a full window over that of the bare model step, the same over that count, and the memory beyond what the simulation itself holds, in vectors of D doubles (Linux). For
//! one gradient step per measurement (L = 0, K = 1) the bare step is the count. Errors are means over the cycles after the first third.

use nalgebra::{DVector, Dyn};
use optfilter::filter::{Belief, Filter, ImplicitMap, PointBelief, Window, WindowBelief};
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{Dynamics, Integrated, Lorenz96, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use std::error::Error;
use std::time::Instant;

const DT: f64 = 0.05;

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

    /// Runs a filter and prints its row; `warm` cycles fill it.
    fn show<F>(
        &mut self,
        name: &str,
        filter: &F,
        mut belief: F::Belief,
        (cycles, warm, count): (usize, usize, f64),
    ) -> Result<(), Box<dyn Error>>
    where
        F: Filter<State = Dyn, Output = Dyn>,
        F::Belief: Belief<Dyn>,
    {
        let n = self.truth.len();
        let bare = self.bare();
        let before = peak(true);
        let (mut timer, mut error) = (Timer::new(), 0.0);
        for k in 1..=cycles {
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
        // The machine may have become faster or slower.
        let (cycle, bare) = (timer.seconds(), bare.min(self.bare()));
        let ratio = cycle / bare;
        println!(
            "| {n} | {name} | {cycles} | {:.4} | {:.4} | {ratio:.2} | {:.2} | {} |",
            error / (cycles - cycles / 3) as f64,
            1e3 * cycle,
            ratio / count,
            held.map_or("-".into(), |held| format!("{held:.1}")),
        );
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<usize> =
        std::env::args().skip(1).map(|t| t.parse()).collect::<Result<_, _>>()?;
    let or = |i: usize, default: usize| given.get(i).copied().unwrap_or(default);
    let (states, length, iterations) = (or(0, 1000), or(2, 24), or(3, 10));
    let cycles = or(1, 60).max(length + 2);
    let mut twin = Twin::new(states);
    println!(
        "| D | filter | cycles | RMSE | ms a cycle | bare model steps | over the count | vectors of memory |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let start = |twin: &mut Twin| {
        DVector::from_iterator(states, twin.truth.iter().map(|x| x + twin.stream.normal()))
    };
    let one = ImplicitMap::new(twin.model, SquaredError, GradientDescent::new(0.2)?, 1)?;
    let begin = PointBelief::new(start(&mut twin))?;
    twin.show("L=0, gd K=1 lr=0.2", &one, begin, (60, 2, 1.0))?;
    let probes = or(4, 0);
    let cg = ConjugateGradients::default().with_probes(u32::try_from(probes)?);
    let window = Window::new(twin.model, SquaredError, cg, u32::try_from(iterations)?, length)?;
    let begin = WindowBelief::new(start(&mut twin))?;
    let (l, k) = (length as f64, iterations as f64);
    let count = 2.0 + 4.0 * l + 4.0 * l * k + 2.0 * l * probes as f64;
    let name = match probes {
        0 => format!("L={length}, cg K={iterations}"),
        _ => format!("L={length}, cg K={iterations}, {probes} probes"),
    };
    twin.show(&name, &window, begin, (cycles, length + 1, count))
}
