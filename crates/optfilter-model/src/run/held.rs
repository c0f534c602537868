//! Inputs that stay as they were where a row does not state them.

use crate::file::{Missing, ModelSpec};

/// The inputs of a series so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    rules: Vec<Missing>,
    /// Which of them no equation but a law of noise reads.
    of_noise: Vec<bool>,
    last: Vec<f64>,
    row: Vec<f64>,
}

impl Held {
    /// Before the first row.
    pub fn new(spec: &ModelSpec) -> Self {
        let last = vec![f64::NAN; spec.inputs.len()];
        let of_noise = spec.inputs.iter().map(|input| !spec.is_read(input)).collect();
        Self { rules: spec.missing_inputs.clone(), of_noise, row: last.clone(), last }
    }

    /// The inputs of the next row. What is missing has its last value, if it may; where there is none it stays NaN, which
    /// no filter takes. While nothing is measured, an input that noise alone reads is 1 until it is known.
    #[inline]
    pub fn fill(&mut self, u: &[f64], y: &[f64]) -> &[f64] {
        for ((last, v), rule) in self.last.iter_mut().zip(u).zip(&self.rules) {
            if !v.is_nan() || *rule == Missing::Refuse {
                *last = *v;
            }
        }
        self.row.copy_from_slice(&self.last);
        if y.iter().all(|y| y.is_nan()) {
            let held = self.row.iter_mut().zip(&self.rules).zip(&self.of_noise);
            for ((v, rule), of_noise) in held {
                if v.is_nan() && *rule != Missing::Refuse && *of_noise {
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
