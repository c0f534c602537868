//! From Python's settings to a filter of the library.

use crate::convert::{matrix, sized};
use crate::engine::{Driver, LaneFilter, Packed, Runner, Shared};
use crate::errors::{bad, to_python};
use crate::likelihood::{self, AnyLikelihood};
use crate::model::AnyModel;
use crate::optimizer::{self, Native, PythonRule, Rule};
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DefaultAllocator, Dim, Dyn, OMatrix, OVector, U1};
use optfilter::Shapes;
use optfilter::filter::{
    Extended, ImplicitMap, Iterated, Kalman, Memory, Particle, Resampling, Scheme, SigmaPoints,
    Unscented, Variational,
};
use optfilter::model::{GaussianNoise, Linear, Model, NoiseError};
use optfilter::optim::{Bounds, Optimizer};
use optfilter::uncertainty::ErrorBars;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The settings of a filter, read from a dictionary.
pub(crate) struct Settings<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) kind: &'a str,
    pub(crate) values: &'a Bound<'py, PyDict>,
    pub(crate) sizes: (usize, usize),
    /// Whether the model's steps run Python.
    pub(crate) python: bool,
}

impl<'py> Settings<'_, 'py> {
    fn get(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.values.get_item(key)?.filter(|value| !value.is_none()))
    }

    fn need(&self, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.get(key)?.ok_or_else(|| bad(key, format!("{} needs it", self.kind)))
    }

    fn cov(&self, key: &str, size: usize) -> PyResult<DMatrix<f64>> {
        matrix(key, &self.need(key)?, Some((size, size)))
    }

    fn noise<N: Dim, M: Dim>(&self, n: N, m: M) -> PyResult<GaussianNoise<N, M>>
    where
        DefaultAllocator: Shapes<N, M>,
    {
        let q = sized(n, n, &self.cov("Q", self.sizes.0)?);
        let r = sized(m, m, &self.cov("R", self.sizes.1)?);
        let per_time = match self.get("Q_per_time")? {
            Some(value) => value.extract()?,
            None => false,
        };
        let made = if per_time { GaussianNoise::per_time(q, r) } else { GaussianNoise::new(q, r) };
        made.map_err(|e| match e {
            NoiseError::ProcessCov => {
                bad("Q", "must be finite, symmetric and positive semi-definite")
            }
            NoiseError::MeasurementCov => {
                bad("R", "must be finite, symmetric and positive definite")
            }
            other => bad("Q or R", other),
        })
    }

    fn count(&self, key: &str) -> PyResult<u32> {
        let value = self.need(key)?;
        let count: i64 =
            value.extract().map_err(|_| bad(key, "must be a whole number, at least 1"))?;
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(bad(key, format!("must be a whole number, at least 1, not {count}"))),
        }
    }

    fn likelihood(&self) -> PyResult<AnyLikelihood> {
        let likelihood = likelihood::parse(&self.need("likelihood")?)?;
        if let Some(dim) = likelihood.dim()
            && dim != self.sizes.1
        {
            let message = format!("is for {dim} measurements; the model has {}", self.sizes.1);
            return Err(bad("likelihood", message));
        }
        Ok(likelihood)
    }

    /// The rule of filters whose rule runs in Rust.
    fn rule(&self) -> PyResult<Native> {
        let Rule::Native(rule) = optimizer::parse(&self.need("optimizer")?)? else {
            return Err(bad("optimizer", "is a callable"));
        };
        if let Native::Matrix(matrix) = &rule
            && matrix.matrix().nrows() != self.sizes.0
        {
            let message = format!("must be {0} x {0} like the model's state", self.sizes.0);
            return Err(bad("M", message));
        }
        Ok(rule)
    }

    fn resampling(&self) -> PyResult<Resampling> {
        let name: String = self.need("resampling")?.extract()?;
        let scheme = match name.as_str() {
            "systematic" => Scheme::Systematic,
            "stratified" => Scheme::Stratified,
            "residual" => Scheme::Residual,
            "multinomial" => Scheme::Multinomial,
            _ => {
                let known = "systematic, stratified, residual and multinomial";
                return Err(bad("resampling", format!("{name:?} is not known; there are {known}")));
            }
        };
        Ok(match self.get("threshold")? {
            Some(fraction) => Resampling::Below(scheme, fraction.extract()?),
            None => Resampling::Always(scheme),
        })
    }
}

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
    if let Some(rule) = settings.get("optimizer")?
        && let Rule::Python(rule) = optimizer::parse(&rule)?
    {
        return with_python_rule(model, rule, settings);
    }
    match model {
        AnyModel::Growth(model) => build_for(*model, settings),
        AnyModel::Lorenz63(model) => build_for(*model, settings),
        model => build_for(model.clone(), settings),
    }
}

fn kalman(model: &Linear<Dyn, Dyn>, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>> {
    let noise = settings.noise(Dyn(settings.sizes.0), Dyn(settings.sizes.1))?;
    let filter = Kalman::new(model.clone(), noise);
    Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
}

fn build_for<M>(model: M, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>>
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
            Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
        }
        "IteratedEKF" => {
            let iterations = settings.count("iterations")?;
            let filter = Iterated::new(model, settings.noise(n, m)?, iterations).map_err(wrong)?;
            Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
        }
        "UnscentedKF" => {
            let (alpha, beta, kappa): (f64, f64, f64) = settings.need("points")?.extract()?;
            let points = SigmaPoints { alpha, beta, kappa };
            let filter = Unscented::new(model, settings.noise(n, m)?, points).map_err(wrong)?;
            Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
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
        "VariationalKF" => variational(model, settings.rule()?, settings),
        "ImplicitMAP" => implicit(model, settings.rule()?, settings),
        other => Err(bad("kind", format!("there is no filter called {other:?}"))),
    }
}

/// Filters with an optimizer written in Python, which is slow whatever else is fast: for any model.
fn with_python_rule(
    model: &AnyModel,
    rule: PythonRule,
    settings: &Settings<'_, '_>,
) -> PyResult<Arc<dyn Runner>> {
    if settings.kind == "VariationalKF" {
        return variational(model.clone(), rule, settings);
    }
    let error_bars: bool = settings.need("error_bars")?.extract()?;
    if error_bars {
        let message = "error bars need an optimizer that can be differentiated, not a callable";
        return Err(bad("optimizer", message));
    }
    let filter = descent(model.clone(), rule, settings)?;
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
    Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))))
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

fn implicit<M>(model: M, rule: Native, settings: &Settings<'_, '_>) -> PyResult<Arc<dyn Runner>>
where
    M: Model + Clone + Send + Sync + 'static,
    DefaultAllocator: Shapes<M::State, M::Output>,
    OVector<f64, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OVector<f64, M::Output>: Send + Sync,
    OMatrix<f64, M::State, M::State>: Send + Sync + Serialize + DeserializeOwned,
    OMatrix<f64, M::Output, M::Output>: Send + Sync,
{
    let (n, m) = (model.state_dim(), model.output_dim());
    let filter = descent(model.clone(), rule, settings)?;
    let error_bars: bool = settings.need("error_bars")?.extract()?;
    if error_bars {
        let filter = ErrorBars::new(filter, settings.noise(n, m)?)
            .map_err(|e| to_python(settings.py, e, None))?;
        return Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes: None }))));
    }
    let packed: Box<dyn LaneFilter> = Box::new(Packed { model, filter: filter.clone() });
    let lanes = (!settings.python).then_some(packed);
    Ok(Arc::new(Shared(Arc::new(Driver { filter, settings: (), lanes }))))
}
