//! What a row costs behind the door: filters chosen by name, of the Lorenz system built in and as text.
//!
//! `cargo run --release -p optfilter-model --example door_cost`

use optfilter::Series;
use optfilter::model::{Dynamics, Lorenz63, Step};
use optfilter_model::ModelSpec;
use optfilter_run::{CancelCheck, FilterSpec, OutputBuffers, Problem, build};
use std::error::Error;
use std::time::Instant;

const ROWS: usize = 20_000;
const RUNS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let built_in = Problem::new(Lorenz63::default().rk4());
    let text = ModelSpec::parse("lorenz63", "system = \"lorenz63\"").map_err(|e| e.to_string())?;
    for (name, problem) in [("built in", built_in), ("text", text.problem()?)] {
        let problem = problem.noise(0.1, 1.0).start(1.0, 1.0).dt(0.02);
        let mut x = [1.0, 1.0, 20.0];
        let mut ys = Vec::new();
        for k in 1..=ROWS {
            let before = x;
            problem.model.transition(&before, &[], &Step::even(k as u64, 0.02), &mut x);
            ys.extend(x.iter().map(|v| v + ((k * 7919 % 1000) as f64 / 500.0 - 1.0)));
        }
        let series = Series::new(&ys, 3)?.with_dt(0.02)?;
        for method in ["ekf", "iekf", "ukf", "imap"] {
            let runner = build(&FilterSpec::of(method)?, &problem)?;
            let mut means = vec![0.0; 3 * ROWS];
            let mut seconds = Vec::new();
            for _ in 0..RUNS {
                let mut rows = OutputBuffers { means: &mut means, ..OutputBuffers::default() };
                let begin = Instant::now();
                runner.run(runner.default_start(), &series, &mut rows, &CancelCheck::NEVER)?;
                seconds.push(begin.elapsed().as_secs_f64());
            }
            seconds.sort_by(f64::total_cmp);
            println!("{name:>8} {method:>5} {:7.0} ns", seconds[RUNS / 2] / ROWS as f64 * 1e9);
        }
    }
    Ok(())
}
