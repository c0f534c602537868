//! A model file as a family of models: its free parameters are further states that stay where they are.
//!
//! So one compiled program serves every value of them, in every scalar; the filter sees the states alone.

use super::quantity::{Quantity, Target};
use crate::expr;
use crate::file::{Equation, ModelSpec, Time};
use crate::model::TextModel;
use optfilter::filter::evidence::Family;
use optfilter::model::{Dynamics, Observation, Step};
use optfilter::scalar::Scalar;
use optfilter_run::SpecError;

/// The models of a file.
#[derive(Clone, Debug)]
pub(crate) struct TextFamily {
    model: TextModel,
    states: usize,
    /// How many parameters are free.
    free: usize,
    exact: bool,
    invariant: bool,
}

impl TextFamily {
    /// With those quantities free that are parameters, in their order.
    pub(crate) fn new(spec: &ModelSpec, quantities: &[Quantity]) -> Result<Self, SpecError> {
        let places: Vec<usize> = quantities
            .iter()
            .filter_map(|q| if let Target::Parameter(i) = q.target { Some(i) } else { None })
            .collect();
        if !places.is_empty() && !spec.fields.is_empty() {
            let message = "parameters of a model with indexed states cannot be estimated; its noise and its start can";
            return Err(SpecError::new(message));
        }
        // Of the model as it is: in the wider one a parameter times a state is a product of states.
        let plain = spec.compile();
        let (exact, invariant) = (plain.is_solved(), plain.is_invariant());
        let mut wider = spec.clone();
        for &place in &places {
            let name = &spec.parameters[place].0;
            let text = if spec.time == Time::Discrete { name.clone() } else { "0".to_owned() };
            let ast = expr::parse(&text).map_err(|e| SpecError::new(e.message))?;
            wider.dynamics.push(Equation { text, ast, over: Vec::new() });
            wider.states.push(name.clone());
            wider.state_angles.push(false);
            wider.state_turns.push(std::f64::consts::TAU);
        }
        let is_free = |name: &str| places.iter().any(|&i| spec.parameters[i].0 == *name);
        wider.parameters.retain(|(name, _)| !is_free(name));
        let states = spec.states.len();
        Ok(Self { model: wider.compile(), states, free: places.len(), exact, invariant })
    }

    /// Calls with the parameters as further states.
    fn wider<S: Scalar>(
        &self,
        theta: &[S],
        x: &[S],
        out: &mut [S],
        call: impl FnOnce(&[S], &mut [S]),
    ) {
        if self.free == 0 {
            return call(x, out);
        }
        let point: Vec<S> = x.iter().chain(theta).copied().collect();
        let mut image = vec![S::ZERO; self.states + self.free];
        call(&point, &mut image);
        out.copy_from_slice(&image[..self.states]);
    }
}

impl Family for TextFamily {
    fn dims(&self) -> (usize, usize) {
        (self.states, self.model.outputs())
    }
    fn input_dim(&self) -> usize {
        self.model.inputs()
    }
    fn transition<S: Scalar>(&self, theta: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        self.wider(theta, x, out, |x, out| self.model.transition(x, u, step, out));
    }
    fn observe<S: Scalar>(&self, theta: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        if self.free == 0 {
            return self.model.observe(x, u, step, out);
        }
        let point: Vec<S> = x.iter().chain(theta).copied().collect();
        self.model.observe(&point, u, step, out);
    }
    fn is_exact(&self) -> bool {
        self.exact
    }
    fn is_invariant(&self) -> bool {
        self.invariant
    }
    fn rate<S: Scalar>(&self, theta: &[S], x: &[S], u: &[f64], out: &mut [S]) {
        self.wider(theta, x, out, |x, out| self.model.rate(x, u, out));
    }
    fn state_angle(&self, component: usize) -> Option<f64> {
        self.model.is_state_angle(component).then(|| self.model.state_turn(component))
    }
    fn angle(&self, component: usize) -> Option<f64> {
        self.model.is_angle(component).then(|| self.model.turn(component))
    }
}
