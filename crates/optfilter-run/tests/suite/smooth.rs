//! The smoothers behind every door: against statsmodels, and against each other where one of them is exact.

use crate::golden::{apart, nile, problem};
use nalgebra::{DMatrix, Dyn, dmatrix};
use optfilter::Series;
use optfilter::model::Linear;
use optfilter_run::{Covariance, FilterSpec, Method, Problem, SpecError, build, smooth};

/// A random walk. All tests of the engine use one type of model: each type compiles every filter anew.
fn level() -> Linear<Dyn, Dyn> {
    Linear::new(DMatrix::identity(1, 1), DMatrix::identity(1, 1)).unwrap()
}

/// The Nile with gaps, from every filter that is exact on it: to 1e-8 relative to the size of each number.
#[test]
fn gaussian_filters_equal_statsmodels_on_the_nile() {
    let nile = nile();
    let series = Series::new(&nile.ys, 1).unwrap();
    for case in &nile.cases {
        for method in ["kf", "ekf", "iekf", "ukf"] {
            let problem = problem(case);
            let spec = FilterSpec::of(method).unwrap().smoothing(&problem, nile.ys.len()).unwrap();
            let found = smooth(&*build(&spec, &problem).unwrap(), &series).unwrap();
            let (means, covs) = (case.numbers("smoothed_mean"), case.numbers("smoothed_cov"));
            assert!(apart(&found.means, &means) < 1e-8, "{method}");
            assert!(apart(&found.covs, &covs) < 1e-8, "{method}");
        }
    }
}

/// Conjugate gradients run to their end over the whole series are the smoother, and the curvature of what they minimise its
/// precision.
#[test]
fn the_whole_series_as_one_window_is_the_smoother_of_a_linear_system() {
    let nile = nile();
    let ys = &nile.ys[..50];
    let series = Series::new(ys, 1).unwrap();
    for case in &nile.cases {
        let problem = problem(case);
        let run = |method: &str| {
            let spec = FilterSpec::of(method).unwrap().smoothing(&problem, ys.len()).unwrap();
            smooth(&*build(&spec, &problem).unwrap(), &series).unwrap()
        };
        let (exact, found) = (run("kf"), run("imap"));
        assert!(apart(&found.means, &exact.means) < 1e-6, "{}", apart(&found.means, &exact.means));
        assert!(apart(&found.covs, &exact.covs) < 1e-8, "{}", apart(&found.covs, &exact.covs));
    }
}

/// Trajectories drawn backwards have the moments of the smoother, within what as many of them can know.
#[test]
fn particles_are_smoothed_as_the_exact_smoother_says() {
    // Rank 1 noise: no particle but its parent leads to a state in the direction without noise.
    let q = dmatrix![0.25, 0.5; 0.5, 1.0];
    let thin = Linear::new(dmatrix![1.0, 1.0; 0.0, 1.0], dmatrix![1.0, 0.0]).unwrap();
    let thin = Problem::new(thin).noise(q, 1.0).start(0.0, 1.0);
    let level = Problem::new(level()).noise(0.5, 1.0).start(0.0, 1.0);
    let ys = [0.3, 1.1, f64::NAN, 2.4, 3.9, 3.0, f64::NAN, 2.2];
    let times = [0.0, 1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0];
    let series = Series::new(&ys, 1).unwrap().with_times(&times).unwrap();
    for (problem, allowed) in [(&level, 0.15), (&thin, 0.4)] {
        let run = |spec: &FilterSpec| {
            let spec = spec.smoothing(problem, ys.len()).unwrap();
            smooth(&*build(&spec, problem).unwrap(), &series).unwrap()
        };
        let exact = run(&FilterSpec::of("kf").unwrap());
        let spec = FilterSpec { particles: Some(2000), ..FilterSpec::of("pf").unwrap() };
        let found = run(&spec);
        let n = problem.mean.len();
        for k in 0..ys.len() {
            for i in 0..n {
                let std = exact.covs[k * n * n + i * (n + 1)].sqrt();
                let off = (found.means[k * n + i] - exact.means[k * n + i]).abs() / std;
                assert!(off < allowed, "row {k}, state {i}: {off} standard deviations");
                let ratio = found.covs[k * n * n + i * (n + 1)].sqrt() / std;
                assert!((ratio - 1.0).abs() < allowed, "row {k}, state {i}: {ratio}");
            }
        }
        assert_eq!(run(&spec), found);
        assert_ne!(run(&FilterSpec { seed: Some(1), ..spec.clone() }), found);
    }
}

#[test]
fn filters_without_a_smoother_say_so() {
    let problem = Problem::new(level()).noise(1.0, 1.0);
    for method in ["vkf", "etkf", "letkf"] {
        let refused = FilterSpec::of(method).unwrap().smoothing(&problem, 5).unwrap_err();
        let message = format!("{method} cannot be smoothed; use kf, ekf, iekf, ukf, pf or imap");
        assert_eq!(refused, SpecError::of("method", message));
    }
}

#[test]
fn a_window_that_is_chosen_is_kept() {
    let problem = Problem::new(level()).noise(1.0, Covariance::Scalar(1.0));
    let spec = FilterSpec { window: Some(2), ..FilterSpec::of("imap").unwrap() };
    assert_eq!(spec.smoothing(&problem, 9).unwrap(), spec);
    let open = FilterSpec::of("imap").unwrap().smoothing(&problem, 9).unwrap();
    assert_eq!((open.method(), open.window(), open.is_weak()), (Method::Imap, 8, true));
}
