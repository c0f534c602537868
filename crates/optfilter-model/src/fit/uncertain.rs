//! The end of a search: bounds, whether nothing rises any more, and how well estimates are known.
//!
//! - A bound is tried itself: the others climb from there again, and where they come as high as without it, it is the
//!   estimate. A bound where the likelihood rises inwards is left.
//! - Newton's steps with the observed information, the second derivatives, end the search among what is at no bound.
//! - It has converged where the information is positive definite, but for directions that are level, and promises no rise.

use super::climb::{Summit, climb, rounding};
use super::quantity::Quantity;
use nalgebra::{Cholesky, DMatrix, DVector, SymmetricEigen};

/// Steps of the differences of exact gradients, on the lines of the search.
const STEP: f64 = 1e-4;
/// The same in standard errors, at most.
const STEP_OF_ERROR: f64 = 0.1;
/// How far a bound may lie below before the others are asked to climb from there.
const REACH: f64 = 10.0;
/// A log-likelihood that is no lower than this is as good.
const AS_GOOD: f64 = 1e-6;
/// Information below which a quantity is known to no factor of e^30.
const FLAT: f64 = 1e-3;
/// A rise that is still to come and does not matter.
const LEVEL: f64 = 1e-5;

type Value<'f> = &'f dyn Fn(&[f64]) -> Option<(f64, Vec<f64>)>;

/// What is known of the estimates.
#[derive(Clone, Debug)]
pub(crate) struct Knowledge {
    /// Standard errors of the values; none at a bound, or where the likelihood is flat.
    pub(crate) errors: Vec<Option<f64>>,
    /// Correlations of the estimates; NaN where there is no standard error.
    pub(crate) correlations: DMatrix<f64>,
    /// Names that the likelihood does not tell apart.
    pub(crate) flat: Vec<usize>,
    /// By how much the likelihood may still rise, and along which names; none where it is level.
    pub(crate) rising: Option<(f64, Vec<usize>)>,
}

/// Minus the second derivatives by those of `kept`.
fn information(z: &[f64], kept: &[usize], f: Value<'_>) -> Option<DMatrix<f64>> {
    let mut out = DMatrix::zeros(kept.len(), kept.len());
    for (column, &j) in kept.iter().enumerate() {
        let mut step = STEP;
        let found = loop {
            let moved = |by: f64| {
                let mut z = z.to_vec();
                z[j] += by;
                f(&z)
            };
            let ((_, up), (_, down)) = (moved(step)?, moved(-step)?);
            let found: Vec<f64> = kept.iter().map(|&i| (down[i] - up[i]) / (2.0 * step)).collect();
            let errors = step * found[column].abs().sqrt();
            // Beyond a standard error a difference is none any more; below rounding neither.
            if errors > 2.0 * STEP_OF_ERROR && step > 1e-9 * (1.0 + z[j].abs()) {
                step *= STEP_OF_ERROR / errors;
                continue;
            }
            break found;
        };
        out.column_mut(column).copy_from_slice(&found);
    }
    let symmetric = (&out + out.transpose()) * 0.5;
    symmetric.iter().all(|v| v.is_finite()).then_some(symmetric)
}

/// What is as good as a value.
fn floor(value: f64) -> f64 {
    value - AS_GOOD - rounding(value)
}

/// The summit once every bound has been tried, and those that are not as good as what is inside of them have been left.
pub(crate) fn settle(mut best: Summit, quantities: &[Quantity], f: Value<'_>) -> Summit {
    for _ in 0..=quantities.len() {
        for (i, q) in quantities.iter().enumerate() {
            let next = q.ends().find_map(|end| bounded(&best, (i, end), q, f));
            best = next.unwrap_or(best);
        }
        match released(&best, quantities, f) {
            Some(next) => best = next,
            None => break,
        }
    }
    best
}

/// The summit with one more estimate at a bound, if that is as good.
fn bounded(best: &Summit, (i, end): (usize, f64), q: &Quantity, f: Value<'_>) -> Option<Summit> {
    if best.z[i].is_infinite() {
        return None;
    }
    let mut z = best.z.clone();
    z[i] = end;
    f(&z).filter(|(value, _)| *value >= best.value - REACH)?;
    let there = climb(z, floor(best.value), f).filter(|there| there.value >= floor(best.value))?;
    // Where it is as good a unit further in, or at the other end, it is flat and no bound.
    let inside = || q.place(q.value(end).0 - end.signum() * q.scale);
    let mut z = best.z.clone();
    z[i] = q.ends().find(|other| *other != end).unwrap_or_else(inside);
    let is_flat = f(&z).is_some_and(|(value, _)| value >= floor(there.value));
    (!is_flat).then_some(there)
}

/// The summit with one estimate fewer at a bound, if that is higher.
fn released(best: &Summit, quantities: &[Quantity], f: Value<'_>) -> Option<Summit> {
    let (value, slopes) = f(&best.z)?;
    let held = quantities.iter().enumerate().filter(|(i, _)| best.z[*i].is_infinite());
    held.filter(|(i, _)| slopes[*i] * best.z[*i].signum() < 0.0).find_map(|(i, q)| {
        // A short way in, in units of the quantity.
        let inside = (1..=12).find_map(|k| {
            let mut z = best.z.clone();
            let inwards = -z[i].signum() * q.scale * 0.1_f64.powi(k);
            z[i] = q.place(q.value(z[i]).0 + inwards);
            f(&z).filter(|(v, _)| *v > value).map(|_| z)
        })?;
        climb(inside, best.value, f).filter(|there| best.value < floor(there.value))
    })
}

/// Improves a summit by Newton's steps, and says what is known there.
pub(crate) fn examine(summit: &mut Summit, quantities: &[Quantity], f: Value<'_>) -> Knowledge {
    let p = quantities.len();
    let kept: Vec<usize> = (0..p).filter(|&i| summit.z[i].is_finite()).collect();
    let mut out = Knowledge {
        errors: vec![None; p],
        correlations: DMatrix::from_element(p, p, f64::NAN),
        flat: Vec::new(),
        rising: None,
    };
    if kept.is_empty() {
        return out;
    }
    let mut found = information(&summit.z, &kept, f);
    for _ in 0..5 {
        let Some(factor) = found.clone().and_then(Cholesky::new) else { break };
        let g = DVector::from_iterator(kept.len(), kept.iter().map(|&i| summit.gradient[i]));
        let step = factor.solve(&g);
        if g.dot(&step) < 1e-12 + rounding(summit.value) || step.amax() > 1.0 {
            break;
        }
        let mut z = summit.z.clone();
        kept.iter().zip(step.iter()).for_each(|(&i, s)| z[i] += s);
        let Some((value, gradient)) = f(&z).filter(|(v, _)| *v >= summit.value) else { break };
        *summit = Summit { z, value, gradient };
        found = information(&summit.z, &kept, f);
    }
    let Some(information) = found else {
        out.rising = Some((f64::NAN, kept));
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
    let slope = DVector::from_fn(kept.len(), |a, _| summit.gradient[kept[a]] * size(a));
    let noise = FLAT + rounding(summit.value) / STEP;
    let (mut rise, mut rising) = (0.0, Vec::new());
    for (at, &curvature) in eigen.eigenvalues.iter().enumerate() {
        let direction = eigen.eigenvectors.column(at);
        let largest = direction.amax();
        let along: Vec<usize> =
            (0..kept.len()).filter(|&a| direction[a].abs() > 0.3 * largest).collect();
        let along = along.into_iter().map(|a| kept[a]);
        let steep = slope.dot(&direction);
        // Over a unit of the line, or to where the slope ends.
        let more = match curvature < noise {
            true => steep.abs() - 0.5 * curvature.min(0.0),
            false => 0.5 * steep * steep / curvature,
        };
        let level = LEVEL + rounding(summit.value) / STEP;
        if curvature < -noise || more > level + if curvature < noise { noise } else { 0.0 } {
            rise += more;
            rising.extend(along);
        } else if curvature < FLAT {
            out.flat.extend(along);
        }
    }
    for names in [&mut rising, &mut out.flat] {
        names.sort_unstable();
        names.dedup();
    }
    out.rising = (!rising.is_empty()).then_some((rise, rising));
    let Some(factor) = Cholesky::new(information) else {
        if out.flat.is_empty() && out.rising.is_none() {
            out.flat = kept;
        }
        return out;
    };
    let cov = factor.inverse();
    for (a, &i) in kept.iter().enumerate() {
        // The delta method: the slope of the value along its line.
        let (_, slope) = quantities[i].value(summit.z[i]);
        out.errors[i] = Some(slope.abs() * cov[(a, a)].sqrt());
        for (b, &j) in kept.iter().enumerate() {
            out.correlations[(i, j)] = cov[(a, b)] / (cov[(a, a)] * cov[(b, b)]).sqrt();
        }
    }
    out
}
