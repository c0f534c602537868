//! What windows cost on Lorenz '96 of any size, in bare model steps, and how well they follow it.
//!
//! ```text
//! cargo run --release -p optfilter --example window_cost [STATES [CYCLES [L [K]]]]
//! ```
//!
//! A cycle of a window of L past rows with K conjugate-gradient iterations makes 2 + 2 L forward steps, L backward ones for the gradient, and K times
//! L tangent and L backward ones. A tangent and a backward step count as two forward ones. The table has the mean time of a cycle
//! of a full window, on the processor (so that other work on the machine does not count; on the clock where the system does not say), over the bare
//! model step, the same over that count, and the memory beyond what the simulation itself holds, in vectors of D doubles (Linux). For
//! one gradient step per measurement (L = 0, K = 1) the bare step is the count. Errors are over the cycles after the first third.

use nalgebra::{DVector, Dyn};
use optfilter::filter::{Belief, Filter, ImplicitMap, PointBelief, Window, WindowBelief};
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{Dynamics, Integrated, Lorenz96, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use std::error::Error;
use std::sync::LazyLock;
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

/// Seconds that this thread has spent on the processor, or that have passed.
fn spent() -> f64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let on_cpu = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = on_cpu.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| BEGUN.elapsed().as_secs_f64(), |ns| 1e-9 * ns)
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

    /// Seconds of a bare model step: the mean of as many as take a while.
    fn bare(&mut self) -> f64 {
        let (step, repeats) = (Step::even(1, DT), (20_000_000 / self.truth.len()).max(20));
        let begun = spent();
        for _ in 0..repeats {
            self.model.transition(&self.truth, &[], &step, &mut self.next);
            std::hint::black_box(&mut self.next);
        }
        (spent() - begun) / repeats as f64
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
        let (mut time, mut error) = (0.0, 0.0);
        for k in 1..=cycles {
            let step = Step::even(k as u64, DT);
            self.advance(&step);
            self.measure();
            let begun = spent();
            filter.predict(&mut belief, &[], &step)?;
            filter.update(&mut belief, &self.seen, &[], &step)?;
            if k > warm {
                time += spent() - begun;
            }
            if k > cycles / 3 {
                error += optfilter::metrics::rmse(belief.mean().as_slice(), &self.truth);
            }
        }
        let held = peak(false).zip(before).map(|(after, before)| (after - before) / 8.0 / n as f64);
        // The machine may have become faster or slower.
        let (cycle, bare) = (time / (cycles - warm) as f64, 0.5 * (bare + self.bare()));
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
    let cg = ConjugateGradients::default();
    let window = Window::new(twin.model, SquaredError, cg, u32::try_from(iterations)?, length)?;
    let begin = WindowBelief::new(start(&mut twin))?;
    let (l, k) = (length as f64, iterations as f64);
    let count = 2.0 + 4.0 * l + 4.0 * l * k;
    let name = format!("L={length}, cg K={iterations}");
    twin.show(&name, &window, begin, (cycles, length + 1, count))
}
