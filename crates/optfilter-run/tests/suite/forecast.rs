//! Forecasts: against statsmodels, and by how often what comes lies inside the intervals.

use crate::golden::{apart, nile, problem};
use nalgebra::{DMatrix, Dyn};
use optfilter::Series;
use optfilter::model::likelihood::{Component, Link, Poisson};
use optfilter::model::{Linear, Step};
use optfilter_run::{
    Estimate, FilterSpec, Forecast, ForecastSummary, LikelihoodSpec, Problem, build, forecast,
    simulate,
};

/// A random walk of one state that is measured as it is.
fn walk() -> Linear<Dyn, Dyn> {
    Linear::new(DMatrix::identity(1, 1), DMatrix::identity(1, 1)).unwrap()
}

/// Filters a series and says what comes after it.
fn ahead(spec: &FilterSpec, problem: &Problem, ys: &[f64], count: usize) -> Forecast {
    let runner = build(spec, problem).unwrap();
    let series = Series::new(ys, runner.dims().1).unwrap().with_dt(problem.dt).unwrap();
    let mut live = runner.start(runner.default_start()).unwrap();
    let mut estimate = Estimate::default();
    for k in 0..series.len() {
        let (y, step) = (series.observation(k), series.step(k));
        live.step(series.predicts(k), &step, &[], y, &mut estimate).unwrap();
    }
    let rows = series.len() as u64;
    let steps: Vec<_> = (1..=count as u64).map(|k| Step::even(rows + k, problem.dt)).collect();
    forecast(&*runner, &mut *live, &steps, &[]).unwrap()
}

fn column(rows: &[Vec<ForecastSummary>], of: impl Fn(&ForecastSummary) -> f64) -> Vec<f64> {
    rows.iter().flatten().map(of).collect()
}

#[test]
fn gaussian_filters_equal_statsmodels_on_the_nile() {
    let nile = nile();
    for case in &nile.cases {
        for method in ["kf", "ekf", "iekf", "ukf"] {
            let problem = problem(case);
            let found = ahead(&FilterSpec::of(method).unwrap(), &problem, &nile.ys, 12);
            let n = problem.mean.len();
            let states = column(&found.states, |s| s.mean);
            assert!(apart(&states, &case.numbers("forecast_state")) < 1e-8, "{method}");
            let measured = column(&found.measurements, |s| s.mean);
            assert!(apart(&measured, &case.numbers("forecast")) < 1e-8, "{method}");
            let variances = column(&found.measurements, |s| s.std * s.std);
            assert!(apart(&variances, &case.numbers("forecast_cov")) < 1e-8, "{method}");
            let covs = case.numbers("forecast_state_cov");
            let wanted: Vec<f64> =
                covs.chunks(n * n).flat_map(|p| (0..n).map(|i| p[i * (n + 1)])).collect();
            let variances = column(&found.states, |s| s.std * s.std);
            assert!(apart(&variances, &wanted) < 1e-8, "{method}");
        }
    }
}

/// Half-widths of a standard normal, from scipy.stats.norm.interval.
#[test]
fn intervals_of_a_gaussian_are_its_quantiles() {
    let spread = ForecastSummary::gaussian(10.0, 4.0);
    let expected = [1.348_979_500_392_163_6, 2.563_103_131_089_201, 3.919_927_969_080_108];
    for ((low, high), half) in spread.intervals.into_iter().zip(expected) {
        assert!((high - 10.0 - half).abs() < 1e-14 && (10.0 - low - half).abs() < 1e-14);
    }
}

/// What comes lies inside the 95 % interval 95 % of the time, at every filter that has one.
#[test]
fn intervals_hold_what_they_say() {
    let matrix = |v: &[f64]| DMatrix::from_row_slice(2, 2, v);
    let model = Linear::new(matrix(&[0.9, 0.3, -0.3, 0.9]), DMatrix::identity(1, 2)).unwrap();
    let problem = Problem::new(model).noise(0.2, 0.5).start(0.0, 1.0);
    let particles = FilterSpec { particles: Some(500), ..FilterSpec::of("pf").unwrap() };
    let implicit = FilterSpec { steps: Some(20), ..FilterSpec::of("imap").unwrap() };
    let all = [FilterSpec::of("kf").unwrap(), FilterSpec::of("ukf").unwrap(), particles, implicit];
    for spec in all {
        let (mut inside, mut total) = ([0usize; 2], 0);
        for run in 0..200 {
            let (mut xs, mut ys) = (Vec::new(), Vec::new());
            simulate(&problem, 46, (5, run), false, &[], |_, x, y| {
                xs.push(x[0]);
                ys.push(y[0]);
                true
            })
            .unwrap();
            let found = ahead(&spec, &problem, &ys[..40], 6);
            for k in 0..6 {
                let within = |spread: &ForecastSummary, v: f64| {
                    let (low, high) = spread.intervals[2];
                    usize::from(low <= v && v <= high)
                };
                inside[0] += within(&found.states[k][0], xs[40 + k]);
                inside[1] += within(&found.measurements[k][0], ys[40 + k]);
                total += 1;
            }
        }
        for (what, inside) in ["states", "measurements"].into_iter().zip(inside) {
            let share = inside as f64 / f64::from(total);
            assert!((0.92..=0.98).contains(&share), "{:?}: {share} of {what}", spec.method());
        }
    }
}

/// Counts have intervals of whole numbers, from the particle filter and from the extended one, which agree.
#[test]
fn counts_are_drawn() {
    let mut problem = Problem::new(walk()).noise(0.01, 5.0).start(5.0, 0.5);
    let poisson = Component::Poisson(Poisson { link: Link::Identity });
    problem.likelihood = Some(LikelihoodSpec::Components(vec![poisson]));
    let ys = [4.0, 6.0, 5.0, 7.0, 5.0];
    let of = |method: &str| ahead(&FilterSpec::of(method).unwrap(), &problem, &ys, 2);
    let (drawn, extended) = (of("pf"), of("ekf"));
    for found in [&drawn, &extended] {
        let (low, high) = found.measurements[1][0].intervals[2];
        assert_eq!((low.fract(), high.fract()), (0.0, 0.0));
        assert!((0.0..=2.0).contains(&low) && (9.0..=12.0).contains(&high), "{low} to {high}");
    }
    assert_eq!(drawn, of("pf"));
}

/// Without a covariance there is a mean, and nothing else is made up.
#[test]
fn a_point_has_no_intervals() {
    let problem = Problem::new(walk()).noise(0.1, 1.0);
    let spec = FilterSpec { error_bars: Some(false), ..FilterSpec::of("imap").unwrap() };
    let found = ahead(&spec, &problem, &[1.0, 2.0], 3);
    for spread in [found.states[2][0], found.measurements[2][0]] {
        assert!(spread.mean.is_finite() && spread.std.is_nan());
        assert!(spread.intervals.iter().all(|(low, high)| low.is_nan() && high.is_nan()));
    }
}
