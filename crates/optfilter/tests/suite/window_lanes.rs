//! Windows of many series side by side as lanes: every lane is its series alone, to the bit.

use nalgebra::{DefaultAllocator, Dim, OVector, U1};
use optfilter::drive::drive;
use optfilter::filter::{Belief, Descent, Filter, Memory, Window, WindowBelief};
use optfilter::model::likelihood::{Gaussian, Likelihood, Link, Poisson};
use optfilter::model::{Lorenz63, Model, RandomWalk};
use optfilter::optim::{AnyOptimizer, Bounds, Optimizer};
use optfilter::rng::Stream;
use optfilter::scalar::Lanes;
use optfilter::{Series, Shapes};
/// NaN equals NaN, and nothing else but the same bits.
fn same(a: &[f64], b: &[f64]) -> bool {
    let bits = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    a.len() == b.len() && a.iter().zip(b).all(bits)
}

/// Measurements of five series: rows 7 to 9 are missing, and of row 4 the last component.
fn measured(rows: usize, m: usize, centre: f64) -> Vec<Vec<f64>> {
    let series = |b: u64| {
        let mut stream = Stream::new(5, b, "window lanes");
        let mut y: Vec<f64> = (0..rows * m).map(|_| centre + stream.normal()).collect();
        y[7 * m..9 * m].fill(f64::NAN);
        y[5 * m - 1] = f64::NAN;
        y
    };
    (0..5).map(series).collect()
}

/// Everything of every lane against its series alone.
fn compare<M, L, R>(filter: &Window<M, L, R>, ys: &[Vec<f64>], times: bool, name: &str)
where
    M: Model,
    L: Likelihood,
    R: Descent + Optimizer<Lanes<8>>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    let (dim, outputs, _) = filter.dims();
    let (n, m) = (dim.value(), outputs.value());
    let rows = ys[0].len() / m;
    let clock: Vec<f64> = (0..rows).map(|k| 0.01 * (k as f64 + [0.0, 0.4, 0.4][k % 3])).collect();
    let of = |y| {
        let series = Series::new(y, m).unwrap();
        match times {
            true => series.with_times(&clock).unwrap(),
            false => series.with_dt(0.01).unwrap().predict_first(),
        }
    };
    let series: Vec<Series<'_>> = ys.iter().map(|y| of(y)).collect();
    let means: Vec<Vec<f64>> = (0..5).map(|b| vec![0.5 + 0.1 * f64::from(b); n]).collect();
    let starts: Vec<&[f64]> = means.iter().map(Vec::as_slice).collect();
    let mut found = vec![(Vec::new(), Vec::new(), Vec::new()); 5];
    let lane_of =
        |from: &[Lanes<8>], lane: usize| -> Vec<f64> { from.iter().map(|v| v.0[lane]).collect() };
    let path = filter.side_by_side::<8>(&starts, &series, &mut |_, _, row| {
        for (lane, found) in found.iter_mut().enumerate() {
            found.0.extend(lane_of(row.mean, lane));
            found.1.extend(lane_of(row.innovation, lane));
            found.2.extend(lane_of(row.oldest, lane));
        }
    });
    let path = path.expect(name);
    for (b, (mean, innovation, oldest)) in found.iter().enumerate() {
        let start = OVector::from_column_slice_generic(dim, U1, starts[b]);
        let mut belief = WindowBelief::new(start).unwrap();
        let mut alone = (Vec::new(), Vec::new(), Vec::new());
        drive(filter, &mut belief, &series[b], &mut |_, _, belief, update| {
            alone.0.extend_from_slice(belief.mean().as_slice());
            alone.1.extend_from_slice(update.innovation.as_slice());
            alone.2.extend_from_slice(&filter.path(belief)[..n]);
            Ok(())
        })
        .unwrap();
        assert!(same(&alone.0, mean), "{name}: means of {b}");
        assert!(same(&alone.1, innovation), "{name}: innovations of {b}");
        assert!(same(&alone.2, oldest), "{name}: oldest of {b}");
        assert!(same(&filter.path(&belief), &lane_of(&path, b)), "{name}: path of {b}");
    }
}

#[test]
fn every_lane_is_its_series_alone_to_the_bit() {
    let ys = measured(30, 3, 1.0);
    let likelihood = || Gaussian::new(nalgebra::Matrix3::identity() * 0.7).unwrap();
    for (rule, lr) in [("gd", 0.02), ("adam", 0.05), ("rmsprop", 0.05), ("adagrad", 0.1)] {
        let rule = AnyOptimizer::from_name(rule, lr, None).unwrap();
        for length in [0, 1, 4, 100] {
            let filter =
                || Window::new(Lorenz63::default().rk4(), likelihood(), rule, 3, length).unwrap();
            for times in [false, true] {
                let name = format!("{rule:?}, L = {length}, times {times}");
                compare(&filter(), &ys, times, &name);
                let carried = filter().with_memory(Memory::Carry).unwrap();
                compare(&carried.with_discount(0.9).unwrap(), &ys, times, &name);
            }
            let bounds = Bounds::new(vec![-0.5, -1.0, 0.2], vec![2.0, 1.5, 40.0]).unwrap();
            compare(&filter().with_bounds(bounds).unwrap(), &ys, false, "bounds");
        }
    }
}

#[test]
fn counts_run_in_lanes_too() {
    let ys: Vec<Vec<f64>> =
        measured(20, 1, 3.0).iter().map(|y| y.iter().map(|v| v.abs().round()).collect()).collect();
    let rule = AnyOptimizer::from_name("gd", 0.01, None).unwrap();
    let likelihood = Poisson { link: Link::Canonical };
    let filter =
        Window::new(RandomWalk::new(nalgebra::Const::<1>), likelihood, rule, 2, 3).unwrap();
    compare(&filter, &ys, false, "counts");
}

#[test]
fn what_cannot_run_side_by_side_says_so() {
    let rule = AnyOptimizer::from_name("gd", 0.02, None).unwrap();
    let likelihood = Gaussian::new(nalgebra::Matrix3::identity()).unwrap();
    let filter = Window::new(Lorenz63::default().rk4(), likelihood, rule, 3, 4).unwrap();
    let whole = vec![1.0; 30];
    let mut gap = whole.clone();
    gap[3..6].fill(f64::NAN);
    let series = |y| Series::new(y, 3).unwrap().with_dt(0.01).unwrap();
    let start: &[f64] = &[1.0, 1.0, 1.0];
    let run = |starts: &[&[f64]], series: &[Series<'_>]| {
        filter.side_by_side::<8>(starts, series, &mut |_, _, _| {}).is_some()
    };
    assert!(run(&[start, start], &[series(&whole), series(&whole)]));
    // Other gaps, another length, too few starts, and a start out of all range.
    assert!(!run(&[start, start], &[series(&whole), series(&gap)]));
    assert!(!run(&[start, start], &[series(&whole), series(&whole[..27])]));
    assert!(!run(&[start], &[series(&whole), series(&whole)]));
    assert!(!run(&[&[1e101, 0.0, 0.0]], &[series(&whole)]));
    assert!(!run(&[], &[]));
}
