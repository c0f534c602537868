//! The ensemble filter against NumPy's formulas and DAPPER, the Kalman filter, and itself.

use crate::common::{all_close, close, golden, matrix, numbers, same_bits};
use nalgebra::{Const, DMatrix, DVector, Dyn, matrix, vector};
use optfilter::filter::{
    Belief, EnsembleBelief, EnsembleKalmanFilter, Filter, FilterError, GaussianBelief,
    KalmanFilter, Localization,
};
use optfilter::model::{DiagonalNoise, GaussianNoise, Linear, Lorenz96, Noise, RandomWalk, Step};
use optfilter::rng::Stream;

const STEP: Step = Step { index: 1, time: 1.0, dt: 1.0, since: 1.0, usual: 1.0 };

fn members<N: nalgebra::Dim>(belief: &EnsembleBelief<N>, n: usize) -> Vec<f64>
where
    nalgebra::DefaultAllocator:
        nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    (0..belief.count()).flat_map(|k| (0..n).map(move |i| belief.value(k, i))).collect()
}

#[test]
fn one_update_equals_numpy_and_dapper() {
    for case in golden("ensemble_dapper")["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (h, r) = (matrix(&case["H"]), matrix(&case["R"]));
        let (n, m) = (h.ncols(), h.nrows());
        let model = Linear::new(DMatrix::identity(n, n), h).unwrap();
        let number = |key: &str| case[key].as_f64().unwrap();
        let diagonal = r.clone().map_with_location(|i, j, v| if i == j { v } else { 0.0 }) == r;
        let mut runs = Vec::new();
        let start = EnsembleBelief::<Dyn>::from_members(
            n,
            &numbers(&case["members"]),
            Stream::new(1, 0, ""),
        )
        .unwrap();
        let local = |filter| match case["radius"].as_f64() {
            Some(radius) if radius > 0.0 => Localization::index(radius, case["periodic"] == true)
                .and_then(|local| EnsembleKalmanFilter::local(filter, local)),
            _ => Ok(filter),
        };
        let dense = GaussianNoise::new(DMatrix::zeros(n, n), r.clone()).unwrap();
        let filter =
            local(EnsembleKalmanFilter::new(model.clone(), dense, number("inflation")).unwrap())
                .unwrap();
        runs.push(updated(&filter, &start, &numbers(&case["y"])));
        if diagonal {
            let noise = DiagonalNoise::new(DVector::zeros(n), r.diagonal()).unwrap();
            let filter = EnsembleKalmanFilter::new(model, noise, number("inflation")).unwrap();
            let filter = match case["radius"].as_f64() {
                Some(radius) if radius > 0.0 => {
                    let near = Localization::index(radius, case["periodic"] == true).unwrap();
                    filter.local(near).unwrap()
                }
                _ => filter,
            };
            runs.push(updated(&filter, &start, &numbers(&case["y"])));
        }
        for (after, nis, loglik, variances) in runs {
            // Two dozen operations on numbers of size ten.
            all_close(&after, &numbers(&case["after"]), 1e-12, name);
            close(nis, number("nis"), 1e-12, name);
            close(loglik, number("loglik"), 1e-12, name);
            assert_eq!(variances, m, "{name}");
        }
    }
}

/// The members after an update by `y`, its NIS and log-likelihood, and the size of S.
fn updated<Q: Noise<Dyn, Dyn>>(
    filter: &EnsembleKalmanFilter<Linear<Dyn, Dyn>, Q>,
    start: &EnsembleBelief<Dyn>,
    y: &[f64],
) -> (Vec<f64>, f64, f64, usize) {
    let mut belief = start.clone();
    let update = filter.update(&mut belief, y, &[], &STEP).unwrap();
    let after = members(&belief, filter.dims().0.0);
    let size = update.innovation_cov.unwrap().nrows();
    (after, update.nis.unwrap(), update.log_likelihood.unwrap(), size)
}

/// An ensemble of exactly this mean, whose covariance is returned.
fn ensemble(n: usize, count: usize, seed: u64) -> (EnsembleBelief<Dyn>, GaussianBelief<Dyn>) {
    let cov = vec![2.0; n];
    let mean = DVector::from_fn(n, |i, _| i as f64);
    let stream = Stream::new(seed, 0, "ensemble");
    let belief = EnsembleBelief::independent(&mean, &cov, count, stream).unwrap();
    let gaussian = GaussianBelief { mean: belief.mean(), cov: belief.cov().unwrap() };
    (belief, gaussian)
}

#[test]
fn a_linear_update_is_the_kalman_filters() {
    // For few measurements SS' is decomposed, for many S'S.
    for (n, m, count) in [(4, 2, 9), (4, 6, 5), (3, 3, 3), (5, 1, 2), (2, 7, 40)] {
        let mut stream = Stream::new(2, (n * 10 + m) as u64, "system");
        let mut normal = |r, c| DMatrix::from_fn(r, c, |_, _| stream.normal());
        let (h, b) = (normal(m, n), normal(m, m));
        let r = &b * b.transpose() + DMatrix::identity(m, m) * 0.1;
        let y: Vec<f64> = normal(m, 1).iter().copied().collect();
        let model = Linear::new(DMatrix::identity(n, n), h).unwrap();
        let noise = GaussianNoise::new(DMatrix::zeros(n, n), r).unwrap();
        let (mut ours, mut exact) = ensemble(n, count, 3);
        let kalman = KalmanFilter::new(model.clone(), noise.clone());
        let theirs = kalman.update(&mut exact, &y, &[], &STEP).unwrap();
        let filter = EnsembleKalmanFilter::new(model, noise, 1.0).unwrap().rotated();
        let update = filter.update(&mut ours, &y, &[], &STEP).unwrap();
        let what = format!("{n} {m} {count}");
        all_close(ours.mean().as_slice(), exact.mean.as_slice(), 1e-11, &what);
        all_close(ours.cov().unwrap().as_slice(), exact.cov.as_slice(), 1e-11, &what);
        close(update.nis.unwrap(), theirs.nis.unwrap(), 1e-10, &what);
        close(update.log_likelihood.unwrap(), theirs.log_likelihood.unwrap(), 1e-10, &what);
        let (s, t) = (update.innovation_cov.unwrap(), theirs.innovation_cov.unwrap());
        all_close(s.as_slice(), t.as_slice(), 1e-12, &what);
    }
}

fn walk(n: usize) -> (RandomWalk<Dyn>, DiagonalNoise<Dyn, Dyn>) {
    let noise = DiagonalNoise::new(DVector::zeros(n), DVector::repeat(n, 0.5)).unwrap();
    (RandomWalk::new(Dyn(n)), noise)
}

#[test]
fn an_endless_radius_is_no_localisation() {
    let (model, noise) = walk(7);
    let y = [0.1, f64::NAN, 2.5, 3.0, 3.3, 5.5, 6.1];
    for count in [4, 12] {
        let (mut whole, _) = ensemble(7, count, 4);
        let mut local = whole.clone();
        let filter = EnsembleKalmanFilter::new(model, noise.clone(), 1.1).unwrap();
        filter.update(&mut whole, &y, &[], &STEP).unwrap();
        let near = Localization::index(f64::INFINITY, false).unwrap();
        filter.local(near).unwrap().update(&mut local, &y, &[], &STEP).unwrap();
        all_close(&members(&local, 7), &members(&whole, 7), 1e-13, "endless");
    }
}

#[test]
fn a_rotation_keeps_mean_and_covariance_and_moves_members() {
    let (model, noise) = walk(3);
    for count in [2, 3, 5, 16, 17, 40] {
        let (mut plain, _) = ensemble(3, count, 5);
        let mut turned = plain.clone();
        let filter = EnsembleKalmanFilter::new(model, noise.clone(), 1.3).unwrap();
        filter.update(&mut plain, &[0.0, 1.0, 1.5], &[], &STEP).unwrap();
        filter.rotated().update(&mut turned, &[0.0, 1.0, 1.5], &[], &STEP).unwrap();
        all_close(turned.mean().as_slice(), plain.mean().as_slice(), 1e-13, "mean");
        let (a, b) = (turned.cov().unwrap(), plain.cov().unwrap());
        all_close(a.as_slice(), b.as_slice(), 1e-13, "cov");
        // Two members can only change places, by the throw of a coin.
        assert!(count == 2 || members(&turned, 3) != members(&plain, 3));
    }
}

#[test]
fn rotations_are_uniform() {
    // Where a rotation takes one member's deviation is uniform on a sphere: in every other direction as often here
    // as there, with mean square 1 / (N - 1) along each.
    let (model, noise) =
        (RandomWalk::new(Const::<1>), GaussianNoise::new(matrix![0.0], matrix![1.0]));
    let filter = EnsembleKalmanFilter::new(model, noise.unwrap(), 1.0).unwrap().rotated();
    let mut belief =
        EnsembleBelief::from_members(1, &[3.0, -1.0, -1.0, -1.0], Stream::new(1, 0, "turn"))
            .unwrap();
    let (runs, mut sums, mut squares) = (4000, [0.0; 4], [0.0; 4]);
    for _ in 0..runs {
        let start = belief.clone();
        filter.update(&mut belief, &[0.0], &[], &STEP).unwrap();
        let scale = (belief.cov().unwrap()[0] * 3.0).sqrt();
        for k in 0..4 {
            let v = (belief.value(k, 0) - belief.mean()[0]) / scale;
            sums[k] += v;
            squares[k] += v * v;
        }
        // The stream goes on, the members start again.
        let stream = serde_json::to_value(&belief).unwrap()["stream"].clone();
        let mut again = serde_json::to_value(&start).unwrap();
        again["stream"] = stream;
        belief = serde_json::from_value(again).unwrap();
    }
    for k in 0..4 {
        // v^2 has mean 1/4 and variance below 1/16; five standard errors.
        assert!(sums[k].abs() < 5.0 * (f64::from(runs) / 4.0).sqrt(), "{k}: {}", sums[k]);
        let error = squares[k] / f64::from(runs) - 0.25;
        assert!(error.abs() < 5.0 * 0.25 / f64::from(runs).sqrt(), "{k}: {error}");
    }
}

#[test]
fn process_noise_spreads_members_and_none_draws_nothing() {
    let model = RandomWalk::new(Const::<2>);
    let q = matrix![2.0, 0.9; 0.9, 1.0];
    let r = matrix![1.0, 0.0; 0.0, 1.0];
    let start = GaussianBelief::new(vector![1.0, -1.0], matrix![1e-12, 0.0; 0.0, 1e-12]).unwrap();
    let (count, step) = (20_000, Step { dt: 0.5, ..STEP });
    let stream = Stream::new(6, 0, "spread");
    let begin = || EnsembleBelief::new(&start, count, stream.clone()).unwrap();
    let after = |filter: &dyn Fn(&mut EnsembleBelief<Const<2>>)| {
        let mut belief = begin();
        filter(&mut belief);
        belief.cov().unwrap()
    };
    let dense = EnsembleKalmanFilter::new(model, GaussianNoise::new(q, r).unwrap(), 1.0).unwrap();
    let found = after(&|b| dense.predict(b, &[], &step).unwrap());
    // Five standard errors of a variance of 2 from 20,000 draws: 0.1.
    all_close(found.as_slice(), q.as_slice(), 0.1 / 2.0, "dense");
    let noise = DiagonalNoise::new(vector![2.0, 0.0], vector![1.0, 1.0]).unwrap().per_time();
    let diagonal = EnsembleKalmanFilter::new(model, noise, 1.0).unwrap();
    let found = after(&|b| diagonal.predict(b, &[], &step).unwrap());
    close(found[(0, 0)], 1.0, 0.05 / 2.0, "half the time, half the variance");
    assert!(found[(1, 1)] < 1e-11);
    // Without noise members move by the model alone, and no random number is used.
    let none = GaussianNoise::new(q * 0.0, r).unwrap();
    let mut belief = begin();
    EnsembleKalmanFilter::new(model, none, 1.0).unwrap().predict(&mut belief, &[], &step).unwrap();
    assert_eq!(belief, begin());
}

#[test]
fn nothing_is_as_large_as_a_square() {
    // A hundred thousand states and measurements: one matrix of either size would be 80 GB.
    let n = 100_000;
    let model = Lorenz96::new(Dyn(n), 8.0).rk4();
    let noise = DiagonalNoise::new(DVector::repeat(n, 0.01), DVector::repeat(n, 1.0)).unwrap();
    let filter = EnsembleKalmanFilter::new(model, noise, 1.02).unwrap().rotated();
    let start = DVector::from_fn(n, |i, _| 8.0 * (i as f64).sin());
    let variances = vec![1.0; n];
    let mut belief =
        EnsembleBelief::independent(&start, &variances, 4, Stream::new(1, 0, "")).unwrap();
    let step = Step::even(1, 0.05);
    filter.predict(&mut belief, &[], &step).unwrap();
    let y: Vec<f64> = belief.mean().iter().map(|v| v + 0.5).collect();
    let update = filter.update(&mut belief, &y, &[], &step).unwrap();
    assert!(update.innovation_cov.is_none() && update.nis.unwrap() > 0.0);
    assert!(belief.cov().is_none());
    let gap = filter.update(&mut belief, &vec![f64::NAN; n], &[], &step).unwrap();
    assert_eq!((gap.innovation_cov, gap.log_likelihood), (None, Some(0.0)));
}

#[test]
fn threads_change_no_bit() {
    let n = 200;
    let (model, noise) = walk(n);
    let near = Localization::index(2.0, true).unwrap();
    let filter = EnsembleKalmanFilter::new(model, noise, 1.0).unwrap().local(near).unwrap();
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (mut belief, _) = ensemble(n, 6, 8);
        let y: Vec<f64> = (0..n).map(|i| (i as f64).cos()).collect();
        pool.install(|| filter.update(&mut belief, &y, &[], &STEP).unwrap());
        members(&belief, n)
    };
    same_bits(&run(1), &run(3), "threads");
}

#[test]
fn bad_input_is_refused_and_a_lost_member_rolls_back() {
    let (model, noise) = walk(3);
    for inflation in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(EnsembleKalmanFilter::new(model, noise.clone(), inflation).is_err());
    }
    let stream = || Stream::new(1, 0, "");
    for members in [&[][..], &[1.0, 2.0, 3.0], &[1.0; 7], &[f64::NAN; 6]] {
        assert!(EnsembleBelief::<Dyn>::from_members(3, members, stream()).is_err());
    }
    let mean = DVector::zeros(3);
    for variances in [&[1.0, 1.0][..], &[1.0, -1.0, 1.0], &[f64::NAN; 3]] {
        assert!(EnsembleBelief::independent(&mean, variances, 5, stream()).is_err());
    }
    assert!(DiagonalNoise::new(vector![-1.0], vector![1.0]).is_err());
    assert!(DiagonalNoise::new(vector![0.0], vector![0.0]).is_err());
    let filter =
        EnsembleKalmanFilter::new(Lorenz96::new(Dyn(4), 8.0).rk4(), walk(4).1, 1.0).unwrap();
    let far = [1.0, 1.0, 1.0, 1.0, 1e80, -1e80, 1e80, 0.0];
    let mut belief = EnsembleBelief::from_members(4, &far, stream()).unwrap();
    let before = belief.clone();
    let error = filter.predict(&mut belief, &[], &STEP).unwrap_err();
    assert!(matches!(error, FilterError::Diverged { quantity: "ensemble", .. }), "{error}");
    assert_eq!(belief, before);
    let (mut other, _) = ensemble(5, 3, 9);
    assert!(filter.predict(&mut other, &[], &STEP).is_err());
}

#[test]
fn a_start_beyond_what_can_be_measured_is_refused() {
    let draw = |var: f64| {
        EnsembleBelief::independent(&vector![0.0], &[var], 10, Stream::new(1, 0, "start"))
    };
    assert!(matches!(draw(1e300), Err(FilterError::Setting { argument: "members' values", .. })));
    assert!(draw(1e180).unwrap().cov().unwrap()[0].is_finite());
}
