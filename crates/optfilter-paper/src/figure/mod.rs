//! The figures of the paper and two of our own.
//!
//! Figures 1 to 5 are the paper's, drawn from published-protocol runs where they show data; figures A and B show what its tables only sample.

mod attractors;
mod by_steps;
mod densities;
mod equivalence;
mod heat_map;
mod picture;
mod trajectory;
mod wells;

pub use picture::Picture;
pub(crate) use picture::untitled;

use crate::outcome::SystemRows;

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
