//! Whether intervals of estimated parameters hold the truth as often as they say.
//!
//! Each system is simulated 200 times with parameters that are known, and fitted from values that are off by a tenth; printed is how many of
//! the 95 % intervals (estimate and 1.96 standard errors to each side) hold the truth, the mean of the estimates, and their
//! standard deviation beside the mean of the standard errors.
//!
//! `cargo run --release -p optfilter-model --example recover [-- RUNS]`

use optfilter_model::fit::{Criterion, Fit, Options, fit};
use optfilter_model::run::Dataset;
use optfilter_model::{FilterSpec, ModelSpec};
use rayon::prelude::*;
use std::error::Error;

/// A system, and how it is fitted.
struct Case {
    title: &'static str,
    text: String,
    method: &'static str,
    criterion: Criterion,
    free: &'static [&'static str],
    rows: usize,
}

/// Where a search begins: so much of the truth.
const OFF: f64 = 0.9;
const SEED: u64 = 63;

fn cases() -> Vec<Case> {
    // The built-in one starts at 1.5, beside the fold of the sine that it is measured by.
    let pendulum = "system = \"pendulum\"\n[measurement_noise]\nstd = 0.1\n";
    let gentle = format!("{pendulum}[initial]\nmean = {{ theta = 0.7, omega = 0 }}\nstd = 0.1\n");
    let pair = "states = [\"prey\", \"predators\"]\n[parameters]\nbirth = 1\nhunt = 0.1\ngain = 0.075\ndeath = 1.5\n\
        [dynamics]\n\"dprey/dt\" = \"birth - hunt*exp(predators)\"\n\"dpredators/dt\" = \"gain*exp(prey) - death\"\n\
        [observation]\nprey_seen = \"prey\"\npredators_seen = \"predators\"\n[process_noise]\nstd = 0.1\nper = \"time\"\n\
        [measurement_noise]\nstd = 0.1\n[initial]\nmean = { prey = \"ln(15)\", predators = \"ln(8)\" }\nstd = 0.2\n[time]\ndt = 0.1\n";
    let counts = "states = [\"n\"]\n[parameters]\ngrowth = 0.3\nceiling = 60\n[dynamics]\nn = \"n + growth*n*(1 - n/ceiling)\"\n\
        [observation.count]\nequation = \"n\"\nlikelihood = \"poisson\"\n[process_noise]\nstd = 0\n[initial]\nmean = 5\nstd = 0.5\n";
    let ekf = |title, text, free, rows| Case {
        title,
        text,
        method: "ekf",
        criterion: Criterion::Likelihood,
        free,
        rows,
    };
    let lorenz = "system = \"lorenz63\"\n".to_owned();
    vec![
        ekf("Lorenz '63", lorenz, &["sigma", "rho", "beta"], 300),
        ekf("pendulum", gentle, &["g", "measurement_noise.y"], 300),
        ekf("Lotka-Volterra", pair.to_owned(), &["birth", "hunt", "gain", "death"], 200),
        Case {
            title: "Poisson growth",
            text: counts.to_owned(),
            method: "imap",
            criterion: Criterion::Window,
            free: &["growth", "ceiling"],
            rows: 60,
        },
        ekf("pendulum past the fold", pendulum.to_owned(), &["g", "measurement_noise.y"], 300),
    ]
}

/// A fit of one simulated series.
fn recovered(
    case: &Case,
    truth: &ModelSpec,
    run: u64,
) -> Result<Fit, Box<dyn Error + Send + Sync>> {
    let mut ys = Vec::new();
    truth.simulate(case.rows, (SEED, run), false, &[], |_, _, y| {
        ys.extend_from_slice(y);
        true
    })?;
    let mut wrong = truth.clone();
    for (name, value) in &mut wrong.parameters {
        if case.free.contains(&name.as_str()) {
            *value *= OFF;
        }
    }
    let options = Options {
        free: case.free.iter().map(|name| (*name).to_owned()).collect(),
        starts: 1,
        criterion: Some(case.criterion),
        ..Options::default()
    };
    let filter = FilterSpec::of(case.method)?;
    Ok(fit(&wrong, &filter, &[Dataset::simulated(truth, &[], &ys)], &options)?)
}

/// The value of a quantity in the model that made the data.
fn true_value(spec: &ModelSpec, name: &str) -> f64 {
    let parameter = spec.parameters.iter().find(|(known, _)| known == name).map(|(_, v)| *v);
    let noise = || spec.measurement_cov.as_ref().map_or(f64::NAN, |cov| cov.variance(0));
    parameter.unwrap_or_else(noise)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let runs: u64 = std::env::args().nth(1).map_or(Ok(200), |text| text.parse())?;
    println!(
        "| system | by | parameter | truth | intervals that hold it | mean | deviation | mean std. error |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for case in cases() {
        let truth = ModelSpec::parse("truth.toml", &case.text).map_err(|e| e.to_string())?;
        let fits: Vec<Fit> = (0..runs)
            .into_par_iter()
            .map(|run| recovered(&case, &truth, run))
            .collect::<Result<_, _>>()?;
        for (i, name) in case.free.iter().enumerate() {
            let value = true_value(&truth, name);
            // No standard error, no interval: counted as one that does not hold the truth.
            let found: Vec<(f64, f64)> = fits
                .iter()
                .map(|fit| (fit.estimates[i].value, fit.estimates[i].std_error.unwrap_or(f64::NAN)))
                .collect();
            let inside = found.iter().filter(|(v, e)| (v - value).abs() <= 1.96 * e).count();
            let n = runs as f64;
            let mean = found.iter().map(|(v, _)| v).sum::<f64>() / n;
            let squares = found.iter().map(|(v, _)| (v - mean) * (v - mean)).sum::<f64>();
            let known: Vec<f64> = found.iter().map(|(_, e)| *e).filter(|e| !e.is_nan()).collect();
            let error = known.iter().sum::<f64>() / known.len() as f64;
            println!(
                "| {} | {} | {name} | {value:.4} | {inside} of {runs} | {mean:.4} | {:.4} | {error:.4} |",
                case.title,
                if case.criterion == Criterion::Window { "window" } else { case.method },
                (squares / n).sqrt(),
            );
        }
    }
    Ok(())
}
