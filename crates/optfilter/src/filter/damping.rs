//! Gauss-Newton steps of an iterated update, shortened where they would make the state less likely.
//!
//! ```text
//! J(x) = (x - m)' P^-1 (x - m) + r' R^-1 r,   r = y - h(x)
//! x <- x + a (x+ - x),  a = 1, 1/2, 1/4, ..   until J does not rise
//! ```
//!
//! P may be singular and is not solved with: x+ - m = P w with w = H' S^-1 v, so the first term is w' (x - m), and w goes the same
//! part of the way as x. Rounding is no rise: J is compared to a millionth, and r to 2^-40 of the measurement.
//!
//! Reference: Bell and Cathey 1993; Skoglund, Hendeby and Axehill 2015.

use super::gaussian::GaussianMeasurement;
use crate::Shapes;
use crate::linalg::{Solver, product};
use crate::scalar::Scalar;
use nalgebra::{DefaultAllocator, Dim, OMatrix, OVector, U1};

/// A step is halved so often; if that does not help there is none.
const HALVINGS: u32 = 30;

/// Where an iteration stands: x, w, and J.
#[derive(Clone, Debug)]
pub(crate) struct Place<S: Scalar, N: Dim>
where
    DefaultAllocator: nalgebra::allocator::Allocator<N>,
{
    pub(crate) x: OVector<S, N>,
    w: OVector<S, N>,
    cost: S,
}

/// What a step came to.
pub(crate) enum Stepped<P> {
    Whole(P),
    Shortened(P),
    Not,
    /// S cannot be factored, so nobody knows; the update was computed in another way.
    Unjudged,
}

/// J of one update.
pub(crate) struct Cost<S: Scalar, N: Dim, M: Dim>
where
    DefaultAllocator: Shapes<N, M>,
{
    mean: OVector<S, N>,
    noise: Solver<S, M>,
}

impl<S: Scalar, N: Dim, M: Dim> Cost<S, N, M>
where
    DefaultAllocator: Shapes<N, M>,
{
    /// Around a predicted mean; `size` says how large each measurement is, 0 where it is missing. `None` where J is infinite all around.
    #[inline(always)]
    pub(crate) fn new(
        mean: &OVector<S, N>,
        r: &OMatrix<S, M, M>,
        size: impl Fn(usize) -> S,
    ) -> Option<Self> {
        let mut r = r.clone();
        for i in 0..r.nrows() {
            let least = size(i).scale(1.0 / (1u64 << 40) as f64);
            r[(i, i)] += least * least;
        }
        Some(Self { mean: mean.clone(), noise: Solver::new(&r)? })
    }

    /// With the place where iterations start, the predicted mean; the residual is that of it.
    #[inline(always)]
    pub(crate) fn and_start(self, residual: &OVector<S, M>) -> (Self, Place<S, N>) {
        let w = OVector::from_element_generic(self.mean.shape_generic().0, U1, S::ZERO);
        let cost = self.noise.quadratic_form(residual);
        let start = Place { x: self.mean.clone(), w, cost };
        (self, start)
    }

    /// From one place to what an update by `measurement`, with innovation covariance `s`, makes of it; `residual` is that of a state.
    /// Of lanes all go the whole way, or it is said that some would not.
    #[inline(always)]
    pub(crate) fn step(
        &self,
        from: &Place<S, N>,
        (x, s, measurement): (&OVector<S, N>, &OMatrix<S, M, M>, &GaussianMeasurement<S, N, M>),
        residual: impl Fn(&OVector<S, N>) -> OVector<S, M>,
    ) -> Stepped<Place<S, N>> {
        let Some(factor) = Solver::new(s) else { return Stepped::Unjudged };
        let w = product(&measurement.h.transpose(), &factor.solve(&measurement.residual));
        let (mut share, most) = (1.0, from.cost + (from.cost.abs() + S::ONE).scale(1e-6));
        for halvings in 0..=HALVINGS {
            let part = |to: &OVector<S, N>, from: &OVector<S, N>| match halvings {
                0 => to.clone(),
                _ => from + (to - from).map(|v| v.scale(share)),
            };
            let (x, w) = (part(x, &from.x), part(&w, &from.w));
            let mut cost = self.noise.quadratic_form(&residual(&x));
            for i in 0..x.nrows() {
                cost += w[i] * (x[i] - self.mean[i]);
            }
            if S::all_lt(cost, most) {
                let place = Place { x, w, cost };
                return if halvings == 0 {
                    Stepped::Whole(place)
                } else {
                    Stepped::Shortened(place)
                };
            }
            if S::LANES > 1 {
                break;
            }
            share *= 0.5;
        }
        Stepped::Not
    }
}
