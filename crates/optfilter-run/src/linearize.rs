//! A problem seen from a state: how its measurements depend on it, and how sharply.

use crate::model::RunModel;
use crate::problem::{Covariance, Problem};
use crate::spec::SpecError;
use nalgebra::{DMatrix, Dyn};
use optfilter::model::likelihood::Observed;
use optfilter::model::{Likelihood, Step, linearize_observation};
use optfilter::scalar::{Dual, Scalar};

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
    pub fn at<T: RunModel>(
        problem: &Problem<T>,
        state: &[f64],
        step: &Step,
        u: &[f64],
    ) -> Result<Self, SpecError> {
        let model = crate::model::Flexible(problem.model.clone());
        let (eta, h) = linearize_observation(&model, Dyn(state.len()), state, u, step);
        let m = eta.len();
        let r = if problem.is_gaussian() {
            problem.measurement.as_ref().unwrap_or(&Covariance::Scalar(1.0)).dense(Dyn(m))
        } else {
            let likelihood = problem.likelihood(Dyn(m), false)?;
            let mut r = DMatrix::zeros(m, m);
            for i in 0..m {
                // The curvature where the measurement is what is expected of it.
                let mut y = vec![Dual::<f64, 1>::ZERO; m];
                let mut at = vec![Dual::<f64, 1>::ZERO; m];
                let mut score = at.clone();
                let mut mask = vec![false; m];
                y[i] = Dual::constant(eta[i]);
                at[i] = Dual::variable(eta[i], 0);
                mask[i] = true;
                likelihood.score(&y, &at, Observed::Some(&mask), &mut score);
                let curvature = score[i].eps[0];
                if !(curvature > 0.0 && curvature.is_finite()) {
                    return Err(SpecError::new(format!(
                        "the likelihood of measurement {} has no curvature at the typical state",
                        i + 1
                    )));
                }
                r[(i, i)] = 1.0 / curvature;
            }
            r
        };
        if !h.iter().all(|v| v.is_finite()) {
            return Err(SpecError::new("the observation has no derivative at the typical state"));
        }
        Ok(Self { state: state.to_vec(), h, r })
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
