//! The models that Python can name, each with its methods.

use crate::callable::{CallableModel, Differentiable};
use crate::extra::Extra;
use nalgebra::{DMatrix, Dyn};
use optfilter::model::{
    Dynamics, Growth, Integrated, JacobianMut, Linear, Lorenz63, Lorenz96, Observation, PullBack,
    PushForward, RandomWalk, Step, Stretch,
};
use optfilter::scalar::Scalar;
use optfilter::simd::dispatch;
use optfilter_model::TextModel;
use optfilter_run::{Pace, RunModel, Size};
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

    /// A linear model that steps many series at once. The choice among the kinds is made out of the vector unit; products of lanes
    /// should be in it.
    fn lanes_of<S: Scalar>(&self) -> Option<&Linear<Dyn, Dyn>> {
        match self {
            Self::Linear(linear) if S::MANY && !S::DIFFERENTIAL => Some(linear),
            _ => None,
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
        if let Some(linear) = self.lanes_of::<S>() {
            return dispatch(
                #[inline(always)]
                || linear.transition(x, u, step, out),
            );
        }
        each!(self, m => m.transition(x, u, step, out), c => c.transition.eval(x, u, step, out));
    }
    fn transition_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        let Self::Callable(c) = self else { return None };
        c.transition.many(points, (c.states, c.states), u, step)
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
    fn transition_pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        let has = each!(self, m => m.transition_pull_back::<S>().is_some(), _c => true);
        let pull_back: PullBack<Self, S> = |model, x, u, step, r, out| {
            each!(
                model,
                m => if let Some(own) = m.transition_pull_back() {
                    own(m, x, u, step, r, out);
                },
                c => c.transition.pull_back(x, u, step, r, out)
            );
        };
        has.then_some(pull_back)
    }
    fn transition_push_forward(&self) -> Option<PushForward<Self>> {
        let has = each!(self, m => m.transition_push_forward().is_some(), _c => true);
        let push_forward: PushForward<Self> = |model, x, u, step, v, out| {
            each!(
                model,
                m => if let Some(own) = m.transition_push_forward() {
                    own(m, x, u, step, v, out);
                },
                c => c.transition.push_forward(x, u, step, v, out)
            );
        };
        has.then_some(push_forward)
    }
    fn is_state_angle(&self, component: usize) -> bool {
        each!(
            self,
            m => m.is_state_angle(component),
            c => c.state_angles.get(component).copied().unwrap_or(false)
        )
    }
    fn state_turn(&self, component: usize) -> f64 {
        each!(self, m => m.state_turn(component), _c => std::f64::consts::TAU)
    }
    fn process_stretch(&self) -> Option<Stretch<Self>> {
        let Self::Text(text) = self else { return None };
        text.process_stretch()?;
        Some(|model, u, step, out| {
            if let Self::Text(text) = model
                && let Some(write) = text.process_stretch()
            {
                write(text, u, step, out);
            }
        })
    }
}

impl Observation for AnyModel {
    type Output = Dyn;
    fn output_dim(&self) -> Dyn {
        use nalgebra::Dim;
        each!(self, m => Dyn(m.output_dim().value()), c => Dyn(c.outputs))
    }
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        if let Some(linear) = self.lanes_of::<S>() {
            return dispatch(
                #[inline(always)]
                || linear.observe(x, u, step, out),
            );
        }
        each!(self, m => m.observe(x, u, step, out), c => c.observation.eval(x, u, step, out));
    }
    fn observe_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        let Self::Callable(c) = self else { return None };
        c.observation.many(points, (c.states, c.outputs), u, step)
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
    fn pull_back<S: Scalar>(&self) -> Option<PullBack<Self, S>> {
        // A model of text has none, and is filtered as what it is, not as this.
        if matches!(self, Self::Text(_)) {
            return None;
        }
        Some(|model, x, u, step, r, out| match model {
            Self::Growth(m) => apply(m, x, u, step, r, out),
            Self::Lorenz63(m) => apply(m, x, u, step, r, out),
            Self::Lorenz96(m) => apply(m, x, u, step, r, out),
            Self::RandomWalk(m) => apply(m, x, u, step, r, out),
            Self::Linear(m) => apply(&**m, x, u, step, r, out),
            Self::Callable(c) => c.observation.pull_back(x, u, step, r, out),
            Self::Text(_) => {}
        })
    }
    fn push_forward(&self) -> Option<PushForward<Self>> {
        let has = each!(self, m => m.push_forward().is_some(), _c => true);
        let push_forward: PushForward<Self> = |model, x, u, step, v, out| {
            each!(
                model,
                m => if let Some(own) = m.push_forward() {
                    own(m, x, u, step, v, out);
                },
                c => c.observation.push_forward(x, u, step, v, out)
            );
        };
        has.then_some(push_forward)
    }
    fn is_angle(&self, component: usize) -> bool {
        each!(
            self,
            m => m.is_angle(component),
            c => c.angles.get(component).copied().unwrap_or(false)
        )
    }
    fn turn(&self, component: usize) -> f64 {
        each!(self, m => m.turn(component), _c => std::f64::consts::TAU)
    }
    fn measurement_stretch(&self) -> Option<Stretch<Self>> {
        let Self::Text(text) = self else { return None };
        text.measurement_stretch()?;
        Some(|model, u, step, out| {
            if let Self::Text(text) = model
                && let Some(write) = text.measurement_stretch()
            {
                write(text, u, step, out);
            }
        })
    }
}

/// A model's own pull-back.
fn apply<M: Observation, S: Scalar>(
    model: &M,
    x: &[S],
    u: &[f64],
    step: &Step,
    r: &[S],
    out: &mut [S],
) {
    if let Some(pull_back) = model.pull_back() {
        pull_back(model, x, u, step, r, out);
    }
}

impl RunModel for AnyModel {
    /// The two systems of the paper, which allocate nothing. Not in tests, where compiling them takes longer than all of Python's: the same
    /// source is tested at these sizes below.
    const SIZES: &'static [Size] =
        if cfg!(debug_assertions) { &[] } else { &[(1, 1, true), (3, 3, true)] };

    fn is_linear(&self) -> bool {
        match self {
            Self::Linear(_) | Self::RandomWalk(_) => true,
            Self::Text(model) => model.is_linear(),
            _ => false,
        }
    }

    fn pace(&self) -> Pace {
        each!(
            self,
            m => m.pace(),
            c => match c.transition.value.extras.contains(&Extra::Interval) {
                true => Pace::Time,
                false => Pace::Rows,
            }
        )
    }

    fn drift(&self) -> Option<DMatrix<f64>> {
        match self {
            Self::Linear(model) => model.drift().cloned(),
            Self::Text(model) => model.drift(),
            _ => None,
        }
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
