//! Lanes equal the scalar run, a sweep equals single runs, and one thread equals two: bit for bit.
//!
//! There is no tolerance. Every operation is done in the same order on the same numbers whether it runs
//! alone, in a lane or on another thread, so the smallest difference is a defect. Errors are compared
//! whole: the same variant, time index, quantity and last good state.

use crate::common::{RangeBearing, same_bits};
use nalgebra::{Const, Dyn, OVector, SVector, matrix, vector};
use optfilter::Series;
use optfilter::batch::{Batch, Estimates, run_many, sweep};
use optfilter::drive::Run;
use optfilter::filter::{
    Belief, ExtendedKalmanFilter, FilterError, GaussianBelief, ImplicitMap, Memory, ParticleBelief,
    ParticleFilter, PointBelief, Resampling, Scheme,
};
use optfilter::model::likelihood::{
    Component, Gaussian, Huber, Independent, Likelihood, Link, Poisson, SquaredError, StudentT,
};
use optfilter::model::{GaussianNoise, Growth, Lorenz63, Lorenz96, Model, RandomWalk};
use optfilter::optim::{Adam, AnyOptimizer, Bounds, GradientDescent, Optimizer, Preconditioned};
use optfilter::rng::Stream;
use optfilter::scalar::{Lanes, Scalar};

/// Batch sizes that fill lanes of 8, 16 and 32 exactly, in part, and in several groups.
const SIZES: [usize; 6] = [1, 8, 11, 16, 33, 50];

fn all_optimizers() -> Vec<AnyOptimizer> {
    AnyOptimizer::NAMES
        .iter()
        .map(|name| AnyOptimizer::from_name(name, 0.05, None).unwrap())
        .collect()
}

/// `count` noisy series of `len` measurements of size `m`, wandering around `centre`.
fn noisy(count: usize, len: usize, m: usize, centre: f64, seed: u64) -> Vec<Vec<f64>> {
    (0..count as u64)
        .map(|run| {
            let mut stream = Stream::new(seed, run, "batch test");
            (0..len * m).map(|_| centre + 2.0 * stream.normal()).collect()
        })
        .collect()
}

fn starts<const N: usize>(count: usize, seed: u64) -> Vec<SVector<f64, N>> {
    (0..count as u64)
        .map(|run| {
            let mut stream = Stream::new(seed, run, "batch start");
            SVector::from_fn(|_, _| stream.normal())
        })
        .collect()
}

/// Every trajectory of a batch against the same filter alone; returns how many failed.
#[track_caller]
fn equals_single_runs<M, L, O>(
    filter: &ImplicitMap<M, L, O>,
    series: &[Series<'_>],
    starts: &[OVector<f64, M::State>],
    what: &str,
) -> usize
where
    M: Model + Sync,
    L: Likelihood + Sync,
    O: Optimizer<f64> + Optimizer<Lanes<8>> + Optimizer<Lanes<16>> + Optimizer<Lanes<32>> + Sync,
    OVector<f64, M::State>: Sync,
    nalgebra::DefaultAllocator: optfilter::Shapes<M::State, M::Output>,
{
    let estimates = Batch::new(series.to_vec()).run(filter, starts).unwrap();
    assert_eq!(estimates.len(), series.len());
    let mut failed = 0;
    for (b, (series, start)) in series.iter().zip(starts).enumerate() {
        let single = PointBelief::new(start.clone())
            .and_then(|mut belief| filter.run(&mut belief, series).map(|trace| trace.means));
        let what = format!("{what}, trajectory {b}");
        match (estimates.trajectory(b).unwrap(), single) {
            (Ok(batch), Ok(single)) => same_bits(&batch, &single, &what),
            (batch, single) => {
                failed += 1;
                assert_eq!(batch.err(), single.err(), "{what}");
            }
        }
    }
    assert!(estimates.trajectory(series.len()).is_none());
    failed
}

#[test]
fn lanes_equal_scalar_runs_for_every_optimizer() {
    for optimizer in all_optimizers() {
        for memory in [Memory::Restart, Memory::Carry] {
            for &count in &SIZES {
                let what = format!("{optimizer:?} {memory:?} {count}");
                let ys = noisy(count, 12, 1, 5.0, 1);
                let series: Vec<_> = ys
                    .iter()
                    .map(|y| Series::new(y, 1).unwrap().with_dt(0.1).unwrap().predict_first())
                    .collect();
                let filter = ImplicitMap::new(Growth, SquaredError, optimizer, 5)
                    .unwrap()
                    .with_memory(memory);
                let failed = equals_single_runs(&filter, &series, &starts(count, 2), &what);
                assert_eq!(failed, 0, "{what}");
            }
            let ys = noisy(33, 12, 3, 10.0, 3);
            let series: Vec<_> = ys
                .iter()
                .map(|y| Series::new(y, 3).unwrap().with_dt(0.02).unwrap().predict_first())
                .collect();
            let filter = ImplicitMap::new(Lorenz63::default().rk4(), SquaredError, optimizer, 3)
                .unwrap()
                .with_memory(memory);
            equals_single_runs(&filter, &series, &starts(33, 4), &format!("Lorenz {optimizer:?}"));
        }
    }
}

#[test]
fn lanes_equal_scalar_runs_for_other_models_and_likelihoods() {
    let adam = Adam::new(0.1).unwrap();
    // Automatic derivatives in lanes, an angle that wraps, a full covariance.
    let ys = noisy(19, 15, 2, 3.0, 5);
    let series: Vec<_> = ys.iter().map(|y| Series::new(y, 2).unwrap().predict_first()).collect();
    let model = RangeBearing::constant_velocity(1.0);
    let full = Gaussian::new(matrix![0.5, 0.2; 0.2, 0.3]).unwrap();
    let filter = ImplicitMap::new(model.clone(), full, adam, 7).unwrap();
    assert_eq!(equals_single_runs(&filter, &series, &starts(19, 6), "range and bearing"), 0);
    let mixed = Independent::new(vec![
        Component::StudentT(StudentT::new(3.0, 0.5).unwrap()),
        Component::Huber(Huber::new(1.0, 0.2).unwrap()),
    ]);
    let filter = ImplicitMap::new(model, mixed, adam, 7).unwrap();
    assert_eq!(equals_single_runs(&filter, &series, &starts(19, 6), "mixed likelihoods"), 0);

    // A learning-rate matrix.
    let ys = noisy(9, 10, 2, 0.0, 7);
    let series: Vec<_> = ys.iter().map(|y| Series::new(y, 2).unwrap().predict_first()).collect();
    let optimizer = Preconditioned::new(matrix![0.3, 0.1; 0.1, 0.2]).unwrap();
    let filter = ImplicitMap::new(RandomWalk::new(Const::<2>), SquaredError, optimizer, 4).unwrap();
    assert_eq!(equals_single_runs(&filter, &series, &starts(9, 8), "preconditioned"), 0);

    // A size known only at run time, more than one chunk of directions wide.
    let ys = noisy(10, 8, 11, 3.0, 9);
    let series: Vec<_> = ys
        .iter()
        .map(|y| Series::new(y, 11).unwrap().with_dt(0.01).unwrap().predict_first())
        .collect();
    let filter =
        ImplicitMap::new(Lorenz96::new(Dyn(11), 8.0).rk4(), SquaredError, adam, 3).unwrap();
    let begin: Vec<_> =
        (0..10).map(|b| nalgebra::DVector::from_fn(11, |i, _| (b * 11 + i) as f64 * 0.1)).collect();
    assert_eq!(equals_single_runs(&filter, &series, &begin, "Lorenz 96"), 0);
}

#[test]
fn gaps_irregular_times_and_bounds_change_nothing() {
    for optimizer in all_optimizers() {
        let count = 21;
        let mut ys = noisy(count, 14, 3, 8.0, 11);
        // Alike gaps: one component, then a whole measurement.
        for y in &mut ys {
            y[3 * 2 + 1] = f64::NAN;
            y[3 * 5..3 * 6].fill(f64::NAN);
        }
        let times: Vec<f64> =
            (0..14).map(|k| 0.01 * f64::from(k) + if k > 6 { 0.05 } else { 0.0 }).collect();
        let timed = |ys: &[Vec<f64>], check: &dyn Fn(&[Series<'_>])| {
            let series: Vec<_> = ys
                .iter()
                .map(|y| {
                    Series::new(y, 3)
                        .unwrap()
                        .with_times(&times)
                        .and_then(|s| s.start_at(-0.01))
                        .unwrap()
                })
                .collect();
            check(&series);
        };
        let likelihood =
            Gaussian::new(matrix![2.0, 0.3, 0.1; 0.3, 1.0, 0.2; 0.1, 0.2, 1.5]).unwrap();
        let bounds = Bounds::new(vec![-5.0, f64::NEG_INFINITY, 0.0], vec![9.0, 7.0, f64::INFINITY]);
        let model = Lorenz63::default().rk4();
        let filter = ImplicitMap::new(model, likelihood, optimizer, 3)
            .unwrap()
            .with_memory(Memory::Carry)
            .with_bounds(bounds.unwrap())
            .unwrap();
        timed(&ys, &|series| {
            let failed = equals_single_runs(&filter, series, &starts(count, 12), "alike gaps");
            assert_eq!(failed, 0);
        });
        // Different gaps: no shared vector, and still the same.
        for (b, y) in ys.iter_mut().enumerate() {
            y[3 * (b % 13)] = f64::NAN;
        }
        timed(&ys, &|series| {
            let failed = equals_single_runs(&filter, series, &starts(count, 12), "other gaps");
            assert_eq!(failed, 0);
        });
        // Different times in one batch.
        let series: Vec<_> = ys
            .iter()
            .enumerate()
            .map(|(b, y)| {
                Series::new(y, 3).unwrap().with_dt(0.01 + 0.001 * b as f64).unwrap().predict_first()
            })
            .collect();
        assert_eq!(equals_single_runs(&filter, &series, &starts(count, 12), "other times"), 0);
    }
}

#[test]
fn a_lane_that_diverges_reports_what_it_would_alone() {
    // Gradient descent on (y - x^2/20)^2 with a rate far too large overflows from far starts and not from
    // near ones.
    let ys = noisy(33, 40, 1, 5.0, 13);
    let series: Vec<_> = ys
        .iter()
        .map(|y| Series::new(y, 1).unwrap().with_dt(0.1).unwrap().predict_first())
        .collect();
    let mut far: Vec<SVector<f64, 1>> = starts(33, 14);
    for b in [0, 7, 30] {
        far[b] = vector![1e200];
    }
    far[9] = vector![f64::NAN];
    far[32] = vector![f64::INFINITY];
    let optimizer = AnyOptimizer::from_name("gd", 0.05, None).unwrap();
    let filter = ImplicitMap::new(Growth, SquaredError, optimizer, 3).unwrap();
    let failed = equals_single_runs(&filter, &series, &far, "diverging");
    assert!((5..33).contains(&failed), "{failed} failed");

    // Lorenz stepped too far: the prediction overflows, at a time that differs between lanes.
    let ys = noisy(20, 30, 3, 5.0, 15);
    let series: Vec<_> = ys
        .iter()
        .map(|y| Series::new(y, 3).unwrap().with_dt(0.3).unwrap().predict_first())
        .collect();
    let filter = ImplicitMap::new(Lorenz63::default().euler(), SquaredError, optimizer, 1).unwrap();
    let estimates = Batch::new(series.clone()).run(&filter, &starts(20, 16)).unwrap();
    let mut indices = std::collections::BTreeSet::new();
    for b in 0..20 {
        if let Some(Err(FilterError::Diverged { index, .. })) = estimates.trajectory(b) {
            indices.insert(index);
        }
    }
    assert!(indices.len() > 1, "lanes should diverge at several times: {indices:?}");
    equals_single_runs(&filter, &series, &starts(20, 16), "overflowing prediction");
}

#[test]
fn an_impossible_measurement_in_one_lane_is_that_lane_s_error() {
    let mut ys: Vec<Vec<f64>> = (0..8).map(|b| vec![f64::from(b), 2.0, 3.0]).collect();
    ys[3][1] = -1.0;
    let series: Vec<_> = ys.iter().map(|y| Series::new(y, 1).unwrap().predict_first()).collect();
    let optimizer = GradientDescent::new(0.1).unwrap();
    let likelihood = Poisson { link: Link::Canonical };
    let filter = ImplicitMap::new(RandomWalk::new(Const::<1>), likelihood, optimizer, 5).unwrap();
    assert_eq!(equals_single_runs(&filter, &series, &starts(8, 17), "counts"), 1);
}

#[test]
fn a_prediction_beyond_the_numbers_is_an_error_though_bounds_hold_the_estimate() {
    let ys: Vec<Vec<f64>> = (0..8).map(|b| vec![f64::from(b), 2.0, 3.0]).collect();
    let series: Vec<_> = ys.iter().map(|y| Series::new(y, 1).unwrap()).collect();
    let optimizer = GradientDescent::new(0.1).unwrap();
    let likelihood = Poisson { link: Link::Canonical };
    let filter = ImplicitMap::new(RandomWalk::new(Const::<1>), likelihood, optimizer, 5).unwrap();
    let filter = filter.with_bounds(Bounds::new(vec![0.0], vec![1e3]).unwrap()).unwrap();
    // exp(800) is no number, its gradient leads out of the box, and the box brings it back.
    let starts: Vec<_> = (0..8).map(|b| vector![if b == 5 { 800.0 } else { 1.0 }]).collect();
    assert_eq!(equals_single_runs(&filter, &series, &starts, "log link"), 1);
}

/// Many optimizers of all kinds and step counts, neighbours alike and not.
fn grid() -> Vec<(AnyOptimizer, u32)> {
    let mut grid = Vec::new();
    for name in AnyOptimizer::NAMES {
        for k in 0..19 {
            let decay = (name != "adagrad" && name != "gd").then(|| 0.5 + 0.02 * f64::from(k));
            let lr = 0.01 * 1.3f64.powi(k);
            let steps = if k < 12 { 4 } else { 9 };
            grid.push((AnyOptimizer::from_name(name, lr, decay).unwrap(), steps));
        }
    }
    // Kinds that alternate share no lanes.
    for k in 0..4 {
        let name = AnyOptimizer::NAMES[k];
        grid.push((AnyOptimizer::from_name(name, 0.1, None).unwrap(), 2));
    }
    grid
}

#[test]
fn a_sweep_equals_single_runs() {
    let mut y = noisy(1, 25, 1, 5.0, 18).remove(0);
    y[4] = f64::NAN;
    let series = Series::new(&y, 1).unwrap().with_dt(0.1).unwrap().predict_first();
    let start = vector![0.3];
    for memory in [Memory::Restart, Memory::Carry] {
        let base = ImplicitMap::new(Growth, SquaredError, grid()[0].0, 1)
            .unwrap()
            .with_memory(memory)
            .with_bounds(Bounds::new(vec![-30.0], vec![30.0]).unwrap())
            .unwrap();
        let estimates = sweep(&base, &grid(), &start, &series).unwrap();
        assert_eq!(estimates.len(), grid().len());
        for (j, (optimizer, steps)) in grid().into_iter().enumerate() {
            let filter = ImplicitMap::new(Growth, SquaredError, optimizer, steps)
                .unwrap()
                .with_memory(memory)
                .with_bounds(Bounds::new(vec![-30.0], vec![30.0]).unwrap())
                .unwrap();
            let mut belief = PointBelief::new(start).unwrap();
            let single = filter.run(&mut belief, &series).map(|trace| trace.means);
            match (estimates.trajectory(j).unwrap(), single) {
                (Ok(swept), Ok(single)) => {
                    same_bits(&swept, &single, &format!("{optimizer:?} {steps} {memory:?}"));
                }
                (swept, single) => assert_eq!(swept.err(), single.err()),
            }
        }
    }
}

/// Everything an [`Estimates`] says, in bits.
fn bits(estimates: &Estimates) -> Vec<Result<Vec<u64>, FilterError>> {
    (0..estimates.len())
        .map(|b| {
            let one = estimates.trajectory(b).unwrap();
            one.map(|values| values.iter().map(|v| v.to_bits()).collect())
        })
        .collect()
}

#[test]
fn one_thread_equals_two() {
    let ys = noisy(100, 20, 3, 8.0, 19);
    let series: Vec<_> = ys
        .iter()
        .map(|y| Series::new(y, 3).unwrap().with_dt(0.02).unwrap().predict_first())
        .collect();
    let adam = AnyOptimizer::from_name("adam", 0.1, None).unwrap();
    let filter = ImplicitMap::new(Lorenz63::default().rk4(), SquaredError, adam, 5).unwrap();
    let unit = matrix![1.0, 0.0, 0.0; 0.0, 1.0, 0.0; 0.0, 0.0, 1.0];
    let noise = GaussianNoise::new(unit * 0.1, unit).unwrap();
    let particles = ParticleFilter::new(
        Lorenz63::default().rk4(),
        Gaussian::new(unit).unwrap(),
        noise,
        Resampling::Below(Scheme::Systematic, 0.5),
    )
    .unwrap();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            assert_eq!(rayon::current_num_threads(), threads);
            let batch = Batch::new(series.clone()).run(&filter, &starts(100, 20)).unwrap();
            let swept = sweep(&filter, &grid(), &vector![1.0, 2.0, 3.0], &series[0]).unwrap();
            let start = GaussianBelief::new(vector![8.0, 8.0, 8.0], unit * 4.0).unwrap();
            let mut beliefs: Vec<_> = (0..12)
                .map(|run| ParticleBelief::new(&start, 50, Stream::new(21, run, "p")).unwrap())
                .collect();
            let traces = run_many(&particles, &mut beliefs, &series[..12]).unwrap();
            (bits(&batch), bits(&swept), traces, beliefs)
        })
    };
    let (one, two) = (on(1), on(2));
    assert!(one.0 == two.0, "batches differ");
    assert!(one.1 == two.1, "sweeps differ");
    assert!(one.2 == two.2, "particle traces differ");
    assert!(one.3 == two.3, "particle beliefs differ");

    // And each of many runs equals that run alone.
    let start = GaussianBelief::new(vector![8.0, 8.0, 8.0], unit * 4.0).unwrap();
    for (run, trace) in one.2.iter().enumerate() {
        let stream = Stream::new(21, run as u64, "p");
        let mut belief = ParticleBelief::new(&start, 50, stream).unwrap();
        let alone = particles.run(&mut belief, &series[run]).unwrap();
        same_bits(&trace.as_ref().unwrap().means, &alone.means, "run_many");
        assert_eq!(belief.mean(), one.3[run].mean());
    }
}

#[test]
fn a_start_of_the_wrong_size_is_an_error_of_that_trajectory() {
    let ys = noisy(8, 3, 11, 0.0, 22);
    let series: Vec<_> = ys
        .iter()
        .map(|y| Series::new(y, 11).unwrap().with_dt(0.01).unwrap().predict_first())
        .collect();
    let optimizer = Adam::new(0.1).unwrap();
    let filter =
        ImplicitMap::new(Lorenz96::new(Dyn(11), 8.0).euler(), SquaredError, optimizer, 1).unwrap();
    let mut begin = vec![nalgebra::DVector::from_element(11, 1.0); 8];
    begin[2] = nalgebra::DVector::from_element(10, 1.0);
    begin[5] = nalgebra::DVector::from_element(12, 1.0);
    assert_eq!(equals_single_runs(&filter, &series, &begin, "wrong starts"), 2);
    // One start too few is an error of the whole call.
    let error = Batch::new(series).run(&filter, &begin[..7]).unwrap_err();
    assert_eq!(error.to_string(), "starts has 7 numbers where 8 are needed");
}

#[test]
fn a_series_without_a_belief_is_an_error_and_is_not_left_out() {
    let ys = noisy(3, 4, 1, 0.0, 24);
    let series: Vec<_> = ys.iter().map(|y| Series::new(y, 1).unwrap()).collect();
    let noise = GaussianNoise::new(matrix![1.0], matrix![1.0]).unwrap();
    let filter = ExtendedKalmanFilter::new(Growth, noise);
    let belief = GaussianBelief::new(vector![0.1], matrix![1.0]).unwrap();
    let error = run_many(&filter, &mut vec![belief.clone(); 2], &series).unwrap_err();
    assert_eq!(error.to_string(), "beliefs has 2 numbers where 3 are needed");
    assert!(run_many(&filter, &mut vec![belief; 4], &series).is_err());
    // Measurements of another size than the model's are an error of every trajectory, not a panic.
    let optimizer = Adam::new(0.1).unwrap();
    let filter = ImplicitMap::new(Growth, SquaredError, optimizer, 1).unwrap();
    let wide: Vec<_> = ys.iter().map(|y| Series::new(y, 2).unwrap()).collect();
    let estimates = Batch::new(wide).run(&filter, &[vector![0.1]; 3]).unwrap();
    for b in 0..3 {
        let error = estimates.trajectory(b).unwrap().unwrap_err();
        assert!(matches!(error, FilterError::Size { expected: 1, found: 2, .. }), "{error}");
    }
}

type Function<S> = fn(S) -> S;

#[test]
fn lanes_of_scalar_functions_are_the_scalar_functions() {
    let mut stream = Stream::new(23, 0, "lanes");
    let mut values = [0.0; 16];
    for _ in 0..50 {
        for v in &mut values {
            *v = 3.0 * stream.normal();
        }
        let functions: [(&str, Function<f64>, Function<Lanes<16>>); 8] = [
            ("sqrt", Scalar::sqrt, Scalar::sqrt),
            ("exp", Scalar::exp, Scalar::exp),
            ("ln", Scalar::ln, Scalar::ln),
            ("sin", Scalar::sin, Scalar::sin),
            ("tanh", Scalar::tanh, Scalar::tanh),
            ("floor", Scalar::floor, Scalar::floor),
            ("wrap_angle", Scalar::wrap_angle, Scalar::wrap_angle),
            ("powi", |v| Scalar::powi(v, -3), |v| Scalar::powi(v, -3)),
        ];
        for (name, scalar, lanes) in functions {
            for (lane, v) in lanes(Lanes(values)).0.into_iter().enumerate() {
                let alone = scalar(values[lane]);
                assert!(
                    v.to_bits() == alone.to_bits() || (v.is_nan() && alone.is_nan()),
                    "{name}({})",
                    values[lane]
                );
            }
        }
    }
}

#[test]
fn a_rule_for_lanes_that_does_not_fit_is_not_used() {
    let ys = noisy(9, 12, 1, 5.0, 7);
    let series: Vec<_> =
        ys.iter().map(|y| Series::new(y, 1).unwrap().with_dt(0.1).unwrap()).collect();
    let plain = GradientDescent::new(0.05).unwrap();
    let filter = ImplicitMap::new(Growth, SquaredError, plain, 5).unwrap();
    let too_large = Preconditioned::new(matrix![0.1, 0.0; 0.0, 0.1]).unwrap();
    let (batch, starts) = (Batch::new(series), starts(9, 2));
    let found = batch.run_by(&filter, &too_large, &starts).unwrap();
    let expected = batch.run(&filter, &starts).unwrap();
    for b in 0..9 {
        let of = |all: &Estimates| all.trajectory(b).unwrap().unwrap();
        same_bits(&of(&found), &of(&expected), "alone");
    }
}
