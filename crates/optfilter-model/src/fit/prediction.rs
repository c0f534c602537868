//! Parameters by how well an implicit filter predicts: its innovations, one step ahead.
//!
//! ```text
//! value = -1/2 sum_j n_j (ln (2 pi s_j) + 1),   s_j = the mean square of the n_j innovations of output j
//! ```
//!
//! That is the likelihood of the innovations, taken as Gaussian with the variance that suits them best, so that outputs on different
//! scales are weighed by themselves and no noise need be known. Gradients are central differences: a descent inside of a filter is
//! not differentiated here. Noise cannot be read from the size of errors alone and is refused.

use super::objective::check_starts;
use super::quantity::Quantity;
use super::{Landscape, placed};
use crate::file::ModelSpec;
use crate::run::Dataset;
use optfilter::filter::FilterError;
use optfilter_run::{FilterSpec, SpecError};

/// Half the distance of a difference, on the lines of the search.
const STEP: f64 = 1e-5;

/// Prediction errors of series as a function of what is free.
pub struct Prediction<'a> {
    spec: ModelSpec,
    filter: FilterSpec,
    quantities: Vec<Quantity>,
    data: &'a [Dataset],
}

impl<'a> Prediction<'a> {
    /// Of a model's filter over some series.
    pub fn new(
        spec: &ModelSpec,
        filter: &FilterSpec,
        quantities: Vec<Quantity>,
        data: &'a [Dataset],
    ) -> Result<Self, SpecError> {
        let method = filter.method().name();
        if let Some(noise) = quantities.iter().find(|q| q.is_variance()) {
            return Err(SpecError::of(
                "method",
                format!(
                    "{method} is fitted by the size of its prediction errors, which do not say what `{}` is; \
                     free parameters, or fit noise with kf, ekf, iekf or ukf",
                    noise.name
                ),
            ));
        }
        if spec.diffuse.contains(&true) {
            let message = format!("{method} has no diffuse start; give [initial] a std instead");
            return Err(SpecError::of("method", message));
        }
        check_starts(&quantities)?;
        // Error bars would take as long as everything else, and are not read.
        let filter = FilterSpec { error_bars: Some(false), ..filter.clone() };
        let spec = ModelSpec { bounds: None, ..spec.clone() };
        Ok(Self { spec, filter, quantities, data })
    }

    fn value(&self, z: &[f64]) -> Result<f64, (usize, FilterError)> {
        let values = self.quantities.iter().zip(z).map(|(q, &z)| (q.target, q.value(z)));
        let spec = placed(&self.spec, values);
        let mut errors = vec![(0.0, 0usize); spec.observations.len()];
        for (series, data) in self.data.iter().enumerate() {
            let seen = data.run(&spec, &self.filter, data.len(), |_, estimate| {
                for (error, v) in errors.iter_mut().zip(&estimate.innovation) {
                    if !v.is_nan() {
                        *error = (error.0 + v * v, error.1 + 1);
                    }
                }
            });
            let index = data.steps.first().map_or(1, |step| step.index);
            let refused =
                FilterError::Diverged { index, quantity: "estimate", last_good: Vec::new() };
            seen.unwrap_or(Err(refused)).map_err(|e| (series, e))?;
        }
        let of = |&(sum, count): &(f64, usize)| {
            let n = count as f64;
            if count == 0 { 0.0 } else { -0.5 * n * ((std::f64::consts::TAU * sum / n).ln() + 1.0) }
        };
        Ok(errors.iter().map(of).sum())
    }
}

impl Landscape for Prediction<'_> {
    fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }

    fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        let moved = |i: usize, by: f64| {
            let mut z = z.to_vec();
            z[i] += by;
            self.value(&z)
        };
        let mut gradient = Vec::with_capacity(z.len());
        for i in 0..z.len() {
            gradient.push((moved(i, STEP)? - moved(i, -STEP)?) / (2.0 * STEP));
        }
        Ok((self.value(z)?, gradient))
    }
}
