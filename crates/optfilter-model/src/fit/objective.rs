//! The log-likelihood of all series at a place of the search, and its exact gradient.

use super::family::TextFamily;
use super::landscape::Landscape;
use super::quantity::{Quantity, Target};
use super::watch::Watch;
use crate::file::{LikelihoodKind, ModelSpec};
use crate::run::Dataset;
use nalgebra::{DMatrix, DVector, Dyn};
use optfilter::filter::FilterError;
use optfilter::filter::evidence::{Approximation, Row, Setting, log_likelihood};
use optfilter::scalar::Scalar;
use optfilter_run::{FilterSpec, Method, RunModel, SpecError};
use rayon::prelude::*;

/// Directions of a derivative that are carried at once.
const WIDTH: usize = 4;

/// The log-likelihood of series as a function of what is free.
pub struct Objective<'a> {
    quantities: Vec<Quantity>,
    family: TextFamily,
    approximation: Approximation,
    data: &'a [Dataset],
    base: Setting<f64>,
    /// Factors of the filter's settings on Q and R.
    scales: (f64, f64),
    predict_first: bool,
    watch: Option<&'a Watch>,
}

impl<'a> Objective<'a> {
    /// Of a model's filter over some series; an error says why it has no likelihood that could be differentiated.
    pub fn new(
        spec: &ModelSpec,
        filter: &FilterSpec,
        quantities: Vec<Quantity>,
        data: &'a [Dataset],
    ) -> Result<Self, SpecError> {
        let (n, m) = (spec.states.len(), spec.observations.len());
        if let Some(i) = spec.likelihoods.iter().position(|l| *l != LikelihoodKind::Gaussian) {
            return Err(SpecError::new(format!(
                "`{}` does not scatter by a Gaussian, which the likelihood of a Gaussian filter takes for granted; \
                 fit needs Gaussian measurements",
                spec.observations[i]
            )));
        }
        let Some(process) = &spec.process_noise else {
            return Err(SpecError::of("Q", "the process noise is not given"));
        };
        let Some(measurement) = &spec.measurement_cov else {
            return Err(SpecError::of("R", "the measurement noise is not given"));
        };
        let method = filter.method();
        let approximation = match method {
            Method::Kf | Method::Ekf => Approximation::Linearized { iterations: 1 },
            Method::Iekf => Approximation::Linearized { iterations: filter.steps() },
            Method::Ukf => Approximation::Unscented(filter.sigma_points(n)),
            _ => {
                return Err(SpecError::of(
                    "method",
                    format!(
                        "{} has no likelihood that could be differentiated; fit with kf, ekf, iekf or ukf",
                        method.name()
                    ),
                ));
            }
        };
        if spec.diffuse.contains(&true) && !spec.compile().is_linear() {
            let message =
                "a diffuse start is exact for linear models only; give [initial] a std instead";
            return Err(SpecError::new(message));
        }
        let base = Setting {
            theta: Vec::new(),
            mean: DVector::from_column_slice(&spec.initial_mean),
            cov: spec.initial_cov.dense(Dyn(n)),
            diffuse: spec.diffuse.clone(),
            process_cov: process.cov.dense(Dyn(n)),
            per_time: process.per_time,
            measurement_cov: measurement.dense(Dyn(m)),
        };
        check_starts(&quantities)?;
        Ok(Self {
            family: TextFamily::new(spec, &quantities)?,
            quantities,
            approximation,
            data,
            base,
            scales: (filter.process_scale(), filter.measurement_scale()),
            predict_first: filter.predict_first(),
            watch: None,
        })
    }

    /// With somebody who may say that it is enough; then a sum ends early, and means nothing.
    pub(super) fn watched(self, watch: &'a Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// What is free.
    pub fn quantities(&self) -> &[Quantity] {
        &self.quantities
    }

    /// The model's setting with these values in it.
    fn setting<S: Scalar>(&self, values: &[S]) -> Setting<S> {
        let lifted = |m: &DMatrix<f64>| m.map(S::from_f64);
        let mut out = Setting {
            theta: Vec::new(),
            mean: self.base.mean.map(S::from_f64),
            cov: lifted(&self.base.cov),
            diffuse: self.base.diffuse.clone(),
            process_cov: lifted(&self.base.process_cov),
            per_time: self.base.per_time,
            measurement_cov: lifted(&self.base.measurement_cov),
        };
        for (quantity, &value) in self.quantities.iter().zip(values) {
            match quantity.target {
                Target::Parameter(_) => out.theta.push(value),
                Target::Mean(i) => out.mean[i] = value,
                Target::Process(i) => vary(&mut out.process_cov, i, value),
                Target::Measurement(i) => vary(&mut out.measurement_cov, i, value),
            }
        }
        for (cov, scale) in
            [(&mut out.process_cov, self.scales.0), (&mut out.measurement_cov, self.scales.1)]
        {
            if scale != 1.0 {
                *cov = cov.map(|v| v.scale(scale));
            }
        }
        out
    }

    /// One series.
    fn series<S: Scalar>(&self, values: &[S], data: &Dataset) -> Result<S, FilterError> {
        let goes_on = |_: &usize| self.watch.is_none_or(|watch| !watch.is_stopped());
        let rows = (0..data.len()).take_while(goes_on).map(|row| Row {
            y: data.output(row),
            u: data.input(row),
            step: data.steps[row],
            predict: row > 0 || self.predict_first,
        });
        log_likelihood(&self.family, &self.setting(values), &self.approximation, rows)
    }

    /// The log-likelihood and its gradient by the values on the search's lines. The error is of the first series, from 0,
    /// that a filter does not come through.
    pub fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        let chunks = z.len().div_ceil(WIDTH).max(1);
        let parts: Vec<_> = (0..chunks * self.data.len())
            .into_par_iter()
            .map(|task| {
                let (chunk, series) = (task % chunks, task / chunks);
                let seeded = |(j, (q, &z)): (usize, (&Quantity, &f64))| {
                    q.variable::<WIDTH>(z, j.wrapping_sub(chunk * WIDTH))
                };
                let values: Vec<_> =
                    self.quantities.iter().zip(z).enumerate().map(seeded).collect();
                self.series(&values, &self.data[series]).map_err(|e| (series, e))
            })
            .collect();
        let (mut sum, mut gradient) = (0.0, vec![0.0; z.len()]);
        for (task, part) in parts.into_iter().enumerate() {
            let (part, chunk) = (part?, task % chunks);
            if chunk == 0 {
                sum += part.re;
            }
            for (d, slope) in gradient.iter_mut().skip(chunk * WIDTH).take(WIDTH).enumerate() {
                *slope += part.eps[d];
            }
        }
        Ok((sum, gradient))
    }

    /// The place of values.
    pub fn place(&self, values: &[f64]) -> Vec<f64> {
        self.quantities.iter().zip(values).map(|(q, &v)| q.place(v)).collect()
    }
}

/// A search begins inside of its bounds.
pub(super) fn check_starts(quantities: &[Quantity]) -> Result<(), SpecError> {
    for q in quantities {
        let (low, high) = q.bounds;
        let inside = low < q.start && q.start < high;
        // What is zero in the model, and is to be found, begins at what the rows say.
        if !(inside || q.is_open_variance() && q.start == 0.0) {
            return Err(SpecError::new(format!(
                "`{}` is {} in the model, which is not between its bounds {low} and {high}",
                q.name, q.start
            )));
        }
    }
    Ok(())
}

impl Landscape for Objective<'_> {
    fn quantities(&self) -> &[Quantity] {
        self.quantities()
    }
    fn quantities_mut(&mut self) -> &mut [Quantity] {
        &mut self.quantities
    }
    fn gradient(&self, z: &[f64]) -> Result<(f64, Vec<f64>), (usize, FilterError)> {
        self.gradient(z)
    }
}

/// Gives component `i` of a covariance another variance and leaves its correlations as they are.
pub(super) fn vary<S: Scalar>(cov: &mut DMatrix<S>, i: usize, variance: S) {
    let before = cov[(i, i)];
    for j in (0..cov.nrows()).filter(|&j| j != i) {
        if cov[(i, j)] != S::ZERO {
            // What has no variance goes along with nothing; its root has no slope.
            let stretched = match S::all_lt(S::ZERO, variance) {
                true => cov[(i, j)] * (variance / before).sqrt(),
                false => S::ZERO,
            };
            (cov[(i, j)], cov[(j, i)]) = (stretched, stretched);
        }
    }
    cov[(i, i)] = variance;
}
