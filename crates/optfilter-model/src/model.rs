//! A model from a file, as the library's traits.

use crate::expr::{Environment, Program, Stencil};
use crate::file::{ModelSpec, Time};
use nalgebra::{DMatrix, DVector, Dyn};
use optfilter::model::integrator::DriftVjp;
use optfilter::model::{
    Drift, Dynamics, Integrated, Integrator, Linear, Observation, Step, Stretch, Vjp,
    transition_vjp_of,
};
use optfilter::scalar::Scalar;
use optfilter_run::{RunModel, TimeDependence};
use std::f64::consts::TAU;
use std::sync::Arc;

/// The compiled equations of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct TextModel {
    states: usize,
    inputs: usize,
    outputs: usize,
    dynamics: Equations,
    time: Time,
    observation: Equations,
    /// The observation before its links, and which components have one; `None` if none has.
    canonical: Option<Arc<(Equations, Vec<bool>)>>,
    /// The length of a whole turn of each state and measurement that is an angle.
    state_angles: Vec<Option<f64>>,
    observation_angles: Vec<Option<f64>>,
    /// Whether every equation is a sum of states times numbers that do not depend on the state.
    linear: bool,
    /// Whether those numbers depend on nothing but the length of a step, and inputs are added times such numbers.
    invariant: bool,
    pace: TimeDependence,
    /// How the noise of states and measurements varies, where it does.
    process_laws: Option<Arc<Laws>>,
    measurement_laws: Option<Arc<Laws>>,
    /// A linear differential equation with constant coefficients; its last input is 1 where there is a constant term.
    exact: Option<Arc<Linear<Dyn, Dyn>>>,
}

/// Compiled equations and their transposed Jacobian.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // a model has two of these
pub(crate) enum Equations {
    /// One after the other, with shared parts.
    Listed { forward: Program, reverse: Option<Program> },
    /// Over the indices of fields.
    Fields(Vec<Stencil>),
}

impl Equations {
    #[inline]
    fn eval<S: Scalar>(&self, x: &[S], env: &Environment<'_>, out: &mut [S]) {
        match self {
            Self::Listed { forward, .. } => forward.eval(x, env, out),
            Self::Fields(stencils) => stencils.iter().for_each(|s| s.eval(x, env, out)),
        }
    }

    fn has_reverse(&self) -> bool {
        match self {
            Self::Listed { reverse, .. } => reverse.is_some(),
            Self::Fields(stencils) => stencils.iter().all(Stencil::has_reverse),
        }
    }

    #[inline]
    fn vjp<S: Scalar>(&self, x: &[S], r: &[S], env: &Environment<'_>, out: &mut [S]) {
        match self {
            Self::Listed { reverse: Some(reverse), .. } => reverse.eval_pull_back(x, r, env, out),
            Self::Listed { .. } => {}
            Self::Fields(stencils) => {
                out.fill(S::ZERO);
                stencils.iter().for_each(|s| s.vjp(x, r, env, out));
            }
        }
    }
}

/// Spreads of noise as a program.
#[derive(Debug, PartialEq)]
pub(crate) struct Laws {
    pub(crate) program: Program,
    /// The component of each, and whether it is a variance.
    pub(crate) of: Vec<(usize, bool)>,
}

impl Laws {
    /// What the expressions are in a row.
    pub(crate) fn values(&self, u: &[f64], step: &Step) -> Vec<f64> {
        let mut values = vec![0.0; self.of.len()];
        self.program.eval::<f64>(&[], &environment(u, step), &mut values);
        values
    }

    /// Writes the standard deviations that a row has; NaN, which no filter takes, where an expression is negative.
    fn write(&self, u: &[f64], step: &Step, out: &mut [f64]) {
        for ((place, squared), value) in self.of.iter().zip(self.values(u, step)) {
            if let Some(out) = out.get_mut(*place) {
                *out = match () {
                    () if value < 0.0 => f64::NAN,
                    () if *squared => value.sqrt(),
                    () => value,
                };
            }
        }
    }
}

/// Equations, and what is known of them.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) equations: Equations,
    /// Whether each is a sum of states times numbers that do not depend on the state.
    pub(crate) linear: bool,
    /// Whether each is a constant plus a sum of states and inputs times constants; not asked of fields, whose
    /// solution would be a matrix.
    pub(crate) time_invariant: bool,
    /// The same with constants that may depend on the length of a step, and of fields too.
    pub(crate) row_invariant: bool,
    /// Whether one depends on the length of a step.
    pub(crate) reads_interval: bool,
    /// Whether each is the state that it is for.
    pub(crate) still: bool,
}

/// Up to as many states, the gradient of an observation is one sweep of duals, which is as fast.
const ONE_SWEEP: usize = 8;

impl TextModel {
    /// The first expression of noise that is no spread in a row: whether it is of the measurements, its number among the
    /// laws of that table, and its value.
    pub(crate) fn broken_law(&self, u: &[f64], step: &Step) -> Option<(bool, usize, f64)> {
        let tables = [(false, &self.process_laws), (true, &self.measurement_laws)];
        tables.into_iter().find_map(|(measured, laws)| {
            let values = laws.as_ref()?.values(u, step);
            let at = values.iter().position(|v| !(*v >= 0.0 && v.is_finite()))?;
            Some((measured, at, *values.get(at)?))
        })
    }

    pub(crate) fn new(
        spec: &ModelSpec,
        dynamics: Compiled,
        observation: Compiled,
        canonical: Option<Arc<(Equations, Vec<bool>)>>,
        [process_laws, measurement_laws]: [Option<Arc<Laws>>; 2],
    ) -> Self {
        let exact =
            matches!(spec.time, Time::Continuous { method: None, .. }) && dynamics.time_invariant;
        let pace = match spec.time {
            Time::Continuous { .. } => TimeDependence::Time,
            Time::Discrete if dynamics.reads_interval => TimeDependence::Time,
            Time::Discrete if dynamics.still => TimeDependence::Still,
            Time::Discrete => TimeDependence::Rows,
        };
        let mut made = Self {
            states: spec.states.len(),
            inputs: spec.inputs.len(),
            outputs: spec.observations.len(),
            linear: dynamics.linear && observation.linear,
            invariant: dynamics.row_invariant && observation.row_invariant,
            dynamics: dynamics.equations,
            time: spec.time,
            observation: observation.equations,
            canonical,
            state_angles: turns(&spec.state_angles, &spec.state_turns),
            observation_angles: turns(&spec.observation_angles, &spec.observation_turns),
            pace,
            process_laws,
            measurement_laws,
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

    /// Whether the model is linear with coefficients that depend on nothing but the length of a step, and without angles.
    pub(crate) fn is_invariant(&self) -> bool {
        let turns = (0..self.states).any(|i| self.is_state_angle(i));
        self.linear && self.invariant && !turns && !(0..self.outputs).any(|i| self.is_angle(i))
    }

    /// Whether the dynamics are a linear differential equation that is solved exactly.
    pub(crate) fn is_solved(&self) -> bool {
        self.exact.is_some()
    }

    /// Writes the rate of change of a state, where the dynamics are one that does not depend on time.
    pub(crate) fn rate<S: Scalar>(&self, x: &[S], u: &[f64], out: &mut [S]) {
        self.dynamics.eval(x, &at(u, 0.0), out);
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

    fn transition_reversed<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        r: &[S],
        out: &mut [S],
    ) {
        if let Some(exact) = &self.exact {
            return with_constant(exact, u, |u| {
                transition_vjp_of(&**exact, x, u, step, r, out);
            });
        }
        match self.time {
            Time::Discrete => self.dynamics.vjp(x, r, &environment(u, step), out),
            Time::Continuous { method, substeps } => {
                let model = integrated(Rate { model: self }, method, substeps);
                if let Some(vjp) = model.transition_vjp() {
                    vjp(&model, x, u, step, r, out);
                }
            }
        }
    }
}

/// The length of a whole turn of each component that is an angle.
fn turns(angles: &[bool], turns: &[f64]) -> Vec<Option<f64>> {
    angles.iter().zip(turns).map(|(angle, turn)| angle.then_some(*turn)).collect()
}

/// Calls with the inputs of an exact solution, the last of which may be 1.
#[inline]
fn with_constant(exact: &Linear<Dyn, Dyn>, u: &[f64], call: impl FnOnce(&[f64])) {
    if exact.input_dim() == u.len() {
        return call(u);
    }
    let mut u = u.to_vec();
    u.push(1.0);
    call(&u);
}

fn integrated<D>(drift: D, method: Option<Integrator>, substeps: u32) -> Integrated<D> {
    Integrated { drift, method: method.unwrap_or(Integrator::Rk4), substeps }
}

fn environment<'a>(u: &'a [f64], step: &Step) -> Environment<'a> {
    Environment { u, t: step.time, dt: step.dt, k: step.index as f64 }
}

/// The right-hand side of a differential equation from a file.
struct Rate<'a> {
    model: &'a TextModel,
}

/// What a rate of change may refer to: it has no step.
fn at(u: &[f64], time: f64) -> Environment<'_> {
    Environment { u, t: time, dt: f64::NAN, k: f64::NAN }
}

impl Drift for Rate<'_> {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(self.model.states)
    }
    #[inline]
    fn drift<S: Scalar>(&self, x: &[S], u: &[f64], time: f64, out: &mut [S]) {
        self.model.dynamics.eval(x, &at(u, time), out);
    }
    fn drift_vjp<S: Scalar>(&self) -> Option<DriftVjp<Self, S>> {
        let vjp: DriftVjp<Self, S> =
            |rate, x, u, time, r, out| rate.model.dynamics.vjp(x, r, &at(u, time), out);
        self.model.dynamics.has_reverse().then_some(vjp)
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
        if let Some(exact) = &self.exact {
            return with_constant(exact, u, |u| exact.transition(x, u, step, out));
        }
        match self.time {
            Time::Discrete => self.dynamics.eval(x, &environment(u, step), out),
            Time::Continuous { method, substeps } => {
                integrated(Rate { model: self }, method, substeps).transition(x, u, step, out);
            }
        }
    }
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        self.dynamics.has_reverse().then_some(Self::transition_reversed)
    }
    fn is_state_angle(&self, component: usize) -> bool {
        self.state_angles.get(component).is_some_and(Option::is_some)
    }
    fn state_turn(&self, component: usize) -> f64 {
        self.state_angles.get(component).copied().flatten().unwrap_or(TAU)
    }
    fn process_stretch(&self) -> Option<Stretch<Self>> {
        self.process_laws.as_ref()?;
        Some(|model, u, step, out| {
            model.process_laws.iter().for_each(|laws| laws.write(u, step, out));
        })
    }
}

impl Observation for TextModel {
    type Output = Dyn;
    fn output_dim(&self) -> Dyn {
        Dyn(self.outputs)
    }
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.observation.eval(x, &environment(u, step), out);
    }
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        let vjp: Vjp<Self, S> = |model, x, u, step, r, out| {
            model.observation.vjp(x, r, &environment(u, step), out);
        };
        (self.states > ONE_SWEEP && self.observation.has_reverse()).then_some(vjp)
    }
    fn is_angle(&self, component: usize) -> bool {
        self.observation_angles.get(component).is_some_and(Option::is_some)
    }
    fn turn(&self, component: usize) -> f64 {
        self.observation_angles.get(component).copied().flatten().unwrap_or(TAU)
    }
    fn measurement_stretch(&self) -> Option<Stretch<Self>> {
        self.measurement_laws.as_ref()?;
        Some(|model, u, step, out| {
            model.measurement_laws.iter().for_each(|laws| laws.write(u, step, out));
        })
    }
}

impl RunModel for TextModel {
    fn is_linear(&self) -> bool {
        self.linear
    }

    fn canonical(&self) -> Option<(Self, Vec<bool>)> {
        let (observation, linked) = &**self.canonical.as_ref()?;
        let model = Self { observation: observation.clone(), canonical: None, ..self.clone() };
        Some((model, linked.clone()))
    }

    fn pace(&self) -> TimeDependence {
        self.pace
    }

    fn drift(&self) -> Option<DMatrix<f64>> {
        self.exact.as_ref()?.drift().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::SYSTEMS;
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
        let step = Step::even(7, 0.05);
        for system in SYSTEMS {
            let mut spec = ModelSpec::parse(system.name, system.text).unwrap();
            let times = match spec.time {
                Time::Discrete => vec![Time::Discrete],
                _ => [
                    (None, 1),
                    (Some(Integrator::Euler), 1),
                    (Some(Integrator::Rk4), 1),
                    (Some(Integrator::Rk4), 3),
                ]
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
                let vjp = model.transition_vjp().unwrap();
                vjp(&model, &x, &u, &step, &numbers(n, 2.0), &mut backward);
                check_adjoint(&forward, &backward, &format!("{} {time:?}", system.name));
            }
            let model = spec.compile();
            let forward = tangent(|x, out| model.observe(x, &u, &step, out), &x, m);
            let mut backward = vec![f64::NAN; n];
            let env = environment(&u, &step);
            model.observation.vjp(&x, &numbers(m, 2.0), &env, &mut backward);
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
                let Equations::Listed { forward, reverse } = equations else { continue };
                // A copy of a state is work too, which the forward program does without an instruction.
                let forward = forward.len().1.max(forward.outputs());
                let reverse = reverse.as_ref().unwrap().len().1;
                assert!(reverse <= 4 * forward, "{} {what}: {reverse} {forward}", system.name);
            }
        }
    }
}
