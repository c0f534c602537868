//! Gates: what is too unlikely does not get through as it is.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::Series;
use optfilter_model::{FilterSpec, ModelSpec};
use optfilter_run::{CancelCheck, Flag, GatingMode, OutputBuffers, Session};

const MODEL: &str = "states = [\"x\", \"v\"]\ninputs = [\"spread\"]\n[dynamics]\nx = \"x + v\"\nv = \"0.9*v\"\n[observation]\n\
    y = \"x + 0.01*sin(x)\"\nw = \"v\"\n[process_noise]\nstd = { x = 0.2, v = 0.1 }\n[measurement_noise]\n\
    std = { y = \"sqrt(spread)\", w = 2 }\n[initial]\nmean = 0\nstd = 1\n";

/// Measurements of y and w, with two that cannot be.
fn rows() -> Vec<f64> {
    let mut rows: Vec<f64> = Vec::new();
    for k in 0..40 {
        let t = f64::from(k);
        let y =
            (0.3 * t).sin() + if k == 11 { 30.0 } else { 0.0 } - if k == 25 { 9.0 } else { 0.0 };
        let w = if k % 3 == 0 { f64::NAN } else { 0.2 * (0.5 * t).cos() };
        rows.extend([y, w]);
    }
    rows
}

struct Run {
    means: Vec<f64>,
    variances: Vec<f64>,
    nis: Vec<f64>,
    flags: Vec<f64>,
    spreads: Vec<f64>,
}

fn run(filter: &FilterSpec, rows: &[f64], spread: &[f64]) -> Run {
    let spec = ModelSpec::parse("m.toml", MODEL).unwrap();
    let runner = spec.runner(filter).unwrap();
    let series = Series::new(rows, 2).unwrap().with_inputs(spread, 1).unwrap();
    let len = series.len();
    let (mut means, mut covs) = (vec![0.0; 2 * len], vec![0.0; 4 * len]);
    let (mut nis, mut flags, mut s) = (vec![0.0; len], vec![0.0; len], vec![0.0; 4 * len]);
    let mut into = OutputBuffers {
        means: &mut means,
        covs: &mut covs,
        nis: &mut nis,
        flags: &mut flags,
        innovation_covs: &mut s,
        ..OutputBuffers::default()
    };
    runner.run(runner.default_start(), &series, &mut into, &CancelCheck::NEVER).unwrap();
    let variances = covs.chunks(4).flat_map(|p| [p[0], p[3]]).collect();
    let spreads = s.chunks(4).map(|s| s[0]).collect();
    Run { means, variances, nis, flags, spreads }
}

fn of(method: &str, gate: Option<f64>, gating: Option<GatingMode>) -> FilterSpec {
    FilterSpec { gate, gating, ..FilterSpec::of(method).unwrap() }
}

#[test]
fn what_is_rejected_might_as_well_be_missing() {
    let (rows, spread) = (rows(), vec![0.25; 40]);
    for method in ["ekf", "iekf", "ukf"] {
        let open = run(&of(method, None, None), &rows, &spread);
        let gated = run(&of(method, Some(0.999), None), &rows, &spread);
        let outliers: Vec<usize> =
            (0..40).filter(|k| gated.flags[*k] == f64::from(Flag::Outlier as u8)).collect();
        assert!(outliers.contains(&11) && outliers.contains(&25), "{method}: {outliers:?}");
        let mut blank = rows.clone();
        // Both are y's; what w says is kept.
        outliers.iter().for_each(|k| blank[2 * k] = f64::NAN);
        let without = run(&of(method, None, None), &blank, &spread);
        assert_eq!(gated.means, without.means, "{method}");
        assert_eq!(gated.variances, without.variances, "{method}");
        assert!((open.means[2 * 11] - gated.means[2 * 11]).abs() > 3.0, "the outlier must matter");
        // A flag alone changes no estimate; what is said of the row is what it was.
        let flagged = run(&of(method, Some(0.999), Some(GatingMode::Flag)), &rows, &spread);
        assert_eq!(flagged.means, open.means);
        assert!(gated.nis[11] > 100.0);
    }
}

/// Inflating is the update with the R that brings the row to the limit: R + (NIS / limit - 1) S.
#[test]
fn what_is_inflated_counts_as_much_as_what_is_on_the_limit() {
    let mut rows = rows();
    rows.chunks_mut(2).for_each(|row| row[1] = f64::NAN); // one measurement at a time: S is a number
    let spread = vec![0.25; 40];
    let limit = 10.827566170662733; // scipy.stats.chi2.ppf(0.999, 1)
    for method in ["ekf", "ukf"] {
        let inflated = run(&of(method, Some(0.999), Some(GatingMode::Inflate)), &rows, &spread);
        let mut wider = spread.clone();
        for k in 0..40 {
            if inflated.nis[k] > limit {
                wider[k] += (inflated.nis[k] / limit - 1.0) * inflated.spreads[k];
            }
        }
        assert!(wider[11] > 10.0 * spread[11]);
        let same = run(&of(method, None, None), &rows, &wider);
        for (a, b) in inflated.means.iter().zip(&same.means) {
            assert!((a - b).abs() < 1e-10, "{method}: {a} {b}");
        }
        for (a, b) in inflated.variances.iter().zip(&same.variances) {
            assert!((a - b).abs() < 1e-10 * b, "{method}: {a} {b}");
        }
    }
}

#[test]
fn a_gate_that_cannot_be_is_refused() {
    let spec = ModelSpec::parse("m.toml", MODEL).unwrap();
    for (filter, message) in [
        (of("pf", Some(0.99), None), "is for kf, ekf, iekf and ukf"),
        (of("ekf", Some(1.0), None), "above 0 and below 1"),
        (of("ekf", None, Some(GatingMode::Reject)), "needs a gate"),
    ] {
        let error = spec.runner(&filter).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let text = format!("{MODEL}[filter]\nmethod = \"ekf\"\ngate = 0.99\ngating = \"inflate\"\n");
    let read = ModelSpec::parse("m.toml", &text).unwrap().filter;
    assert_eq!(read, of("ekf", Some(0.99), Some(GatingMode::Inflate)));
    assert_eq!(read.flags(), "--method ekf --gate 0.99 --gating inflate");
}

/// A walk seen by two sensors, whose errors may be correlated.
fn walk(correlated: f64) -> ModelSpec {
    let text = format!(
        "states = [\"x\", \"v\"]\n[dynamics]\nx = \"x + v\"\nv = \"v\"\n[observation]\nX = \"x\"\nV = \"v\"\n\
         [process_noise]\nvar = {{ x = 0.01, v = 0.01 }}\n[measurement_noise]\nvar = [[1, {correlated}], [{correlated}, 1]]\n\
         [initial]\nmean = 0\nstd = 1\n"
    );
    ModelSpec::parse("walk.toml", &text).unwrap()
}

/// What is known after each row of a stream, and its flag.
fn stream(spec: &ModelSpec, filter: &FilterSpec, rows: &[f64]) -> Vec<(Vec<f64>, Flag)> {
    let runner = spec.runner(filter).unwrap();
    let mut session = Session::new(&*runner, filter, spec.dt).unwrap();
    let take = |row: &[f64]| {
        session.take(None, false, &[], row).unwrap();
        (session.estimate.mean.clone(), session.flag)
    };
    rows.chunks(2).map(take).collect()
}

#[test]
fn a_good_sensor_is_heard_beside_a_bad_one() {
    let mut rows = vec![0.0; 20];
    rows[12..14].copy_from_slice(&[50.0, 0.5]); // row 6: X is bad, V is not
    let mut blank = rows.clone();
    blank[12] = f64::NAN;
    let gate = of("kf", Some(0.999), None);
    let apart = stream(&walk(0.0), &gate, &rows);
    let open = stream(&walk(0.0), &of("kf", None, None), &blank);
    for (k, (a, b)) in apart.iter().zip(&open).enumerate() {
        assert_eq!(a.0, b.0, "{k}");
    }
    assert_eq!(apart[6].1, Flag::Outlier);
    assert!(apart[6].0[1] > 0.02, "{:?}", apart[6]);
    // Errors that go together are of one sensor, which is rejected as one.
    blank[13] = f64::NAN;
    let one = stream(&walk(0.5), &gate, &rows);
    let none = stream(&walk(0.5), &of("kf", None, None), &blank);
    assert_eq!(one[6].0, none[6].0);
    // Widened, X counts as much as one at the gate would, and V as ever.
    let wide = stream(&walk(0.0), &of("kf", Some(0.999), Some(GatingMode::Inflate)), &rows);
    assert!(wide[6].0[0] > apart[6].0[0] + 0.1 && wide[6].0[0] < 1.0, "{:?}", wide[6]);
    // A flag alone says the same of the row.
    let said = stream(&walk(0.0), &of("kf", Some(0.999), Some(GatingMode::Flag)), &rows);
    assert_eq!(said[6].1, Flag::Outlier);
}

/// A jump of the state after row 10: the fourth row there finds the filter again.
fn jump() -> Vec<f64> {
    (0..40).flat_map(|k| [if k < 10 { 0.0 } else { 100.0 }, 0.0]).collect()
}

#[test]
fn a_lost_track_is_said_and_found_again() {
    let lost = |rows: &[(Vec<f64>, Flag)]| -> Vec<usize> {
        (0..rows.len()).filter(|k| rows[*k].1 == Flag::Lost).collect()
    };
    for method in ["kf", "iekf", "ukf"] {
        for gating in [GatingMode::Reject, GatingMode::Inflate] {
            let found = stream(&walk(0.0), &of(method, Some(0.999), Some(gating)), &jump());
            assert_eq!(lost(&found), [13], "{method} {gating:?}");
            assert!((found[13].0[0] - 100.0).abs() < 3.0, "{method} {gating:?}: {:?}", found[13]);
            assert!((14..40).all(|k| found[k].1 == Flag::Ok), "{method} {gating:?}");
        }
    }
    // Bursts of outliers that do not agree are no track.
    let mut rows = vec![0.0; 80];
    for (k, y) in [60.0, -40.0, 25.0, -90.0, 110.0].into_iter().enumerate() {
        rows[2 * (10 + k)] = y;
        rows[2 * (25 + k)] = 130.0 - y;
    }
    let found = stream(&walk(0.0), &of("kf", Some(0.999), None), &rows);
    assert_eq!(lost(&found), [0; 0]);
    assert!(found.iter().all(|(x, _)| x[0].abs() < 1.0));
    // Noise of a broken sensor is none either, but it is said.
    for (k, y) in rows.chunks_mut(2).enumerate().skip(10) {
        y[0] = if k % 2 == 0 { 60.0 + 3.0 * k as f64 } else { -60.0 - 5.0 * k as f64 };
    }
    let found = stream(&walk(0.0), &of("kf", Some(0.999), None), &rows);
    assert!(lost(&found).len() > 20 && lost(&found)[0] == 15, "{:?}", lost(&found));
}

#[test]
fn a_lost_track_is_the_same_by_every_way() {
    let (spec, filter, rows) = (walk(0.0), of("kf", Some(0.999), None), jump());
    let runner = spec.runner(&filter).unwrap();
    let whole = stream(&spec, &filter, &rows);
    // Saved and loaded after every row.
    let mut session = Session::new(&*runner, &filter, spec.dt).unwrap();
    for (k, row) in rows.chunks(2).enumerate() {
        let bytes = session.save().unwrap();
        session = Session::new(&*runner, &filter, spec.dt).unwrap();
        session.restore(&bytes).unwrap();
        session.take(None, false, &[], row).unwrap();
        assert_eq!((&session.estimate.mean, session.flag), (&whole[k].0, whole[k].1), "{k}");
    }
    // In memory, alone and among others.
    let series = Series::new(&rows, 2).unwrap();
    let (mut means, mut flags) = (vec![0.0; 80], vec![0.0; 40]);
    let mut into =
        OutputBuffers { means: &mut means, flags: &mut flags, ..OutputBuffers::default() };
    runner.run(runner.default_start(), &series, &mut into, &CancelCheck::NEVER).unwrap();
    for (k, (mean, flag)) in whole.iter().enumerate() {
        assert_eq!((&means[2 * k..][..2], flags[k]), (&mean[..], f64::from(*flag as u8)), "{k}");
    }
    // What was rejected while the track was lost is smoothed with what took over, from the row where that began.
    let smoothed = optfilter_run::smooth(&*runner, &series).unwrap();
    let x = |k: usize| smoothed.means[2 * k];
    assert!(x(9).abs() < 1.0 && (x(10) - 100.0).abs() < 1.0 && (x(12) - 100.0).abs() < 1.0);
    assert_eq!(smoothed.filtered_means, means);
}

/// A track of which little is known at first, in two dimensions.
fn unknown_track() -> ModelSpec {
    let text = "states = [\"x\", \"y\", \"u\", \"v\"]\n[dynamics]\nx = \"x + u\"\ny = \"y + v\"\nu = \"u\"\nv = \"v\"\n\
        [observation]\nX = \"x\"\nY = \"y\"\n[process_noise]\nvar = { u = 1, v = 1 }\n[measurement_noise]\nstd = 0.5\n\
        [initial]\nmean = 0\nstd = { x = 100, y = 100, u = 20, v = 20 }\n";
    ModelSpec::parse("track.toml", text).unwrap()
}

#[test]
fn an_outlier_in_the_first_rows_is_found_out() {
    let spec = unknown_track();
    for at in 0..4 {
        let mut rows: Vec<f64> =
            (0..30).flat_map(|k| [4.0 * f64::from(k), 8.0 * f64::from(k)]).collect();
        rows[2 * at] -= 60.0;
        rows[2 * 20] += 60.0;
        for (method, gating) in
            [("kf", GatingMode::Reject), ("kf", GatingMode::Inflate), ("ukf", GatingMode::Reject)]
        {
            let filter = of(method, Some(0.999), Some(gating));
            let found = stream(&spec, &filter, &rows);
            for (k, (mean, _)) in found.iter().enumerate().skip(3) {
                let off = (mean[0] - 4.0 * k as f64).abs();
                assert!(off < 3.0, "{method} {gating:?}, outlier {at}, row {k}: {off}");
            }
            // Sessions that are saved and restored, whole runs and smoothing agree.
            let runner = spec.runner(&filter).unwrap();
            let mut session = Session::new(&*runner, &filter, spec.dt).unwrap();
            for (k, row) in rows.chunks(2).enumerate() {
                let bytes = session.save().unwrap();
                session = Session::new(&*runner, &filter, spec.dt).unwrap();
                session.restore(&bytes).unwrap();
                session.take(None, false, &[], row).unwrap();
                assert_eq!((&session.estimate.mean, session.flag), (&found[k].0, found[k].1));
            }
            let series = Series::new(&rows, 2).unwrap();
            let smoothed = optfilter_run::smooth(&*runner, &series).unwrap();
            for (k, (mean, _)) in found.iter().enumerate() {
                assert_eq!(smoothed.filtered_means[4 * k..][..4], mean[..]);
                let off = (smoothed.means[4 * k] - 4.0 * k as f64).abs();
                let most = if gating == GatingMode::Reject { 1.0 } else { 6.0 };
                assert!(off < most, "{method} {gating:?}, outlier {at}, smoothed row {k}: {off}");
            }
        }
    }
}

/// What turns a little faster than its model is lost for a row, not for five.
#[test]
fn a_turn_that_the_gate_rejects_is_followed_soon() {
    let path = |k: i32| if k < 20 { 0.0 } else { 4.0 * f64::from(k - 19) };
    let rows: Vec<f64> = (0..40).flat_map(|k| [path(k), 0.0]).collect();
    let found = stream(&unknown_track(), &of("kf", Some(0.99), None), &rows);
    let flagged: Vec<usize> = (0..40).filter(|k| found[*k].1 != Flag::Ok).collect();
    assert_eq!(flagged, [20, 21]);
    assert!((21..40).all(|k| (found[k].0[0] - path(k as i32)).abs() < 1.0));
}
