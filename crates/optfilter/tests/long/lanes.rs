//! Lanes equal series alone, to the bit, in vector code that is optimised; `tests/suite` compares every filter and rule without.

use crate::common::same_bits;
use nalgebra::{Const, SMatrix, SVector};
use optfilter::Series;
use optfilter::batch::Batch;
use optfilter::drive::Run;
use optfilter::filter::{
    ExtendedKalmanFilter, GaussianBelief, ImplicitMap, PointBelief, SideBySide, SigmaPoints,
    Together, UnscentedKalmanFilter, side_by_side,
};
use optfilter::model::likelihood::SquaredError;
use optfilter::model::{GaussianNoise, Lorenz63};
use optfilter::optim::Adam;
use optfilter::rng::Stream;

const ROWS: usize = 30;

fn measurements(count: u64) -> Vec<Vec<f64>> {
    let of = |b| {
        let mut stream = Stream::new(11, b, "optimised lanes");
        (0..3 * ROWS).map(|_| 5.0 + 4.0 * stream.normal()).collect()
    };
    (0..count).map(of).collect()
}

fn all<'a>(ys: &'a [Vec<f64>]) -> Vec<Series<'a>> {
    ys.iter().map(|y| Series::new(y, 3).unwrap().with_dt(0.02).unwrap()).collect()
}

#[test]
fn implicit_filters_side_by_side() {
    let ys = measurements(41);
    let series = all(&ys);
    let adam = Adam::new(0.2).unwrap();
    let filter = ImplicitMap::new(Lorenz63::default().rk4(), SquaredError, adam, 7).unwrap();
    let start = SVector::from([5.0, 5.0, 20.0]);
    let estimates = Batch::new(series.clone()).run(&filter, &vec![start; 41]).unwrap();
    for (b, series) in series.iter().enumerate() {
        let mut belief = PointBelief::new(start).unwrap();
        let alone = filter.run(&mut belief, series).unwrap().means;
        same_bits(&estimates.trajectory(b).unwrap().unwrap(), &alone, &format!("series {b}"));
    }
}

fn gaussian<F>(filter: &F, name: &str)
where
    F: SideBySide<State = Const<3>, Output = Const<3>, Belief = GaussianBelief<Const<3>>>,
{
    let mut ys = measurements(8);
    for missing in [false, true] {
        if missing {
            ys[2][3 * 7 + 1] = f64::NAN;
        }
        let series = all(&ys);
        let start =
            GaussianBelief::new(SVector::from([5.0, 5.0, 20.0]), SMatrix::identity()).unwrap();
        let mut means = vec![Vec::new(); 8];
        let starts = vec![start.clone(); 8];
        let end = side_by_side::<_, 8>(filter, &starts, &series, &mut |_, _, row| {
            for (lane, means) in means.iter_mut().enumerate() {
                means.extend(row.mean.iter().map(|v| v.0[lane]));
            }
        });
        assert_eq!(end, Together::Done, "{name}");
        for (b, series) in series.iter().enumerate() {
            let alone = filter.run(&mut start.clone(), series).unwrap().means;
            same_bits(&means[b], &alone, &format!("{name}, series {b}, missing {missing}"));
        }
    }
}

#[test]
fn gaussian_filters_side_by_side() {
    let model = Lorenz63::default().rk4();
    let noise = GaussianNoise::new(SMatrix::identity() * 0.1, SMatrix::identity() * 2.0).unwrap();
    gaussian(&ExtendedKalmanFilter::new(model, noise.clone()), "ekf");
    let points = SigmaPoints::merwe(1.0, 1.0, -1.0);
    gaussian(&UnscentedKalmanFilter::new(model, noise, points).unwrap(), "ukf");
}
