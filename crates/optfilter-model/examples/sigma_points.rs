//! Which sigma points should the unscented Kalman filter use unless told otherwise?
//!
//! All choices filter the same simulated series, so they are compared with the first one run by run: mean and
//! standard error of the differences. `docs/decisions/0009-sigma-points.md` draws the conclusion.
//!
//! `cargo run --release -p optfilter-model --example sigma_points [FIRST_SEED]`

use optfilter::filter::FilterError;
use optfilter::scalar::Scalar;
use optfilter_model::run::Dataset;
use optfilter_model::{FilterSpec, ModelSpec};
use std::error::Error;

const RUNS: u64 = 100;
const ROWS: usize = 200;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Name, alpha, beta, and kappa as a + b n.
const CHOICES: [(&str, f64, f64, [f64; 2]); 9] = [
    ("1, 1, 2-n", 1.0, 1.0, [2.0, -1.0]),
    ("1, 2, 0", 1.0, 2.0, [0.0, 0.0]),
    ("1, 0, 3-n", 1.0, 0.0, [3.0, -1.0]), // Julier
    ("1, 1, 3-n", 1.0, 1.0, [3.0, -1.0]),
    ("1, 2, 3-n", 1.0, 2.0, [3.0, -1.0]),
    ("1, 0, 0", 1.0, 0.0, [0.0, 0.0]), // cubature
    ("1, 1, 0", 1.0, 1.0, [0.0, 0.0]),
    (".5, 2, 0", 0.5, 2.0, [0.0, 0.0]),
    (".001, 2, 0", 1e-3, 2.0, [0.0, 0.0]), // van der Merwe
];

/// Name; equation of each state X, whose neighbours are AA, A before it and B after it; what is seen of every
/// second state, or once of the sum S of all squares; process noise; measurement std, initial mean and std, dt.
#[rustfmt::skip]
const RINGS: [(&str, &str, &str, &str, [f64; 4]); 6] = [
    ("lorenz96", "'dX/dt' = '(B - AA)*A - X + 8'", "X", "std = 0.5\nper = 'time'", [1.0, 2.0, 2.0, 0.05]),
    ("growth", "X = 'X/2 + 25*X/(1 + X^2) + 8*cos(1.2*t) + (B - X)/10'", "X^2/20", "var = 3", [1.4, 0.0, 1.0, 0.1]),
    ("wells", "'dX/dt' = '4*X*(1 - X^2)/(1 + X^2) + B - X'", "X", "var = 1\nper = 'time'", [0.7, 0.0, 1.0, 0.1]),
    ("exponential", "X = '0.9*X + 0.05*(A + B)/2'", "exp(X)", "std = 0.3", [0.5, 0.0, 0.7, 1.0]),
    ("distance", "X = '0.1 + 0.9*X'", "sqrt(S)", "std = 0.5", [0.5, 1.0, 1.0, 1.0]),
    ("energy", "X = '0.1 + 0.9*X'", "S", "std = 0.5", [0.5, 1.0, 1.0, 1.0]),
];

/// Name and text of every system.
fn systems() -> Vec<(String, String)> {
    // The robot is driven in circles, so that it can be simulated.
    let driven = "[definitions]\nspeed = \"1\"\nturn = \"0.3\"\n";
    let drive = |text: &str| text.replace("inputs = [\"speed\", \"turn\"]\n", driven);
    let mut all: Vec<_> = ModelSpec::built_ins().map(|(n, t)| (n.to_owned(), drive(t))).collect();
    for (name, dynamics, seen, process, [std, mean, initial, dt]) in RINGS {
        for n in [4, 7, 10] {
            let at = |i: usize| format!("x{}", i % n + 1);
            let squares = (0..n).map(|i| at(i) + "^2").collect::<Vec<_>>().join(" + ");
            let fill = |text: &str, i: usize| {
                let text = text.replace("AA", &at(i + n - 2)).replace('A', &at(i + n - 1));
                text.replace('X', &at(i)).replace('B', &at(i + 1)).replace('S', &squares)
            };
            let names: String = (0..n).map(|i| format!("'{}', ", at(i))).collect();
            let moves: String = (0..n).map(|i| fill(dynamics, i) + "\n").collect();
            let see = |i| format!("y{i} = '{}'\n", fill(seen, i));
            let sees: String =
                (0..n).step_by(if seen.contains('S') { n } else { 2 }).map(see).collect();
            let text = format!(
                "states = [{names}]\n[dynamics]\n{moves}[observation]\n{sees}[process_noise]\n{process}\n\
                 [measurement_noise]\nstd = {std}\n[initial]\nmean = {mean}\nstd = {initial}\n[time]\ndt = {dt}"
            );
            all.push((format!("{name}, n = {n}"), text));
        }
    }
    all
}

/// Root mean squared error (states in units of their deviation) and log-likelihood per row.
fn score(spec: &ModelSpec, data: &Dataset, filter: &FilterSpec) -> Outcome<[f64; 2]> {
    let n = spec.states.len();
    let variance = |i| mean_and_var(data.truth.iter().skip(i).step_by(n).copied()).1;
    let variances: Vec<f64> = (0..n).map(variance).collect();
    let (mut square, mut log_likelihood) = (0.0, 0.0);
    data.run(spec, filter, data.len(), |row, estimate| {
        log_likelihood += estimate.log_likelihood;
        for i in 0..n {
            let error = estimate.mean[i] - data.truth[row * n + i];
            let error = if spec.state_angles[i] { error.wrap(spec.state_turns[i]) } else { error };
            square += error * error / variances[i];
        }
    })??;
    Ok([(square / data.truth.len() as f64).sqrt(), log_likelihood / data.len() as f64])
}

fn mean_and_var(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, values.map(|v| (v - mean) * (v - mean)).sum::<f64>() / (count - 1.0))
}

fn main() -> Outcome<()> {
    let first: u64 = std::env::args().nth(1).map_or(Ok(1), |a| a.parse())?;
    let head: String = CHOICES.iter().map(|c| format!(" {:>12}", c.0)).collect();
    let titles = ["RMSE, per cent (less is better)", "log-likelihood of 100 rows (more is better)"];
    let mut tables = titles.map(|t| format!("\n{t}\n{:20}{head}", ""));
    for (name, text) in systems() {
        let spec = ModelSpec::parse(&name, &text)?;
        let mut scores = vec![Vec::new(); CHOICES.len()];
        for seed in first..first + RUNS {
            let (mut xs, mut ys) = (Vec::new(), Vec::new());
            spec.simulate(ROWS, (seed, 0), false, &[], |_, x, y| {
                xs.extend_from_slice(x);
                ys.extend_from_slice(y);
                true
            })?;
            let data = Dataset::simulated(&spec, &xs, &ys);
            for (scores, (_, alpha, beta, [a, b])) in scores.iter_mut().zip(CHOICES) {
                let filter = FilterSpec {
                    alpha: Some(alpha),
                    beta: Some(beta),
                    kappa: Some(a + b * spec.states.len() as f64),
                    ..FilterSpec::of("ukf")?
                };
                let found = score(&spec, &data, &filter);
                let error = found.as_ref().err().and_then(|e| e.downcast_ref());
                let lost = matches!(error, Some(FilterError::NotPositiveDefinite { .. }));
                scores.push(if lost { [f64::NAN; 2] } else { found? });
            }
        }
        for (k, table) in tables.iter_mut().enumerate() {
            *table += &format!("\n{name:20}");
            for (c, own) in scores.iter().enumerate() {
                let pairs = own.iter().zip(&scores[0]).map(|(a, b)| match (c, k) {
                    (0, _) => 100.0 * a[k],
                    (_, 0) => 100.0 * (a[0] / b[0]).ln(),
                    _ => 100.0 * (a[1] - b[1]),
                });
                let lost = own.iter().filter(|s| s[k].is_nan()).count();
                let (mean, var) = mean_and_var(pairs);
                let cell = format!("{mean:+.2}±{:.2}", (var / RUNS as f64).sqrt());
                *table += &format!(" {:>12}", if lost > 0 { format!("{lost} lost") } else { cell });
            }
        }
    }
    println!("{RUNS} runs of {ROWS} rows: the first choice, and what the others add to it.");
    println!("lost: runs in which a covariance was no longer positive definite");
    println!("{}\n{}", tables[0], tables[1]);
    Ok(())
}
