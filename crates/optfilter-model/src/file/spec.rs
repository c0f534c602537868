//! A model as a file states it.

use super::equation::Equation;
use crate::expr::Field;
use optfilter::model::{Integrator, Step};
use optfilter_run::{Covariance, FilterSpec, ProcessNoise};
use optfilter_table::{TimeStyle, short};
use serde::Serialize;
use std::collections::HashSet;

/// How widely one component scatters in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseLaw {
    /// Which component.
    pub place: usize,
    /// Its standard deviation, or its variance.
    pub equation: Equation,
    /// Whether it is a variance.
    pub squared: bool,
}

/// How the dynamics are given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Time {
    /// As the next state.
    Discrete,
    /// As a differential equation.
    Continuous {
        /// The integrator; if none is named, the exact solution where the equations are linear with constant
        /// coefficients, else RK4.
        method: Option<Integrator>,
        /// Integration steps between two measurements.
        substeps: u32,
    },
}

/// How a measurement scatters about its equation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum LikelihoodKind {
    /// Normal, with the measurement noise of the file.
    Gaussian,
    /// Student's t with these degrees of freedom; the measurement noise is its scale.
    StudentT {
        /// Degrees of freedom.
        dof: f64,
    },
    /// Normal in the middle with exponential tails beyond `delta` deviations.
    Huber {
        /// Where the tails begin, in deviations.
        delta: f64,
    },
    /// A count whose rate is the equation, or its exponential if `log_link`.
    Poisson {
        /// Whether the equation is the logarithm of the rate.
        log_link: bool,
    },
    /// 0 or 1 with the equation as probability of 1, or as its log-odds if `logit_link`.
    Bernoulli {
        /// Whether the equation is the log-odds.
        logit_link: bool,
    },
}

impl LikelihoodKind {
    /// Whether it has a deviation of its own that `[measurement_noise]` must state.
    pub fn needs_noise(self) -> bool {
        !matches!(self, Self::Poisson { .. } | Self::Bernoulli { .. })
    }
}

/// What to make of an input that is missing in a row, and which of its values acts on the step to a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Missing {
    /// An error; a row's value acts on the step to it.
    #[default]
    Refuse,
    /// The row has the last value, which acts on the step to it.
    Hold,
    /// The row has what lies on a line between the last value and the next, which acts on the step to it.
    Interpolate,
    /// The last value before the row acts on the step to it.
    Previous,
    /// The next value, that of the row itself if it has one, acts on the step to it.
    Next,
    /// The mean over the step of the line between known values acts on it.
    Mean,
}

impl Missing {
    /// As a model file says it.
    pub fn written(self) -> &'static str {
        match self {
            Self::Refuse => "",
            Self::Hold => "hold = true",
            Self::Interpolate => "interpolate = true",
            Self::Previous => "hold = \"previous\"",
            Self::Next => "hold = \"next\"",
            Self::Mean => "hold = \"mean\"",
        }
    }
}

/// What holds of an input where its column does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct InputRule {
    /// Between rows that state it.
    pub missing: Missing,
    /// Before the first of them.
    pub default: Option<f64>,
}

/// What a fit estimates, and between which values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FitTable {
    /// Names of quantities or of groups of them; empty where the file does not say.
    pub free: Vec<String>,
    /// Least and greatest values by the name of a quantity.
    pub bounds: Vec<(String, (f64, f64))>,
}

/// A model file that has passed every check. As serialised, it is what shapes a filter's answers: without title, and without what a fit or
/// a filter would be unless told otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSpec {
    /// A title, or the file's name.
    #[serde(skip)]
    pub name: String,
    /// States, in order; those of a field are `x[0]`, `x[1]` and so on.
    pub states: Vec<String>,
    /// The states by field, if an equation has an index; else empty.
    pub fields: Vec<Field>,
    /// Inputs, in order; those that only noise reads come last.
    pub inputs: Vec<String>,
    /// What to make of each where it is missing.
    pub input_rules: Vec<InputRule>,
    /// Observations, in order.
    pub observations: Vec<String>,
    /// Parameters with their values.
    pub parameters: Vec<(String, f64)>,
    /// Named parts of equations, each using only those before it.
    pub definitions: Vec<(String, Equation)>,
    /// One equation per state or field.
    pub dynamics: Vec<Equation>,
    /// Whether those give the next state or its rate of change.
    pub time: Time,
    /// One equation per observation, or per field of them.
    pub observation: Vec<Equation>,
    /// The likelihood of each observation.
    pub likelihoods: Vec<LikelihoodKind>,
    /// Which observations are angles.
    pub observation_angles: Vec<bool>,
    /// The length of a whole turn of each.
    pub observation_turns: Vec<f64>,
    /// Which states are angles.
    pub state_angles: Vec<bool>,
    /// The length of a whole turn of each.
    pub state_turns: Vec<f64>,
    /// Lower and upper bounds of each state, if any state has them.
    pub bounds: Option<Vec<(f64, f64)>>,
    /// Process noise, if given.
    pub process_noise: Option<ProcessNoise>,
    /// Covariance of the measurement noise, if given; zero for counts and binary data.
    pub measurement_cov: Option<Covariance>,
    /// How process noise varies from row to row, by state; the covariance is times these.
    pub process_laws: Vec<NoiseLaw>,
    /// How measurement noise varies, by observation.
    pub measurement_laws: Vec<NoiseLaw>,
    /// Mean of the state at the first row, before its measurement.
    pub initial_mean: Vec<f64>,
    /// Covariance of the same.
    pub initial_cov: Covariance,
    /// Which states are wholly unknown before the first row, whatever their covariance.
    pub diffuse: Vec<bool>,
    /// The interval between rows where there is no time column.
    pub dt: f64,
    /// The column that holds the time.
    pub time_column: Option<String>,
    /// Seconds, or whatever unit the equations use, per second of a calendar time column.
    pub seconds_per_unit: f64,
    /// How that column is written.
    pub time_style: TimeStyle,
    /// Columns of inputs and observations whose name differs from theirs.
    pub columns: Vec<(String, String)>,
    /// Which filter to use unless told otherwise.
    #[serde(skip)]
    pub filter: FilterSpec,
    /// What a fit estimates unless told otherwise.
    #[serde(skip)]
    pub fit: FitTable,
}

impl ModelSpec {
    /// The first input of which a row may have to wait for a later one, if any is.
    pub fn waits(&self) -> Option<&str> {
        let waits = |rule: &InputRule| {
            matches!(rule.missing, Missing::Interpolate | Missing::Next | Missing::Mean)
        };
        let place = self.input_rules.iter().position(waits)?;
        self.inputs.get(place).map(String::as_str)
    }

    /// The column of an input or observation.
    pub fn column<'a>(&'a self, name: &'a str) -> &'a str {
        self.columns.iter().find(|(n, _)| n == name).map_or(name, |(_, column)| column)
    }

    /// What is wrong with the expressions of noise in a row, in words; `None` where all are spreads.
    pub fn noise_flaw(&self, u: &[f64], step: &Step) -> Option<String> {
        if self.process_laws.is_empty() && self.measurement_laws.is_empty() {
            return None;
        }
        let (measured, at, value) = self.compile().broken_law(u, step)?;
        let (table, laws, names) = match measured {
            false => ("process_noise", &self.process_laws, &self.states),
            true => ("measurement_noise", &self.measurement_laws, &self.observations),
        };
        let law = laws.get(at)?;
        let (kind, of) = (if law.squared { "var" } else { "std" }, names.get(law.place)?);
        let text = &law.equation.text;
        Some(format!(
            "[{table}] {kind} = {:?} gives {value} for {of}; a spread is a finite number that is not negative",
            short(text)
        ))
    }

    /// Whether an equation of the states or observations reads an input, and not noise alone.
    pub fn is_read(&self, input: &str) -> bool {
        self.names_read(self.dynamics.iter().chain(&self.observation)).contains(input)
    }

    /// Whether a step reads an input: its equation, or its noise.
    pub fn is_read_by_steps(&self, input: &str) -> bool {
        let laws = self.process_laws.iter().map(|law| &law.equation);
        self.names_read(self.dynamics.iter().chain(laws)).contains(input)
    }

    /// Whether a measurement reads an input: its equation, or its noise.
    pub fn is_read_by_measurements(&self, input: &str) -> bool {
        let laws = self.measurement_laws.iter().map(|law| &law.equation);
        self.names_read(self.observation.iter().chain(laws)).contains(input)
    }

    /// The names in some equations, and in the definitions that these use.
    fn names_read<'a>(&'a self, equations: impl Iterator<Item = &'a Equation>) -> HashSet<&'a str> {
        let mut names: HashSet<&str> = equations.flat_map(|e| e.ast.names()).collect();
        // Each definition uses only those before it.
        for (name, equation) in self.definitions.iter().rev() {
            if names.contains(name.as_str()) {
                names.extend(equation.ast.names());
            }
        }
        names
    }

    /// The names of the built-in systems with their titles.
    pub fn built_ins() -> impl Iterator<Item = (&'static str, &'static str)> {
        crate::builtin::SYSTEMS.iter().map(|s| (s.name, s.text))
    }
}
