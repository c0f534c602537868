//! Pictures: panels of lines, bands and dots as SVG, alone or in an HTML page.
//!
//! No library: a picture of this kind is a few polylines with axes, and a file of a few hundred
//! kilobytes at most, whatever the length of the series ([`Thinned`] keeps an even selection).

mod axis;
mod thinned;

pub use thinned::Thinned;

use axis::{Scale, calendar_ticks};
use std::fmt::Write;

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
    /// Seconds per unit of the horizontal axis if that is calendar time, counted from 1970.
    pub calendar: Option<f64>,
}

const WIDTH: f64 = 860.0;
const PANEL: f64 = 190.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const GAP: f64 = 44.0;

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
        let ticks = match self.calendar {
            Some(seconds_per_unit) => calendar_ticks(&x, seconds_per_unit),
            None => x.ticks(),
        };
        for (i, panel) in self.panels.iter().enumerate() {
            let top = TOP + i as f64 * (PANEL + GAP);
            let label = (i + 1 == self.panels.len()).then_some(self.x_label.as_str());
            panel.write_svg(out, (&x, &ticks), top, label)?;
        }
        writeln!(out, "</svg>")
    }
}

impl Panel {
    fn write_svg(
        &self,
        out: &mut String,
        (x, ticks): (&Scale, &[(f64, String)]),
        top: f64,
        x_label: Option<&str>,
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
        for (v, label) in ticks {
            let at = x.at(*v);
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
        if let Some(x_label) = x_label {
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

/// Refuses names of pictures that would not be what they say.
pub fn check(path: Option<&std::path::Path>) -> Result<(), crate::failure::Failure> {
    let known = |p: &std::path::Path| {
        p.extension()
            .is_none_or(|e| e.eq_ignore_ascii_case("svg") || e.eq_ignore_ascii_case("html"))
    };
    match path {
        Some(path) if !known(path) => Err(crate::failure::Failure::usage(format!(
            "--plot: {} should end in .svg or .html",
            path.display()
        ))),
        _ => Ok(()),
    }
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
