//! Systems in which most digits are lost, against 80 digits of mpmath.
//!
//! The yardstick of each is what rounding its moments between exact steps already costs (`golden/ill_conditioned.py`); an update that forms
//! P - G (H P) is 30 to 10^7 of those off, NumPy's smoother up to 74.

use crate::common::{golden, matrix, numbers, vector};
use nalgebra::{DMatrix, Dyn};
use optfilter::Series;
use optfilter::drive::Run;
use optfilter::filter::{ExtendedKalmanFilter, GaussianBelief, KalmanFilter};
use optfilter::model::{GaussianNoise, Linear};
use optfilter::smoother::Smooth;

/// How far estimates are off at most: in deviations of the mean, and as a share of the variance.
fn off(found: impl Iterator<Item = (f64, f64)>, means: &[f64], variances: &[f64]) -> f64 {
    let rows = found.zip(means.iter().zip(variances));
    let each = rows.map(|((x, p), (mean, var))| {
        let (by, share) = ((x - mean).abs() / var.sqrt(), (p / var - 1.0).abs());
        if by > share { by } else { share }
    });
    each.fold(0.0, |worst, v| if v > worst || v.is_nan() { v } else { worst })
}

#[test]
fn what_loses_most_digits_loses_what_rounding_costs() {
    for case in golden("ill_conditioned")["cases"].as_array().unwrap() {
        let [f, h, q, r, cov] = ["f", "h", "q", "r", "cov"].map(|key| matrix(&case[key]));
        let (ys, n) = (numbers(&case["ys"]), f.nrows());
        let start = GaussianBelief::new(vector(&case["mean"]), cov).unwrap();
        let series = Series::new(&ys, h.nrows()).unwrap();
        let noise = GaussianNoise::<Dyn, Dyn>::new(q, r).unwrap();
        let model = Linear::<Dyn, Dyn>::new(f, h).unwrap();
        let rounding = |what: &str| case[what].as_f64().unwrap();
        let expected = |what: &str| numbers(&case[what]);
        let filter = KalmanFilter::new(model.clone(), noise.clone());
        let trace = filter.run(&mut start.clone(), &series).unwrap();
        let extended =
            ExtendedKalmanFilter::new(model, noise).run(&mut start.clone(), &series).unwrap();
        assert_eq!((&trace.means, &trace.covs), (&extended.means, &extended.covs));
        let diagonal = |p: &[f64]| -> Vec<f64> { p.iter().step_by(n + 1).copied().collect() };
        let variances = trace.covs.chunks(n * n).flat_map(diagonal);
        let (means, vars) = (expected("filtered_mean"), expected("filtered_var"));
        let filtered = off(trace.means.iter().copied().zip(variances), &means, &vars);
        let lost = filtered / rounding("filtered_rounding");
        assert!(lost < 5.0, "filtered: {lost:.1} times what rounding costs");
        let smoothed = filter.smooth(&start, &series).unwrap();
        let of = |b: &GaussianBelief<Dyn>| -> Vec<(f64, f64)> {
            let cov: &DMatrix<f64> = &b.cov;
            (0..n).map(|i| (b.mean[i], cov[(i, i)])).collect()
        };
        let (means, vars) = (expected("smoothed_mean"), expected("smoothed_var"));
        let back = off(smoothed.iter().flat_map(of), &means, &vars);
        let lost = back / rounding("smoothed_rounding");
        assert!(lost < 30.0, "smoothed: {lost:.1} times what rounding costs");
    }
}
