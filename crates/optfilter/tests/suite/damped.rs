//! Iterated updates whose full steps lead away, against roots found by scipy.

use nalgebra::{DMatrix, DVector, matrix, vector};
use optfilter::filter::evidence::{Approximation, Family, Row, Setting, log_likelihood};
use optfilter::filter::{ExtendedKalmanFilter, Filter, GaussianBelief, IteratedKalmanFilter};
use optfilter::model::{Dynamics, GaussianNoise, Observation, Step};
use optfilter::scalar::Scalar;

/// A level seen through its arc tangent.
#[derive(Clone)]
struct Bent;

impl Dynamics for Bent {
    type State = nalgebra::Const<1>;
    fn state_dim(&self) -> Self::State {
        nalgebra::Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        out[0] = x[0];
    }
}

impl Observation for Bent {
    type Output = nalgebra::Const<1>;
    fn output_dim(&self) -> Self::Output {
        nalgebra::Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        out[0] = S::atan2(x[0], S::ONE);
    }
}

impl Family for Bent {
    fn dims(&self) -> (usize, usize) {
        (1, 1)
    }
    fn transition<S: Scalar>(&self, _: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        out[0] = x[0];
    }
    fn observe<S: Scalar>(&self, _: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        Observation::observe(self, x, u, step, out);
    }
}

/// scipy.optimize.brentq of the slope of (x - 3)^2 / 50 + atan(x)^2 / 2e-4.
const MODE: f64 = 1.199_995_200_249_596_3e-5;

#[test]
fn steps_that_lead_away_are_shortened() {
    let noise = || GaussianNoise::new(matrix![0.1], matrix![1e-4]).unwrap();
    let start = || GaussianBelief::new(vector![3.0], matrix![25.0]).unwrap();
    let step = Step::even(1, 1.0);
    let update = |iterations| {
        let mut belief = start();
        let filter = IteratedKalmanFilter::new(Bent, noise(), iterations).unwrap().damped();
        let update = filter.update(&mut belief, &[0.0], &[], &step).unwrap();
        (belief, update)
    };
    // One linearisation is the extended filter, which goes too far and is not held back.
    let mut extended = start();
    ExtendedKalmanFilter::new(Bent, noise()).update(&mut extended, &[0.0], &[], &step).unwrap();
    assert_eq!(update(1).0, extended);
    assert!(extended.mean[0] < -9.0, "{extended:?}");
    let (belief, found) = update(20);
    assert!((belief.mean[0] - MODE).abs() < 1e-9, "{belief:?}");
    // Near the mode the slope of atan is 1: the variance is that of a direct measurement.
    assert!((belief.cov[0] - 1.0 / (1.0 / 25.0 + 1e4)).abs() < 1e-9);
    // The likelihood that a fit climbs goes the same way.
    let setting = Setting {
        mean: DVector::from_element(1, 3.0),
        cov: DMatrix::from_element(1, 1, 25.0),
        process_cov: DMatrix::from_element(1, 1, 0.1),
        measurement_cov: DMatrix::from_element(1, 1, 1e-4),
        ..Setting::new(1, 1)
    };
    let rows = [Row { y: &[0.0], u: &[], step, predict: false }];
    let way = Approximation::Linearized { iterations: 20 };
    let sum = log_likelihood(&Bent, &setting, &way, rows.into_iter()).unwrap();
    assert!((sum - found.log_likelihood.unwrap()).abs() < 1e-12 * sum.abs());
}
