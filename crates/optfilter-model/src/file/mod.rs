//! Model files: TOML in, a checked [`ModelSpec`] out.
//!
//! The layout is described in `docs/reference/model-file.md`. Every mistake is reported with file, line, column, the
//! text at fault and, where one can be guessed, a suggestion.
//!
//! ```
//! let text = r#"
//! states = ["x"]
//! [dynamics]
//! x = "x/2 + 25*x/(1+x^2) + 8*cos(1.2*t)"
//! [observation]
//! y = "x^2/20"
//! [process_noise]
//! var = 10
//! [measurement_noise]
//! var = 1
//! [initial]
//! mean = 0
//! std = 1
//! "#;
//! let spec = optfilter_model::ModelSpec::parse("growth.toml", text)?;
//! assert_eq!(spec.observations, ["y"]);
//! let wrong = text.replace("cos(", "cosine(");
//! let error = optfilter_model::ModelSpec::parse("growth.toml", &wrong).unwrap_err();
//! assert_eq!((error.line, error.column), (4, 29));
//! # Ok::<(), optfilter_model::Diagnostic>(())
//! ```

mod access;
mod describe;
mod equation;
mod equations;
mod fields;
mod fit;
mod noise;
mod numbers;
mod read;
mod settings;
mod spec;
mod surroundings;
mod tree;

pub use equation::Equation;
pub use optfilter::model::Integrator;
pub use settings::replace_filter;
pub(crate) use settings::{edit_table, replace_table};
pub use spec::{FitTable, InputRule, LikelihoodKind, Missing, ModelSpec, NoiseLaw, Time};
