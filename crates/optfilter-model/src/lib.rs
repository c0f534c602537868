//! State-space models written as text.
//!
//! - [`expr`]: expressions compiled to programs that run over every scalar of the library, so that
//!   derivatives are exact and lanes work;
//! - [`ModelSpec`]: a TOML model file, checked, with errors that point at the text ([`Diagnostic`]);
//! - [`TextModel`]: the compiled model, as the library's `Dynamics` and `Observation`;
//! - [`table`]: measurements in CSV, TSV or JSON lines, streamed;
//! - [`run`]: a model file as a problem of `optfilter-run`, over rows of a table;
//! - [`fit`]: maximum likelihood of parameters, noise and start;
//! - [`tune`]: choosing a filter for a series by how well it predicts.
//!
//! ```
//! use optfilter::model::{Dynamics, Step};
//! let spec = optfilter_model::ModelSpec::parse("mine.toml", "system = \"lorenz63\"")?;
//! let model = spec.compile();
//! let mut next = [0.0; 3];
//! model.transition(&[1.0, 1.0, 1.0], &[], &Step::even(1, 0.01), &mut next);
//! assert!(next[1] > 1.2);
//! # Ok::<(), optfilter_model::Diagnostic>(())
//! ```

// Readers of what strangers write: a place inside of a character is an error, never a panic.
#![deny(clippy::string_slice)]

mod builtin;
mod compile;
pub mod diagnostic;
pub mod expr;
mod file;
pub mod fit;
pub mod made;
mod model;
pub mod run;
pub mod tune;

pub use diagnostic::Diagnostic;
pub use file::{
    Equation, FitTable, InputRule, Integrator, LikelihoodKind, Missing, ModelSpec, NoiseLaw, Time,
    replace_filter,
};
pub use model::TextModel;
pub use optfilter_run::{FilterSpec, Method, SpecError};
pub use optfilter_table as table;
