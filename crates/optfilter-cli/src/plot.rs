//! Pictures: panels of lines, bands and dots as SVG, alone or in an HTML page.
//!
//! No library: a picture of this kind is a few polylines with axes, and a file of a few hundred
//! kilobytes at most, whatever the length of the series ([`Thinned`] keeps an even selection).

use optfilter_model::ModelSpec;
use optfilter_model::run::Estimate;
use std::fmt::Write;

/// A selection of rows, evenly spaced, of at most [`Thinned::MOST`].
pub struct Thinned {
    states: Vec<String>,
    outputs: Vec<String>,
    title: String,
    stride: u64,
    seen: u64,
    /// Per kept row: time, means, deviations, measurements, predictions.
    rows: Vec<Vec<f64>>,
}

impl Thinned {
    const MOST: usize = 1600;

    /// Empty, for a model.
    pub fn new(spec: &ModelSpec) -> Self {
        Self {
            states: spec.states.clone(),
            outputs: spec.observations.clone(),
            title: spec.name.clone(),
            stride: 1,
            seen: 0,
            rows: Vec::new(),
        }
    }

    /// Considers a row.
    pub fn push(&mut self, time: f64, y: &[f64], estimate: &Estimate) {
        if self.seen.is_multiple_of(self.stride) {
            if self.rows.len() == Self::MOST {
                let mut keep = false;
                self.rows.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                let mut row = vec![time];
                row.extend_from_slice(&estimate.mean);
                row.extend_from_slice(&estimate.std);
                row.extend_from_slice(y);
                row.extend(y.iter().zip(&estimate.innovation).map(|(y, v)| y - v));
                self.rows.push(row);
            }
        }
        self.seen += 1;
    }

    /// One panel for each state with its band, and one for each observation with its prediction.
    pub fn figure(&self) -> Figure {
        let (n, m) = (self.states.len(), self.outputs.len());
        let column =
            |c: usize| -> Vec<(f64, f64)> { self.rows.iter().map(|r| (r[0], r[c])).collect() };
        let mut panels = Vec::new();
        for (i, name) in self.states.iter().enumerate() {
            let band: Vec<(f64, f64, f64)> = self
                .rows
                .iter()
                .map(|r| (r[0], r[1 + i] - 2.0 * r[1 + n + i], r[1 + i] + 2.0 * r[1 + n + i]))
                .collect();
            let mut marks = Vec::new();
            if band.iter().any(|b| b.1.is_finite()) {
                marks.push(Mark::Band(band, "two standard deviations".into(), BLUE));
            }
            marks.push(Mark::Line(column(1 + i), "estimate".into(), BLUE));
            panels.push(Panel { title: name.clone(), marks });
        }
        for (i, name) in self.outputs.iter().enumerate() {
            let dots = Mark::Dots(column(1 + 2 * n + i), "measured".into(), GREY);
            let line =
                Mark::Line(column(1 + 2 * n + m + i), "predicted one row ahead".into(), ORANGE);
            panels.push(Panel { title: name.clone(), marks: vec![dots, line] });
        }
        Figure { title: self.title.clone(), panels, x_label: "time".into() }
    }
}

/// The colours of Okabe and Ito, which people with any colour vision can tell apart.
pub const BLUE: &str = "#0072b2";
pub const ORANGE: &str = "#d55e00";
pub const GREY: &str = "#777777";
pub const PALETTE: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// Something drawn in a panel, with its name in the legend and its colour.
pub enum Mark {
    Line(Vec<(f64, f64)>, String, &'static str),
    Dots(Vec<(f64, f64)>, String, &'static str),
    Band(Vec<(f64, f64, f64)>, String, &'static str),
}

/// One coordinate system.
pub struct Panel {
    pub title: String,
    pub marks: Vec<Mark>,
}

/// Panels below each other with a common horizontal axis.
pub struct Figure {
    pub title: String,
    pub panels: Vec<Panel>,
    pub x_label: String,
}

const WIDTH: f64 = 860.0;
const PANEL: f64 = 190.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const GAP: f64 = 44.0;

/// A range of numbers on an axis of pixels.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64, margin: f64) -> Self {
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

    fn at(&self, v: f64) -> f64 {
        self.from + (v - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round numbers inside the range: steps of 1, 2 or 5 times a power of ten.
    fn ticks(&self) -> Vec<(f64, String)> {
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

impl Figure {
    /// The figure as SVG.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_svg(&mut out);
        out
    }

    /// The figure in a page of its own, with a text below it.
    pub fn html(&self, note: &str) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n\
             <style>body{{font-family:sans-serif;max-width:880px;margin:2em auto}}svg{{width:100%;height:auto}}\
             pre{{background:#f4f4f4;padding:1em;overflow:auto}}</style></head>\n<body>\n{1}\n<pre>{2}</pre>\n</body></html>\n",
            escape(&self.title),
            self.svg(),
            escape(note)
        )
    }

    fn write_svg(&self, out: &mut String) -> std::fmt::Result {
        let height = TOP + self.panels.len() as f64 * (PANEL + GAP) + 20.0;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(out, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>")?;
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>",
            escape(&self.title)
        )?;
        let times = self.panels.iter().flat_map(|p| p.marks.iter()).flat_map(|m| match m {
            Mark::Line(p, ..) | Mark::Dots(p, ..) => p.iter().map(|p| p.0).collect::<Vec<_>>(),
            Mark::Band(b, ..) => b.iter().map(|b| b.0).collect(),
        });
        let x = Scale::new(times, LEFT, WIDTH - RIGHT, 0.0);
        for (i, panel) in self.panels.iter().enumerate() {
            let top = TOP + i as f64 * (PANEL + GAP);
            panel.write_svg(out, &x, top, i + 1 == self.panels.len(), &self.x_label)?;
        }
        writeln!(out, "</svg>")
    }
}

impl Panel {
    fn write_svg(
        &self,
        out: &mut String,
        x: &Scale,
        top: f64,
        last: bool,
        x_label: &str,
    ) -> std::fmt::Result {
        let bottom = top + PANEL;
        let y = Scale::new(self.heights(), bottom, top, 0.05);
        for (v, label) in y.ticks() {
            let at = y.at(v);
            writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0
            )?;
        }
        for (v, label) in x.ticks() {
            let at = x.at(v);
            writeln!(
                out,
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.1}\" y2=\"{:.1}\" stroke=\"#888\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
                bottom + 4.0,
                bottom + 17.0
            )?;
        }
        writeln!(
            out,
            "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{PANEL}\" fill=\"none\" stroke=\"#888\"/>",
            WIDTH - LEFT - RIGHT
        )?;
        writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
            top - 6.0,
            escape(&self.title)
        )?;
        let mut right = WIDTH - RIGHT;
        for mark in self.marks.iter().rev() {
            mark.write_svg(out, x, &y)?;
            let (name, colour) = mark.label();
            // About 6.2 pixels per character of 11 points.
            let width = 6.2 * name.chars().count() as f64;
            writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{colour}\">{}</text>",
                right - width,
                top - 6.0,
                escape(name)
            )?;
            right -= width + 14.0;
        }
        if last {
            writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                (LEFT + WIDTH - RIGHT) / 2.0,
                bottom + 33.0,
                escape(x_label)
            )?;
        }
        Ok(())
    }

    /// The values that decide the vertical range. Bands do so only up to three times the spread of the
    /// rest, so that a wide initial belief does not flatten the picture.
    fn heights(&self) -> impl Iterator<Item = f64> {
        let mut values: Vec<f64> = Vec::new();
        for mark in &self.marks {
            if let Mark::Line(p, ..) | Mark::Dots(p, ..) = mark {
                values.extend(p.iter().map(|p| p.1).filter(|v| v.is_finite()));
            }
        }
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let reach = (high - low).max(1e-300);
        for mark in &self.marks {
            if let Mark::Band(b, ..) = mark {
                let limit = |v: f64| v.clamp(low - reach, high + reach);
                if low <= high {
                    values.extend(
                        b.iter().flat_map(|b| [limit(b.1), limit(b.2)]).filter(|v| v.is_finite()),
                    );
                }
            }
        }
        values.into_iter()
    }
}

impl Mark {
    fn label(&self) -> (&str, &'static str) {
        match self {
            Self::Line(_, name, colour)
            | Self::Dots(_, name, colour)
            | Self::Band(_, name, colour) => (name, colour),
        }
    }

    fn write_svg(&self, out: &mut String, x: &Scale, y: &Scale) -> std::fmt::Result {
        // Pixels beyond the panel are cut at its edge.
        let clamp = |v: f64| y.at(v).clamp(y.to, y.from);
        match self {
            Self::Line(points, _, colour) => {
                for piece in points.split(|p| !p.1.is_finite()).filter(|p| !p.is_empty()) {
                    write!(
                        out,
                        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\" points=\""
                    )?;
                    for p in piece {
                        write!(out, "{:.1},{:.1} ", x.at(p.0), clamp(p.1))?;
                    }
                    writeln!(out, "\"/>")?;
                }
            }
            Self::Dots(points, _, colour) => {
                let radius = if points.len() > 800 { 0.9 } else { 1.8 };
                write!(out, "<g fill=\"{colour}\">")?;
                for p in points.iter().filter(|p| p.1.is_finite()) {
                    write!(
                        out,
                        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"/>",
                        x.at(p.0),
                        clamp(p.1)
                    )?;
                }
                writeln!(out, "</g>")?;
            }
            Self::Band(band, _, colour) => {
                for piece in
                    band.split(|b| !(b.1.is_finite() && b.2.is_finite())).filter(|p| !p.is_empty())
                {
                    write!(out, "<polygon fill=\"{colour}\" fill-opacity=\"0.18\" points=\"")?;
                    for b in piece {
                        write!(out, "{:.1},{:.1} ", x.at(b.0), clamp(b.1))?;
                    }
                    for b in piece.iter().rev() {
                        write!(out, "{:.1},{:.1} ", x.at(b.0), clamp(b.2))?;
                    }
                    writeln!(out, "\"/>")?;
                }
            }
        }
        Ok(())
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Writes a figure to a file, as a page if its name ends in html.
pub fn write(
    figure: &Figure,
    note: &str,
    path: &std::path::Path,
) -> Result<(), crate::failure::Failure> {
    let page = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("html"));
    crate::files::write(path, &if page { figure.html(note) } else { figure.svg() })
}
