//! Text as outlines of DejaVu Sans, so that a figure looks the same everywhere and needs no font.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Units of the outlines per font size.
pub(crate) const UNITS: f64 = 2048.0;
pub(crate) struct Glyph {
    pub(crate) advance: f64,
    pub(crate) path: &'static str,
}

// Lines of `data/glyphs.py`: style, character, advance, path.
static GLYPHS: LazyLock<HashMap<(bool, char), Glyph>> = LazyLock::new(|| {
    let line = |line: &'static str| {
        let mut fields = line.splitn(4, '\t');
        let bold = fields.next()? == "b";
        let character = char::from_u32(fields.next()?.parse().ok()?)?;
        let advance = fields.next()?.parse().ok()?;
        Some(((bold, character), Glyph { advance, path: fields.next().unwrap_or_default() }))
    };
    include_str!("../data/glyphs.txt").lines().filter_map(line).collect()
});

pub(crate) fn glyph(bold: bool, c: char) -> Option<&'static Glyph> {
    GLYPHS.get(&(bold, c))
}

/// The way to the next character, in outline units; a square where there is no outline.
pub(crate) fn advance(bold: bool, c: char) -> f64 {
    glyph(bold, c).map_or(UNITS, |g| g.advance)
}

/// Width of a text.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    text.chars().map(|c| advance(bold, c)).sum::<f64>() * size / UNITS
}
