//! Localisation: which measurements a state listens to, and how closely.
//!
//! A small ensemble shows correlations between places far apart that are not there. So every state is
//! corrected by the measurements near it alone, with their precision tapered by Gaspari and Cohn's function of
//! the distance, which is 0.63 at the radius and zero from 3.64 radii on:
//!
//! ```
//! use optfilter::filter::Localization;
//! let near = Localization::index(4.0, true)?;
//! let weights = near.weights(0, 40, 40); // state 0 of 40 on a circle, all of them measured
//! println!("{} measurements; {:.4} at a distance of 4", weights.len(), weights[4].1);
//! assert_eq!(weights.len(), 25); // DAPPER 1.7.1: nd_Id_localization, inds_and_coeffs
//! assert_eq!(format!("{:.4}", weights[4].1), "0.6336");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! References: Gaspari and Cohn 1999, equation 4.10; Hunt, Kostelich and Szunyogh 2007. Weights below a
//! thousandth are left out, and the radius is scaled, as in DAPPER.

use crate::error::{FilterError, check_len};
use crate::scalar::Scalar;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Gaspari and Cohn's support is this many radii on each of its two parts; the square root of 10/3, to DAPPER's digits.
const SCALE: f64 = 1.82;
/// A weight below this is none.
const CUTOFF: f64 = 1e-3;

/// Which measurements a state listens to.
#[derive(Clone, Debug, PartialEq)]
pub struct Localization {
    radius: f64,
    distance: Distance,
}

#[derive(Clone, Debug, PartialEq)]
enum Distance {
    /// State i of n stands at i, measurement j of m at j n / m; on a circle or on a line.
    Index { periodic: bool },
    /// Weights by places that were given, for every state.
    Places { measurements: usize, weights: Arc<[Vec<(usize, f64)>]> },
}

impl Localization {
    /// By the distance of indices: measurements are spread evenly over the states, as are all of them or every
    /// second one. `periodic` makes a circle of the states.
    pub fn index(radius: f64, periodic: bool) -> Result<Self, FilterError> {
        check_radius(radius)?;
        Ok(Self { radius, distance: Distance::Index { periodic } })
    }

    /// By the distance of places with `dims` coordinates each: n rows of states, m rows of measurements. Where
    /// `period` is given, the space repeats after that length in each coordinate (infinity: never).
    pub fn places(
        radius: f64,
        dims: usize,
        states: &[f64],
        measurements: &[f64],
        period: Option<&[f64]>,
    ) -> Result<Self, FilterError> {
        check_radius(radius)?;
        if dims == 0 {
            return Err(FilterError::Zero { argument: "coordinates of a place" });
        }
        for (argument, of) in
            [("places of states", states), ("places of measurements", measurements)]
        {
            check_len(argument, of.len().next_multiple_of(dims), of.len(), None)?;
            if let Some(component) = of.iter().position(|v| !v.is_finite()) {
                return Err(FilterError::NotFinite { argument, component, index: None });
            }
        }
        if let Some(period) = period {
            check_len("period", dims, period.len(), None)?;
            if let Some(&value) = period.iter().find(|v| v.is_nan() || **v <= 0.0) {
                let (argument, requirement) = ("period", "positive");
                return Err(FilterError::Setting { argument, value, requirement });
            }
        }
        let squared = |a: &[f64], b: &[f64]| {
            let along = |k: usize| {
                let apart = (a[k] - b[k]).abs();
                match period {
                    Some(period) if period[k].is_finite() => on_circle(apart, period[k]),
                    _ => apart,
                }
            };
            (0..dims).map(|k| along(k) * along(k)).sum::<f64>()
        };
        let near = |state: &[f64]| {
            let all = measurements.chunks_exact(dims).enumerate();
            all.map(|(j, place)| (j, taper(Scalar::sqrt(squared(state, place)), radius)))
                .filter(|(_, weight)| *weight > CUTOFF)
                .collect()
        };
        let weights = states.chunks_exact(dims).map(near).collect();
        let measurements = measurements.len() / dims;
        Ok(Self { radius, distance: Distance::Places { measurements, weights } })
    }

    /// Checks that places were given for this many states and measurements.
    pub(super) fn check_dims(&self, n: usize, m: usize) -> Result<(), FilterError> {
        let Distance::Places { measurements, weights } = &self.distance else { return Ok(()) };
        check_len("places of states", n, weights.len(), None)?;
        check_len("places of measurements", m, *measurements, None)
    }

    /// The measurements that state `i` of `n` listens to, of `m`, with their weights.
    pub fn weights(&self, i: usize, n: usize, m: usize) -> Vec<(usize, f64)> {
        let mut out = Vec::new();
        self.weights_into(i, n, m, &mut out);
        out
    }

    pub(super) fn weights_into(&self, i: usize, n: usize, m: usize, out: &mut Vec<(usize, f64)>) {
        out.clear();
        let periodic = match &self.distance {
            Distance::Places { weights, .. } => return out.extend_from_slice(&weights[i]),
            Distance::Index { periodic } => *periodic,
        };
        // Measurements within reach, by number; on a circle the numbers go on beyond both ends.
        let (spacing, place) = (n as f64 / m as f64, i as f64);
        let reach = 2.0 * SCALE * self.radius;
        let (mut first, mut last) = (0, m as i64 - 1);
        if reach < n as f64 {
            let low = Scalar::floor((place - reach) / spacing) as i64;
            let high = Scalar::floor((place + reach) / spacing) as i64 + 1;
            match periodic {
                true if high - low < m as i64 => (first, last) = (low, high),
                true => {}
                false => (first, last) = (first.max(low), last.min(high)),
            }
        }
        for j in first..=last {
            let j = j.rem_euclid(m as i64) as usize;
            let apart = (j as f64 * spacing - place).abs();
            let weight =
                taper(if periodic { on_circle(apart, n as f64) } else { apart }, self.radius);
            if weight > CUTOFF {
                out.push((j, weight));
            }
        }
        // In their own order, so that sums do not depend on where a circle was cut.
        out.sort_unstable_by_key(|(j, _)| *j);
    }
}

fn check_radius(value: f64) -> Result<(), FilterError> {
    if value > 0.0 {
        return Ok(());
    }
    Err(FilterError::Setting { argument: "radius", value, requirement: "positive" })
}

/// The shorter way round.
fn on_circle(apart: f64, period: f64) -> f64 {
    let rest = apart - Scalar::floor(apart / period) * period;
    Scalar::min(rest, period - rest)
}

/// Gaspari and Cohn's fifth-order function of the distance.
fn taper(distance: f64, radius: f64) -> f64 {
    let r = distance / (SCALE * radius);
    let (r2, r3) = (r * r, r * r * r);
    if r <= 1.0 {
        1.0 + r2 * (-r3 / 4.0 + r2 / 2.0) + r3 * (5.0 / 8.0) - r2 * (5.0 / 3.0)
    } else if r <= 2.0 {
        r2 * (r3 / 12.0 - r2 / 2.0) + r3 * (5.0 / 8.0) + r2 * (5.0 / 3.0) - r * 5.0 + 4.0
            - (2.0 / 3.0) / r
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_a_place() {
        for (n, m) in [(12, 12), (12, 6), (12, 4), (7, 3), (5, 5), (40, 20), (3, 7)] {
            let states: Vec<f64> = (0..n).map(f64::from).collect();
            let measured: Vec<f64> =
                (0..m).map(|j| f64::from(j) * (f64::from(n) / f64::from(m))).collect();
            for radius in [0.1, 0.5, 1.0, 2.0, 100.0, f64::INFINITY] {
                for periodic in [false, true] {
                    let period = [f64::from(n)];
                    let period = periodic.then_some(&period[..]);
                    let by_place =
                        Localization::places(radius, 1, &states, &measured, period).unwrap();
                    let by_index = Localization::index(radius, periodic).unwrap();
                    for i in 0..n as usize {
                        let of = |l: &Localization| l.weights(i, n as usize, m as usize);
                        assert_eq!(of(&by_place), of(&by_index), "{n} {m} {radius} {periodic} {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn places_in_a_plane_and_bad_ones() {
        // (0, 0) and (3, 4) are 5 apart, or 2.2 on a torus of side 5 x 6.
        let all = |period: Option<&[f64]>| {
            Localization::places(2.0, 2, &[0.0, 0.0], &[0.0, 0.0, 3.0, 4.0], period).unwrap()
        };
        let far = all(None).weights(0, 1, 2);
        assert_eq!(far, [(0, 1.0), (1, taper(5.0, 2.0))]);
        let near = all(Some(&[5.0, 6.0])).weights(0, 1, 2);
        assert_eq!(near, [(0, 1.0), (1, taper(8f64.sqrt(), 2.0))]);
        assert!(Localization::index(0.0, true).is_err());
        assert!(Localization::index(f64::NAN, true).is_err());
        assert!(Localization::places(1.0, 0, &[], &[], None).is_err());
        assert!(Localization::places(1.0, 2, &[0.0], &[0.0, 1.0], None).is_err());
        assert!(Localization::places(1.0, 1, &[f64::NAN], &[0.0], None).is_err());
        assert!(Localization::places(1.0, 1, &[0.0], &[0.0], Some(&[0.0])).is_err());
        assert!(all(None).check_dims(1, 3).is_err());
        assert!(all(None).check_dims(2, 2).is_err());
    }
}
