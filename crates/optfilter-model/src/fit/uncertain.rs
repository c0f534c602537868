//! How well estimates are known: the observed information, bounds, and directions in which nothing is known.

use super::climb::Summit;
use super::quantity::Quantity;
use nalgebra::{Cholesky, DMatrix, DVector, SymmetricEigen};

/// Steps of the differences of exact gradients, on the lines of the search.
const STEP: f64 = 1e-4;
/// As far towards a bound as makes no difference where the bound itself would not.
const FAR: f64 = 15.0;
/// A log-likelihood that is no lower than this is as good.
const AS_GOOD: f64 = 1e-4;
/// Information below which a quantity is known to no factor of e^30.
const FLAT: f64 = 1e-3;

/// What is known of the estimates.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge {
    /// Standard errors of the values; none at a bound, or where the likelihood is flat.
    pub(crate) errors: Vec<Option<f64>>,
    /// Correlations of the estimates; NaN where there is no standard error.
    pub(crate) correlations: DMatrix<f64>,
    /// Which estimates lie at which of their bounds.
    pub(crate) at_bound: Vec<Option<f64>>,
    /// Names that the likelihood does not tell apart.
    pub(crate) flat: Vec<usize>,
}

/// Minus the second derivatives by those of `kept`.
fn information(
    z: &[f64],
    kept: &[usize],
    f: &impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<DMatrix<f64>> {
    let mut out = DMatrix::zeros(kept.len(), kept.len());
    for (column, &j) in kept.iter().enumerate() {
        let moved = |by: f64| {
            let mut z = z.to_vec();
            z[j] += by;
            f(&z)
        };
        let ((_, up), (_, down)) = (moved(STEP)?, moved(-STEP)?);
        for (row, &i) in kept.iter().enumerate() {
            out[(row, column)] = (down[i] - up[i]) / (2.0 * STEP);
        }
    }
    let symmetric = (&out + out.transpose()) * 0.5;
    symmetric.iter().all(|v| v.is_finite()).then_some(symmetric)
}

/// The bound at which an estimate lies, if it is as good there and not just as good everywhere.
fn bound(
    summit: &Summit,
    i: usize,
    quantity: &Quantity,
    f: &impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<f64> {
    let as_good = |by: f64| {
        let mut z = summit.z.clone();
        z[i] += by;
        f(&z).is_some_and(|(v, _)| v >= summit.value - AS_GOOD)
    };
    let (low, high) = quantity.bounds;
    let (below, above) = (low.is_finite() && as_good(-FAR), high.is_finite() && as_good(FAR));
    match (below, above) {
        (true, false) if !high.is_finite() && as_good(FAR) => None,
        (true, false) => Some(low),
        (false, true) if !low.is_finite() && as_good(-FAR) => None,
        (false, true) => Some(high),
        _ => None,
    }
}

/// Improves a summit by Newton's steps, and says what is known there.
pub(crate) fn examine(
    summit: &mut Summit,
    quantities: &[Quantity],
    f: &impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Knowledge {
    let p = quantities.len();
    let at_bound: Vec<_> =
        quantities.iter().enumerate().map(|(i, q)| bound(summit, i, q, f)).collect();
    let kept: Vec<usize> = (0..p).filter(|&i| at_bound[i].is_none()).collect();
    let mut out = Knowledge {
        errors: vec![None; p],
        correlations: DMatrix::from_element(p, p, f64::NAN),
        at_bound,
        flat: Vec::new(),
    };
    if kept.is_empty() {
        return out;
    }
    let mut found = information(&summit.z, &kept, f);
    for _ in 0..5 {
        let Some(factor) = found.clone().and_then(Cholesky::new) else { break };
        let g = DVector::from_iterator(kept.len(), kept.iter().map(|&i| summit.gradient[i]));
        let step = factor.solve(&g);
        if g.dot(&step) < 1e-12 || step.amax() > 1.0 {
            break;
        }
        let mut z = summit.z.clone();
        kept.iter().zip(step.iter()).for_each(|(&i, s)| z[i] += s);
        let Some((value, gradient)) = f(&z).filter(|(v, _)| *v >= summit.value) else { break };
        *summit = Summit { z, value, gradient, converged: true };
        found = information(&summit.z, &kept, f);
    }
    let Some(information) = found else {
        out.flat = kept;
        return out;
    };
    // A quantity without bounds is measured by its own size where that is more than the unit of its line.
    let size = |a: usize| match quantities[kept[a]].bounds {
        (low, high) if low.is_finite() || high.is_finite() => 1.0,
        _ => summit.z[kept[a]].abs().max(1.0),
    };
    let relative =
        DMatrix::from_fn(kept.len(), kept.len(), |a, b| information[(a, b)] * size(a) * size(b));
    let eigen = SymmetricEigen::new(relative);
    for (at, _) in eigen.eigenvalues.iter().enumerate().filter(|(_, v)| **v < FLAT) {
        let direction = eigen.eigenvectors.column(at);
        let largest = direction.amax();
        for (i, v) in direction.iter().enumerate() {
            if v.abs() > 0.3 * largest && !out.flat.contains(&kept[i]) {
                out.flat.push(kept[i]);
            }
        }
    }
    out.flat.sort_unstable();
    let Some(factor) = Cholesky::new(information) else {
        if out.flat.is_empty() {
            out.flat = kept;
        }
        return out;
    };
    let cov = factor.inverse();
    for (a, &i) in kept.iter().enumerate() {
        let q = &quantities[i];
        // The delta method: the slope of the value along its line.
        let slope = q.value(optfilter::scalar::Dual::<f64, 1>::variable(summit.z[i], 0)).eps[0];
        out.errors[i] = Some(slope.abs() * cov[(a, a)].sqrt());
        for (b, &j) in kept.iter().enumerate() {
            out.correlations[(i, j)] = cov[(a, b)] / (cov[(a, a)] * cov[(b, b)]).sqrt();
        }
    }
    out
}
