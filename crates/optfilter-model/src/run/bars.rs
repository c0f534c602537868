//! Error bars that may be lost without losing the estimates.
//!
//! The library carries an implicit filter's error covariance through the K optimizer steps. Steps that
//! do not contract (a learning rate that is too large in some direction, or an adaptive rule far from
//! the minimum) can make it grow without bound while the estimates are still of use. Here the covariance
//! is then given up: it becomes NaN, standard deviations are left empty from that row on, and the
//! estimates go on exactly as without error bars.

use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, OVector};
use optfilter::Shapes;
use optfilter::filter::{Filter, FilterError, GaussianBelief, ImplicitMap, PointBelief, Update};
use optfilter::model::{Likelihood, Model, Noise, Step};
use optfilter::optim::Optimizer;
use optfilter::scalar::Dual;
use optfilter::uncertainty::ErrorBars;

/// An implicit filter with error bars as long as they last.
pub(super) struct Bars<M, L, O, Q> {
    bars: ErrorBars<M, L, O, Q>,
    plain: ImplicitMap<M, L, O>,
}

impl<M, L, O, Q> Bars<M, L, O, Q>
where
    M: Model + Clone,
    L: Likelihood + Clone,
    O: Optimizer<f64> + Optimizer<Dual<f64, 4>>,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    pub(super) fn new(filter: ImplicitMap<M, L, O>, noise: Q) -> Result<Self, FilterError> {
        Ok(Self { bars: ErrorBars::new(filter.clone(), noise)?, plain: filter })
    }
}

impl<M, L, O, Q> Filter for Bars<M, L, O, Q>
where
    M: Model,
    L: Likelihood,
    O: Optimizer<f64> + Optimizer<Dual<f64, 4>>,
    Q: Noise<M::State, M::Output>,
    DefaultAllocator: Shapes<M::State, M::Output>,
{
    type State = M::State;
    type Output = M::Output;
    type Belief = GaussianBelief<M::State>;

    fn dims(&self) -> (M::State, M::Output, usize) {
        self.bars.dims()
    }

    #[inline]
    fn predict(
        &self,
        belief: &mut Self::Belief,
        u: &[f64],
        step: &Step,
    ) -> Result<(), FilterError> {
        self.bars.predict(belief, u, step)
    }

    #[inline]
    fn update(
        &self,
        belief: &mut Self::Belief,
        y: &[f64],
        u: &[f64],
        step: &Step,
    ) -> Result<Update<M::Output>, FilterError>
    where
        DefaultAllocator: Allocator<M::Output> + Allocator<M::Output, M::Output>,
    {
        if belief.cov.iter().all(|v| v.is_finite()) {
            let mut trial = belief.clone();
            match self.bars.update(&mut trial, y, u, step) {
                Ok(update) if trial.cov.iter().all(|v| v.is_finite()) => {
                    *belief = trial;
                    return Ok(update);
                }
                Ok(_) | Err(FilterError::NotPositiveDefinite { .. }) => {}
                Err(e) => return Err(e),
            }
            belief.cov.fill(f64::NAN);
        }
        let mean: OVector<f64, M::State> = belief.mean.clone();
        let mut point = PointBelief::new(mean)?;
        let update = self.plain.update(&mut point, y, u, step)?;
        belief.mean = point.mean;
        Ok(update)
    }
}
