//! Values written into a model.

use super::quantity::Target;
use crate::file::ModelSpec;
use optfilter_run::Covariance;

/// A model with other values in it.
pub(super) fn placed(spec: &ModelSpec, values: impl Iterator<Item = (Target, f64)>) -> ModelSpec {
    let mut out = spec.clone();
    for (target, value) in values {
        match target {
            Target::Parameter(i) => out.parameters[i].1 = value,
            Target::Mean(i) => out.initial_mean[i] = value,
            Target::Process(i) => {
                if let Some(noise) = &mut out.process_noise {
                    vary(&mut noise.cov, i, value, spec.states.len());
                }
            }
            Target::Measurement(i) => {
                if let Some(cov) = &mut out.measurement_cov {
                    vary(cov, i, value, spec.observations.len());
                }
            }
        }
    }
    out
}

/// Gives a component of a covariance another variance and leaves its correlations as they are.
fn vary(cov: &mut Covariance, i: usize, variance: f64, n: usize) {
    match cov {
        Covariance::Dense(m) => {
            // What has no variance is not correlated with anything.
            if m[(i, i)] > 0.0 {
                let stretch = (variance / m[(i, i)]).sqrt();
                m.row_mut(i).scale_mut(stretch);
                m.column_mut(i).scale_mut(stretch);
            }
            m[(i, i)] = variance;
        }
        other => {
            let mut all: Vec<f64> = (0..n).map(|j| other.variance(j)).collect();
            all[i] = variance;
            *other = Covariance::Diagonal(all);
        }
    }
}
