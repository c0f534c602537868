//! An equation of a model.

use crate::expr::Ast;
use serde::Serialize;

/// One equation: its text and its tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equation {
    /// As written.
    pub text: String,
    /// As parsed.
    #[serde(skip)]
    pub ast: Ast,
    /// The names of the indices it is over and how many values each has; empty for a single number. The size is 0
    /// in a definition, which is over as many as the equation that uses it.
    pub over: Vec<(String, usize)>,
}
