//! Covariances stay symmetric and positive definite over 10^5 steps, whatever the noise.

use nalgebra::{Cholesky, Const, SMatrix, matrix, vector};
use optfilter::filter::{
    ExtendedKalmanFilter, Filter, GaussianBelief, IteratedKalmanFilter, KalmanFilter, SigmaPoints,
    UnscentedKalmanFilter,
};
use optfilter::model::{GaussianNoise, Linear, Step};
use optfilter::rng::Stream;

/// Runs 10^5 steps and looks at the covariance at every step (symmetry) and every 1000th (Cholesky).
fn stays_positive<const M: usize, F>(filter: &F, what: &str)
where
    F: Filter<State = Const<3>, Output = Const<M>, Belief = GaussianBelief<Const<3>>>,
{
    let mut belief = GaussianBelief::new(vector![1.0, -1.0, 0.5], SMatrix::identity()).unwrap();
    let mut stream = Stream::new(5, M as u64, "long run");
    for k in 1..=100_000u64 {
        let step = Step::even(k, 1.0);
        filter.predict(&mut belief, &[], &step).unwrap();
        let y: [f64; M] = std::array::from_fn(|_| stream.normal());
        filter.update(&mut belief, &y, &[], &step).unwrap();
        assert!(belief.cov == belief.cov.transpose(), "{what}: not symmetric at {k}");
        if k % 1000 == 0 {
            assert!(Cholesky::new(belief.cov).is_some(), "{what}: at {k}: {}", belief.cov);
            assert!(belief.mean.iter().all(|v| v.is_finite()), "{what}");
        }
    }
}

fn long_runs<const M: usize>(h: SMatrix<f64, M, 3>, q: SMatrix<f64, 3, 3>, r: f64, what: &str) {
    // A damped turn about a tilted axis: every direction is seen in time.
    let f = matrix![0.8, -0.5, 0.1; 0.5, 0.8, 0.0; 0.1, 0.1, 0.95];
    let model = Linear::new(f, h).unwrap();
    let noise = GaussianNoise::new(q, SMatrix::identity() * r).unwrap();
    let what = format!("{what}, {M} of 3 seen, R = {r:e}");
    stays_positive(&KalmanFilter::new(model.clone(), noise.clone()), &format!("Kalman, {what}"));
    stays_positive(
        &ExtendedKalmanFilter::new(model.clone(), noise.clone()),
        &format!("extended, {what}"),
    );
    let iterated = IteratedKalmanFilter::new(model.clone(), noise.clone(), 2).unwrap();
    stays_positive(&iterated, &format!("iterated, {what}"));
    let unscented =
        UnscentedKalmanFilter::new(model, noise, SigmaPoints::merwe(1.0, 2.0, 0.0)).unwrap();
    stays_positive(&unscented, &format!("unscented, {what}"));
}

#[test]
fn covariances_stay_symmetric_positive_definite() {
    let full = matrix![1.0, 0.0, 0.0; 0.3, 1.0, 0.0; 0.0, -0.2, 1.0];
    for r in [1.0, 1e-6, 1e-12] {
        for (q, what) in [(1.0, "Q = I"), (1e-4, "Q = 1e-4 I")] {
            let q = SMatrix::identity() * q;
            long_runs(full, q, r, what);
            long_runs(matrix![1.0, 0.2, 0.0], q, r, what);
        }
    }
    // Noise that enters one direction only.
    let along = vector![1.0, 0.5, 0.2];
    long_runs(matrix![1.0, 0.2, 0.0], along * along.transpose(), 1e-12, "Q of rank one");
}
