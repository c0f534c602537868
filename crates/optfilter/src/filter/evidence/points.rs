//! The unscented prediction and update, in any scalar: the kernels of [`Unscented`](crate::filter::Unscented).

use super::{Belief, Family, Row, Setting, residual};
use crate::error::FilterError;
use crate::filter::gaussian::{log_density, not_positive_definite};
use crate::filter::unscented::{Spread, Weights, times_transpose};
use crate::linalg::{Factor, Solver, product, sandwich, symmetric_product};
use crate::model::likelihood::{Observed, masked_cov};
use crate::scalar::Scalar;
use alloc::vec;
use nalgebra::{DMatrix, DVector, Dyn};

type Images<S> = Spread<S, Dyn, Dyn>;

/// Sends the points of a belief through `f`.
fn images<S: Scalar>(
    mean: &DVector<S>,
    factor: &DMatrix<S>,
    spread: f64,
    d: usize,
    f: impl Fn(&[S], &mut [S]),
    angle: impl Fn(usize) -> Option<f64>,
) -> Images<S> {
    let n = mean.len();
    let mut out = Images {
        centre: DVector::from_element(d, S::ZERO),
        ahead: DMatrix::from_element(d, n, S::ZERO),
        behind: DMatrix::from_element(d, n, S::ZERO),
    };
    f(mean.as_slice(), out.centre.as_mut_slice());
    let mut image = vec![S::ZERO; d];
    for j in 0..n {
        for (sign, columns) in [(spread, &mut out.ahead), (-spread, &mut out.behind)] {
            let point = DVector::from_fn(n, |i, _| mean[i] + factor[(i, j)].scale(sign));
            f(point.as_slice(), &mut image);
            for i in 0..d {
                let deviation = image[i] - out.centre[i];
                columns[(i, j)] = angle(i).map_or(deviation, |turn| deviation.wrap(turn));
            }
        }
    }
    out
}

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
    let spread = images(
        &belief.mean,
        &l,
        w.spread,
        belief.mean.len(),
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
    let mut seen = images(
        &belief.mean,
        &l,
        w.spread,
        m,
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
    let s = &spread_cov + &r;
    let d = (&seen.ahead - &seen.behind).map(|v| v.scale(w.outer * w.spread)); // m x n
    let cross_t = times_transpose(&d, &l); // C', m x n
    let solver = Solver::new(&s)
        .ok_or_else(|| not_positive_definite("innovation covariance", row.step.index))?;
    let gain = solver.solve(&cross_t).transpose(); // G = C S^-1, n x m
    let v = residual(family, row.y, &predicted, observed);
    let kept = &l - product(&gain, &d); // (I - G H) L, n x n
    let mut noise = spread_cov - symmetric_product(&d, &d) + &r; // Omega + R
    for i in 0..m {
        // As in the filter: of a measurement without noise whose equation is as good as linear only rounding is left.
        let exact = !S::all_lt(S::ZERO, r[(i, i)]);
        if exact && !S::all_lt(s[(i, i)].scale(1e-12), noise[(i, i)].abs()) {
            noise.row_mut(i).fill(S::ZERO);
            noise.column_mut(i).fill(S::ZERO);
        }
    }
    belief.mean = &belief.mean + product(&gain, &v);
    belief.cov = symmetric_product(&kept, &kept) + sandwich(&gain, &noise);
    let nis = solver.quadratic_form(&v);
    Ok(log_density(nis, &solver, observed.count(m)))
}
