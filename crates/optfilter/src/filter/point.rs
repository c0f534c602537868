//! Point estimates, and the loss that is descended from them.

use super::traits::{Belief, is_sane};
use crate::derivative;
use crate::error::{FilterError, check_len};
use crate::model::likelihood::{Likelihood, Observed};
use crate::model::stretch::{measurement_factors, shrink};
use crate::model::{Dynamics, Model, Observation, ObservationAt, Step};
use crate::optim::{Bounds, Objective, Optimizer, descend_past_gap};
use crate::scalar::Scalar;
use crate::scratch::{Scratch, is_long, vector};
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};
use serde::{Deserialize, Serialize};

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
    const HAS_COV: bool = false;
    fn mean(&self) -> OVector<f64, N> {
        self.mean.clone()
    }
    fn cov(&self) -> Option<OMatrix<f64, N, N>> {
        None
    }
    #[inline(always)]
    fn check_dim(&self, n: usize, index: u64) -> Result<(), FilterError> {
        check_len("belief", n, self.mean.nrows(), Some(index))
    }
    fn confine(&mut self, bounds: &Bounds) {
        bounds.project(self.mean.as_mut_slice());
    }
    #[inline(always)]
    fn flaw(&self) -> Option<&'static str> {
        (!is_sane(self.mean.as_slice())).then_some("estimate")
    }
}

/// f at the current estimate.
#[inline(always)]
pub(crate) fn moved<D: Dynamics>(
    dynamics: &D,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> OVector<f64, D::State>
where
    DefaultAllocator: Allocator<D::State>,
{
    let mut out = vector(dynamics.state_dim());
    dynamics.transition(x, u, step, out.as_mut_slice());
    out
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
    /// The factors on the likelihood's scale in this row.
    #[inline(always)]
    fn stretch(&self) -> Option<OVector<f64, M::Output>> {
        match self.likelihood.has_scale() {
            true => measurement_factors(self.model, self.u, self.step),
            false => None,
        }
    }

    /// The measurement and eta as the likelihood takes them, unless that is as they are.
    #[inline(always)]
    fn in_units(&self, eta: &[S]) -> Option<InUnits<S, M::Output>> {
        let m = self.model.output_dim();
        let factors = self.stretch();
        let mut angles = false;
        for i in 0..m.value() {
            angles |= self.model.is_angle(i);
        }
        if factors.is_none() && !angles {
            return None;
        }
        let mut y = OVector::<S, M::Output>::from_element_generic(m, U1, S::ZERO);
        let mut expected = y.clone();
        for i in 0..m.value() {
            expected[i] = eta[i];
            y[i] = match self.model.is_angle(i) {
                true => eta[i] + (self.y[i] - eta[i]).wrap(self.model.turn(i)),
                false => self.y[i],
            };
        }
        if let Some(factors) = &factors {
            shrink(y.as_mut_slice(), factors.as_slice());
            shrink(expected.as_mut_slice(), factors.as_slice());
        }
        Some(InUnits { y, eta: expected, factors })
    }

    #[inline(always)]
    fn eta(&self, x: &[S]) -> OVector<S, M::Output> {
        let mut eta = OVector::from_element_generic(self.model.output_dim(), U1, S::ZERO);
        self.model.observe(x, self.u, self.step, eta.as_mut_slice());
        eta
    }

    // No closures in here: the loops that descend are compiled for the vector unit at hand, and a closure may be left outside.
    #[inline(always)]
    fn score(&self, eta: &[S], out: &mut [S]) {
        let Some(at) = self.in_units(eta) else {
            return self.likelihood.score(self.y, eta, self.observed, out);
        };
        self.likelihood.score(at.y.as_slice(), at.eta.as_slice(), self.observed, out);
        if let Some(factors) = &at.factors {
            shrink(out, factors.as_slice());
        }
    }
}

impl<M: Model, L: Likelihood> MeasurementLoss<'_, M, L, f64>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    /// The likelihood's curvature, or that for steps that may be long, times `v`.
    pub(crate) fn curvature(&self, steady: bool, eta: &[f64], v: &[f64], out: &mut [f64]) {
        let of = |y: &[f64], eta: &[f64], v: &[f64], out: &mut [f64]| match steady {
            true => self.likelihood.steady_curvature(y, eta, self.observed, v, out),
            false => self.likelihood.curvature(y, eta, self.observed, v, out),
        };
        let Some(at) = self.in_units(eta) else { return of(self.y, eta, v, out) };
        let (y, eta) = (at.y.as_slice(), at.eta.as_slice());
        let Some(factors) = &at.factors else { return of(y, eta, v, out) };
        let mut v = v.to_vec();
        shrink(&mut v, factors.as_slice());
        of(y, eta, &v, out);
        shrink(out, factors.as_slice());
    }
}

/// A measurement and what was expected of it, in units of the row's factors where there are any, angles turned to within half a
/// turn of one another.
struct InUnits<S: Scalar, M: Dim>
where
    DefaultAllocator: Allocator<M>,
{
    y: OVector<S, M>,
    eta: OVector<S, M>,
    factors: Option<OVector<f64, M>>,
}

impl<M: Model, L: Likelihood, S: Scalar> Objective<S> for MeasurementLoss<'_, M, L, S>
where
    DefaultAllocator: Allocator<M::State> + Allocator<M::Output>,
{
    #[inline(always)]
    fn value(&mut self, x: &[S]) -> S {
        let eta = self.eta(x);
        match self.in_units(eta.as_slice()) {
            None => self.likelihood.loss(self.y, eta.as_slice(), self.observed),
            Some(at) => self.likelihood.loss(at.y.as_slice(), at.eta.as_slice(), self.observed),
        }
    }

    #[inline(always)]
    fn gradient(&mut self, x: &[S], out: &mut [S]) {
        if let Some(vjp) = self.model.vjp() {
            let m = self.model.output_dim().value();
            if const { size_of::<M::Output>() > 0 } && is_long::<M::Output>(m) {
                let (mut eta, mut r) = (Scratch::new(m), Scratch::new(m));
                self.model.observe(x, self.u, self.step, &mut eta);
                self.score(&eta, &mut r);
                return vjp(self.model, x, self.u, self.step, &r, out);
            }
            let eta = self.eta(x);
            let mut r = eta.clone();
            self.score(eta.as_slice(), r.as_mut_slice());
            return vjp(self.model, x, self.u, self.step, r.as_slice(), out);
        }
        let (n, m) = (self.model.state_dim(), self.model.output_dim());
        let at = ObservationAt { observation: self.model, u: self.u, step: self.step };
        derivative::vjp(
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

/// The update in any scalar: K optimizer steps on the measurement's loss, from `x`, and more after a gap where the filter widens.
#[inline(always)]
pub(crate) fn refine<S, M, L, O>(
    optimizer: &O,
    (steps, widens): (u32, bool),
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
    let gap = if widens { loss.step.gap() } else { 1.0 };
    descend_past_gap(optimizer, &mut loss, x, state, steps, bounds, gap);
}

/// The measurement expected at the current estimate.
#[inline(always)]
pub(crate) fn predicted_measurement<O: Observation, L: Likelihood>(
    observation: &O,
    likelihood: &L,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> OVector<f64, O::Output>
where
    DefaultAllocator: Allocator<O::Output>,
{
    let mut predicted = OVector::zeros_generic(observation.output_dim(), U1);
    observation.observe(x, u, step, predicted.as_mut_slice());
    likelihood.expect(predicted.as_mut_slice());
    predicted
}
