//! Any Gaussian filter behind a gate: measurements that are too unlikely do not get through as they are.
//!
//! A measurement whose normalised innovation squared lies beyond the limit for its number of components is
//!
//! - rejected: the belief stays as it was predicted;
//! - or taken with its innovation covariance S widened until it lies on the limit. With w = limit / NIS and S / w for S the gain is
//!   w K, so the belief goes w of the way: x + w K v, and P - w K S K'.
//!
//! What is reported of the row (innovation, S, NIS, log-likelihood) is what it was before the gate.
//!
//! A level of 0 +- 1, and a measurement of 10 +- 1 that cannot be its own:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{Extended, Filter, Gate, Gated, Gating, GaussianBelief};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step};
//! let filter = |gating| {
//!     let noise = GaussianNoise::new(matrix![1.0], matrix![1.0])?;
//!     let gate = Gate::new(0.999, gating, 1)?;
//!     Ok::<_, Box<dyn std::error::Error>>(Gated::new(Extended::new(RandomWalk::new(Const::<1>), noise), gate))
//! };
//! let mut found = Vec::new();
//! for gating in [Gating::Reject, Gating::Inflate] {
//!     let mut belief = GaussianBelief::new(vector![0.0], matrix![1.0])?;
//!     let update = filter(gating)?.update(&mut belief, &[10.0], &[], &Step::even(1, 1.0))?;
//!     assert_eq!(update.nis, Some(50.0));
//!     found.push(format!("{:.6} +- {:.6}", belief.mean[0], belief.cov[0].sqrt()));
//! }
//! println!("{found:?}");
//! assert_eq!(found, ["0.000000 +- 1.000000", "1.082757 +- 0.944312"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Bar-Shalom, Li and Kirubarajan 2001.

use super::gaussian::GaussianBelief;
use super::traits::{Filter, Update, as_the_inner_filter};
use crate::Shapes;
use crate::chi_square::quantile;
use crate::error::FilterError;
use crate::model::Step;
use crate::model::likelihood::Observed;
use crate::optim::Bounds;
use crate::smoother::{Joint, Smooth};
use alloc::vec::Vec;
use nalgebra::{DefaultAllocator, Dim};

/// What happens to a measurement beyond the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gating {
    /// It is left out.
    #[default]
    Reject,
    /// It counts as much as one on the limit would.
    Inflate,
}

/// Limits of the normalised innovation squared, and what happens beyond them.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// By the number of components that were measured.
    limits: Vec<f64>,
    gating: Gating,
}

impl Gate {
    /// Lets this share of all good measurements of up to `outputs` components through.
    pub fn new(share: f64, gating: Gating, outputs: usize) -> Result<Self, FilterError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(FilterError::NotFinite { argument: "gate", component: 0, index: None });
        }
        Ok(Self { limits: (0..=outputs).map(|dof| quantile(share, dof)).collect(), gating })
    }
}

/// A Gaussian filter with a gate, or without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Gated<F> {
    filter: F,
    gate: Option<Gate>,
}

impl<F> Gated<F> {
    /// A filter and its gate.
    pub fn new(filter: F, gate: impl Into<Option<Gate>>) -> Self {
        Self { filter, gate: gate.into() }
    }
}

impl<F> Filter for Gated<F>
where
    F: Filter<Belief = GaussianBelief<<F as Filter>::State>>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    as_the_inner_filter!();

    #[inline(always)]
    fn bounds(&self) -> Option<&Bounds> {
        self.filter.bounds()
    }

    #[inline(always)]
    fn correct(
        &self,
        belief: &F::Belief,
        y: &[f64],
        observed: Observed<'_>,
        u: &[f64],
        step: &Step,
    ) -> Result<(F::Belief, Update<F::Output>), FilterError> {
        let (next, update) = self.filter.correct(belief, y, observed, u, step)?;
        let Some(gate) = &self.gate else { return Ok((next, update)) };
        let limit = gate.limits.get(observed.count(y.len())).copied().unwrap_or(f64::INFINITY);
        match update.nis {
            Some(nis) if nis > limit => {
                let kept = match gate.gating {
                    Gating::Reject => belief.clone(),
                    Gating::Inflate => part_of_the_way(belief, &next, limit / nis),
                };
                Ok((kept, update))
            }
            _ => Ok((next, update)),
        }
    }
}

/// The belief that went this share of the way from the one to the other.
#[cold]
fn part_of_the_way<N: Dim>(
    from: &GaussianBelief<N>,
    to: &GaussianBelief<N>,
    share: f64,
) -> GaussianBelief<N>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N> + nalgebra::allocator::Allocator<N, N>,
{
    GaussianBelief {
        mean: &from.mean * (1.0 - share) + &to.mean * share,
        cov: &from.cov * (1.0 - share) + &to.cov * share,
    }
}

impl<F: Smooth> Smooth for Gated<F>
where
    F: Filter<Belief = GaussianBelief<<F as Filter>::State>>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    fn joint(
        &self,
        belief: &GaussianBelief<F::State>,
        u: &[f64],
        step: &Step,
    ) -> Result<Joint<F::State>, FilterError> {
        self.filter.joint(belief, u, step)
    }

    fn state_angle(&self, i: usize) -> Option<f64> {
        self.filter.state_angle(i)
    }
}
