//! Choosing a filter for a series, without the truth.
//!
//! A filter that knows the state well, and knows how well, predicts the next measurement well. Settings are
//! compared by the density that they predicted for each measurement ([`Dataset::trace`](crate::run::Dataset::trace) says what that is for a
//! filter without error bars); if asked, by the size of their prediction errors alone or by their errors against
//! true states.
//!
//! | rows | what for |
//! |---|---|
//! | first tenth | filters settle |
//! | up to six tenths | scales, grids, and the search for a pool of good settings |
//! | four windows of a tenth | each is predicted by whichever of the pool did best on all rows before it |
//!
//! The choice is the one made before the last window. Nothing of a window touches the choice that is judged on
//! it. Settings that cannot be told from the best are said to be so ([`clearly_worse`]).

mod metric;
mod parts;
mod search;
mod space;
mod tuned;
mod verdict;

pub use metric::Metric;
pub use search::{News, Search, Strategy, tune, tune_until};
pub use space::candidates;
pub use tuned::{Baseline, Entry, Tuned, Window};
pub use verdict::clearly_worse;
