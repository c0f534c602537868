//! The likelihood that fits climb, with its gradient, against JAX's gradient of dynamax's filter.

use crate::common::golden;
use nalgebra::{DMatrix, DVector};
use optfilter::filter::SigmaPoints;
use optfilter::filter::evidence::{Approximation, Family, Row, Setting, log_likelihood};
use optfilter::model::Step;
use optfilter::scalar::{Dual, Scalar};

/// F = [[a, b], [0, c]], H = [[1, 0], [d, 1]].
struct System;

impl Family for System {
    fn dims(&self) -> (usize, usize) {
        (2, 2)
    }
    fn transition<S: Scalar>(&self, theta: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        out[0] = theta[0] * x[0] + theta[1] * x[1];
        out[1] = theta[2] * x[1];
    }
    fn observe<S: Scalar>(&self, theta: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
        out[0] = x[0];
        out[1] = theta[3] * x[0] + x[1];
    }
}

#[test]
fn the_gradient_is_that_of_dynamax() {
    let golden = golden("evidence_dynamax");
    let numbers = |value: &serde_json::Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
    };
    let rows: Vec<Vec<f64>> = golden["ys"].as_array().unwrap().iter().map(numbers).collect();
    let (at, slope) = (numbers(&golden["at"]), numbers(&golden["gradient"]));
    let total = golden["log_likelihood"].as_f64().unwrap();
    let at: Vec<Dual<f64, 10>> =
        at.iter().enumerate().map(|(i, &v)| Dual::variable(v, i)).collect();
    let diagonal =
        |a: usize| DMatrix::from_fn(2, 2, |i, j| if i == j { at[a + i] } else { Dual::ZERO });
    let setting = Setting {
        theta: at[..4].to_vec(),
        process_cov: diagonal(4),
        measurement_cov: diagonal(6),
        mean: DVector::from_column_slice(&at[8..]),
        cov: DMatrix::from_row_slice(2, 2, &[1.5, 0.2, 0.2, 0.9].map(Dual::constant)),
        ..Setting::new(2, 2)
    };
    let points = Approximation::Unscented(SigmaPoints::merwe(1.0, 1.0, 0.0));
    for approximation in [Approximation::Linearized { iterations: 1 }, points] {
        let rows = rows.iter().enumerate().map(|(k, y)| Row {
            y,
            u: &[],
            step: Step::even(k as u64 + 1, 1.0),
            predict: k > 0,
        });
        let found = log_likelihood(&System, &setting, &approximation, rows).unwrap();
        // dynamax adds 1e-9 to the diagonals that it solves with.
        assert!((found.re - total).abs() < 1e-6, "{} {total}", found.re);
        for i in 0..10 {
            let name = &golden["names"][i];
            let error = (found.eps[i] - slope[i]).abs();
            assert!(error < 1e-6 * (1.0 + slope[i].abs()), "{name}: {} {}", found.eps[i], slope[i]);
        }
    }
}
