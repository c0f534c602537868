//! A model from a file, as the library's traits. Small sizes also run with their numbers in the type.

use crate::expr::{Environment, Graph, NodeId, Program};
use crate::file::{ModelSpec, Time};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, Dyn};
use optfilter::model::integrator::{euler, rk4};
use optfilter::model::{Drift, Dynamics, Integrator, Observation, PullBack, Step};
use optfilter::scalar::Scalar;
use optfilter_run::{RunModel, Size};

/// States up to which one forward pass has all derivatives at once; gradients of more go backwards.
const MOST_FORWARD: usize = 8;

/// The compiled equations of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct TextModel {
    states: usize,
    inputs: usize,
    outputs: usize,
    dynamics: Program,
    time: Time,
    observation: Program,
    /// The observation before its links, and which components have one.
    canonical: (Program, Vec<bool>),
    state_angles: Vec<bool>,
    observation_angles: Vec<bool>,
    /// Whether every equation is a sum of states times numbers that do not depend on the state.
    linear: bool,
}

impl TextModel {
    pub(crate) fn new(
        spec: &ModelSpec,
        dynamics: (Graph, Vec<NodeId>),
        observation: (Graph, Vec<NodeId>),
        canonical: (Program, Vec<bool>),
    ) -> Self {
        let affine =
            |(graph, ids): &(Graph, Vec<NodeId>)| ids.iter().all(|&id| graph.is_affine(id));
        let linear = affine(&dynamics) && affine(&observation);
        Self {
            states: spec.states.len(),
            inputs: spec.inputs.len(),
            outputs: spec.observations.len(),
            dynamics: Program::compile(&dynamics.0, &dynamics.1),
            time: spec.time,
            observation: Program::compile(&observation.0, &observation.1),
            canonical,
            state_angles: spec.state_angles.clone(),
            observation_angles: spec.observation_angles.clone(),
            linear,
        }
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
                        Integrator::Euler => euler(&rate, out, u, time, dt),
                        Integrator::Rk4 => rk4(&rate, out, u, time, dt),
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
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        let pull_back: PullBack<Self, S> = |model, x, u, step, r, out| {
            let env = Environment { u, t: step.time, dt: step.dt, k: step.index as f64 };
            model.observation.pull_back(x, &env, r, out);
        };
        (self.states > MOST_FORWARD).then_some(pull_back)
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

    fn canonical(&self) -> Option<(Self, Vec<bool>)> {
        let (observation, linked) = self.canonical.clone();
        linked.contains(&true).then(|| (Self { observation, ..self.clone() }, linked))
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
