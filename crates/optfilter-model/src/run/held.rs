//! Inputs that stay as they were where a row does not state them.

use crate::file::{Missing, ModelSpec};

/// The inputs of a series so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    rules: Vec<Missing>,
    last: Vec<f64>,
    row: Vec<f64>,
}

impl Held {
    /// Before the first row.
    pub fn new(spec: &ModelSpec) -> Self {
        let last = vec![f64::NAN; spec.inputs.len()];
        Self { rules: spec.missing_inputs.clone(), row: last.clone(), last }
    }

    /// The inputs of the next row. What is missing has its last value, if it may; it stays NaN, which no filter takes,
    /// where there is none and something is measured. While nothing is measured either, it is 1: noise alone may read it.
    #[inline]
    pub fn fill(&mut self, u: &[f64], y: &[f64]) -> &[f64] {
        for ((last, v), rule) in self.last.iter_mut().zip(u).zip(&self.rules) {
            if !v.is_nan() || *rule == Missing::Refuse {
                *last = *v;
            }
        }
        self.row.copy_from_slice(&self.last);
        if y.iter().all(|y| y.is_nan()) {
            for (v, rule) in self.row.iter_mut().zip(&self.rules) {
                if v.is_nan() && *rule != Missing::Refuse {
                    *v = 1.0;
                }
            }
        }
        &self.row
    }

    /// What a checkpoint keeps.
    pub fn values(&self) -> &[f64] {
        &self.last
    }

    /// Goes on from a checkpoint.
    pub fn restore(&mut self, values: &[f64]) {
        if values.len() == self.last.len() {
            self.last.copy_from_slice(values);
        }
    }
}
