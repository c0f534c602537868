//! The numbers a model may be evaluated in.
//!
//! A model is written once over any [`Scalar`] and then runs as
//!
//! | kind | meaning |
//! |---|---|
//! | `f64`, `f32` | one trajectory |
//! | [`Lanes<L>`] | `L` trajectories side by side, one per vector lane |
//! | [`Dual<S, D>`] | a value with `D` directional derivatives, over any other kind |
//!
//! num-dual and nalgebra's field traits were considered for this: both ask for an order
//! (`PartialOrd`), which lanes cannot have, so neither can hold a dual number of lanes. That is why
//! comparison appears here only as [`Scalar::select_lt`], which chooses lane by lane.
//!
//! ```
//! use optfilter::scalar::{Dual, Lanes, Scalar};
//! fn square_plus_one<S: Scalar>(x: S) -> S {
//!     x * x + S::ONE
//! }
//! assert_eq!(square_plus_one(3.0), 10.0);
//! let d = square_plus_one(Dual::<f64, 1>::variable(3.0, 0));
//! assert_eq!((d.re, d.eps[0]), (10.0, 6.0));
//! assert_eq!(square_plus_one(Lanes([1.0, 2.0])), Lanes([2.0, 5.0]));
//! ```

mod dual;
mod lanes;
mod real;
#[cfg(feature = "std")]
pub(crate) mod tape;
mod traits;

pub use dual::Dual;
pub use lanes::Lanes;
pub use traits::{Liftable, Scalar, VectorFunction};
