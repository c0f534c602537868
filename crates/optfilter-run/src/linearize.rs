//! A problem seen from a state: how its measurements depend on it, and how sharply.

use crate::error::SpecError;
use crate::problem::{Covariance, Problem};
use nalgebra::{DMatrix, Dyn};
use optfilter::Pooled;
use optfilter::model::likelihood::Observed;
use optfilter::model::{Likelihood, Step, linearize_observation};

/// A measurement linearised at a state: y = H x + noise of covariance R.
#[derive(Clone, Debug, PartialEq)]
pub struct Linearized {
    /// The state.
    pub state: Vec<f64>,
    /// H: m x n.
    pub h: DMatrix<f64>,
    /// R: m x m. For likelihoods other than the Gaussian, the inverse of their curvature.
    pub r: DMatrix<f64>,
}

impl Linearized {
    /// At a state. An error says which likelihood has no curvature there.
    pub fn at(problem: &Problem, state: &[f64], step: &Step, u: &[f64]) -> Result<Self, SpecError> {
        let model = problem.model.equations().clone();
        let (eta, h) = linearize_observation(&model, Pooled(state.len()), state, u, step);
        let m = eta.len();
        let r = if problem.is_gaussian() {
            problem.measurement.as_ref().unwrap_or(&Covariance::Scalar(1.0)).dense(Dyn(m))
        } else {
            let likelihood = problem.likelihood(Pooled(m), false)?;
            let mut r = DMatrix::zeros(m, m);
            for i in 0..m {
                // The curvature where the measurement is what is expected of it.
                let (mut unit, mut out) = (vec![0.0; m], vec![0.0; m]);
                unit[i] = 1.0;
                let eta = eta.as_slice();
                likelihood.curvature(eta, eta, Observed::All, &unit, &mut out);
                if !(out[i] > 0.0 && out[i].is_finite()) {
                    return Err(SpecError::new(format!(
                        "the likelihood of measurement {} has no curvature at the typical state",
                        i + 1
                    )));
                }
                r[(i, i)] = 1.0 / out[i];
            }
            r
        };
        if !h.iter().all(|v| v.is_finite()) {
            return Err(SpecError::new("the observation has no derivative at the typical state"));
        }
        let h = DMatrix::from_column_slice(m, state.len(), h.as_slice());
        Ok(Self { state: state.to_vec(), h, r })
    }

    /// The rows of a window as one measurement of the state at its oldest row: H, H F, H F^2, ... one below the
    /// other, and R over the discount of each.
    #[must_use]
    pub fn over_window(&self, f: &DMatrix<f64>, past: usize, discount: f64) -> Self {
        let (m, n) = self.h.shape();
        let mut h = DMatrix::zeros(m * (past + 1), n);
        let mut r = DMatrix::zeros(m * (past + 1), m * (past + 1));
        let (mut row, mut weight) = (self.h.clone(), discount.powi(past as i32));
        for j in 0..=past {
            h.view_mut((j * m, 0), (m, n)).copy_from(&row);
            r.view_mut((j * m, j * m), (m, m)).copy_from(&(&self.r / weight));
            (row, weight) = (row * f, weight / discount);
        }
        Self { state: self.state.clone(), h, r }
    }

    /// The largest eigenvalue of H' R^-1 H: a plain gradient step must be shorter than one over it.
    pub fn curvature(&self) -> f64 {
        match optfilter::equivalence::largest_rate(&self.h, &self.r) {
            Ok(rate) => 1.0 / rate,
            Err(_) => 0.0,
        }
    }

    /// The gain G = P H' (H P H' + R)^-1 of a prior covariance P.
    pub fn gain(&self, prior: &DMatrix<f64>) -> Option<DMatrix<f64>> {
        let hp = &self.h * prior;
        let s = &hp * self.h.transpose() + &self.r;
        Some(nalgebra::Cholesky::new(s)?.solve(&hp).transpose())
    }
}
