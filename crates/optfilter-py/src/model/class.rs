//! The Python class of a model, and what a model file says besides its equations.

use crate::callable::{CallableModel, Differentiable, Function};
use crate::convert::{array, array_of_matrix, check_memory, fill_vector, matrix, slice};
use crate::errors::{bad, take_pending};
use crate::product::Product;
use nalgebra::{DVector, Dyn};
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use optfilter::model::{
    Dynamics, Growth, Integrated, Integrator, Linear, Lorenz63, Lorenz96, Observation, RandomWalk,
    Step, linearize_observation, linearize_transition,
};
use optfilter_model::run::{Held, acting_inputs};
use optfilter_model::{InputRule, LikelihoodKind, ModelSpec};
use optfilter_run::AnyModel;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The compiled part of a model; `optfilter.Model` adds noise and defaults to it.
#[pyclass(frozen, module = "optfilter._core")]
pub(crate) struct CoreModel {
    pub(crate) model: AnyModel,
}

fn integrator(name: &str) -> PyResult<Integrator> {
    match name {
        "rk4" => Ok(Integrator::Rk4),
        "euler" => Ok(Integrator::Euler),
        _ => Err(bad("method", format!("{name:?} is not known; there are \"rk4\" and \"euler\""))),
    }
}

fn integrated<D>(drift: D, name: &str, substeps: u32) -> PyResult<Integrated<D>> {
    if substeps == 0 {
        return Err(bad("substeps", "must be at least 1"));
    }
    Ok(Integrated { drift, method: integrator(name)?, substeps })
}

#[pymethods]
impl CoreModel {
    #[staticmethod]
    fn growth() -> Self {
        Self { model: Growth.into() }
    }

    #[staticmethod]
    fn lorenz63(sigma: f64, rho: f64, beta: f64, method: &str, substeps: u32) -> PyResult<Self> {
        let drift = Lorenz63 { sigma, rho, beta };
        Ok(Self { model: integrated(drift, method, substeps)?.into() })
    }

    #[staticmethod]
    fn lorenz96(n: usize, forcing: f64, method: &str, substeps: u32) -> PyResult<Self> {
        if n < 4 {
            return Err(bad("n", "Lorenz 96 needs at least 4 points"));
        }
        let drift = Lorenz96::new(Dyn(n), forcing);
        Ok(Self { model: integrated(drift, method, substeps)?.into() })
    }

    #[staticmethod]
    fn random_walk(n: usize) -> PyResult<Self> {
        if n == 0 {
            return Err(bad("n", "must be at least 1"));
        }
        Ok(Self { model: RandomWalk::new(Dyn(n)).into() })
    }

    /// By rows from F, or in continuous time from A, whose steps of `dt` are then ready-made.
    #[staticmethod]
    #[pyo3(signature = (f, h, b=None, dt=None))]
    fn linear(
        f: &Bound<'_, PyAny>,
        h: &Bound<'_, PyAny>,
        b: Option<&Bound<'_, PyAny>>,
        dt: Option<f64>,
    ) -> PyResult<Self> {
        let name = if dt.is_some() { "A" } else { "F" };
        let f = matrix(name, f, None)?;
        let n = f.nrows();
        if n == 0 || f.ncols() != n {
            return Err(bad(name, format!("must be square, not {} x {}", n, f.ncols())));
        }
        let h = matrix("H", h, None)?;
        if h.nrows() == 0 || h.ncols() != n {
            let shape = format!("{} x {}", h.nrows(), h.ncols());
            return Err(bad("H", format!("must have {n} columns like {name}; it is {shape}")));
        }
        let finite = |name, a: &nalgebra::DMatrix<f64>| match a.iter().all(|v| v.is_finite()) {
            true => Ok(()),
            false => Err(bad(name, "has an entry that is not a finite number")),
        };
        finite(name, &f)?;
        finite("H", &h)?;
        let made = match dt {
            None => Linear::new(f, h),
            Some(dt) => Linear::continuous(f, h, dt),
        };
        let mut model = made.map_err(|e| bad(e.matrix, &e))?;
        if let Some(b) = b {
            let b = matrix("B", b, None)?;
            if b.nrows() != n {
                return Err(bad(
                    "B",
                    format!("must have {n} rows like {name}; it has {}", b.nrows()),
                ));
            }
            finite("B", &b)?;
            let columns = b.column_iter().map(|c| DVector::from_column_slice(c.as_slice()));
            model = model.with_inputs(columns.collect()).map_err(|e| bad(e.matrix, &e))?;
        }
        Ok(Self { model: model.into() })
    }

    /// A model from TOML text; returns it with a dictionary of what else the text says.
    #[staticmethod]
    fn text<'py>(py: Python<'py>, name: &str, text: &str) -> PyResult<(Self, Bound<'py, PyDict>)> {
        let spec = ModelSpec::parse(name, text).map_err(|diagnostic| {
            pyo3::exceptions::PyValueError::new_err(diagnostic.to_string())
        })?;
        let about = describe(py, &spec)?;
        Ok((Self { model: spec.compile().into() }, about))
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments)] // one call, from one place in Python
    fn callable(
        states: usize,
        outputs: usize,
        inputs: usize,
        f: (Py<PyAny>, Vec<String>),
        f_jacobian: Option<(Py<PyAny>, Vec<String>)>,
        f_vjp: Option<(Py<PyAny>, Vec<String>)>,
        f_jvp: Option<(Py<PyAny>, Vec<String>)>,
        h: (Py<PyAny>, Vec<String>),
        h_jacobian: Option<(Py<PyAny>, Vec<String>)>,
        h_vjp: Option<(Py<PyAny>, Vec<String>)>,
        h_jvp: Option<(Py<PyAny>, Vec<String>)>,
        state_angles: Vec<bool>,
        angles: Vec<bool>,
        vectorized: bool,
    ) -> PyResult<Self> {
        if states == 0 {
            return Err(bad("n", "must be at least 1"));
        }
        if outputs == 0 {
            return Err(bad("m", "must be at least 1"));
        }
        let pair = |name, jacobian_name, value, jacobian: Option<_>| -> PyResult<Differentiable> {
            let jacobian = jacobian.map(|j| Function::new(jacobian_name, j, false)).transpose()?;
            let value = Function::new(name, value, vectorized)?;
            Ok(Differentiable { value, jacobian, vjp: None, jvp: None, has_warned: false.into() })
        };
        let product = |name, given: Option<_>| given.map(|g| Product::new(name, g)).transpose();
        let model = CallableModel {
            states,
            outputs,
            inputs,
            transition: Differentiable {
                vjp: product("f_vjp", f_vjp)?,
                jvp: product("f_jvp", f_jvp)?,
                ..pair("f", "f_jacobian", f, f_jacobian)?
            },
            observation: Differentiable {
                vjp: product("h_vjp", h_vjp)?,
                jvp: product("h_jvp", h_jvp)?,
                ..pair("h", "h_jacobian", h, h_jacobian)?
            },
            state_angles,
            angles,
        };
        Ok(Self { model: model.into() })
    }

    /// States, measurements and inputs.
    #[getter]
    fn dims(&self) -> (usize, usize, usize) {
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        (n.0, m.0, self.model.input_dim())
    }

    /// Whether the model is linear in the state.
    #[getter]
    fn is_linear(&self) -> bool {
        self.model.is_linear()
    }

    /// f(x) or h(x) at a time, with its Jacobian if asked for.
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        which: &str,
        x: &Bound<'py, PyAny>,
        u: Option<&Bound<'py, PyAny>>,
        time: (u64, f64, f64),
        jacobian: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.model.equations();
        let n = model.state_dim();
        let mut state = vec![0.0; n.0];
        fill_vector("x", Some(x), &mut state)?;
        let mut inputs = vec![0.0; model.input_dim()];
        match u {
            Some(u) => fill_vector("u", Some(u), &mut inputs)?,
            None if inputs.is_empty() => {}
            None => return Err(bad("u", format!("the model reads {} inputs", inputs.len()))),
        }
        let step = Step { time: time.1, ..Step::even(time.0, time.2) };
        let result = if jacobian {
            let rows = if which == "f" { n.0 } else { model.output_dim().0 };
            check_memory(&[2, rows, n.0])?;
            let slope = match which {
                "f" => linearize_transition(model, &state, &inputs, &step).1,
                _ => linearize_observation(model, n, &state, &inputs, &step).1,
            };
            array(py, slope.transpose().as_slice().to_vec(), [rows, n.0])
        } else if which == "f" {
            let mut value = vec![0.0; n.0];
            model.transition(&state, &inputs, &step, &mut value);
            array(py, value, [n.0])
        } else {
            let m = model.output_dim().0;
            let mut value = vec![0.0; m];
            model.observe(&state, &inputs, &step, &mut value);
            array(py, value, [m])
        };
        take_pending().map_or(result, Err)
    }
}

/// What a model file makes of inputs between the rows that state them.
#[pyclass(frozen, module = "optfilter._core")]
pub(crate) struct InputRules {
    spec: ModelSpec,
}

#[pymethods]
impl InputRules {
    /// The first input of which a row may have to wait for a later one.
    #[getter]
    fn waits(&self) -> Option<&str> {
        self.spec.waits()
    }

    /// The inputs of a series that act on the step to each of its rows, and the last that were stated. `last` are those of a
    /// part of the series before this one.
    #[allow(clippy::type_complexity)] // two arrays
    fn acting<'py>(
        &self,
        py: Python<'py>,
        ys: PyReadonlyArrayDyn<'py, f64>,
        ts: Option<PyReadonlyArrayDyn<'py, f64>>,
        us: PyReadonlyArrayDyn<'py, f64>,
        last: Option<PyReadonlyArrayDyn<'py, f64>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (rows, p) = (ys.len() / self.spec.observations.len(), self.spec.inputs.len());
        if us.len() != rows * p || ts.as_ref().is_some_and(|ts| ts.len() != rows) {
            return Err(bad("us", format!("must have shape ({rows}, {p})")));
        }
        let mut held = Held::new(&self.spec);
        if let Some(last) = &last {
            held.restore(slice("last", last)?);
        }
        let ts = ts.as_ref().map(|ts| slice("ts", ts)).transpose()?;
        let (us, ys) = (slice("us", &us)?, slice("ys", &ys)?);
        let acting = acting_inputs(&self.spec, ts, us, ys, &mut held);
        Ok((array(py, acting, [rows, p])?, array(py, held.values().to_vec(), [p])?))
    }
}

/// What a model file says besides its equations.
fn describe<'py>(py: Python<'py>, spec: &ModelSpec) -> PyResult<Bound<'py, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("name", &spec.name)?;
    about.set_item("states", &spec.states)?;
    about.set_item("inputs", &spec.inputs)?;
    let ruled = spec.input_rules.iter().any(|rule| *rule != InputRule::default());
    let rules = ruled.then(|| Py::new(py, InputRules { spec: spec.clone() })).transpose()?;
    about.set_item("input_rules", rules)?;
    about.set_item("observations", &spec.observations)?;
    let parameters = PyDict::new(py);
    for (name, value) in &spec.parameters {
        parameters.set_item(name, value)?;
    }
    about.set_item("parameters", parameters)?;
    about.set_item("dt", spec.dt)?;
    about.set_item("x0", array(py, spec.initial_mean.clone(), [spec.initial_mean.len()])?)?;
    about.set_item("P0", array_of_matrix(py, &spec.initial_cov.dense(Dyn(spec.states.len())))?)?;
    let unknown: Vec<usize> = (0..spec.diffuse.len()).filter(|&i| spec.diffuse[i]).collect();
    about.set_item("diffuse", unknown)?;
    if let Some(noise) = &spec.process_noise {
        about.set_item("Q", array_of_matrix(py, &noise.cov.dense(Dyn(spec.states.len())))?)?;
        about.set_item("Q_per_time", noise.per_time)?;
    }
    if let Ok(Some(r)) = spec.measurement_variances() {
        let r = r.dense(Dyn(spec.observations.len()));
        about.set_item("R", array_of_matrix(py, &r)?)?;
    }
    // What the file calls the noise's deviation is the scale of other laws.
    let scale = |i| spec.measurement_cov.as_ref().map_or(1.0, |cov| cov.variance(i).sqrt());
    if let Some(bounds) = &spec.bounds {
        about.set_item("bounds", bounds.clone())?;
    }
    let filter = serde_json::to_string(&spec.filter).unwrap_or_default();
    about.set_item("filter", filter)?;
    about.set_item("state_angles", &spec.state_angles)?;
    about.set_item("state_turns", &spec.state_turns)?;
    about.set_item("observation_angles", &spec.observation_angles)?;
    about.set_item("time_column", &spec.time_column)?;
    about.set_item("seconds_per_unit", spec.seconds_per_unit)?;
    about.set_item("time_pattern", &spec.time_style.pattern)?;
    about.set_item("time_epoch", spec.time_style.epoch)?;
    let named = spec.inputs.iter().chain(&spec.observations);
    let columns: Vec<(&str, &str)> = named.map(|n| (n.as_str(), spec.column(n))).collect();
    about.set_item("columns", columns)?;
    // Links are compiled into the equations.
    let likelihoods: Vec<(&str, f64, f64)> = spec
        .likelihoods
        .iter()
        .enumerate()
        .map(|(i, kind)| match *kind {
            LikelihoodKind::Gaussian => ("gaussian", 0.0, scale(i)),
            LikelihoodKind::StudentT { dof } => ("student_t", dof, scale(i)),
            LikelihoodKind::Huber { delta } => ("huber", delta, scale(i)),
            LikelihoodKind::Poisson { .. } => ("poisson", 0.0, 1.0),
            LikelihoodKind::Bernoulli { .. } => ("bernoulli", 0.0, 1.0),
        })
        .collect();
    about.set_item("likelihoods", likelihoods)?;
    Ok(about)
}

/// The built-in systems of the model language: (name, TOML text).
#[pyfunction]
pub(crate) fn built_in_systems() -> Vec<(&'static str, &'static str)> {
    ModelSpec::built_ins().collect()
}
