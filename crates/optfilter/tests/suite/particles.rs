//! The particle filter with noise of independent components: the same numbers, and no matrix.

use nalgebra::{Const, DVector, Dyn, OVector, SMatrix, matrix, vector};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{
    Belief, Filter, GaussianBelief, ParticleBelief, ParticleFilter, Resampling, Scheme,
};
use optfilter::model::likelihood::{Gaussian, SquaredError};
use optfilter::model::{DiagonalNoise, GaussianNoise, Lorenz63, Noise, RandomWalk, Step};
use optfilter::rng::Stream;

type Three = Const<3>;
const RESAMPLING: Resampling = Resampling::Below(Scheme::Systematic, 0.5);

/// Estimates of twenty rows, one of them missing.
fn estimates<Q: Noise<Three, Three>>(noise: Q, start: ParticleBelief<Three>) -> Vec<u64> {
    let likelihood = Gaussian::new(SMatrix::<f64, 3, 3>::identity() * 2.0).unwrap();
    let model = Lorenz63::default().rk4();
    let filter = ParticleFilter::new(model, likelihood, noise, RESAMPLING).unwrap();
    let mut ys: Vec<f64> = (0..60).map(|k| 10.0 + (k as f64 * 0.7).sin()).collect();
    ys[24..27].fill(f64::NAN);
    let mut belief = start;
    let series = Series::new(&ys, 3).unwrap().with_dt(0.02).unwrap().predict_first();
    filter.run(&mut belief, &series).unwrap().means.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn independent_noise_moves_particles_as_its_matrix_does() {
    let (q, r, p) = (vector![0.5, 0.0, 0.2], vector![2.0, 2.0, 2.0], vector![1.0, 4.0, 0.0]);
    let stream = || Stream::new(5, 0, "particles");
    let mean = vector![10.0, 9.0, 11.0];
    let start = GaussianBelief::new(mean, SMatrix::from_diagonal(&p)).unwrap();
    let matrices =
        GaussianNoise::new(SMatrix::from_diagonal(&q), SMatrix::from_diagonal(&r)).unwrap();
    let dense = estimates(matrices, ParticleBelief::new(&start, 100, stream()).unwrap());
    let slim = ParticleBelief::independent(&mean, p.as_slice(), 100, stream()).unwrap();
    assert_eq!(dense, estimates(DiagonalNoise::new(q, r).unwrap(), slim.clone()));
    // With a correlation they are others: the comparison can fail.
    let turned = matrix![0.5, 0.0, 0.1; 0.0, 0.0, 0.0; 0.1, 0.0, 0.2];
    let turned = GaussianNoise::new(turned, SMatrix::from_diagonal(&r)).unwrap();
    assert_ne!(dense, estimates(turned, slim));
}

#[test]
fn particles_of_many_states_need_no_matrix_of_them() {
    // A matrix of this size would take 80 GB.
    let n = 100_000;
    let mean: OVector<f64, Dyn> = DVector::repeat(n, 1.0);
    let variances = vec![0.25; n];
    let stream = Stream::new(1, 0, "particles");
    let mut belief = ParticleBelief::independent(&mean, &variances, 16, stream).unwrap();
    let noise = DiagonalNoise::new(DVector::repeat(n, 0.75), DVector::repeat(n, 1.0)).unwrap();
    let filter =
        ParticleFilter::new(RandomWalk::new(Dyn(n)), SquaredError, noise, RESAMPLING).unwrap();
    filter.predict(&mut belief, &[], &Step::even(1, 1.0)).unwrap();
    // The mean of 1.6 million draws of variance 1 around 1, within five standard errors.
    let mean = belief.mean().sum() / n as f64;
    assert!((mean - 1.0).abs() < 5.0 / (16.0 * n as f64).sqrt(), "{mean}");
    assert!(
        ParticleBelief::independent(&vector![0.0], &[-1.0], 16, Stream::new(1, 0, "")).is_err()
    );
}
