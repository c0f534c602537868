//! Likelihoods that forgive outliers, and particles that do not suffice, as a model file meets them.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

use optfilter::Series;
use optfilter::rng::Stream;
use optfilter_model::ModelSpec;
use optfilter_run::{Estimate, FilterSpec, GatingMode, LONELY, Method, Session, smooth};

/// A position, seen with outliers, and a velocity; measured as `law` says.
fn track(law: &str) -> ModelSpec {
    let text = format!(
        "states = [\"x\", \"v\"]\n[dynamics]\n\"dx/dt\" = \"v\"\n\"dv/dt\" = \"0\"\n[observation.y]\nequation = \"x\"\n{law}\n\
         [process_noise]\nper = \"time\"\nvar = {{ v = 0.1 }}\n[measurement_noise]\nstd = 0.5\n\
         [initial]\nmean = 0\nstd = [100, 20]\n"
    );
    ModelSpec::parse("track", &text).unwrap()
}

const STUDENT: &str = "likelihood = \"student-t\"\ndof = 3";

/// A walk, with a measurement 60 off every eleventh row and one missing.
fn seen(rows: usize) -> Vec<f64> {
    let mut stream = Stream::new(5, 0, "track");
    let row = |k: usize| match k {
        7 => f64::NAN,
        _ => 2.0 * k as f64 + 0.5 * stream.normal() + if k % 11 == 4 { 60.0 } else { 0.0 },
    };
    (0..rows).map(row).collect()
}

fn of(method: &str) -> FilterSpec {
    FilterSpec::of(method).unwrap()
}

#[test]
fn the_filter_of_a_heavy_tailed_likelihood_is_robust_and_says_so() {
    let (spec, ys) = (track(STUDENT), seen(120));
    let chosen = spec.fitted(&FilterSpec::default()).unwrap();
    assert_eq!(chosen.method(), Method::Ekf);
    let series = Series::new(&ys, 1).unwrap();
    let worst = |spec: &ModelSpec, method: &str| {
        let runner = spec.runner(&of(method)).unwrap();
        let found = runner.filter(&series).unwrap();
        let form = runner.form().map(str::to_owned);
        ((20..120).map(|k| (found.means[2 * k] - 2.0 * k as f64).abs()).fold(0.0, f64::max), form)
    };
    for method in ["ekf", "iekf", "ukf"] {
        let (error, form) = worst(&spec, method);
        assert!(error < 2.5 && form.as_deref() == Some("robust: student-t"), "{error} {form:?}");
    }
    let (error, form) = worst(&track(""), "ekf");
    assert!(error > 20.0 && form.is_none(), "{error} {form:?}");
    // Whose likelihood weighs outliers needs no gate.
    let gated = FilterSpec { gate: Some(0.999), ..of("ekf") };
    assert!(spec.runner(&gated).err().unwrap().to_string().contains("gating = \"flag\""));
    assert!(spec.runner(&FilterSpec { gating: Some(GatingMode::Flag), ..gated }).is_ok());
}

#[test]
fn stories_are_saved_with_the_belief() {
    let (spec, ys) = (track(STUDENT), seen(40));
    let filter = of("ekf");
    let runner = spec.runner(&filter).unwrap();
    let take = |session: &mut Session, ys: &[f64]| -> Vec<Estimate> {
        ys.iter()
            .map(|y| {
                session.take(None, false, &[], &[*y]).unwrap();
                session.estimate.clone()
            })
            .collect()
    };
    for stop in [5, 16, 27] {
        let mut whole = Session::new(&*runner, &filter, spec.dt).unwrap();
        let all = take(&mut whole, &ys);
        let mut first = Session::new(&*runner, &filter, spec.dt).unwrap();
        take(&mut first, &ys[..stop]);
        let mut second = Session::new(&*runner, &filter, spec.dt).unwrap();
        second.restore(&first.save().unwrap()).unwrap();
        for (after, before) in take(&mut second, &ys[stop..]).iter().zip(&all[stop..]) {
            assert_eq!((&after.mean, &after.cov), (&before.mean, &before.cov), "{stop}");
        }
    }
}

#[test]
fn the_best_path_says_how_it_was_found() {
    let ys = seen(120);
    let series = Series::new(&ys, 1).unwrap();
    let mut losses = Vec::new();
    for (law, method, global) in [
        (STUDENT, "ekf", false),
        (STUDENT, "imap", false),
        ("likelihood = \"huber\"", "ekf", true),
        ("likelihood = \"huber\"", "imap", true),
    ] {
        let spec = track(law);
        let filter = spec.smoothing(&of(method), ys.len()).unwrap();
        let found = smooth(&*spec.runner(&filter).unwrap(), &series).unwrap();
        let search = found.search.unwrap();
        assert!(search.global == global && search.passes < 100, "{law} {method}: {search:?}");
        assert_eq!(found.covs.len(), 4 * ys.len());
        let errors = (0..120).map(|k| (found.means[2 * k] - 2.0 * k as f64).abs());
        let worst = errors.fold(0.0, f64::max);
        assert!(worst < 2.5, "{law} {method}: {worst}");
        losses.push(search.loss);
    }
    // One problem, one path, whoever filters it.
    assert!((losses[0] - losses[1]).abs() < 1e-5 && (losses[2] - losses[3]).abs() < 1e-5);
    let spec = track("");
    let filter = spec.smoothing(&of("ekf"), ys.len()).unwrap();
    assert!(smooth(&*spec.runner(&filter).unwrap(), &series).unwrap().search.is_none());
}

#[test]
fn particles_that_are_alone_are_not_taken_for_states_that_nothing_moves() {
    let (spec, filter) = (track(""), FilterSpec { particles: Some(100), ..of("pf") });
    assert_eq!(spec.unmoved(&filter), [""; 0]);
    let runner = spec.runner(&filter).unwrap();
    let mut session = Session::new(&*runner, &filter, spec.dt).unwrap();
    let lonely = seen(40).into_iter().filter(|y| {
        session.take(None, false, &[], &[*y]).unwrap();
        session.estimate.effective < LONELY
    });
    assert!(lonely.count() > 10);
}
