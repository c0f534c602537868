//! A model from a file, as the library's traits. Small sizes also run with their numbers in the type.

use crate::expr::{Environment, Graph, NodeId, Program};
use crate::file::{ModelSpec, Time};
use nalgebra::allocator::Allocator;
use nalgebra::{DMatrix, DVector, DefaultAllocator, Dim, Dyn};
use optfilter::model::integrator::{euler, rk4};
use optfilter::model::{Drift, Dynamics, Integrator, Linear, Observation, Step};
use optfilter::scalar::Scalar;
use optfilter_run::{Pace, RunModel, Size};
use std::sync::Arc;

/// The compiled equations of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct TextModel {
    states: usize,
    inputs: usize,
    outputs: usize,
    dynamics: Program,
    time: Time,
    observation: Program,
    state_angles: Vec<bool>,
    observation_angles: Vec<bool>,
    /// Whether every equation is a sum of states times numbers that do not depend on the state.
    linear: bool,
    pace: Pace,
    /// A linear differential equation with constant coefficients; its last input is 1 where there is a constant term.
    exact: Option<Arc<Linear<Dyn, Dyn>>>,
}

impl TextModel {
    pub(crate) fn new(
        spec: &ModelSpec,
        dynamics: (Graph, Vec<NodeId>),
        observation: (Graph, Vec<NodeId>),
    ) -> Self {
        let affine =
            |(graph, ids): &(Graph, Vec<NodeId>)| ids.iter().all(|&id| graph.is_affine(id));
        let linear = affine(&dynamics) && affine(&observation);
        let (graph, ids) = &dynamics;
        let exact = matches!(spec.time, Time::Continuous { method: None, .. })
            && ids.iter().all(|&id| graph.is_time_invariant(id));
        let pace = match spec.time {
            Time::Continuous { .. } => Pace::Time,
            Time::Discrete if ids.iter().any(|&id| graph.reads_interval(id)) => Pace::Time,
            Time::Discrete if ids.iter().enumerate().all(|(i, &id)| graph.is_state(id, i)) => {
                Pace::Still
            }
            Time::Discrete => Pace::Rows,
        };
        let mut made = Self {
            states: spec.states.len(),
            inputs: spec.inputs.len(),
            outputs: spec.observations.len(),
            dynamics: Program::compile(&dynamics.0, &dynamics.1),
            time: spec.time,
            observation: Program::compile(&observation.0, &observation.1),
            state_angles: spec.state_angles.clone(),
            observation_angles: spec.observation_angles.clone(),
            linear,
            pace,
            exact: None,
        };
        if exact {
            made.exact = made.solved(spec.dt).map(Arc::new);
        }
        made
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The number of observations.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The solution of a linear equation with constant coefficients, ready-made for steps of `dt`.
    fn solved(&self, dt: f64) -> Option<Linear<Dyn, Dyn>> {
        let n = self.states;
        let at = |x: &[f64], u: &[f64]| {
            let mut out = DVector::zeros(n);
            let env = Environment { u, t: 0.0, dt: f64::NAN, k: f64::NAN };
            self.dynamics.eval(x, &env, out.as_mut_slice());
            out
        };
        let unit = |len: usize, j: usize| -> Vec<f64> {
            (0..len).map(|i| f64::from(u8::from(i == j))).collect()
        };
        let (x, u) = (vec![0.0; n], vec![0.0; self.inputs]);
        let offset = at(&x, &u);
        let columns: Vec<_> = (0..n).map(|j| at(&unit(n, j), &u) - &offset).collect();
        let mut inputs: Vec<_> =
            (0..self.inputs).map(|j| at(&x, &unit(self.inputs, j)) - &offset).collect();
        let a = DMatrix::from_columns(&columns);
        if offset.iter().any(|v| *v != 0.0) {
            inputs.push(offset);
        }
        let finite = a.iter().chain(inputs.iter().flatten()).all(|v| v.is_finite());
        let model = Linear::continuous(a, DMatrix::zeros(1, n), dt).ok()?;
        model.with_inputs(inputs).ok().filter(|_| finite)
    }

    #[inline]
    fn transition_in<D: Dim, S: Scalar>(
        &self,
        dim: D,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
    ) where
        DefaultAllocator: Allocator<D>,
    {
        if let Some(exact) = &self.exact {
            if exact.input_dim() == u.len() {
                return exact.transition(x, u, step, out);
            }
            let mut u = u.to_vec();
            u.push(1.0);
            return exact.transition(x, &u, step, out);
        }
        match self.time {
            Time::Discrete => {
                let env = Environment { u, t: step.time, dt: step.dt, k: step.index as f64 };
                self.dynamics.eval(x, &env, out);
            }
            Time::Continuous { method, substeps } => {
                let rate = Rate { model: self, dim };
                let dt = step.dt / f64::from(substeps);
                let start = step.time - step.dt;
                out.copy_from_slice(x);
                for k in 0..substeps {
                    let time = start + f64::from(k) * dt;
                    match method {
                        Some(Integrator::Euler) => euler(&rate, out, u, time, dt),
                        _ => rk4(&rate, out, u, time, dt),
                    }
                }
            }
        }
    }

    #[inline]
    fn observe_in<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        let env = Environment { u, t: step.time, dt: step.dt, k: step.index as f64 };
        self.observation.eval(x, &env, out);
    }
}

/// The right-hand side of a differential equation from a file.
struct Rate<'a, D> {
    model: &'a TextModel,
    dim: D,
}

impl<D: Dim> Drift for Rate<'_, D> {
    type State = D;
    fn state_dim(&self) -> D {
        self.dim
    }
    #[inline]
    fn drift<S: Scalar>(&self, x: &[S], u: &[f64], time: f64, out: &mut [S]) {
        let env = Environment { u, t: time, dt: f64::NAN, k: f64::NAN };
        self.model.dynamics.eval(x, &env, out);
    }
}

impl Dynamics for TextModel {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(self.states)
    }
    fn input_dim(&self) -> usize {
        self.inputs
    }
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.transition_in(Dyn(self.states), x, u, step, out);
    }
    fn is_state_angle(&self, component: usize) -> bool {
        self.state_angles.get(component).copied().unwrap_or(false)
    }
}

impl Observation for TextModel {
    type Output = Dyn;
    fn output_dim(&self) -> Dyn {
        Dyn(self.outputs)
    }
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.observe_in(x, u, step, out);
    }
    fn is_angle(&self, component: usize) -> bool {
        self.observation_angles.get(component).copied().unwrap_or(false)
    }
}

impl RunModel for TextModel {
    const SIZES: &'static [Size] = &[
        (1, 1, false),
        (2, 1, false),
        (2, 2, false),
        (3, 1, false),
        (3, 2, false),
        (3, 3, false),
        (4, 1, false),
        (4, 2, false),
    ];

    fn is_linear(&self) -> bool {
        self.linear
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn drift(&self) -> Option<DMatrix<f64>> {
        self.exact.as_ref()?.drift().cloned()
    }

    #[inline]
    fn transition_sized<D: Dim, S: Scalar>(
        &self,
        dim: D,
        x: &[S],
        u: &[f64],
        step: &Step,
        out: &mut [S],
    ) where
        DefaultAllocator: Allocator<D>,
    {
        self.transition_in(dim, x, u, step, out);
    }
}
