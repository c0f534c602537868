//! What can be estimated, under the names that files and flags use.
//!
//! | name | what | group |
//! |---|---|---|
//! | `g` | a parameter | `parameters` |
//! | `process_noise.STATE` | a variance | `process_noise` |
//! | `measurement_noise.OUTPUT` | a variance | `measurement_noise` |
//! | `initial.mean.STATE` | where the state starts | `initial.mean` |
//!
//! A search moves each on a line without ends: the logarithm of what has one bound, the log-odds of what has two, and
//! the value over its own size where there is none. A bound itself is the infinite end of the line; what a likelihood rises
//! by there is told in units of the quantity (`units` knows them), from the bound inwards or outwards as the value grows.

use crate::diagnostic::closest;
use crate::file::ModelSpec;
use optfilter::scalar::Dual;

/// What a quantity is part of, and which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A parameter, by its place.
    Parameter(usize),
    /// The variance of the process noise of a state.
    Process(usize),
    /// The variance of the measurement noise of an output.
    Measurement(usize),
    /// The mean of a state before the first row.
    Mean(usize),
}

/// Something to estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// Its value in the model file.
    pub start: f64,
    /// The least and the greatest value it may have.
    pub bounds: (f64, f64),
    pub(crate) target: Target,
    /// The size of a step that means something where there are no bounds; the unit of the slope at a bound where there are.
    pub(crate) scale: f64,
}

impl Quantity {
    /// The value at a place on the line that is searched, and its slope along the line.
    pub(crate) fn value(&self, z: f64) -> (f64, f64) {
        let (low, high) = self.bounds;
        match (low.is_finite(), high.is_finite()) {
            (true, _) if z == f64::NEG_INFINITY => (low, self.scale),
            (_, true) if z == f64::INFINITY => (high, self.scale),
            (true, false) => (z.exp() + low, z.exp()),
            (false, true) => (high - (-z).exp(), (-z).exp()),
            (true, true) => {
                let share = 1.0 / (1.0 + (-z).exp());
                (low + share * (high - low), share * (1.0 - share) * (high - low))
            }
            (false, false) => (z * self.scale, self.scale),
        }
    }

    /// The same as a number that moves along direction `d`, or along none if `d >= D`.
    pub(crate) fn variable<const D: usize>(&self, z: f64, d: usize) -> Dual<f64, D> {
        let (re, slope) = self.value(z);
        let mut out = Dual::constant(re);
        if d < D {
            out.eps[d] = slope;
        }
        out
    }

    /// The place of a value.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let (low, high) = self.bounds;
        match (low.is_finite(), high.is_finite()) {
            (true, false) => (value - low).ln(),
            (false, true) => -(high - value).ln(),
            (true, true) => ((value - low) / (high - value)).ln(),
            (false, false) => value / self.scale,
        }
    }

    /// The ends of its line that are bounds.
    pub(crate) fn ends(&self) -> impl Iterator<Item = f64> + use<> {
        let (low, high) = self.bounds;
        let ends = [(low, f64::NEG_INFINITY), (high, f64::INFINITY)];
        ends.into_iter().filter(|(bound, _)| bound.is_finite()).map(|(_, end)| end)
    }

    /// Whether it is a variance that its units say the size of, and nothing else.
    pub(crate) fn is_open_variance(&self) -> bool {
        self.is_variance() && self.bounds == (0.0, f64::INFINITY)
    }

    /// How far other starts of a search lie apart, on its line.
    pub(crate) fn reach(&self) -> f64 {
        if self.bounds.0.is_finite() || self.bounds.1.is_finite() { 1.5 } else { 0.3 }
    }

    /// Whether it is a variance.
    pub fn is_variance(&self) -> bool {
        matches!(self.target, Target::Process(_) | Target::Measurement(_))
    }
}

/// A name that cannot be estimated.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeError {
    /// The name.
    pub name: String,
    /// Why not.
    pub message: String,
    /// What was perhaps meant, or what to do.
    pub help: Option<String>,
}

impl std::fmt::Display for FreeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let help = self.help.as_ref().map(|h| format!("; {h}")).unwrap_or_default();
        write!(f, "{}{help}", self.message)
    }
}

impl std::error::Error for FreeError {}

const GROUPS: [&str; 4] = ["parameters", "process_noise", "measurement_noise", "initial.mean"];

/// The quantities of some names or groups, in their order, each once. Without names, every noise that the model states.
pub fn quantities(spec: &ModelSpec, names: &[String]) -> Result<Vec<Quantity>, FreeError> {
    let all = every(spec);
    let mut out: Vec<Quantity> = Vec::new();
    let add = |out: &mut Vec<Quantity>, quantity: &Quantity| {
        if !out.iter().any(|q| q.target == quantity.target) {
            out.push(quantity.clone());
        }
    };
    if names.is_empty() {
        all.iter().filter(|q| q.is_variance() && q.start > 0.0).for_each(|q| add(&mut out, q));
        if out.is_empty() {
            let message = "the model states no noise to estimate".to_owned();
            let help = "add [process_noise] and [measurement_noise], or name what is free";
            return Err(FreeError { name: String::new(), message, help: Some(help.into()) });
        }
    }
    for name in names {
        let wrong = |message: String, help: Option<String>| {
            Err(FreeError { name: name.clone(), message, help })
        };
        if let Some(quantity) = all.iter().find(|q| q.name == *name) {
            add(&mut out, quantity);
            continue;
        }
        if !GROUPS.contains(&name.as_str()) {
            // Those of a field by its name alone: `process_noise.x` is `process_noise.x[0]` and so on.
            let of_field: Vec<_> = all
                .iter()
                .filter(|q| q.name.strip_prefix(name.as_str()).is_some_and(|r| r.starts_with('[')))
                .collect();
            if !of_field.is_empty() {
                let usable = of_field.into_iter().filter(|q| !q.is_variance() || q.start > 0.0);
                usable.for_each(|q| add(&mut out, q));
                continue;
            }
            let known: Vec<&str> = all.iter().map(|q| q.name.as_str()).chain(GROUPS).collect();
            let near =
                closest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
            let shown = || known.iter().take(24).copied().collect::<Vec<_>>().join(", ");
            let help = near.unwrap_or_else(|| format!("there are {}", shown()));
            return wrong(format!("there is nothing called `{name}` to estimate"), Some(help));
        }
        let group: Vec<&Quantity> = all
            .iter()
            .filter(|q| match q.target {
                Target::Parameter(_) => name == "parameters",
                Target::Process(_) => name == "process_noise" && q.start > 0.0,
                Target::Measurement(_) => name == "measurement_noise" && q.start > 0.0,
                Target::Mean(_) => name == "initial.mean",
            })
            .collect();
        if group.is_empty() {
            let help = match name.as_str() {
                "parameters" => "write them under [parameters]".to_owned(),
                _ => format!("write [{name}] with values to start from"),
            };
            return wrong(format!("the model states nothing of `{name}`"), Some(help));
        }
        group.into_iter().for_each(|q| add(&mut out, q));
    }
    Ok(out)
}

/// Everything that has a name.
fn every(spec: &ModelSpec) -> Vec<Quantity> {
    let mut out = Vec::new();
    let mut add = |name: String, start: f64, target: Target, scale: f64| {
        let variance = matches!(target, Target::Process(_) | Target::Measurement(_));
        let own = if variance { (0.0, f64::INFINITY) } else { (f64::NEG_INFINITY, f64::INFINITY) };
        let bounds = spec.fit.bounds.iter().find(|(n, _)| *n == name).map_or(own, |(_, b)| *b);
        // A variance is never negative, whatever the bounds say.
        let bounds = if variance { (bounds.0.max(0.0), bounds.1) } else { bounds };
        out.push(Quantity { name, start, bounds, target, scale });
    };
    let size = |v: f64, other: f64| match (v != 0.0, other > 0.0) {
        (true, _) => v.abs(),
        (false, true) => other,
        (false, false) => 1.0,
    };
    for (i, (name, v)) in spec.parameters.iter().enumerate() {
        add(name.clone(), *v, Target::Parameter(i), size(*v, 1.0));
    }
    if let Some(noise) = &spec.process_noise {
        for (i, state) in spec.states.iter().enumerate() {
            let name = format!("process_noise.{state}");
            let variance = noise.cov.variance(i);
            add(name, variance, Target::Process(i), size(variance, 1.0));
        }
    }
    if let Some(cov) = &spec.measurement_cov {
        for (i, output) in spec.observations.iter().enumerate() {
            let name = format!("measurement_noise.{output}");
            let variance = cov.variance(i);
            add(name, variance, Target::Measurement(i), size(variance, 1.0));
        }
    }
    for (i, state) in spec.states.iter().enumerate() {
        let (mean, std) = (spec.initial_mean[i], spec.initial_cov.variance(i).sqrt());
        let scale = if std > 0.0 { std } else { size(mean, 1.0) };
        add(format!("initial.mean.{state}"), mean, Target::Mean(i), scale);
    }
    out
}
