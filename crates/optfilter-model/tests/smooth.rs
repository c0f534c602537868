//! Smoothing a nonlinear model.

use optfilter::Series;
use optfilter_model::{FilterSpec, ModelSpec};
use optfilter_run::smooth;

#[test]
fn smoothed_estimates_are_surer_than_filtered_ones_on_a_nonlinear_system() {
    let text = "system = \"growth\"\n[initial]\nmean = 0.1\nvar = 1\n";
    let spec = ModelSpec::parse("growth.toml", text).unwrap();
    let ys = [4.2, 5.1, f64::NAN, 3.0, 2.0, 1.1];
    let series = Series::new(&ys, 1).unwrap();
    for method in ["ekf", "iekf", "ukf"] {
        let filter = spec.smoothing(&FilterSpec::of(method).unwrap(), ys.len()).unwrap();
        let found = smooth(&*spec.runner(&filter).unwrap(), &series).unwrap();
        for k in 0..ys.len() - 1 {
            assert!(found.covs[k] < found.filtered_covs[k], "{method}, row {k}");
        }
        assert_eq!(found.covs[5], found.filtered_covs[5]);
    }
}
