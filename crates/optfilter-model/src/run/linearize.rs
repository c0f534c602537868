//! A model seen from a typical state: how its measurements depend on it, and how sharply.

use super::dataset::Dataset;
use crate::file::{LikelihoodKind, ModelSpec};
use nalgebra::{DMatrix, Dyn};
use optfilter::model::likelihood::Observed;
use optfilter::model::{Likelihood, Step, linearize_observation};
use optfilter::scalar::{Dual, Scalar};
use optfilter_run::{FilterSpec, Method, SpecError};

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
    pub fn at(spec: &ModelSpec, state: &[f64], step: &Step, u: &[f64]) -> Result<Self, SpecError> {
        let model = spec.compile();
        let (eta, h) = linearize_observation(&model, Dyn(state.len()), state, u, step);
        let m = spec.observations.len();
        let gaussian = spec.likelihoods.iter().all(|l| *l == LikelihoodKind::Gaussian);
        let r = match &spec.measurement_cov {
            Some(r) if gaussian => r.dense(Dyn(m)),
            None if gaussian => DMatrix::identity(m, m),
            _ => {
                let likelihood = spec.problem()?.likelihood(Dyn(m), false)?;
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
                            "the likelihood of `{}` has no curvature at the typical state",
                            spec.observations[i]
                        )));
                    }
                    r[(i, i)] = 1.0 / curvature;
                }
                r
            }
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

/// The state that a series is typically in, by an extended Kalman filter or, where the model states no
/// noise, by implicit MAP; the initial mean where neither runs.
pub fn typical_states(spec: &ModelSpec, data: &Dataset, count: usize) -> Vec<(Vec<f64>, usize)> {
    let every = (data.len() / count.max(1)).max(1);
    let filter = |method| FilterSpec {
        method: Some(method),
        error_bars: Some(false),
        ..FilterSpec::default()
    };
    for method in [Method::Ekf, Method::Imap] {
        let mut states = Vec::new();
        let done = data.run(spec, &filter(method), data.len().min(20_000), |row, estimate| {
            if row % every == every / 2 {
                states.push((estimate.mean.clone(), row));
            }
        });
        if matches!(done, Ok(Ok(()))) && !states.is_empty() {
            return states;
        }
    }
    vec![(spec.initial_mean.clone(), 0)]
}
