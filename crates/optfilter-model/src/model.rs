//! A model from a file, as the library's traits: sizes known at run time, or fixed to be fast.
//!
//! [`TextModel`] has dimensions `Dyn`. [`Fixed`] is the same model with its sizes in the type, for
//! which the filters allocate nothing; it is worth its machine code for small states.

use crate::expr::{Environment, Graph, NodeId, Program};
use crate::file::{ModelSpec, Time};
use nalgebra::allocator::Allocator;
use nalgebra::{Const, DefaultAllocator, Dim, Dyn};
use optfilter::model::integrator::{euler, rk4};
use optfilter::model::{Drift, Dynamics, Method, Observation, Step};
use optfilter::scalar::Scalar;

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
    linear: bool,
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
        Self {
            states: spec.states.len(),
            inputs: spec.inputs.len(),
            outputs: spec.observations.len(),
            dynamics: Program::compile(&dynamics.0, &dynamics.1),
            time: spec.time,
            observation: Program::compile(&observation.0, &observation.1),
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

    /// Whether every equation is a sum of states times numbers that do not depend on the state.
    pub fn is_linear(&self) -> bool {
        self.linear
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
                        Method::Euler => euler(&rate, out, u, time, dt),
                        Method::Rk4 => rk4(&rate, out, u, time, dt),
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

/// A model from a file whose sizes are `N` states and `M` observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed<const N: usize, const M: usize>(TextModel);

impl<const N: usize, const M: usize> Fixed<N, M> {
    /// The model, if it has these sizes.
    pub fn new(model: TextModel) -> Option<Self> {
        (model.states == N && model.outputs == M).then_some(Self(model))
    }
}

impl<const N: usize, const M: usize> Dynamics for Fixed<N, M> {
    type State = Const<N>;
    #[inline(always)]
    fn state_dim(&self) -> Const<N> {
        Const
    }
    fn input_dim(&self) -> usize {
        self.0.inputs
    }
    #[inline]
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.0.transition_in(Const::<N>, x, u, step, out);
    }
    fn is_state_angle(&self, component: usize) -> bool {
        self.0.is_state_angle(component)
    }
}

impl<const N: usize, const M: usize> Observation for Fixed<N, M> {
    type Output = Const<M>;
    #[inline(always)]
    fn output_dim(&self) -> Const<M> {
        Const
    }
    #[inline]
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.0.observe_in(x, u, step, out);
    }
    fn is_angle(&self, component: usize) -> bool {
        self.0.is_angle(component)
    }
}
