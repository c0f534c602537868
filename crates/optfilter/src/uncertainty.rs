//! Error bars for an implicit filter, which the paper says it lacks.
//!
//! The update is a function of the prediction and of the measurement, x = u(m, y). With A = du/dm and
//! B = du/dy, the error of the estimate is to first order A (error of the prediction) + B (error of the
//! measurement), and the two are independent, so
//!
//! ```text
//! P <- A (F P F' + Q) A' + B R B'.
//! ```
//!
//! A and B come from forward differentiation *through the K optimizer steps*: the update is run once more
//! in dual numbers, with the prediction and the measurement as variables. For linear measurements with
//! the learning-rate matrix of a Kalman prior, A = I - G H and B = G, and P is the Kalman covariance in
//! Joseph form.
//!
//! First order is all it is. Rules that step by a fixed length whatever the gradient's size (Adam, RMSprop)
//! look, to first order, as if they corrected nothing until they have converged, so stopped early their
//! error bars are too wide; gradient descent has no such defect. `tests/consistency.rs` shows both. Where the gradient
//! is exactly zero such a rule does not move, but is as steep as one over its epsilon; that row of A is then the identity's and that
//! of B zero, which is what the rule did.
//!
//! An implicit filter without error bars pays nothing for this: [`ErrorBars`] is a filter of its own
//! that holds the implicit one. It is also consistent by construction only as far as Q and R are right;
//! check with the normalised innovations it reports.

use crate::Shapes;
use crate::filter::{
    Filter, FilterError, GaussianBelief, ImplicitMap, MeasurementLoss, Memory, PointBelief, Update,
};
use crate::filter::{
    check_belief, check_measurement, check_square, predict_linearized, refine, residual,
    with_observed,
};
use crate::linalg::{Solver, sandwich};
use crate::model::likelihood::{Likelihood, Observed, masked_cov};
use crate::model::{Model, Noise, Step, linearize_observation};
use crate::optim::Optimizer;
use crate::scalar::{Dual, Scalar};
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// Directions carried by one differentiated run of the update.
const WIDTH: usize = 4;

/// No update that leaves a component alone passes errors on this much enlarged, unless it divides zero by zero.
const STEEP: f64 = 10.0;

/// An implicit MAP filter that also carries an error covariance.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorBars<M, L, O, Q> {
    filter: ImplicitMap<M, L, O>,
    noise: Q,
}

impl<M, L, O, Q> ErrorBars<M, L, O, Q>
where
    M: Model,
    L: Likelihood,
    O: Optimizer<f64> + Optimizer<Dual<f64, WIDTH>>,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// Around an implicit filter whose optimizer restarts at each time step. (With a carried state the
    /// update depends on all measurements before, and A and B alone do not describe it.)
    pub fn new(filter: ImplicitMap<M, L, O>, noise: Q) -> Result<Self, FilterError> {
        if filter.memory == Memory::Carry {
            let (argument, requirement) =
                ("memory = Carry", "Restart where error bars are asked for");
            return Err(FilterError::Setting { argument, value: 1.0, requirement });
        }
        Ok(Self { filter, noise })
    }

    /// The update's derivatives A (n x n) by the prediction and B (n x m) by the measurement.
    #[inline(always)]
    fn sensitivities(
        &self,
        prediction: &OVector<f64, M::State>,
        y: &[f64],
        u: &[f64],
        step: &Step,
        observed: Observed<'_>,
    ) -> (OMatrix<f64, M::State, M::State>, OMatrix<f64, M::State, M::Output>) {
        let filter = &self.filter;
        let (n, m) = (filter.model.state_dim(), filter.model.output_dim());
        let (rows, inputs) = (n.value(), n.value() + m.value());
        let mut a = OMatrix::zeros_generic(n, n);
        let mut b = OMatrix::zeros_generic(n, m);
        let mut first = 0;
        while first < inputs {
            let mut x =
                OVector::<Dual<f64, WIDTH>, M::State>::from_element_generic(n, U1, Dual::ZERO);
            let mut seen =
                OVector::<Dual<f64, WIDTH>, M::Output>::from_element_generic(m, U1, Dual::ZERO);
            for i in 0..rows {
                x[i] = Dual::variable(prediction[i], i.wrapping_sub(first));
            }
            for i in 0..m.value() {
                // A missing measurement is never read; zero keeps NaN out of the arithmetic.
                let value = if observed.has(i) { y[i] } else { 0.0 };
                seen[i] = Dual::variable(value, (rows + i).wrapping_sub(first));
            }
            let mut state = Optimizer::<Dual<f64, WIDTH>>::init(&filter.optimizer, &x);
            let (model, likelihood) = (&filter.model, &filter.likelihood);
            let loss = MeasurementLoss { model, likelihood, y: seen.as_slice(), u, step, observed };
            refine(
                &filter.optimizer,
                filter.steps,
                filter.bounds.as_ref(),
                loss,
                &mut x,
                &mut state,
            );
            for d in 0..WIDTH.min(inputs - first) {
                for i in 0..rows {
                    match (first + d).checked_sub(rows) {
                        None => a[(i, first + d)] = x[i].eps[d],
                        Some(j) => b[(i, j)] = x[i].eps[d],
                    }
                }
            }
            first += WIDTH;
        }
        (a, b)
    }
}

impl<M, L, O, Q> Filter for ErrorBars<M, L, O, Q>
where
    M: Model,
    L: Likelihood,
    O: Optimizer<f64> + Optimizer<Dual<f64, WIDTH>>,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = GaussianBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        self.filter.dims()
    }

    #[inline]
    fn predict(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        predict_linearized(&self.filter.model, self.noise.process_cov(step), belief, u, step)
    }

    #[inline]
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError> {
        let model = &self.filter.model;
        let (n, m) = (model.state_dim(), model.output_dim());
        check_measurement(m.value(), model.input_dim(), y, u, step)?;
        check_belief(belief, n.value(), step)?;
        with_observed(m, y, |observed| {
            let count = observed.count(y.len());
            if count == 0 {
                return Ok(Update::nothing(m, true));
            }
            let prediction = belief.mean.clone();
            let mut point = PointBelief { mean: prediction.clone(), optimizer_state: None };
            self.filter.update(&mut point, y, u, step)?;

            let mut r = self.noise.measurement_cov(step);
            check_square("measurement_cov (R)", m.value(), &r, Some(step.index))?;
            let (predicted, mut h) =
                linearize_observation(model, n, prediction.as_slice(), u, step);
            if observed != Observed::All {
                r = masked_cov(&r, observed);
                for i in 0..m.value() {
                    if !observed.has(i) {
                        h.row_mut(i).fill(0.0);
                    }
                }
            }
            let s = sandwich(&h, &belief.cov) + &r;
            let (mut a, mut b) = self.sensitivities(&prediction, y, u, step, observed);
            for i in 0..n.value() {
                // NaN counts as steep.
                let steep = !a.row(i).iter().all(|v| v.abs() <= STEEP);
                if steep && point.mean[i] == prediction[i] {
                    a.row_mut(i).fill(0.0);
                    a[(i, i)] = 1.0;
                    b.row_mut(i).fill(0.0);
                }
            }
            belief.mean = point.mean;
            belief.cov = sandwich(&a, &belief.cov) + sandwich(&b, &r);

            let innovation = residual(model, y, &predicted, observed);
            let Some(factor) = Solver::new(&s) else {
                let quantity = "innovation covariance";
                return Err(FilterError::NotPositiveDefinite { quantity, index: Some(step.index) });
            };
            let nis = factor.quadratic_form(&innovation);
            let log_likelihood = crate::filter::gaussian_log_density(nis, &factor, count);
            Ok(Update {
                innovation,
                innovation_cov: Some(s),
                log_likelihood: Some(log_likelihood),
                nis: Some(nis),
                observed: count,
            })
        })
    }
}
