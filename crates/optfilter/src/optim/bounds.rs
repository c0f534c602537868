//! Box bounds on the state: points are projected into the box, samples reflected at its sides, and a Gaussian is given the
//! moments of what lies inside.

use super::OptimizerError;
use crate::scalar::Scalar;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Lower and upper bounds, one pair per component; infinite where there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl Bounds {
    /// From the two corners of the box.
    pub fn new(lower: Vec<f64>, upper: Vec<f64>) -> Result<Self, OptimizerError> {
        let longest = lower.len().max(upper.len());
        for index in 0..longest {
            let low = lower.get(index).copied().unwrap_or(f64::NAN);
            let high = upper.get(index).copied().unwrap_or(f64::NAN);
            // The negation also catches NaN, and so vectors of different lengths.
            if !matches!(
                low.partial_cmp(&high),
                Some(core::cmp::Ordering::Less | core::cmp::Ordering::Equal)
            ) {
                return Err(OptimizerError::Bounds { index, lower: low, upper: high });
            }
        }
        Ok(Self { lower, upper })
    }

    /// The number of components.
    pub fn dim(&self) -> usize {
        self.lower.len()
    }

    /// Whether a component is at its bound, or beyond.
    pub fn touched(&self, x: &[f64]) -> bool {
        let pairs = self.lower.iter().zip(&self.upper);
        x.iter().zip(pairs).any(|(x, (low, high))| x <= low || x >= high)
    }

    /// The nearest point of the box.
    #[inline]
    pub fn project<S: Scalar>(&self, x: &mut [S]) {
        for ((x, &low), &high) in x.iter_mut().zip(&self.lower).zip(&self.upper) {
            *x = x.confined(low, high);
        }
    }

    /// Whether no component lies outside; what is not a number lies nowhere.
    #[inline]
    pub fn contains(&self, x: &[f64]) -> bool {
        !x.iter().zip(&self.lower).zip(&self.upper).any(|((x, low), high)| x < low || x > high)
    }

    /// The sides of component `i`, or `None` where there are none.
    pub(crate) fn sides(&self, i: usize) -> Option<(f64, f64)> {
        let (low, high) = (*self.lower.get(i)?, *self.upper.get(i)?);
        (low > f64::NEG_INFINITY || high < f64::INFINITY).then_some((low, high))
    }
}

/// A number reflected at the side it went through, and no farther than to the other one.
pub(crate) fn reflect(x: f64, (low, high): (f64, f64)) -> f64 {
    match x {
        x if x < low => (low + (low - x)).min(high),
        x if x > high => (high - (x - high)).max(low),
        x => x,
    }
}

/// Beyond so many standard deviations a bound changes nothing that a double could hold.
const FAR: f64 = 9.0;

/// Mean and variance of what of N(mean, var) lies between two sides; `None` where both are too far away to matter.
///
/// By Gauss-Legendre quadrature over the part of the interval that weighs something, with the density relative to its
/// largest value there, so that it holds as well far out in a tail and in a narrow gap, where differences of the error
/// function have no digits left.
pub(crate) fn truncated(mean: f64, var: f64, (low, high): (f64, f64)) -> Option<(f64, f64)> {
    const POINTS: [(f64, f64); 4] = [
        (0.183_434_642_495_649_8, 0.362_683_783_378_362),
        (0.525_532_409_916_329, 0.313_706_645_877_887_3),
        (0.796_666_477_413_626_7, 0.222_381_034_453_374_5),
        (0.960_289_856_497_536_3, 0.101_228_536_290_376_3),
    ];
    const PIECES: u32 = 16;
    let std = Scalar::sqrt(var);
    if !(std > 0.0 && std.is_finite() && mean.is_finite()) {
        return Some((mean.confined(low, high), var));
    }
    let (a, b) = ((low - mean) / std, (high - mean) / std);
    if a < -FAR && b > FAR {
        return None;
    }
    // The density is largest at `top`, and e^-40 of that where (t - top) (t + top) = 80.
    let top = 0.0f64.confined(a, b);
    let reach = 80.0 / (top.abs() + Scalar::sqrt(80.0 + top * top));
    // Both as distances from `top`, which may be far from zero.
    let (start, width) = {
        let (start, end) = ((a - top).max(-reach), (b - top).min(reach));
        (start, end - start)
    };
    let half = width / f64::from(2 * PIECES);
    let nodes = || {
        (0..PIECES).flat_map(move |k| {
            let centre = start + f64::from(2 * k + 1) * half;
            let sides = [-1.0, 1.0].into_iter();
            sides.flat_map(move |side| {
                POINTS.into_iter().map(move |(at, weight)| {
                    let d = centre + side * at * half;
                    (d, weight * Scalar::exp(-0.5 * d * (d + 2.0 * top)))
                })
            })
        })
    };
    let (mass, first) = nodes().fold((0.0, 0.0), |(m, f), (d, w)| (m + w, f + w * d));
    let shift = first / mass;
    let spread = nodes().fold(0.0, |s, (d, w)| s + w * (d - shift) * (d - shift)) / mass;
    let from = if top == 0.0 { mean } else { mean.confined(low, high) };
    Some(((from + std * shift).confined(low, high), var * spread))
}

#[cfg(test)]
mod tests {
    use super::truncated;

    /// `scipy.stats.truncnorm.mean(a, b)` and `.var(a, b)`.
    #[test]
    fn moments_inside_an_interval() {
        let inf = f64::INFINITY;
        for (a, b, mean, var) in [
            (0.0, inf, 0.7978845608028654, 0.3633802276324186),
            (1.5, inf, 1.9386771666225433, 0.1495465935502024),
            (-1.0, 0.5, -0.20663121806153306, 0.1727732590864931),
            (6.0, inf, 6.158482604544618, 0.023987636789045252),
            (-2.0, 3.0, 0.05078298967487897, 0.8731486399754057),
            (3.0, 3.2, 3.0897457917194284, 0.0032660265778667874),
        ] {
            // Of N(5, 4), whose standard deviation is 2.
            let found = truncated(5.0, 4.0, (5.0 + 2.0 * a, 5.0 + 2.0 * b)).unwrap();
            assert!((found.0 - (5.0 + 2.0 * mean)).abs() < 1e-13, "{a} {b}: {found:?}");
            assert!((found.1 / (4.0 * var) - 1.0).abs() < 1e-10, "{a} {b}: {found:?}");
        }
        assert_eq!(truncated(5.0, 1.0, (-5.0, inf)), None);
        // Far out the tail is an exponential of scale var / distance.
        let (mean, var) = truncated(-1e6, 1.0, (0.0, inf)).unwrap();
        assert!((mean * 1e6 - 1.0).abs() < 1e-6 && (var * 1e12 - 1.0).abs() < 1e-6, "{mean} {var}");
        // Nothing is known of a state without a variance but where it must be.
        assert_eq!(truncated(-1.0, 0.0, (0.0, 2.0)), Some((0.0, 0.0)));
        assert_eq!(truncated(-1.0, 1.0, (2.0, 2.0)), Some((2.0, 0.0)));
    }
}
