//! The two systems as the published program's filters see them, over lanes.

use super::lanes::V;
use super::quirks::Quirks;
use crate::systems::{Dynamics, STEPS};

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
    fn predict<const W: usize>(&self, x: &mut [V<W>; N], t: usize);
    /// Gradient of `|y - h(x)|^2 / 2`.
    fn gradient<const W: usize>(&self, x: &[V<W>; N], y: &[V<W>; N]) -> [V<W>; N];
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
    pub fn transition<const W: usize>(&self, x: V<W>, t: usize) -> V<W> {
        0.5 * x + 25.0 * x / (1.0 + x * x) + self.forcing[t]
    }

    /// Derivative of the transition.
    #[inline(always)]
    pub fn slope<const W: usize>(x: V<W>) -> V<W> {
        let d = 1.0 + x * x;
        0.5 + 25.0 * (1.0 - x * x) / (d * d)
    }

    /// `x^2 / 20`.
    #[inline(always)]
    pub fn measure<const W: usize>(x: V<W>) -> V<W> {
        x * x / 20.0
    }

    /// Derivative of the measurement.
    #[inline(always)]
    pub fn measure_slope<const W: usize>(x: V<W>) -> V<W> {
        x / 10.0
    }
}

impl Model<1> for Toy {
    #[inline(always)]
    fn predict<const W: usize>(&self, x: &mut [V<W>; 1], t: usize) {
        x[0] = self.transition(x[0], t);
    }

    #[inline(always)]
    fn gradient<const W: usize>(&self, x: &[V<W>; 1], y: &[V<W>; 1]) -> [V<W>; 1] {
        [-Self::measure_slope(x[0]) * (y[0] - Self::measure(x[0]))]
    }
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
    pub fn drift<const W: usize>(&self, x: &[V<W>; 3]) -> [V<W>; 3] {
        [SIGMA * (x[1] - x[0]), x[0] * (RHO - x[2]) - x[1], x[0] * x[1] - self.beta * x[2]]
    }

    /// `x + h f(x)`.
    #[inline(always)]
    pub fn euler<const W: usize>(&self, x: &[V<W>; 3], h: f64) -> [V<W>; 3] {
        let f = self.drift(x);
        [x[0] + h * f[0], x[1] + h * f[1], x[2] + h * f[2]]
    }

    #[inline(always)]
    fn rk4<const W: usize>(&self, x: &[V<W>; 3]) -> [V<W>; 3] {
        let h = LORENZ_DT;
        let ahead = |k: &[V<W>; 3], h: f64| [x[0] + h * k[0], x[1] + h * k[1], x[2] + h * k[2]];
        let k1 = self.drift(x);
        let k2 = self.drift(&ahead(&k1, h / 2.0));
        let k3 = self.drift(&ahead(&k2, h / 2.0));
        let k4 = self.drift(&ahead(&k3, h));
        let mut out = *x;
        for c in 0..3 {
            out[c] = x[c] + h / 6.0 * (k1[c] + 2.0 * k2[c] + 2.0 * k3[c] + k4[c]);
        }
        out
    }

    /// The state one measurement later, by the filter's integrator.
    #[inline(always)]
    pub fn step<const W: usize>(&self, x: &[V<W>; 3]) -> [V<W>; 3] {
        match self.dynamics {
            Dynamics::Rk4 => self.rk4(x),
            Dynamics::Euler => self.euler(x, LORENZ_DT),
            Dynamics::Grw => *x,
        }
    }

    /// Jacobian of the drift.
    #[inline(always)]
    fn drift_jacobian<const W: usize>(&self, x: &[V<W>; 3]) -> [[V<W>; 3]; 3] {
        let s = V::splat;
        [[s(-SIGMA), s(SIGMA), s(0.0)], [RHO - x[2], s(-1.0), -x[0]], [x[1], x[0], s(-self.beta)]]
    }

    /// Jacobian of the whole step, less the identity.
    #[inline(always)]
    fn step_jacobian_less_identity<const W: usize>(
        &self,
        x: &[V<W>; 3],
        of_euler: bool,
    ) -> [[V<W>; 3]; 3] {
        let h = LORENZ_DT;
        let mut jacobian = self.drift_jacobian(x);
        if !of_euler && self.dynamics == Dynamics::Rk4 {
            // d k_{i+1} = J(x + h_i k_i) (I + h_i d k_i)
            let chain = |k: &[V<W>; 3], dk: &[[V<W>; 3]; 3], h: f64| {
                let at = [x[0] + h * k[0], x[1] + h * k[1], x[2] + h * k[2]];
                let j = self.drift_jacobian(&at);
                let mut out = j;
                for r in 0..3 {
                    for c in 0..3 {
                        out[r][c] = j[r][c]
                            + h * (j[r][0] * dk[0][c] + j[r][1] * dk[1][c] + j[r][2] * dk[2][c]);
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
                    jacobian[r][c] = (d1[r][c] + 2.0 * d2[r][c] + 2.0 * d3[r][c] + d4[r][c]) / 6.0;
                }
            }
        }
        for row in &mut jacobian {
            for v in row {
                *v = h * *v;
            }
        }
        jacobian
    }

    /// The Jacobian that the EKF uses for the step.
    #[inline(always)]
    pub fn step_jacobian<const W: usize>(&self, x: &[V<W>; 3], quirks: &Quirks) -> [[V<W>; 3]; 3] {
        let (mut jacobian, add_identity) = match self.dynamics {
            Dynamics::Grw => ([[V::splat(0.0); 3]; 3], true),
            _ => (
                self.step_jacobian_less_identity(x, quirks.lorenz_jacobian_of_euler),
                !quirks.lorenz_jacobian_without_identity,
            ),
        };
        if add_identity {
            for c in 0..3 {
                jacobian[c][c] = jacobian[c][c] + 1.0;
            }
        }
        jacobian
    }
}

impl Model<3> for Lorenz {
    #[inline(always)]
    fn predict<const W: usize>(&self, x: &mut [V<W>; 3], _t: usize) {
        *x = self.step(x);
    }

    #[inline(always)]
    fn gradient<const W: usize>(&self, x: &[V<W>; 3], y: &[V<W>; 3]) -> [V<W>; 3] {
        [-(y[0] - x[0]), -(y[1] - x[1]), -(y[2] - x[2])]
    }
}
