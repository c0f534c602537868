//! The unscented prediction and update, in any scalar: the kernels of [`Unscented`](crate::filter::UnscentedKalmanFilter).

use super::family::{Family, residual};
use super::setting::{Row, Setting};
use crate::error::FilterError;
use crate::filter::gaussian::{ln_turns, not_positive_definite};
use crate::filter::limit::Limit as Belief;
use crate::filter::sigma_points::{Spread, Weights, condition_on_points};
use crate::linalg::Factor;
use crate::model::likelihood::{Observed, masked_cov};
use crate::scalar::Scalar;
use nalgebra::{DMatrix, Dyn};

fn factor<S: Scalar>(cov: &DMatrix<S>, index: u64) -> Result<DMatrix<S>, FilterError> {
    if let Some(factor) = Factor::new(cov) {
        return Ok(factor.cholesky());
    }
    // As the filter does it: rounding errors are in units of what a covariance was before a measurement.
    let (n, wide) = (cov.nrows() as f64, 1e-9);
    let narrow = n * 8.0 * f64::EPSILON;
    let found = semidefinite(cov, narrow).or_else(|| semidefinite(cov, wide));
    found.ok_or_else(|| not_positive_definite("belief covariance", index))
}

/// The factor of a covariance that is singular. Its root has a derivative where the pivot stays zero, as after a measurement
/// without noise, whatever the parameters are: that of zero.
fn semidefinite<S: Scalar>(cov: &DMatrix<S>, rounding: f64) -> Option<DMatrix<S>> {
    let n = cov.nrows();
    let mut l = DMatrix::from_element(n, n, S::ZERO);
    for j in 0..n {
        let mut pivot = cov[(j, j)];
        for k in 0..j {
            pivot -= l[(j, k)] * l[(j, k)];
        }
        let tiny = cov[(j, j)].abs().scale(rounding);
        if !pivot.is_finite() || S::all_lt(pivot, -tiny) {
            return None;
        }
        let positive = S::all_lt(tiny, pivot);
        if positive {
            l[(j, j)] = pivot.sqrt();
        }
        for i in j + 1..n {
            let mut v = cov[(i, j)];
            for k in 0..j {
                v -= l[(i, k)] * l[(j, k)];
            }
            if positive {
                l[(i, j)] = v / l[(j, j)];
            } else if S::all_lt(tiny * cov[(i, i)].abs(), v.square()) {
                return None; // below a zero pivot there is nothing
            }
        }
    }
    Some(l)
}

pub(super) fn predict<S: Scalar, F: Family>(
    belief: &mut Belief<S>,
    family: &F,
    setting: &Setting<S>,
    w: &Weights,
    q: DMatrix<S>,
    row: &Row<'_>,
) -> Result<(), FilterError> {
    let l = factor(&belief.cov, row.step.index)?;
    let spread = Spread::images(
        &belief.mean,
        &l,
        w.spread,
        Dyn(belief.mean.len()),
        |x, out| family.transition(&setting.theta, x, row.u, &row.step, out),
        |i| family.state_angle(i),
    );
    let shift = spread.shift(w);
    belief.cov = spread.cov(w, &shift) + q;
    belief.mean = spread.centre + shift;
    Ok(())
}

pub(super) fn update<S: Scalar, F: Family>(
    belief: &mut Belief<S>,
    family: &F,
    setting: &Setting<S>,
    w: &Weights,
    row: &Row<'_>,
    observed: Observed<'_>,
) -> Result<S, FilterError> {
    let m = row.y.len();
    let l = factor(&belief.cov, row.step.index)?;
    let mut seen = Spread::images(
        &belief.mean,
        &l,
        w.spread,
        Dyn(m),
        |x, out| family.observe(&setting.theta, x, row.u, &row.step, out),
        |i| family.angle(i),
    );
    for i in (0..m).filter(|&i| !observed.has(i)) {
        seen.centre[i] = S::ZERO;
        seen.ahead.row_mut(i).fill(S::ZERO);
        seen.behind.row_mut(i).fill(S::ZERO);
    }
    let shift = seen.shift(w);
    let predicted = &seen.centre + &shift;
    let r = match observed {
        Observed::All => setting.measurement_cov.clone(),
        _ => masked_cov(&setting.measurement_cov, observed),
    };
    let spread_cov = seen.cov(w, &shift); // m x m
    let v = residual(family, row.y, &predicted, observed);
    let turns = ln_turns(observed.count(m));
    let done = condition_on_points(&belief.mean, &l, &seen, w, (spread_cov, &r), (&v, turns));
    let Some(done) = done else {
        return Err(not_positive_definite("innovation covariance", row.step.index));
    };
    (belief.mean, belief.cov) = (done.mean, done.cov);
    Ok(done.log_likelihood)
}
