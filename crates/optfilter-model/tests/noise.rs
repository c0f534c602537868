//! Noise that is an expression of columns, times and inputs.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use nalgebra::DMatrix;
use optfilter::Series;
use optfilter_model::run::{Dataset, Interpolation, Layout};
use optfilter_model::table::{Format, Rows, Source, TableReader};
use optfilter_model::{FilterSpec, ModelSpec};
use optfilter_run::{Covariance, GapPolicy, Method, Problem, simulate, smooth};
use std::io::Cursor;

const LEVEL: &str = r#"
states = ["level"]
[dynamics]
level = "level"
[observation]
y = "level"
[process_noise]
var = "0.1*hdop"
[measurement_noise]
std = "0.5*hdop"
[initial]
mean = 0.2
var = 2
"#;

const ROWS: &str = "y,hdop\n1.2,1\n,2\n0.4,0.5\n2.5,4\n1.9,1.5\n-0.3,3\n0.8,1\n1.1,0.8\n";

fn table(spec: &ModelSpec, text: &str) -> Rows {
    let layout = Layout::new(spec, None);
    let wanted = layout.wanted(spec);
    let source = Source::Stream(Box::new(Cursor::new(text.as_bytes().to_vec())));
    let mut reader = TableReader::open(source, Format::Csv, |_| wanted).unwrap();
    let mut rows = Rows::default();
    while reader.read(&mut rows, 1 << 12).unwrap() {}
    rows
}

fn data(spec: &ModelSpec, text: &str) -> Dataset {
    Dataset::new(spec, &Layout::new(spec, None), &table(spec, text)).unwrap()
}

/// Means, variances and log-likelihoods.
fn filtered(spec: &ModelSpec, data: &Dataset, filter: &FilterSpec) -> [Vec<f64>; 3] {
    let mut out = [Vec::new(), Vec::new(), Vec::new()];
    let ran = data.run(spec, filter, data.len(), |_, estimate| {
        out[0].extend_from_slice(&estimate.mean);
        out[1].extend((0..estimate.mean.len()).map(|i| estimate.std(i).powi(2)));
        out[2].push(estimate.log_likelihood);
    });
    ran.unwrap().unwrap();
    out
}

fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{what}: {found:?}, {expected:?}");
    }
}

/// statsmodels 0.14, KalmanFilter with an obs_cov and a state_cov for every row.
const MEANS: [f64; 8] = [
    1.0888888888888888,
    1.0888888888888888,
    0.48051948051948057,
    0.6868532283923627,
    1.291363623807071,
    0.9650872473904325,
    0.8508701921379311,
    1.0034765667272951,
];
const VARIANCES: [f64; 8] = [
    0.22222222222222232,
    0.42222222222222233,
    0.05519480519480519,
    0.40868678035271827,
    0.2802934528442615,
    0.4613162170825377,
    0.17296468542839233,
    0.09800922717291524,
];
const LOG_LIKELIHOODS: [f64; 8] = [
    -1.5466258635350592,
    0.0,
    -1.049686398095318,
    -2.123675749873858,
    -1.6324570790002522,
    -1.88650958345647,
    -0.831185877806986,
    -0.5518883858519082,
];
const SMOOTHED: [f64; 8] = [
    0.8328621217730838,
    0.6024380313688595,
    0.5448320087678035,
    1.0109086840732968,
    1.1298465129656055,
    0.956973644331879,
    0.9552148500909426,
    1.0034765667272951,
];

#[test]
fn gaussian_filters_equal_statsmodels() {
    let spec = ModelSpec::parse("m.toml", LEVEL).unwrap();
    assert_eq!(spec.inputs, ["hdop"]);
    let data = data(&spec, ROWS);
    for method in ["kf", "ekf", "iekf", "ukf"] {
        let found = filtered(&spec, &data, &FilterSpec::of(method).unwrap());
        close(&found[0], &MEANS, 1e-12, method);
        close(&found[1], &VARIANCES, 1e-12, method);
        close(&found[2], &LOG_LIKELIHOODS, 1e-12, method);
    }
    let pf = FilterSpec { particles: Some(100_000), ..FilterSpec::of("pf").unwrap() };
    let found = filtered(&spec, &data, &pf);
    close(&found[0], &MEANS, 0.01, "pf");
    close(&found[2], &LOG_LIKELIHOODS, 0.02, "pf");
    // An ensemble that spans more than the state has exact moments but for its sampling.
    let etkf =
        FilterSpec { members: Some(4000), inflation: Some(1.0), ..FilterSpec::of("etkf").unwrap() };
    close(&filtered(&spec, &data, &etkf)[0], &MEANS, 0.06, "etkf");
}

#[test]
fn smoothing_equals_statsmodels() {
    let spec = ModelSpec::parse("m.toml", LEVEL).unwrap();
    let data = data(&spec, ROWS);
    let filter = FilterSpec::of("kf").unwrap();
    let runner = spec.runner(&filter).unwrap();
    let series = data.series(&spec, &filter).unwrap();
    let found = smooth(&*runner, &series).unwrap();
    close(&found.means, &SMOOTHED, 1e-12, "smoothed");
}

/// One gradient step on the likelihood moves by lr (y - x) / R of the row.
#[test]
fn the_implicit_filter_weighs_each_measurement_by_its_row() {
    let spec = ModelSpec::parse("m.toml", LEVEL).unwrap();
    let data = data(&spec, ROWS);
    let filter = FilterSpec {
        optimizer: Some("gd".into()),
        steps: Some(1),
        lr: Some(0.05),
        error_bars: Some(false),
        gaps: Some(GapPolicy::Ignore),
        ..FilterSpec::of("imap").unwrap()
    };
    let found = filtered(&spec, &data, &filter);
    let hdop = [1.0, 2.0, 0.5, 4.0, 1.5, 3.0, 1.0, 0.8];
    let (mut x, mut expected) = (0.2, Vec::new());
    for (k, h) in hdop.iter().enumerate() {
        let y = data.output(k)[0];
        if !y.is_nan() {
            x += 0.05 * (y - x) / (0.5 * h * 0.5 * h);
        }
        expected.push(x);
    }
    close(&found[0], &expected, 1e-14, "imap");
}

/// An expression that is a number is that number, for every filter and every likelihood with a scale.
#[test]
fn a_law_that_is_constant_is_the_constant() {
    let rows = "y,q\n1.2,3\n,3\n0.4,3\n2.5,3\n1.9,3\n-0.3,3\n0.8,3\n1.1,3\n";
    for likelihood in ["gaussian", "student-t", "huber"] {
        let model = |process: &str, measured: &str| {
            let text = format!(
                "states = [\"a\", \"v\"]\n[dynamics]\na = \"a + 0.3*v\"\nv = \"0.9*v\"\n[observation]\n\
                 y = {{ equation = \"a\", likelihood = \"{likelihood}\" }}\n[process_noise]\nstd = {{ a = {process}, v = 0.4 }}\n\
                 [measurement_noise]\nstd = {measured}\n[initial]\nmean = 0.2\nvar = 2\n"
            );
            ModelSpec::parse("m.toml", &text).unwrap()
        };
        let (varying, plain) = (model("\"0.5*q\"", "\"q/4\""), model("1.5", "0.75"));
        let (seen, same) = (data(&varying, rows), data(&plain, rows));
        for method in Method::NAMES {
            if method == "kf" && likelihood != "gaussian" || method == "vkf" {
                continue; // vkf states its prior once
            }
            let filter = FilterSpec::of(method).unwrap();
            let (a, b) = (filtered(&varying, &seen, &filter), filtered(&plain, &same, &filter));
            for (a, b) in a.iter().zip(&b) {
                let pairs = a.iter().zip(b).filter(|(a, b)| !(a.is_nan() && b.is_nan()));
                let (a, b): (Vec<f64>, Vec<f64>) = pairs.unzip();
                close(&a, &b, 1e-9, &format!("{method}, {likelihood}"));
            }
        }
        for window in [None, Some(3)] {
            let cg = FilterSpec {
                optimizer: Some("cg".into()),
                window,
                ..FilterSpec::of("imap").unwrap()
            };
            let (a, b) = (filtered(&varying, &seen, &cg), filtered(&plain, &same, &cg));
            close(&a[0], &b[0], 1e-9, &format!("cg {window:?}, {likelihood}"));
        }
    }
}

#[test]
fn what_a_law_may_not_read_is_said_where_it_stands() {
    for (from, to, message, help) in [
        (
            "0.5*hdop",
            "0.5*level",
            "noise cannot depend on a state, and `level` is one",
            "it may depend on t, dt",
        ),
        ("0.5*hdop", "0.5*hdop +", "the expression ends where a value is expected", ""),
        (
            "0.5*hdop",
            "0.5*leve",
            "unknown name `leve`; it looks like the state `level`",
            "columns of the table",
        ),
        ("0.5*hdop", "1 + sqr(hdop)", "there is no function `sqr`", ""),
    ] {
        let error = ModelSpec::parse("m.toml", &LEVEL.replace(from, to)).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        assert!(error.help.clone().unwrap_or_default().contains(help), "{error}");
        assert_eq!(error.line, 10, "{error}");
    }
    // A name close to a known one is most likely that one.
    let text = LEVEL.replace("[dynamics]", "[parameters]\nsigma = 2\n[dynamics]");
    let error = ModelSpec::parse("m.toml", &text.replace("0.5*hdop", "sigmas*hdop")).unwrap_err();
    assert_eq!(error.help.as_deref(), Some("did you mean `sigma`?"));
    // Whoever states the process noise once refuses one that varies.
    let spec = ModelSpec::parse("m.toml", LEVEL).unwrap();
    let refused = spec.runner(&FilterSpec::of("vkf").unwrap()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("varies from row to row"), "{refused}");
}

#[test]
fn held_inputs_stay_as_they_were() {
    let text = "states = [\"x\"]\n[inputs]\npush = { hold = true }\n[dynamics]\nx = \"x + push\"\n[observation]\ny = \"x\"\n\
                [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let held = data(&spec, "y,push\n1,2\n2,\n,\n4,-1\n5,\n");
    assert_eq!(held.inputs, [2.0, 2.0, 2.0, -1.0, -1.0]);
    // Nothing before the first: what moves a state is missing, whether something is measured or not.
    let unknown = data(&spec, "y,push\n,\n2,3\n").inputs;
    assert!(unknown[0].is_nan() && unknown[1] == 3.0, "{unknown:?}");
    // What noise alone reads does not matter while nothing is measured.
    let noisy = ModelSpec::parse("m.toml", LEVEL).unwrap();
    assert_eq!(data(&noisy, "y,hdop\n,\n2,3\n").inputs, [1.0, 3.0]);
    assert!(data(&noisy, "y,hdop\n1,\n2,3\n").inputs[0].is_nan());
    assert!(data(&spec, "y,push\n1,\n2,3\n").inputs[0].is_nan());
    let error = ModelSpec::parse("m.toml", &text.replace("{ hold = true }", "true")).unwrap_err();
    assert_eq!(error.line, 3, "{error}");
}

#[test]
fn interpolated_inputs_lie_on_a_line() {
    let text = "states = [\"x\"]\n[inputs]\npush = { interpolate = true }\n[dynamics]\nx = \"x + push\"\n[observation]\ny = \"x\"\n\
                [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let even = data(&spec, "y,push\n1,2\n2,\n,\n4,-1\n5,\n");
    assert_eq!(even.inputs, [2.0, 1.0, 0.0, -1.0, -1.0]); // after the last, as before
    assert!(data(&spec, "y,push\n1,\n2,3\n").inputs[0].is_nan());
    let timed = ModelSpec::parse("m.toml", &format!("{text}[time]\ncolumn = \"t\"\n")).unwrap();
    let uneven = data(&timed, "t,y,push\n0,1,2\n1,2,\n4,,4\n4,1,\n4,1,8\n");
    assert_eq!(uneven.inputs, [2.0, 2.5, 4.0, 4.0, 8.0]);
    let both = text.replace("interpolate = true", "hold = true, interpolate = true");
    let error = ModelSpec::parse("m.toml", &both).unwrap_err();
    assert!(error.to_string().contains("not both"), "{error}");
}

/// Rows of two series in small batches: each waits for its own series' next value, and all come out in order.
#[test]
fn rows_wait_for_the_next_value_of_their_series() {
    let text = "states = [\"x\"]\n[inputs]\npush = { interpolate = true }\n[dynamics]\nx = \"x + push\"\n[observation]\ny = \"x\"\n\
                [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nvar = 1\n";
    let spec = ModelSpec::parse("m.toml", text).unwrap();
    let layout = Layout::new(&spec, None).by(Some("who"));
    let mut lines = Interpolation::new(&spec, &layout).unwrap();
    let nan = f64::NAN;
    // Input, measurement, number of the series.
    let rows = [
        (0.0, 0.0),
        (10.0, 1.0),
        (nan, 0.0),
        (nan, 1.0),
        (2.0, 0.0),
        (nan, 0.0),
        (30.0, 1.0),
        (nan, 1.0),
    ];
    let mut out = Vec::new();
    let mut waited = Vec::new();
    for (push, who) in rows {
        let mut batch = Rows::default();
        (batch.values, batch.rows) = (vec![push, 1.0, who], 1);
        batch.labels = vec!["a".to_owned(), "b".to_owned()];
        let free = lines.push(batch);
        waited.push(free.len());
        out.extend(free.iter().map(|batch| batch.values[0]));
    }
    assert_eq!(waited, [1, 1, 0, 0, 1, 0, 2, 0]);
    out.extend(lines.finish().iter().map(|batch| batch.values[0]));
    assert_eq!(out[..5], [0.0, 10.0, 1.0, 20.0, 2.0]);
    assert_eq!(out[5..], [2.0, 30.0, 30.0]); // after the last, as before
}

/// What is simulated scatters as the law says.
#[test]
fn simulated_rows_scatter_by_their_laws() {
    let text = LEVEL.replace("0.1*hdop", "0.0").replace("0.5*hdop", "1 + 2*(k > 2000)");
    let spec = ModelSpec::parse("m.toml", &text.replace("\"0.0\"", "0")).unwrap();
    let (mut states, mut seen) = (Vec::new(), Vec::new());
    let rows = spec.simulate(4000, (7, 0), false, &[], |_, x, y| {
        states.push(x[0]);
        seen.push(y[0]);
        true
    });
    rows.unwrap();
    let spread = |rows: std::ops::Range<usize>| {
        let squares = rows.clone().map(|k| (seen[k] - states[k]).powi(2));
        (squares.sum::<f64>() / rows.len() as f64).sqrt()
    };
    assert!((spread(0..2000) - 1.0).abs() < 0.05, "{}", spread(0..2000));
    assert!((spread(2000..4000) - 3.0).abs() < 0.15, "{}", spread(2000..4000));
}

#[test]
fn a_spread_that_is_negative_is_refused_by_every_filter_and_named() {
    for (kind, written) in [("std", "0.5*hdop"), ("var", "hdop")] {
        let text = LEVEL
            .replace("std = \"0.5*hdop\"", &format!("{kind} = \"{written}\""))
            .replace("0.1*hdop", "0.1 + 0*hdop");
        let spec = ModelSpec::parse("m.toml", &text).unwrap();
        let rows = data(&spec, "y,hdop\n1,2\n2,-4\n");
        for method in Method::NAMES.iter().filter(|name| **name != "vkf") {
            let filter = FilterSpec::of(method).unwrap();
            let ran = rows.run(&spec, &filter, 2, |_, _| {}).unwrap();
            assert!(ran.is_err(), "{method} takes a {kind} that is negative");
        }
        let flaw = spec.noise_flaw(rows.input(1), &rows.steps[1]).unwrap();
        let value = if kind == "std" { -2 } else { -4 };
        let said = format!("[measurement_noise] {kind} = {written:?} gives {value} for y");
        assert!(flaw.starts_with(&said), "{flaw}");
        assert_eq!(spec.noise_flaw(rows.input(0), &rows.steps[0]), None);
    }
}

/// A field of many states with one variance for all of them needs no matrix; filters that do are refused by name.
#[test]
fn many_states_need_no_matrices() {
    let field = |n: usize| {
        let text = format!(
            "states = [\"x[{n}]\"]\n[fields]\nx = {{ edges = \"periodic\" }}\n[dynamics]\n\
             \"dx[i]/dt\" = \"(x[i+1] - x[i-2])*x[i-1] - x[i] + 8\"\n[observation]\n\
             \"y[i]\" = {{ equation = \"x[i]\", size = {n} }}\n[process_noise]\nstd = 0.1\n\
             [measurement_noise]\nstd = 1\n[initial]\nmean = 8\nstd = 1\n[time]\ndt = 0.05\n"
        );
        ModelSpec::parse("field", &text).unwrap_or_else(|e| panic!("{e}"))
    };
    let drawn = |problem: &Problem, rows: usize| {
        let (mut states, mut y) = (Vec::new(), Vec::new());
        simulate(problem, rows, (7, 0), true, &[], |_, x, seen| {
            states.extend_from_slice(x);
            y.extend_from_slice(seen);
            true
        })
        .unwrap();
        (states, y)
    };
    let n = 30_000;
    let (_, y) = drawn(&field(n).problem().unwrap(), 3);
    let series = Series::new(&y, n).unwrap().with_dt(0.05).unwrap();
    let spec =
        FilterSpec { prior_var: Some(0.1), steps: Some(3), ..FilterSpec::of("vkf").unwrap() };
    let result = field(n).runner(&spec).unwrap().filter(&series).unwrap();
    assert!(result.means.iter().all(|x| x.is_finite()));
    for name in ["ekf", "iekf", "ukf", "pf"] {
        let refused = field(n).runner(&FilterSpec::of(name).unwrap()).err().unwrap().to_string();
        assert!(refused.contains("30000 x 30000"), "{refused}");
    }
    // The same draws as from a matrix.
    let small = field(5).problem().unwrap();
    let dense = Problem { cov: Covariance::Dense(DMatrix::identity(5, 5)), ..small.clone() };
    assert!(!matches!(small.cov, Covariance::Dense(_)));
    assert_eq!(drawn(&small, 20), drawn(&dense, 20));
}

/// A chain of definitions that doubles with each is no matter of noise that uses none of it, or its beginning only.
#[test]
fn noise_expands_only_the_definitions_that_it_uses() {
    let mut chain = "[definitions]\nd0 = \"0.1*hdop\"\n".to_owned();
    for k in 1..40 {
        chain += &format!("d{k} = \"0.5*(d{0} + d{0})\"\n", k - 1);
    }
    let with = |noise: &str| {
        let text = LEVEL.replace("[dynamics]", &format!("{chain}[dynamics]"));
        ModelSpec::parse("m.toml", &text.replace("var = \"0.1*hdop\"", noise))
    };
    let plain = ModelSpec::parse("m.toml", LEVEL).unwrap();
    let filter = FilterSpec::of("kf").unwrap();
    let expected = filtered(&plain, &data(&plain, ROWS), &filter);
    for noise in ["var = \"0.1*hdop\"", "var = \"d0\"", "var = \"d5\""] {
        let spec = with(noise).unwrap();
        assert_eq!(filtered(&spec, &data(&spec, ROWS), &filter), expected, "{noise}");
    }
    let refused = with("var = \"d39\"").unwrap_err().to_string();
    assert!(refused.contains("too many parts"), "{refused}");
}
