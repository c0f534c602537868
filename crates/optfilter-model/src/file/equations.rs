//! The equations of a model file: definitions, dynamics, observations.

use super::access::Reader;
use super::fields::{places, split_name};
use super::tree::{Entry, Kind, Value};
use super::{Equation, LikelihoodKind, Time};
use crate::compile::Scope;
use crate::diagnostic::Diagnostic;
use crate::expr::{Field, Graph};
use optfilter::model::Integrator;

impl Reader {
    pub(super) fn check_equation(
        &self,
        scope: &Scope<'_>,
        value: &Value,
        equation: &Equation,
    ) -> Result<(), Diagnostic> {
        let mut graph = Graph::new();
        let mut names = scope.within(&mut graph, &equation.over);
        graph.lower(&equation.ast, &mut names).map_err(|e| self.syntax(value, e))?;
        Ok(())
    }

    pub(super) fn missing_equation(
        &self,
        name: &str,
        table: &str,
        entries: &[Entry],
    ) -> Diagnostic {
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
    pub(super) fn read_dynamics(
        &self,
        states: &[String],
        fields: &[Field],
    ) -> Result<(Time, Vec<(Entry, Equation)>, Vec<Option<f64>>), Diagnostic> {
        let Some(entries) = self.table("dynamics")? else {
            let help = format!("add [dynamics] with a line {} = \"...\"", fields[0].name);
            return Err(self.missing("the table [dynamics] is missing").help(help));
        };
        let rate_of = |key: &str| {
            let inner = key.strip_prefix('d')?.strip_suffix("/dt")?.trim();
            Some(inner.to_owned())
        };
        let continuous = entries.iter().any(|e| rate_of(&e.key).is_some());
        let mut slots: Vec<Option<(Entry, Equation)>> = vec![None; fields.len()];
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
            let (name, indices) = split_name(&name);
            let Some(i) = fields.iter().position(|f| f.name == name) else {
                let known: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
                let renamed = Entry { key: name.to_owned(), ..entry.clone() };
                return Err(self.unknown(&renamed, &known, "states"));
            };
            let equation =
                self.equation_over((name, entry), &entry.value, &indices, &fields[i].shape)?;
            slots[i] = Some((entry.clone(), equation));
        }
        let mut equations = Vec::new();
        for (slot, field) in slots.into_iter().zip(fields) {
            let missing = || self.missing_equation(&field.name, "dynamics", entries);
            equations.push(slot.ok_or_else(missing)?);
        }
        let time = self.read_integrator(continuous)?;
        let mut angles = vec![None; states.len()];
        if let Some(entries) = self.table("angles")? {
            for entry in entries {
                let places = places(states, &entry.key);
                if places.is_empty() {
                    return Err(self.unknown(entry, states, "states"));
                }
                let turn = self.read_angle(&entry.value)?;
                places.into_iter().for_each(|i| angles[i] = turn);
            }
        }
        Ok((time, equations, angles))
    }

    /// How long a whole turn is, of what may be an angle: true (radians), "degrees", or its length.
    fn read_angle(&self, value: &Value) -> Result<Option<f64>, Diagnostic> {
        match &value.kind {
            Kind::Flag(on) => Ok(on.then_some(std::f64::consts::TAU)),
            Kind::Text(text, _) if text == "radians" => Ok(Some(std::f64::consts::TAU)),
            Kind::Text(text, _) if text == "degrees" => Ok(Some(360.0)),
            Kind::Number(_) => self.positive(value).map(Some),
            _ => {
                let message =
                    "an angle is true (radians), \"degrees\", or the length of a whole turn";
                Err(self.at(&value.at, message))
            }
        }
    }

    pub(super) fn read_integrator(&self, continuous: bool) -> Result<Time, Diagnostic> {
        let (mut method, mut substeps) = (None, 1);
        if let Some(entries) = self.table("integrator")? {
            method = Some(Integrator::Rk4);
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
                    method = Some(match self.text(&entry.value)? {
                        "rk4" => Integrator::Rk4,
                        "euler" => Integrator::Euler,
                        other => {
                            let message = format!("there is no integrator `{other}`");
                            return Err(self.at(&entry.value.at, message).help("rk4 or euler"));
                        }
                    });
                }
            }
        }
        Ok(if continuous { Time::Continuous { method, substeps } } else { Time::Discrete })
    }

    pub(super) fn read_definitions(
        &self,
        states: &[String],
        fields: &[Field],
        inputs: &[String],
    ) -> Result<Vec<(Entry, Equation)>, Diagnostic> {
        let mut done: Vec<(Entry, Equation)> = Vec::new();
        for entry in self.table("definitions")?.unwrap_or_default() {
            let (name, indices) = split_name(&entry.key);
            self.check_name(name, &entry.key_at)?;
            let taken = fields.iter().any(|f| f.name == name)
                || inputs.iter().chain(states).any(|n| n == name)
                || self.parameters.iter().any(|p| p.0 == name);
            if taken {
                return Err(self.at(&entry.key_at, format!("`{name}` names two things")));
            }
            let unknown = vec![0; indices.len().min(2)];
            let equation = self.equation_over((name, entry), &entry.value, &indices, &unknown)?;
            let mut scope =
                Scope::constants(&self.parameters).with_states(states, fields).with_inputs(inputs);
            scope.add_definitions(&done);
            self.check_equation(&scope, &entry.value, &equation)?;
            done.push((Entry { key: name.to_owned(), ..entry.clone() }, equation));
        }
        Ok(done)
    }

    pub(super) fn read_observation<'a>(
        &self,
        entry: &'a Entry,
    ) -> Result<(&'a Value, Option<f64>, LikelihoodKind), Diagnostic> {
        let Kind::Table(entries) = &entry.value.kind else {
            return Ok((&entry.value, None, LikelihoodKind::Gaussian));
        };
        let known = ["equation", "size", "angle", "likelihood", "dof", "delta", "link"];
        self.check_keys(entries, &known, &format!("observation.{}", entry.key))?;
        let find = |key: &str| entries.iter().find(|e| e.key == key);
        let Some(equation) = find("equation") else {
            let message = format!("`{}` has no equation", entry.key);
            return Err(self.at(&entry.key_at, message).help("add equation = \"...\""));
        };
        let angle = find("angle").map_or(Ok(None), |e| self.read_angle(&e.value))?;
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
}
