//! The log-likelihood of a series under a Gaussian filter, in any scalar.
//!
//! ```text
//! ln p(y_1 .. y_T | theta) = sum_t ln N(v_t(theta); 0, S_t(theta))
//! ```
//!
//! Everything that the filter is made of may depend on parameters theta: the equations (a [`Family`] of models), the noise
//! and the start ([`Setting`]). In [`Dual`](crate::scalar::Dual) numbers the sum carries its exact gradient through every prediction and update,
//! which is what maximum likelihood climbs. The kernels are
//! those of the filters themselves, so the value is the sum that a filter reports, to rounding.
//!
//! Of a linear model whose coefficients stay as they are, the covariances come to rest; from then on only means are computed,
//! to the same bits.
//!
//! Bounds of the state are not part of it: a belief that is cut off at a bound has no density that could be compared.
//!
//! How a random walk seen with noise depends on its own variance:
//!
//! ```
//! use nalgebra::{DMatrix, DVector};
//! use optfilter::filter::evidence::{Approximation, Family, Row, Setting, log_likelihood};
//! use optfilter::model::Step;
//! use optfilter::scalar::{Dual, Scalar};
//!
//! struct Walk;
//! impl Family for Walk {
//!     fn dims(&self) -> (usize, usize) {
//!         (1, 1)
//!     }
//!     fn transition<S: Scalar>(&self, _: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
//!         out[0] = x[0];
//!     }
//!     fn observe<S: Scalar>(&self, _: &[S], x: &[S], _: &[f64], _: &Step, out: &mut [S]) {
//!         out[0] = x[0];
//!     }
//! }
//! fn sum<S: Scalar>(variance: S) -> S {
//!     let setting = Setting {
//!         mean: DVector::from_element(1, S::ZERO),
//!         cov: DMatrix::from_element(1, 1, S::ONE),
//!         process_cov: DMatrix::from_element(1, 1, variance),
//!         measurement_cov: DMatrix::from_element(1, 1, S::ONE),
//!         ..Setting::new(1, 1)
//!     };
//!     let ys = [0.3, 1.1, f64::NAN, -0.4];
//!     let rows = ys.iter().enumerate().map(|(k, y)| Row {
//!         y: std::slice::from_ref(y),
//!         u: &[],
//!         step: Step::even(k as u64 + 1, 1.0),
//!         predict: k > 0,
//!     });
//!     log_likelihood(&Walk, &setting, &Approximation::Linearized { iterations: 1 }, rows).unwrap()
//! }
//! let slope = sum(Dual::<f64, 1>::variable(0.5, 0)).eps[0];
//! let difference = (sum(0.5 + 1e-5) - sum(0.5 - 1e-5)) / 2e-5;
//! assert!((slope - difference).abs() < 1e-9);
//! ```
//!
//! What no Gaussian filter has a likelihood of, counts say, has that of a path which follows from its first state: [`along`],
//! [`best_start`].
//!
//! Reference: Durbin and Koopman 2012, chapters 5 and 7.

mod density;
mod family;
mod flow;
mod invariant;
mod points;
mod setting;
mod window;

pub use density::Density;
pub use family::Family;
pub use setting::{Approximation, Row, Setting};
pub use window::{Begin, along, best_start, end_of_path};

use super::damping::{Cost, Stepped};
use super::gaussian::{Conditioned, GaussianMeasurement, condition, not_positive_definite};
use super::limit::{Limit as Belief, carried, split};
use super::sigma_points::Weights;
use crate::error::FilterError;
use crate::linalg::{product, sandwich};
use crate::model::likelihood::{Observed, masked_cov};
use crate::scalar::Scalar;
use alloc::vec;
use alloc::vec::Vec;
use family::{jacobian, residual};
use flow::Flow;
use nalgebra::{DMatrix, DVector};

/// The log-likelihood of a series.
pub fn log_likelihood<'a, S: Scalar, F: Family>(
    family: &F,
    setting: &Setting<S>,
    approximation: &Approximation,
    mut rows: impl Iterator<Item = Row<'a>>,
) -> Result<S, FilterError> {
    let (n, _) = family.dims();
    let weights = match approximation {
        Approximation::Unscented(points) => Some(Weights::new(*points, n)?),
        Approximation::Linearized { .. } => None,
    };
    let iterations = match approximation {
        Approximation::Linearized { iterations } => (*iterations).max(1),
        Approximation::Unscented(_) => 1,
    };
    let mut belief = Belief::new(setting);
    let mut flow = Flow::new(family, setting);
    let mut sum = S::ZERO;
    loop {
        if belief.is_proper() && weights.is_none() && family.is_invariant() {
            return invariant::remaining(family, setting, flow, belief, sum, rows);
        }
        let Some(row) = rows.next() else { return Ok(sum) };
        if row.predict && row.step.dt != 0.0 {
            belief.predict(family, setting, weights.as_ref(), &mut flow, &row)?;
        }
        let mask: Vec<bool> = row.y.iter().map(|v| !v.is_nan()).collect();
        if mask.iter().all(|there| !there) {
            continue;
        }
        let observed =
            if mask.iter().all(|there| *there) { Observed::All } else { Observed::Some(&mask) };
        sum += match &weights {
            Some(weights) if belief.is_proper() => {
                points::update(&mut belief, family, setting, weights, &row, observed)?
            }
            _ => belief.update(family, setting, iterations, &row, observed)?,
        };
        if !(belief.mean.iter().all(|v| v.is_finite()) && sum.is_finite()) {
            let (index, quantity) = (row.step.index, "log-likelihood");
            return Err(FilterError::Diverged { index, quantity, last_good: Vec::new() });
        }
    }
}

impl<S: Scalar> Belief<S> {
    fn new(setting: &Setting<S>) -> Self {
        let (cov, unknown) = split(setting.cov.clone(), &setting.diffuse);
        Self { mean: setting.mean.clone(), cov, unknown }
    }

    fn predict<F: Family>(
        &mut self,
        family: &F,
        setting: &Setting<S>,
        weights: Option<&Weights>,
        flow: &mut Flow<S>,
        row: &Row<'_>,
    ) -> Result<(), FilterError> {
        let n = self.mean.len();
        let Row { u, step, .. } = row;
        let solved = flow.over(setting, step.dt);
        let q = match (&solved, setting.per_time) {
            (Some(solved), true) => solved.q.clone(),
            (None, true) => setting.process_cov.map(|v| v.scale(step.dt)),
            (_, false) => setting.process_cov.clone(),
        };
        if let Some(solved) = solved {
            let mut push = DVector::from_element(n, S::ZERO);
            family.rate(&setting.theta, &vec![S::ZERO; n], u, push.as_mut_slice());
            self.mean = product(&solved.f, &self.mean) + product(&solved.g, &push);
            self.spread(&solved.f, q);
            return Ok(());
        }
        if let Some(weights) = weights.filter(|_| self.is_proper()) {
            return points::predict(self, family, setting, weights, q, row);
        }
        let (mean, f) = jacobian(&setting.theta, self.mean.as_slice(), n, |theta, x, out| {
            family.transition(theta, x, u, step, out);
        });
        self.mean = mean;
        self.spread(&f, q);
        Ok(())
    }

    /// P <- F P F' + Q, and what is unknown alike, without noise.
    fn spread(&mut self, f: &DMatrix<S>, q: DMatrix<S>) {
        self.cov = sandwich(f, &self.cov) + q;
        if !self.is_proper() {
            self.unknown = carried(f, &self.unknown);
        }
    }

    fn update<F: Family>(
        &mut self,
        family: &F,
        setting: &Setting<S>,
        iterations: u32,
        row: &Row<'_>,
        observed: Observed<'_>,
    ) -> Result<S, FilterError> {
        let m = row.y.len();
        let linearized = |x: &[S]| {
            let (predicted, h) = jacobian(&setting.theta, x, m, |theta, x, out| {
                family.observe(theta, x, row.u, &row.step, out);
            });
            (residual(family, row.y, &predicted, observed), h)
        };
        let (mut residual, mut h) = linearized(self.mean.as_slice());
        let r = &setting.measurement_cov;
        let fail = || not_positive_definite("innovation covariance", row.step.index);
        if !self.is_proper() {
            let learnt = self.condition(&residual, &h, r, observed, false);
            return learnt.map(|learnt| learnt.log_likelihood).ok_or_else(fail);
        }
        let mut damped = None;
        if iterations > 1 {
            let size = |i: usize| S::from_f64(if observed.has(i) { row.y[i].abs() } else { 0.0 });
            let cost = Cost::new(&self.mean, &masked_cov(r, observed), size);
            damped = cost.map(|cost| cost.and_start(&residual));
        }
        for left in (0..iterations).rev() {
            let mut measurement =
                GaussianMeasurement { residual, h, r: r.clone(), is_direct: false };
            let done = condition(&self.mean, &self.cov, &mut measurement, observed);
            let Conditioned { mut mean, cov, log_likelihood, innovation_cov, .. } =
                done.ok_or_else(fail)?;
            let mut last = left == 0;
            if let Some((cost, place)) = &mut damped {
                let at = |x: &DVector<S>| {
                    let mut predicted = DVector::from_element(m, S::ZERO);
                    let out = predicted.as_mut_slice();
                    family.observe(&setting.theta, x.as_slice(), row.u, &row.step, out);
                    self::residual(family, row.y, &predicted, observed)
                };
                match cost.step(place, (&mean, &innovation_cov, &measurement), at) {
                    Stepped::Unjudged => damped = None,
                    Stepped::Whole(to) => *place = to,
                    Stepped::Shortened(to) => {
                        mean = to.x.clone();
                        *place = to;
                    }
                    Stepped::Not => {
                        mean = place.x.clone();
                        last = true;
                    }
                }
            }
            if last {
                (self.mean, self.cov) = (mean, cov);
                return Ok(log_likelihood);
            }
            (residual, h) = linearized(mean.as_slice());
            let shift = product(&h, &(&self.mean - &mean));
            for i in observed.indices(m) {
                residual[i] -= shift[i];
            }
        }
        Err(fail())
    }
}
