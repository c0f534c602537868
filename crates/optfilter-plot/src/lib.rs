//! Figures of series and their uncertainty, as SVG and PNG, on light and dark ground.
//!
//! A [`Figure`] is a list of [`Panel`]s; a panel has two axes ([`Axis`]: linear, logarithmic or of the calendar) and a
//! list of [`Mark`]s (lines, bands, points, outliers, areas, cells, text) in their coordinates. Sizes, ranges, ticks,
//! margins and the legend follow from that, so what uses this crate never counts pixels:
//!
//! ```
//! use optfilter_plot::{Axis, Figure, Mark, Panel, Theme};
//!
//! let t: Vec<f64> = (0..100).map(f64::from).collect();
//! let level: Vec<f64> = t.iter().map(|t| (0.1 * t).sin()).collect();
//! let band = t.iter().zip(&level).map(|(t, x)| (*t, x - 0.3, x + 0.3));
//! let panel = Panel::new("level", Axis::linear("time"), Axis::linear(""))
//!     .with(Mark::band(band).named("two standard deviations"))
//!     .with(Mark::line(t.iter().copied().zip(level)).named("estimate"))
//!     .with(Mark::outliers([(30.0, 1.9)]));
//! let figure = Figure::new("A level and what is known of it").with(panel);
//!
//! let svg = figure.svg(Theme::Auto); // follows the reader's light or dark setting
//! assert!(svg.contains("prefers-color-scheme"));
//! # #[cfg(feature = "png")]
//! assert!(figure.png(Theme::Dark, 2.0)?.starts_with(b"\x89PNG"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Nothing of optfilter is needed**: numbers come in as iterators of pairs. A series too long to be kept goes
//!   through a [`Thinner`], which keeps its extremes in constant memory.
//! - **Text is outlines**, of Latin and Greek characters: a figure looks the same everywhere, and pixels need no font.
//!   Other characters are left to the viewer's fonts; pixels do not show them.
//! - **Colours are pairs** ([`Color`]). Figures carry both and a style sheet that asks what the reader prefers.
//! - **It is not** for interaction, for three dimensions (project first), or for millions of marks (thin first).

mod axis;
mod calendar;
mod canvas;
pub mod color;
mod figure;
mod font;
mod mark;
mod markup;
#[cfg(feature = "png")]
mod png;
pub mod thin;

pub use axis::Axis;
pub use canvas::Anchor;
pub use color::{Color, Theme};
pub use figure::{Figure, Panel};
pub use mark::{Cell, Mark};
pub use markup::escape;
#[cfg(feature = "png")]
pub use png::PngError;
pub use thin::Thinner;
