//! What is fitted, by what and with which filter: the one place that decides it.
//!
//! | asked for | the criterion |
//! |---|---|
//! | nothing; kf, ekf, iekf, ukf, or a model that one of them suits | likelihood |
//! | nothing; a model of counts or other measurements that are not Gaussian, and no filter | window, of imap |
//! | nothing; imap with a window | window, unless its constraint is weak |
//! | nothing; imap without a window, vkf | prediction |
//! | window or prediction without a filter | that of imap |

use super::error::FitError;
use super::options::{Criterion, Options};
use super::quantity::{FreeError, Quantity, quantities};
use crate::file::{LikelihoodKind, ModelSpec};
use optfilter_run::{FilterSpec, Method, SpecError};

/// What a fit does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The filter, named.
    pub filter: FilterSpec,
    /// What is maximised.
    pub criterion: Criterion,
    /// Past rows of a window, where windows are fitted; none for whole series.
    pub window: Option<u32>,
    /// What is estimated.
    pub free: Vec<Quantity>,
}

/// What a fit of a model does with these settings of a filter.
pub fn plan(spec: &ModelSpec, filter: &FilterSpec, options: &Options) -> Result<Plan, FitError> {
    let mut filter = FilterSpec { window: options.window.or(filter.window), ..filter.clone() };
    let gaussian = spec.likelihoods.iter().all(|l| *l == LikelihoodKind::Gaussian);
    let open = filter.method.is_none() && !filter.sets_optimizer();
    let filter = match options.criterion {
        Some(Criterion::Window) if filter.method.is_none() => {
            filter.method = Some(Method::Imap);
            filter
        }
        Some(Criterion::Prediction) if open => spec.believing(&filter)?,
        None if open && !gaussian => {
            filter.method = Some(Method::Imap);
            filter
        }
        _ => spec.classical(&filter)?,
    };
    let method = filter.method();
    let windowed = (filter.window() > 0 && !filter.is_weak()) || (open && !gaussian);
    let criterion = options.criterion.unwrap_or(match method {
        Method::Imap if windowed => Criterion::Window,
        method if method.optimizes() => Criterion::Prediction,
        _ => Criterion::Likelihood,
    });
    let wrong = |message: String| Err(SpecError::of("criterion", message).into());
    let name = method.name();
    match criterion {
        Criterion::Window if method != Method::Imap => {
            return wrong(format!(
                "the likelihood of windows is that of imap, not of {name}; say method imap"
            ));
        }
        Criterion::Prediction if !method.optimizes() => {
            return wrong(format!(
                "{name} is fitted by its likelihood; prediction errors are those of imap and vkf"
            ));
        }
        Criterion::Likelihood if options.window.is_some() => {
            let message = format!("{name} has no window; say criterion window, or method imap");
            return Err(SpecError::of("window", message).into());
        }
        _ => {}
    }
    let window = match criterion {
        Criterion::Window => options.window.or(filter.window.filter(|window| *window > 0)),
        _ => None,
    };
    let free = free(spec, criterion, &options.free).map_err(FitError::Free)?;
    Ok(Plan { filter, criterion, window, free })
}

/// What is free: by the names given, else by the model's `[fit]` table, else all noise, or all parameters where there is no
/// likelihood that process noise could be read from.
pub fn free(
    spec: &ModelSpec,
    criterion: Criterion,
    names: &[String],
) -> Result<Vec<Quantity>, FreeError> {
    let parameters = ["parameters".to_owned()];
    let names = match (names.is_empty(), spec.fit.free.is_empty(), criterion) {
        (false, _, _) => names,
        (true, false, _) => &spec.fit.free,
        (true, true, Criterion::Likelihood) => &[],
        (true, true, Criterion::Window | Criterion::Prediction) => &parameters,
    };
    quantities(spec, names)
}
