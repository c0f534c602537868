//! The figures of the paper and two of our own.
//!
//! Figures 1 to 5 are the paper's, drawn from published-protocol runs where they show data; figures A and B show what its tables only sample.

mod attractors;
mod by_steps;
mod densities;
mod equivalence;
mod heat_map;
mod trajectory;
mod wells;

use crate::outcome::SystemRows;
use optfilter_plot::Figure;

/// A figure of the report, with its file and its caption.
pub struct Picture {
    /// File name without ending.
    pub name: &'static str,
    /// What it shows.
    pub caption: String,
    /// The figure.
    pub figure: Figure,
}

/// All figures that can be drawn from what was run. `grid` is the published grid; figures A and B need it.
pub fn all(seed: u32, grid: &[SystemRows]) -> Vec<Picture> {
    let mut out = vec![
        equivalence::picture(),
        trajectory::picture(seed),
        densities::picture(seed),
        wells::picture(seed),
        attractors::picture(seed),
    ];
    out.extend(by_steps::picture(grid));
    out.extend(heat_map::picture(grid));
    out
}

/// An empty figure whose title stands in the caption.
pub(crate) fn untitled(title: &str, columns: usize, panel_height: f64) -> Figure {
    let mut figure = Figure::new(title);
    figure.title_drawn = false;
    figure.columns = columns;
    figure.panel_height = panel_height;
    figure
}
