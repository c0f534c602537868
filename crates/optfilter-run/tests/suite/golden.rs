//! Numbers of statsmodels, which the library keeps beside its own tests.

use nalgebra::DMatrix;
use optfilter::model::Linear;
use optfilter_run::{Covariance, Problem};
use serde_json::Value;

/// The flow of the Nile with rows taken out, and models of it.
pub struct Nile {
    pub ys: Vec<f64>,
    pub cases: Vec<Case>,
}

pub struct Case(Value);

impl Case {
    /// All numbers under a name, in the order they are written.
    pub fn numbers(&self, key: &str) -> Vec<f64> {
        numbers(&self.0[key])
    }

    fn matrix(&self, key: &str) -> DMatrix<f64> {
        let all = self.numbers(key);
        let rows = self.0[key].as_array().unwrap().len();
        DMatrix::from_row_slice(rows, all.len() / rows, &all)
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        Value::Null => vec![f64::NAN],
        number => vec![number.as_f64().unwrap()],
    }
}

pub fn nile() -> Nile {
    let folder = env!("CARGO_MANIFEST_DIR");
    let path = format!("{folder}/../optfilter/tests/golden/smoother_statsmodels.json");
    let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cases = all["nile"]["cases"].as_array().unwrap().iter().cloned().map(Case).collect();
    Nile { ys: numbers(&all["nile"]["ys"]), cases }
}

/// A case as a problem; its start is of the first row.
pub fn problem(case: &Case) -> Problem {
    let model = Linear::new(case.matrix("F"), case.matrix("H")).unwrap();
    let mut problem = Problem::new(model).noise(case.matrix("Q"), case.matrix("R"));
    (problem.mean, problem.cov) = (case.numbers("m0"), Covariance::Dense(case.matrix("P0")));
    problem
}

/// The largest difference, relative to 1 + the size of each expected number.
pub fn apart(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let each = found.iter().zip(expected).map(|(a, b)| (a - b).abs() / (1.0 + b.abs()));
    each.fold(0.0, |most: f64, v| if v <= most { most } else { v })
}
