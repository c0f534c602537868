//! How the program ends: one line on standard error and an exit code that says what kind of thing went
//! wrong.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done (also when the reader of a pipe went away) |
//! | 1 | anything else: the output cannot be written, a checkpoint is damaged, a defect of the program |
//! | 2 | usage: flags or the model file |
//! | 3 | data: a table cannot be read, a cell is not a number, a column is missing, times run backwards |
//! | 4 | divergence: the filter left the finite numbers |
//! | 130 | interrupted: asked to end by Ctrl-C or SIGTERM |

use optfilter::checkpoint::CheckpointError;
use optfilter::filter::FilterError;
use optfilter::model::{Dynamics, Observation, Step};
use optfilter_model::table::TableError;
use optfilter_model::{Equation, LikelihoodKind, ModelSpec};
use optfilter_run::{CG, Covariance, FilterSpec, SimulationError, SpecError};
use std::fmt;
use std::io;

/// The exit code of a program that was asked to end.
pub const INTERRUPTED: u8 = 130;

/// The end of a run that did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code; 0 for a broken pipe.
    pub code: u8,
    /// What to print; nothing for a broken pipe.
    pub message: String,
}

impl Failure {
    /// Something other than the kinds below.
    pub fn other(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// Asked to end; what there is to say about it may be nothing.
    pub fn interrupted(message: impl fmt::Display) -> Self {
        Self { code: INTERRUPTED, message: message.to_string() }
    }

    /// A mistake in flags or model file.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// A mistake in the data.
    pub fn data(message: impl fmt::Display) -> Self {
        Self { code: 3, message: message.to_string() }
    }

    /// The same, of one series among several; of the only one there is nothing to add.
    pub fn of_series(self, key: &str) -> Self {
        let series = format!("series {key:?}: ");
        if key.is_empty() || self.message.is_empty() || self.message.starts_with(&series) {
            return self;
        }
        Self { message: format!("{series}{}", self.message), ..self }
    }

    /// Reading or decoding a table failed.
    pub fn table(name: &str, error: &TableError) -> Self {
        Self::data(format!("{name}: {error}"))
    }

    /// Writing failed; a reader that went away is no failure.
    pub fn write(name: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { code: 0, message: String::new() };
        }
        Self::other(format!("cannot write {name}: {error}"))
    }

    /// The same for an error of the table writer.
    pub fn write_table(name: &str, error: &TableError) -> Self {
        match error {
            TableError::Io(e) => Self::write(name, e),
            TableError::Unsupported { .. } => Self::usage(format!("{name}: {error}")),
            other => Self::other(format!("cannot write {name}: {other}")),
        }
    }

    /// A checkpoint that cannot be gone on from; `family` is what the kinds of such checkpoints begin with, whichever program wrote them.
    pub fn checkpoint(name: &str, family: &str, error: &CheckpointError) -> Self {
        let fresh = "remove it to start afresh";
        Self::other(match error {
            CheckpointError::Kind { found, .. } if found.starts_with(family) => format!(
                "{name} was made by another version of optfilter, whose checkpoints this one cannot read; go on with that version, or {fresh}"
            ),
            CheckpointError::Kind { found, .. } => {
                format!("{name} is a checkpoint of something else ({found}); name another file")
            }
            error => format!("{name}: {error}; {fresh}"),
        })
    }

    /// A panic, which has been reported.
    pub fn defect() -> Self {
        Self { code: 1, message: String::new() }
    }

    /// A filter stopped at a row: what, where, and what to do about it.
    pub fn filter(at: &Place<'_>, error: &FilterError) -> Self {
        let Place { file, line, spec, filter, row } = at;
        if let Some(flaw) = row.and_then(|(u, step)| spec.noise_flaw(u, &step))
            && !matches!(error, FilterError::NotFinite { .. })
        {
            return Self::data(format!("{file}: line {line}: {flaw}"));
        }
        match error {
            FilterError::NotPositiveDefinite { .. } if is_repeated(spec, *row) => {
                Self::data(format!(
                    "{file}: line {line}: an exact measurement is given twice, at the time of the row before and with no noise \
                     in [measurement_noise]; leave out a row, or say how exact it is"
                ))
            }
            FilterError::Impossible { component, value, .. } => {
                let column = spec.observations.get(*component).map_or("?", |y| spec.column(y));
                let kind = match spec.likelihoods.get(*component) {
                    Some(LikelihoodKind::Poisson { .. }) => "a count: a whole number of at least 0",
                    Some(LikelihoodKind::Bernoulli { .. }) => "0 or 1",
                    _ => "possible under its likelihood",
                };
                Self::data(format!(
                    "{file}: line {line}, column {column:?}: {value} is not {kind}; mend the cell, or leave it empty"
                ))
            }
            FilterError::NotFinite { argument: "u" | "inputs", component, .. } => {
                let column = spec.inputs.get(*component).map_or("?", |u| spec.column(u));
                let name = spec.inputs.get(*component).map_or("?", String::as_str);
                let rule = spec.input_rules.get(*component).map_or("", |r| r.missing.written());
                let rule = if rule.is_empty() { String::new() } else { format!("{rule}, ") };
                // An empty cell is refused by the reader unless the input may be held.
                Self::data(format!(
                    "{file}: line {line}, column {column:?}: the input has no value, in this row or before it; state it from the first row on, \
                     or say what it is until then: {name} = {{ {rule}default = 0 }} in [inputs]"
                ))
            }
            FilterError::NotFinite { .. } => Self::data(format!("{file}: line {line}: {error}")),
            FilterError::Diverged { quantity, last_good, .. } => Self {
                code: 4,
                message: format!(
                    "{file}: line {line}: the filter diverged: its {quantity} left the finite numbers or passed 1e100{}; {}",
                    last_state(spec, last_good),
                    advice(spec, filter, last_good)
                ),
            },
            FilterError::NotPositiveDefinite { .. } => Self {
                code: 4,
                message: format!("{file}: line {line}: {error}; {}", advice(spec, filter, &[])),
            },
            FilterError::Uneven { .. } => Self::usage(format!("{file}: line {line}: {error}")),
            other => Self::other(format!("{file}: line {line}: {other}")),
        }
    }
}

/// Where a filter stopped.
pub struct Place<'a> {
    pub file: &'a str,
    pub line: u64,
    pub spec: &'a ModelSpec,
    pub filter: &'a FilterSpec,
    /// Inputs of the row, and the step to it, where they are known.
    pub row: Option<(&'a [f64], Step)>,
}

/// Whether a row has the time of the one before while a measurement is without noise.
fn is_repeated(spec: &ModelSpec, row: Option<(&[f64], Step)>) -> bool {
    let exact = |cov: &Covariance| (0..spec.observations.len()).any(|i| cov.variance(i) == 0.0);
    let again = row.is_some_and(|(_, step)| step.index > 1 && step.dt == 0.0);
    again && spec.measurement_cov.as_ref().is_some_and(exact)
}

/// The last good state, by names; nothing if there was none.
fn last_state(spec: &ModelSpec, state: &[f64]) -> String {
    let named = spec.states.iter().zip(state).take(10).filter(|(_, x)| x.is_finite());
    let named: Vec<_> = named.map(|(name, x)| format!("{name} = {x}")).collect();
    if named.is_empty() {
        return String::new();
    }
    let more = if state.len() > 10 { " and more" } else { "" };
    format!("; last good state {}{more}", named.join(", "))
}

/// What may help against a divergence.
fn advice(spec: &ModelSpec, filter: &FilterSpec, state: &[f64]) -> String {
    if let Some((table, name, text, value)) = broken_equation(spec, state) {
        return format!("[{table}] gives {name} = {value} there; mend its equation {text:?}");
    }
    if filter.is_windowed() {
        let smaller = if filter.optimizer() == CG { "fewer --steps" } else { "a smaller --lr" };
        let shorten = if filter.shorten() { "" } else { "--shorten, " };
        return format!("try {shorten}a shorter --window, {smaller}, or `optfilter tune`");
    }
    if filter.method().optimizes() {
        return "try a smaller --lr, fewer --steps, another --method, or `optfilter tune`".into();
    }
    "look for measurements far out of range and for equations that divide by nothing or take the root or \
     logarithm of what is not positive, or try another --method"
        .into()
}

/// The equation that leaves the finite numbers at a state, with its value; none where it depends on more than the state.
fn broken_equation<'a>(
    spec: &'a ModelSpec,
    state: &[f64],
) -> Option<(&'static str, &'a str, &'a str, f64)> {
    let fixed = |e: &Equation| !e.ast.names().contains(&"t");
    let all = || spec.dynamics.iter().chain(&spec.observation);
    if state.len() != spec.states.len() || !spec.inputs.is_empty() || !all().all(fixed) {
        return None;
    }
    let (model, step) = (spec.compile(), Step::even(1, spec.dt));
    let (mut next, mut seen) = (state.to_vec(), vec![0.0; spec.observations.len()]);
    model.transition(state, &[], &step, &mut next);
    model.observe(state, &[], &step, &mut seen);
    let of = |table, names: &'a [String], equations: &'a [Equation], values: &[f64]| {
        let at = values.iter().position(|v| v.is_nan() || v.abs() >= 1e100)?;
        Some((table, names.get(at)?.as_str(), equations.get(at)?.text.as_str(), *values.get(at)?))
    };
    of("dynamics", &spec.states, &spec.dynamics, &next)
        .or_else(|| of("observation", &spec.observations, &spec.observation, &seen))
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Problem(error) => error.into(),
            SimulationError::Run(error) => Self { code: 4, message: error.to_string() },
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        // In the words of a model file.
        match error.key {
            "Q" | "R" if error.message.starts_with("must be") => {
                let table = if error.key == "Q" { "process_noise" } else { "measurement_noise" };
                Self::usage(format!("[{table}] {}", error.message))
            }
            "Q" => Self::usage(format!("{}; add [process_noise] to the model file", error.message)),
            "R" => {
                Self::usage(format!("{}; add [measurement_noise] to the model file", error.message))
            }
            "P0" => Self::usage(format!("std or var of [initial]: {}", error.message)),
            "x0" => Self::usage(format!("mean of [initial]: {}", error.message)),
            "bounds" => Self::usage(format!("[bounds]: {}", error.message)),
            _ => Self::usage(error),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
