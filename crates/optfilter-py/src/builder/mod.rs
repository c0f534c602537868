//! From Python's settings to a filter of the library.

mod settings;

pub(crate) use settings::Settings;

use crate::convert::sized;
use crate::engine::{Driver, LaneFilter, Packed, Runner, Shared, State};
use crate::errors::{bad, to_python};
use crate::likelihood::AnyLikelihood;
use crate::model::AnyModel;
use crate::optimizer::Rule;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dyn, OMatrix, OVector, U1};
use optfilter::Shapes;
use optfilter::filter::{
    Belief, Extended, Filter, ImplicitMap, Iterated, Kalman, Memory, Particle, SigmaPoints,
    Unscented, Variational,
};
use optfilter::model::{Linear, Model};
use optfilter::optim::{AnyOptimizer, Bounds, Optimizer};
use optfilter::scalar::Dual;
use optfilter::uncertainty::ErrorBars;
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The filter that the settings describe.
pub(crate) fn build(model: &AnyModel, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>> {
    if settings.kind == "KalmanFilter" {
        match model {
            AnyModel::Linear(linear) => return kalman(linear, settings),
            // The extended filter of a linear model is the Kalman filter.
            model if model.is_linear() => {}
            _ => {
                let message = "KalmanFilter needs a linear model (optfilter.models.Linear); \
                               for others there is ExtendedKalmanFilter";
                return Err(bad("model", message));
            }
        }
    }
    if matches!(settings.kind, "ImplicitMAP" | "VariationalKF") {
        return by_rule(model, settings);
    }
    match model {
        AnyModel::Growth(model) => by_noise(*model, settings),
        AnyModel::Lorenz63(model) => by_noise(*model, settings),
        model => by_noise(model.clone(), settings),
    }
}

fn kalman(model: &Linear<Dyn, Dyn>, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>> {
    let noise = settings.noise(Dyn(settings.sizes.0), Dyn(settings.sizes.1))?;
    let filter = Kalman::new(model.clone(), noise);
    Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
}

/// Filters that read the noise of process and measurement.
fn by_noise<M>(model: M, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>>
where
    M: Model + Clone + Send + Sync + 'static,
    DefaultAllocator:
        Shapes<M::State, M::Output> + Allocator<U1, M::State> + Allocator<U1, M::Output>,
    OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OVector<f64, M::Output>: Send + Sync,
    OMatrix<f64, M::State, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, M::Output, M::Output>: Send + Sync,
{
    let py = settings.py;
    let wrong = |e| to_python(py, e, None);
    let (n, m) = (model.state_dim(), model.output_dim());
    match settings.kind {
        "ExtendedKalmanFilter" | "KalmanFilter" => {
            let filter = Extended::new(model, settings.noise(n, m)?);
            alone(filter)
        }
        "IteratedEKF" => {
            let iterations = settings.count("iterations")?;
            let filter = Iterated::new(model, settings.noise(n, m)?, iterations).map_err(wrong)?;
            alone(filter)
        }
        "UnscentedKF" => {
            let (alpha, beta, kappa): (f64, f64, f64) = settings.need("points")?.extract()?;
            let points = SigmaPoints { alpha, beta, kappa };
            let filter = Unscented::new(model, settings.noise(n, m)?, points).map_err(wrong)?;
            alone(filter)
        }
        "ParticleFilter" => {
            let noise = settings.noise(n, m)?;
            let count = settings.count("particles")? as usize;
            let seed: u64 = settings.need("seed")?.extract()?;
            let filter =
                Particle::new(model, settings.likelihood()?, noise, settings.resampling()?)
                    .map_err(wrong)?;
            let driver = Driver { filter, settings: (count, seed), lanes: None };
            Ok(Arc::new(Shared(Arc::new(driver))))
        }
        other => Err(bad("kind", format!("there is no filter called {other:?}"))),
    }
}

/// Filters that are an optimizer. The library's rules have code of their own for the paper's two systems; a matrix
/// and a callable run on any model alike.
fn by_rule(model: &AnyModel, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>> {
    let rule = settings.rule()?;
    if settings.kind == "VariationalKF" {
        return match (model, rule) {
            (AnyModel::Growth(model), Rule::Native(rule)) => variational(*model, rule, settings),
            (AnyModel::Lorenz63(model), Rule::Native(rule)) => variational(*model, rule, settings),
            (model, Rule::Native(rule)) => variational(model.clone(), rule, settings),
            (model, Rule::Matrix(rule)) => variational(model.clone(), rule, settings),
            (model, Rule::Python(rule)) => variational(model.clone(), rule, settings),
        };
    }
    let error_bars: bool = settings.need("error_bars")?.extract()?;
    match (model, rule, error_bars) {
        (_, Rule::Python(_), true) => {
            let message = "error bars need an optimizer that can be differentiated, not a callable";
            Err(bad("optimizer", message))
        }
        (AnyModel::Growth(model), Rule::Native(rule), true) => bars(*model, rule, settings),
        (AnyModel::Lorenz63(model), Rule::Native(rule), true) => bars(*model, rule, settings),
        (model, Rule::Native(rule), true) => bars(model.clone(), rule, settings),
        (model, Rule::Matrix(rule), true) => bars(model.clone(), rule, settings),
        (AnyModel::Growth(model), Rule::Native(rule), false) => implicit(*model, rule, settings),
        (AnyModel::Lorenz63(model), Rule::Native(rule), false) => implicit(*model, rule, settings),
        (model, Rule::Native(rule), false) => implicit(model.clone(), rule, settings),
        (model, Rule::Matrix(rule), false) => alone(descent(model.clone(), rule, settings)?),
        (model, Rule::Python(rule), false) => alone(descent(model.clone(), rule, settings)?),
    }
}

/// A filter whose trajectories cannot be lanes.
fn alone<F>(filter: F) -> PyResult<Arc<dyn Runner>>
where
    F: Filter + Send + Sync + 'static,
    F::Belief: State<Settings = ()> + Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
}

fn variational<M, O>(model: M, rule: O, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>>
where
    M: Model + Clone + Send + Sync + 'static,
    O: Optimizer<f64> + Send + Sync + 'static,
    O::State<OVector<f64, M::State>>: Clone + Send + Sync + Serialize + DeserializeOwned,
    DefaultAllocator: Shapes<M::State, M::Output>,
    OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OVector<f64, M::Output>: Send + Sync,
    OMatrix<f64, M::State, M::State>: Send + Sync,
    OMatrix<f64, M::Output, M::Output>: Send + Sync,
{
    let n = model.state_dim();
    let prior = sized(n, n, &settings.cov("prior_cov", settings.sizes.0)?);
    let steps = settings.count("steps")?;
    let filter = Variational::new(model, settings.likelihood()?, prior, rule, steps)
        .map_err(|e| to_python(settings.py, e, None))?;
    alone(filter)
}

/// The implicit filter that the settings describe, with its rule.
fn descent<M: Model, O: Optimizer<f64>>(
    model: M,
    rule: O,
    settings: &Settings<'_, '_>,
) -> PyResult<ImplicitMap<M, AnyLikelihood, O>> {
    let wrong = |e| to_python(settings.py, e, None);
    let carry: bool = settings.need("carry")?.extract()?;
    let memory = if carry { Memory::Carry } else { Memory::Restart };
    let filter = ImplicitMap::new(model, settings.likelihood()?, rule, settings.count("steps")?)
        .map_err(wrong)?
        .with_memory(memory);
    let Some(pair) = settings.get("bounds")? else { return Ok(filter) };
    let (lower, upper): (Vec<f64>, Vec<f64>) = pair.extract()?;
    let bounds = Bounds::new(lower, upper).map_err(|e| bad("bounds", e))?;
    filter.with_bounds(bounds).map_err(wrong)
}

/// With an error covariance.
fn bars<M, O>(model: M, rule: O, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>>
where
    M: Model + Clone + Send + Sync + 'static,
    O: Optimizer<f64> + Optimizer<Dual<f64, 4>> + Send + Sync + 'static,
    DefaultAllocator: Shapes<M::State, M::Output>,
    OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, M::State, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, M::Output, M::Output>: Send + Sync,
{
    let noise = settings.noise(model.state_dim(), model.output_dim())?;
    let filter = descent(model, rule, settings)?;
    alone(ErrorBars::new(filter, noise).map_err(|e| to_python(settings.py, e, None))?)
}

/// With lanes for batches.
fn implicit<M>(
    model: M,
    rule: AnyOptimizer,
    settings: &Settings<'_, '_>,
) -> PyResult<Arc<dyn Runner>>
where
    M: Model + Clone + Send + Sync + 'static,
    DefaultAllocator: Shapes<M::State, M::Output>,
    OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
{
    let filter = descent(model.clone(), rule, settings)?;
    if settings.python {
        return alone(filter);
    }
    let lanes: Box<dyn LaneFilter> = Box::new(Packed { model, filter: filter.clone() });
    Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: Some(lanes) }))))
}
