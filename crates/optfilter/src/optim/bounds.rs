//! Box bounds on the state, kept by projection after every step.

use super::OptimizerError;
use crate::scalar::Scalar;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Lower and upper bounds, one pair per component; infinite where there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl Bounds {
    /// From the two corners of the box.
    pub fn new(lower: Vec<f64>, upper: Vec<f64>) -> Result<Self, OptimizerError> {
        let longest = lower.len().max(upper.len());
        for index in 0..longest {
            let low = lower.get(index).copied().unwrap_or(f64::NAN);
            let high = upper.get(index).copied().unwrap_or(f64::NAN);
            // The negation also catches NaN, and so vectors of different lengths.
            if !matches!(
                low.partial_cmp(&high),
                Some(core::cmp::Ordering::Less | core::cmp::Ordering::Equal)
            ) {
                return Err(OptimizerError::Bounds { index, lower: low, upper: high });
            }
        }
        Ok(Self { lower, upper })
    }

    /// The number of components.
    pub fn dim(&self) -> usize {
        self.lower.len()
    }

    /// Whether a component is at its bound, or beyond.
    pub fn touched(&self, x: &[f64]) -> bool {
        let pairs = self.lower.iter().zip(&self.upper);
        x.iter().zip(pairs).any(|(x, (low, high))| x <= low || x >= high)
    }

    /// The nearest point of the box.
    #[inline]
    pub fn project<S: Scalar>(&self, x: &mut [S]) {
        for ((x, &low), &high) in x.iter_mut().zip(&self.lower).zip(&self.upper) {
            *x = x.max(S::from_f64(low)).min(S::from_f64(high));
        }
    }
}
