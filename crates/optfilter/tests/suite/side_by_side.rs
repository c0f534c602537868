//! Series side by side as lanes, for every Gaussian filter: every lane is its series alone, to the bit.

use nalgebra::{Const, DefaultAllocator, Dim, DimName, OMatrix, OVector, U1};
use optfilter::drive::{Run, Trace};
use optfilter::filter::{
    ExtendedKalmanFilter, GaussianBelief, IteratedKalmanFilter, SideBySide, SigmaPoints, Together,
    UnscentedKalmanFilter, side_by_side,
};
use optfilter::model::{Dynamics, GaussianNoise, Growth, Lorenz63, Model, Observation, Step};
use optfilter::rng::Stream;
use optfilter::scalar::Scalar;
use optfilter::{Series, Shapes};
/// A bearing and a range of a body on a circle, with hand-written derivatives of the dynamics.
#[derive(Clone, Copy)]
struct Radar;

impl Dynamics for Radar {
    type State = Const<2>;
    fn state_dim(&self) -> Const<2> {
        Const
    }
    fn transition<S: Scalar>(&self, x: &[S], _: &[f64], step: &Step, out: &mut [S]) {
        out[0] = x[0] + x[1].sin().scale(step.dt);
        out[1] = x[1] - x[0].scale(0.1 * step.dt);
    }
    fn transition_jacobian(
        &self,
        x: &[f64],
        _: &[f64],
        step: &Step,
        out: &mut optfilter::model::JacobianMut<'_>,
    ) -> bool {
        (out[(0, 0)], out[(0, 1)]) = (1.0, x[1].cos() * step.dt);
        (out[(1, 0)], out[(1, 1)]) = (-0.1 * step.dt, 1.0);
        true
    }
    fn is_state_angle(&self, i: usize) -> bool {
        i == 1
    }
}

impl Observation for Radar {
    type Output = Const<2>;
    fn output_dim(&self) -> Const<2> {
        Const
    }
    fn observe<S: Scalar>(&self, x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        out[0] = x[1];
        out[1] = (x[0] * x[0] + S::ONE).sqrt();
    }
    fn is_angle(&self, i: usize) -> bool {
        i == 0
    }
}

/// NaN equals NaN, and nothing else but the same bits.
fn same(a: &[f64], b: &[f64]) -> bool {
    let bits = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    a.len() == b.len() && a.iter().zip(b).all(bits)
}

/// Everything of every lane against its series alone.
fn compare<F: SideBySide>(filter: &F, name: &str, gap: usize, times: Option<&[f64]>)
where
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    let rows = 40;
    let (dim, outputs, _) = filter.dims();
    let (n, m) = (dim.value(), outputs.value());
    let ys: Vec<Vec<f64>> = (0..5)
        .map(|b| {
            let mut stream = Stream::new(3, b, "side by side");
            let mut y: Vec<f64> = (0..rows * m).map(|_| 1.0 + stream.normal()).collect();
            for (i, v) in y.iter_mut().enumerate() {
                if gap > 0 && (i * 5 + b as usize * 3).is_multiple_of(gap) {
                    *v = f64::NAN;
                }
            }
            y[m..2 * m].fill(if gap > 0 && b == 2 { f64::NAN } else { 0.5 });
            y
        })
        .collect();
    let series: Vec<Series<'_>> = ys
        .iter()
        .map(|y| {
            let series = Series::new(y, m).unwrap();
            match times {
                Some(times) => series.with_times(times).unwrap(),
                None => series.with_dt(0.1).unwrap().predict_first(),
            }
        })
        .collect();
    let starts: Vec<GaussianBelief<F::State>> =
        (0..5)
            .map(|b| {
                let mean = OVector::from_fn_generic(dim, U1, |i, _| 0.3 + 0.1 * (b + i) as f64);
                let cov = OMatrix::from_fn_generic(dim, dim, |i, j| {
                    if i == j { 1.0 + 0.2 * b as f64 } else { 0.1 }
                });
                GaussianBelief::new(mean, cov).unwrap()
            })
            .collect();
    let mut together: Vec<Trace> = vec![Trace::default(); ys.len()];
    let end = side_by_side::<_, 8>(filter, &starts, &series, &mut |_, _, row| {
        for (lane, out) in together.iter_mut().enumerate() {
            let (mut cov, mut s) = (vec![0.0; n * n], vec![0.0; m * m]);
            row.write_cov(lane, &mut cov);
            row.write_innovation_cov(lane, &mut s);
            out.covs.extend_from_slice(&cov);
            out.innovation_covs.extend_from_slice(&s);
            out.means.extend(row.mean.iter().map(|v| v.0[lane]));
            out.innovations.extend(row.innovation.iter().map(|v| v.0[lane]));
            out.nis.push(row.nis.0[lane]);
            out.log_likelihoods.push(row.log_likelihood.0[lane]);
        }
    });
    let filter_name = std::any::type_name::<F>();
    assert_eq!(end, Together::Done, "{name}, gap {gap}, {filter_name}");
    for (b, found) in together.iter().enumerate() {
        let alone = filter.run(&mut starts[b].clone(), &series[b]).unwrap();
        for (what, alone, found) in [
            ("means", &alone.means, &found.means),
            ("covs", &alone.covs, &found.covs),
            ("innovations", &alone.innovations, &found.innovations),
            ("innovation covs", &alone.innovation_covs, &found.innovation_covs),
            ("nis", &alone.nis, &found.nis),
            ("log-likelihoods", &alone.log_likelihoods, &found.log_likelihoods),
        ] {
            assert!(same(alone, found), "{name}, {what} of {b}, gap {gap}");
        }
    }
}

/// The Gaussian filters of a model.
fn every_filter<M, N: DimName, O: DimName>(model: &M, name: &str)
where
    M: Model + Clone + Dynamics<State = N> + Observation<Output = O>,
    DefaultAllocator: Shapes<N, O>,
{
    let q = OMatrix::<f64, N, N>::identity() * 0.3;
    let r = OMatrix::<f64, O, O>::identity() * 0.7;
    let noise = GaussianNoise::new(q, r).unwrap();
    let times: Vec<f64> = (0..40).map(|k| 0.1 * (f64::from(k) + 0.3 * f64::from(k % 3))).collect();
    for (gap, times) in [(0, None), (7, None), (4, Some(&times[..]))] {
        compare(&ExtendedKalmanFilter::new(model.clone(), noise.clone()), name, gap, times);
        compare(
            &IteratedKalmanFilter::new(model.clone(), noise.clone(), 3).unwrap(),
            name,
            gap,
            times,
        );
        for kappa in [0.0, 1.0, -0.5] {
            let points = SigmaPoints::merwe(1.0, if kappa < 0.0 { 0.0 } else { 2.0 }, kappa);
            // Weights below zero leave a system that doubles its state without a covariance.
            if kappa >= 0.0 || N::dim() > 1 {
                let filter =
                    UnscentedKalmanFilter::new(model.clone(), noise.clone(), points).unwrap();
                compare(&filter, name, gap, times);
            }
        }
    }
}

#[test]
fn every_lane_is_its_series_alone_to_the_bit() {
    every_filter(&Growth, "growth");
    every_filter(&Lorenz63::default().rk4(), "lorenz63");
    every_filter(&Radar, "radar");
}

#[test]
fn what_cannot_run_side_by_side_says_so() {
    let noise = GaussianNoise::new(nalgebra::matrix![1.0], nalgebra::matrix![1.0]).unwrap();
    let filter = ExtendedKalmanFilter::new(Growth, noise);
    let start = GaussianBelief::new(nalgebra::vector![0.1], nalgebra::matrix![1.0]).unwrap();
    let run = |starts: &[GaussianBelief<Const<1>>], series: &[Series<'_>]| {
        side_by_side::<_, 8>(&filter, starts, series, &mut |_, _, _| {})
    };
    let series = |y: &'static [f64]| Series::new(y, 1).unwrap();
    let two = [start.clone(), start.clone()];
    assert_eq!(run(&two, &[series(&[1.0, 2.0]), series(&[0.0, 1.0])]), Together::Done);
    // Another length, too few starts, and a start out of all range.
    assert_eq!(run(&two, &[series(&[1.0, 2.0]), series(&[1.0])]), Together::Apart);
    assert_eq!(run(&two[..1], &[series(&[1.0]), series(&[1.0])]), Together::Apart);
    assert_eq!(run(&[], &[]), Together::Apart);
    let far = GaussianBelief::new(nalgebra::vector![1e101], nalgebra::matrix![1.0]).unwrap();
    assert_eq!(run(&[far], &[series(&[1.0, 2.0])]), Together::Apart);
}

#[test]
fn exact_measurements_are_run_alone() {
    let noise = GaussianNoise::new(nalgebra::matrix![1.0], nalgebra::matrix![0.0]).unwrap();
    let filter = ExtendedKalmanFilter::new(Growth, noise);
    let start = GaussianBelief::new(nalgebra::vector![0.1], nalgebra::matrix![1.0]).unwrap();
    let series = [Series::new(&[1.0, 2.0], 1).unwrap()];
    assert_eq!(
        side_by_side::<_, 8>(&filter, &[start], &series, &mut |_, _, _| {}),
        Together::Apart
    );
}
