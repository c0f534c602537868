//! Which settings a page offers for a filter, and between which values its sliders move.
//!
//! A learning rate means something only relative to the model, so the ranges are in its own units: one over the curvature of
//! the likelihood for plain gradient steps, the change of the state that the data's changes ask for where a rule adapts.

use crate::limits::{MOST_AT_ONCE, model_work};
use crate::subject::Subject;
use optfilter_model::run::typical_states;
use optfilter_run::{CG, FilterSpec, Linearized, Method};
use serde_json::{Value, json};

/// States up to which a filter is run to see which of them are typical.
const MOST_TYPICAL: usize = 40;
/// Rows that it looks at.
const MOST_ROWS: usize = 2000;

/// One over the curvature, and the usual change of a state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Units {
    /// The rate below which plain gradient descent is stable.
    pub gradient: f64,
    /// About how far a state moves from row to row.
    pub adaptive: f64,
}

/// The units of a subject, from the states it is typically in.
pub fn units(subject: &Subject) -> Units {
    let (spec, data) = (&subject.spec, &subject.data);
    let scales = data.yardstick(spec, 0, data.len()).outputs;
    let (mut curvatures, mut moves) = (Vec::new(), Vec::new());
    if let Ok(problem) = spec.problem() {
        let work = model_work(spec).powi(2) * data.len().min(MOST_ROWS) as f64;
        let states = match spec.states.len() <= MOST_TYPICAL && work <= MOST_AT_ONCE {
            true => typical_states(spec, data, 20, MOST_ROWS),
            false => vec![(spec.initial_mean.clone(), 0)],
        };
        for (state, row) in states {
            let (Some(step), u) = (data.steps.get(row), data.input(row)) else { continue };
            let Ok(at) = Linearized::at(&problem, &state, step, u) else { continue };
            curvatures.extend(Some(at.curvature()).filter(|c| c.is_finite() && *c > 0.0));
            let slopes = scales.iter().enumerate().map(|(i, scale)| scale / at.h.row(i).norm());
            moves.extend(slopes.filter(|m| m.is_finite() && *m > 0.0));
        }
    }
    let pick = |mut values: Vec<f64>, share: f64| {
        values.sort_by(f64::total_cmp);
        values.get((values.len() as f64 * share) as usize).copied().unwrap_or(1.0)
    };
    Units { gradient: 1.0 / pick(curvatures, 0.9), adaptive: pick(moves, 0.5) }
}

/// The settings that a filter reads, of those that a page offers.
pub fn shown(filter: &FilterSpec, with_noise: bool) -> Vec<&'static str> {
    let method = filter.method();
    let optimizer = filter.optimizer();
    let rated = method.optimizes() && optimizer != CG;
    let decays = !matches!(optimizer, "gd" | "adagrad") && rated;
    let sampled = method == Method::Pf || method.is_ensemble();
    let all = [
        ("method", true),
        ("optimizer", method.optimizes()),
        ("steps", method.optimizes() || method == Method::Iekf),
        ("lr", rated),
        ("decay", decays),
        ("window", method == Method::Imap),
        ("discount", method == Method::Imap && filter.is_windowed()),
        ("constraint", method == Method::Imap && filter.window() > 0 && !filter.carry()),
        ("carry", method == Method::Imap && rated),
        ("loss", method == Method::Imap),
        ("process_scale", with_noise && (method != Method::Imap || filter.is_weak())),
        ("measurement_scale", with_noise),
        ("particles", method == Method::Pf),
        ("members", method.is_ensemble()),
        ("inflation", method.is_ensemble()),
        ("radius", method == Method::Letkf),
        ("seed", sampled),
    ];
    all.into_iter().filter(|(_, on)| *on).map(|(key, _)| key).collect()
}

/// The filters that fit a model, each with why not if it does not.
pub fn methods(subject: &Subject) -> Value {
    let one = |method: Method| {
        let filter = FilterSpec { method: Some(method), ..FilterSpec::default() };
        let why = subject.spec.runner(&filter).err().map(|e| e.to_string());
        json!({"name": method.name(), "why_not": why})
    };
    Method::ALL.into_iter().map(one).collect()
}
