//! A figure of the report.

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

/// An empty figure whose title stands in the caption.
pub(crate) fn untitled(title: &str, columns: usize, panel_height: f64) -> Figure {
    let mut figure = Figure::new(title);
    figure.title_drawn = false;
    figure.columns = columns;
    figure.panel_height = panel_height;
    figure
}
