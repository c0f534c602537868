//! Windows on the stochastic Lorenz attractor of the paper's text, beside an extended Kalman filter with the best Q.
//!
//! Every setting is chosen on the five tuning runs and reported on the others, with the 95 % half-width of the
//! mean. The strong windows know neither Q nor R; the weak one knows R and is given multiples of the Kalman filter's Q.

use crate::specified::simulate::{self, LORENZ_DT, LORENZ_R_VAR};
use crate::stats::Summary;
use nalgebra::{Const, SMatrix, SVector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{
    Belief, Descent, ExtendedKalmanFilter, Filter, FilterError, GaussianBelief, ProcessFactor,
    Window, WindowBelief,
};
use optfilter::model::likelihood::{Gaussian, Likelihood, SquaredError};
use optfilter::model::{GaussianNoise, Lorenz63, Model, RandomWalk, Step};
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::simulate::Simulation;
use rayon::prelude::*;
use std::sync::Arc;

/// One setting of the attractor: what was chosen for each filter, and its error.
#[derive(Clone, Debug)]
pub struct Attractor {
    /// The strength of the noise and the model of the motion.
    pub name: String,
    /// The extended Kalman filter, and its Q.
    pub kalman: (Summary, f64),
    /// The window that is told neither Q nor R, and its settings.
    pub strong: (Summary, String),
    /// The weakly constrained window, and its settings.
    pub weak: (Summary, String),
}

impl Attractor {
    /// The errors of both windows over that of the Kalman filter.
    pub fn ratios(&self) -> [f64; 2] {
        [&self.strong, &self.weak].map(|(summary, _)| summary.rmse / self.kalman.0.rmse)
    }
}

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

fn compare<M>(name: String, model: M, data: &simulate::Data) -> Result<Attractor, FilterError>
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
        Ok(noise) => errors(&ExtendedKalmanFilter::new(model, noise), &start, runs),
        Err(_) => vec![f64::NAN; runs.len()],
    };
    let (q, _, of_kalman) = best(&variances, kalman, data);
    Ok(Attractor {
        name,
        kalman: (of_kalman, q),
        strong: strong(model, data),
        weak: weak(model, q, data)?,
    })
}

/// The better of conjugate gradients and gradient descent on the tuning runs.
fn strong<M>(model: M, data: &simulate::Data) -> (Summary, String)
where
    M: Model<State = Const<3>, Output = Const<3>> + Copy + Send + Sync,
{
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
    let ((k, l, g), tuning_cg, of_cg) = best(&grid, cg, data);
    let by_cg = (of_cg, format!("cg L={l} K={k} g={g}"));
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
    let ((lr, (k, l, g)), tuning_gd, of_gd) = best(&grid, gd, data);
    match tuning_cg < tuning_gd {
        true => by_cg,
        false => (of_gd, format!("gd L={l} K={k} g={g} lr={lr}")),
    }
}

/// With R and the best of a few multiples of `q`.
fn weak<M>(model: M, q: f64, data: &simulate::Data) -> Result<(Summary, String), FilterError>
where
    M: Model<State = Const<3>, Output = Const<3>> + Copy + Send + Sync,
{
    let mut grid = Vec::new();
    for length in [8, 16, 32, 64] {
        for steps in [4, 8, 16, 32] {
            grid.extend([0.5, 0.7, 1.0, 1.4, 2.0].map(|scale| (length, steps, scale)));
        }
    }
    let likelihood = Gaussian::new(SMatrix::<f64, 3, 3>::identity() * LORENZ_R_VAR)
        .map_err(|_| FilterError::Empty { argument: "R" })?;
    let score = |(length, steps, scale): (usize, u32, f64), runs: &[Simulation]| {
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
    let ((l, k, scale), _, summary) = best(&grid, score, data);
    Ok((summary, format!("cg L={l} K={k} Q={:.4}", scale * q)))
}

/// The twelve settings of the paper's text, `runs` reported runs each, added to `all` one by one; `hear` is told which one is next, and ends it by `false`.
pub fn compare_all(
    runs: usize,
    hear: &dyn Fn(&str) -> bool,
    all: &mut Vec<Attractor>,
) -> Result<(), FilterError> {
    let alphas = [1, 5, 10, 20];
    let lorenz = Lorenz63::default();
    for (alpha, data) in alphas.into_iter().zip(simulate::lorenz(&alphas, runs, 0, &|| false)) {
        for motion in ["Runge-Kutta", "Euler", "random walk"] {
            let name = format!("alpha = {alpha}, {motion}");
            if !hear(&format!("Lorenz '63: {name}")) {
                return Ok(());
            }
            all.push(match motion {
                "Runge-Kutta" => compare(name, lorenz.rk4(), &data)?,
                "Euler" => compare(name, lorenz.euler(), &data)?,
                _ => compare(name, RandomWalk::new(Const::<3>), &data)?,
            });
        }
    }
    Ok(())
}
