//! A model from a file, as the library's traits. Small sizes also run with their numbers in the type.

use crate::expr::{Environment, Graph, NodeId, Program};
use crate::file::{ModelSpec, Time};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, Dyn};
use optfilter::model::integrator::DriftPullBack;
use optfilter::model::{Drift, Dynamics, Integrated, Observation, PullBack, Step};
use optfilter::scalar::Scalar;
use optfilter_run::{RunModel, Size};

/// The compiled equations of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct TextModel {
    states: usize,
    inputs: usize,
    outputs: usize,
    dynamics: Equations,
    time: Time,
    observation: Equations,
    state_angles: Vec<bool>,
    observation_angles: Vec<bool>,
    /// Whether every equation is a sum of states times numbers that do not depend on the state.
    linear: bool,
}

/// Equations and their transposed Jacobian.
#[derive(Clone, Debug, PartialEq)]
struct Equations {
    forward: Program,
    reverse: Option<Program>,
}

impl Equations {
    fn compile((graph, outputs): (Graph, Vec<NodeId>), states: usize) -> Self {
        let forward = Program::compile(&graph, &outputs);
        Self { forward, reverse: Program::compile_pull_back(graph, &outputs, states) }
    }
}

/// Up to as many states, the gradient of an observation is one sweep of duals, which is as fast.
const ONE_SWEEP: usize = 8;

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
            dynamics: Equations::compile(dynamics, spec.states.len()),
            time: spec.time,
            observation: Equations::compile(observation, spec.states.len()),
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
            Time::Discrete => self.dynamics.forward.eval(x, &environment(u, step), out),
            Time::Continuous { method, substeps } => {
                let drift = Rate { model: self, dim };
                Integrated { drift, method, substeps }.transition(x, u, step, out);
            }
        }
    }

    fn transition_reversed<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        r: &[S],
        out: &mut [S],
    ) {
        match (self.time, &self.dynamics.reverse) {
            (Time::Discrete, Some(reverse)) => {
                reverse.eval_pull_back(x, r, &environment(u, step), out);
            }
            (Time::Continuous { method, substeps }, _) => {
                let drift = Rate { model: self, dim: Dyn(self.states) };
                let model = Integrated { drift, method, substeps };
                if let Some(pull_back) = model.transition_pull_back() {
                    pull_back(&model, x, u, step, r, out);
                }
            }
            _ => {}
        }
    }
}

fn environment<'a>(u: &'a [f64], step: &Step) -> Environment<'a> {
    Environment { u, t: step.time, dt: step.dt, k: step.index as f64 }
}

/// The right-hand side of a differential equation from a file.
struct Rate<'a, D> {
    model: &'a TextModel,
    dim: D,
}

/// What a rate of change may refer to: it has no step.
fn at(u: &[f64], time: f64) -> Environment<'_> {
    Environment { u, t: time, dt: f64::NAN, k: f64::NAN }
}

impl<D: Dim> Drift for Rate<'_, D> {
    type State = D;
    fn state_dim(&self) -> D {
        self.dim
    }
    #[inline]
    fn drift<S: Scalar>(&self, x: &[S], u: &[f64], time: f64, out: &mut [S]) {
        self.model.dynamics.forward.eval(x, &at(u, time), out);
    }
    fn drift_pull_back<S: Scalar>(&self) -> Option<DriftPullBack<Self, S>> {
        self.model.dynamics.reverse.as_ref()?;
        Some(|rate, x, u, time, r, out| {
            if let Some(reverse) = &rate.model.dynamics.reverse {
                reverse.eval_pull_back(x, r, &at(u, time), out);
            }
        })
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
    fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        self.dynamics.reverse.as_ref()?;
        Some(Self::transition_reversed)
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
        self.observation.forward.eval(x, &environment(u, step), out);
    }
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        self.observation.reverse.as_ref().filter(|_| self.states > ONE_SWEEP)?;
        Some(|model, x, u, step, r, out| {
            if let Some(reverse) = &model.observation.reverse {
                reverse.eval_pull_back(x, r, &environment(u, step), out);
            }
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::SYSTEMS;
    use optfilter::model::Integrator;
    use optfilter::scalar::Dual;

    /// A point, a direction and a vector to pull back, none of them special.
    fn numbers(n: usize, phase: f64) -> Vec<f64> {
        (0..n).map(|i| 0.6 + 0.5 * (phase + 1.7 * i as f64).sin()).collect()
    }

    fn tangent(f: impl Fn(&[Dual<f64, 1>], &mut [Dual<f64, 1>]), x: &[f64], m: usize) -> Vec<f64> {
        let v = numbers(x.len(), 1.0);
        let point: Vec<_> = x.iter().zip(&v).map(|(&re, &v)| Dual { re, eps: [v] }).collect();
        let mut image = vec![Dual::ZERO; m];
        f(&point, &mut image);
        image.iter().map(|d| d.eps[0]).collect()
    }

    /// r'(J v) = (J' r)'v, to the rounding of both sums.
    fn check_adjoint(forward: &[f64], backward: &[f64], what: &str) {
        let (r, v) = (numbers(forward.len(), 2.0), numbers(backward.len(), 1.0));
        let dot = |a: &[f64], b: &[f64]| -> (f64, f64) {
            let products = a.iter().zip(b).map(|(a, b)| a * b);
            products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
        };
        let ((left, size), (right, other)) = (dot(&r, forward), dot(&v, backward));
        assert!((left - right).abs() <= 1e-13 * size.max(other), "{what}: {left} {right}");
        assert!(size > 0.0, "{what}");
    }

    #[test]
    fn every_built_in_system_passes_the_adjoint_test_under_every_integrator() {
        let step = Step { index: 7, time: 0.35, dt: 0.05 };
        for system in SYSTEMS {
            let mut spec = ModelSpec::parse(system.name, system.text).unwrap();
            let times = match spec.time {
                Time::Discrete => vec![Time::Discrete],
                _ => [(Integrator::Euler, 1), (Integrator::Rk4, 1), (Integrator::Rk4, 3)]
                    .map(|(method, substeps)| Time::Continuous { method, substeps })
                    .to_vec(),
            };
            let (n, m) = (spec.states.len(), spec.observations.len());
            let (x, u) = (numbers(n, 0.0), numbers(spec.inputs.len(), 3.0));
            for time in times {
                spec.time = time;
                let model = spec.compile();
                let forward = tangent(|x, out| model.transition(x, &u, &step, out), &x, n);
                let mut backward = vec![f64::NAN; n];
                let pull_back = model.transition_pull_back().unwrap();
                pull_back(&model, &x, &u, &step, &numbers(n, 2.0), &mut backward);
                check_adjoint(&forward, &backward, &format!("{} {time:?}", system.name));
            }
            let model = spec.compile();
            let forward = tangent(|x, out| model.observe(x, &u, &step, out), &x, m);
            let mut backward = vec![f64::NAN; n];
            let reverse = model.observation.reverse.as_ref().unwrap();
            reverse.eval_pull_back(&x, &numbers(m, 2.0), &environment(&u, &step), &mut backward);
            check_adjoint(&forward, &backward, system.name);
        }
    }

    #[test]
    fn a_gradient_is_at_most_four_times_the_instructions_of_an_evaluation() {
        for system in SYSTEMS {
            let model = ModelSpec::parse(system.name, system.text).unwrap().compile();
            for (what, equations) in
                [("dynamics", &model.dynamics), ("observation", &model.observation)]
            {
                // A copy of a state is work too, which the forward program does without an instruction.
                let forward = equations.forward.len().1.max(equations.forward.outputs());
                let reverse = equations.reverse.as_ref().unwrap().len().1;
                assert!(reverse <= 4 * forward, "{} {what}: {reverse} {forward}", system.name);
            }
        }
    }
}
