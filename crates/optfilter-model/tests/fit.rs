//! Maximum likelihood: against statsmodels, against differences, against the filters' own sums, and against the truth.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter_model::fit::{
    Fit, FitError, Objective, Options, Watch, fit, fit_watched, quantities, with_estimates,
};
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::Rows;
use optfilter_model::{FilterSpec, ModelSpec};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn golden() -> Vec<Value> {
    let text = include_str!("golden/fit_statsmodels.json");
    let document: Value = serde_json::from_str(text).unwrap();
    document["cases"].as_array().unwrap().clone()
}

/// Rows without times.
fn series(spec: &ModelSpec, rows: &[Vec<f64>]) -> Dataset {
    let ys: Vec<f64> = rows.iter().flatten().copied().collect();
    Dataset::simulated(spec, &[], &ys)
}

/// Rows with times.
fn timed(spec: &ModelSpec, rows: &[Vec<f64>]) -> Dataset {
    let layout = Layout::new(spec, Some("t"));
    let mut table = Rows::default();
    table.rows = rows.len();
    rows.iter().for_each(|row| table.values.extend_from_slice(row));
    Dataset::new(spec, &layout, &table).unwrap()
}

fn of_case(case: &Value) -> (ModelSpec, Dataset) {
    let spec = ModelSpec::parse("m.toml", case["model"].as_str().unwrap()).unwrap();
    let row = |r: &Value| -> Vec<f64> {
        r.as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect()
    };
    let rows: Vec<Vec<f64>> = case["ys"].as_array().unwrap().iter().map(row).collect();
    let data = series(&spec, &rows);
    (spec, data)
}

fn value_of(fit: &Fit, name: &str) -> (f64, f64) {
    let found = fit.estimates.iter().find(|e| e.name == name).unwrap();
    (found.value, found.std_error.unwrap_or(f64::NAN))
}

#[test]
fn the_likelihood_at_given_parameters_is_that_of_statsmodels() {
    for case in golden() {
        let (spec, data) = of_case(&case);
        for (at, sum) in [("parameters", "log_likelihood"), ("other", "log_likelihood_at_other")] {
            let names: Vec<String> = case[at].as_object().unwrap().keys().cloned().collect();
            let free = quantities(&spec, &names).unwrap();
            let filter = spec.classical(&spec.filter).unwrap();
            let data = std::slice::from_ref(&data);
            let objective = Objective::new(&spec, &filter, free, data).unwrap();
            let values: Vec<f64> = names.iter().map(|n| case[at][n].as_f64().unwrap()).collect();
            let (ours, _) = objective.gradient(&objective.place(&values)).unwrap();
            let theirs = case[sum].as_f64().unwrap();
            assert!((ours - theirs).abs() < 1e-8, "{} {at}: {ours} {theirs}", case["name"]);
        }
    }
}

#[test]
fn the_optimum_is_no_lower_than_statsmodels_and_in_the_same_place() {
    for case in golden() {
        let (spec, data) = of_case(&case);
        let found = fit(&spec, &spec.filter, &[data], &Options::default()).unwrap();
        let name = &case["name"];
        let theirs = case["log_likelihood"].as_f64().unwrap();
        assert!(found.log_likelihood > theirs - 1e-4, "{name}: {} {theirs}", found.log_likelihood);
        assert!(found.converged && found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        for (parameter, theirs) in case["parameters"].as_object().unwrap() {
            let (ours, theirs) = (value_of(&found, parameter).0, theirs.as_f64().unwrap());
            assert!((ours / theirs - 1.0).abs() < 1e-3, "{name} {parameter}: {ours} {theirs}");
        }
        for (parameter, theirs) in case["std_errors"].as_object().unwrap() {
            let (ours, theirs) = (value_of(&found, parameter).1, theirs.as_f64().unwrap());
            // Differences of our exact gradient against their approximate second derivatives.
            assert!((ours / theirs - 1.0).abs() < 1e-2, "{name} {parameter}: {ours} {theirs}");
        }
        // Their BIC counts rows without a measurement too.
        assert!((found.aic - case["aic"].as_f64().unwrap()).abs() < 2e-4, "{name}: {}", found.aic);
    }
}

const PENDULUM: &str = "system = \"pendulum\"\n[fit]\nfree = [\"g\", \"process_noise\", \"measurement_noise\", \"initial.mean\"]\n";

/// A linear differential equation with free rates and inputs, noise per time, correlated noise, irregular times.
const DRIVEN: &str = r#"
states = ["x", "v"]
inputs = ["push"]
[parameters]
damping = 0.4
stiffness = 2.0
[dynamics]
"dx/dt" = "v"
"dv/dt" = "0.3 + push - stiffness*x - damping*v"
[observation]
a = "x"
b = "x + v"
[process_noise]
var = [[0.2, 0.05], [0.05, 0.3]]
per = "time"
[measurement_noise]
var = [[0.5, 0.2], [0.2, 0.4]]
[initial]
mean = { x = 0.5, v = -0.1 }
std = { x = 1, v = 2 }
[time]
column = "t"
[filter]
process_scale = 1.3
measurement_scale = 0.8
[fit]
free = ["damping", "stiffness", "process_noise", "measurement_noise", "initial.mean"]
"#;

/// An angle, a step of no length, and noise by rows.
const BEARING: &str = r#"
states = ["x", "v"]
[parameters]
pull = 0.3
[dynamics]
x = "x + dt*v"
v = "v - dt*pull*sin(x)"
[observation]
bearing = { equation = "4*atan2(1 + x, 2)", angle = true }
range = "sqrt(4 + x^2)"
[process_noise]
var = 0.02
[measurement_noise]
var = 0.1
[initial]
mean = { x = 1, v = 0.2 }
std = 0.7
[time]
column = "t"
[fit]
free = ["pull", "process_noise", "measurement_noise", "initial.mean"]
"#;

fn examples() -> Vec<(ModelSpec, Dataset)> {
    let nan = f64::NAN;
    let pendulum = ModelSpec::parse("p.toml", PENDULUM).unwrap();
    let swings: Vec<Vec<f64>> = (0..60)
        .map(|k| vec![if k % 7 == 3 { nan } else { (1.4 * (0.06 * f64::from(k)).cos()).sin() }])
        .collect();
    let driven = ModelSpec::parse("d.toml", DRIVEN).unwrap();
    let bearing = ModelSpec::parse("b.toml", BEARING).unwrap();
    let wave = |k: u32, p: f64| (0.9 * f64::from(k) + p).sin();
    let times = [0.0, 0.5, 0.7, 2.0, 2.0, 2.1, 4.0, 4.4, 5.0, 7.5];
    let with_gaps = |k: usize, y: f64| if k % 4 == 2 { nan } else { y };
    let pushed = (0..10u32).map(|k| {
        let at = k as usize;
        // Time, input, outputs: the order of a layout.
        vec![
            times[at],
            0.2 * wave(k, 2.0),
            with_gaps(at, wave(k, 0.0)),
            with_gaps(at + 1, wave(k, 1.0)),
        ]
    });
    let seen = (0..10u32).map(|k| {
        let at = k as usize;
        vec![
            times[at],
            with_gaps(at, 2.4 + wave(k, 0.3)),
            with_gaps(at + 1, 2.2 + 0.3 * wave(k, 1.0)),
        ]
    });
    let pushed: Vec<_> = pushed.collect();
    let seen: Vec<_> = seen.collect();
    vec![
        (pendulum.clone(), series(&pendulum, &swings)),
        (driven.clone(), timed(&driven, &pushed)),
        (bearing.clone(), timed(&bearing, &seen)),
    ]
}

fn methods() -> [FilterSpec; 4] {
    let ukf = FilterSpec { alpha: Some(0.8), ..FilterSpec::of("ukf").unwrap() };
    let first = FilterSpec { predict_first: Some(true), ..FilterSpec::of("ekf").unwrap() };
    [FilterSpec::of("ekf").unwrap(), FilterSpec::of("iekf").unwrap(), ukf, first]
}

#[test]
fn the_value_is_the_sum_that_the_filter_reports() {
    for (spec, data) in examples() {
        for method in methods() {
            let filter = method.over(&spec.filter);
            let mut sum = 0.0;
            data.run(&spec, &filter, data.len(), |_, estimate| sum += estimate.log_likelihood)
                .unwrap()
                .unwrap();
            let free = quantities(&spec, &spec.fit.free).unwrap();
            let start: Vec<f64> = free.iter().map(|q| q.start).collect();
            let data = std::slice::from_ref(&data);
            let objective = Objective::new(&spec, &filter, free, data).unwrap();
            let (ours, _) = objective.gradient(&objective.place(&start)).unwrap();
            assert!(sum.is_finite() && sum != 0.0);
            // Rounding of exponentials and logarithms on the way to the same numbers.
            assert!(
                (ours - sum).abs() < 1e-9 * (1.0 + sum.abs()),
                "{}: {ours} {sum}",
                filter.flags()
            );
        }
    }
}

#[test]
fn the_gradient_is_that_of_central_differences() {
    for (spec, data) in examples() {
        for method in methods() {
            let filter = method.over(&spec.filter);
            let free = quantities(&spec, &spec.fit.free).unwrap();
            let names: Vec<String> = free.iter().map(|q| q.name.clone()).collect();
            let start: Vec<f64> = free.iter().map(|q| q.start).collect();
            let data = std::slice::from_ref(&data);
            let objective = Objective::new(&spec, &filter, free, data).unwrap();
            let z = objective.place(&start);
            let (_, exact) = objective.gradient(&z).unwrap();
            for i in 0..z.len() {
                let moved = |by: f64| {
                    let mut z = z.clone();
                    z[i] += by;
                    objective.gradient(&z).unwrap().0
                };
                let h = 1e-4;
                let near = 8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h));
                let slope = near / (12.0 * h);
                // Fourth-order differences: what is left is rounding over h.
                let (found, name) = (exact[i], &names[i]);
                assert!(
                    (found - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                    "{name} by {}: {found} {slope}",
                    filter.flags()
                );
            }
        }
    }
}

/// Draws a series of a model.
fn drawn(spec: &ModelSpec, rows: usize, seed: u64) -> Dataset {
    let mut ys = Vec::new();
    let visit = |_: &_, _: &[f64], y: &[f64]| {
        ys.extend_from_slice(y);
        true
    };
    spec.simulate(rows, (seed, 0), false, &[], visit).unwrap();
    Dataset::simulated(spec, &[], &ys)
}

#[test]
fn the_pull_on_a_pendulum_is_recovered_from_its_swings() {
    let truth = ModelSpec::parse(
        "p.toml",
        "system = \"pendulum\"\n[parameters]\ng = 9.81\nlength = 1\n[measurement_noise]\nstd = 0.1\n",
    )
    .unwrap();
    let mut wrong = truth.clone();
    wrong.parameters.iter_mut().find(|(n, _)| n == "g").unwrap().1 = 8.5;
    let options =
        Options { free: vec!["g".into(), "measurement_noise".into()], ..Options::default() };
    let mut inside = 0;
    for seed in 0..20 {
        let data = drawn(&truth, 300, seed);
        let found = fit(&wrong, &wrong.filter, &[data], &options).unwrap();
        let (g, error) = value_of(&found, "g");
        assert!((g - 9.81).abs() < 2.0, "seed {seed}: {g}");
        inside += usize::from((g - 9.81).abs() < 1.96 * error);
    }
    // 19 of 20 on the average; 16 or fewer would be one time in sixty.
    assert!(inside >= 17, "{inside} of 20");
}

#[test]
fn an_implicit_filter_is_fitted_by_its_prediction_errors() {
    let text = "states = [\"x\"]\n[parameters]\na = 0.9\n[dynamics]\nx = \"a*x\"\n[observation]\ny = \"x\"\n\
        [process_noise]\nvar = 1\n[measurement_noise]\nvar = 0.01\n[initial]\nmean = 0\nstd = 1\n\
        [filter]\nmethod = \"imap\"\noptimizer = \"gd\"\nsteps = 5\nlr = 0.005\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let data = [drawn(&spec, 500, 5)];
    let mut wrong = spec.clone();
    wrong.parameters[0].1 = 0.5;
    let found = fit(&wrong, &wrong.filter, &data, &Options::default()).unwrap();
    assert_eq!((found.criterion.name(), found.estimates.len()), ("prediction", 1));
    let (a, error) = value_of(&found, "a");
    assert!((a - 0.9).abs() < 3.0 * error && error < 0.1, "{a} {error}");
    let options = Options { free: vec!["process_noise".into()], ..Options::default() };
    let refused = fit(&spec, &spec.filter, &data, &options).unwrap_err().to_string();
    assert!(refused.contains("which do not say what `process_noise.x` is"), "{refused}");
}

#[test]
fn several_series_share_one_model() {
    let spec = ModelSpec::parse("m.toml", "system = \"local-level\"").unwrap();
    let parts: Vec<Dataset> = (0..5).map(|seed| drawn(&spec, 60, seed)).collect();
    let all = fit(&spec, &spec.filter, &parts, &Options::default()).unwrap();
    let one = fit(&spec, &spec.filter, &parts[..1], &Options::default()).unwrap();
    assert_eq!((all.series, all.rows), (5, 300));
    let (level, error) = value_of(&all, "process_noise.level");
    assert!((level - 0.25).abs() < 3.0 * error, "{level} {error}");
    assert!(error < 0.7 * value_of(&one, "process_noise.level").1);
}

#[test]
fn what_is_at_a_bound_or_flat_is_said_to_be() {
    // A constant seen with noise: the level does not wander.
    let spec = ModelSpec::parse("m.toml", "system = \"local-level\"").unwrap();
    let ys: Vec<Vec<f64>> = (0..80).map(|k| vec![3.0 + f64::from(k % 2) - 0.5]).collect();
    let found = fit(&spec, &spec.filter, &[series(&spec, &ys)], &Options::default()).unwrap();
    assert_eq!(found.estimates[0].at_bound, Some(0.0), "{found:?}");
    assert!(found.estimates[0].std_error.is_none() && found.estimates[1].std_error.is_some());
    assert!(found.warnings[0].starts_with("process_noise.level is at its bound 0"));

    // Two parameters of which only the product is seen.
    let text = "states = [\"x\"]\n[parameters]\na = 0.8\nb = 1.1\n[dynamics]\nx = \"a*b*x\"\n[observation]\ny = \"x\"\n\
        [process_noise]\nvar = 1\n[measurement_noise]\nvar = 0.5\n[initial]\nmean = 0\nstd = 1\n[fit]\nfree = [\"a\", \"b\"]\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let data = drawn(&spec, 200, 3);
    let found = fit(&spec, &spec.filter, &[data], &Options::default()).unwrap();
    let flat = found.warnings.iter().any(|w| w.starts_with("the likelihood is flat in a, b"));
    assert!(flat, "{:?}", found.warnings);
}

#[test]
fn bounds_hold_and_are_reported() {
    let text =
        "system = \"pendulum\"\n[fit]\nfree = [\"g\", \"length\"]\n[fit.bounds]\ng = [5, 9]\n";
    let bounded = ModelSpec::parse("m.toml", text).unwrap();
    let mut spec = bounded.clone();
    spec.parameters.iter_mut().find(|(n, _)| n == "g").unwrap().1 = 8.0;
    let truth =
        ModelSpec::parse("p.toml", "system = \"pendulum\"\n[measurement_noise]\nstd = 0.05\n")
            .unwrap();
    let data = [drawn(&truth, 300, 1)];
    let options = Options { free: vec!["g".into()], ..Options::default() };
    let found = fit(&spec, &spec.filter, &data, &options).unwrap();
    assert!(found.estimates[0].value <= 9.0 && found.estimates[0].value > 8.999);
    assert_eq!(found.estimates[0].at_bound, Some(9.0));
    let outside = fit(&bounded, &bounded.filter, &data, &options).unwrap_err().to_string();
    assert!(
        outside.contains("`g` is 9.81 in the model, which is not between its bounds 5 and 9"),
        "{outside}"
    );
}

#[test]
fn estimates_go_into_the_file_and_come_back() {
    let text = "# mine\nsystem = \"pendulum\"\n[parameters]\ng = 8.5 # on earth\n\n[fit]\nfree = [\"g\", \"process_noise\", \"measurement_noise\", \"initial.mean.theta\"]\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let data = [drawn(&ModelSpec::parse("p.toml", "system = \"pendulum\"").unwrap(), 300, 2)];
    let options = Options { starts: 1, ..Options::default() };
    let found = fit(&spec, &spec.filter, &data, &options).unwrap();
    let after = with_estimates(text, &spec, &found).unwrap();
    assert!(after.starts_with("# mine\n") && after.contains(" # on earth\n"), "{after}");
    let read = ModelSpec::parse("m.toml", &after).unwrap();
    assert_eq!(read, ModelSpec { name: read.name.clone(), ..found.model(&spec) });
    assert_eq!(with_estimates(&after, &read, &found).unwrap(), after);
    // A fit from there stays there.
    let again = fit(&read, &read.filter, &data, &options).unwrap();
    assert!((again.log_likelihood - found.log_likelihood).abs() < 1e-6);
}

#[test]
fn what_cannot_be_fitted_is_refused_by_name() {
    let refused = |text: &str, method: &str, free: &[&str]| -> String {
        let spec = ModelSpec::parse("m.toml", text).unwrap();
        let filter = FilterSpec::of(method).unwrap().over(&spec.filter);
        let data = [series(&spec, &vec![vec![1.0; spec.observations.len()]; 5])];
        let free = free.iter().map(|f| (*f).to_owned()).collect();
        let options = Options { free, ..Options::default() };
        fit(&spec, &filter, &data, &options).unwrap_err().to_string()
    };
    let level = "system = \"local-level\"";
    let message = refused(level, "kf", &["proces_noise"]);
    assert_eq!(
        message,
        "there is nothing called `proces_noise` to estimate; did you mean `process_noise`?"
    );
    assert!(
        refused(level, "pf", &[]).contains("pf has no likelihood that could be differentiated")
    );
    assert!(
        refused(level, "kf", &["parameters"]).contains("the model states nothing of `parameters`")
    );
    assert!(
        refused("system = \"lotka-volterra\"", "ekf", &[])
            .contains("does not scatter by a Gaussian")
    );
    let diffuse = "system = \"pendulum\"\n[initial]\nmean = 1\nstd = 1\ndiffuse = true";
    assert!(refused(diffuse, "ekf", &[]).contains("exact for linear models only"));
    let wrong = "system = \"local-level\"\n[fit]\nfree = [\"measurement_noise\", \"levle\"]\n";
    let error = ModelSpec::parse("m.toml", wrong).unwrap_err();
    assert_eq!((error.line, error.column), (3, 30), "{error}");
    let spec = ModelSpec::parse("m.toml", level).unwrap();
    let empty = fit(&spec, &spec.filter, &[series(&spec, &[vec![f64::NAN]])], &Options::default());
    assert_eq!(empty.unwrap_err(), FitError::Empty { series: 0 });
}

#[test]
fn a_fit_ends_when_it_is_told_to() {
    let spec = ModelSpec::parse("m.toml", "system = \"local-level\"").unwrap();
    let rows: Vec<Vec<f64>> = (0..50).map(|k| vec![f64::from(k).sin()]).collect();
    let (data, options) = ([series(&spec, &rows)], Options::default());
    let told = |stop| {
        let watch = Watch::new(Arc::new(AtomicBool::new(stop)));
        (fit_watched(&watch, &spec, &spec.filter, &data, &options), watch)
    };
    assert_eq!(told(true).0.unwrap_err(), FitError::Stopped);
    let (found, watch) = told(false);
    // What is shown meanwhile ends where the fit does.
    let best = watch.best().unwrap();
    assert!(
        watch.passes() > 5 && (best.log_likelihood - found.unwrap().log_likelihood).abs() < 1e-6
    );
    assert_eq!(best.values[0].0, "process_noise.level");
}

/// Two sensors of one state, in units of a c-th: every row is as likely as before, less twice the logarithm of c. What rounding leaves
/// of an unknown that the first sensor has resolved is not resolved again by the second.
#[test]
fn an_unknown_is_resolved_once() {
    let at = |c: f64| {
        let text = format!(
            "states = [\"level\", \"slope\"]\n[dynamics]\nlevel = \"level + slope\"\nslope = \"slope\"\n\
             [observation]\na = \"{c}*level\"\nb = \"{c}*level\"\n[process_noise]\nvar = 0.5\n\
             [measurement_noise]\nvar = {}\n[initial]\nmean = 0\nstd = 1\ndiffuse = true\n[filter]\nmethod = \"kf\"\n",
            c * c
        );
        let spec = ModelSpec::parse("m.toml", &text).unwrap();
        let rows: Vec<Vec<f64>> = (0..20)
            .map(|k| (k as f64, (1.7 * k as f64).sin()))
            .map(|(k, noise)| vec![c * (k + noise), c * (k - noise)])
            .collect();
        let data = [series(&spec, &rows)];
        let free = quantities(&spec, &["measurement_noise.a".into()]).unwrap();
        let objective = Objective::new(&spec, &spec.filter, free, &data).unwrap();
        objective.gradient(&objective.place(&[c * c])).unwrap().0
    };
    for c in [2.0, 7.0, 49.0, 0.3] {
        // Of the 40 numbers two resolve the unknowns, in units of c as the others.
        let expected = at(1.0) - 40.0 * f64::ln(c);
        assert!((at(c) - expected).abs() < 1e-8, "{c}: {} {expected}", at(c));
    }
}

#[test]
fn bounds_are_of_single_quantities() {
    let text = "system = \"local-level\"\n[fit.bounds]\nprocess_noise = [0, 0.01]\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let data = [drawn(&spec, 50, 1)];
    let error = fit(&spec, &spec.filter, &data, &Options::default()).unwrap_err();
    let FitError::Free(error) = error else { panic!("{error:?}") };
    assert_eq!(error.message, "[fit.bounds]: `process_noise` is a group");
    assert!(error.help.unwrap().contains("process_noise.level"));
}

/// An error of many units is no word about what the series tells, where the quantity is many more.
#[test]
fn what_is_large_in_its_units_is_not_flat() {
    let text = "states = [\"level\"]\n[dynamics]\nlevel = \"level\"\n[observation]\ny = \"level\"\n[process_noise]\nvar = 0.25\n\
        [measurement_noise]\nvar = 200000\n[initial]\nmean = 900\nstd = 1\n[fit]\nfree = [\"initial.mean\"]\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let rows: Vec<Vec<f64>> =
        (0..100).map(|k| vec![1000.0 + 450.0 * f64::sin(2.3 * k as f64)]).collect();
    let found = fit(&spec, &spec.filter, &[series(&spec, &rows)], &Options::default()).unwrap();
    assert!((value_of(&found, "initial.mean.level").0 - 1000.0).abs() < 100.0);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
}

/// Measurements without noise leave a covariance of zero, which every filter goes on from.
#[test]
fn exact_measurements_are_fitted_by_every_filter() {
    let text = "states = [\"x\", \"v\"]\n[parameters]\na = 0.9\n[dynamics]\nx = \"a*x\"\nv = \"0.5*v + 0.1*x\"\n[observation]\n\
        y = \"x\"\n[process_noise]\nvar = 1\n[measurement_noise]\nvar = 0\n[initial]\nmean = 0\nstd = 2\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let data =
        [series(&spec, &[vec![1.0], vec![2.0], vec![f64::NAN], vec![1.5], vec![0.4], vec![1.1]])];
    let options =
        Options { free: vec!["process_noise.x".into(), "a".into()], ..Options::default() };
    let fits = ["kf", "ekf", "iekf", "ukf"]
        .map(|method| fit(&spec, &FilterSpec::of(method).unwrap(), &data, &options).unwrap());
    for found in &fits[1..] {
        assert!((found.log_likelihood - fits[0].log_likelihood).abs() < 1e-8, "{:?}", found.method);
        for (a, b) in found.estimates.iter().zip(&fits[0].estimates) {
            assert!((a.value - b.value).abs() < 1e-4, "{:?}: {a:?} {b:?}", found.method);
            let (a, b) = (a.std_error.unwrap(), b.std_error.unwrap());
            assert!((a - b).abs() < 1e-3, "{:?}: {a} {b}", found.method);
        }
    }
}
