//! Which settings a page offers for a filter, and between which values its sliders move.
//!
//! A learning rate means something only relative to the model, so the ranges are in its own units: one over the curvature of
//! the likelihood for plain gradient steps, the change of the state that the data's changes ask for where a rule adapts.

use crate::limits::{LARGEST, MAX_AT_ONCE, model_work};
use crate::subject::Subject;
use optfilter_model::run::typical_states;
use optfilter_run::{CG, FilterSpec, Kind, Linearized, Method, SETTINGS, Setting};
use serde_json::{Value, json};

/// States up to which a filter is run to see which of them are typical.
const MAX_TYPICAL: usize = 40;
/// Rows that it looks at.
const MAX_ROWS: usize = 2000;

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
        let work = model_work(spec).powi(2) * data.len().min(MAX_ROWS) as f64;
        let states = match spec.states.len() <= MAX_TYPICAL && work <= MAX_AT_ONCE {
            true => typical_states(spec, data, 20, MAX_ROWS),
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

/// The settings that a page offers, and how.
pub fn offered() -> Value {
    let one = |setting: &Setting| {
        let slider = setting.slider?;
        let mut out = json!({"key": setting.name, "label": slider.label});
        out["check"] = json!(setting.kind == Kind::Switch);
        if let Kind::Choice(names) = setting.kind {
            out["choices"] = json!(names);
            let said = |name: &&&str| setting.default.split([' ', ';']).next() == Some(**name);
            out["fallback"] = json!(names.iter().find(said));
        }
        if let Some((low, high)) = slider.ends {
            out["low"] = json!(low);
            out["high"] = json!(high);
            out["log"] = json!(slider.by_factors);
            out["whole"] = json!(setting.kind == Kind::Whole);
            out["fallback"] =
                json!(setting.default.split([' ', ';']).next().and_then(|v| v.parse::<f64>().ok()));
        }
        if let Some((_, most)) = LARGEST.iter().find(|(key, _)| *key == setting.name) {
            out["most"] = json!(most);
        }
        Some(out)
    };
    SETTINGS.iter().filter_map(one).collect()
}

/// The settings that a filter reads, of those that a page offers.
pub fn shown(filter: &FilterSpec, with_noise: bool) -> Vec<&'static str> {
    let method = filter.method();
    let optimizer = filter.optimizer();
    let rated = optimizer != CG;
    let fits = |name| match name {
        "lr" => rated,
        "decay" => rated && !matches!(optimizer, "gd" | "adagrad"),
        "discount" => filter.is_windowed(),
        "constraint" => filter.window() > 0 && !filter.carry(),
        "carry" => rated,
        "loss" => method == Method::Imap,
        "process_scale" => with_noise && (method != Method::Imap || filter.is_weak()),
        "measurement_scale" => with_noise,
        _ => true,
    };
    let offered = SETTINGS.iter().filter(|s| s.slider.is_some() && s.is_read_by(method));
    offered.map(|setting| setting.name).filter(|name| fits(name)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sizes_something_has_its_largest_value() {
        let offered = offered();
        for (key, most) in LARGEST {
            let found = offered.as_array().unwrap().iter().find(|s| s["key"] == key).unwrap();
            assert_eq!(found["most"], most);
            assert!(found["high"].as_f64().unwrap() <= f64::from(most));
        }
        let decay = offered.as_array().unwrap().iter().find(|s| s["key"] == "decay").unwrap();
        assert_eq!(decay["fallback"], 0.9);
    }
}
