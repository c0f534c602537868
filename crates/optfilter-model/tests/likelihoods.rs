//! What filters say of themselves where measurements are not Gaussian, on data of their own models; links that do
//! not saturate; and the flag of an estimate that runs away.
//!
//! Statistical tests allow four standard errors, found from the spread over runs (or rows, where the values are
//! independent) of a fixed seed.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter_model::{FilterSpec, Method, ModelSpec};
use optfilter_run::{Estimate, Flag, Linearized, Session};

fn parse(text: &str) -> ModelSpec {
    ModelSpec::parse("m.toml", text).unwrap()
}

/// A level that forgets, seen through `observation`.
fn level(observation: &str, rest: &str) -> ModelSpec {
    parse(&format!(
        "states = [\"x\"]\n[dynamics]\nx = \"0.9*x\"\n[observation.y]\n{observation}\n[process_noise]\nvar = 0.3\n\
         [initial]\nmean = 0\nvar = 1\n{rest}"
    ))
}

fn of(method: &str) -> FilterSpec {
    FilterSpec { particles: Some(500), ..FilterSpec::of(method).unwrap() }
}

/// Filters data that the model itself simulates; `visit` sees the true state, the measurement and the estimate.
fn filter_own_data(
    spec: &ModelSpec,
    filter: &FilterSpec,
    (rows, run): (usize, u64),
    mut visit: impl FnMut(f64, &Estimate),
) {
    let runner = spec.runner(filter).unwrap();
    let mut session = Session::new(&*runner, filter, spec.dt).unwrap();
    spec.simulate(rows, (7, run), false, &[], |_, x, y| {
        session.take(None, false, &[], y).unwrap();
        visit(x[0], &session.estimate);
        true
    })
    .unwrap();
}

/// The mean and its standard error.
fn mean_of(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let var = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    (mean, (var / n).sqrt())
}

const STUDENT: &str = "equation = \"x\"\nlikelihood = \"student-t\"\ndof = 4";
const NOISE: &str = "[measurement_noise]\nstd = 0.8\n";

#[test]
fn error_bars_under_heavy_tails_are_honest() {
    // The model is linear, so the Kalman covariance is that of its error whatever the noise's law, if R is its
    // variance: the expected NEES is exactly 1.
    for (observation, methods) in [
        (STUDENT, &["ekf", "iekf", "ukf"][..]),
        ("equation = \"x\"\nlikelihood = \"huber\"\ndelta = 0.5", &["ekf"]),
    ] {
        let spec = level(observation, NOISE);
        for method in methods {
            let runs: Vec<f64> = (0..300)
                .map(|run| {
                    let mut sum = 0.0;
                    filter_own_data(&spec, &of(method), (50, run), |x, estimate| {
                        sum += (x - estimate.mean[0]).powi(2) / estimate.cov[0];
                    });
                    sum / 50.0
                })
                .collect();
            let (nees, error) = mean_of(&runs);
            assert!(
                error < 0.03 && (nees - 1.0).abs() < 4.0 * error,
                "{method}: {nees} +- {error}"
            );
        }
    }
}

#[test]
fn innovations_are_normalised_by_the_likelihoods_own_variance() {
    // Innovations of the right filter are independent, with the variance it states.
    let normalised = |spec: &ModelSpec, filter: &FilterSpec| {
        let (mut nis, mut by_std) = (Vec::new(), Vec::new());
        filter_own_data(spec, filter, (4000, 1), |_, estimate| {
            nis.push(estimate.nis);
            by_std.push((estimate.innovation[0] / estimate.innovation_std(0)).powi(2));
        });
        (nis, by_std)
    };
    let student = level(STUDENT, NOISE);
    for method in ["pf", "ekf"] {
        let (nis, error) = mean_of(&normalised(&student, &of(method)).0);
        assert!(error < 0.1 && (nis - 1.0).abs() < 4.0 * error, "{method}: {nis} +- {error}");
    }
    for observation in [
        "equation = \"x\"\nlikelihood = \"poisson\"\nlink = \"log\"",
        "equation = \"exp(x)\"\nlikelihood = \"poisson\"",
        "equation = \"x\"\nlikelihood = \"bernoulli\"\nlink = \"logit\"",
    ] {
        let (nis, by_std) = normalised(&level(observation, ""), &of("pf"));
        // Squares of counts are not chi-square, so there are none; their deviations are honest all the same.
        assert!(nis.iter().all(|v| v.is_nan()), "{observation}");
        let (mean, error) = mean_of(&by_std);
        assert!(
            error < 0.1 && (mean - 1.0).abs() < 4.0 * error,
            "{observation}: {mean} +- {error}"
        );
    }
}

#[test]
fn a_law_without_a_variance_is_filtered_by_its_scale() {
    let spec = level("equation = \"x\"\nlikelihood = \"student-t\"\ndof = 2", NOISE);
    let error = spec.runner(&of("etkf")).err().unwrap().to_string();
    assert!(error.contains("student-t has none where dof <= 2"), "{error}");
    assert_eq!(spec.fitted(&FilterSpec::default()).unwrap().method(), optfilter_run::Method::Ekf);
    for method in ["imap", "pf", "ekf", "iekf", "ukf"] {
        filter_own_data(&spec, &of(method), (50, 0), |_, estimate| {
            assert!(estimate.mean[0].is_finite())
        });
    }
}

/// The estimate after a measurement.
fn after(spec: &ModelSpec, filter: &FilterSpec, y: f64) -> Estimate {
    let runner = spec.runner(filter).unwrap();
    let mut session = Session::new(&*runner, filter, spec.dt).unwrap();
    session.take(None, false, &[], &[y]).unwrap();
    session.estimate
}

#[test]
fn links_of_model_files_do_not_saturate() {
    let model = |likelihood: &str, start: f64| {
        parse(&format!(
            "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation.y]\nequation = \"x\"\n{likelihood}\n\
             [initial]\nmean = {start}\nstd = 1\n"
        ))
    };
    let descent =
        FilterSpec { optimizer: Some("gd".into()), steps: Some(3), lr: Some(0.5), ..of("imap") };
    let rare = model("likelihood = \"poisson\"\nlink = \"log\"", -50.0);
    for window in [None, Some(3)] {
        let descent = FilterSpec { window, ..descent.clone() };
        // Far out on the wrong side the gradient is -1, all the way: by hand, 3 steps of 0.5.
        for logit in [30.0, 300.0, 900.0] {
            let wrong = model("likelihood = \"bernoulli\"\nlink = \"logit\"", -logit);
            let estimate = after(&wrong, &descent, 1.0);
            assert!((estimate.mean[0] + logit - 1.5).abs() < 1e-9, "{logit}: {:?}", estimate.mean);
            // The innovation is that of the measurement, not of its logit.
            assert!((estimate.innovation[0] - 1.0).abs() < 1e-9, "{:?}", estimate.innovation);
        }
        // A count of 3 where the rate was e^-50: 3 steps of 0.5 * 3.
        let estimate = after(&rare, &descent, 3.0);
        assert!((estimate.mean[0] + 50.0 - 4.5).abs() < 1e-9, "{:?}", estimate.mean);
        assert!((estimate.innovation[0] - 3.0).abs() < 1e-9, "{:?}", estimate.innovation);
        // Conjugate gradients go there at once.
        let cg = FilterSpec { optimizer: Some("cg".into()), window, ..of("imap") };
        let estimate = after(&rare, &cg, 3.0);
        assert!((estimate.mean[0] - 3.0f64.ln()).abs() < 1e-9, "{:?}", estimate.mean);
    }
    // The Gaussian view of the same file is that of rates.
    let at = Linearized::at(
        &rare.problem().unwrap(),
        &[2.0],
        &optfilter::model::Step::even(1, 1.0),
        &[],
    )
    .unwrap();
    assert!(
        (at.h[(0, 0)] - 2.0f64.exp()).abs() < 1e-12 && (at.r[(0, 0)] - 2.0f64.exp()).abs() < 1e-9
    );
}

#[test]
fn an_estimate_that_runs_away_is_flagged() {
    let spec = parse(
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation.y]\nequation = \"x\"\nlikelihood = \"poisson\"\n\
         [initial]\nmean = 0\nstd = 1\n",
    );
    let descent = |lr| FilterSpec {
        method: Some(Method::Imap),
        optimizer: Some("gd".into()),
        steps: Some(1),
        lr: Some(lr),
        ..FilterSpec::default()
    };
    let flags = |lr: f64, ys: &[f64]| -> Vec<(Flag, f64)> {
        let filter = descent(lr);
        let runner = spec.runner(&filter).unwrap();
        let mut session = Session::new(&*runner, &filter, 1.0).unwrap();
        ys.iter()
            .map(|y| {
                session.take(None, false, &[], &[*y]).unwrap();
                (session.flag, session.estimate.mean[0])
            })
            .collect()
    };
    // A rate that strays below zero while nothing is counted comes back, and a count is no catastrophe.
    let tame = flags(0.15, &[0.0, 0.0, 0.0, 2.0, 1.0]);
    assert!(tame.iter().all(|(flag, x)| *flag == Flag::Ok && (-0.2..20.0).contains(x)), "{tame:?}");
    // A count where the rate was exactly zero: the loss is as steep as a million there.
    let wild = flags(0.15, &[2.0, f64::NAN, 2.0]);
    assert!(wild.iter().all(|(flag, x)| *flag == Flag::Runaway && *x > 1e4), "{wild:?}");
}
