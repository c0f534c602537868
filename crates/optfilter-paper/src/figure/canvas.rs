//! A drawing as SVG, with text as outlines so that it looks the same everywhere and needs no font.

use core::fmt::Write;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// Units of the outlines per font size.
const UNITS: f64 = 2048.0;

struct Glyph {
    advance: f64,
    path: &'static str,
}

static GLYPHS: LazyLock<HashMap<(bool, char), Glyph>> = LazyLock::new(|| {
    include_str!("../../data/glyphs.txt")
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(4, '\t');
            let bold = fields.next()? == "b";
            let character = char::from_u32(fields.next()?.parse().ok()?)?;
            let advance = fields.next()?.parse().ok()?;
            let path = fields.next().unwrap_or_default();
            Some(((bold, character), Glyph { advance, path }))
        })
        .collect()
});

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
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Height of the font.
    pub size: f64,
    /// Colour.
    pub color: &'a str,
    /// Position.
    pub anchor: Anchor,
    /// Heavier strokes.
    pub bold: bool,
    /// Turned to read upwards.
    pub upwards: bool,
}

impl Text<'_> {
    /// Dark text of a size, centred.
    pub const fn new(size: f64) -> Self {
        Self { size, color: INK, anchor: Anchor::Middle, bold: false, upwards: false }
    }

    /// With another position.
    #[must_use]
    pub const fn at(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    /// Bold.
    #[must_use]
    pub const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }
}

/// Colour of text and axes.
pub const INK: &str = "#222222";
/// Colour of grid lines.
pub const GRID: &str = "#e3e3e3";
/// Blue, orange, green, vermilion, purple, sky, yellow: told apart also by colour-blind readers (Okabe and Ito).
pub const PALETTE: [&str; 7] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#aa4499", "#56b4e9", "#c8b400"];

/// A drawing under construction.
pub struct Canvas {
    width: f64,
    height: f64,
    title: String,
    body: String,
    used: BTreeSet<(bool, char)>,
    clips: usize,
}

impl Canvas {
    /// An empty white drawing; the title is for readers who cannot see it.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        Self {
            width,
            height,
            title: title.into(),
            body: String::new(),
            used: BTreeSet::new(),
            clips: 0,
        }
    }

    /// Any SVG element.
    pub fn raw(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = writeln!(
            self.body,
            r#"<path d="M{x1:.2} {y1:.2}L{x2:.2} {y2:.2}" stroke="{color}" stroke-width="{width}"/>"#
        );
    }

    /// A line through points; gaps where a point is not finite.
    pub fn polyline(&mut self, points: &[(f64, f64)], color: &str, width: f64, extra: &str) {
        let d = path_of(points);
        let _ = writeln!(
            self.body,
            r#"<path d="{d}" fill="none" stroke="{color}" stroke-width="{width}" stroke-linejoin="round" {extra}/>"#
        );
    }

    /// A filled shape.
    pub fn polygon(&mut self, points: &[(f64, f64)], color: &str, extra: &str) {
        let d = path_of(points);
        let _ = writeln!(self.body, r#"<path d="{d}Z" fill="{color}" {extra}/>"#);
    }

    /// A rectangle.
    pub fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str) {
        let _ = writeln!(
            self.body,
            r#"<path d="M{x:.2} {y:.2}h{w:.2}v{h:.2}h{:.2}Z" fill="{fill}"/>"#,
            -w
        );
    }

    /// A dot.
    pub fn dot(&mut self, (x, y): (f64, f64), r: f64, fill: &str, extra: &str) {
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x:.2}" cy="{y:.2}" r="{r}" fill="{fill}" {extra}/>"#
        );
    }

    /// Everything drawn until [`Canvas::end_clip`] is cut at this rectangle.
    pub fn begin_clip(&mut self, x: f64, y: f64, w: f64, h: f64) {
        self.clips += 1;
        // The title makes the name unique among the figures of one page.
        let id = format!("{}-{}", slug(&self.title), self.clips);
        let _ = writeln!(
            self.body,
            r#"<clipPath id="{id}"><rect x="{x:.2}" y="{y:.2}" width="{w:.2}" height="{h:.2}"/></clipPath><g clip-path="url(#{id})">"#
        );
    }

    /// See [`Canvas::begin_clip`].
    pub fn end_clip(&mut self) {
        self.raw("</g>");
    }

    /// Width of a text.
    pub fn text_width(text: &str, size: f64, bold: bool) -> f64 {
        text.chars().filter_map(|c| GLYPHS.get(&(bold, c))).map(|g| g.advance).sum::<f64>() * size
            / UNITS
    }

    /// A line of text with its baseline at the point.
    pub fn text(&mut self, (x, y): (f64, f64), text: &str, style: &Text<'_>) {
        let width = Self::text_width(text, style.size, style.bold);
        let shift = match style.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let scale = style.size / UNITS;
        let turn = if style.upwards { "rotate(-90)" } else { "" };
        let _ = write!(
            self.body,
            r#"<g fill="{}" transform="translate({x:.2} {y:.2}){turn}translate({shift:.2} 0)scale({scale:.5} -{scale:.5})">"#,
            style.color
        );
        let mut at = 0.0;
        for c in text.chars() {
            let Some(glyph) = GLYPHS.get(&(style.bold, c)) else {
                continue;
            };
            if !glyph.path.is_empty() {
                self.used.insert((style.bold, c));
                let _ = write!(
                    self.body,
                    r##"<use href="#{}" x="{at:.0}"/>"##,
                    glyph_id(&self.title, style.bold, c)
                );
            }
            at += glyph.advance;
        }
        self.body.push_str("</g>\n");
    }

    /// The finished SVG document.
    pub fn finish(self) -> String {
        let (w, h) = (self.width, self.height);
        let mut out = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img"><title>{}</title><defs>"#,
            escape(&self.title)
        );
        for &(bold, c) in &self.used {
            if let Some(glyph) = GLYPHS.get(&(bold, c)) {
                let id = glyph_id(&self.title, bold, c);
                let _ = write!(out, r#"<path id="{id}" d="{}"/>"#, glyph.path);
            }
        }
        out.push_str("</defs>\n");
        let _ = writeln!(out, r##"<rect width="{w}" height="{h}" fill="#ffffff"/>"##);
        out.push_str(&self.body);
        out.push_str("</svg>\n");
        out
    }
}

fn path_of(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    let mut pen_up = true;
    for &(x, y) in points {
        if x.is_finite() && y.is_finite() {
            let _ = write!(d, "{}{x:.2} {y:.2}", if pen_up { 'M' } else { 'L' });
            pen_up = false;
        } else {
            pen_up = true;
        }
    }
    d
}

/// Letters and digits of a title.
fn slug(title: &str) -> String {
    title.chars().filter(char::is_ascii_alphanumeric).take(24).collect()
}

fn glyph_id(title: &str, bold: bool, c: char) -> String {
    format!("{}{}{}", slug(title), if bold { 'b' } else { 'r' }, c as u32)
}

/// For text inside markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
