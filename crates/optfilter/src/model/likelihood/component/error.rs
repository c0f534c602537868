//! Parameters for which a likelihood is not defined.

/// A parameter for which the likelihood is not defined.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{likelihood}: {name} = {value} is not allowed; it must be positive and finite")]
pub struct LikelihoodError {
    /// The likelihood.
    pub likelihood: &'static str,
    /// The parameter.
    pub name: &'static str,
    /// The value given.
    pub value: f64,
}

pub(super) fn positive(
    likelihood: &'static str,
    name: &'static str,
    value: f64,
) -> Result<(), LikelihoodError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(LikelihoodError { likelihood, name, value })
}
