//! Pixels from SVG, by resvg.

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PngError {
    /// The figure cannot be read back; this is a defect of this crate.
    Markup(String),
    /// The figure is too large to be a picture of this scale, or empty.
    Size {
        /// Its width in pixels.
        width: u32,
        /// Its height in pixels.
        height: u32,
    },
    /// The pixels cannot be written.
    Encoding(String),
}

impl core::fmt::Display for PngError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Markup(reason) => write!(f, "the figure cannot be read back: {reason}"),
            Self::Size { width, height } => {
                write!(f, "no picture can have {width} x {height} pixels; use fewer panels or SVG")
            }
            Self::Encoding(reason) => write!(f, "the pixels cannot be written: {reason}"),
        }
    }
}

impl core::error::Error for PngError {}

/// The most pixels on a side: 32 MiB rows are where viewers give up.
const MOST: u32 = 32_000;

pub(crate) fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let tree = resvg::usvg::Tree::from_str(svg, &resvg::usvg::Options::default())
        .map_err(|e| PngError::Markup(e.to_string()))?;
    let [width, height] =
        [tree.size().width(), tree.size().height()].map(|v| (v * scale).round() as u32);
    let pixels =
        if width.max(height) <= MOST { resvg::tiny_skia::Pixmap::new(width, height) } else { None };
    let mut pixels = pixels.ok_or(PngError::Size { width, height })?;
    let transform = resvg::tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| PngError::Encoding(e.to_string()))
}
