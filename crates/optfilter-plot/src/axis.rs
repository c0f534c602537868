//! Axes: from numbers to places, and the round numbers or dates that are written beside them.

use crate::calendar;

/// What an axis shows, and how.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    kind: Kind,
    range: Option<(f64, f64)>,
    ticks: Option<Vec<(f64, String)>>,
    /// Whether there are ticks, and lines at them.
    pub(crate) visible: bool,
    pub(crate) grid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
    /// Seconds per unit, counted from 1970 UTC.
    Calendar(f64),
}

impl Axis {
    fn new(label: impl Into<String>, kind: Kind) -> Self {
        Self { label: label.into(), kind, range: None, ticks: None, visible: true, grid: true }
    }

    /// Equal distances for equal differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Self::new(label, Kind::Linear)
    }

    /// Equal distances for equal ratios; only positive values have a place.
    pub fn log(label: impl Into<String>) -> Self {
        Self::new(label, Kind::Log)
    }

    /// Time, each unit that many seconds, counted from 1970-01-01 UTC.
    pub fn calendar(label: impl Into<String>, seconds_per_unit: f64) -> Self {
        Self::new(label, Kind::Calendar(seconds_per_unit))
    }

    /// Neither ticks nor numbers; a panel with two such axes has no frame.
    pub fn hidden() -> Self {
        Self { visible: false, ..Self::linear("") }
    }

    /// From `low` to `high`, whatever the values are.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// These ticks instead of round ones.
    #[must_use]
    pub fn ticks<T: Into<String>>(mut self, ticks: impl IntoIterator<Item = (f64, T)>) -> Self {
        self.ticks = Some(ticks.into_iter().map(|(v, text)| (v, text.into())).collect());
        self
    }

    /// No lines at the ticks.
    #[must_use]
    pub fn without_grid(mut self) -> Self {
        self.grid = false;
        self
    }

    /// The scale for these values, with a margin as a part of their range.
    pub(crate) fn scale(&self, values: impl Iterator<Item = f64>, margin: f64) -> Scale {
        let log = self.kind == Kind::Log;
        // Sums, differences and ratios of what is placed stay finite.
        let placed = values
            .filter(|v| v.abs() < 1e300 && (!log || *v > 1e-300))
            .map(|v| if v.abs() < 1e-300 { 0.0 } else { v });
        let (low, high) = self.range.unwrap_or_else(|| {
            let place = |v: f64| if log { v.log10() } else { v };
            let (low, high) = extent(placed.map(place));
            let size = low.abs().max(high.abs());
            // A constant, but for rounding, gets a tenth of itself on both sides, or a third of a decade.
            let pad = match size {
                _ if high - low > 1e-12 * size => margin * (high - low),
                _ if log => 0.3,
                0.0 => 1.0,
                _ => 0.1 * size,
            };
            match (low <= high, log) {
                (false, _) => (0.1, 1.0),
                (_, true) => (10f64.powf(low - pad), 10f64.powf(high + pad)),
                (_, false) => (low - pad, high + pad),
            }
        });
        Scale { kind: self.kind, low, high }
    }

    /// The ticks of a scale of this axis.
    pub(crate) fn ticks_of(&self, scale: &Scale, most: usize) -> Ticks {
        match &self.ticks {
            _ if !self.visible => Ticks::default(),
            Some(at) => Ticks { at: at.clone(), note: String::new() },
            None => scale.ticks(most),
        }
    }
}

/// Lowest and highest.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)))
}

/// An axis with its range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    kind: Kind,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Marked values with their texts, and what is common to all texts: a factor or a sum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticks {
    pub(crate) at: Vec<(f64, String)>,
    pub(crate) note: String,
}

impl Scale {
    /// 0 at the low end, 1 at the high one.
    pub(crate) fn place(&self, v: f64) -> f64 {
        match self.kind {
            Kind::Log => (v / self.low).ln() / (self.high / self.low).ln(),
            _ => (v - self.low) / (self.high - self.low),
        }
    }

    /// At most about `most` round values.
    fn ticks(&self, most: usize) -> Ticks {
        let (low, high) = (self.low, self.high);
        let found = match self.kind {
            Kind::Linear => Vec::new(),
            Kind::Log => log_ticks(low, high, most),
            Kind::Calendar(unit) => {
                let ticks = calendar::ticks(low * unit, high * unit, most).into_iter();
                ticks.map(|(t, text)| (t / unit, text)).collect()
            }
        };
        // Short ranges of the others look linear.
        if found.len() >= 2 {
            Ticks { at: found, note: String::new() }
        } else {
            linear_ticks(low, high, most)
        }
    }
}

/// About as many multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, most: usize) -> Ticks {
    let raw = (high - low) / most.max(1) as f64;
    if !(raw.is_finite() && raw > 0.0) {
        return Ticks::default();
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0].map(|s| s * power).into_iter().find(|s| *s >= 0.75 * raw);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil();
    let values: Vec<f64> = (0..=most * 3 / 2 + 1)
        .map(|i| (first + i as f64) * step)
        .take_while(|v| *v <= high + 1e-9 * step)
        .collect();
    let (texts, note) = numbers(&values, step);
    Ticks { at: values.into_iter().zip(texts).collect(), note }
}

/// Texts of few digits for multiples of `step`, and the sum or factor that all have in common.
fn numbers(values: &[f64], step: f64) -> (Vec<String>, String) {
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |m: f64, v| m.max(v.abs()));
    let mut note = String::new();
    // More than six digits in common are said once.
    let common = if most(&mut values.iter().copied()) / step > 2e6 {
        let coarse = 1000.0 * step;
        let common = (values[0] / coarse).floor() * coarse;
        note = match common.abs() {
            size if !(1e-3..1e15).contains(&size) => format!("{common:+e}"),
            _ => format!("{common:+.*}", decimals(coarse)),
        };
        common
    } else {
        0.0
    };
    let size = most(&mut values.iter().map(|v| v - common));
    let power = size.log10().floor();
    let factor = if size >= 1e6 || (size > 0.0 && size < 1e-3) { 10f64.powf(power) } else { 1.0 };
    if factor != 1.0 {
        note =
            format!("×10{}{}", superscript(power as i32), if note.is_empty() { "" } else { " " })
                + &note;
    }
    let digits = decimals(step / factor);
    let text = |v: &f64| {
        let v = (v - common) / factor;
        // No negative zero.
        format!("{:.digits$}", if v.abs() < 0.5 * step / factor { 0.0 } else { v })
            .replace('-', "−")
    };
    (values.iter().map(text).collect(), note.replace('-', "−"))
}

/// Decimals that tell multiples of a round step apart.
fn decimals(step: f64) -> usize {
    (-(step.log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize
}

/// Powers of ten, with 2 and 5 times them in between where there is room.
fn log_ticks(low: f64, high: f64, most: usize) -> Vec<(f64, String)> {
    if !(low > 0.0 && high > low && high.is_finite()) {
        return Vec::new();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = (high / low).log10();
    let between: &[u8] = if 3.0 * decades <= 2.0 * most as f64 { &[1, 2, 5] } else { &[1] };
    let every = (decades / most as f64).ceil().max(1.0) as usize;
    let powers = (first..=last).filter(|p| p.rem_euclid(every as i32) == 0);
    let plain = low >= 0.9e-3 && high < 1e6;
    let ticks =
        powers.flat_map(|p| between.iter().map(move |m| (f64::from(*m) * 10f64.powi(p), *m, p)));
    ticks
        .filter(|(v, ..)| *v >= low * 0.9999 && *v <= high * 1.0001)
        .map(|(v, m, p)| {
            let text = match (m, p) {
                _ if plain || p == 0 => format!("{v:.*}", -p.min(0) as usize),
                (1, _) => format!("10{}", superscript(p)),
                _ => format!("{m}×10{}", superscript(p)),
            };
            (v, text)
        })
        .collect()
}

fn superscript(power: i32) -> String {
    let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let high = |c: char| c.to_digit(10).map_or('⁻', |d| digits[d as usize]);
    power.to_string().chars().map(high).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, values: &[f64]) -> (Vec<String>, String) {
        let ticks = axis.ticks_of(&axis.scale(values.iter().copied(), 0.0), 5);
        (ticks.at.into_iter().map(|t| t.1).collect(), ticks.note)
    }

    #[test]
    fn numbers_are_round_and_short() {
        let axis = Axis::linear("");
        let cases: [(&[f64], &[&str], &str); 9] = [
            (&[0.0, 10.0], &["0", "2", "4", "6", "8", "10"], ""),
            (&[-0.3, 0.3], &["−0.3", "−0.2", "−0.1", "0.0", "0.1", "0.2", "0.3"], ""),
            (&[0.0, 3e6], &["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0"], "×10⁶"),
            (&[-2e-9, 2e-9], &["−2", "−1", "0", "1", "2"], "×10⁻⁹"),
            // A clock in seconds since 1970, within half a second.
            (&[1.7e9, 1.7e9 + 0.5], &["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"], "+1700000000"),
            // Constants.
            (&[5.0, 5.0], &["4.6", "4.8", "5.0", "5.2", "5.4"], ""),
            (&[0.0], &["−1.0", "−0.5", "0.0", "0.5", "1.0"], ""),
            (&[0.3, 0.1 + 0.2], &["0.27", "0.28", "0.29", "0.30", "0.31", "0.32", "0.33"], ""),
            (&[], &["0.2", "0.4", "0.6", "0.8", "1.0"], ""),
        ];
        for (values, expected, note) in cases {
            let (found, found_note) = texts(&axis, values);
            assert_eq!((found.as_slice(), found_note.as_str()), (&owned(expected)[..], note));
        }
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn decades_are_labelled_with_what_fits_between() {
        let axis = Axis::log("");
        assert_eq!(texts(&axis, &[1.0, 100.0]).0, ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(texts(&axis, &[1e-6, 1e-2]).0, ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²"]);
        assert_eq!(texts(&axis, &[1.0, 1e20]).0, ["1", "10⁴", "10⁸", "10¹²", "10¹⁶", "10²⁰"]);
        assert_eq!(texts(&axis, &[11.0, 14.0]).0.len(), 7);
        // What has no logarithm has no place and no say.
        assert_eq!(texts(&axis, &[0.0, -3.0, 1.0, 100.0, f64::NAN]).0.len(), 7);
    }

    #[test]
    fn no_values_can_make_a_scale_without_length() {
        let wild = [f64::MAX, -f64::MAX, f64::NAN, f64::INFINITY, 1e-320, 0.0, 5e299, -5e299];
        for axis in
            [Axis::linear(""), Axis::log(""), Axis::calendar("", 1.0), Axis::calendar("", 3e7)]
        {
            for a in wild {
                for b in wild {
                    let scale = axis.scale([a, b].into_iter(), 0.05);
                    assert!(
                        scale.high > scale.low && scale.place(scale.high).is_finite(),
                        "{axis:?} {a} {b}"
                    );
                    assert!(axis.ticks_of(&scale, 6).at.len() < 20);
                }
            }
        }
    }
}
