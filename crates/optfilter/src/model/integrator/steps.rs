//! One step of each method.

use super::equation::Drift;
use crate::model::Step;
use crate::rng::Stream;
use crate::scalar::Scalar;
use crate::scratch::Scratch;
use crate::simd::dispatch_long;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, OVector, U1};

/// States up to this size are worked on on the stack, known at compile time or not.
pub(super) const SMALL: usize = 4;

/// Runs `$body` with vectors of the state's size to work in, with anything in them: on the stack where the size is known at compile
/// time or small; else kept ones, and in the vector unit where they are long.
macro_rules! with_work {
    ($drift:expr, $scalar:ty, $len:expr, [$($name:ident),+], $body:expr) => {
        // Constant, so that only one of the two is compiled: a dimension that is a type takes no memory.
        if const { size_of::<D::State>() > 0 } && $len <= SMALL {
            $(let mut $name = [<$scalar>::ZERO; SMALL]; let $name = &mut $name[..$len];)+
            $body
        } else if const { size_of::<D::State>() > 0 } {
            $(let mut $name = Scratch::<$scalar>::new($len);)+
            dispatch_long::<D::State, _>(
                $len,
                #[inline(always)]
                || {
                    $(let $name = &mut *$name;)+
                    $body
                },
            );
        } else {
            let zeros = OVector::<$scalar, D::State>::from_element_generic($drift.state_dim(), U1, <$scalar>::ZERO);
            $(let mut $name = zeros.clone(); let $name = $name.as_mut_slice();)+
            $body
        }
    };
}
pub(super) use with_work;

/// One Euler step in place.
#[inline(always)]
pub fn euler<D: Drift, S: Scalar>(drift: &D, x: &mut [S], u: &[f64], time: f64, dt: f64)
where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [k], euler_step(drift, x, (u, time, dt), k));
}

#[inline(always)]
fn euler_step<D: Drift, S: Scalar>(
    drift: &D,
    x: &mut [S],
    (u, time, dt): (&[f64], f64, f64),
    k: &mut [S],
) {
    drift.drift(x, u, time, k);
    for (x, k) in x.iter_mut().zip(&*k) {
        *x += k.scale(dt);
    }
}

/// One fourth-order Runge-Kutta step in place.
#[inline(always)]
pub fn rk4<D: Drift, S: Scalar>(drift: &D, x: &mut [S], u: &[f64], time: f64, dt: f64)
where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [k1, k2, k, at], {
        rk4_step(drift, x, (u, time, dt), [k1, k2, k], at, 0);
    });
}

/// The same with its stages left behind, one after the other.
#[inline(always)]
pub(super) fn rk4_trailed<D: Drift, S: Scalar>(
    drift: &D,
    x: &mut [S],
    (u, time, dt): (&[f64], f64, f64),
    trail: &mut [S],
) where
    DefaultAllocator: Allocator<D::State>,
{
    with_work!(drift, S, x.len(), [k1, k2, k], {
        rk4_step(drift, x, (u, time, dt), [k1, k2, k], trail, x.len());
    });
}

/// A Runge-Kutta step whose second, third and fourth stages are `stride` numbers apart in `stages`; none apart, where nobody asks
/// for them.
#[inline(always)]
fn rk4_step<D: Drift, S: Scalar>(
    drift: &D,
    x: &mut [S],
    (u, time, dt): (&[f64], f64, f64),
    [k1, k2, k]: [&mut [S]; 3],
    stages: &mut [S],
    stride: usize,
) {
    let half = 0.5 * dt;
    let n = x.len();
    let (k1, k2, k) = (&mut k1[..n], &mut k2[..n], &mut k[..n]);
    drift.drift(x, u, time, k1);
    let at = &mut stages[..n];
    for i in 0..n {
        at[i] = x[i] + k1[i].scale(half);
    }
    drift.drift(at, u, time + half, k2);
    let at = &mut stages[stride..][..n];
    for i in 0..n {
        at[i] = x[i] + k2[i].scale(half);
    }
    drift.drift(at, u, time + half, k);
    let at = &mut stages[2 * stride..][..n];
    // The two in the middle enter as one.
    for i in 0..n {
        at[i] = x[i] + k[i].scale(dt);
        k2[i] += k[i];
    }
    drift.drift(at, u, time + dt, k);
    for i in 0..n {
        x[i] += (k1[i] + k2[i] + k2[i] + k[i]).scale(dt / 6.0);
    }
}

/// Steps the stochastic equation dx = f dt + alpha dW over `step` by `substeps` Euler-Maruyama steps.
pub fn euler_maruyama<D: Drift>(
    drift: &D,
    diffusion_std: f64,
    x: &mut [f64],
    u: &[f64],
    step: &Step,
    substeps: u32,
    stream: &mut Stream,
) where
    DefaultAllocator: Allocator<D::State>,
{
    let substeps = substeps.max(1);
    let dt = step.dt / f64::from(substeps);
    let increment_std = diffusion_std * Scalar::sqrt(dt);
    for k in 0..substeps {
        euler(drift, x, u, step.time - step.dt + f64::from(k) * dt, dt);
        for x in x.iter_mut() {
            *x += increment_std * stream.normal();
        }
    }
}
