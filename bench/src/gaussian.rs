//! Extended and unscented Kalman filters against multicalc and kfilter.

use crate::models::*;
use crate::{Row, race};
use kfilter::kalman::{Kalman, KalmanPredictInput, KalmanUpdate};
use kfilter::measurement::LinearMeasurement;
use kfilter::system::StepReturn;
use multicalc::estimation::{ExtendedKalmanFilter, UnscentedKalmanFilter};
use multicalc::linear_algebra::{Matrix, Vector};
use nalgebra::{Matrix3, matrix, vector};
use nalgebra034 as na34;
use optfilter::filter::{Belief, ExtendedKalmanFilter as Extended, Filter, GaussianBelief, SigmaPoints, UnscentedKalmanFilter as Unscented};
use optfilter::model::{GaussianNoise, Model, Step};
use std::hint::black_box;

const T: usize = 200;

/// One filter over the whole series, from the start; the estimate goes through a black box.
fn ours<M: Model, F>(filter: &F, start: &F::Belief, ys: &[f64], dt: f64, m: usize)
where
    F: Filter<State = M::State, Output = M::Output>,
    F::Belief: Belief<M::State>,
    nalgebra::DefaultAllocator: optfilter::Shapes<M::State, M::Output>,
{
    let mut belief = start.clone();
    for (k, y) in ys.chunks_exact(m).enumerate() {
        let step = Step::even(k as u64 + 1, dt);
        filter.predict(&mut belief, &[], &step).unwrap();
        black_box(filter.update(&mut belief, y, &[], &step).unwrap().observed);
    }
    black_box(&belief);
}

pub fn rows(rows: &mut Vec<Row>) {
    let (growth, lorenz) = measurements(T);
    let eye = Matrix3::<f64>::identity();
    let per_step = |(a, b): (f64, f64)| (a / T as f64, b / T as f64);
    let growth_noise = || GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let lorenz_noise = || GaussianNoise::new(eye * 2.0, eye * 2.0).unwrap();
    let growth_start = GaussianBelief::new(vector![0.1], matrix![1.0]).unwrap();
    let lorenz_start = GaussianBelief::new(vector![10.0, 10.0, 10.0], eye).unwrap();
    let one = || Matrix::new([[1.0]]);
    let three = |d: f64| Matrix::new([[d, 0.0, 0.0], [0.0, d, 0.0], [0.0, 0.0, d]]);

    let filter = Extended::new(AutoGrowth, growth_noise());
    let (ours_us, peer_us) = per_step(race(
        10,
        || ours::<AutoGrowth, _>(&filter, &growth_start, &growth, 0.1, 1),
        || {
            let mut f = ExtendedKalmanFilter::<1, 1>::new(Vector::new([0.1]), one(), one(), one());
            for (k, y) in growth.iter().enumerate() {
                f.predict(&PeerGrowth { time: (k as f64 + 1.0) * 0.1 }).unwrap();
                f.update(&PeerSquare, Vector::new([*y])).unwrap();
            }
            black_box(&f);
        },
    ));
    rows.push(Row { work: "EKF toy, automatic derivatives", unit: "step", peer: "multicalc", ours_us, peer_us });

    let filter = Extended::new(AutoLorenz, lorenz_noise());
    let (ours_us, peer_us) = per_step(race(
        10,
        || ours::<AutoLorenz, _>(&filter, &lorenz_start, &lorenz, DT, 3),
        || {
            let mut f = ExtendedKalmanFilter::<3, 3>::new(Vector::new([10.0; 3]), three(1.0), three(2.0), three(2.0));
            for y in lorenz.chunks_exact(3) {
                f.predict(&PeerLorenz).unwrap();
                f.update(&PeerIdentity, Vector::new([y[0], y[1], y[2]])).unwrap();
            }
            black_box(&f);
        },
    ));
    rows.push(Row { work: "EKF Lorenz RK4, automatic derivatives", unit: "step", peer: "multicalc", ours_us, peer_us });

    let filter = Extended::new(HandLorenz, lorenz_noise());
    let (ours_us, peer_us) = per_step(race(
        10,
        || ours::<HandLorenz, _>(&filter, &lorenz_start, &lorenz, DT, 3),
        || {
            let eye = na34::Matrix3::<f64>::identity();
            let mut f = Kalman::new_ekf_with_input(hand_step, na34::Vector3::new(10.0, 10.0, 10.0), eye);
            let mut measurement = LinearMeasurement::new(eye, eye * 2.0, na34::Vector3::zeros());
            for y in lorenz.chunks_exact(3) {
                f.predict(na34::SVector::<f64, 0>::zeros()).unwrap();
                measurement.z = na34::Vector3::new(y[0], y[1], y[2]);
                f.update(&measurement).unwrap();
            }
            black_box(&f);
        },
    ));
    rows.push(Row { work: "EKF Lorenz Euler, hand Jacobian", unit: "step", peer: "kfilter", ours_us, peer_us });

    let filter = Unscented::new(AutoGrowth, growth_noise(), SigmaPoints::merwe(1.0, 2.0, 2.0)).unwrap();
    let (ours_us, peer_us) = per_step(race(
        10,
        || ours::<AutoGrowth, _>(&filter, &growth_start, &growth, 0.1, 1),
        || {
            let f = UnscentedKalmanFilter::<1, 1>::new(Vector::new([0.1]), one(), one(), one());
            let mut f = f.with_scaling(1.0, 2.0, 2.0).unwrap();
            for (k, y) in growth.iter().enumerate() {
                f.predict(&PeerGrowth { time: (k as f64 + 1.0) * 0.1 }).unwrap();
                f.update(&PeerSquare, Vector::new([*y])).unwrap();
            }
            black_box(&f);
        },
    ));
    rows.push(Row { work: "UKF toy", unit: "step", peer: "multicalc", ours_us, peer_us });

    let filter = Unscented::new(AutoLorenz, lorenz_noise(), SigmaPoints::merwe(1.0, 2.0, 0.0)).unwrap();
    let (ours_us, peer_us) = per_step(race(
        10,
        || ours::<AutoLorenz, _>(&filter, &lorenz_start, &lorenz, DT, 3),
        || {
            let f = UnscentedKalmanFilter::<3, 3>::new(Vector::new([10.0; 3]), three(1.0), three(2.0), three(2.0));
            let mut f = f.with_scaling(1.0, 2.0, 0.0).unwrap();
            for y in lorenz.chunks_exact(3) {
                f.predict(&PeerLorenz).unwrap();
                f.update(&PeerIdentity, Vector::new([y[0], y[1], y[2]])).unwrap();
            }
            black_box(&f);
        },
    ));
    rows.push(Row { work: "UKF Lorenz RK4", unit: "step", peer: "multicalc", ours_us, peer_us });
}

/// kfilter's step: the new state, its Jacobian and Q.
fn hand_step(x: na34::SVector<f64, 3>, _u: na34::SVector<f64, 0>) -> StepReturn<f64, 3> {
    let state = na34::Vector3::new(
        x[0] + DT * 10.0 * (x[1] - x[0]),
        x[1] + DT * (x[0] * (28.0 - x[2]) - x[1]),
        x[2] + DT * (x[0] * x[1] - 8.0 / 3.0 * x[2]),
    );
    let jacobian = na34::Matrix3::from_row_slice(&[
        1.0 - 10.0 * DT,
        10.0 * DT,
        0.0,
        (28.0 - x[2]) * DT,
        1.0 - DT,
        -x[0] * DT,
        x[1] * DT,
        x[0] * DT,
        1.0 - 8.0 / 3.0 * DT,
    ]);
    StepReturn { state, jacobian, covariance: na34::Matrix3::identity() * 2.0 }
}
