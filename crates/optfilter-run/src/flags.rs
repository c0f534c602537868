//! A word for each row: what a reader of the results should look at twice.
//!
//! | flag | when |
//! |---|---|
//! | `runaway` | the measurement expected of the estimate lies further from all measurements so far than [`RUNAWAY`] times their largest magnitude |
//! | `missing` | nothing was measured |
//! | `lost` | a gate has rejected a sensor so often in a row that good measurements hardly ever are, or starts anew here: see [`Track`](optfilter::filter::Track) |
//! | `outlier` | the normalised innovation squared is beyond the 99.9 % point of chi-square; with a gate, that of some sensor beyond the gate's; never where it has none |
//! | `partial` | some components were not measured |
//! | `bound` | a state is at its bound |
//! | `ok` | none of these |
//!
//! The first that holds is the row's.

use optfilter::filter::{FilterError, Followed, Gate, Gating};
use optfilter::optim::Bounds;
use serde::{Deserialize, Serialize};

/// Times the largest measurement so far: no estimate that is of use expects a measurement so far from all others.
pub const RUNAWAY: f64 = 1e4;

/// The share of measurements that are no outliers, unless a gate says otherwise.
const USUAL: f64 = 0.999;

/// What a row is flagged as, in the order in which tables number their flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Nothing to be said.
    Ok,
    /// Nothing was measured.
    Missing,
    /// Some components were not measured.
    Partial,
    /// The measurement is far from its prediction.
    Outlier,
    /// A state is at its bound.
    Bound,
    /// The estimate has left any range that the measurements speak of.
    Runaway,
    /// The filter was elsewhere than the measurements.
    Lost,
}

/// That a gate lost the track: in how many rows, and which was the first, from 1.
pub fn lost_track(rows: u64, first: u64) -> String {
    let rows = if rows == 1 { "one row is".into() } else { format!("{rows} rows are") };
    format!(
        "the gate lost the track: {rows} flagged lost, the first is row {first}; a wider gate, more process noise or a robust \
         likelihood loses it less"
    )
}

/// What flags are judged from: an innovation, its covariance (m x m) and its normalised square, and what a gate made of the row.
pub(crate) struct Judged<'a> {
    pub(crate) v: &'a [f64],
    pub(crate) s: &'a [f64],
    pub(crate) nis: f64,
    pub(crate) followed: Followed,
}

/// What flags are judged by: limits, and the measurements so far.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFlagger {
    gate: Gate,
    /// Whether components are judged by themselves, which takes S.
    pub(crate) by_sensor: bool,
    bounds: Option<Bounds>,
    pub(crate) seen: MeasurementRange,
}

/// Lowest and highest measurement so far, by component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MeasurementRange(Vec<(f64, f64)>);

impl RowFlagger {
    /// For measurements of so many components, behind a gate or without one.
    pub(crate) fn new(
        outputs: usize,
        gate: Option<Gate>,
        bounds: Option<Bounds>,
    ) -> Result<Self, FilterError> {
        let by_sensor = gate.as_ref().is_some_and(|gate| gate.sensors() > 1);
        let gate = match gate {
            Some(gate) => gate,
            None => Gate::new(USUAL, Gating::Reject, outputs)?,
        };
        let seen = MeasurementRange(vec![(f64::INFINITY, f64::NEG_INFINITY); outputs]);
        Ok(Self { gate, by_sensor, bounds, seen })
    }

    /// The flag of the next row: its measurement, what is known after it, and the measurement expected of that.
    #[inline]
    pub(crate) fn flag(
        &mut self,
        y: &[f64],
        mean: &[f64],
        judged: &Judged<'_>,
        expected: &[f64],
    ) -> Flag {
        let mut observed = 0;
        let mut runaway = false;
        for ((&y, &expected), (low, high)) in y.iter().zip(expected).zip(&mut self.seen.0) {
            if !y.is_nan() {
                observed += 1;
                (*low, *high) = (low.min(y), high.max(y));
            }
            let largest = low.abs().max(high.abs());
            let distance = (*low - expected).max(expected - *high);
            // Nothing but zeros, or nothing at all, is no scale.
            runaway |= largest > 0.0
                && largest.is_finite()
                && (distance.is_nan() || distance > RUNAWAY * largest);
        }
        match observed {
            _ if runaway => Flag::Runaway,
            0 => Flag::Missing,
            _ if judged.followed != Followed::OnTrack => Flag::Lost,
            _ if self.gate.beyond(judged.v, judged.s, judged.nis).is_some() => Flag::Outlier,
            k if k < y.len() => Flag::Partial,
            _ if self.bounds.as_ref().is_some_and(|b| b.touched(mean)) => Flag::Bound,
            _ => Flag::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_flag_is_said() {
        let bounds = Bounds::new(vec![0.0], vec![f64::INFINITY]).ok();
        let mut flagger = RowFlagger::new(1, None, bounds).unwrap();
        let mut flag = |y: f64, x: f64, nis: f64| {
            let judged = Judged { v: &[y - x], s: &[1.0], nis, followed: Followed::OnTrack };
            flagger.flag(&[y], &[x], &judged, &[x])
        };
        assert_eq!(flag(f64::NAN, 1e9, f64::NAN), Flag::Missing); // nothing to compare with
        assert_eq!(flag(0.0, 1e9, f64::NAN), Flag::Ok); // zeros have no scale
        assert_eq!(flag(2.0, 1e4, f64::NAN), Flag::Ok);
        assert_eq!(flag(2.0, 2e11, f64::NAN), Flag::Runaway);
        assert_eq!(flag(f64::NAN, -2e11, f64::NAN), Flag::Runaway);
        assert_eq!(flag(1.0, 1.0, 10.9), Flag::Outlier); // scipy.stats.chi2.ppf(0.999, 1) = 10.83
        assert_eq!(flag(1.0, 1.0, 10.8), Flag::Ok);
        assert_eq!(flag(1.0, 0.0, 1.0), Flag::Bound);
    }
}
