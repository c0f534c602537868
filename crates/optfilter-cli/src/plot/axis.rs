//! Axes: from numbers to pixels, and the round numbers or dates that are written beside them.

use optfilter_model::table::{format_time, parse_time};

/// A range of numbers on an axis of pixels.
pub(super) struct Scale {
    low: f64,
    high: f64,
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Scale {
    pub(super) fn new(values: impl Iterator<Item = f64>, from: f64, to: f64, margin: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter(|v| v.is_finite()) {
            low = low.min(v);
            high = high.max(v);
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        let pad = margin * (high - low);
        Self { low: low - pad, high: high + pad, from, to }
    }

    pub(super) fn at(&self, v: f64) -> f64 {
        self.from + (v - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round numbers inside the range: steps of 1, 2 or 5 times a power of ten.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let raw = (self.high - self.low) / 5.0;
        let power = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].iter().map(|s| s * power).find(|s| *s >= raw).unwrap_or(raw);
        let digits = (-step.log10().floor()).max(0.0) as usize;
        let first = (self.low / step).ceil();
        (0..12)
            .map(|i| (first + f64::from(i)) * step)
            .take_while(|v| *v <= self.high)
            .map(|v| {
                let big = step >= 1e6 || digits > 6;
                (v, if big { format!("{v:.1e}") } else { format!("{v:.digits$}") })
            })
            .collect()
    }
}

/// As many labels as fit beside each other.
const MOST_TICKS: f64 = 7.0;
const DAY: f64 = 86_400.0;

/// Round instants inside a range of calendar times: years, days, or times of day.
pub(super) fn calendar_ticks(scale: &Scale, seconds_per_unit: f64) -> Vec<(f64, String)> {
    let (low, high) = (scale.low * seconds_per_unit, scale.high * seconds_per_unit);
    let span = high - low;
    let years = span / (365.2425 * DAY);
    let step_of = |steps: &[f64], span: f64| {
        steps.iter().copied().find(|s| span / s <= MOST_TICKS).unwrap_or(f64::INFINITY)
    };
    let mut ticks: Vec<(f64, String)> = Vec::new();
    if years > 3.0 {
        let step = step_of(&[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0], years);
        let first: f64 = format_time(low).get(..4).and_then(|y| y.parse().ok()).unwrap_or(0.0);
        let mut year = (first / step).floor() * step;
        while let Some(at) = parse_time(&format!("{year:04}-01-01")).filter(|at| *at <= high) {
            ticks.push((at, format!("{year}")));
            year += step;
        }
    } else {
        let steps = [
            1.0,
            2.0,
            5.0,
            10.0,
            15.0,
            30.0,
            60.0,
            120.0,
            300.0,
            600.0,
            900.0,
            1800.0,
            3600.0,
            7200.0,
            10_800.0,
            21_600.0,
            43_200.0,
            DAY,
            2.0 * DAY,
            7.0 * DAY,
            14.0 * DAY,
            30.0 * DAY,
            90.0 * DAY,
            180.0 * DAY,
        ];
        let step = step_of(&steps, span);
        let first = (low / step).ceil();
        ticks.extend(
            (0..20).map(|i| (first + f64::from(i)) * step).take_while(|t| *t <= high).map(|t| {
                let text = format_time(t);
                let shown = if step >= DAY {
                    &text[..10]
                } else if step >= 60.0 {
                    &text[11..16]
                } else {
                    &text[11..19]
                };
                (t, shown.to_owned())
            }),
        );
        // Times of day leave the day open; the first label says it.
        if step < DAY
            && let Some((t, label)) = ticks.first_mut()
        {
            *label = format!("{} {label}", &format_time(*t)[..10]);
        }
    }
    ticks.retain(|(t, _)| *t >= low);
    ticks.into_iter().map(|(t, label)| (t / seconds_per_unit, label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(from: &str, to: &str, unit: f64) -> Vec<String> {
        let ends = [from, to].map(|t| parse_time(t).unwrap_or(f64::NAN) / unit);
        let scale = Scale::new(ends.into_iter(), 0.0, 800.0, 0.0);
        calendar_ticks(&scale, unit).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn labels_are_round_dates() {
        let year = 365.2425 * DAY;
        assert_eq!(
            labels("1958-03-29", "2001-12-29", year),
            ["1960", "1970", "1980", "1990", "2000"]
        );
        assert_eq!(labels("2026-11-14", "2026-11-17", DAY)[1], "12:00");
        assert_eq!(
            labels("2026-11-15T13:00:00Z", "2026-11-15T13:00:50Z", 1.0),
            ["2026-11-15 13:00:00", "13:00:10", "13:00:20", "13:00:30", "13:00:40", "13:00:50"]
        );
        assert!(labels("2026-01-05", "2026-09-05", 3600.0).iter().all(|l| l.starts_with("2026-0")));
        assert!(!labels("2026-11-15T13:00:00Z", "2026-11-15T13:00:00.1Z", 1.0).is_empty());
    }
}
