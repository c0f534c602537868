//! Estimates written into the text of a model file.

use super::fitted::Fit;
use super::quantity::{Quantity, Target};
use crate::diagnostic::Diagnostic;
use crate::file::{ModelSpec, edit_table, replace_table};
use optfilter_run::Covariance;
use std::fmt;

/// Why estimates cannot be written into a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SaveError {
    /// The file would no longer be a model.
    Model(Diagnostic),
    /// The file would say something else.
    Elsewhere {
        /// What it would not say.
        name: String,
    },
    /// A free parameter that other numbers of the file are computed from.
    Dependent {
        /// The parameter.
        name: String,
        /// What depends on it.
        other: String,
        /// Whether that is a parameter, which may be a definition instead.
        definable: bool,
    },
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(e) => {
                write!(f, "the estimates cannot be written into the model: {}", e.message)
            }
            Self::Elsewhere { name } => write!(
                f,
                "`{name}` cannot be written into the model; write its table under a header of its own, as in [parameters]"
            ),
            Self::Dependent { name, other, definable } => {
                let how = match (definable, other.contains("_noise")) {
                    (true, _) => format!("write {other} under [definitions], or as a number"),
                    (false, true) => format!(
                        "write its values as numbers, and free those in its place, each for itself: --free {}",
                        other.trim_matches('`')
                    ),
                    (false, false) => "write its values as numbers".to_owned(),
                };
                write!(
                    f,
                    "`{name}` is free, but {other} is computed from it when the file is read and would not follow; {how}"
                )
            }
        }
    }
}

impl std::error::Error for SaveError {}

/// A number as TOML reads it back to the bit.
fn number(v: f64) -> String {
    toml::Value::Float(v).to_string()
}

/// `key = value` with quotes where the key needs them.
fn pair(key: &str, v: f64) -> String {
    let bare = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let key = if bare { key.to_owned() } else { format!("{:?}", key) };
    format!("{key} = {}", number(v))
}

fn named(names: &[String], values: impl Iterator<Item = f64>) -> String {
    let pairs: Vec<String> = names.iter().zip(values).map(|(n, v)| pair(n, v)).collect();
    format!("{{ {} }}", pairs.join(", "))
}

fn covariance(cov: &Covariance, names: &[String]) -> String {
    match cov {
        Covariance::Dense(m) => {
            let row = |i: usize| {
                let entries: Vec<String> = m.row(i).iter().map(|v| number(*v)).collect();
                format!("[{}]", entries.join(", "))
            };
            let rows: Vec<String> = (0..m.nrows()).map(row).collect();
            format!("var = [{}]", rows.join(", "))
        }
        other => format!("var = {}", named(names, (0..names.len()).map(|i| other.variance(i)))),
    }
}

/// The text of a model file with parameters replaced in their table, each where it stands, or added to it.
pub fn replace_parameters(text: &str, new: &[(&str, f64)]) -> String {
    let entries: Vec<String> = new.iter().map(|(name, v)| pair(name, *v)).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    edit_table(text, "parameters", &entries, true)
}

/// The text of a model file with the estimates of a fit in it. Comments stay; what is not estimated is not touched.
pub fn with_estimates(text: &str, spec: &ModelSpec, fit: &Fit) -> Result<String, SaveError> {
    let model = fit.model(spec);
    let has = |wanted: fn(Target) -> bool| fit.estimates.iter().any(|e| wanted(e.target));
    let mut out = text.to_owned();
    let parameters: Vec<(&str, f64)> = fit
        .estimates
        .iter()
        .filter(|e| matches!(e.target, Target::Parameter(_)))
        .map(|e| (e.name.as_str(), e.value))
        .collect();
    if !parameters.is_empty() {
        out = replace_parameters(&out, &parameters);
    }
    if has(|t| matches!(t, Target::Process(_)))
        && let Some(noise) = &model.process_noise
    {
        let per = if noise.per_time { "per = \"time\"\n" } else { "" };
        let table = format!("[process_noise]\n{}\n{per}", covariance(&noise.cov, &spec.states));
        out = replace_table(&out, "process_noise", &table);
    }
    if has(|t| matches!(t, Target::Measurement(_)))
        && let Some(cov) = &model.measurement_cov
    {
        let table = format!("[measurement_noise]\n{}\n", covariance(cov, &spec.observations));
        out = replace_table(&out, "measurement_noise", &table);
    }
    if has(|t| matches!(t, Target::Mean(_))) {
        let mean = named(&spec.states, model.initial_mean.iter().copied());
        let diffuse = match spec.diffuse.iter().all(|d| *d) {
            true => "diffuse = true\n".to_owned(),
            false if spec.diffuse.contains(&true) => {
                let names = spec.states.iter().zip(&spec.diffuse).filter(|(_, d)| **d);
                let names: Vec<String> = names.map(|(n, _)| format!("{n:?}")).collect();
                format!("diffuse = [{}]\n", names.join(", "))
            }
            false => String::new(),
        };
        let spread = covariance(&spec.initial_cov, &spec.states);
        let table = format!("[initial]\nmean = {mean}\n{spread}\n{diffuse}");
        out = replace_table(&out, "initial", &table);
    }
    let read = ModelSpec::parse(&spec.name, &out).map_err(SaveError::Model)?;
    match differing(&read, &model) {
        Some(name) => Err(SaveError::Elsewhere { name }),
        None => Ok(out),
    }
}

/// The first number of two models that is not the same.
fn differing(a: &ModelSpec, b: &ModelSpec) -> Option<String> {
    let close = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    let n = nalgebra::Dyn(a.states.len());
    let m = nalgebra::Dyn(a.observations.len());
    let same = |a: &Covariance, b: &Covariance, size: nalgebra::Dyn| {
        a.dense(size).iter().zip(b.dense(size).iter()).all(|(a, b)| close(*a, *b))
    };
    let parameter = a
        .parameters
        .iter()
        .find(|(name, v)| !b.parameters.iter().any(|(other, w)| other == name && close(*v, *w)));
    if let Some((name, _)) = parameter {
        return Some(name.clone());
    }
    let process = match (&a.process_noise, &b.process_noise) {
        (Some(a), Some(b)) => a.per_time == b.per_time && same(&a.cov, &b.cov, n),
        (a, b) => a.is_none() == b.is_none(),
    };
    let measurement = match (&a.measurement_cov, &b.measurement_cov) {
        (Some(a), Some(b)) => same(a, b, m),
        (a, b) => a.is_none() == b.is_none(),
    };
    let mean = a.initial_mean.iter().zip(&b.initial_mean).all(|(a, b)| close(*a, *b));
    [("process_noise", process), ("measurement_noise", measurement), ("initial.mean", mean)]
        .into_iter()
        .chain([("[initial]", same(&a.initial_cov, &b.initial_cov, n))])
        .find(|(_, same)| !same)
        .map(|(name, _)| name.to_owned())
}

/// Refuses a fit of parameters that other numbers of the file are computed from: those would stay as they are.
pub fn check_independent(text: &str, spec: &ModelSpec, free: &[Quantity]) -> Result<(), SaveError> {
    for quantity in free {
        let Target::Parameter(place) = quantity.target else { continue };
        let moved = quantity.start + 1e-3 * quantity.start.abs().max(1.0);
        let changed = replace_parameters(text, &[(&quantity.name, moved)]);
        // A file that cannot be read so, where a parameter is not in a table of its own, is not refused for that.
        let Ok(read) = ModelSpec::parse(&spec.name, &changed) else { continue };
        let mut wanted = spec.clone();
        wanted.parameters[place].1 = moved;
        if let Some(other) = differing(&read, &wanted)
            && other != quantity.name
        {
            let name = quantity.name.clone();
            let definable = spec.parameters.iter().any(|(name, _)| *name == other);
            return Err(SaveError::Dependent { name, other: format!("`{other}`"), definable });
        }
    }
    Ok(())
}
