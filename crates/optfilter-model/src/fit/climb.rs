//! Uphill by a quasi-Newton method: Broyden, Fletcher, Goldfarb and Shanno, with a line search by bisection.
//!
//! ```text
//! d = H g,   z <- z + t d,   H <- (I - r s y') H (I - r y s') + r s s',   s = t d,  y = g before less g after,  r = 1 / s'y
//! ```
//!
//! The step t meets the weak Wolfe conditions (Lewis and Overton 2013): bracketed from both sides, so that a place without
//! a value, where a filter diverges, is only one more upper end. `docs/decisions/0012-own-bfgs.md` says why this is ours.
//!
//! Reference: Nocedal and Wright 2006, chapters 3 and 6.

use nalgebra::{DMatrix, DVector};

/// Where a climb ended. Whether nothing rises there is for [`settle`](super::uncertain::settle) to say.
#[derive(Clone, Debug)]
pub(crate) struct Summit {
    pub(crate) z: Vec<f64>,
    pub(crate) value: f64,
    pub(crate) gradient: Vec<f64>,
}

/// Share of the promised rise that a step must bring, and of the slope that it may leave.
const WOLFE: (f64, f64) = (1e-4, 0.9);
/// The longest move of one component in a step; the lines of a search are in logarithms or in sizes.
const LONGEST: f64 = 3.0;
/// A rise that is not worth a step.
const NEGLIGIBLE: f64 = 1e-9;
const MAX_STEPS: usize = 300;

/// What rounding may make of a log-likelihood of that size.
pub(crate) fn rounding(value: f64) -> f64 {
    1e-14 * value.abs()
}

/// Climbs from `z`; `None` if there is no value there, or once it is plain that it ends below `floor`. `f` gives value and
/// gradient, or nothing. What is at the end of its line stays there.
pub(crate) fn climb(
    z: Vec<f64>,
    floor: f64,
    f: &dyn Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<Summit> {
    let f = &|z: &[f64]| {
        let (value, mut gradient) = f(z)?;
        let held = gradient.iter_mut().zip(z).filter(|(_, z)| z.is_infinite());
        held.for_each(|(g, _)| *g = 0.0);
        Some((value, gradient))
    };
    let p = z.len();
    let (mut value, gradient) = f(&z)?;
    let mut z = DVector::from_vec(z);
    let mut g = DVector::from_vec(gradient);
    let mut h = DMatrix::identity(p, p) / g.amax().max(1.0);
    let (mut fresh, mut idle) = (true, 0);
    for taken in 0..MAX_STEPS {
        let mut d = &h * &g;
        if g.dot(&d) <= 0.0 {
            (h, fresh) = (DMatrix::identity(p, p) / g.amax().max(1.0), true);
            d = &h * &g;
        }
        if g.amax() < 1e-10 {
            break;
        }
        let longest = d.amax();
        if longest > LONGEST {
            d *= LONGEST / longest;
        }
        let slope = g.dot(&d);
        // Eight times what the matrix promises.
        if !fresh && taken >= 3 && value + 4.0 * slope < floor {
            return None;
        }
        let Some((t, next)) = search(&z, &d, value, slope, f) else {
            // Nothing higher along d: the end, unless d came from a matrix that is out of date.
            if fresh {
                break;
            }
            (h, fresh) = (DMatrix::identity(p, p) / g.amax().max(1.0), true);
            continue;
        };
        let (risen, after) = (next.0 - value, DVector::from_vec(next.1));
        let (s, y) = (&d * t, &g - &after);
        let sy = s.dot(&y);
        if sy > 1e-12 * s.norm() * y.norm() {
            if fresh {
                h = DMatrix::identity(p, p) * (sy / y.dot(&y));
                fresh = false;
            }
            let hy = &h * &y;
            let curved = (1.0 + y.dot(&hy) / sy) / sy;
            h += (&s * s.transpose()) * curved - (&s * hy.transpose() + &hy * s.transpose()) / sy;
        }
        (z, value, g) = (z + s, next.0, after);
        idle = if risen < NEGLIGIBLE + rounding(value) { idle + 1 } else { 0 };
        if idle >= 3 {
            break;
        }
    }
    let (z, gradient) = (z.as_slice().to_vec(), g.as_slice().to_vec());
    Some(Summit { z, value, gradient })
}

/// A step along `d` that rises enough and leaves less slope.
fn search(
    z: &DVector<f64>,
    d: &DVector<f64>,
    value: f64,
    slope: f64,
    f: &impl Fn(&[f64]) -> Option<(f64, Vec<f64>)>,
) -> Option<(f64, (f64, Vec<f64>))> {
    let (mut low, mut high, mut t) = (0.0, f64::INFINITY, 1.0);
    let mut best: Option<(f64, (f64, Vec<f64>))> = None;
    for _ in 0..40 {
        let found = f((z + d * t).as_slice()).filter(|(v, _)| v.is_finite());
        match found {
            Some((v, g)) if v >= value + WOLFE.0 * t * slope => {
                let left: f64 = g.iter().zip(d.iter()).map(|(g, d)| g * d).sum();
                let steep = left > WOLFE.1 * slope && t * d.amax() < LONGEST;
                if best.as_ref().is_none_or(|(_, (b, _))| v >= *b) {
                    best = Some((t, (v, g)));
                }
                if !steep {
                    break;
                }
                low = t;
            }
            _ => high = t,
        }
        t = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * low };
        // Once something has been found, a few bisections must do.
        if best.is_some() && high.is_finite() && (high - low) < 1e-3 * high {
            break;
        }
    }
    best.filter(|(_, (v, _))| *v > value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley upside down, with nothing beyond a wall.
    fn valley(z: &[f64]) -> Option<(f64, Vec<f64>)> {
        if z[0] > 1.5 {
            return None;
        }
        let (a, b) = (1.0 - z[0], z[1] - z[0] * z[0]);
        Some((-(a * a + 100.0 * b * b), vec![2.0 * a + 400.0 * z[0] * b, -200.0 * b]))
    }

    #[test]
    fn a_curved_valley_is_followed_to_its_end_past_places_without_a_value() {
        let top = climb(vec![-1.2, 1.0], f64::NEG_INFINITY, &valley).unwrap();
        // The curvature there is 0.5 in the flattest direction: 1e-9 in value is 5e-5 in place.
        assert!((top.z[0] - 1.0).abs() < 5e-5 && (top.z[1] - 1.0).abs() < 1e-4, "{top:?}");
        assert!(climb(vec![2.0, 0.0], f64::NEG_INFINITY, &valley).is_none());
    }
}
