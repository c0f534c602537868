//! Axes: a rectangle of the drawing with scales, ticks and labels.

use super::canvas::{Anchor, Canvas, GRID, INK, Text};

/// A scale.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// From `low` to `high`.
    pub fn linear(low: f64, high: f64) -> Self {
        Self { low, high, log: false }
    }

    /// Logarithmic, from `low` to `high`, both positive.
    pub fn log(low: f64, high: f64) -> Self {
        Self { low, high, log: true }
    }

    /// Position between 0 and 1.
    fn place(&self, v: f64) -> f64 {
        if self.log {
            (v / self.low).ln() / (self.high / self.low).ln()
        } else {
            (v - self.low) / (self.high - self.low)
        }
    }

    /// Round values, about `count` of them.
    fn ticks(&self, count: usize) -> Vec<f64> {
        if self.log {
            let mut out = Vec::new();
            let mut decade = 10.0_f64.powf(self.low.log10().floor());
            while decade <= self.high * 1.0001 {
                for m in [1.0, 2.0, 5.0] {
                    let v = m * decade;
                    if v >= self.low * 0.9999 && v <= self.high * 1.0001 {
                        out.push(v);
                    }
                }
                decade *= 10.0;
            }
            return out;
        }
        let rough = (self.high - self.low) / count as f64;
        let power = 10.0_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|s| *s >= rough * 0.999)
            .unwrap_or(power);
        let mut out = Vec::new();
        let mut k = (self.low / step).ceil();
        while k * step <= self.high + 1e-9 * step {
            out.push(k * step);
            k += 1.0;
        }
        out
    }
}

/// A number for a tick, with the typographic minus.
pub fn tick_text(v: f64) -> String {
    let text = if v.abs() < 1e-9 { "0".into() } else { format!("{}", (v * 1e6).round() / 1e6) };
    text.replace('-', "−")
}

/// A rectangle with an x and a y scale.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub w: f64,
    /// Height.
    pub h: f64,
    /// Scale of the x axis.
    pub sx: Scale,
    /// Scale of the y axis.
    pub sy: Scale,
}

impl Panel {
    /// The place of a point.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x + self.w * self.sx.place(x), self.y + self.h * (1.0 - self.sy.place(y)))
    }

    /// Places of a curve.
    pub fn curve(&self, points: impl IntoIterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
        points.into_iter().map(|(x, y)| self.at(x, y)).collect()
    }

    /// Grid, frame, ticks and labels; an empty label draws no tick numbers on that axis.
    pub fn draw(&self, canvas: &mut Canvas, title: &str, x_label: &str, y_label: &str) {
        let x_ticks = self.sx.ticks(6);
        self.draw_with(canvas, title, x_label, y_label, &x_ticks);
    }

    /// Like [`Panel::draw`], with given x ticks.
    pub fn draw_with(
        &self,
        canvas: &mut Canvas,
        title: &str,
        x_label: &str,
        y_label: &str,
        x_ticks: &[f64],
    ) {
        let small = Text::new(10.5);
        let label = Text::new(11.5);
        for &v in x_ticks {
            let (px, _) = self.at(v, self.sy.low);
            canvas.line((px, self.y), (px, self.y + self.h), GRID, 0.8);
            if !x_label.is_empty() {
                canvas.text((px, self.y + self.h + 14.0), &tick_text(v), &small);
            }
        }
        let mut widest = 0.0_f64;
        for v in self.sy.ticks(5) {
            let (_, py) = self.at(self.sx.low, v);
            canvas.line((self.x, py), (self.x + self.w, py), GRID, 0.8);
            if !y_label.is_empty() {
                let text = tick_text(v);
                widest = widest.max(Canvas::text_width(&text, 10.5, false));
                canvas.text((self.x - 5.0, py + 3.8), &text, &small.at(Anchor::End));
            }
        }
        let Self { x, y, w, h, .. } = *self;
        let frame = [(x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)];
        canvas.polyline(&frame, INK, 0.9, "");
        canvas.text((x + w / 2.0, y + h + 30.0), x_label, &label);
        let upwards = Text { upwards: true, ..label };
        canvas.text((x - widest - 13.0, y + h / 2.0), y_label, &upwards);
        canvas.text((x + w / 2.0, y - 8.0), title, &Text::new(12.5).bold());
    }

    /// Cut what follows at the frame.
    pub fn clip(&self, canvas: &mut Canvas) {
        canvas.begin_clip(self.x, self.y, self.w, self.h);
    }
}

/// What a legend entry shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line.
    Line,
    /// A dashed line.
    Dashes,
    /// A dot.
    Dot,
    /// A filled patch.
    Patch,
}

/// A row of legend entries, centred at `x`.
pub fn legend_row(canvas: &mut Canvas, x: f64, y: f64, entries: &[(&str, &str, Mark)]) {
    let width = |text: &str| 26.0 + Canvas::text_width(text, 11.0, false) + 18.0;
    let total: f64 = entries.iter().map(|(text, ..)| width(text)).sum::<f64>() - 18.0;
    let mut at = x - total / 2.0;
    for &(text, color, mark) in entries {
        mark_at(canvas, at, y, color, mark);
        canvas.text((at + 26.0, y), text, &Text::new(11.0).at(Anchor::Start));
        at += width(text);
    }
}

fn mark_at(canvas: &mut Canvas, x: f64, y: f64, color: &str, mark: Mark) {
    let middle = y - 4.0;
    match mark {
        Mark::Line => canvas.line((x, middle), (x + 20.0, middle), color, 2.0),
        Mark::Dashes => {
            let dashes = r#"stroke-dasharray="5 3""#;
            canvas.polyline(&[(x, middle), (x + 20.0, middle)], color, 1.6, dashes);
        }
        Mark::Dot => canvas.dot((x + 10.0, middle), 3.0, color, ""),
        Mark::Patch => canvas.rect(x + 2.0, middle - 5.0, 16.0, 10.0, color),
    }
}
