//! Lorenz's 1996 model of the atmosphere on a circle of latitude, of any size.
//!
//! ```text
//! dx_i = (x_{i+1} - x_{i-2}) x_{i-1} - x_i + forcing,     indices modulo n
//! ```
//!
//! Chaotic for forcing = 8. Reference: Lorenz 1996, "Predictability: a problem partly solved".

use super::integrator::{DriftJvp, DriftVjp};
use super::random_walk::write_identity;
use super::{Drift, Integrated, Integrator, JacobianMut, Jvp, Observation, Step, Vjp};
use crate::scalar::Scalar;
use crate::simd::dispatch_long;
use nalgebra::Dim;

/// The equations on `N` points, seen in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lorenz96<N: Dim> {
    dim: N,
    forcing: f64,
}

impl<N: Dim> Lorenz96<N> {
    /// On `dim` points with the given forcing.
    pub fn new(dim: N, forcing: f64) -> Self {
        Self { dim, forcing }
    }

    /// Stepped by fourth-order Runge-Kutta.
    pub fn rk4(self) -> Integrated<Self> {
        Integrated::new(self, Integrator::Rk4)
    }

    /// Stepped by Euler's method.
    pub fn euler(self) -> Integrated<Self> {
        Integrated::new(self, Integrator::Euler)
    }
}

/// Writes `f` of five neighbours in `x` and in `r` at each point of a circle, the middle one of which is the point. Only the four
/// points at the seam pay for a division.
#[inline(always)]
fn around<S: Copy>(x: &[S], r: &[S], out: &mut [S], f: impl Fn([S; 5], [S; 5]) -> S) {
    let n = x.len();
    for i in (0..n.min(2)).chain(n.saturating_sub(2).max(2)..n) {
        let near = [i + 2 * n - 2, i + 2 * n - 1, i, i + 1, i + 2].map(|k| k % n);
        out[i] = f(near.map(|k| x[k]), near.map(|k| r[k]));
    }
    // Slices of one length, by name: no index is looked at twice, and no closure is compiled apart.
    let Some(inner) = n.checked_sub(4) else { return };
    let out = &mut out[2..][..inner];
    let (x0, x1, x2, x3, x4) =
        (&x[..inner], &x[1..][..inner], &x[2..][..inner], &x[3..][..inner], &x[4..][..inner]);
    let (r0, r1, r2, r3, r4) =
        (&r[..inner], &r[1..][..inner], &r[2..][..inner], &r[3..][..inner], &r[4..][..inner]);
    for i in 0..inner {
        out[i] = f([x0[i], x1[i], x2[i], x3[i], x4[i]], [r0[i], r1[i], r2[i], r3[i], r4[i]]);
    }
}

#[inline(always)]
fn vjp<S: Scalar>(x: &[S], r: &[S], out: &mut [S]) {
    around(
        x,
        r,
        out,
        #[inline(always)]
        |[twice, before, _, next, second], [_, r_before, r, r_next, r_second]| {
            r_before * twice + r_next * (second - before) - r_second * next - r
        },
    );
}

#[inline(always)]
fn jvp<S: Scalar>(x: &[S], v: &[S], out: &mut [S]) {
    around(
        x,
        v,
        out,
        #[inline(always)]
        |[twice, before, _, next, _], [v_twice, v_before, v, v_next, _]| {
            (v_next - v_twice) * before + (next - twice) * v_before - v
        },
    );
}

impl<N: Dim> Drift for Lorenz96<N> {
    type State = N;
    #[inline(always)]
    fn state_dim(&self) -> N {
        self.dim
    }
    #[inline(always)]
    fn drift<S: Scalar>(&self, x: &[S], _u: &[f64], _time: f64, out: &mut [S]) {
        let forcing = S::from_f64(self.forcing);
        around(
            x,
            x,
            out,
            #[inline(always)]
            |[twice, before, x, next, _], _| (next - twice) * before - x + forcing,
        );
    }
    #[inline(always)]
    fn drift_vjp<S: Scalar>(&self) -> Option<DriftVjp<Self, S>> {
        Some(
            #[inline(always)]
            |_, x, _, _, r, out| {
                // It is called by its address, out of the vector unit.
                dispatch_long::<N, _>(
                    x.len(),
                    #[inline(always)]
                    || vjp(x, r, out),
                )
            },
        )
    }
    #[inline(always)]
    fn drift_jvp(&self) -> Option<DriftJvp<Self>> {
        Some(
            #[inline(always)]
            |_, x, _, _, v, out| {
                dispatch_long::<N, _>(
                    x.len(),
                    #[inline(always)]
                    || jvp(x, v, out),
                )
            },
        )
    }
}

impl<N: Dim> Observation for Lorenz96<N> {
    type Output = N;
    #[inline(always)]
    fn output_dim(&self) -> N {
        self.dim
    }
    #[inline(always)]
    fn is_identity(&self) -> bool {
        true
    }
    #[inline(always)]
    fn observe<S: Scalar>(&self, x: &[S], _u: &[f64], _step: &Step, out: &mut [S]) {
        out.copy_from_slice(x);
    }
    #[inline(always)]
    fn observation_jacobian(
        &self,
        x: &[f64],
        _u: &[f64],
        _step: &Step,
        out: &mut JacobianMut<'_>,
    ) -> bool {
        write_identity(x.len(), out)
    }
    #[inline(always)]
    fn vjp<S: Scalar>(&self) -> Option<Vjp<Self, S>> {
        Some(
            #[inline(always)]
            |_, _, _, _, r, out| out.copy_from_slice(r),
        )
    }
    #[inline(always)]
    fn jvp(&self) -> Option<Jvp<Self>> {
        Some(|_, _, _, _, v, out| out.copy_from_slice(v))
    }
}
