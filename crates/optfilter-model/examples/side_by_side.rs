//! What a step of many series costs side by side and one by one, in one run and on one thread, and that both are one to the bit.
//!
//! `cargo run --release -p optfilter-model --example side_by_side [-- SERIES ROWS]`

use optfilter::Series;
use optfilter_model::run::build_text;
use optfilter_model::{FilterSpec, ModelSpec};
use optfilter_run::{CancelCheck, OutputBuffers};
use std::error::Error;
use std::time::Instant;

/// Means, covariances, innovations and their covariances, log-likelihoods and NIS of a series.
#[derive(Clone)]
struct Rows([Vec<f64>; 6]);

impl Rows {
    fn new(rows: usize, n: usize, m: usize) -> Self {
        Self([n, n * n, m, m * m, 1, 1].map(|width| vec![0.0; rows * width]))
    }

    /// Whether every number is the same to the bit, or none in both.
    fn is(&self, other: &Self) -> bool {
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        self.0.iter().flatten().zip(other.0.iter().flatten()).all(same)
    }

    fn results(&mut self) -> OutputBuffers<'_> {
        let [means, covs, innovations, innovation_covs, log_likelihoods, nis] = &mut self.0;
        OutputBuffers {
            means,
            covs,
            innovations,
            innovation_covs,
            log_likelihoods,
            nis,
            ..OutputBuffers::default()
        }
    }
}

/// Seconds, the least of three.
fn best(mut run: impl FnMut()) -> f64 {
    let time = |run: &mut dyn FnMut()| {
        let begin = Instant::now();
        run();
        begin.elapsed().as_secs_f64()
    };
    (0..3).map(|_| time(&mut run)).fold(f64::INFINITY, f64::min)
}

fn measure(system: &str, method: &str, count: usize, rows: usize) -> Result<(), Box<dyn Error>> {
    let text = format!("system = \"{system}\"\n");
    let spec = ModelSpec::parse("model.toml", &text).map_err(|e| e.to_string())?;
    let problem = spec.problem()?;
    let runner = build_text(&FilterSpec::of(method)?, &problem, None, true)?;
    let (n, m, _) = runner.dims();
    let mut ys = vec![Vec::new(); count];
    for (run, ys) in ys.iter_mut().enumerate() {
        spec.simulate(rows, (1, run as u64), false, &[], |_, _, y| {
            ys.extend_from_slice(y);
            true
        })?;
    }
    let dt = spec.dt;
    let series: Vec<Series<'_>> =
        ys.iter().map(|y| Series::new(y, m)?.with_dt(dt)).collect::<Result<_, _>>()?;
    let starts = vec![runner.default_start().clone(); count];
    let mut alone = vec![Rows::new(rows, n, m); count];
    let single = best(|| {
        for ((start, series), rows) in starts.iter().zip(&series).zip(&mut alone) {
            let done = runner.run(start, series, &mut rows.results(), &CancelCheck::NEVER);
            assert!(done.is_ok(), "{system}, {method}: {done:?}");
        }
    });
    let mut together = vec![Rows::new(rows, n, m); count];
    let mut done = Vec::new();
    let beside = best(|| {
        let mut results: Vec<OutputBuffers<'_>> = together.iter_mut().map(Rows::results).collect();
        done = runner.run_together(&starts, &series, &mut results, &CancelCheck::NEVER);
    });
    let went = done.iter().filter(|done| **done).count();
    let ran = alone.iter().zip(&together).zip(&done).filter(|(_, done)| **done);
    assert!(ran.map(|(pair, _)| pair).all(|(a, b)| a.is(b)), "{system}, {method}: other numbers");
    let step = |seconds: f64| 1e9 * seconds / (count * rows) as f64;
    let (a, b) = (step(single), step(beside));
    match went == count {
        true => println!("| {system} | {method} | {a:.0} | {b:.0} | {:.1}x |", a / b),
        // A group of which one goes astray, or series that are faster alone.
        false => println!("| {system} | {method} | {a:.0} | {went} of {count} | |"),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1).map(|text| text.parse());
    let count = args.next().transpose()?.unwrap_or(64);
    let rows = args.next().transpose()?.unwrap_or(1000);
    println!(
        "| system | filter | one by one, ns a step | side by side, or how many were | ratio |"
    );
    println!("|---|---|---|---|---|");
    for system in ["growth", "pendulum", "lorenz63", "lotka-volterra"] {
        for method in ["ekf", "iekf", "ukf"] {
            measure(system, method, count, rows)?;
        }
    }
    Ok(())
}
