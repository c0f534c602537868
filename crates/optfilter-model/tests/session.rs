//! A stream of rows: one that fails leaves clock and belief as they were, and corners of a model file are named.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use optfilter_model::{FilterSpec, Method, ModelSpec};
use optfilter_run::{Estimate, Session, SessionError};

/// A walk that is pushed, and seen as a logarithm.
const MODEL: &str = r#"
states = ["x"]
inputs = ["u"]
[dynamics]
"dx/dt" = "u"
[observation]
y = "ln(x)"
[process_noise]
var = 0.01
per = "time"
[measurement_noise]
var = 0.1
[initial]
mean = 1
std = 0.1
"#;

#[test]
fn a_row_that_fails_leaves_clock_and_belief_as_they_were() {
    let spec = ModelSpec::parse("m.toml", MODEL).unwrap();
    for method in Method::ALL {
        if method == Method::Kf {
            continue; // not for this model
        }
        for carry in [false, true] {
            let filter =
                FilterSpec { method: Some(method), carry: Some(carry), ..FilterSpec::default() };
            let runner = spec.runner(&filter).unwrap();
            let session = || Session::new(&*runner, &filter, spec.dt).unwrap();
            let (mut with, mut without) = (session(), session());
            let rows = [(0.0, 0.1, 0.05), (1.0, 0.2, 0.2), (2.5, -0.1, 0.3)];
            for (time, u, y) in rows {
                // The first fails when the prediction is made already: h of a negative state is no number. (Some
                // particles, and the descent of an adaptive rule, would have to be pushed further.)
                let before = with.save().unwrap();
                let (nan, inf) = (f64::NAN, f64::INFINITY);
                for (time, u, y) in [
                    (time + 9.0, -1e3, y),
                    (time, u, inf),
                    (nan, u, y),
                    (inf, u, y),
                    (time - 9.0, u, y),
                ] {
                    // The first row is not predicted, and has no time before it.
                    if with.rows() == 0 && time.is_finite() && y.is_finite() {
                        continue;
                    }
                    let taken = with.take(Some(time), false, &[u], &[y]);
                    assert!(taken.is_err(), "{method:?}: {time} {u} {y}");
                    if !time.is_finite() {
                        assert!(matches!(taken, Err(SessionError::Backwards(..))), "{method:?}");
                    }
                    assert_eq!(with.save().unwrap(), before, "{method:?}: {time} {u} {y}");
                }
                with.take(Some(time), false, &[u], &[y]).unwrap();
                without.take(Some(time), false, &[u], &[y]).unwrap();
                let shown = |session: &Session| format!("{:?}", session.estimate); // NaN is NaN
                assert_eq!(shown(&with), shown(&without), "{method:?}");
            }
        }
    }
}

#[test]
fn a_session_of_another_size_is_not_resumed() {
    let wide = MODEL
        .replace("[\"x\"]", "[\"x\", \"z\"]")
        .replace("\"dx/dt\"", "\"dz/dt\" = \"0\"\n\"dx/dt\"");
    let (one, two) =
        (ModelSpec::parse("m.toml", MODEL).unwrap(), ModelSpec::parse("m.toml", &wide).unwrap());
    for method in Method::ALL.into_iter().filter(|m| *m != Method::Kf) {
        let filter = FilterSpec { method: Some(method), ..FilterSpec::default() };
        let (small, large) = (one.runner(&filter).unwrap(), two.runner(&filter).unwrap());
        let mut small = Session::new(&*small, &filter, 1.0).unwrap();
        let mut large = Session::new(&*large, &filter, 1.0).unwrap();
        let (of_small, of_large) = (small.save().unwrap(), large.save().unwrap());
        assert!(small.restore(&of_large).is_err() && large.restore(&of_small).is_err());
        assert_eq!((small.save().unwrap(), large.save().unwrap()), (of_small, of_large));
        large.take(None, false, &[0.1], &[0.1]).unwrap();
    }
}

#[test]
fn a_negative_variance_is_no_deviation_of_zero() {
    let estimate = Estimate {
        mean: vec![0.0; 3],
        cov: vec![1.0, 0.0, 0.0, 0.0, -1e-3, 0.0, 0.0, 0.0, -1e-15],
        ..Estimate::default()
    };
    assert_eq!(estimate.std(0), 1.0);
    assert!(estimate.std(1).is_nan(), "a lost variance is none");
    assert_eq!(estimate.std(2), 0.0, "and rounding is zero");
}

#[test]
fn a_file_may_ask_for_windows_and_conjugate_gradients() {
    for (filter, line) in [
        ("constraint = \"weak\"\nwindow = 3", None),
        ("optimizer = \"cg\"\nsteps = 2", None),
        ("steps = 2\nconstraint = \"weak\"", Some("constraint: weak needs a window")),
        ("steps = 2\ncarry = true\noptimizer = \"cg\"", Some("carry: cg has nothing to carry")),
        ("optimizer = \"gc\"", Some("gc")),
        ("discount = 2", Some("discount: 2 is not allowed")),
    ] {
        let read = ModelSpec::parse("m.toml", &format!("{MODEL}[filter]\n{filter}\n"));
        match line {
            None => drop(read.unwrap().runner(&read_filter(filter)).unwrap()),
            Some(line) => {
                let error = read.unwrap_err().to_string();
                assert!(error.contains(line), "{error}");
            }
        }
    }
}

/// The path may bend and is bounded all the same, has error bars, and goes on from a checkpoint to the bit; long windows
/// say why they have none.
#[test]
fn a_weak_window_has_error_bars_and_bounds() {
    let bounded = format!("{MODEL}[bounds]\nx = [0.9, inf]\n");
    let weak = |length: usize| {
        let text =
            format!("optimizer = \"cg\"\nsteps = 9\nconstraint = \"weak\"\nwindow = {length}");
        let spec = ModelSpec::parse("m.toml", &format!("{bounded}[filter]\n{text}\n")).unwrap();
        (spec.runner(&spec.filter).unwrap(), spec.filter.clone())
    };
    let (runner, filter) = weak(3);
    assert!(runner.has_cov() && runner.warning().is_none());
    let (mut one, mut other) = (
        Session::new(&*runner, &filter, 1.0).unwrap(),
        Session::new(&*runner, &filter, 1.0).unwrap(),
    );
    let mut least = f64::INFINITY;
    for k in 0..12 {
        let y = [if k < 6 { -0.8 } else { 0.4 }];
        one.take(None, false, &[0.0], &y).unwrap();
        let saved = one.save().unwrap();
        if k == 7 {
            other.restore(&saved).unwrap();
        } else if k > 7 {
            other.take(None, false, &[0.0], &y).unwrap();
            assert_eq!(one.estimate, other.estimate);
        }
        least = least.min(one.estimate.mean[0]);
        assert!(one.estimate.std(0) > 0.0 && one.estimate.std(0) < 0.5, "{:?}", one.estimate);
    }
    assert_eq!(least, 0.9);
    let (runner, _) = weak(200);
    assert!(!runner.has_cov() && runner.warning().unwrap().contains("optimises 201 numbers"));
    // A belief of another window is refused, not read beyond its end.
    let strong = FilterSpec { constraint: None, ..filter };
    let spec = ModelSpec::parse("m.toml", &bounded).unwrap();
    let stiff = spec.runner(&strong).unwrap();
    let mut stiff = Session::new(&*stiff, &strong, 1.0).unwrap();
    let restored = stiff.restore(&one.save().unwrap());
    assert!(restored.is_err() || stiff.take(None, false, &[0.0], &[0.1]).is_err());
}

fn read_filter(text: &str) -> FilterSpec {
    ModelSpec::parse("m.toml", &format!("{MODEL}[filter]\n{text}\n")).unwrap().filter
}

#[test]
fn corners_of_an_integrator_are_named() {
    for (table, wanted) in [
        ("substeps = 2.7", "a whole number of at least 1"),
        ("substeps = 0", "a whole number of at least 1"),
        ("substeps = nan", "not a number"),
        ("method = \"rk5\"", "there is no integrator `rk5`"),
        ("method = 4", "text"),
    ] {
        let text = format!("{MODEL}[integrator]\n{table}\n");
        let error = ModelSpec::parse("m.toml", &text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{table}: {error}");
    }
}
