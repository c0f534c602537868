//! From a tree of keys and values to a checked model.

use super::tree::{self, Entry, Kind, Place, Value};
use super::{Equation, Integrator, LikelihoodKind, ModelSpec, ProcessNoise, Settings, Time};
use crate::builtin;
use crate::compile::{RESERVED, Scope};
use crate::diagnostic::{Diagnostic, Source};
use crate::expr::{self, Graph, SyntaxError};

/// The tables and keys at the top of a model file.
const TOP: [&str; 18] = [
    "name",
    "system",
    "states",
    "inputs",
    "observations",
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
];

/// The most states, inputs or observations: programs number them in 16 bits.
const MAX_NAMES: usize = 10_000;

/// Tables of which a file that names a built-in system may change single entries.
const MERGED: [&str; 5] = ["parameters", "definitions", "columns", "filter", "time"];

pub(super) struct Reader {
    sources: Vec<Source>,
    entries: Vec<Entry>,
    /// Parameters read so far, for constant expressions.
    parameters: Vec<(String, f64)>,
}

impl Reader {
    pub(super) fn new(source: Source) -> Result<Self, Diagnostic> {
        let sources = vec![source];
        let entries = tree::parse(&sources, 0)?;
        Ok(Self { sources, entries, parameters: Vec::new() })
    }

    /// An error at a place.
    pub(super) fn at(&self, place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.sources[place.source], place.span.clone(), message)
    }

    /// An error about the file as a whole: shown at its end, where the missing part would go.
    fn missing(&self, message: impl Into<String>) -> Diagnostic {
        let end = self.sources[0].text.trim_end().len();
        Diagnostic::new(&self.sources[0], end..end, message)
    }

    pub(super) fn unknown(&self, entry: &Entry, known: &[String], what: &str) -> Diagnostic {
        let message = format!("`{}` is not among the {what}", entry.key);
        self.at(&entry.key_at, message).suggest(&entry.key, known.iter().map(String::as_str))
    }

    fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    fn table(&self, key: &str) -> Result<Option<&[Entry]>, Diagnostic> {
        match self.get(key) {
            None => Ok(None),
            Some(Entry { value: Value { kind: Kind::Table(entries), .. }, .. }) => {
                Ok(Some(entries))
            }
            Some(entry) => {
                let message = format!("[{key}] must be a table, not {}", entry.value.describe());
                Err(self.at(&entry.value.at, message))
            }
        }
    }

    fn check_keys(&self, entries: &[Entry], known: &[&str], table: &str) -> Result<(), Diagnostic> {
        match entries.iter().find(|e| !known.contains(&e.key.as_str())) {
            None => Ok(()),
            Some(entry) => {
                let message = format!("[{table}] has no key `{}`", entry.key);
                let error = self.at(&entry.key_at, message);
                let suggested = error.clone().suggest(&entry.key, known.iter().copied());
                Err(match suggested.help {
                    Some(_) => suggested,
                    None => error.help(format!("there are {}", known.join(", "))),
                })
            }
        }
    }

    fn text<'a>(&self, value: &'a Value) -> Result<&'a str, Diagnostic> {
        match &value.kind {
            Kind::Text(text, _) => Ok(text),
            _ => {
                let message =
                    format!("a text in quotes is expected here, not {}", value.describe());
                Err(self.at(&value.at, message))
            }
        }
    }

    fn flag(&self, value: &Value) -> Result<bool, Diagnostic> {
        match value.kind {
            Kind::Flag(b) => Ok(b),
            _ => Err(self.at(&value.at, "true or false is expected here")),
        }
    }

    /// A list of distinct names.
    fn names(&self, key: &str) -> Result<Vec<String>, Diagnostic> {
        let Some(entry) = self.get(key) else { return Ok(Vec::new()) };
        let Kind::List(items) = &entry.value.kind else {
            let message = format!("`{key}` must be a list of names, as in {key} = [\"a\", \"b\"]");
            return Err(self.at(&entry.value.at, message));
        };
        if items.len() > MAX_NAMES {
            let message =
                format!("`{key}` has {} names; at most {MAX_NAMES} are allowed", items.len());
            return Err(self.at(&entry.value.at, message));
        }
        let mut names: Vec<String> = Vec::new();
        for item in items {
            let name = self.text(item)?;
            self.check_name(name, &item.at)?;
            if names.iter().any(|n| n == name) {
                return Err(self.at(&item.at, format!("`{name}` is listed twice")));
            }
            names.push(name.to_owned());
        }
        Ok(names)
    }

    fn check_name(&self, name: &str, place: &Place) -> Result<(), Diagnostic> {
        let mut letters = name.chars();
        let good = letters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_');
        if !good {
            let message = format!("`{name}` cannot be a name");
            let help = "a name is a letter followed by letters, digits and _";
            return Err(self.at(place, message).help(help));
        }
        let function = expr::Function::TABLE.iter().any(|row| row.0 == name);
        if RESERVED.contains(&name) || function || ["and", "or", "not"].contains(&name) {
            let message = format!("`{name}` already has a meaning in expressions");
            return Err(self.at(place, message).help("choose another name"));
        }
        Ok(())
    }

    /// Turns an error inside an expression into one inside the file.
    fn syntax(&self, value: &Value, error: SyntaxError) -> Diagnostic {
        let place = match &value.kind {
            Kind::Text(_, Some(start)) => Place {
                source: value.at.source,
                span: start + error.span.start..start + error.span.end,
            },
            _ => value.at.clone(),
        };
        let diagnostic = self.at(&place, error.message);
        match error.help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }

    fn equation(&self, value: &Value) -> Result<Equation, Diagnostic> {
        let (text, parsed) = match &value.kind {
            Kind::Number(v) => (v.to_string(), expr::parse(&v.to_string())),
            _ => (self.text(value)?.to_owned(), expr::parse(self.text(value)?)),
        };
        let ast = parsed.map_err(|e| self.syntax(value, e))?;
        Ok(Equation { text, ast })
    }

    /// The value of a constant expression.
    pub(super) fn constant(&self, value: &Value) -> Result<f64, Diagnostic> {
        let equation = self.equation(value)?;
        let mut graph = Graph::new();
        let scope = Scope::constants(&self.parameters);
        let names = scope.within(&mut graph);
        let id = graph
            .lower(&equation.ast, &mut |g, name| names.find(g, name))
            .map_err(|e| self.syntax(value, e))?;
        graph.value(id).ok_or_else(|| self.at(&value.at, "this must be a constant"))
    }

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
        for entry in tree::parse(&self.sources, 1)? {
            let own = self.entries.iter_mut().find(|e| e.key == entry.key);
            match (own, entry.value.kind.clone()) {
                (None, _) => self.entries.push(entry),
                (Some(own), Kind::Table(theirs)) if MERGED.contains(&entry.key.as_str()) => {
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
        Ok(())
    }

    pub(super) fn read(mut self) -> Result<ModelSpec, Diagnostic> {
        self.check_keys(&self.entries, &TOP, "the model").map_err(|mut e| {
            e.message = e.message.replace("[the model]", "a model file");
            e
        })?;
        self.merge_system()?;
        self.read_parameters()?;
        let states = self.names("states")?;
        if states.is_empty() {
            let error = match self.get("states") {
                Some(entry) => self.at(&entry.value.at, "a model has at least one state"),
                None => self.missing("the states are missing"),
            };
            return Err(error.help("write states = [\"x\", ...] at the top of the file"));
        }
        let inputs = self.names("inputs")?;
        let listed = self.names("observations")?;
        let Some(observation) = self.table("observation")? else {
            let help = "add [observation] with a line such as y = \"x\"";
            return Err(self.missing("the table [observation] is missing").help(help));
        };
        let observations: Vec<String> = if listed.is_empty() {
            observation.iter().map(|e| e.key.clone()).collect()
        } else {
            listed
        };
        if observations.is_empty() {
            return Err(self.missing("[observation] is empty"));
        }
        if observations.len() > MAX_NAMES {
            return Err(self.missing(format!("at most {MAX_NAMES} observations are allowed")));
        }
        self.check_distinct(&states, &inputs)?;

        let definitions = self.read_definitions(&states, &inputs)?;
        let (time, dynamics, state_angles) = self.read_dynamics(&states)?;
        let mut scope =
            Scope::constants(&self.parameters).with_states(&states).with_inputs(&inputs);
        scope.add_definitions(&definitions);
        let continuous = time != Time::Discrete;
        for (entry, equation) in &dynamics {
            self.check_equation(&scope.clone().inside_rate(continuous), &entry.value, equation)?;
        }
        let mut observation_equations = Vec::new();
        let (mut likelihoods, mut observation_angles) = (Vec::new(), Vec::new());
        for name in &observations {
            let Some(entry) = observation.iter().find(|e| e.key == *name) else {
                return Err(self.missing_equation(name, "observation", observation));
            };
            self.check_name(name, &entry.key_at)?;
            let (value, angle, likelihood) = self.read_observation(entry)?;
            let equation = self.equation(value)?;
            self.check_equation(&scope, value, &equation)?;
            observation_equations.push(equation);
            likelihoods.push(likelihood);
            observation_angles.push(angle);
        }
        if let Some(extra) = observation.iter().find(|e| !observations.contains(&e.key)) {
            return Err(self.unknown(extra, &observations, "observations"));
        }

        let process_noise = self.read_process_noise(&states)?;
        let measurement_cov = self.read_measurement_noise(&observations, &likelihoods)?;
        let (initial_mean, initial_cov) = self.read_initial(&states)?;
        let bounds = self.read_bounds(&states)?;
        let (dt, time_column, seconds_per_unit) = self.read_time()?;
        let columns = self.read_columns(&inputs, &observations)?;
        let settings = self.read_settings()?;
        let name = match self.get("name") {
            Some(entry) => self.text(&entry.value)?.to_owned(),
            None => self.sources[0].name.clone(),
        };
        Ok(ModelSpec {
            name,
            states,
            inputs,
            observations,
            parameters: self.parameters.clone(),
            definitions: definitions.into_iter().map(|(e, q)| (e.key.clone(), q)).collect(),
            dynamics: dynamics.into_iter().map(|(_, q)| q).collect(),
            time,
            observation: observation_equations,
            likelihoods,
            observation_angles,
            state_angles,
            bounds,
            process_noise,
            measurement_cov,
            initial_mean,
            initial_cov,
            dt,
            time_column,
            seconds_per_unit,
            columns,
            settings,
        })
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

    fn check_equation(
        &self,
        scope: &Scope<'_>,
        value: &Value,
        equation: &Equation,
    ) -> Result<(), Diagnostic> {
        let mut graph = Graph::new();
        let names = scope.within(&mut graph);
        graph
            .lower(&equation.ast, &mut |g, name| names.find(g, name))
            .map_err(|e| self.syntax(value, e))?;
        Ok(())
    }

    fn missing_equation(&self, name: &str, table: &str, entries: &[Entry]) -> Diagnostic {
        let message = format!("[{table}] has no equation for `{name}`");
        let error = match self.get(table) {
            Some(entry) => self.at(&entry.key_at, message),
            None => self.missing(message),
        };
        match crate::diagnostic::closest(name, entries.iter().map(|e| e.key.as_str())) {
            Some(near) => error.help(format!("`{near}` is there; did you mean `{name}`?")),
            None => error.help(format!("add a line {name} = \"...\"")),
        }
    }

    #[allow(clippy::type_complexity)]
    fn read_dynamics(
        &self,
        states: &[String],
    ) -> Result<(Time, Vec<(Entry, Equation)>, Vec<bool>), Diagnostic> {
        let Some(entries) = self.table("dynamics")? else {
            let help = format!("add [dynamics] with a line {} = \"...\"", states[0]);
            return Err(self.missing("the table [dynamics] is missing").help(help));
        };
        let rate_of = |key: &str| {
            let inner = key.strip_prefix('d')?.strip_suffix("/dt")?.trim();
            Some(inner.to_owned())
        };
        let continuous = entries.iter().any(|e| rate_of(&e.key).is_some());
        let mut slots: Vec<Option<(Entry, Equation)>> = vec![None; states.len()];
        for entry in entries {
            let name = match (rate_of(&entry.key), continuous) {
                (Some(name), _) => name,
                (None, false) => entry.key.clone(),
                (None, true) => {
                    let message = "some equations are rates (dx/dt) and this one is not";
                    let help = format!("write \"d{}/dt\" = \"...\"", entry.key);
                    return Err(self.at(&entry.key_at, message).help(help));
                }
            };
            let Some(i) = states.iter().position(|s| *s == name) else {
                let renamed = Entry { key: name, ..entry.clone() };
                return Err(self.unknown(&renamed, states, "states"));
            };
            slots[i] = Some((entry.clone(), self.equation(&entry.value)?));
        }
        let mut equations = Vec::new();
        for (slot, name) in slots.into_iter().zip(states) {
            equations.push(slot.ok_or_else(|| self.missing_equation(name, "dynamics", entries))?);
        }
        let time = self.read_integrator(continuous)?;
        let mut angles = vec![false; states.len()];
        if let Some(entries) = self.table("angles")? {
            for entry in entries {
                match states.iter().position(|s| *s == entry.key) {
                    Some(i) => angles[i] = self.flag(&entry.value)?,
                    None => return Err(self.unknown(entry, states, "states")),
                }
            }
        }
        Ok((time, equations, angles))
    }

    fn read_integrator(&self, continuous: bool) -> Result<Time, Diagnostic> {
        let (mut method, mut substeps) = (Integrator::Rk4, 1);
        if let Some(entries) = self.table("integrator")? {
            self.check_keys(entries, &["method", "substeps"], "integrator")?;
            if !continuous && let Some(entry) = self.get("integrator") {
                let message = "an integrator is given, but no equation is a rate (dx/dt)";
                return Err(self.at(&entry.key_at, message));
            }
            for entry in entries {
                if entry.key == "substeps" {
                    substeps = self.count(&entry.value)?;
                    if substeps > 100_000 {
                        return Err(self.at(&entry.value.at, "at most 100000 substeps are allowed"));
                    }
                } else {
                    method = match self.text(&entry.value)? {
                        "rk4" => Integrator::Rk4,
                        "euler" => Integrator::Euler,
                        other => {
                            let message = format!("there is no integrator `{other}`");
                            return Err(self.at(&entry.value.at, message).help("rk4 or euler"));
                        }
                    };
                }
            }
        }
        Ok(if continuous { Time::Continuous { method, substeps } } else { Time::Discrete })
    }

    fn read_definitions(
        &self,
        states: &[String],
        inputs: &[String],
    ) -> Result<Vec<(Entry, Equation)>, Diagnostic> {
        let mut done: Vec<(Entry, Equation)> = Vec::new();
        for entry in self.table("definitions")?.unwrap_or_default() {
            self.check_name(&entry.key, &entry.key_at)?;
            let taken = states.iter().chain(inputs).any(|n| *n == entry.key)
                || self.parameters.iter().any(|p| p.0 == entry.key);
            if taken {
                return Err(self.at(&entry.key_at, format!("`{}` names two things", entry.key)));
            }
            let equation = self.equation(&entry.value)?;
            let mut scope =
                Scope::constants(&self.parameters).with_states(states).with_inputs(inputs);
            scope.add_definitions(&done);
            self.check_equation(&scope, &entry.value, &equation)?;
            done.push((entry.clone(), equation));
        }
        Ok(done)
    }

    fn read_observation<'a>(
        &self,
        entry: &'a Entry,
    ) -> Result<(&'a Value, bool, LikelihoodKind), Diagnostic> {
        let Kind::Table(entries) = &entry.value.kind else {
            return Ok((&entry.value, false, LikelihoodKind::Gaussian));
        };
        let known = ["equation", "angle", "likelihood", "dof", "delta", "link"];
        self.check_keys(entries, &known, &format!("observation.{}", entry.key))?;
        let find = |key: &str| entries.iter().find(|e| e.key == key);
        let Some(equation) = find("equation") else {
            let message = format!("`{}` has no equation", entry.key);
            return Err(self.at(&entry.key_at, message).help("add equation = \"...\""));
        };
        let angle = find("angle").map_or(Ok(false), |e| self.flag(&e.value))?;
        let number =
            |key: &str, default: f64| find(key).map_or(Ok(default), |e| self.positive(&e.value));
        let linked = |name: &str| match find("link") {
            None => Ok(false),
            Some(e) => match self.text(&e.value)? {
                "identity" => Ok(false),
                link if link == name => Ok(true),
                _ => Err(self.at(&e.value.at, format!("the link is \"identity\" or \"{name}\""))),
            },
        };
        let kind = match find("likelihood") {
            None => LikelihoodKind::Gaussian,
            Some(e) => match self.text(&e.value)? {
                "gaussian" => LikelihoodKind::Gaussian,
                "student-t" => LikelihoodKind::StudentT { dof: number("dof", 4.0)? },
                "huber" => LikelihoodKind::Huber { delta: number("delta", 1.345)? },
                "poisson" => LikelihoodKind::Poisson { log_link: linked("log")? },
                "bernoulli" => LikelihoodKind::Bernoulli { logit_link: linked("logit")? },
                other => {
                    let known = ["gaussian", "student-t", "huber", "poisson", "bernoulli"];
                    let message = format!("there is no likelihood `{other}`");
                    let error = self.at(&e.value.at, message).suggest(other, known);
                    return Err(match error.help {
                        Some(_) => error,
                        None => error.help(format!("there are {}", known.join(", "))),
                    });
                }
            },
        };
        for (key, fits) in [
            ("dof", matches!(kind, LikelihoodKind::StudentT { .. })),
            ("delta", matches!(kind, LikelihoodKind::Huber { .. })),
            ("link", !kind.needs_noise()),
        ] {
            if let Some(e) = find(key).filter(|_| !fits) {
                return Err(
                    self.at(&e.key_at, format!("`{key}` has no meaning for this likelihood"))
                );
            }
        }
        Ok((&equation.value, angle, kind))
    }

    fn read_process_noise(&self, states: &[String]) -> Result<Option<ProcessNoise>, Diagnostic> {
        let Some(entry) = self.get("process_noise") else { return Ok(None) };
        let mut per_time = false;
        if let Some(entries) = self.table("process_noise").ok().flatten() {
            self.check_keys(entries, &["std", "var", "per"], "process_noise")?;
            if let Some(per) = entries.iter().find(|e| e.key == "per") {
                per_time = match self.text(&per.value)? {
                    "step" => false,
                    "time" => true,
                    _ => {
                        return Err(
                            self.at(&per.value.at, "process noise is per \"step\" or per \"time\"")
                        );
                    }
                };
            }
        }
        let cov = self.covariance(entry, states, Some(0.0))?;
        Ok(Some(ProcessNoise { cov, per_time }))
    }

    fn read_measurement_noise(
        &self,
        observations: &[String],
        likelihoods: &[LikelihoodKind],
    ) -> Result<Option<nalgebra::DMatrix<f64>>, Diagnostic> {
        let all_free = likelihoods.iter().all(|l| !l.needs_noise());
        let Some(entry) = self.get("measurement_noise") else { return Ok(None) };
        if let Some(entries) = self.table("measurement_noise").ok().flatten() {
            self.check_keys(entries, &["std", "var"], "measurement_noise")?;
        }
        let any_free = likelihoods.iter().any(|l| !l.needs_noise());
        let cov = self.covariance(entry, observations, any_free.then_some(0.0))?;
        for (i, likelihood) in likelihoods.iter().enumerate() {
            if (likelihood.needs_noise() || all_free) && cov[(i, i)] <= 0.0 {
                let message =
                    format!("the measurement noise of `{}` must be positive", observations[i]);
                return Err(self.at(&entry.value.at, message));
            }
        }
        Ok(Some(cov))
    }

    fn read_initial(
        &self,
        states: &[String],
    ) -> Result<(Vec<f64>, nalgebra::DMatrix<f64>), Diagnostic> {
        let Some(entry) = self.get("initial") else {
            let help = "add [initial] with mean = ... and std = ...";
            return Err(self.missing("the table [initial] is missing").help(help));
        };
        let entries = self.table("initial")?.unwrap_or_default();
        self.check_keys(entries, &["mean", "std", "var"], "initial")?;
        let Some(mean) = entries.iter().find(|e| e.key == "mean") else {
            let message = "[initial] has no `mean`";
            return Err(self.at(&entry.key_at, message).help("add mean = ..."));
        };
        let mean = self.vector(&mean.value, states, None, "entries")?;
        Ok((mean, self.covariance(entry, states, None)?))
    }

    fn read_bounds(&self, states: &[String]) -> Result<Option<Vec<(f64, f64)>>, Diagnostic> {
        let Some(entries) = self.table("bounds")? else { return Ok(None) };
        let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); states.len()];
        for entry in entries {
            let Some(i) = states.iter().position(|s| *s == entry.key) else {
                return Err(self.unknown(entry, states, "states"));
            };
            let pair = match &entry.value.kind {
                Kind::List(items) if items.len() == 2 => {
                    (self.number(&items[0])?, self.number(&items[1])?)
                }
                _ => {
                    let message = "bounds are a pair, as in [0, inf]";
                    return Err(self.at(&entry.value.at, message));
                }
            };
            if pair.0 > pair.1 {
                return Err(self.at(&entry.value.at, "the lower bound is above the upper one"));
            }
            bounds[i] = pair;
        }
        Ok(Some(bounds))
    }

    fn read_time(&self) -> Result<(f64, Option<String>, f64), Diagnostic> {
        let (mut dt, mut column, mut unit) = (1.0, None, 1.0);
        let entries = self.table("time")?.unwrap_or_default();
        self.check_keys(entries, &["dt", "column", "unit"], "time")?;
        for entry in entries {
            match entry.key.as_str() {
                "dt" => dt = self.positive(&entry.value)?,
                "column" => column = Some(self.text(&entry.value)?.to_owned()),
                _ => {
                    unit = match self.text(&entry.value)? {
                        "second" => 1.0,
                        "minute" => 60.0,
                        "hour" => 3600.0,
                        "day" => 86_400.0,
                        "week" => 7.0 * 86_400.0,
                        "year" => 365.2425 * 86_400.0,
                        _ => {
                            let message = "the unit is second, minute, hour, day, week or year";
                            return Err(self.at(&entry.value.at, message));
                        }
                    }
                }
            }
        }
        Ok((dt, column, unit))
    }

    fn read_columns(
        &self,
        inputs: &[String],
        observations: &[String],
    ) -> Result<Vec<(String, String)>, Diagnostic> {
        let known: Vec<String> = inputs.iter().chain(observations).cloned().collect();
        let mut columns = Vec::new();
        for entry in self.table("columns")?.unwrap_or_default() {
            if !known.contains(&entry.key) {
                return Err(self.unknown(entry, &known, "inputs and observations"));
            }
            columns.push((entry.key.clone(), self.text(&entry.value)?.to_owned()));
        }
        Ok(columns)
    }

    fn read_settings(&self) -> Result<Settings, Diagnostic> {
        let mut settings = Settings::default();
        let entries = self.table("filter")?.unwrap_or_default();
        self.check_keys(entries, &Settings::KEYS, "filter")?;
        for entry in entries {
            let value = &entry.value;
            match entry.key.as_str() {
                "method" => {
                    settings.method = Some(self.choice(value, &Settings::METHODS, "method")?)
                }
                "optimizer" => {
                    let known = optfilter::optim::AnyOptimizer::NAMES;
                    settings.optimizer = Some(self.choice(value, &known, "optimizer")?);
                }
                "steps" => settings.steps = Some(self.count(value)?),
                "lr" => settings.lr = Some(self.positive(value)?),
                "decay" => {
                    let decay = self.finite(value)?;
                    if !(0.0..1.0).contains(&decay) {
                        return Err(self.at(&value.at, "decay must be at least 0 and below 1"));
                    }
                    settings.decay = Some(decay);
                }
                "carry" => settings.carry = Some(self.flag(value)?),
                "process_scale" => settings.process_scale = Some(self.positive(value)?),
                _ => settings.particles = Some(self.count(value)?),
            }
        }
        Ok(settings)
    }

    fn choice(&self, value: &Value, known: &[&str], what: &str) -> Result<String, Diagnostic> {
        let text = self.text(value)?;
        if known.contains(&text) {
            return Ok(text.to_owned());
        }
        let error = self.at(&value.at, format!("there is no {what} `{text}`"));
        let suggested = error.clone().suggest(text, known.iter().copied());
        Err(match suggested.help {
            Some(_) => suggested,
            None => error.help(format!("there are {}", known.join(", "))),
        })
    }
}

impl crate::compile::Named for Entry {
    fn name(&self) -> &str {
        &self.key
    }
}
