//! The implicit MAP filter: an optimizer and a number of steps are the filter (Algorithms 1 and 2).
//!
//! ```text
//! predict   m <- f(m)
//! update    K steps of the optimizer on l(x) = -ln p(y | h(x)), started at m
//! ```
//!
//! The likelihood alone is descended; the prior is in where the descent starts, how it steps and when
//! it stops. In a linear-Gaussian system this is a Kalman filter ([`crate::equivalence`]); elsewhere it
//! needs D numbers where a Gaussian filter needs D + D^2. Neither Q nor R is read.
//!
//! Reference: Bencomo, Snell and Griffiths 2024.

use super::{Belief, Filter, FilterError, Update};
use super::{check_inputs, check_len, check_measurement, residual, with_observed};
use crate::Shapes;
use crate::derivative;
use crate::model::likelihood::{Likelihood, Observed};
use crate::model::{Model, Observation, ObservationAt, Step};
use crate::optim::{Bounds, Objective, Optimizer, descend_within};
use crate::scalar::Scalar;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

/// Whether the optimizer remembers the measurement before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// Its state starts afresh at each time step, as in the paper.
    #[default]
    Restart,
    /// Its state is carried from one time step to the next.
    Carry,
}

/// The implicit MAP filter.
#[derive(Clone, Debug, PartialEq)]
pub struct ImplicitMap<M, L, O> {
    pub(crate) model: M,
    pub(crate) likelihood: L,
    pub(crate) optimizer: O,
    pub(crate) steps: u32,
    pub(crate) memory: Memory,
    pub(crate) bounds: Option<Bounds>,
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> ImplicitMap<M, L, O> {
    /// From a model, a likelihood, an optimizer and the number of steps K it takes per measurement.
    pub fn new(model: M, likelihood: L, optimizer: O, steps: u32) -> Result<Self, FilterError> {
        if steps == 0 {
            return Err(FilterError::Zero { argument: "steps" });
        }
        check_parts(&model, &likelihood, &optimizer, None)?;
        Ok(Self { model, likelihood, optimizer, steps, memory: Memory::Restart, bounds: None })
    }

    /// With the optimizer's state restarted or carried.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// With the state kept inside a box.
    pub fn with_bounds(mut self, bounds: Bounds) -> Result<Self, FilterError> {
        check_len("bounds", self.model.state_dim().value(), bounds.dim(), None)?;
        self.bounds = Some(bounds);
        Ok(self)
    }

    /// With another optimizer, for instance one made anew for each time step.
    pub fn set_optimizer(&mut self, optimizer: O) {
        self.optimizer = optimizer;
    }
}

/// A point estimate, with the optimizer's state where that is carried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "OVector<f64, N>: Serialize, T: Serialize",
    deserialize = "OVector<f64, N>: Deserialize<'de>, T: Deserialize<'de>"
))]
pub struct PointBelief<N: Dim, T>
where
    DefaultAllocator: Allocator<N>,
{
    /// The estimate.
    pub mean: OVector<f64, N>,
    pub(crate) optimizer_state: Option<T>,
}

impl<N: Dim, T> PointBelief<N, T>
where
    DefaultAllocator: Allocator<N>,
{
    /// From a finite estimate.
    pub fn new(mean: OVector<f64, N>) -> Result<Self, FilterError> {
        if let Some(component) = mean.iter().position(|v| !v.is_finite()) {
            return Err(FilterError::NotFinite {
                argument: "initial mean",
                component,
                index: None,
            });
        }
        Ok(Self { mean, optimizer_state: None })
    }
}

impl<N: Dim, T: Clone> Belief<N> for PointBelief<N, T>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    fn mean(&self) -> OVector<f64, N> {
        self.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        None
    }
}

/// -ln p(y | h(x)) as a function of the state.
pub(crate) struct MeasurementLoss<'a, M, L, S> {
    pub(crate) model: &'a M,
    pub(crate) likelihood: &'a L,
    pub(crate) y: &'a [S],
    pub(crate) u: &'a [f64],
    pub(crate) step: &'a Step,
    pub(crate) observed: Observed<'a>,
}

impl<M: Model, L: Likelihood, S: Scalar> MeasurementLoss<'_, M, L, S>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    /// Calls `f` with the measurement, angles turned to within half a turn of the prediction.
    #[inline(always)]
    fn with_turned<R>(&self, eta: &[S], f: impl FnOnce(&[S]) -> R) -> R {
        let m = self.model.output_dim();
        if !(0..m.value()).any(|i| self.model.is_angle(i)) {
            return f(self.y);
        }
        let mut turned = OVector::<S, M::Output>::from_element_generic(m, U1, S::ZERO);
        for i in 0..m.value() {
            let y = self.y[i];
            turned[i] = if self.model.is_angle(i) { eta[i] + (y - eta[i]).wrap_angle() } else { y };
        }
        f(turned.as_slice())
    }

    #[inline(always)]
    fn eta(&self, x: &[S]) -> OVector<S, M::Output> {
        let mut eta = OVector::from_element_generic(self.model.output_dim(), U1, S::ZERO);
        self.model.observe(x, self.u, self.step, eta.as_mut_slice());
        eta
    }

    #[inline(always)]
    fn score(&self, eta: &[S], out: &mut [S]) {
        self.with_turned(
            eta,
            #[inline(always)]
            |y| self.likelihood.score(y, eta, self.observed, out),
        );
    }
}

impl<M: Model, L: Likelihood, S: Scalar> Objective<S> for MeasurementLoss<'_, M, L, S>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    #[inline(always)]
    fn value(&mut self, x: &[S]) -> S {
        let eta = self.eta(x);
        self.with_turned(eta.as_slice(), |y| self.likelihood.loss(y, eta.as_slice(), self.observed))
    }

    #[inline(always)]
    fn gradient(&mut self, x: &[S], out: &mut [S]) {
        if M::HAS_PULL_BACK {
            let eta = self.eta(x);
            let mut r = eta.clone();
            self.score(eta.as_slice(), r.as_mut_slice());
            self.model.pull_back(x, self.u, self.step, r.as_slice(), out);
            return;
        }
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        let at = ObservationAt { observation: self.model, u: self.u, step: self.step };
        derivative::pull_back(
            &at,
            x,
            n,
            m,
            #[inline(always)]
            |eta, r| self.score(eta, r),
            out,
        );
    }
}

/// Checks that a likelihood and an optimizer that are made for a certain size are made for the model's.
#[inline(always)]
pub(crate) fn check_parts<M: Model, L: Likelihood, O: Optimizer<f64>>(
    model: &M,
    likelihood: &L,
    optimizer: &O,
    index: Option<u64>,
) -> Result<(), FilterError> {
    if let Some(dim) = likelihood.dim() {
        check_len("likelihood", model.output_dim().value(), dim, index)?;
    }
    if let Some(dim) = optimizer.dim() {
        check_len("learning-rate matrix", model.state_dim().value(), dim, index)?;
    }
    Ok(())
}

/// Checks that a measurement can occur at all.
#[inline(always)]
pub(crate) fn check_possible<L: Likelihood>(
    likelihood: &L,
    y: &[f64],
    observed: Observed<'_>,
    step: &Step,
) -> Result<(), FilterError> {
    for component in observed.indices(y.len()) {
        if !likelihood.admits(component, y[component]) {
            return Err(FilterError::Impossible {
                index: step.index,
                component,
                value: y[component],
            });
        }
    }
    Ok(())
}

/// The update in any scalar: K optimizer steps on the measurement's loss, from `x`.
#[inline(always)]
pub(crate) fn refine<S, M, L, O>(
    optimizer: &O,
    steps: u32,
    bounds: Option<&Bounds>,
    mut loss: MeasurementLoss<'_, M, L, S>,
    x: &mut OVector<S, M::State>,
    state: &mut O::State<OVector<S, M::State>>,
) where
    S: Scalar,
    M: Model,
    L: Likelihood,
    O: Optimizer<S>,
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    descend_within(optimizer, &mut loss, x, state, steps, bounds);
}

/// h at the current estimate.
#[inline(always)]
pub(crate) fn predicted_measurement<O: Observation>(
    observation: &O,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> OVector<f64, O::Output>
where
    DefaultAllocator: Allocator<O::Output>,
{
    let mut predicted = OVector::zeros_generic(observation.output_dim(), U1);
    observation.observe(x, u, step, predicted.as_mut_slice());
    predicted
}

impl<M: Model, L: Likelihood, O: Optimizer<f64>> Filter for ImplicitMap<M, L, O>
where
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = PointBelief<M::State, O::State<OVector<f64, M::State>>>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        (self.model.state_dim(), self.model.output_dim(), self.model.input_dim())
    }

    #[inline]
    fn predict(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        check_inputs(self.model.input_dim(), u, step)?;
        check_len("belief", self.model.state_dim().value(), belief.mean.nrows(), Some(step.index))?;
        let mut mean = OVector::zeros_generic(self.model.state_dim(), U1);
        self.model.transition(belief.mean.as_slice(), u, step, mean.as_mut_slice());
        if !mean.iter().all(|v| v.is_finite()) {
            let last_good = belief.mean.as_slice().to_vec();
            return Err(FilterError::Diverged {
                index: step.index,
                quantity: "prediction",
                last_good,
            });
        }
        belief.mean = mean;
        Ok(())
    }

    #[inline]
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        let m = self.model.output_dim();
        check_measurement(m.value(), self.model.input_dim(), y, u, step)?;
        check_len("belief", self.model.state_dim().value(), belief.mean.nrows(), Some(step.index))?;
        // The optimizer may have been exchanged since the filter was made.
        check_parts(&self.model, &self.likelihood, &self.optimizer, Some(step.index))?;
        with_observed(
            m,
            y,
            #[inline(always)]
            |observed: Observed<'_>| {
                let count = observed.count(y.len());
                if count == 0 {
                    return Ok(Update::nothing(m, false));
                }
                check_possible(&self.likelihood, y, observed, step)?;
                let predicted = predicted_measurement(&self.model, belief.mean.as_slice(), u, step);
                let innovation = residual(&self.model, y, &predicted, observed);
                let mut x = belief.mean.clone();
                let mut state = match (self.memory, belief.optimizer_state.take()) {
                    (Memory::Carry, Some(state)) => state,
                    _ => self.optimizer.init(&x),
                };
                let loss = MeasurementLoss {
                    model: &self.model,
                    likelihood: &self.likelihood,
                    y,
                    u,
                    step,
                    observed,
                };
                refine(&self.optimizer, self.steps, self.bounds.as_ref(), loss, &mut x, &mut state);
                if !x.iter().all(|v| v.is_finite()) {
                    // The belief stays at the prediction, which was the last good state.
                    let last_good = belief.mean.as_slice().to_vec();
                    return Err(FilterError::Diverged {
                        index: step.index,
                        quantity: "estimate",
                        last_good,
                    });
                }
                belief.mean = x;
                belief.optimizer_state = (self.memory == Memory::Carry).then_some(state);
                Ok(Update {
                    innovation,
                    innovation_cov: None,
                    log_likelihood: None,
                    nis: None,
                    observed: count,
                })
            },
        )
    }
}
