//! Why an optimizer cannot be built, and the checks that say so.

/// Why an optimizer cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptimizerError {
    /// A hyper-parameter is outside the values for which the rule is defined.
    #[error("{optimizer}: {name} = {value} is not allowed; it must be {requirement}")]
    HyperParameter {
        /// The rule.
        optimizer: &'static str,
        /// The argument.
        name: &'static str,
        /// The value given.
        value: f64,
        /// The values allowed.
        requirement: &'static str,
    },
    /// A learning-rate matrix that is not square, symmetric and positive semi-definite.
    #[error("the learning-rate matrix must be {requirement}")]
    Matrix {
        /// What it must be.
        requirement: &'static str,
    },
    /// Bounds that leave no room.
    #[error("bounds: lower[{index}] = {lower} is above upper[{index}] = {upper}, or one is NaN")]
    Bounds {
        /// The component.
        index: usize,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// A name that no optimizer has.
    #[error(
        "there is no optimizer called {name:?}; there are gd, momentum, nesterov, adagrad, adadelta, rmsprop and adam"
    )]
    UnknownName {
        /// The name given.
        name: alloc::string::String,
    },
}

/// Checks a learning rate: positive and finite.
pub(super) fn positive(
    optimizer: &'static str,
    name: &'static str,
    value: f64,
) -> Result<(), OptimizerError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    let requirement = "positive and finite";
    Err(OptimizerError::HyperParameter { optimizer, name, value, requirement })
}

/// Checks a decay rate: at least zero and below one.
pub(super) fn decay_rate(
    optimizer: &'static str,
    name: &'static str,
    value: f64,
) -> Result<(), OptimizerError> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    let requirement = "at least 0 and below 1";
    Err(OptimizerError::HyperParameter { optimizer, name, value, requirement })
}
