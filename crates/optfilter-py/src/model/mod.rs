//! One type for every model that Python can name: built-in systems, text, callables.
//!
//! Sizes are known at run time only. The two systems of the paper also have filters of fixed size
//! ([`crate::builder`]), which allocate nothing.

mod class;

pub(crate) use class::{CoreModel, built_in_systems};

use crate::callable::{CallableModel, Differentiable};
use nalgebra::Dyn;
use optfilter::derivative::{self, VectorFunction};
use optfilter::model::{
    Dynamics, Growth, Integrated, JacobianMut, Linear, Lorenz63, Lorenz96, Observation, RandomWalk,
    Step,
};
use optfilter::scalar::Scalar;
use optfilter_model::TextModel;
use std::sync::Arc;

/// A model of any kind.
#[derive(Clone, Debug)]
pub(crate) enum AnyModel {
    Growth(Growth),
    Lorenz63(Integrated<Lorenz63>),
    Lorenz96(Integrated<Lorenz96<Dyn>>),
    RandomWalk(RandomWalk<Dyn>),
    Linear(Arc<Linear<Dyn, Dyn>>),
    Text(Arc<TextModel>),
    Callable(Arc<CallableModel>),
}

impl AnyModel {
    /// Whether a step of the model runs Python code.
    pub(crate) fn is_python(&self) -> bool {
        matches!(self, Self::Callable(_))
    }

    /// Whether the model is known to be linear in the state.
    pub(crate) fn is_linear(&self) -> bool {
        match self {
            Self::Linear(_) | Self::RandomWalk(_) => true,
            Self::Text(model) => model.is_linear(),
            _ => false,
        }
    }
}

/// Calls the same method on every kind that implements the library's traits.
macro_rules! each {
    ($model:expr, $m:ident => $native:expr, $c:ident => $callable:expr) => {
        match $model {
            AnyModel::Growth($m) => $native,
            AnyModel::Lorenz63($m) => $native,
            AnyModel::Lorenz96($m) => $native,
            AnyModel::RandomWalk($m) => $native,
            AnyModel::Linear($m) => $native,
            AnyModel::Text($m) => $native,
            AnyModel::Callable($c) => $callable,
        }
    };
}

impl Dynamics for AnyModel {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        use nalgebra::Dim;
        each!(self, m => Dyn(m.state_dim().value()), c => Dyn(c.states))
    }
    fn input_dim(&self) -> usize {
        each!(self, m => m.input_dim(), c => c.inputs)
    }
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        each!(self, m => m.transition(x, u, step, out), c => c.transition.eval(x, u, step, out));
    }
    fn transition_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        each!(
            self,
            m => m.transition_jacobian(x, u, step, out),
            c => write_jacobian(&c.transition, x, u, step, c.states, out)
        )
    }
    fn is_state_angle(&self, component: usize) -> bool {
        each!(
            self,
            m => m.is_state_angle(component),
            c => c.state_angles.get(component).copied().unwrap_or(false)
        )
    }
}

impl Observation for AnyModel {
    type Output = Dyn;
    const HAS_PULL_BACK: bool = true;
    fn output_dim(&self) -> Dyn {
        use nalgebra::Dim;
        each!(self, m => Dyn(m.output_dim().value()), c => Dyn(c.outputs))
    }
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        each!(self, m => m.observe(x, u, step, out), c => c.observation.eval(x, u, step, out));
    }
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        each!(
            self,
            m => m.observation_jacobian(x, u, step, out),
            c => write_jacobian(&c.observation, x, u, step, c.outputs, out)
        )
    }
    fn pull_back<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]) {
        match self {
            Self::Growth(m) => m.pull_back(x, u, step, r, out),
            Self::Lorenz63(m) => m.pull_back(x, u, step, r, out),
            Self::Lorenz96(m) => m.pull_back(x, u, step, r, out),
            Self::RandomWalk(m) => m.pull_back(x, u, step, r, out),
            Self::Linear(m) => m.pull_back(x, u, step, r, out),
            Self::Callable(c) => c.observation.pull_back(x, u, step, r, out),
            Self::Text(model) => {
                let (n, m) = (Dyn(x.len()), Dyn(r.len()));
                let at = TextObservation { model, u, step };
                derivative::pull_back(&at, x, n, m, |_, target| target.copy_from_slice(r), out);
            }
        }
    }
    fn is_angle(&self, component: usize) -> bool {
        each!(
            self,
            m => m.is_angle(component),
            c => c.angles.get(component).copied().unwrap_or(false)
        )
    }
}

/// A text model's observation at a given input and step.
struct TextObservation<'a> {
    model: &'a TextModel,
    u: &'a [f64],
    step: &'a Step,
}

impl VectorFunction for TextObservation<'_> {
    fn eval<S: Scalar>(&self, x: &[S], out: &mut [S]) {
        self.model.observe(x, self.u, self.step, out);
    }
}

fn write_jacobian(
    function: &Differentiable,
    x: &[f64],
    u: &[f64],
    step: &Step,
    rows: usize,
    out: &mut JacobianMut<'_>,
) -> bool {
    let n = x.len();
    let mut target = vec![0.0; rows * n];
    function.jacobian_f64(x, u, step, rows, &mut target);
    for i in 0..rows {
        for j in 0..n {
            out[(i, j)] = target[i * n + j];
        }
    }
    true
}
