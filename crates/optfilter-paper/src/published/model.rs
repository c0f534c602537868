//! The two systems as the published program's filters see them, over lanes.

use super::lanes::all;
use super::quirks::Quirks;
use crate::systems::{Dynamics, STEPS};
use optfilter::scalar::{Lanes, Scalar};

/// Time between measurements of the toy system.
const TOY_DT: f64 = 0.1;
/// Time between measurements of the Lorenz system.
pub const LORENZ_DT: f64 = 0.02;
const SIGMA: f64 = 10.0;
const RHO: f64 = 28.0;

/// Variance of the process noise that the Lorenz filters assume.
pub fn lorenz_process_var(alpha: u32, quirks: &Quirks) -> f64 {
    let alpha = f64::from(alpha);
    if quirks.lorenz_process_covariance_linear {
        alpha * LORENZ_DT
    } else {
        alpha * alpha * LORENZ_DT
    }
}

/// What the implicit MAP filter needs of a model: where the state goes, and the gradient of half the squared residual.
pub trait Model<const N: usize>: Copy + Send + Sync {
    /// Carry the state to step `t` (counted from zero), without noise.
    fn predict<const W: usize>(&self, x: &mut [Lanes<W>; N], t: usize);
    /// Gradient of `|y - h(x)|^2 / 2`.
    fn gradient<const W: usize>(&self, x: &[Lanes<W>; N], y: &[Lanes<W>; N]) -> [Lanes<W>; N];
}

/// The toy system; holds the forcing `8 cos(1.2 tau)` of each step.
#[derive(Clone, Copy)]
pub struct Toy {
    /// Forcing that leads to the state of step `t`, counted from zero.
    pub forcing: [f64; STEPS],
}

impl Toy {
    /// With the published clock, or the text's.
    pub fn new(quirks: &Quirks) -> Self {
        let mut forcing = [0.0; STEPS];
        // The program adds 0.1 again and again: 0.1 * t differs from that in the last places.
        let mut tau = if quirks.toy_clock_late { 0.0 } else { TOY_DT };
        for value in &mut forcing {
            *value = 8.0 * (1.2 * tau).cos();
            tau += TOY_DT;
        }
        Self { forcing }
    }

    /// `x/2 + 25 x/(1 + x^2) + 8 cos(1.2 tau)`.
    #[inline(always)]
    pub fn transition<const W: usize>(&self, x: Lanes<W>, t: usize) -> Lanes<W> {
        x.scale(0.5) + x.scale(25.0) / (all(1.0) + x * x) + all(self.forcing[t])
    }

    /// Derivative of the transition.
    #[inline(always)]
    pub fn slope<const W: usize>(x: Lanes<W>) -> Lanes<W> {
        let d = all(1.0) + x * x;
        all(0.5) + (all(1.0) - x * x).scale(25.0) / (d * d)
    }

    /// `x^2 / 20`.
    #[inline(always)]
    pub fn measure<const W: usize>(x: Lanes<W>) -> Lanes<W> {
        x * x / all(20.0)
    }

    /// Derivative of the measurement.
    #[inline(always)]
    pub fn measure_slope<const W: usize>(x: Lanes<W>) -> Lanes<W> {
        x / all(10.0)
    }
}

impl Model<1> for Toy {
    #[inline(always)]
    fn predict<const W: usize>(&self, x: &mut [Lanes<W>; 1], t: usize) {
        x[0] = self.transition(x[0], t);
    }

    #[inline(always)]
    fn gradient<const W: usize>(&self, x: &[Lanes<W>; 1], y: &[Lanes<W>; 1]) -> [Lanes<W>; 1] {
        [-Self::measure_slope(x[0]) * (y[0] - Self::measure(x[0]))]
    }
}

/// `x + h k`.
#[inline(always)]
fn ahead<const W: usize>(x: &[Lanes<W>; 3], k: &[Lanes<W>; 3], h: f64) -> [Lanes<W>; 3] {
    [x[0] + k[0].scale(h), x[1] + k[1].scale(h), x[2] + k[2].scale(h)]
}

/// The Lorenz system with the integrator of the filter.
#[derive(Clone, Copy)]
pub struct Lorenz {
    /// The integrator.
    pub dynamics: Dynamics,
    /// The third parameter of the attractor.
    pub beta: f64,
}

impl Lorenz {
    /// With the published beta, or the text's.
    pub fn new(dynamics: Dynamics, quirks: &Quirks) -> Self {
        let beta = if quirks.lorenz_beta_rounded { 2.667 } else { 8.0 / 3.0 };
        Self { dynamics, beta }
    }

    /// The drift.
    #[inline(always)]
    pub fn drift<const W: usize>(&self, x: &[Lanes<W>; 3]) -> [Lanes<W>; 3] {
        [
            (x[1] - x[0]).scale(SIGMA),
            x[0] * (all(RHO) - x[2]) - x[1],
            x[0] * x[1] - x[2].scale(self.beta),
        ]
    }

    /// `x + h f(x)`.
    #[inline(always)]
    pub fn euler<const W: usize>(&self, x: &[Lanes<W>; 3], h: f64) -> [Lanes<W>; 3] {
        ahead(x, &self.drift(x), h)
    }

    #[inline(always)]
    fn rk4<const W: usize>(&self, x: &[Lanes<W>; 3]) -> [Lanes<W>; 3] {
        let h = LORENZ_DT;
        let k1 = self.drift(x);
        let k2 = self.drift(&ahead(x, &k1, h / 2.0));
        let k3 = self.drift(&ahead(x, &k2, h / 2.0));
        let k4 = self.drift(&ahead(x, &k3, h));
        let mut out = *x;
        for c in 0..3 {
            out[c] = x[c] + (k1[c] + k2[c].scale(2.0) + k3[c].scale(2.0) + k4[c]).scale(h / 6.0);
        }
        out
    }

    /// The state one measurement later, by the filter's integrator.
    #[inline(always)]
    pub fn step<const W: usize>(&self, x: &[Lanes<W>; 3]) -> [Lanes<W>; 3] {
        match self.dynamics {
            Dynamics::Rk4 => self.rk4(x),
            Dynamics::Euler => self.euler(x, LORENZ_DT),
            Dynamics::Grw => *x,
        }
    }

    /// Jacobian of the drift.
    #[inline(always)]
    fn drift_jacobian<const W: usize>(&self, x: &[Lanes<W>; 3]) -> [[Lanes<W>; 3]; 3] {
        [
            [all(-SIGMA), all(SIGMA), all(0.0)],
            [all(RHO) - x[2], all(-1.0), -x[0]],
            [x[1], x[0], all(-self.beta)],
        ]
    }

    /// Jacobian of the whole step, less the identity.
    #[inline(always)]
    fn step_jacobian_less_identity<const W: usize>(
        &self,
        x: &[Lanes<W>; 3],
        of_euler: bool,
    ) -> [[Lanes<W>; 3]; 3] {
        let h = LORENZ_DT;
        let mut jacobian = self.drift_jacobian(x);
        if !of_euler && self.dynamics == Dynamics::Rk4 {
            // d k_{i+1} = J(x + h_i k_i) (I + h_i d k_i)
            let chain = |k: &[Lanes<W>; 3], dk: &[[Lanes<W>; 3]; 3], h: f64| {
                let at = ahead(x, k, h);
                let j = self.drift_jacobian(&at);
                let mut out = j;
                for r in 0..3 {
                    for c in 0..3 {
                        out[r][c] = j[r][c]
                            + (j[r][0] * dk[0][c] + j[r][1] * dk[1][c] + j[r][2] * dk[2][c])
                                .scale(h);
                    }
                }
                (self.drift(&at), out)
            };
            let d1 = jacobian;
            let (k2, d2) = chain(&self.drift(x), &d1, h / 2.0);
            let (k3, d3) = chain(&k2, &d2, h / 2.0);
            let (_, d4) = chain(&k3, &d3, h);
            for r in 0..3 {
                for c in 0..3 {
                    jacobian[r][c] =
                        (d1[r][c] + d2[r][c].scale(2.0) + d3[r][c].scale(2.0) + d4[r][c])
                            / all(6.0);
                }
            }
        }
        for row in &mut jacobian {
            for v in row {
                *v = v.scale(h);
            }
        }
        jacobian
    }

    /// The Jacobian that the EKF uses for the step.
    #[inline(always)]
    pub fn step_jacobian<const W: usize>(
        &self,
        x: &[Lanes<W>; 3],
        quirks: &Quirks,
    ) -> [[Lanes<W>; 3]; 3] {
        let (mut jacobian, add_identity) = match self.dynamics {
            Dynamics::Grw => ([[all(0.0); 3]; 3], true),
            _ => (
                self.step_jacobian_less_identity(x, quirks.lorenz_jacobian_of_euler),
                !quirks.lorenz_jacobian_without_identity,
            ),
        };
        if add_identity {
            for c in 0..3 {
                jacobian[c][c] += all(1.0);
            }
        }
        jacobian
    }
}

impl Model<3> for Lorenz {
    #[inline(always)]
    fn predict<const W: usize>(&self, x: &mut [Lanes<W>; 3], _t: usize) {
        *x = self.step(x);
    }

    #[inline(always)]
    fn gradient<const W: usize>(&self, x: &[Lanes<W>; 3], y: &[Lanes<W>; 3]) -> [Lanes<W>; 3] {
        [-(y[0] - x[0]), -(y[1] - x[1]), -(y[2] - x[2])]
    }
}
