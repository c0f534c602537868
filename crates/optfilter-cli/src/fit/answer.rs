//! What is said of a fit, and of why there is none.

use crate::failure::{Failure, INTERRUPTED};
use crate::whole::Whole;
use optfilter_model::ModelSpec;
use optfilter_model::fit::{Fit, FitError};
use optfilter_run::FilterSpec;
use serde_json::{Map, Value, json};

/// In the words of the command line.
pub(super) fn failure(
    error: FitError,
    series: &[Whole],
    (spec, filter): (&ModelSpec, &FilterSpec),
) -> Failure {
    match error {
        FitError::Spec(error) => error.into(),
        FitError::Free(error) => Failure::usage(error),
        FitError::Filter { series: at, error } => match series.get(at) {
            None => Failure { code: 4, message: error.to_string() },
            Some(series) => {
                let Failure { code, message } = series.failure(spec, filter, error.into());
                let help = if code == 4 { ", or start the model from other values" } else { "" };
                Failure { code, message: format!("{message}{help}") }
            }
        },
        stopped @ FitError::Stopped => Failure { code: INTERRUPTED, message: stopped.to_string() },
        FitError::Empty { series: at } => {
            let key = series.get(at).map_or("", |series| series.key.as_str());
            Failure::data("there is no measurement").of_series(key)
        }
        other => Failure::data(other),
    }
}

pub(super) fn as_json(found: &Fit) -> Value {
    let parameters: Map<String, Value> = found
        .estimates
        .iter()
        .map(|e| {
            let value = json!({
                "estimate": e.value,
                "std_error": e.std_error,
                "start": e.start,
                "at_bound": e.at_bound,
            });
            (e.name.clone(), value)
        })
        .collect();
    json!({
        "method": found.method.name(),
        "criterion": found.criterion.name(),
        "log_likelihood": found.log_likelihood,
        "aic": found.aic,
        "bic": found.bic,
        "parameters": parameters,
        "correlations": found.correlations,
        "series": found.series,
        "rows": found.rows,
        "measured": found.measured,
        "diffuse": found.diffuse,
        "windows": found.windows.map(|(count, _)| count),
        "first_states": found.first_states,
        "climbs": found.climbs,
        "converged": found.converged,
        "warnings": found.warnings,
    })
}
