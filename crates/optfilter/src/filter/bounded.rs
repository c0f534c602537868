//! Any filter, kept inside a box.
//!
//! After every prediction and every update the belief is brought into the box, so bounds hold through missing rows too:
//!
//! - a Gaussian gets the mean and covariance of what of it lies inside (a truncated Gaussian), so its error bar at a bound is
//!   that of a state known to be on one side of it;
//! - particles and members of an ensemble are reflected at the sides they went through;
//! - a point is projected.
//!
//! A belief that is given outside is brought in before anything is made of it. The filters that descend have bounds of their own
//! ([`ImplicitMap::with_bounds`](super::ImplicitMap::with_bounds)), which they also keep between two steps of the
//! descent.
//!
//! A level that cannot be negative, last known to be zero, one row later:
//!
//! ```
//! use nalgebra::{Const, matrix, vector};
//! use optfilter::filter::{Bounded, ExtendedKalmanFilter, Filter, GaussianBelief};
//! use optfilter::model::{GaussianNoise, RandomWalk, Step};
//! use optfilter::optim::Bounds;
//! let noise = GaussianNoise::new(matrix![1.0], matrix![1.0])?;
//! let bounds = Bounds::new(vec![0.0], vec![f64::INFINITY])?;
//! let filter = Bounded::new(ExtendedKalmanFilter::new(RandomWalk::new(Const::<1>), noise), bounds)?;
//! let mut belief = GaussianBelief::new(vector![0.0], matrix![0.0])?;
//! filter.predict(&mut belief, &[], &Step::even(1, 1.0))?;
//! let found = format!("{:.9} +- {:.9}", belief.mean[0], belief.cov[0].sqrt());
//! println!("{found}");
//! assert_eq!(found, "0.797884561 +- 0.602810275"); // scipy.stats.truncnorm(0, inf)
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Reference: Simon and Simon 2010.

use super::gaussian::GaussianBelief;
use super::traits::{Belief, Filter, Update, as_the_inner_filter};
use crate::Shapes;
use crate::error::{FilterError, check_len};
use crate::model::Step;
use crate::model::likelihood::Observed;
use crate::optim::Bounds;
use crate::smoother::{Joint, Smooth};
use nalgebra::{DefaultAllocator, Dim};

/// A filter that keeps its state inside a box.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounded<F> {
    filter: F,
    bounds: Option<Bounds>,
}

impl<F: Filter> Bounded<F> {
    /// A filter and its box.
    pub fn new(filter: F, bounds: impl Into<Option<Bounds>>) -> Result<Self, FilterError> {
        let bounds = bounds.into();
        if let Some(bounds) = &bounds {
            check_len("bounds", filter.dims().0.value(), bounds.dim(), None)?;
        }
        Ok(Self { filter, bounds })
    }
}

impl<F: Filter> Filter for Bounded<F>
where
    F::Belief: Belief<F::State>,
    DefaultAllocator: Shapes<F::State, F::Output>,
{
    as_the_inner_filter!();

    #[inline(always)]
    fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_ref()
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
        self.filter.correct(belief, y, observed, u, step)
    }
}

impl<F: Smooth> Smooth for Bounded<F>
where
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
