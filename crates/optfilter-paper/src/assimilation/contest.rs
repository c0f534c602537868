//! The filters that meet on a twin experiment, and how they are scored.

use super::scene::{DT, Scene};
use nalgebra::{DVector, Dyn};
use optfilter::Series;
use optfilter::drive::drive;
use optfilter::filter::{
    Belief, EnsembleBelief, EnsembleKalmanFilter, Filter, FilterError, ImplicitMap, Localization,
    PointBelief, Window, WindowBelief,
};
use optfilter::model::DiagonalNoise;
use optfilter::model::likelihood::SquaredError;
use optfilter::optim::{ConjugateGradients, GradientDescent};
use optfilter::rng::Stream;
use std::time::Instant;

/// A filter with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contender {
    /// The paper's filter: one measurement at a time.
    Descent {
        /// Learning rate.
        rate: f64,
        /// Steps per measurement.
        steps: u32,
    },
    /// A window and conjugate gradients.
    Window {
        /// Past rows.
        length: usize,
        /// Iterations per measurement.
        iterations: u32,
    },
    /// An ensemble transform Kalman filter, random rotations included.
    Etkf {
        /// Members.
        members: usize,
        /// Inflation.
        inflation: f64,
    },
    /// The same, local.
    Letkf {
        /// Members.
        members: usize,
        /// Inflation.
        inflation: f64,
        /// Radius of the localisation, in points.
        radius: f64,
    },
}

impl Contender {
    /// Its name and settings.
    pub fn name(&self) -> String {
        match self {
            Self::Descent { rate, steps } => {
                format!("one measurement at a time, gd K={steps} lr={rate}")
            }
            Self::Window { length, iterations } => format!("window L={length}, cg K={iterations}"),
            Self::Etkf { members, inflation } => format!("ETKF, {members} members, {inflation}"),
            Self::Letkf { members, inflation, radius } => {
                format!("LETKF, {members} members, radius {radius}, {inflation}")
            }
        }
    }

    /// What it must be told besides the model.
    pub fn needs(&self) -> &'static str {
        match self {
            Self::Descent { .. } | Self::Window { .. } => "–",
            Self::Etkf { .. } => "R, ensemble, inflation",
            Self::Letkf { .. } => "R, ensemble, inflation, localisation",
        }
    }

    /// Its estimates, cycles x states.
    pub fn estimates(&self, scene: &Scene) -> Result<Vec<f64>, FilterError> {
        let (model, start) = (scene.model, DVector::from_column_slice(&scene.start));
        let n = start.len();
        let refused = |_| FilterError::Empty { argument: "noise" };
        match *self {
            Self::Descent { rate, steps } => {
                let rule = GradientDescent::new(rate).map_err(|_| FilterError::Setting {
                    argument: "rate",
                    value: rate,
                    requirement: "positive and finite",
                })?;
                let filter = ImplicitMap::new(model, SquaredError, rule, steps)?;
                follow(&filter, PointBelief::new(start)?, scene)
            }
            Self::Window { length, iterations } => {
                let cg = ConjugateGradients::default();
                let filter = Window::new(model, SquaredError, cg, iterations, length)?;
                follow(&filter, WindowBelief::new(start)?, scene)
            }
            Self::Etkf { members, inflation } | Self::Letkf { members, inflation, .. } => {
                let m = scene.observations.len() / scene.cycles();
                let noise =
                    DiagonalNoise::new(DVector::zeros(n), DVector::repeat(m, scene.variance))
                        .map_err(refused)?;
                let mut filter = EnsembleKalmanFilter::new(model, noise, inflation)?.rotated();
                if let Self::Letkf { radius, .. } = *self {
                    filter = filter.local(Localization::index(radius, true)?)?;
                }
                let stream = Stream::new(0, 0, "ensemble");
                let belief = EnsembleBelief::independent(&start, &vec![1.0; n], members, stream)?;
                follow(&filter, belief, scene)
            }
        }
    }

    /// Seconds of a cycle, on this thread.
    pub fn cycle_seconds(&self, scene: &Scene) -> Result<f64, FilterError> {
        let begun = Instant::now();
        self.estimates(scene)?;
        Ok(begun.elapsed().as_secs_f64() / scene.cycles() as f64)
    }

    /// The mean, over the cycles after `burn_in`, of the error's root mean square over the states.
    pub fn score(&self, scene: &Scene, burn_in: usize) -> Result<f64, FilterError> {
        let (n, estimates) = (scene.start.len(), self.estimates(scene)?);
        let each = estimates.chunks(n).zip(scene.truth.chunks(n)).skip(burn_in);
        let errors: Vec<f64> = each.map(|(a, b)| optfilter::metrics::rmse(a, b)).collect();
        Ok(optfilter::metrics::sum(&errors) / errors.len() as f64)
    }
}

fn follow<F>(filter: &F, mut belief: F::Belief, scene: &Scene) -> Result<Vec<f64>, FilterError>
where
    F: Filter<State = Dyn, Output = Dyn>,
    F::Belief: Belief<Dyn>,
{
    let m = scene.observations.len() / scene.cycles();
    let series = Series::new(&scene.observations, m)?.with_dt(DT)?.predict_first();
    let mut means = Vec::with_capacity(scene.truth.len());
    drive(filter, &mut belief, &series, &mut |_, _, belief, _| {
        means.extend_from_slice(belief.mean().as_slice());
        Ok(())
    })?;
    Ok(means)
}
