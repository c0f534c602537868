//! Models that differ by the value of their parameters, and their slopes.

use crate::model::Step;
use crate::model::likelihood::Observed;
use crate::scalar::{Dual, Scalar};
use alloc::vec;
use alloc::vec::Vec;
use nalgebra::{DMatrix, DVector};

/// Models that differ by the value of their parameters.
pub trait Family {
    /// The numbers of states and of measurements.
    fn dims(&self) -> (usize, usize);

    /// The number of inputs.
    fn input_dim(&self) -> usize {
        0
    }

    /// Writes the state after a step.
    fn transition<S: Scalar>(&self, theta: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]);

    /// Writes the measurement that is expected of a state.
    fn observe<S: Scalar>(&self, theta: &[S], x: &[S], u: &[f64], step: &Step, out: &mut [S]);

    /// Whether the dynamics are dx = (A x + b(u)) dt with constant A, which is solved exactly; then
    /// [`rate`](Self::rate) is asked instead of [`transition`](Self::transition).
    fn is_exact(&self) -> bool {
        false
    }

    /// Whether state and measurement after a step are affine in the state, by coefficients that depend on nothing but the
    /// parameters and the length of the step (inputs may be added), and no component is an angle. Then they are asked for once.
    fn is_invariant(&self) -> bool {
        false
    }

    /// Writes the rate of change of a state.
    fn rate<S: Scalar>(&self, _theta: &[S], _x: &[S], _u: &[f64], _out: &mut [S]) {}

    /// The length of a whole turn, of a component of the state that is an angle.
    fn state_angle(&self, _component: usize) -> Option<f64> {
        None
    }

    /// The same of a component of the measurement.
    fn angle(&self, _component: usize) -> Option<f64> {
        None
    }
}

/// The value and the Jacobian by x of a function of parameters and x, four directions at a time.
pub(super) fn jacobian<S: Scalar>(
    theta: &[S],
    x: &[S],
    m: usize,
    f: impl Fn(&[Dual<S, 4>], &[Dual<S, 4>], &mut [Dual<S, 4>]),
) -> (DVector<S>, DMatrix<S>) {
    let n = x.len();
    let theta: Vec<_> = theta.iter().map(|&v| Dual::constant(v)).collect();
    let mut value = DVector::from_element(m, S::ZERO);
    let mut matrix = DMatrix::from_element(m, n, S::ZERO);
    let mut out = vec![Dual::ZERO; m];
    for first in (0..n).step_by(4) {
        let seeded = |(j, &v): (usize, &S)| Dual::variable(v, j.wrapping_sub(first));
        let point: Vec<_> = x.iter().enumerate().map(seeded).collect();
        f(&theta, &point, &mut out);
        for i in 0..m {
            value[i] = out[i].re;
            for d in 0..4.min(n - first) {
                matrix[(i, first + d)] = out[i].eps[d];
            }
        }
    }
    (value, matrix)
}

/// Measurement less prediction, zero where missing, angles brought into half a turn.
pub(super) fn residual<S: Scalar, F: Family>(
    family: &F,
    y: &[f64],
    predicted: &DVector<S>,
    observed: Observed<'_>,
) -> DVector<S> {
    DVector::from_fn(y.len(), |i, _| {
        if !observed.has(i) {
            return S::ZERO;
        }
        let difference = S::from_f64(y[i]) - predicted[i];
        family.angle(i).map_or(difference, |turn| difference.wrap(turn))
    })
}
