//! Parameters by how well an implicit filter predicts, one step ahead.
//!
//! ```text
//! value = sum_j ln p(y_j | h(x_j)),   x_j the filter's prediction of row j
//!         of Gaussian outputs  -1/2 n (ln (2 pi s) + 1),   s = the mean square of the n innovations of the output
//! ```
//!
//! The filter runs as it is, with its optimizer, its steps and its window. Counts, binary measurements and robust losses have their own
//! density at what is predicted. Gaussian innovations are wider than R by what the prediction does not know; an implicit filter does
//! not say how much, so they have the variance that suits them best, outputs on different scales are weighed by themselves, and no
//! noise need be known. Gradients are central differences: a descent inside of a filter is not differentiated here. Noise cannot
//! be read from the size of errors alone and is refused.

use super::landscape::Landscape;
use super::objective::check_starts;
use super::placed::placed;
use super::quantity::Quantity;
use crate::file::{LikelihoodKind, ModelSpec};
use crate::run::Dataset;
use optfilter::filter::FilterError;
use optfilter::model::likelihood::{Component, Independent, Likelihood, Observed};
use optfilter_run::{FilterSpec, LikelihoodSpec, SpecError};

/// Half the distance of a difference, on the lines of the search.
const STEP: f64 = 1e-5;

/// Prediction errors of series as a function of what is free.
pub struct Prediction<'a> {
    spec: ModelSpec,
    filter: FilterSpec,
    quantities: Vec<Quantity>,
    data: &'a [Dataset],
    /// Densities of the outputs that have their own; the others are Gaussian.
    densities: Vec<Option<Independent>>,
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
        let densities = densities(spec, filter)?;
        if densities.iter().any(Option::is_some) && !spec.measurement_laws.is_empty() {
            let message = "measurement noise that is an expression cannot be fitted around yet where measurements are not Gaussian";
            return Err(SpecError::new(message));
        }
        // Error bars would take as long as everything else, and are not read.
        let filter = FilterSpec { error_bars: Some(false), ..filter.clone() };
        let spec = ModelSpec { bounds: None, ..spec.clone() };
        Ok(Self { spec, filter, quantities, data, densities })
    }

    /// Variances that are estimated beside what is free.
    pub fn spreads(&self) -> usize {
        self.densities.iter().filter(|density| density.is_none()).count()
    }

    /// The value and its gradient by the values on the search's lines, by differences. The error is of the first series, from 0,
    /// that the filter does not come through.
    pub fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        let values: Vec<f64> = self.quantities.iter().zip(z).map(|(q, &z)| q.value(z).0).collect();
        let at = self.value(&values)?;
        let mut gradient = Vec::with_capacity(z.len());
        for (i, (q, &place)) in self.quantities.iter().zip(z).enumerate() {
            let moved = |value: f64| {
                let mut values = values.clone();
                values[i] = value;
                self.value(&values)
            };
            gradient.push(match place {
                // From a bound there is one way to go.
                f64::INFINITY => (at - moved(values[i] - STEP * q.scale)?) / STEP,
                f64::NEG_INFINITY => (moved(values[i] + STEP * q.scale)? - at) / STEP,
                _ => {
                    let [up, down] = [STEP, -STEP].map(|by| moved(q.value(place + by).0));
                    (up? - down?) / (2.0 * STEP)
                }
            });
        }
        Ok((at, gradient))
    }

    fn value(&self, values: &[f64]) -> Result<f64, (usize, FilterError)> {
        let values = self.quantities.iter().zip(values).map(|(q, &value)| (q.target, value));
        let spec = placed(&self.spec, values);
        let mut errors = vec![(0.0, 0usize); spec.observations.len()];
        let mut sum = 0.0;
        for (series, data) in self.data.iter().enumerate() {
            let seen = data.run(&spec, &self.filter, data.len(), |row, estimate| {
                for (i, v) in estimate.innovation.iter().enumerate().filter(|(_, v)| !v.is_nan()) {
                    match &self.densities[i] {
                        None => errors[i] = (errors[i].0 + v * v, errors[i].1 + 1),
                        Some(density) => {
                            let y = data.output(row)[i];
                            let loss = density.loss(&[y], &[y - v], Observed::All);
                            sum -= loss + density.log_normalizer(&[y], Observed::All);
                        }
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
        Ok(sum + errors.iter().map(of).sum::<f64>())
    }
}

/// The densities of outputs that are not Gaussian, their scales times the filter's factor.
fn densities(spec: &ModelSpec, filter: &FilterSpec) -> Result<Vec<Option<Independent>>, SpecError> {
    let Some(LikelihoodSpec::Components(parts)) = spec.likelihood()? else {
        return Ok(vec![None; spec.observations.len()]);
    };
    let stretch = filter.measurement_scale().sqrt();
    let of = |(part, kind): (&Component, &LikelihoodKind)| match kind {
        LikelihoodKind::Gaussian => Ok(None),
        _ => part.stretched(stretch).map(|part| Some(Independent::new(vec![part]))),
    };
    let made: Result<_, _> = parts.iter().zip(&spec.likelihoods).map(of).collect();
    made.map_err(SpecError::new)
}

impl Landscape for Prediction<'_> {
    fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }
    fn quantities_mut(&mut self) -> &mut [Quantity] {
        &mut self.quantities
    }
    fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        self.gradient(z)
    }
}
