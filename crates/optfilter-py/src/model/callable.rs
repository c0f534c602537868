//! A model of Python callables as the library's traits.

use crate::callable::{CallableModel, Differentiable};
use crate::extra::Extra;
use nalgebra::Dyn;
use optfilter::model::{Dynamics, JacobianMut, Jvp, Observation, Step, Vjp};
use optfilter::scalar::Scalar;
use optfilter_run::{RunModel, TimeDependence};

impl Dynamics for CallableModel {
    type State = Dyn;
    fn state_dim(&self) -> Dyn {
        Dyn(self.states)
    }
    fn input_dim(&self) -> usize {
        self.inputs
    }
    fn transition<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.transition.eval(x, u, step, out);
    }
    fn transition_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        self.transition.many(points, (self.states, self.states), u, step)
    }
    fn transition_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        write_jacobian(&self.transition, x, u, step, self.states, out)
    }
    fn transition_vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(|model, x, u, step, r, out| model.transition.vjp(x, u, step, r, out))
    }
    fn transition_jvp(&self) -> Option<Jvp<Self>> {
        Some(|model, x, u, step, v, out| model.transition.jvp(x, u, step, v, out))
    }
    fn is_state_angle(&self, component: usize) -> bool {
        self.state_angles.get(component).copied().unwrap_or(false)
    }
}

impl Observation for CallableModel {
    type Output = Dyn;
    fn output_dim(&self) -> Dyn {
        Dyn(self.outputs)
    }
    fn observe<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.observation.eval(x, u, step, out);
    }
    fn observe_many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        self.observation.many(points, (self.states, self.outputs), u, step)
    }
    fn observation_jacobian(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        write_jacobian(&self.observation, x, u, step, self.outputs, out)
    }
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(|model, x, u, step, r, out| model.observation.vjp(x, u, step, r, out))
    }
    fn jvp(&self) -> Option<Jvp<Self>> {
        Some(|model, x, u, step, v, out| model.observation.jvp(x, u, step, v, out))
    }
    fn is_angle(&self, component: usize) -> bool {
        self.angles.get(component).copied().unwrap_or(false)
    }
}

impl RunModel for CallableModel {
    fn pace(&self) -> TimeDependence {
        match self.transition.value.extras.contains(&Extra::Interval) {
            true => TimeDependence::Time,
            false => TimeDependence::Rows,
        }
    }
    fn is_foreign(&self) -> bool {
        true
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
