//! Smoothed estimates against statsmodels and filterpy, and where they have nothing to compare with, against
//! themselves said differently.
//!
//! Tolerances are relative to 1 + |entry|: 1e-9 where statsmodels' two smoothers agree to that, and for the nonlinear systems
//! a hundred times those of the filtered numbers in `golden.rs`, since filterpy inverts the predicted covariance.

use crate::common::{RangeBearing, all_close, close, golden, matrix, numbers};
use nalgebra::{Const, DefaultAllocator, Dim, Dyn, OMatrix, OVector, U1, matrix, vector};
use optfilter::filter::{
    Bounded, ExtendedKalmanFilter, GaussianBelief, IteratedKalmanFilter, KalmanFilter, SigmaPoints,
    UnscentedKalmanFilter,
};
use optfilter::linalg::is_symmetric_psd;
use optfilter::model::{
    Dynamics, GaussianNoise, Growth, Linear, Lorenz63, Observation, RandomWalk, Step,
};
use optfilter::optim::Bounds;
use optfilter::scalar::Scalar;
use optfilter::smoother::Smooth;
use optfilter::{Series, Shapes};
use serde_json::Value;

/// Smooths and compares every mean and covariance.
fn compare<F: Smooth>(
    filter: &F,
    start: &GaussianBelief<F::State>,
    series: &Series<'_>,
    expected: &Value,
    tolerance: f64,
) where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let smoothed = filter.smooth(start, series).unwrap();
    let means: Vec<f64> = smoothed.iter().flat_map(|b| b.mean.iter().copied()).collect();
    // Symmetric, so that rows and columns are the same list.
    let covs: Vec<f64> = smoothed.iter().flat_map(|b| b.cov.iter().copied()).collect();
    let name = &expected["name"];
    all_close(&means, &numbers(&expected["smoothed_mean"]), tolerance, &format!("{name} means"));
    all_close(&covs, &numbers(&expected["smoothed_cov"]), tolerance, &format!("{name} covs"));
    for belief in &smoothed {
        assert!(is_symmetric_psd(&belief.cov), "{name}: {}", belief.cov);
    }
}

fn given<N: Dim, M: Dim>(system: &Value, n: N, m: M) -> (GaussianNoise<N, M>, GaussianBelief<N>)
where
    DefaultAllocator: Shapes<N, M>,
{
    let square = |key: &str| OMatrix::from_row_iterator_generic(n, n, numbers(&system[key]));
    let r = OMatrix::from_row_iterator_generic(m, m, numbers(&system["R"]));
    let mean = OVector::from_iterator_generic(n, U1, numbers(&system["m0"]));
    let noise = GaussianNoise::new(square("Q"), r).unwrap();
    (noise, GaussianBelief::new(mean, square("P0")).unwrap())
}

#[test]
fn linear_systems_equal_statsmodels_with_missing_values() {
    let (filtered, smoothed) = (golden("kalman_statsmodels"), golden("smoother_statsmodels"));
    let systems = filtered["systems"].as_array().unwrap();
    for (system, expected) in systems.iter().zip(smoothed["systems"].as_array().unwrap()) {
        assert_eq!(system["name"], expected["name"]);
        let (f, h) = (matrix(&system["F"]), matrix(&system["H"]));
        let (noise, start) = given(system, Dyn(f.nrows()), Dyn(h.nrows()));
        let ys = numbers(&system["ys"]);
        let series = Series::new(&ys, h.nrows()).unwrap().predict_first();
        let model = Linear::new(f, h).unwrap();
        let points = SigmaPoints::merwe(1.0, 1.0, 0.0);
        compare(&KalmanFilter::new(model.clone(), noise.clone()), &start, &series, expected, 1e-9);
        compare(
            &ExtendedKalmanFilter::new(model.clone(), noise.clone()),
            &start,
            &series,
            expected,
            1e-9,
        );
        let iterated = IteratedKalmanFilter::new(model.clone(), noise.clone(), 3).unwrap();
        compare(&iterated, &start, &series, expected, 1e-9);
        let unscented = UnscentedKalmanFilter::new(model, noise, points).unwrap();
        compare(&unscented, &start, &series, expected, 1e-9);
    }
}

#[test]
fn the_nile_with_gaps_equals_statsmodels() {
    let nile = &golden("smoother_statsmodels")["nile"];
    let ys = numbers(&nile["ys"]);
    assert_eq!(ys.iter().filter(|y| y.is_nan()).count(), 40);
    let series = Series::new(&ys, 1).unwrap();
    for case in nile["cases"].as_array().unwrap() {
        let model = Linear::new(matrix(&case["F"]), matrix(&case["H"])).unwrap();
        let (noise, start) = given(case, Dyn(matrix(&case["F"]).nrows()), Dyn(1));
        compare(&KalmanFilter::new(model, noise), &start, &series, case, 1e-9);
    }
}

#[test]
fn unscented_equals_filterpy() {
    let (filtered, smoothed) = (golden("ukf_filterpy"), golden("smoother_statsmodels"));
    let mut compared = 0;
    for expected in smoothed["unscented"].as_array().unwrap() {
        let systems = filtered["systems"].as_array().unwrap();
        let system = systems.iter().find(|s| s["name"] == expected["name"]).unwrap();
        let points = &system["cases"][expected["case"].as_u64().unwrap() as usize]["points"];
        let parameter = |name: &str| points[name].as_f64().unwrap();
        let points = match points["kind"].as_str().unwrap() {
            "merwe" => {
                SigmaPoints::merwe(parameter("alpha"), parameter("beta"), parameter("kappa"))
            }
            _ => SigmaPoints::julier(parameter("kappa")),
        };
        let name = system["name"].as_str().unwrap();
        let tolerance = if (name, points.alpha) == ("growth", 0.1) { 3.2e-9 } else { 3e-11 };
        let ys = numbers(&system["ys"]);
        let (m, dt) = (system["m"].as_u64().unwrap() as usize, system["dt"].as_f64().unwrap());
        let series = Series::new(&ys, m).unwrap().with_dt(dt).unwrap().predict_first();
        match name {
            "growth" => {
                let (noise, start) = given(system, Const::<1>, Const::<1>);
                let filter = UnscentedKalmanFilter::new(Growth, noise, points).unwrap();
                compare(&filter, &start, &series, expected, tolerance);
            }
            "lorenz" => {
                let constant = |name: &str| system[name].as_f64().unwrap();
                let (sigma, rho, beta) = (constant("sigma"), constant("rho"), constant("beta"));
                let (noise, start) = given(system, Const::<3>, Const::<3>);
                let model = Lorenz63 { sigma, rho, beta }.rk4();
                let filter = UnscentedKalmanFilter::new(model, noise, points).unwrap();
                compare(&filter, &start, &series, expected, tolerance);
            }
            _ => {
                let (noise, start) = given(system, Const::<4>, Const::<2>);
                let model = RangeBearing { f: matrix(&system["F"]), wraps: true };
                let filter = UnscentedKalmanFilter::new(model, noise, points).unwrap();
                compare(&filter, &start, &series, expected, tolerance);
            }
        }
        compared += 1;
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn extended_equals_filterpy() {
    let (filtered, smoothed) = (golden("ekf_filterpy"), golden("smoother_statsmodels"));
    let expected = &smoothed["extended"];
    let systems = filtered["systems"].as_array().unwrap();
    let system = systems.iter().find(|s| s["name"] == expected["name"]).unwrap();
    let (noise, start) = given(system, Const::<4>, Const::<2>);
    let model = RangeBearing { f: matrix(&system["F"]), wraps: true };
    let ys = numbers(&system["ys"]);
    let series = Series::new(&ys, 2).unwrap().predict_first();
    compare(&ExtendedKalmanFilter::new(model, noise), &start, &series, expected, 1e-10);
}

fn level() -> KalmanFilter<Const<1>, Const<1>, GaussianNoise<Const<1>, Const<1>>> {
    let model = Linear::new(matrix![1.0], matrix![1.0]).unwrap();
    let noise = GaussianNoise::per_time(matrix![0.5], matrix![2.0]).unwrap();
    KalmanFilter::new(model, noise)
}

/// Two measurements at one time are one measurement of half the variance, and both rows know as much.
#[test]
fn rows_of_one_time_and_uneven_times_are_as_they_are() {
    let start = GaussianBelief::new(vector![0.0], matrix![4.0]).unwrap();
    let (ys, times) = ([1.0, 2.0, 4.0, 3.0], [0.0, 1.5, 1.5, 4.0]);
    let series = Series::new(&ys, 1).unwrap().with_times(&times).unwrap();
    let smoothed = level().smooth(&start, &series).unwrap();
    assert_eq!(smoothed[1], smoothed[2]);
    // The posterior of the three levels, from their precision matrix.
    let q = |dt: f64| 1.0 / (0.5 * dt);
    let precision = nalgebra::matrix![
        0.25 + 0.5 + q(1.5), -q(1.5), 0.0;
        -q(1.5), q(1.5) + 1.0 + q(2.5), -q(2.5);
        0.0, -q(2.5), q(2.5) + 0.5
    ];
    let cov = precision.try_inverse().unwrap();
    let mean = cov * vector![0.5, 3.0, 1.5];
    for (row, k) in [(0, 0), (1, 1), (3, 2)] {
        close(smoothed[row].mean[0], mean[k], 1e-13, "mean");
        close(smoothed[row].cov[0], cov[(k, k)], 1e-13, "cov");
    }
}

/// A constant known exactly stays it, and one that does not move has one estimate for all rows.
#[test]
fn states_without_noise_are_the_same_at_every_row() {
    let model = Linear::new(matrix![1.0, 0.0; 0.0, 1.0], matrix![1.0, 1.0]).unwrap();
    let noise = GaussianNoise::new(matrix![0.0, 0.0; 0.0, 0.0], matrix![1.0]).unwrap();
    let start = GaussianBelief::new(vector![3.0, 0.0], matrix![0.0, 0.0; 0.0, 1e6]).unwrap();
    let series = Series::new(&[4.0, 5.0, f64::NAN, 9.0], 1).unwrap();
    let smoothed = KalmanFilter::new(model, noise).smooth(&start, &series).unwrap();
    for belief in &smoothed {
        assert_eq!((belief.mean[0], belief.cov[(0, 0)]), (3.0, 0.0));
        close(belief.mean[1], 3e6 * 3.0 / (3e6 + 1.0), 1e-9, "mean"); // of 1, 2 and 6
        close(belief.cov[(1, 1)], 1e6 / (3e6 + 1.0), 1e-9, "cov");
    }
}

#[test]
fn covariances_stay_covariances_where_noise_is_tiny() {
    let model = Linear::new(matrix![1.0, 1.0; 0.0, 1.0], matrix![1.0, 0.0]).unwrap();
    for (q, r) in [(1e-14, 1e4), (1e6, 1e-12), (1e-12, 1e-12)] {
        let noise = GaussianNoise::new(matrix![q / 3.0, q / 2.0; q / 2.0, q], matrix![r]).unwrap();
        let start = GaussianBelief::new(vector![0.0, 0.0], matrix![1e8, 0.0; 0.0, 1e8]).unwrap();
        let ys: Vec<f64> = (0..200).map(|k| f64::from(k).sin()).collect();
        let series = Series::new(&ys, 1).unwrap();
        for belief in KalmanFilter::new(model.clone(), noise).smooth(&start, &series).unwrap() {
            assert!(is_symmetric_psd(&belief.cov), "q = {q}, r = {r}: {}", belief.cov);
        }
    }
}

#[test]
fn the_smoothed_state_stays_in_its_box() {
    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let bounds = Bounds::new(vec![0.0], vec![f64::INFINITY]).unwrap();
    let filter =
        Bounded::new(ExtendedKalmanFilter::new(RandomWalk::new(Const::<1>), noise), bounds)
            .unwrap();
    let start = GaussianBelief::new(vector![1.0], matrix![1.0]).unwrap();
    let series = Series::new(&[0.5, -3.0, -9.0, -9.0, 2.0], 1).unwrap();
    for belief in filter.smooth(&start, &series).unwrap() {
        assert!(belief.mean[0] >= 0.0, "{}", belief.mean[0]);
    }
}

/// A direction that wanders.
struct Compass;

impl Dynamics for Compass {
    type State = Const<1>;
    fn state_dim(&self) -> Const<1> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0];
    }
    fn is_state_angle(&self, _component: usize) -> bool {
        true
    }
}

impl Observation for Compass {
    type Output = Const<1>;
    fn output_dim(&self) -> Const<1> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out[0] = x[0];
    }
    fn is_angle(&self, _component: usize) -> bool {
        true
    }
}

/// What lies just beyond half a turn is near, whichever way it is written.
#[test]
fn angles_are_compared_around_the_circle() {
    let noise = GaussianNoise::new(matrix![0.1], matrix![0.1]).unwrap();
    let filter = ExtendedKalmanFilter::new(Compass, noise);
    let filtered = GaussianBelief::new(vector![3.1], matrix![0.1]).unwrap();
    let series = Series::new(&[3.1, -3.1], 1).unwrap();
    for next in [-3.1, std::f64::consts::TAU - 3.1] {
        let next = GaussianBelief::new(vector![next], matrix![0.05]).unwrap();
        let smoothed = filter.smooth_back(&filtered, &next, &series, 1).unwrap();
        // Halfway, since P = Q.
        let halfway = 0.5 * (3.1 + std::f64::consts::TAU - 3.1);
        close(smoothed.mean[0], halfway, 1e-13, "mean");
    }
}
