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
//! error bars are too wide; gradient descent has no such defect. `tests/long/consistency.rs` shows both. Where the gradient
//! is exactly zero such a rule does not move, but is as steep as one over its epsilon; that row of A is then the identity's and that
//! of B zero, which is what the rule did.
//!
//! Steps that do not contract (a learning rate that is too large in some direction, or an adaptive rule far
//! from the minimum) can make the covariance grow without bound while the estimates are still of use. It is
//! then given up: NaN from that measurement on, and the estimates go on exactly as without error bars; a
//! [`strict`](ErrorBars::strict) filter fails instead.
//!
//! A bound holds the estimate, not its uncertainty: A and B are those of the steps as if no bound had cut them short, so that the error bar of a state
//! at its bound is that of the same filter without the bound. For a state that is as likely on either side of it this
//! is the root mean square error that remains; for one that the measurements push well beyond, it is too wide.
//!
//! Three steps at rate 0.1 keep A = 0.9^3 = 0.729 of a random walk's error and take in B = 0.271 of the
//! measurement's:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{ErrorBars, Filter, GaussianBelief, ImplicitMap};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step, likelihood::SquaredError};
//! use optfilter::optim::GradientDescent;
//! let walk = RandomWalk::new(Const::<1>);
//! let implicit = ImplicitMap::new(walk, SquaredError, GradientDescent::new(0.1)?, 3)?;
//! let filter = ErrorBars::new(implicit, GaussianNoise::new(matrix![0.5], matrix![2.0])?)?;
//! let mut belief = GaussianBelief::new(vector![0.0], matrix![1.0])?;
//! filter.predict(&mut belief, &[], &Step::even(1, 1.0))?;
//! filter.update(&mut belief, &[1.0], &[], &Step::even(1, 1.0))?;
//! let found = format!("{:.7}, variance {:.7}", belief.mean[0], belief.cov[0]);
//! println!("{found}");
//! assert_eq!(found, "0.2710000, variance 0.9440435"); // by hand: 0.729^2 1.5 + 0.271^2 2
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An implicit filter without error bars pays nothing for this: [`ErrorBars`] is a filter of its own
//! that holds the implicit one. It is also consistent by construction only as far as Q and R are right;
//! check with the normalised innovations it reports.

use super::extended::propagate_linearized;
use super::gaussian::{
    GaussianBelief, check_process_cov, ln_turns, log_density, not_positive_definite,
};
use super::implicit_map::{ImplicitMap, Memory};
use super::point::{MeasurementLoss, PointBelief, refine};
use super::traits::{Filter, Update, is_sane};
use crate::Shapes;
use crate::error::{FilterError, check_square};
use crate::linalg::{Solver, sandwich};
use crate::model::likelihood::{Likelihood, Observed, masked_cov};
use crate::model::stretch::{measurement_cov, process_cov};
use crate::model::{Model, Noise, Step, linearize_observation};
use crate::optim::{Bounds, Optimizer};
use crate::scalar::{Dual, Scalar};
use nalgebra::allocator::Allocator;
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
    strict: bool,
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
        Ok(Self { filter, noise, strict: false })
    }

    /// With an error where the covariance is lost, instead of estimates that go on without it.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
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
                (filter.steps, filter.widens),
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

/// An estimate whose covariance is lost.
#[cold]
fn given_up<N: Dim>(mean: OVector<f64, N>) -> GaussianBelief<N>
where
    DefaultAllocator: Allocator<N> + Allocator<N, N>,
{
    let n = mean.shape_generic().0;
    GaussianBelief { mean, cov: OMatrix::repeat_generic(n, n, f64::NAN) }
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

    #[inline(always)]
    fn propagate(
        &self,
        belief: &Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<Self::Belief, FilterError> {
        let model = &self.filter.model;
        let q = process_cov(model, &self.noise, u, step);
        let is_cov = match check_process_cov(&self.noise, &q, model.state_dim().value(), step.index)
        {
            Err(error @ FilterError::Size { .. }) => return Err(error),
            Err(error) if self.strict => return Err(error),
            checked => checked.is_ok(),
        };
        let next = propagate_linearized(model, q, belief, u, step);
        let sound = is_cov && next.cov.iter().all(|v| v.is_finite());
        // A strict filter fails of what is not finite.
        Ok(if sound || self.strict { next } else { given_up(next.mean) })
    }

    #[inline(always)]
    fn correct(
        &self,
        belief: &Self::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(Self::Belief, Update<M::Output>), FilterError> {
        let point = PointBelief { mean: belief.mean.clone(), optimizer_state: None };
        let (point, update) = self.filter.correct(&point, y, observed, u, step)?;
        let mean = point.mean;
        let lost = match self.spread(belief, &mean, &update.innovation, y, observed, u, step) {
            Ok((cov, update)) if self.strict || cov.iter().all(|v| v.is_finite()) => {
                return Ok((GaussianBelief { mean, cov }, update));
            }
            Err(error) if self.strict => return Err(error),
            Err(error @ FilterError::Size { .. }) => return Err(error),
            _ => given_up(mean),
        };
        Ok((lost, update))
    }

    fn bounds(&self) -> Option<&Bounds> {
        self.filter.bounds.as_ref()
    }

    /// The estimate is that of the filter without error bars.
    fn confine(&self, belief: &mut Self::Belief, bounds: &Bounds) {
        bounds.project(belief.mean.as_mut_slice());
    }

    #[inline(always)]
    fn flaw(&self, belief: &Self::Belief) -> Option<&'static str> {
        if !is_sane(belief.mean.as_slice()) {
            return Some("estimate");
        }
        (self.strict && !belief.cov.iter().all(|v| v.is_finite())).then_some("cov")
    }
}

impl<M, L, O, Q> ErrorBars<M, L, O, Q>
where
    M: Model,
    L: Likelihood,
    O: Optimizer<f64> + Optimizer<Dual<f64, WIDTH>>,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    /// The covariance of an estimate that the update moved to `mean`, and what the measurement was worth.
    #[allow(clippy::too_many_arguments)] // the arguments of an update, and its result
    #[inline(always)]
    fn spread(
        &self,
        belief: &GaussianBelief<M::State>,
        mean: &OVector<f64, M::State>,
        innovation: &OVector<f64, M::Output>,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(OMatrix<f64, M::State, M::State>, Update<M::Output>), FilterError> {
        let model = &self.filter.model;
        let (n, m) = (model.state_dim(), model.output_dim());
        let mut r = measurement_cov(model, &self.noise, u, step);
        check_square("measurement_cov (R)", m.value(), &r, Some(step.index))?;
        if !belief.cov.iter().all(|v| v.is_finite()) {
            return Err(not_positive_definite("belief covariance", step.index));
        }
        let prediction = &belief.mean;
        let (eta, mut h) = linearize_observation(model, n, prediction.as_slice(), u, step);
        // Innovations are in units of the measurement, so H is the derivative of what is expected at eta.
        let mut expected = eta.map(|v| Dual::<f64, 1>::variable(v, 0));
        self.filter.likelihood.expect(expected.as_mut_slice());
        for i in 0..m.value() {
            h.row_mut(i).scale_mut(expected[i].eps[0]);
        }
        if observed != Observed::All {
            r = masked_cov(&r, observed);
            for i in 0..m.value() {
                if !observed.has(i) {
                    h.row_mut(i).fill(0.0);
                }
            }
        }
        let s = sandwich(&h, &belief.cov) + &r;
        let (mut a, mut b) = self.sensitivities(prediction, y, u, step, observed);
        for i in 0..n.value() {
            // Errors in their own units, since a row of A mixes those of all components. NaN counts as steep.
            let std = |j: usize| Scalar::sqrt(belief.cov[(j, j)]);
            let steep = !(0..n.value()).all(|j| (a[(i, j)] * std(j)).abs() <= STEEP * std(i));
            if steep && mean[i] == prediction[i] {
                a.row_mut(i).fill(0.0);
                a[(i, i)] = 1.0;
                b.row_mut(i).fill(0.0);
            }
        }
        let cov = sandwich(&a, &belief.cov) + sandwich(&b, &r);
        let Some(factor) = Solver::new(&s) else {
            return Err(not_positive_definite("innovation covariance", step.index));
        };
        let nis = factor.quadratic_form(innovation);
        let log_likelihood = log_density(nis, &factor, ln_turns(observed.count(y.len())));
        Ok((cov, Update::spread(innovation.clone(), s, log_likelihood, nis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::likelihood::SquaredError;
    use crate::model::{Dynamics, GaussianNoise, Observation, Vjp};
    use crate::optim::GradientDescent;
    use core::sync::atomic::{AtomicUsize, Ordering};
    use nalgebra::{DMatrix, DVector, Dyn};

    /// As many states as measurements, each measured by itself; counts how often it is asked.
    struct Counted {
        size: usize,
        passes: AtomicUsize,
    }

    impl Dynamics for Counted {
        type State = Dyn;
        fn state_dim(&self) -> Dyn {
            Dyn(self.size)
        }
        fn transition<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
            out.copy_from_slice(x);
        }
    }

    impl Observation for Counted {
        type Output = Dyn;
        fn output_dim(&self) -> Dyn {
            Dyn(self.size)
        }
        fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
            self.passes.fetch_add(1, Ordering::Relaxed);
            for (out, x) in out.iter_mut().zip(x) {
                *out = x.square();
            }
        }
        fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
            Some(|model, x, _, _, r, out| {
                model.passes.fetch_add(1, Ordering::Relaxed);
                for i in 0..x.len() {
                    out[i] = (x[i] * r[i]).scale(2.0);
                }
            })
        }
    }

    #[test]
    fn every_lane_of_directions_costs_one_more_run() {
        let (size, steps) = (20, 7);
        let model = Counted { size, passes: AtomicUsize::new(0) };
        let descent = GradientDescent::new(0.01).unwrap();
        let filter = ImplicitMap::new(model, SquaredError, descent, steps).unwrap();
        let unit = DMatrix::identity(size, size);
        let bars = ErrorBars::new(filter, GaussianNoise::new(unit.clone(), unit.clone()).unwrap())
            .unwrap();
        let mut belief = GaussianBelief::new(DVector::repeat(size, 0.5), unit).unwrap();
        bars.update(&mut belief, &[1.0; 20], &[], &Step::even(1, 1.0)).unwrap();
        // An observation and a VJP per step; the run itself and one for each lane of directions; then the
        // innovation, and H in chunks of eight states.
        let runs = 1 + (2 * size).div_ceil(WIDTH);
        let expected = 2 * steps as usize * runs + 1 + size.div_ceil(8);
        assert_eq!(bars.filter.model.passes.load(Ordering::Relaxed), expected);
    }
}
