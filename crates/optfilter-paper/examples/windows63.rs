//! Windows on the stochastic Lorenz attractor of the paper's text, beside an extended Kalman filter with the best Q.
//!
//! ```text
//! cargo run --release -p optfilter-paper --example windows63 [RUNS]
//! ```
//!
//! Every setting is chosen on the five tuning runs and reported on the others, with the 95 % half-width of the
//! mean. The strong windows know neither Q nor R; the weak one knows R and the Q of the Kalman filter.

use nalgebra::{Const, SMatrix, SVector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{
    Belief, Descent, Extended, Filter, GaussianBelief, ProcessFactor, Window, WindowBelief,
};
use optfilter::model::likelihood::{Gaussian, Likelihood, SquaredError};
use optfilter::model::{GaussianNoise, Lorenz63, Model, RandomWalk, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::simulate::Simulation;
use optfilter_paper::specified::simulate::{self, LORENZ_DT, LORENZ_R_VAR};
use optfilter_paper::stats::Summary;
use rayon::prelude::*;
use std::error::Error;
use std::sync::Arc;

type Mean = SVector<f64, 3>;

/// The errors of a filter on runs that start at `start`.
fn errors<F>(filter: &F, start: &F::Belief, runs: &[Simulation]) -> Vec<f64>
where
    F: Filter<State = Const<3>, Output = Const<3>>,
    F::Belief: Belief<Const<3>>,
{
    let error = |run: &Simulation| {
        let series = Series::new(&run.observations, 3).ok()?.with_dt(LORENZ_DT).ok()?;
        let trace = filter.run(&mut start.clone(), &series.predict_first()).ok()?;
        Some(optfilter::metrics::rmse(&trace.means, &run.states))
    };
    runs.iter().map(|run| error(run).unwrap_or(f64::NAN)).collect()
}

/// The candidate with the least mean error on the tuning runs, and its errors on the others.
fn best<C: Copy + Send + Sync>(
    candidates: &[C],
    score: impl Fn(C, &[Simulation]) -> Vec<f64> + Sync,
    data: &simulate::Data,
) -> (C, f64, Summary) {
    let mean = |c: C| score(c, &data.tuning).iter().sum::<f64>() / data.tuning.len() as f64;
    let scored: Vec<(C, f64)> = candidates.par_iter().map(|&c| (c, mean(c))).collect();
    let (chosen, tuning) = scored
        .into_iter()
        .fold((candidates[0], f64::INFINITY), |a, b| if b.1 < a.1 { b } else { a });
    (chosen, tuning, Summary::of(&score(chosen, &data.test)))
}

fn window<M, L, R>(
    (model, likelihood, rule): (M, L, R),
    (steps, length, discount): (u32, usize, f64),
    runs: &[Simulation],
) -> Vec<f64>
where
    M: Model<State = Const<3>, Output = Const<3>>,
    L: Likelihood,
    R: Descent,
{
    let filter = Window::new(model, likelihood, rule, steps, length)
        .and_then(|window| window.with_discount(discount));
    match (filter, WindowBelief::new(Mean::repeat(10.0))) {
        (Ok(filter), Ok(start)) => errors(&filter, &start, runs),
        _ => vec![f64::NAN; runs.len()],
    }
}

fn compare<M>(name: &str, model: M, data: &simulate::Data) -> Result<(), Box<dyn Error>>
where
    M: Model<State = Const<3>, Output = Const<3>> + Copy + Send + Sync,
{
    let identity = SMatrix::<f64, 3, 3>::identity();
    let start = GaussianBelief::new(Mean::repeat(10.0), identity)?;
    let variances: Vec<f64> = (0..=40).map(|i| 10f64.powf(-3.0 + 0.125 * f64::from(i))).collect();
    let kalman = |q: f64, runs: &[Simulation]| match GaussianNoise::new(
        identity * q,
        identity * LORENZ_R_VAR,
    ) {
        Ok(noise) => errors(&Extended::new(model, noise), &start, runs),
        Err(_) => vec![f64::NAN; runs.len()],
    };
    let (q, _, ekf) = best(&variances, kalman, data);
    let shown = |name: &str, settings: String, s: &Summary| {
        let ratio = s.rmse / ekf.rmse;
        println!("    {name:12} {:.4} ± {:.4}  {ratio:.3}  {settings}", s.rmse, s.ci);
    };
    println!("{name}");
    shown("EKF", format!("Q = {q:.4}"), &ekf);

    let mut grid = Vec::new();
    for length in [0, 2, 4, 8, 16, 32] {
        for steps in [1, 2, 3] {
            let discounts = [1.0, 0.95, 0.92, 0.9, 0.87, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3];
            grid.extend(discounts.map(|g| (steps, length, g)));
        }
    }
    let cg = |c, runs: &[Simulation]| {
        window((model, SquaredError, ConjugateGradients::default()), c, runs)
    };
    let (of_cg, tuning_cg, score_cg) = best(&grid, cg, data);
    let mut grid = Vec::new();
    for length in [0, 1, 2, 3, 4, 6, 8, 16] {
        for steps in [1, 3, 5, 10, 20] {
            for discount in [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3] {
                let rates = [0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3];
                grid.extend(rates.map(|lr| (lr, (steps, length, discount))));
            }
        }
    }
    let gd = |(lr, c), runs: &[Simulation]| match GradientDescent::new(lr) {
        Ok(rule) => window((model, SquaredError, rule), c, runs),
        Err(_) => vec![f64::NAN; runs.len()],
    };
    let (of_gd, tuning_gd, score_gd) = best(&grid, gd, data);
    let (k, l, g) = of_cg;
    shown("window, cg", format!("L={l} K={k} g={g}, tuning {tuning_cg:.4}"), &score_cg);
    let (lr, (k, l, g)) = of_gd;
    shown("window, gd", format!("L={l} K={k} g={g} lr={lr}, tuning {tuning_gd:.4}"), &score_gd);
    let chosen = if tuning_cg < tuning_gd { &score_cg } else { &score_gd };
    shown("  chosen", String::new(), chosen);

    let mut grid = Vec::new();
    for length in [8, 16, 32, 64] {
        for steps in [4, 8, 16, 32] {
            grid.extend([0.5, 0.7, 1.0, 1.4, 2.0].map(|scale| (length, steps, scale)));
        }
    }
    let likelihood = Gaussian::new(identity * LORENZ_R_VAR)?;
    let weak = |(length, steps, scale): (usize, u32, f64), runs: &[Simulation]| {
        let factor = Arc::new(ProcessFactor::Diagonal(vec![(scale * q).sqrt(); 3]));
        let initial = ProcessFactor::Diagonal(vec![1.0; 3]);
        let cg = ConjugateGradients::default();
        let filter = Window::new(model, likelihood.clone(), cg, steps, length)
            .and_then(|w| w.weak(move |_: &Step| factor.clone(), initial));
        match (filter, WindowBelief::new(Mean::repeat(10.0))) {
            (Ok(filter), Ok(start)) => errors(&filter, &start, runs),
            _ => vec![f64::NAN; runs.len()],
        }
    };
    let ((l, k, scale), _, score) = best(&grid, weak, data);
    shown("weak, cg", format!("L={l} K={k} Q = {:.4}", scale * q), &score);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runs = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let alphas = [1, 5, 10, 20];
    for (alpha, data) in alphas.into_iter().zip(simulate::lorenz(&alphas, runs, 0, &|| false)) {
        let lorenz = Lorenz63::default();
        compare(&format!("alpha = {alpha}, Runge-Kutta"), lorenz.rk4(), &data)?;
        compare(&format!("alpha = {alpha}, Euler"), lorenz.euler(), &data)?;
        compare(&format!("alpha = {alpha}, random walk"), RandomWalk::new(Const::<3>), &data)?;
    }
    Ok(())
}
