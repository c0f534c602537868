//! Whether what a model says of its own derivatives is so.

use super::{
    Jvp, Model, ObservationAt, Step, TransitionAt, linearize_observation, linearize_transition,
    transition_vjp_of,
};
use crate::derivative;
use crate::scalar::Scalar;
use nalgebra::{DMatrix, DefaultAllocator, Dim, OVector, U1};

/// A hand-written derivative that disagrees with the automatic one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{function}: derivative of output {row} by state {column} is {hand} by hand but {automatic} automatically"
)]
pub struct DerivativeMismatch {
    /// Which function's derivative it is.
    pub function: &'static str,
    /// The output.
    pub row: usize,
    /// The state component.
    pub column: usize,
    /// The hand-written value.
    pub hand: f64,
    /// The automatic value.
    pub automatic: f64,
}

/// Compares every hand-written derivative of a model with the automatic one at a point, to a relative
/// difference of 1e-9 of the largest entry.
pub fn check_derivatives<M: Model>(
    model: &M,
    x: &[f64],
    u: &[f64],
    step: &Step,
) -> Result<(), DerivativeMismatch>
where
    DefaultAllocator: crate::Shapes<M::State, M::Output>,
{
    let (n, m) = (model.state_dim(), model.output_dim());
    let compare = |function, hand: &[f64], automatic: &[f64], rows: usize| {
        let scale = automatic.iter().fold(1e-300f64, |s, v| s.max(v.abs()));
        for (k, (&hand, &automatic)) in hand.iter().zip(automatic).enumerate() {
            if (hand - automatic).abs() > 1e-9 * scale || hand.is_nan() != automatic.is_nan() {
                let (row, column) = (k % rows, k / rows);
                return Err(DerivativeMismatch { function, row, column, hand, automatic });
            }
        }
        Ok(())
    };
    let (_, hand) = linearize_transition(model, x, u, step);
    let (_, automatic) = derivative::jacobian(&TransitionAt { dynamics: model, u, step }, x, n, n);
    compare("transition", hand.as_slice(), automatic.as_slice(), n.value())?;
    if let Some(vjp) = model.transition_vjp::<f64>() {
        for i in 0..n.value() {
            let mut r = OVector::<f64, M::State>::zeros_generic(n, U1);
            r[i] = 1.0;
            let mut row = r.clone();
            vjp(model, x, u, step, r.as_slice(), row.as_mut_slice());
            let expected: OVector<f64, M::State> = automatic.row(i).transpose().into_owned();
            compare("transition_vjp", row.as_slice(), expected.as_slice(), n.value())?;
        }
    }
    let pushed = |jvp: Jvp<M>, j: usize, out: &mut [f64]| {
        let mut v = OVector::<f64, M::State>::zeros_generic(n, U1);
        v[j] = 1.0;
        jvp(model, x, u, step, v.as_slice(), out);
    };
    if let Some(jvp) = model.transition_jvp() {
        for j in 0..n.value() {
            let mut column = OVector::<f64, M::State>::zeros_generic(n, U1);
            pushed(jvp, j, column.as_mut_slice());
            let expected: OVector<f64, M::State> = automatic.column(j).into_owned();
            compare("transition_jvp", column.as_slice(), expected.as_slice(), n.value())?;
        }
    }
    if let Some(trail) = Some(model.stage_cache_len()).filter(|len| *len > 0) {
        check_trail(model, x, u, step, trail)?;
    }
    let (_, hand) = linearize_observation(model, n, x, u, step);
    let (_, automatic) =
        derivative::jacobian(&ObservationAt { observation: model, u, step }, x, n, m);
    compare("observation", hand.as_slice(), automatic.as_slice(), m.value())?;
    if model.is_identity() {
        let one = DMatrix::<f64>::identity(m.value(), n.value());
        compare("is_identity", one.as_slice(), automatic.as_slice(), m.value())?;
    }
    if let Some(vjp) = model.vjp::<f64>() {
        for i in 0..m.value() {
            let mut r = OVector::<f64, M::Output>::zeros_generic(m, U1);
            r[i] = 1.0;
            let mut row = OVector::<f64, M::State>::zeros_generic(n, U1);
            vjp(model, x, u, step, r.as_slice(), row.as_mut_slice());
            let expected: OVector<f64, M::State> = automatic.row(i).transpose().into_owned();
            compare("vjp", row.as_slice(), expected.as_slice(), n.value())?;
        }
    }
    if let Some(jvp) = model.jvp() {
        for j in 0..n.value() {
            let mut column = OVector::<f64, M::Output>::zeros_generic(m, U1);
            pushed(jvp, j, column.as_mut_slice());
            let expected: OVector<f64, M::Output> = automatic.column(j).into_owned();
            compare("jvp", column.as_slice(), expected.as_slice(), m.value())?;
        }
    }
    Ok(())
}

/// Compares what is computed along a trail with what is computed without, to the bit.
fn check_trail<M: Model>(
    model: &M,
    x: &[f64],
    u: &[f64],
    step: &Step,
    len: usize,
) -> Result<(), DerivativeMismatch>
where
    DefaultAllocator: crate::Shapes<M::State, M::Output>,
{
    let zeros = || OVector::<f64, M::State>::zeros_generic(model.state_dim(), U1);
    let (mut along, mut plain, mut trail) = (zeros(), zeros(), alloc::vec![0.0; len]);
    let compare = |function, along: &OVector<f64, M::State>, plain: &OVector<f64, M::State>| {
        let differs = |(a, b): (&f64, &f64)| a.to_bits() != b.to_bits();
        match along.iter().zip(plain.iter()).position(differs) {
            None => Ok(()),
            Some(row) => Err(DerivativeMismatch {
                function,
                row,
                column: 0,
                hand: along[row],
                automatic: plain[row],
            }),
        }
    };
    model.transition_with_cache(x, u, step, along.as_mut_slice(), &mut trail);
    model.transition(x, u, step, plain.as_mut_slice());
    compare("transition_with_cache", &along, &plain)?;
    let mut v = zeros();
    v.iter_mut().enumerate().for_each(|(i, v)| *v = Scalar::sin(1.0 + i as f64));
    model.vjp_cached(x, u, step, &trail, v.as_slice(), along.as_mut_slice());
    transition_vjp_of(model, x, u, step, v.as_slice(), plain.as_mut_slice());
    compare("vjp_cached", &along, &plain)?;
    if let Some(jvp) = model.transition_jvp() {
        model.jvp_cached(x, u, step, &trail, v.as_slice(), along.as_mut_slice());
        jvp(model, x, u, step, v.as_slice(), plain.as_mut_slice());
        compare("jvp_cached", &along, &plain)?;
    }
    Ok(())
}
