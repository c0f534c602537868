//! What is kept of a long series for its picture: the lowest and highest value of every column of pixels.
//!
//! Rows arrive one by one and nobody knows how many there will be. The first [`Thinner::MOST`] are kept as they are.
//! When there are more, neighbours within a short stretch of x become one *bin* of lowest and highest, and the stretch
//! grows with the range of x, so that there are never more than [`Thinner::MOST`] bins and never fewer than a
//! thousand stretches over the range. A picture [`Thinner::COLUMNS`] pixels wide therefore shows every extreme where
//! it is: an even selection of rows, which is what one would write first, loses every spike that falls between two
//! selected rows. A value that is not finite leaves a gap, unless that is narrower than a bin.
//!
//! ```
//! use optfilter_plot::Thinner;
//!
//! let mut thinner = Thinner::default();
//! for i in 0..1_000_000 {
//!     thinner.push(i as f64, if i == 123_457 { 9.0 } else { (i % 7) as f64 });
//! }
//! let line = thinner.line();
//! assert!(line.len() <= 2 * Thinner::COLUMNS + 2);
//! assert!(line.contains(&(123_457.0, 9.0)));
//! ```

/// Keeps the extremes of a series in constant memory; see the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Thinner {
    bins: Vec<Bin>,
    /// The longest stretch of x in a bin; each row is a bin of its own while there is none.
    stretch: Option<f64>,
    /// Something was missing since the last bin.
    gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    /// First and last x.
    from: f64,
    to: f64,
    /// Lowest and highest value, each with its x.
    low: (f64, f64),
    high: (f64, f64),
    /// A gap is before it.
    gap: bool,
}

impl Thinner {
    /// The most bins kept: 230 KB.
    pub const MOST: usize = 4096;
    /// Columns of pixels in a picture.
    pub const COLUMNS: usize = 800;

    /// The next value; `x` must not decrease.
    pub fn push(&mut self, x: f64, y: f64) {
        self.push_band(x, y, y);
    }

    /// The next stretch from `low` to `high` of a band; `x` must not decrease.
    pub fn push_band(&mut self, x: f64, low: f64, high: f64) {
        if !(x.is_finite() && low.is_finite() && high.is_finite()) {
            self.gap = true;
            return;
        }
        let gap = core::mem::take(&mut self.gap);
        let bin = Bin { from: x, to: x, low: (x, low), high: (x, high), gap };
        match (self.bins.last_mut(), self.stretch) {
            (Some(last), Some(stretch)) if x - last.from <= stretch => last.absorb(&bin),
            _ => self.bins.push(bin),
        }
        if self.bins.len() > Self::MOST {
            // Two neighbouring bins together are longer than a stretch: at most MOST / 2 + 1 remain.
            let stretch = self.range() / (Self::MOST / 4) as f64;
            self.bins = merged(&self.bins, stretch);
            self.stretch = Some(stretch);
        }
    }

    /// Whether nothing finite has arrived.
    pub fn is_empty(&self) -> bool {
        self.bins.is_empty()
    }

    fn range(&self) -> f64 {
        self.bins.first().zip(self.bins.last()).map_or(0.0, |(a, b)| b.to - a.from)
    }

    /// Bins no longer than a column of pixels has room for; all of them if they are few.
    fn columns(&self) -> Vec<Bin> {
        if self.bins.len() <= 2 * Self::COLUMNS {
            return self.bins.clone();
        }
        let stretch = self.range() / Self::COLUMNS as f64;
        let mut column = f64::NEG_INFINITY;
        let mut out: Vec<Bin> = Vec::new();
        for bin in &self.bins {
            let at = ((bin.from - self.bins[0].from) / stretch).floor();
            match out.last_mut() {
                Some(last) if at <= column => last.absorb(bin),
                _ => out.push(*bin),
            }
            column = at;
        }
        out
    }

    /// The points of a line; `(x, NaN)` marks a gap.
    pub fn line(&self) -> Vec<(f64, f64)> {
        let gap = |bin: &Bin| bin.gap.then_some((bin.from, f64::NAN));
        self.columns().iter().flat_map(|bin| gap(bin).into_iter().chain(bin.extremes())).collect()
    }

    /// Measurements or marks: every one of up to [`Thinner::MOST`], and of more the extremes of each column.
    pub fn points(&self) -> Vec<(f64, f64)> {
        let bins = if self.stretch.is_none() { &self.bins } else { &self.columns() };
        bins.iter().flat_map(Bin::extremes).collect()
    }

    /// A band as (x, lowest, highest); `(x, NaN, NaN)` marks a gap.
    pub fn band(&self) -> Vec<(f64, f64, f64)> {
        let mut out = Vec::new();
        let columns = self.columns();
        for (i, bin) in columns.iter().enumerate() {
            if bin.gap {
                out.push((bin.from, f64::NAN, f64::NAN));
            }
            out.push((bin.from, bin.low.1, bin.high.1));
            // The next one begins where this one ends, unless there is a gap or nothing more.
            if bin.to > bin.from && columns.get(i + 1).is_none_or(|next| next.gap) {
                out.push((bin.to, bin.low.1, bin.high.1));
            }
        }
        out
    }
}

impl Extend<(f64, f64)> for Thinner {
    fn extend<I: IntoIterator<Item = (f64, f64)>>(&mut self, points: I) {
        points.into_iter().for_each(|(x, y)| self.push(x, y));
    }
}

impl Bin {
    fn absorb(&mut self, next: &Self) {
        self.to = self.to.max(next.to);
        if next.low.1 < self.low.1 {
            self.low = next.low;
        }
        if next.high.1 > self.high.1 {
            self.high = next.high;
        }
    }

    /// Lowest and highest in the order of x; one of them where they are the same.
    fn extremes(&self) -> impl Iterator<Item = (f64, f64)> + use<> {
        let (first, second) =
            if self.low.0 <= self.high.0 { (self.low, self.high) } else { (self.high, self.low) };
        core::iter::once(first).chain((first != second).then_some(second))
    }
}

/// Neighbours within a stretch become one.
fn merged(bins: &[Bin], stretch: f64) -> Vec<Bin> {
    let mut out: Vec<Bin> = Vec::new();
    for bin in bins {
        match out.last_mut() {
            Some(last) if bin.to - last.from <= stretch => last.absorb(bin),
            _ => out.push(*bin),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spikes_among_twenty_thousand_rows_are_kept() {
        let mut thinner = Thinner::default();
        let spikes = [3_333, 10_001, 17_777];
        for i in 0..20_000 {
            let y = (0.01 * f64::from(i)).sin();
            thinner.push(f64::from(i), if spikes.contains(&i) { 200.0 } else { y });
        }
        for kept in [thinner.line(), thinner.points()] {
            let high: Vec<f64> = kept.iter().filter(|p| p.1 > 100.0).map(|p| p.0).collect();
            assert_eq!(high, [3_333.0, 10_001.0, 17_777.0]);
            assert!(kept.len() <= 2 * (Thinner::COLUMNS + 1), "{}", kept.len());
        }
    }

    #[test]
    fn every_sparse_fix_among_sixty_thousand_rows_is_kept() {
        // Position fixes come in bursts of three seconds, so that many share a column of pixels.
        let mut thinner = Thinner::default();
        let mut fixes = Vec::new();
        for i in 0..60_000 {
            let (x, there) = (0.01 * f64::from(i), i % 315 < 3 && fixes.len() < 571);
            if there {
                fixes.push((x, f64::from(i % 17)));
            }
            thinner.push(x, if there { f64::from(i % 17) } else { f64::NAN });
        }
        assert_eq!(fixes.len(), 571);
        assert_eq!(thinner.points(), fixes);
    }

    #[test]
    fn columns_keep_their_extremes_when_times_are_irregular() {
        // A dense hour, then a row each hour: a selection by rows would show the first hour only.
        let x = |i: u32| if i < 50_000 { f64::from(i) / 5e4 } else { f64::from(i - 49_999) };
        let y = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) % 1000);
        let mut thinner = Thinner::default();
        thinner.extend((0..60_000).map(|i| (x(i), y(i))));
        assert!(thinner.bins.len() <= Thinner::MOST);
        let line = thinner.line();
        // A bin may lie across the edge of two columns, so its extreme may be drawn in the next one.
        let near = 2.0 * x(59_999) / Thinner::COLUMNS as f64;
        for (x, y) in (0..60_000).step_by(7).map(|i| (x(i), y(i))) {
            let begin = line.partition_point(|p| p.0 < x - near);
            let about = || line[begin..].iter().take_while(|p| p.0 <= x + near);
            assert!(about().any(|p| p.1 >= y) && about().any(|p| p.1 <= y), "{x} {y}");
        }
    }

    #[test]
    fn gaps_break_lines_and_bands() {
        let mut thinner = Thinner::default();
        for i in 0..100 {
            let y = if (40..60).contains(&i) { f64::NAN } else { 1.0 };
            thinner.push_band(f64::from(i), y, y + 1.0);
        }
        let band = thinner.band();
        assert_eq!(band.iter().filter(|b| b.1.is_nan()).count(), 1);
        assert_eq!(band.len(), 81);
        assert!(band[40].1.is_nan() && band[41] == (60.0, 1.0, 2.0));
    }

    #[test]
    fn all_rows_at_one_time_are_one_bin() {
        let mut thinner = Thinner::default();
        thinner.extend((0..10_000).map(|i| (5.0, f64::from(i))));
        assert_eq!(thinner.line(), [(5.0, 0.0), (5.0, 9_999.0)]);
    }
}
