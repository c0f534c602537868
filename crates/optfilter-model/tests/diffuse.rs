//! Exact diffuse starts: against statsmodels and 80 digits, and the same through every way that a series can be run.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::Series;
use optfilter::model::Step;
use optfilter_model::fit::{Objective, quantities};
use optfilter_model::run::{Dataset, Layout};
use optfilter_model::table::Rows;
use optfilter_model::{FilterSpec, ModelSpec};
use optfilter_run::{
    CancelCheck, DynFilter, Estimate, FixedLagSmoother, Flag, OutputBuffers, Problem, Session,
    forecast, smooth,
};
use serde_json::Value;
use std::sync::Arc;

const METHODS: [&str; 4] = ["kf", "ekf", "iekf", "ukf"];

/// Numbers of a nested list, in order; NaN for null.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap_or(f64::NAN)],
    }
}

struct Case {
    name: String,
    spec: ModelSpec,
    ys: Vec<f64>,
    times: Option<Vec<f64>>,
    json: Value,
}

impl Case {
    fn all() -> Vec<Self> {
        let text = include_str!("golden/diffuse_statsmodels.json");
        let document: Value = serde_json::from_str(text).unwrap();
        let of = |json: &Value| Self {
            name: json["name"].as_str().unwrap().to_owned(),
            spec: ModelSpec::parse("m.toml", json["model"].as_str().unwrap()).unwrap(),
            ys: numbers(&json["ys"]),
            times: json.get("times").map(numbers),
            json: json.clone(),
        };
        document["cases"].as_array().unwrap().iter().map(of).collect()
    }

    fn series(&self) -> Series<'_> {
        let series = Series::new(&self.ys, self.spec.observations.len()).unwrap();
        match &self.times {
            Some(times) => series.with_times(times).unwrap(),
            None => series,
        }
    }

    fn runner(&self, method: &str) -> Arc<dyn DynFilter> {
        self.spec.runner(&FilterSpec::of(method).unwrap()).unwrap()
    }

    /// Theirs against ours, where ours is a finite number.
    #[track_caller]
    fn same(&self, what: &str, ours: &[f64], tolerance: f64) {
        let theirs = numbers(&self.json[what]);
        assert!(theirs.len() >= ours.len() && !ours.is_empty());
        let size = theirs.iter().filter(|v| v.is_finite()).fold(1.0f64, |a, v| a.max(v.abs()));
        for (i, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let off = (ours - theirs).abs();
            assert!(
                !ours.is_finite() || off < tolerance * size,
                "{} {what} {i}: {ours} {theirs}",
                self.name
            );
        }
    }
}

/// Of the estimates of a session, one after the other.
fn steps(case: &Case, runner: &dyn DynFilter) -> Vec<Estimate> {
    let (series, mut out) = (case.series(), Vec::new());
    let mut live = runner.start(runner.default_start()).unwrap();
    for k in 0..series.len() {
        let mut estimate = Estimate::default();
        let y = series.observation(k);
        live.step(series.predicts(k), &series.step(k), &[], y, &mut estimate).unwrap();
        out.push(estimate);
    }
    out
}

#[test]
fn filters_are_those_of_statsmodels_from_the_first_row_on() {
    for case in Case::all() {
        for method in METHODS {
            // A hundred sigma points round more than one product.
            let tolerance = if method == "ukf" { 1e-7 } else { 1e-10 };
            let runner = case.runner(method);
            let found = runner.filter(&case.series()).unwrap();
            case.same("log_likelihoods", &found.log_likelihoods, tolerance);
            case.same("filtered_mean", &found.means, tolerance);
            case.same("filtered_cov", &found.covs, tolerance);
            let begun = case.json["diffuse_rows"].as_u64().unwrap() as usize;
            let rows = steps(&case, &*runner);
            for (k, row) in rows.iter().enumerate() {
                let theirs = k + 1 < begun;
                assert_eq!(row.diffuse.is_some(), theirs, "{} {method} row {k}", case.name);
                assert_eq!(row.cov.iter().any(|v| v.is_infinite()), theirs);
                // What is not predicted has no innovation, and what resolves nothing has a NIS.
                let m = row.innovation.len();
                for i in (0..m).filter(|i| !case.ys[k * m + i].is_nan()) {
                    assert_eq!(row.innovation[i].is_nan(), row.innovation_std(i).is_infinite());
                }
                let known = row.observed > 0 && !row.innovation_cov.iter().any(|v| v.is_infinite());
                assert_eq!(row.nis.is_finite(), known, "{} {method} row {k}", case.name);
            }
            let finite = rows.iter().filter_map(|row| row.diffuse.as_ref());
            let parts: Vec<f64> = finite.flat_map(|b| b.known.cov.as_slice().to_vec()).collect();
            if !parts.is_empty() {
                case.same("filtered_cov", &parts, 1e-10);
            }
        }
    }
}

#[test]
fn smoothers_and_forecasts_are_those_of_statsmodels() {
    for case in Case::all() {
        let (n, series) = (case.spec.states.len(), case.series());
        for method in METHODS {
            let tolerance = if method == "ukf" { 1e-7 } else { 1e-9 };
            let runner = case.runner(method);
            let found = smooth(&*runner, &series).unwrap();
            case.same("smoothed_mean", &found.means, tolerance);
            case.same("smoothed_cov", &found.covs, tolerance);
            let unknown = found.covs.iter().filter(|v| !v.is_finite()).count();
            // Nothing but what nobody ever sees is left unknown.
            let hidden = case.name == "never seen";
            assert_eq!(unknown, if hidden { series.len() } else { 0 }, "{} {method}", case.name);

            let mut live = runner.start(runner.default_start()).unwrap();
            for k in 0..series.len() {
                let y = series.observation(k);
                let out = &mut Estimate::default();
                live.step(series.predicts(k), &series.step(k), &[], y, out).unwrap();
            }
            let rows = series.len() as u64;
            let ahead: Vec<Step> = (1..=3).map(|k| Step::even(rows + k, 1.0)).collect();
            let ahead = forecast(&*runner, &mut *live, &ahead, &[]).unwrap();
            let theirs = numbers(&case.json["filtered_mean"]);
            let vars = numbers(&case.json["filtered_cov"]);
            for (k, states) in ahead.states.iter().enumerate() {
                for (i, state) in states.iter().enumerate() {
                    let row = series.len() + k;
                    let (mean, var) = (theirs[row * n + i], vars[row * n * n + i * (n + 1)]);
                    assert!((state.mean - mean).abs() < tolerance * (1.0 + mean.abs()));
                    match hidden && i == 1 {
                        true => assert_eq!(state.std, f64::INFINITY),
                        false => assert!((state.std.powi(2) - var).abs() < tolerance * (1.0 + var)),
                    }
                    assert!(ahead.measurements[k].iter().all(|y| y.std.is_finite()));
                }
            }
        }
    }
}

#[test]
fn a_fit_climbs_the_likelihood_that_the_filter_reports() {
    let free = ["level", "level", "a", "speed", "level"].map(|s| format!("process_noise.{s}"));
    for (case, free) in Case::all().into_iter().zip(free) {
        let m = case.spec.observations.len();
        let data = match &case.times {
            None => Dataset::simulated(&case.spec, &[], &case.ys),
            Some(times) => {
                let layout = Layout::new(&case.spec, Some("t"));
                let mut table = Rows::default();
                table.rows = times.len();
                for (t, ys) in times.iter().zip(case.ys.chunks(m)) {
                    table.values.push(*t);
                    table.values.extend_from_slice(ys);
                }
                Dataset::new(&case.spec, &layout, &table).unwrap()
            }
        };
        let (data, free) = ([data], quantities(&case.spec, &[free]).unwrap());
        let variance = free[0].start;
        let filter = FilterSpec::of("kf").unwrap();
        let objective = Objective::new(&case.spec, &filter, free, &data).unwrap();
        let (fitted, _) = objective.gradient(&objective.place(&[variance])).unwrap();
        let filtered = case.runner("kf").filter(&case.series()).unwrap().log_likelihood().unwrap();
        assert!((fitted - filtered).abs() < 1e-9, "{}: {fitted} {filtered}", case.name);
    }
}

/// All that a row left, NaN being NaN.
fn shown(estimate: &Estimate) -> String {
    format!("{estimate:?}")
}

#[test]
fn rows_one_by_one_and_from_a_checkpoint_are_those_of_the_whole_run() {
    for case in Case::all() {
        for method in METHODS {
            let (runner, series) = (case.runner(method), case.series());
            let whole = runner.filter(&series).unwrap();
            let filter = FilterSpec::of(method).unwrap();
            let session = || Session::new(&*runner, &filter, case.spec.dt).unwrap();
            let mut alone = session();
            for k in 0..series.len() {
                let time = case.times.as_ref().map(|times| times[k]);
                let y = series.observation(k);
                let mut resumed = session();
                resumed.restore(&alone.save().unwrap()).unwrap();
                alone.take(time, false, &[], y).unwrap();
                resumed.take(time, false, &[], y).unwrap();
                assert_eq!(shown(&alone.estimate), shown(&resumed.estimate), "{} {k}", case.name);
                assert_eq!(alone.save().unwrap(), resumed.save().unwrap());
                assert_eq!(alone.estimate.mean, whole.mean(k));
                assert_eq!(Some(alone.estimate.cov.as_slice()), whole.cov(k));
                assert_ne!(alone.flag, Flag::Outlier, "nothing is far from what is unknown");
            }
        }
    }
}

#[test]
fn many_series_and_lags_give_the_bits_of_one() {
    for case in Case::all() {
        let (n, series, runner) = (case.spec.states.len(), case.series(), case.runner("kf"));
        let problem = case.spec.problem().unwrap();
        let filter = FilterSpec::of("kf").unwrap();
        let many = optfilter_model::run::build_text(&filter, &problem, None, true).unwrap();
        let whole = runner.filter(&series).unwrap();
        let all = vec![series; 5];
        let starts = vec![many.default_start().clone(); 5];
        let mut means = vec![vec![0.0; series.len() * n]; 5];
        let mut rows: Vec<OutputBuffers<'_>> = means
            .iter_mut()
            .map(|means| OutputBuffers { means, ..OutputBuffers::default() })
            .collect();
        let done = many.run_together(&starts, &all, &mut rows, &CancelCheck::NEVER);
        for (k, done) in done.into_iter().enumerate() {
            if !done {
                many.run(&starts[k], &all[k], &mut rows[k], &CancelCheck::NEVER).unwrap();
            }
        }
        assert!(means.iter().all(|means| *means == whole.means));

        // Lags as long as the series, and the smoother.
        let smoothed = smooth(&*runner, &series).unwrap();
        let mut session = Session::new(&*runner, &filter, case.spec.dt).unwrap();
        let mut lag = FixedLagSmoother::new(&*runner, series.len()).unwrap();
        for k in 0..series.len() {
            let time = case.times.as_ref().map(|times| times[k]);
            let step = session.take(time, false, &[], series.observation(k)).unwrap();
            lag.push(&session, &step, &[]).unwrap();
        }
        for (k, late) in lag.rest(&session).unwrap().into_iter().enumerate() {
            assert_eq!(late.mean, smoothed.means[k * n..][..n], "{} {k}", case.name);
            assert_eq!(late.cov, smoothed.covs[k * n * n..][..n * n], "{} {k}", case.name);
        }
    }
}

const LEVEL: &str = "states = [\"level\"]\n[dynamics]\nlevel = \"level\"\n[observation]\ny = \"level\"\n\
    [process_noise]\nvar = 0.5\n[measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\ndiffuse = true\n";

#[test]
fn a_gate_and_a_box_wait_until_something_is_known() {
    let text = format!("{LEVEL}[bounds]\nlevel = [0, inf]\n");
    let spec = ModelSpec::parse("m.toml", &text).unwrap();
    let filter = FilterSpec { gate: Some(0.99), ..FilterSpec::of("kf").unwrap() };
    let runner = spec.runner(&filter).unwrap();
    let ys = [f64::NAN, 1e6, 1e6 + 1.0, 0.0, 1e6];
    let series = Series::new(&ys, 1).unwrap();
    let (mut means, mut flags, mut nis) = (vec![0.0; 5], vec![0.0; 5], vec![0.0; 5]);
    let mut rows = OutputBuffers {
        means: &mut means,
        flags: &mut flags,
        nis: &mut nis,
        ..OutputBuffers::default()
    };
    runner.run(runner.default_start(), &series, &mut rows, &CancelCheck::NEVER).unwrap();
    assert_eq!(means[..2], [0.0, 1e6]);
    assert!(nis[1].is_nan() && nis[3] > 1e9);
    let expected = [Flag::Missing, Flag::Ok, Flag::Ok, Flag::Outlier, Flag::Ok];
    assert_eq!(flags, expected.map(|flag| f64::from(flag as u8)));
    assert!((means[4] - 1e6).abs() < 1.0);
}

#[test]
fn a_diffuse_start_asks_for_a_filter_that_has_one_and_others_say_that_they_have_none() {
    let spec = ModelSpec::parse("m.toml", LEVEL).unwrap();
    assert_eq!(spec.fitted(&FilterSpec::default()).unwrap().method().name(), "kf");
    let word = |spec: &ModelSpec, method: &str| {
        let runner = spec.runner(&FilterSpec::of(method).unwrap()).unwrap();
        runner.warning().map(str::to_owned)
    };
    assert!(METHODS.iter().all(|method| word(&spec, method).is_none()));
    for method in ["pf", "etkf", "imap", "vkf"] {
        assert!(word(&spec, method).unwrap().contains("diffuse"), "{method}");
    }
    let bent =
        ModelSpec::parse("m.toml", &LEVEL.replace("\"level\"\n[obs", "\"sin(level)\"\n[obs"));
    let bent = bent.unwrap();
    assert!(word(&bent, "ekf").unwrap().contains("not linear"));
    // As wide as its std says, to the bit.
    let plain = ModelSpec { diffuse: vec![false], ..bent.clone() };
    let ys = [3.0, 2.0, f64::NAN, 1.0];
    let run = |spec: &ModelSpec| {
        let runner = spec.runner(&FilterSpec::of("ekf").unwrap()).unwrap();
        runner.filter(&Series::new(&ys, 1).unwrap()).unwrap().means
    };
    assert_eq!(run(&bent), run(&plain));
}

#[test]
fn a_start_of_its_own_is_not_diffuse_unless_it_says_so() {
    let spec = ModelSpec::parse("m.toml", LEVEL).unwrap();
    let problem: Problem = spec.problem().unwrap();
    assert_eq!(problem.diffuse, [true]);
    let runner = spec.runner(&FilterSpec::of("kf").unwrap()).unwrap();
    let mut start = runner.default_start().clone();
    start.diffuse.clear();
    let mut out = Estimate::default();
    let mut live = runner.start(&start).unwrap();
    live.step(false, &Step::even(1, 1.0), &[], &[3.0], &mut out).unwrap();
    assert_eq!((out.mean[0], out.cov[0]), (1.5, 0.5));
}
