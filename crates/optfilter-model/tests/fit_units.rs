//! Maximum likelihood in any unit: the optimum, what is said of it, and how a search begins.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter_model::ModelSpec;
use optfilter_model::fit::{Fit, Options, fit};
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::Rows;
use serde_json::Value;

/// Series of which statsmodels found the optimum (`golden/fit_units.py`), all with exactly diffuse starts.
struct Case {
    name: String,
    model: String,
    rows: Vec<Vec<f64>>,
    value: f64,
    parameters: Vec<(String, f64)>,
    inner: Option<f64>,
}

fn cases() -> Vec<Case> {
    let document: Value = serde_json::from_str(include_str!("golden/fit_units.json")).unwrap();
    let row = |row: &Value| -> Vec<f64> {
        row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect()
    };
    let case = |case: &Value| Case {
        name: case["name"].as_str().unwrap().to_owned(),
        model: case["model"].as_str().unwrap().to_owned(),
        rows: case["ys"].as_array().unwrap().iter().map(row).collect(),
        value: case["log_likelihood"].as_f64().unwrap(),
        parameters: case["parameters"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, v)| (name.clone(), v.as_f64().unwrap()))
            .collect(),
        inner: case["inner"].as_f64(),
    };
    document["cases"].as_array().unwrap().iter().map(case).collect()
}

/// Fits rows whose outputs are in units of a `units`-th.
fn fitted(model: &str, rows: &[Vec<f64>], units: &[f64], options: &Options) -> Fit {
    let spec = ModelSpec::parse("m.toml", model).unwrap();
    let times = |row: &Vec<f64>| -> Vec<f64> {
        row.iter().enumerate().map(|(i, v)| v * units[i % units.len()]).collect()
    };
    let ys: Vec<f64> = rows.iter().flat_map(times).collect();
    fit(&spec, &spec.filter, &[Dataset::simulated(&spec, &[], &ys)], options).unwrap()
}

/// How much less likely rows are in other units: ln c for every number that is not spent on the unknown start.
fn shift(rows: &[Vec<f64>], units: &[f64], diffuse: &[usize]) -> f64 {
    let of = |(i, c): (usize, &f64)| {
        let numbers = rows.iter().filter(|row| !row[i].is_nan()).count();
        (numbers - diffuse[i]) as f64 * c.ln()
    };
    units.iter().enumerate().map(of).sum()
}

/// The units of a case's outputs, and the unknowns that each resolves.
fn outputs(case: &Case, c: f64) -> (Vec<f64>, Vec<usize>) {
    match case.name.as_str() {
        // Two that have nothing to do with one another, in units that go apart.
        "two" => (vec![c, 1.0 / c], vec![1, 1]),
        "trend" => (vec![c], vec![2]),
        "season" => (vec![c], vec![4]),
        _ => (vec![c], vec![1]),
    }
}

const UNITS: [f64; 7] = [1e-12, 1e-8, 1e-3, 1.0, 250.0, 1e5, 1e12];

/// In every unit over 24 orders of magnitude, from a file that says 1 of every variance.
#[test]
fn the_optimum_is_the_same_in_any_unit() {
    for case in cases() {
        let alone = fitted(&case.model, &case.rows, &[1.0], &Options::default());
        for c in UNITS {
            let (units, diffuse) = outputs(&case, c);
            let found = fitted(&case.model, &case.rows, &units, &Options::default());
            let moved = shift(&case.rows, &units, &diffuse);
            let value = found.log_likelihood + moved;
            let what = format!("{} times {c}: {found:?}", case.name);
            assert!((value - case.value).abs() < 1e-5, "{value} for {}, {what}", case.value);
            assert!(found.converged, "{what}");
            assert!((found.aic - alone.aic - 2.0 * moved).abs() < 1e-4, "{what}");
            assert!((found.bic - alone.bic - 2.0 * moved).abs() < 1e-4, "{what}");
            for (e, one) in found.estimates.iter().zip(&alone.estimates) {
                let theirs = case.parameters.iter().find(|(name, _)| *name == e.name).unwrap().1;
                let output = usize::from(
                    e.name.ends_with(".b") || (e.name.ends_with("noise.y") && units.len() == 2),
                );
                let square = units[output] * units[output];
                let unit = case.parameters.iter().map(|(_, v)| *v).fold(0.0, f64::max);
                match e.at_bound {
                    Some(bound) => {
                        assert_eq!((bound, e.value), (0.0, 0.0), "{what}");
                        assert!(theirs < 1e-6 * unit && e.std_error.is_none(), "{what}");
                    }
                    None => {
                        assert!((e.value / square / theirs - 1.0).abs() < 2e-3, "{theirs}: {what}");
                        let error = e.std_error.unwrap() / square;
                        assert!((error / one.std_error.unwrap() - 1.0).abs() < 1e-3, "{what}");
                    }
                }
                assert_eq!(e.at_bound.is_some(), one.at_bound.is_some(), "{what}");
            }
            for (a, b) in
                found.correlations.iter().flatten().zip(alone.correlations.iter().flatten())
            {
                assert!((a - b).abs() < 1e-3 || a.is_nan() && b.is_nan(), "{what}");
            }
        }
    }
}

/// The search's one start is as good as four: it is the better one of what the file and what the rows say.
#[test]
fn one_start_is_enough_where_there_is_one_optimum() {
    for case in cases().into_iter().filter(|case| case.inner.is_none()) {
        for c in [1e-9, 1e7] {
            let (units, diffuse) = outputs(&case, c);
            let options = Options { starts: 1, ..Options::default() };
            let found = fitted(&case.model, &case.rows, &units, &options);
            let value = found.log_likelihood + shift(&case.rows, &units, &diffuse);
            assert!(
                (value - case.value).abs() < 1e-5,
                "{} times {c}: {value} {}",
                case.name,
                case.value
            );
        }
    }
}

/// The bound of a variance is tried itself: an inner maximum beside it that is lower is no estimate, and no bound.
#[test]
fn an_inner_maximum_gives_way_to_a_higher_bound() {
    let case = cases().into_iter().find(|case| case.inner.is_some()).unwrap();
    assert!(case.inner.unwrap() < case.value - 0.01);
    let found = fitted(&case.model, &case.rows, &[1.0], &Options::default());
    assert!((found.log_likelihood - case.value).abs() < 1e-6, "{found:?}");
    let level = &found.estimates[0];
    assert_eq!(
        (level.name.as_str(), level.value, level.at_bound),
        ("process_noise.level", 0.0, Some(0.0))
    );
}

/// Series drawn from models of many ratios of variances, some of them zero, each in a unit of its own, known starts among them: the
/// optimum is the one that is found where variances are about 1.
#[test]
fn random_models_in_random_units_have_the_same_optimum() {
    let model = |kind: u64, [q, p, r]: [f64; 3], c: f64| {
        let (states, output) = match kind {
            0 => ("states = [\"x\"]\n[dynamics]\nx = \"x\"\n".to_owned(), "x"),
            1 => ("states = [\"x\", \"v\"]\n[dynamics]\nx = \"x + v\"\nv = \"v\"\n".to_owned(), "x"),
            2 => ("states = [\"x\", \"v\"]\n[parameters]\na = 0.5\n[dynamics]\nx = \"x\"\nv = \"a*v\"\n".to_owned(), "x + v"),
            _ => ("states = [\"x\", \"v\"]\n[dynamics]\nx = \"0.8*x\"\nv = \"x\"\n".to_owned(), "x + v/2"),
        };
        let noise =
            if kind == 0 { format!("{{ x = {q} }}") } else { format!("{{ x = {q}, v = {p} }}") };
        format!(
            "{states}[observation]\ny = \"{output}\"\n[process_noise]\nvar = {noise}\n[measurement_noise]\nvar = {r}\n\
             [initial]\nmean = 0\nstd = {c}\ndiffuse = {}\n[fit]\nfree = [\"process_noise\", \"measurement_noise\"{}]\n",
            kind < 2,
            if kind == 2 { ", \"a\"" } else { "" }
        )
    };
    for seed in 0..24_u64 {
        let kind = seed % 4;
        let of = |k: u64| 10_f64.powi((((seed * 7 + k * 5) % 9) as i32 - 4) / 2);
        let truth = ModelSpec::parse("m.toml", &model(kind, [of(0), of(1), of(2)], 1.0)).unwrap();
        let mut rows = Vec::new();
        let visit = |_: &_, _: &[f64], y: &[f64]| {
            rows.push(y.to_vec());
            true
        };
        truth.simulate(120, (seed, 0), false, &[], visit).unwrap();
        let c = 10_f64.powi((seed * 11 % 25) as i32 - 12);
        let wide = model(kind, [1.0; 3], c);
        let one = fitted(&model(kind, [1.0; 3], 1.0), &rows, &[1.0], &Options::default());
        let found = fitted(&wide, &rows, &[c], &Options::default());
        let diffuse = if kind < 2 { 1 + kind as usize } else { 0 };
        let value = found.log_likelihood + shift(&rows, &[c], &[diffuse]);
        assert!((value - one.log_likelihood).abs() < 1e-5, "{seed} times {c}: {found:?} {one:?}");
        assert!(found.converged && one.converged, "{seed} times {c}: {found:?} {one:?}");
        let bounds = |fit: &Fit| fit.estimates.iter().map(|e| e.at_bound).collect::<Vec<_>>();
        assert_eq!(bounds(&found), bounds(&one), "{seed} times {c}");
    }
}

/// Durbin and Koopman's Nile in units of a ten-thousandth, from variances of 1.
#[test]
fn the_nile_is_found_in_small_units() {
    let nile = include_str!("../../../examples/data/nile.csv");
    let flows = nile.lines().skip(1).map(|line| line.split(',').nth(1).unwrap());
    let rows: Vec<Vec<f64>> = flows.map(|v| vec![v.parse().unwrap()]).collect();
    let model = &cases()[0].model;
    let found = fitted(model, &rows, &[1e4], &Options::default());
    // statsmodels: -633.4646 for the Nile as it is; each of 99 numbers is less likely by ln 10^4.
    assert!((found.log_likelihood + 1545.2883).abs() < 1e-3, "{found:?}");
    assert!(found.converged && found.warnings.is_empty(), "{found:?}");
    assert!((found.estimates[0].value / 1.469e11 - 1.0).abs() < 1e-2);
}

/// Steps in seconds or in years, noise per unit of time, a start that is known: rows, times and start in other units are the same
/// rows.
#[test]
fn units_of_time_do_not_matter() {
    let values: Vec<f64> = cases()[1].rows.iter().map(|row| row[0]).collect();
    let at = |second: f64, c: f64| {
        let text = format!(
            "states = [\"x\", \"v\"]\n[dynamics]\n\"dx/dt\" = \"v\"\n\"dv/dt\" = \"0\"\n[observation]\ny = \"x\"\n\
             [process_noise]\nvar = 1\nper = \"time\"\n[measurement_noise]\nvar = 1\n\
             [initial]\nmean = {{ x = {}, v = 0 }}\nstd = {{ x = {}, v = {} }}\n[time]\ncolumn = \"t\"\n",
            20.0 * c,
            5.0 * c,
            0.5 * c / second
        );
        let spec = ModelSpec::parse("m.toml", &text).unwrap();
        let layout = Layout::new(&spec, Some("t"));
        let mut table = Rows::default();
        table.rows = values.len();
        for (k, y) in values.iter().enumerate() {
            table.values.extend([(k as f64 + 0.3 * (k % 3) as f64) * second, y * c]);
        }
        let data = [Dataset::new(&spec, &layout, &table).unwrap()];
        fit(&spec, &spec.filter, &data, &Options::default()).unwrap()
    };
    let one = at(1.0, 1.0);
    let numbers = values.iter().filter(|v| !v.is_nan()).count() as f64;
    for (second, c) in [(1e-9, 1.0), (3.15e7, 1.0), (1e-6, 1e8), (1e6, 1e-8)] {
        let found = at(second, c);
        let value = found.log_likelihood + numbers * f64::ln(c);
        assert!((value - one.log_likelihood).abs() < 1e-5, "{second} {c}: {found:?} {one:?}");
        for (e, one) in found.estimates.iter().zip(&one.estimates) {
            assert_eq!(e.at_bound, one.at_bound, "{second} {c}: {found:?}");
            let unit = match e.name.as_str() {
                "process_noise.x" => c * c / second,
                "process_noise.v" => c * c / second.powi(3),
                _ => c * c,
            };
            let near = (e.value / unit - one.value).abs() <= 1e-2 * one.value;
            assert!(near, "{second} {c}: {found:?} {one:?}");
        }
    }
}

/// Names are told apart from one another only where there are two of them.
#[test]
fn what_is_flat_is_said_in_the_singular_or_the_plural() {
    let text = |free: &str| {
        format!(
            "states = [\"x\"]\n[parameters]\na = 0.5\nb = 0.5\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x + 0*a + 0*b\"\n\
             [process_noise]\nvar = 1\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\n[fit]\nfree = {free}\n"
        )
    };
    let rows: Vec<Vec<f64>> = (0..30).map(|k| vec![f64::from(k).sin()]).collect();
    let said = |free: &str| fitted(&text(free), &rows, &[1.0], &Options::default()).warnings;
    let one = said("[\"a\"]");
    assert!(one.iter().any(|w| w.contains("flat in a:") && w.contains("fix it,")), "{one:?}");
    let two = said("[\"a\", \"b\"]");
    assert!(
        two.iter().any(|w| w.contains("flat in a, b:") && w.contains("fix one of them")),
        "{two:?}"
    );
}

/// What is zero in the file may be named, and then begins at what the rows say; so a saved fit can be fitted again.
#[test]
fn a_variance_of_zero_can_be_free() {
    let case = &cases()[0];
    let model = case.model.replacen("var = 1", "var = 0", 1)
        + "[fit]\nfree = [\"process_noise.level\", \"measurement_noise\"]\n";
    let found = fitted(&model, &case.rows, &[1e6], &Options::default());
    let value = found.log_likelihood + shift(&case.rows, &[1e6], &[1]);
    assert!((value - case.value).abs() < 1e-5, "{found:?}");
    assert_eq!(found.estimates[0].start, 0.0);
}

#[test]
fn the_first_rows_can_be_fitted_alone() {
    let case = &cases()[1];
    let few = Options { max_rows: Some(50), ..Options::default() };
    let (found, alone) = (
        fitted(&case.model, &case.rows, &[1.0], &few),
        fitted(&case.model, &case.rows[..50], &[1.0], &Options::default()),
    );
    assert_eq!((found.rows, found.log_likelihood), (50, alone.log_likelihood));
    assert!(found.warnings.iter().any(|w| w == "only the first 50 of 80 rows were fitted"));
}
