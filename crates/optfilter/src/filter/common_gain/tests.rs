use super::*;
use crate::drive::{Run, Trace};
use crate::model::{Dynamics, GaussianNoise, Linear};
use crate::rng::Stream;
use nalgebra::{DMatrix, DVector, Dyn, dmatrix, dvector};

type Filter = ExtendedKalmanFilter<Linear<Dyn, Dyn>, GaussianNoise<Dyn, Dyn>>;

/// Measurements of which every `gap`-th is missing, from a stream of its own.
fn measured(rows: usize, m: usize, gap: usize, name: u64) -> Vec<f64> {
    let mut stream = Stream::new(7, name, "common gain");
    let mut out: Vec<f64> = (0..rows * m).map(|_| stream.normal() * 3.0).collect();
    for (i, v) in out.iter_mut().enumerate() {
        if gap > 0 && (i * 7 + name as usize * 3).is_multiple_of(gap) {
            *v = f64::NAN;
        }
    }
    out
}

fn tracker() -> Filter {
    let f =
        dmatrix![1.0, 0.1, 0.0, 0.0; 0.0, 1.0, 0.0, 0.0; 0.0, 0.0, 1.0, 0.1; 0.0, 0.0, 0.0, 1.0];
    let h = dmatrix![1.0, 0.0, 0.0, 0.0; 0.0, 0.0, 1.0, 0.0];
    let noise = GaussianNoise::new(
        DMatrix::from_diagonal(&dvector![0.1, 0.2, 0.1, 0.3]),
        dmatrix![1.0, 0.2; 0.2, 2.0],
    );
    ExtendedKalmanFilter::new(Linear::new(f, h).unwrap(), noise.unwrap())
}

fn level() -> Filter {
    let noise = GaussianNoise::new(dmatrix![0.4], dmatrix![1.5]);
    ExtendedKalmanFilter::new(Linear::new(dmatrix![1.0], dmatrix![1.0]).unwrap(), noise.unwrap())
}

/// NaN equals NaN, and nothing else but the same bits.
fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || a.is_nan() && b.is_nan())
}

/// Runs a batch both ways and compares everything.
fn compare(filter: &Filter, ys: &[Vec<f64>], m: usize, times: Option<&[f64]>) -> usize {
    let n = filter.model.state_dim().value();
    let series: Vec<Series<'_>> = ys
        .iter()
        .map(|y| {
            let series = Series::new(y, m).unwrap().predict_first();
            times.map_or(series, |times| series.with_times(times).unwrap())
        })
        .collect();
    let means: Vec<Vec<f64>> = (0..ys.len()).map(|b| vec![b as f64 * 0.1; n]).collect();
    let starts: Vec<&[f64]> = means.iter().map(Vec::as_slice).collect();
    let cov = DMatrix::identity(n, n) * 2.0;
    let mut together: Vec<Trace> = vec![Trace::default(); ys.len()];
    let mut gain = CommonGain::new(filter, series[0], cov.clone());
    let end = gain.run::<8>(&starts, &series, &mut |_, _, row| {
        for (lane, out) in together.iter_mut().enumerate() {
            out.means.extend(row.mean.iter().map(|v| v.0[lane]));
            out.innovations.extend(row.innovation.iter().map(|v| v.0[lane]));
            let (mut cov, mut s) = (vec![0.0; n * n], vec![0.0; m * m]);
            row.write_cov(lane, &mut cov);
            row.write_innovation_cov(lane, &mut s);
            out.covs.extend_from_slice(&cov);
            out.innovation_covs.extend_from_slice(&s);
            out.nis.push(row.nis.0[lane]);
            out.log_likelihoods.push(row.log_likelihood.0[lane]);
        }
    });
    assert_eq!(end, Together::Done);
    for (b, found) in together.iter().enumerate() {
        let start = DVector::from_column_slice(&means[b]);
        let mut belief = GaussianBelief::new(start, cov.clone()).unwrap();
        let alone = filter.run(&mut belief, &series[b]).unwrap();
        assert!(same(&alone.means, &found.means), "means of {b}");
        assert!(same(&alone.covs, &found.covs), "covs of {b}");
        assert!(same(&alone.innovations, &found.innovations), "innovations of {b}");
        assert!(same(&alone.innovation_covs, &found.innovation_covs), "innovation covs of {b}");
        assert!(same(&alone.nis, &found.nis), "nis of {b}");
        assert!(same(&alone.log_likelihoods, &found.log_likelihoods), "log-likelihoods of {b}");
    }
    gain.layers.iter().map(Vec::len).sum()
}

#[test]
fn every_lane_is_its_series_alone_to_the_bit() {
    for (filter, m) in [(level(), 1), (tracker(), 2)] {
        let whole: Vec<_> = (0..5).map(|b| measured(60, m, 0, b)).collect();
        // One covariance for each row, and the start.
        assert_eq!(compare(&filter, &whole, m, None), 61);
        let gaps: Vec<_> = (0..8).map(|b| measured(60, m, 9, b)).collect();
        let nodes = compare(&filter, &gaps, m, None);
        assert!(nodes > 61 && nodes < 8 * 60, "{nodes}");
        let times: Vec<f64> = (0..60).map(|k| k as f64 + 0.3 * f64::from(k % 3)).collect();
        compare(&filter, &gaps, m, Some(&times));
    }
}

#[test]
fn what_cannot_run_together_says_so() {
    let filter = level();
    let (short, long) = (measured(5, 1, 0, 0), measured(6, 1, 0, 1));
    let series = [Series::new(&short, 1).unwrap(), Series::new(&long, 1).unwrap()];
    let mut gain = CommonGain::new(&filter, series[0], dmatrix![1.0]);
    let starts: [&[f64]; 2] = [&[0.0], &[0.0]];
    assert_eq!(gain.run::<8>(&starts, &series, &mut |_, _, _| {}), Together::Apart);
    let far: [&[f64]; 1] = [&[1e101]];
    assert_eq!(gain.run::<8>(&far, &series[..1], &mut |_, _, _| {}), Together::Apart);
    assert_eq!(gain.run::<8>(&[], &[], &mut |_, _, _| {}), Together::Apart);
}

#[test]
fn gaps_that_have_nothing_in_common_are_too_many() {
    // A level that hardly moves never forgets which rows were missing.
    let noise = GaussianNoise::new(dmatrix![1e-9], dmatrix![1.5]).unwrap();
    let filter =
        ExtendedKalmanFilter::new(Linear::new(dmatrix![1.0], dmatrix![1.0]).unwrap(), noise);
    let ys: Vec<Vec<f64>> = (0..600_usize)
        .map(|b| (0..12).map(|k| if b >> k & 1 == 1 { f64::NAN } else { 1.0 }).collect())
        .collect();
    let clock = Series::new(&ys[0], 1).unwrap();
    let mut gain = CommonGain::new(&filter, clock, dmatrix![1.0]);
    let mut ends = Vec::new();
    for group in ys.chunks(8) {
        let series: Vec<_> = group.iter().map(|y| Series::new(y, 1).unwrap()).collect();
        ends.push(gain.run::<8>(&[&[0.0][..]; 8], &series, &mut |_, _, _| {}));
    }
    assert!(ends[0] == Together::Done && ends.contains(&Together::Crowded), "{ends:?}");
}

#[test]
fn a_graph_that_would_fill_the_memory_is_not_begun() {
    let filter = level();
    let long = vec![1.0; 200_000];
    let series = [Series::new(&long, 1).unwrap()];
    let mut gain = CommonGain::new(&filter, series[0], dmatrix![1.0]);
    assert_eq!(gain.run::<8>(&[&[0.0]], &series, &mut |_, _, _| {}), Together::Crowded);
}
