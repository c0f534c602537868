//! Pixels from SVG, by resvg.

/// Why a figure cannot be pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PngError(String);

impl core::fmt::Display for PngError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PngError {}

pub(crate) fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    use resvg::{tiny_skia, usvg};
    let tree = usvg::Tree::from_str(svg, &usvg::Options::default());
    let tree = tree.map_err(|e| PngError(format!("the figure cannot be read back: {e}")))?;
    let (w, h) = ((tree.size().width() * scale) as u32, (tree.size().height() * scale) as u32);
    // Viewers give up on longer sides.
    let room = if w.max(h) <= 32_000 { tiny_skia::Pixmap::new(w, h) } else { None };
    let mut pixels = room.ok_or_else(|| {
        PngError(format!("no picture can have {w} x {h} pixels; draw fewer panels, or SVG"))
    })?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| PngError(format!("the pixels cannot be written: {e}")))
}
