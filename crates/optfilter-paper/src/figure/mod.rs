//! The figures of the paper and two of our own, as SVG and PNG.
//!
//! Figures 1 to 5 are the paper's, drawn from published-protocol runs where they show data; figures A and B show what its tables only sample.

pub mod axes;
pub mod canvas;

mod attractors;
mod by_steps;
mod densities;
mod equivalence;
mod heat_map;
mod trajectory;
mod wells;

use crate::outcome::SystemRows;

/// A finished figure.
pub struct Figure {
    /// File name without ending.
    pub name: &'static str,
    /// What it shows.
    pub caption: String,
    /// The drawing.
    pub svg: String,
}

/// All figures that can be drawn from what was run. `grid` is the published grid; figures A and B need it.
pub fn all(seed: u32, grid: &[SystemRows]) -> Vec<Figure> {
    let mut out = vec![
        equivalence::draw(),
        trajectory::draw(seed),
        densities::draw(seed),
        wells::draw(seed),
        attractors::draw(seed),
    ];
    out.extend(by_steps::draw(grid));
    out.extend(heat_map::draw(grid));
    out
}

/// A drawing as PNG, with twice the pixels of its size.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let tree = resvg::usvg::Tree::from_str(svg, &resvg::usvg::Options::default())
        .map_err(|e| e.to_string())?;
    let scale = 2.0;
    let size = tree.size();
    let (w, h) = ((size.width() * scale) as u32, (size.height() * scale) as u32);
    let mut pixels = resvg::tiny_skia::Pixmap::new(w, h).ok_or("empty drawing")?;
    let transform = resvg::tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}
