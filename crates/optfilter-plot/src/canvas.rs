//! A drawing under construction, in pixels, as SVG.

use crate::color::{Color, INK, PAPER, Theme};
use crate::font;
use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet};

/// A place in pixels, y downwards.
pub(crate) type Pixel = (f64, f64);

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// How a text looks.
#[derive(Clone, Copy)]
pub(crate) struct Lettering {
    pub(crate) size: f64,
    pub(crate) color: Color,
    pub(crate) anchor: Anchor,
    pub(crate) bold: bool,
    pub(crate) upwards: bool,
}

impl Lettering {
    pub(crate) const fn new(size: f64, anchor: Anchor) -> Self {
        Self { size, color: INK, anchor, bold: false, upwards: false }
    }
}

/// How a line looks.
#[derive(Clone, Copy)]
pub(crate) struct Pen {
    pub(crate) color: Color,
    pub(crate) width: f64,
    pub(crate) opacity: f64,
    pub(crate) dashed: bool,
}

impl Pen {
    pub(crate) const fn new(color: Color, width: f64) -> Self {
        Self { color, width, opacity: 1.0, dashed: false }
    }
}

/// Stands for the figure's own name in identifiers until its content, which decides the name, is known.
const NAME: char = '\u{1}';

pub(crate) struct Canvas {
    body: String,
    /// Dark colours by light ones.
    colors: BTreeMap<u32, u32>,
    glyphs: BTreeSet<(bool, char)>,
    clips: usize,
}

impl Canvas {
    pub(crate) fn new() -> Self {
        let colors = BTreeMap::from([(PAPER.light, PAPER.dark)]);
        Self { body: String::new(), colors, glyphs: BTreeSet::new(), clips: 0 }
    }

    fn color(&mut self, color: Color) -> String {
        if color.light != color.dark {
            self.colors.insert(color.light, color.dark);
        }
        color.svg()
    }

    /// A line through points, broken where one is not finite; a point alone between two breaks is a dot.
    pub(crate) fn line(&mut self, points: &[Pixel], pen: Pen) {
        let d = path(points, "h0");
        if d.is_empty() {
            return;
        }
        let color = self.color(pen.color);
        // Round ends would fill short gaps between dashes.
        let ends =
            if pen.dashed { " stroke-dasharray=\"5 3\"" } else { " stroke-linecap=\"round\"" };
        let opacity = opacity("stroke-opacity", pen.opacity);
        let _ = writeln!(
            self.body,
            r#"<path d="{d}" fill="none" stroke="{color}" stroke-width="{}" stroke-linejoin="round"{ends}{opacity}/>"#,
            pen.width
        );
    }

    /// Dots: lines without length and with round ends, which take a third of the room of circles.
    pub(crate) fn dots(&mut self, points: &[Pixel], radius: f64, color: Color, opacity: f64) {
        let broken: Vec<Pixel> = points.iter().flat_map(|p| [*p, (f64::NAN, 0.0)]).collect();
        let pen = Pen { opacity, ..Pen::new(color, 2.0 * radius) };
        self.line(&broken, pen);
    }

    pub(crate) fn ring(&mut self, (x, y): Pixel, radius: f64, pen: Pen) {
        let color = self.color(pen.color);
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="none" stroke="{color}" stroke-width="{}"/>"#,
            pen.width
        );
    }

    pub(crate) fn polygon(&mut self, points: &[Pixel], color: Color, fill_opacity: f64) {
        let (d, color) = (path(points, ""), self.color(color));
        let opacity = opacity("fill-opacity", fill_opacity);
        let _ = writeln!(self.body, r#"<path d="{d}Z" fill="{color}"{opacity}/>"#);
    }

    /// What is drawn until [`Canvas::end_clip`] is cut at this rectangle.
    pub(crate) fn begin_clip(&mut self, (x, y): Pixel, (w, h): (f64, f64)) {
        self.clips += 1;
        let id = format!("{NAME}c{}", self.clips);
        let _ = writeln!(
            self.body,
            r#"<clipPath id="{id}"><path d="M{x:.1} {y:.1}h{w:.1}v{h:.1}h{:.1}Z"/></clipPath><g clip-path="url(#{id})">"#,
            -w
        );
    }

    pub(crate) fn end_clip(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// A line of text with its baseline at the point.
    pub(crate) fn text(&mut self, (x, y): Pixel, text: &str, style: Lettering) {
        if text.is_empty() {
            return;
        }
        let width = font::width(text, style.size, style.bold);
        let shift = match style.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let scale = style.size / font::UNITS;
        let turn = if style.upwards { "rotate(-90)" } else { "" };
        let color = self.color(style.color);
        let _ = write!(
            self.body,
            r#"<g fill="{color}" transform="translate({x:.1} {y:.1}){turn}translate({shift:.1} 0)scale({scale:.5} -{scale:.5})">"#,
        );
        let mut at = 0.0;
        for c in text.chars() {
            if font::glyph(style.bold, c).is_some() {
                self.glyphs.insert((style.bold, c));
                let id = glyph_id(style.bold, c);
                let _ = write!(self.body, r##"<use href="#{id}" x="{at:.0}"/>"##);
            } else {
                let c = crate::escape(c.encode_utf8(&mut [0; 4]));
                let _ = write!(
                    self.body,
                    r#"<text x="{at:.0}" transform="scale(1 -1)" font-family="sans-serif" font-size="2048">{c}</text>"#
                );
            }
            at += font::advance(style.bold, c);
        }
        self.body.push_str("</g>\n");
    }

    /// The finished document; the title is for readers who cannot see it.
    pub(crate) fn finish(self, (w, h): (f64, f64), title: &str, theme: Theme) -> String {
        let mut out = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" id="{NAME}" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img"><title>{}</title>"#,
            crate::escape(title)
        );
        if theme != Theme::Light {
            let when = ["@media(prefers-color-scheme:dark){", "}"];
            let [begin, end] = if theme == Theme::Auto { when } else { [""; 2] };
            let _ = write!(out, "<style>{begin}");
            for (light, dark) in &self.colors {
                for what in ["fill", "stroke"] {
                    let _ =
                        write!(out, r##"#{NAME} [{what}="#{light:06x}"]{{{what}:#{dark:06x}}}"##);
                }
            }
            let _ = write!(out, "{end}</style>");
        }
        out.push_str("<defs>");
        for &(bold, c) in &self.glyphs {
            if let Some(glyph) = font::glyph(bold, c) {
                let _ = write!(out, r#"<path id="{}" d="{}"/>"#, glyph_id(bold, c), glyph.path);
            }
        }
        let _ = writeln!(out, "</defs>\n<path d=\"M0 0h{w}v{h}h-{w}Z\" fill=\"{}\"/>", PAPER.svg());
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        // Figures on one page must not share identifiers unless they are the same (FNV-1a).
        let hash = out.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        out.replace(NAME, &format!("f{:08x}", hash >> 32))
    }
}

/// Lines through the pieces between points that are not finite, each from the point before, which is half as long as
/// the points themselves; `alone` is added to pieces of one point.
fn path(points: &[Pixel], alone: &str) -> String {
    // A tenth of a pixel is enough for data; smooth curves of few points deserve more.
    let unit = if points.len() > 600 { 10.0 } else { 100.0 };
    let mut d = String::new();
    for piece in points.split(|(x, y)| !(x.is_finite() && y.is_finite())) {
        let mut before = (0.0, 0.0);
        for (i, (x, y)) in piece.iter().enumerate() {
            // Far outside is cut off anyway, and viewers compute in single precision. Differences of whole units add up
            // to the points without error.
            let [x, y] = [x, y].map(|v| (v.clamp(-1e5, 1e5) * unit).round());
            let (dx, dy) = ((x - before.0) / unit, (y - before.1) / unit);
            let (letter, space) = (if i == 0 { 'M' } else { 'l' }, if dy < 0.0 { "" } else { " " });
            let _ = write!(d, "{letter}{dx}{space}{dy}");
            before = (x, y);
        }
        if piece.len() == 1 {
            d.push_str(alone);
        }
    }
    d
}

fn opacity(attribute: &str, value: f64) -> String {
    if value < 1.0 { format!(r#" {attribute}="{value}""#) } else { String::new() }
}

fn glyph_id(bold: bool, c: char) -> String {
    format!("{NAME}{}{}", if bold { 'b' } else { 'r' }, c as u32)
}
