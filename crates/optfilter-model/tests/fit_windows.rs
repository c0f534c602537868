//! Fits along windows and by predictions: against statsmodels, against differences, against the Kalman filter, and what is refused.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter_model::fit::{
    Criterion, Fit, FitError, Options, Prediction, Windows, fit, plan, quantities,
};
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::Rows;
use optfilter_model::{FilterSpec, ModelSpec};
use serde_json::Value;

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn by(criterion: Criterion, free: &[&str]) -> Options {
    Options { free: named(free), criterion: Some(criterion), ..Options::default() }
}

fn value_of(fit: &Fit, name: &str) -> (f64, f64) {
    let found = fit.estimates.iter().find(|e| e.name == name).unwrap();
    (found.value, found.std_error.unwrap_or(f64::NAN))
}

/// Rows of time (where there is one), inputs and outputs.
fn table(spec: &ModelSpec, timed: bool, rows: &[Vec<f64>]) -> Dataset {
    let bare = ModelSpec { time_column: None, ..spec.clone() };
    let layout = Layout::new(&bare, timed.then_some("t"));
    let mut table = Rows::default();
    table.rows = rows.len();
    rows.iter().for_each(|row| table.values.extend_from_slice(row));
    Dataset::new(spec, &layout, &table).unwrap()
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    let list = value.as_array()?;
    Some(list.iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect())
}

#[test]
fn growing_measurements_are_the_regressions_of_statsmodels() {
    let document: Value = serde_json::from_str(include_str!("golden/fit_glm.json")).unwrap();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let name = &case["name"];
        let spec = ModelSpec::parse("m.toml", case["model"].as_str().unwrap()).unwrap();
        let data: Vec<Dataset> = (case["series"].as_array().unwrap().iter())
            .map(|series| {
                let (ts, ys) = (numbers(&series["ts"]), numbers(&series["ys"]).unwrap());
                let row = |k: usize| ts.iter().map(|ts| ts[k]).chain([ys[k]]).collect();
                let rows: Vec<Vec<f64>> = (0..ys.len()).map(row).collect();
                table(&spec, ts.is_some(), &rows)
            })
            .collect();
        let theirs = case["parameters"].as_object().unwrap();
        let free: Vec<&str> = theirs.keys().map(String::as_str).collect();
        let window = case["window"].as_u64().map(|window| window as u32);
        let options = Options { window, ..by(Criterion::Window, &free) };
        let found = fit(&spec, &spec.filter, &data, &options).unwrap();
        assert!(found.converged && found.warnings.is_empty(), "{name}: {:?}", found.warnings);
        let likelihood = case["log_likelihood"].as_f64().unwrap();
        // Theirs is at an optimum found to 1e-14 of the deviance.
        assert!((found.log_likelihood - likelihood).abs() < 1e-9, "{name}: {found:?} {likelihood}");
        assert!((found.aic - case["aic"].as_f64().unwrap()).abs() < 1e-8, "{name}: {}", found.aic);
        for (parameter, theirs) in theirs {
            let (ours, error) = value_of(&found, parameter);
            let theirs = theirs.as_f64().unwrap();
            assert!((ours / theirs - 1.0).abs() < 1e-7, "{name} {parameter}: {ours} {theirs}");
            let theirs = case["std_errors"][parameter].as_f64().unwrap();
            assert!((error / theirs - 1.0).abs() < 1e-4, "{name} {parameter}: {error} {theirs}");
        }
    }
}

/// Two outputs of different kinds, inputs, irregular times, gaps, a start that is partly known.
const MIXED: &str = r#"
states = ["x", "v", "rate"]
inputs = ["push"]
[parameters]
damping = 0.4
stiffness = 2.0
slope = 0.3
[dynamics]
"dx/dt" = "v"
"dv/dt" = "push - stiffness*sin(x) - damping*v"
"drate/dt" = "slope*cos(x)"
[observation.a]
equation = "x + 0.1*v"
likelihood = "student-t"
[observation.n]
equation = "rate"
likelihood = "poisson"
link = "log"
[measurement_noise]
std = { a = 0.2 }
[initial]
mean = { x = 0.5, v = 0.1, rate = 1 }
std = { x = 1, v = 0, rate = 0.5 }
[time]
column = "t"
[filter]
method = "imap"
measurement_scale = 1.2
[fit]
free = ["damping", "slope", "stiffness", "measurement_noise.a", "initial.mean.v"]
"#;

/// Correlated Gaussian noise, an angle, an exact solution.
const TURNING: &str = r#"
states = ["angle", "speed"]
[parameters]
drag = 0.2
gain = 1.1
[dynamics]
"dangle/dt" = "speed"
"dspeed/dt" = "-drag*speed"
[observation]
seen = { equation = "gain*angle", angle = true }
fast = "speed"
[measurement_noise]
var = [[0.02, 0.005], [0.005, 0.03]]
[initial]
mean = { angle = 0.3, speed = 1.5 }
std = 1
[time]
column = "t"
[filter]
method = "imap"
[fit]
free = ["drag", "gain", "measurement_noise"]
"#;

fn examples() -> Vec<(ModelSpec, Vec<Dataset>)> {
    let nan = f64::NAN;
    let time = |k: usize| 0.2 * k as f64 + 0.05 * (k % 3) as f64;
    let mixed = ModelSpec::parse("m.toml", MIXED).unwrap();
    let swung = |k: usize| {
        let (t, phase) = (time(k), 1.4 * time(k));
        let counts = (2.0 + (0.5 * t).sin() * 1.5).round();
        let a = 0.6 * phase.cos() * (-0.2 * t).exp() + 0.1 * (7.0 * t).sin();
        vec![
            t,
            0.3 * phase.sin(),
            if k % 7 == 3 { nan } else { a },
            if k % 5 == 1 { nan } else { counts },
        ]
    };
    let turning = ModelSpec::parse("t.toml", TURNING).unwrap();
    let turned = |k: usize| {
        let t = time(k);
        let (angle, speed) = (0.4 + 7.0 * (1.0 - (-0.2 * t).exp()), 1.4 * (-0.2 * t).exp());
        let (turn, half) = (std::f64::consts::TAU, std::f64::consts::PI);
        let seen = (1.1 * angle + 0.1 * (9.0 * t).sin() + half).rem_euclid(turn) - half;
        vec![
            t,
            if k == 4 { nan } else { seen },
            if k % 4 == 2 { nan } else { speed + 0.1 * t.cos() },
        ]
    };
    let mixed_rows: Vec<Vec<f64>> = (0..30).map(swung).collect();
    let turning_rows: Vec<Vec<f64>> = (0..30).map(turned).collect();
    vec![
        (
            mixed.clone(),
            vec![table(&mixed, true, &mixed_rows[..18]), table(&mixed, true, &mixed_rows)],
        ),
        (turning.clone(), vec![table(&turning, true, &turning_rows)]),
    ]
}

#[test]
fn the_gradient_of_windows_is_that_of_central_differences() {
    for (spec, data) in examples() {
        for (window, predict_first) in [(None, false), (Some(9), false), (None, true)] {
            let filter = FilterSpec { predict_first: Some(predict_first), ..spec.filter.clone() };
            let free = quantities(&spec, &spec.fit.free).unwrap();
            let names: Vec<String> = free.iter().map(|q| q.name.clone()).collect();
            let start: Vec<f64> = free.iter().map(|q| q.start).collect();
            let windows = Windows::new(&spec, &filter, window, free, &data).unwrap();
            let expected =
                data.iter().map(|d| d.len().div_ceil(window.map_or(99, |w| w as usize + 1)));
            assert_eq!(windows.count(), expected.sum::<usize>());
            let z = windows.place(&start);
            let (_, exact) = windows.gradient(&z).unwrap();
            for i in 0..z.len() {
                let moved = |by: f64| {
                    let mut z = z.clone();
                    z[i] += by;
                    windows.gradient(&z).unwrap().0
                };
                let h = 1e-3;
                let near = 8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h));
                let (found, slope) = (exact[i], near / (12.0 * h));
                // Fourth-order differences of 1e-3: their own error, and rounding over h.
                assert!(
                    (found - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                    "{} {window:?} {predict_first}: {found} {slope}",
                    names[i]
                );
            }
        }
    }
}

/// Without process noise and with a start of which nothing is known, the Kalman filter's likelihood integrates over the first state; it
/// is highest at the same parameters, as they do not change how well the first state is known.
#[test]
fn a_line_is_that_of_a_kalman_filter_with_a_diffuse_start() {
    let text = "states = [\"x\"]\n[parameters]\npush = 0.1\n[dynamics]\nx = \"0.9*x + push\"\n[observation]\ny = \"x\"\n\
        [process_noise]\nvar = 0\n[measurement_noise]\nvar = 0.5\n[initial]\nmean = 0\nstd = 1\ndiffuse = true\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let rows: Vec<Vec<f64>> =
        (0..30).map(|k| vec![3.0 + f64::sin(1.7 * k as f64) - 2.0 * 0.9f64.powi(k)]).collect();
    let data = [table(&spec, false, &rows)];
    let free = Options { free: named(&["push"]), ..Options::default() };
    let kalman = fit(&spec, &FilterSpec::of("kf").unwrap(), &data, &free).unwrap();
    let window = fit(&spec, &spec.filter, &data, &by(Criterion::Window, &["push"])).unwrap();
    let ((a, b), (c, d)) = (value_of(&kalman, "push"), value_of(&window, "push"));
    assert!((a - c).abs() < 1e-6 && (b / d - 1.0).abs() < 1e-4, "{a} {b} {c} {d}");
    assert_eq!((window.windows, window.first_states, window.diffuse), (Some((1, 30)), 1, 0));
}

const COUNTS: &str = "states = [\"x\"]\n[parameters]\na = 0.7\n[dynamics]\nx = \"a*x + 0.3\"\n[observation.y]\nequation = \"x\"\n\
    likelihood = \"poisson\"\nlink = \"log\"\n[process_noise]\nvar = 0.1\n[initial]\nmean = 1\nstd = 1\n";

/// The value is the density of each count at the rate that the filter predicts, one after the other.
#[test]
fn predictions_of_counts_have_the_density_of_counts() {
    let text =
        format!("{COUNTS}[filter]\nmethod = \"imap\"\noptimizer = \"gd\"\nsteps = 3\nlr = 0.05\n");
    let spec = ModelSpec::parse("m.toml", &text).unwrap();
    let ys = [2.0, 4.0, f64::NAN, 3.0, 0.0, 5.0, 1.0];
    let rows: Vec<Vec<f64>> = ys.iter().map(|&y| vec![y]).collect();
    let data = [table(&spec, false, &rows)];
    // By hand: three steps of x <- x - 0.05 (exp(x) - y).
    let (mut x, mut sum) = (1.0f64, 0.0);
    for (k, y) in ys.into_iter().enumerate() {
        if k > 0 {
            x = 0.7 * x + 0.3;
        }
        if y.is_nan() {
            continue;
        }
        let factorial: f64 = (1..=y as u64).map(|v| v as f64).product();
        sum += y * x - x.exp() - factorial.ln();
        for _ in 0..3 {
            x -= 0.05 * (x.exp() - y);
        }
    }
    let free = quantities(&spec, &named(&["a"])).unwrap();
    let prediction = Prediction::new(&spec, &spec.filter, free, &data).unwrap();
    let (found, slope) = prediction.gradient(&[1.0]).unwrap();
    // Through rates, whose logarithms lose a digit or two.
    assert!((found - sum).abs() < 1e-12 * 10.0, "{found} {sum}");
    let moved = |by: f64| prediction.gradient(&[1.0 + by]).unwrap().0;
    let near = 8.0 * (moved(1e-3) - moved(-1e-3)) - (moved(2e-3) - moved(-2e-3));
    assert!((slope[0] - near / 12e-3).abs() < 1e-6, "{slope:?} {near}");
    let found = fit(&spec, &spec.filter, &data, &by(Criterion::Prediction, &["a"])).unwrap();
    assert_eq!(
        (found.criterion.name(), found.aic),
        ("prediction", 2.0 - 2.0 * found.log_likelihood)
    );
}

#[test]
fn the_criterion_is_what_suits_the_filter() {
    let of = |text: &str, method: Option<&str>, options: &Options| {
        let spec = ModelSpec::parse("m.toml", text).unwrap();
        let flags = method.map_or_else(FilterSpec::default, |name| FilterSpec::of(name).unwrap());
        let plan = plan(&spec, &flags.over(&spec.filter), options).unwrap();
        (plan.criterion, plan.filter.method().name(), plan.window)
    };
    let (level, any) = ("system = \"local-level\"", Options::default());
    let a = Options { free: named(&["initial.mean"]), ..Options::default() };
    assert_eq!(of(level, None, &any), (Criterion::Likelihood, "kf", None));
    assert_eq!(of(level, Some("imap"), &a), (Criterion::Prediction, "imap", None));
    let wide = Options { window: Some(5), ..a.clone() };
    assert_eq!(of(level, None, &wide), (Criterion::Window, "imap", Some(5)));
    let predicted = Options { criterion: Some(Criterion::Prediction), ..a.clone() };
    assert_eq!(of(level, None, &predicted), (Criterion::Prediction, "imap", None));
    assert_eq!(of(COUNTS, None, &any), (Criterion::Window, "imap", None));
    assert_eq!(of(COUNTS, Some("imap"), &any), (Criterion::Prediction, "imap", None));
    let file = format!("{COUNTS}[filter]\nmethod = \"imap\"\nwindow = 7\n");
    assert_eq!(of(&file, None, &any), (Criterion::Window, "imap", Some(7)));
    let weak = format!("{COUNTS}[filter]\nmethod = \"imap\"\nwindow = 7\nconstraint = \"weak\"\n");
    assert_eq!(of(&weak, None, &any), (Criterion::Prediction, "imap", None));
}

#[test]
fn what_windows_cannot_say_is_refused() {
    let refused = |text: &str, method: &str, options: Options| -> String {
        let spec = ModelSpec::parse("m.toml", text).unwrap();
        let filter = FilterSpec::of(method).unwrap().over(&spec.filter);
        let rows = vec![vec![1.0]; 5];
        fit(&spec, &filter, &[table(&spec, false, &rows)], &options).unwrap_err().to_string()
    };
    let of = |text: &str, free: &[&str]| refused(text, "imap", by(Criterion::Window, free));
    let has = |message: String, part: &str| assert!(message.contains(part), "{message}");
    let weak = format!("{COUNTS}[filter]\nwindow = 3\nconstraint = \"weak\"\n");
    has(of(&weak, &["a"]), "a path that may bend at every row fits any parameters");
    has(
        of(COUNTS, &["process_noise"]),
        "not `process_noise.x`: the path through a window has no process noise",
    );
    has(
        of(COUNTS, &["initial.mean"]),
        "not `initial.mean.x`: the first state of every window is found",
    );
    let scaled = format!("{COUNTS}[measurement_noise]\nvar = 3\n");
    has(of(&scaled, &["measurement_noise.y"]), "have no scale of their own");
    let zero = Options { window: Some(0), ..by(Criterion::Window, &["a"]) };
    has(refused(COUNTS, "imap", zero), "a window of one row says nothing");
    has(refused(COUNTS, "ekf", by(Criterion::Window, &["a"])), "is that of imap, not of ekf");
    has(
        refused(COUNTS, "imap", by(Criterion::Likelihood, &["a"])),
        "does not scatter by a Gaussian",
    );
    let level = "system = \"local-level\"";
    has(refused(level, "kf", by(Criterion::Prediction, &[])), "kf is fitted by its likelihood");
    has(
        refused(level, "imap", by(Criterion::Likelihood, &[])),
        "imap has no likelihood that could be differentiated",
    );
    let wide = Options { window: Some(4), ..Options::default() };
    has(refused(level, "kf", wide), "kf has no window");
    has(
        refused(level, "imap", by(Criterion::Prediction, &["process_noise"])),
        "which do not say what `process_noise.level` is",
    );
    let bare = "states = [\"x\"]\n[parameters]\na = 1\n[dynamics]\nx = \"a*x\"\n[observation]\ny = \"x\"\n[initial]\nmean = 0\nstd = 1\n";
    has(of(bare, &["a"]), "the measurement noise is not given");
}

#[test]
fn rows_that_cannot_be_are_refused() {
    let spec = ModelSpec::parse("m.toml", COUNTS).unwrap();
    let options = by(Criterion::Window, &["a"]);
    let half = [table(&spec, false, &[vec![1.0], vec![2.5]])];
    let error = fit(&spec, &spec.filter, &half, &options).unwrap_err();
    assert!(matches!(error, FitError::Filter { series: 0, .. }), "{error}");
    assert!(
        error.to_string().contains("measurement 2.5 of component 0 at time index 2"),
        "{error}"
    );
    // A model that goes by rows, at times that do not.
    let timed = ModelSpec::parse("m.toml", &format!("{COUNTS}[time]\ncolumn = \"t\"\n")).unwrap();
    let rows = [[0.0, 1.0], [1.0, 2.0], [4.0, 2.0]].map(|row| row.to_vec());
    let error = fit(&timed, &timed.filter, &[table(&timed, true, &rows)], &options).unwrap_err();
    assert!(error.to_string().contains("the step to time index 3 is 3 long"), "{error}");
}

/// Chaos: five time units of Lorenz's equations, over which errors grow a hundredfold, from a guess that is several units off.
#[test]
fn the_first_state_of_a_chaotic_path_is_found() {
    let text = "system = \"lorenz63\"\n[process_noise]\nstd = 0\n[measurement_noise]\nstd = 0.5\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let mut ys = Vec::new();
    spec.simulate(250, (4, 0), false, &[], |_, _, y| {
        ys.push(y.to_vec());
        true
    })
    .unwrap();
    let data = [table(&spec, false, &ys)];
    let mut wrong = spec.clone();
    wrong.parameters[1].1 = 28.02;
    let options = Options { starts: 1, ..by(Criterion::Window, &["rho"]) };
    let found = fit(&wrong, &wrong.filter, &data, &options).unwrap();
    let (rho, error) = value_of(&found, "rho");
    assert!((rho - 28.0).abs() < 4.0 * error && error < 0.01, "{rho} {error} {found:?}");
}
