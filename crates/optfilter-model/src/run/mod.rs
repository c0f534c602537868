//! Running a model file's filter over rows of data.
//!
//! A [`Plan`] names a filter and its settings; [`Plan::engine`] makes an [`Engine`] of it, which takes
//! rows one by one and can be saved and resumed bit for bit.

mod bars;
mod dataset;
mod engine;
mod likelihood;
mod linearize;
mod plan;
mod simulate;
mod stream;

pub use dataset::{Dataset, Score};
pub use engine::{Engine, Estimate};
pub use likelihood::AnyLikelihood;
pub use linearize::{Linearized, typical_states};
pub use plan::{Method, Plan, PlanError};
pub use simulate::simulate;
pub use stream::{Clock, Layout};
