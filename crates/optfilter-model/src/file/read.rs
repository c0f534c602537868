//! From a tree of keys and values to a checked model.

use super::access::Reader;
use super::fields::{element_names, split_name};
use super::tree::{self, Entry, Kind, MAX_NAMES};
use super::{ModelSpec, Time};
use crate::builtin;
use crate::compile::Scope;
use crate::diagnostic::{Diagnostic, Source};

/// The tables and keys at the top of a model file.
const TOP: [&str; 20] = [
    "name",
    "system",
    "states",
    "inputs",
    "observations",
    "fields",
    "parameters",
    "definitions",
    "dynamics",
    "integrator",
    "observation",
    "process_noise",
    "measurement_noise",
    "initial",
    "bounds",
    "angles",
    "time",
    "columns",
    "filter",
    "fit",
];

/// Tables of which a file that names a built-in system may change single entries.
const MERGED: [&str; 5] = ["parameters", "definitions", "columns", "filter", "time"];

impl ModelSpec {
    /// Reads a model from text; `name` is the file name that errors show.
    pub fn parse(name: &str, text: &str) -> Result<Self, Diagnostic> {
        let source = Source { name: name.to_owned(), text: text.to_owned() };
        Reader::new(source)?.read()
    }
}

impl Reader {
    /// Adds what a built-in system says and the file does not.
    fn merge_system(&mut self) -> Result<(), Diagnostic> {
        let Some(entry) = self.get("system") else { return Ok(()) };
        let name = self.text(&entry.value)?;
        let Some(system) = builtin::find(name) else {
            let message = format!("there is no built-in system `{name}`");
            let known = builtin::SYSTEMS.iter().map(|s| s.name);
            let error = self.at(&entry.value.at, message).suggest(name, known);
            let all: Vec<&str> = builtin::SYSTEMS.iter().map(|s| s.name).collect();
            return Err(match error.help {
                Some(_) => error,
                None => error.help(format!("there are {}", all.join(", "))),
            });
        };
        self.sources.push(Source {
            name: format!("built-in system {}", system.name),
            text: system.text.to_owned(),
        });
        let text = self.sources[0].text.clone();
        let mut unused = None;
        for entry in tree::parse(&self.sources, 1)? {
            let own = self.entries.iter_mut().find(|e| e.key == entry.key);
            match (own, entry.value.kind.clone()) {
                (None, _) => self.entries.push(entry),
                (Some(own), Kind::Table(theirs)) if MERGED.contains(&entry.key.as_str()) => {
                    if entry.key == "parameters" && unused.is_none() {
                        unused = unused_parameter(own, &theirs, &text);
                    }
                    if let Kind::Table(ours) = &mut own.value.kind {
                        for t in theirs {
                            if !ours.iter().any(|o| o.key == t.key) {
                                ours.push(t);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        match unused {
            Some((entry, known)) => Err(self.unknown(&entry, &known, "parameters of the system")),
            None => Ok(()),
        }
    }

    pub(super) fn read(mut self) -> Result<ModelSpec, Diagnostic> {
        self.check_keys(&self.entries, &TOP, "the model").map_err(|mut e| {
            e.message = e.message.replace("[the model]", "a model file");
            e
        })?;
        self.merge_system()?;
        self.read_parameters()?;
        let shaped = self.shaped_names("states")?;
        let states: Vec<String> =
            shaped.iter().flat_map(|(name, shape, _)| element_names(name, shape)).collect();
        if states.is_empty() {
            let error = match self.get("states") {
                Some(entry) => self.at(&entry.value.at, "a model has at least one state"),
                None => self.missing("the states are missing"),
            };
            return Err(error.help("write states = [\"x\", ...] at the top of the file"));
        }
        let mut ruled = self.read_inputs()?;
        let process_laws = self.take_laws("process_noise", &states, &states, &mut ruled)?;
        let listed = self.names("observations")?;
        let Some(observation) = self.table("observation")? else {
            let help = "add [observation] with a line such as y = \"x\"";
            return Err(self.missing("the table [observation] is missing").help(help));
        };
        let keys: Vec<(&str, Vec<&str>)> = observation.iter().map(|e| split_name(&e.key)).collect();
        let observed: Vec<String> = if listed.is_empty() {
            keys.iter().map(|(name, _)| (*name).to_owned()).collect()
        } else {
            listed
        };
        if observed.is_empty() {
            return Err(self.missing("[observation] is empty"));
        }
        if observed.len() > MAX_NAMES {
            return Err(self.missing(format!("at most {MAX_NAMES} observations are allowed")));
        }
        // Observations over an index are as many as their equation says, further down.
        let sized = self.observation_names(&observed)?;
        let measurement_laws = self.take_laws("measurement_noise", &sized, &states, &mut ruled)?;
        let (inputs, input_rules): (Vec<String>, Vec<_>) = ruled.into_iter().unzip();
        let observation = self.table("observation")?.unwrap_or_default();
        let keys: Vec<(&str, Vec<&str>)> = observation.iter().map(|e| split_name(&e.key)).collect();
        let fields = self.read_fields(&shaped)?;
        let names: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
        self.check_distinct(&names, &inputs)?;
        // Without indices anywhere, equations share their parts, and states are found by name.
        let indexed = fields.iter().any(|f| !f.shape.is_empty())
            || keys.iter().any(|(_, indices)| !indices.is_empty());
        let in_scope = if indexed { &fields[..] } else { &[] };

        let definitions = self.read_definitions(&states, in_scope, &inputs)?;
        let (time, dynamics, state_angles) = self.read_dynamics(&states, &fields)?;
        let mut scope =
            Scope::constants(&self.parameters).with_states(&states, in_scope).with_inputs(&inputs);
        scope.add_definitions(&definitions);
        let continuous = time != Time::Discrete;
        for (entry, equation) in &dynamics {
            self.check_equation(&scope.clone().inside_rate(continuous), &entry.value, equation)?;
        }
        let mut observation_equations = Vec::new();
        let (mut likelihoods, mut observation_angles) = (Vec::new(), Vec::new());
        let mut observations: Vec<String> = Vec::new();
        for name in &observed {
            let Some(at) = keys.iter().position(|(n, _)| n == name) else {
                return Err(self.missing_equation(name, "observation", observation));
            };
            let (entry, indices) = (&observation[at], &keys[at].1);
            self.check_name(name, &entry.key_at)?;
            let (value, angle, likelihood) = self.read_observation(entry)?;
            let shape = self.observed_shape(entry, indices)?;
            let equation = self.equation_over((name, entry), value, indices, &shape)?;
            self.check_equation(&scope, value, &equation)?;
            observation_equations.push(equation);
            observations.extend(element_names(name, &shape));
            likelihoods.resize(observations.len(), likelihood);
            observation_angles.resize(observations.len(), angle);
        }
        if let Some(at) = keys.iter().position(|(n, _)| !observed.iter().any(|o| o == n)) {
            return Err(self.unknown(&observation[at], &observed, "observations"));
        }

        let process_noise = self.read_process_noise(&states)?;
        let measurement_cov = self.read_measurement_noise(&observations, &likelihoods)?;
        let (initial_mean, initial_cov) = self.read_initial(&states)?;
        let diffuse = self.read_diffuse(&states)?;
        let bounds = self.read_bounds(&states)?;
        let (dt, time_column, seconds_per_unit, time_style) = self.read_time()?;
        let columns = self.read_columns(&inputs, &observations)?;
        let filter = self.read_filter()?;
        let fit = self.read_fit()?;
        let name = match self.get("name") {
            Some(entry) => self.text(&entry.value)?.to_owned(),
            None => self.sources[0].name.clone(),
        };
        let spec = ModelSpec {
            name,
            states,
            fields: if indexed { fields } else { Vec::new() },
            inputs,
            input_rules,
            observations,
            parameters: self.parameters.clone(),
            definitions: definitions.into_iter().map(|(e, q)| (e.key.clone(), q)).collect(),
            dynamics: dynamics.into_iter().map(|(_, q)| q).collect(),
            time,
            observation: observation_equations,
            likelihoods,
            observation_angles: turns_of(&observation_angles).0,
            observation_turns: turns_of(&observation_angles).1,
            state_angles: turns_of(&state_angles).0,
            state_turns: turns_of(&state_angles).1,
            bounds,
            process_noise,
            measurement_cov,
            process_laws,
            measurement_laws,
            initial_mean,
            initial_cov,
            diffuse,
            dt,
            time_column,
            seconds_per_unit,
            time_style,
            columns,
            filter,
            fit,
        };
        self.check_fit(&spec)?;
        self.check_rules(&spec)?;
        Ok(spec)
    }

    fn read_parameters(&mut self) -> Result<(), Diagnostic> {
        let entries: Vec<Entry> = self.table("parameters")?.unwrap_or_default().to_vec();
        // Values first, then expressions in the order of the file: an expression may use any value.
        for expressions in [false, true] {
            for entry in &entries {
                if matches!(entry.value.kind, Kind::Text(..)) == expressions {
                    self.check_name(&entry.key, &entry.key_at)?;
                    let value = self.finite(&entry.value)?;
                    self.parameters.push((entry.key.clone(), value));
                }
            }
        }
        Ok(())
    }

    fn check_distinct(&self, states: &[String], inputs: &[String]) -> Result<(), Diagnostic> {
        let parameters: Vec<String> = self.parameters.iter().map(|p| p.0.clone()).collect();
        for (key, list, others) in
            [("inputs", inputs, [states, &parameters]), ("states", states, [&[], &parameters])]
        {
            for (name, other) in list.iter().flat_map(|n| others.iter().map(move |o| (n, o))) {
                if other.contains(name)
                    && let Some(entry) = self.get(key)
                {
                    let message = format!("`{name}` names two things");
                    return Err(self.at(&entry.value.at, message));
                }
            }
        }
        Ok(())
    }
}

/// Which components are angles, and how long their whole turns are.
fn turns_of(angles: &[Option<f64>]) -> (Vec<bool>, Vec<f64>) {
    let turn = |angle: &Option<f64>| angle.unwrap_or(std::f64::consts::TAU);
    (angles.iter().map(Option::is_some).collect(), angles.iter().map(turn).collect())
}

/// A parameter that the system does not have and the file's own equations do not mention, most likely misspelt.
fn unused_parameter(own: &Entry, theirs: &[Entry], text: &str) -> Option<(Entry, Vec<String>)> {
    let Kind::Table(ours) = &own.value.kind else { return None };
    let known: Vec<String> = theirs.iter().map(|t| t.key.clone()).collect();
    let mentions = |name: &str| {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| *w == name).count()
    };
    let unused = ours.iter().find(|o| !known.contains(&o.key) && mentions(&o.key) < 2)?;
    Some((unused.clone(), known))
}
