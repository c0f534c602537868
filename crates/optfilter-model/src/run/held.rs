//! The value of each input that acts on the step to a row.
//!
//! ```text
//! rows     0         1         2              rows 0, 1 and 2 state the input as 4, 10 and 6
//!          |---------|---------|
//! next         10         6                   the value of the row at which the step ends (the default)
//! previous      4        10                   the value of the row at which it begins
//! mean          7         8                   the mean of the two: of the line between them
//! ```
//!
//! A row that does not state the input has one already where it could wait for the next value
//! ([`Interpolation`](super::Interpolation)); else the last value stays.

use crate::file::{InputRule, Missing, ModelSpec};

/// The inputs of a series so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    rules: Vec<InputRule>,
    /// Which of them no equation but a law of noise reads.
    of_noise: Vec<bool>,
    /// As the rows state them.
    last: Vec<f64>,
    /// As they act on the step to the last row.
    row: Vec<f64>,
    /// Whether there was a row.
    begun: bool,
}

impl Held {
    /// Before the first row.
    pub fn new(spec: &ModelSpec) -> Self {
        let rules = spec.input_rules.clone();
        let last: Vec<f64> = rules.iter().map(|rule| rule.default.unwrap_or(f64::NAN)).collect();
        let of_noise = spec.inputs.iter().map(|input| !spec.is_read(input)).collect();
        Self { rules, of_noise, row: last.clone(), last, begun: false }
    }

    /// The inputs that act on the step to the next row. What is missing has its last value, if it may; where there is none it
    /// stays NaN, which no filter takes. Into the first row leads no step, or one from a row that nobody knows: its inputs are its
    /// own. While nothing is measured, an input that noise alone reads is 1 until it is known.
    #[inline]
    pub fn fill(&mut self, u: &[f64], y: &[f64]) -> &[f64] {
        let begun = std::mem::replace(&mut self.begun, true);
        let values = self.last.iter_mut().zip(&mut self.row).zip(u);
        for (((last, row), u), rule) in values.zip(&self.rules) {
            let held = u.is_nan() && rule.missing != Missing::Refuse;
            let now = if held { *last } else { *u };
            let before = if begun || rule.default.is_some() { *last } else { now };
            *row = match rule.missing {
                Missing::Previous => before,
                Missing::Mean => 0.5 * before + 0.5 * now,
                _ => now,
            };
            *last = now;
        }
        if y.iter().all(|y| y.is_nan()) {
            let held = self.row.iter_mut().zip(&self.rules).zip(&self.of_noise);
            for ((v, rule), of_noise) in held {
                if v.is_nan() && rule.missing != Missing::Refuse && *of_noise {
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
            self.begun = true;
        }
    }
}
