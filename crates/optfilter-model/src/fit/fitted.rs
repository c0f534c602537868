//! A model that was fitted.

use super::options::Criterion;
use super::placed::placed;
use super::quantity::Target;
use crate::file::ModelSpec;
use optfilter_run::Method;

/// An estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its standard error; none at a bound, or where the likelihood is flat.
    pub std_error: Option<f64>,
    /// Its value in the model file.
    pub start: f64,
    /// The bound that it lies at, if it does.
    pub at_bound: Option<f64>,
    pub(super) target: Target,
}

/// A model fitted to series.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The estimates, in the order of their names as given.
    pub estimates: Vec<Estimated>,
    /// Their correlations, row by row; NaN where there is no standard error.
    pub correlations: Vec<Vec<f64>>,
    /// The filter.
    pub method: Method,
    /// What it was fitted by.
    pub criterion: Criterion,
    /// The log-likelihood of all series.
    pub log_likelihood: f64,
    /// Twice the number of estimates less twice the log-likelihood; a diffuse state counts as an estimate, and so does the first
    /// state of a window.
    pub aic: f64,
    /// The same with the logarithm of [`measured`](Self::measured) in place of two.
    pub bic: f64,
    /// The number of series.
    pub series: usize,
    /// Rows of all series.
    pub rows: usize,
    /// Rows in which something was measured.
    pub measured: usize,
    /// States that were diffuse.
    pub diffuse: usize,
    /// Windows in which something was measured, where those were fitted, and the most rows of one.
    pub windows: Option<(usize, usize)>,
    /// Components of their first states, which were found with the rest.
    pub first_states: usize,
    /// The log-likelihood that each climb ended at; none where there was no way up from its start.
    pub climbs: Vec<Option<f64>>,
    /// Whether nothing rises at the estimates: gradient, curvature and bounds say so.
    pub converged: bool,
    /// What to know before relying on it.
    pub warnings: Vec<String>,
}

impl Fit {
    /// The model with the estimates in it.
    pub fn model(&self, spec: &ModelSpec) -> ModelSpec {
        placed(spec, self.estimates.iter().map(|e| (e.target, e.value)))
    }
}
