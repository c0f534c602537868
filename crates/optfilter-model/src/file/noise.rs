//! Noise that is an expression: of inputs, of any column of the table, of the time and the length of a step, and of definitions.
//!
//! What is constant stays a number, and is read with the rest of the file. Each other spread becomes a law of its component, and
//! 1 in the covariance, so that the covariance times the law is what the file says. A name that nothing else has is a column of the
//! table, which is read like an input.

use super::access::Reader;
use super::fields::{places, split_name};
use super::numbers::list;
use super::tree::{Entry, Kind, Value};
use super::{Equation, InputRule, Missing, ModelSpec, NoiseLaw};
use crate::compile::{RESERVED, Scope};
use crate::diagnostic::{Diagnostic, closest};
use crate::expr::Ast;
use std::collections::HashSet;

/// The most parts of an expression of noise with the definitions that it uses.
const MAX_NODES: usize = 32_000;

/// What a value of a noise table says.
enum Spread {
    /// A number, or what is read like one.
    AsWritten,
    /// An expression that definitions make a number.
    Constant(f64),
    Varies(Equation),
}

impl Reader {
    /// Takes the expressions out of `[process_noise]` or `[measurement_noise]`, and adds the columns that they name to the inputs.
    pub(super) fn take_laws(
        &mut self,
        table: &str,
        names: &[String],
        states: &[String],
        inputs: &mut Vec<(String, InputRule)>,
    ) -> Result<Vec<NoiseLaw>, Diagnostic> {
        let Some(at) = self.entries.iter().position(|e| e.key == table) else {
            return Ok(Vec::new());
        };
        let mut entry = self.entries[at].clone();
        let mut laws = Vec::new();
        let Kind::Table(settings) = &mut entry.value.kind else { return Ok(laws) };
        let definitions = self.plain_definitions()?;
        for setting in settings.iter_mut().filter(|e| ["std", "var"].contains(&e.key.as_str())) {
            let squared = setting.key == "var";
            let mut take = |value: &mut Value, places: &[usize]| -> Result<(), Diagnostic> {
                let constant = match self.law(value, states, &definitions, inputs)? {
                    Spread::AsWritten => return Ok(()),
                    Spread::Constant(constant) => constant,
                    Spread::Varies(equation) => {
                        laws.extend(places.iter().map(|&place| NoiseLaw {
                            place,
                            equation: equation.clone(),
                            squared,
                        }));
                        1.0
                    }
                };
                value.kind = Kind::Number(constant);
                Ok(())
            };
            match &mut setting.value.kind {
                Kind::Text(..) => {
                    take(&mut setting.value, &(0..names.len()).collect::<Vec<_>>())?;
                }
                // Lists of lists are matrices, whose entries are numbers.
                Kind::List(items) if items.len() == names.len() => {
                    for (i, item) in items.iter_mut().enumerate() {
                        take(item, &[i])?;
                    }
                }
                Kind::Table(entries) => {
                    for Entry { key, value, .. } in entries.iter_mut() {
                        take(value, &places(names, key))?;
                    }
                }
                _ => {}
            }
        }
        laws.sort_by_key(|law| law.place);
        self.entries[at] = entry;
        Ok(laws)
    }

    /// The definitions without an index, in their order.
    fn plain_definitions(&self) -> Result<Vec<(String, Ast)>, Diagnostic> {
        let entries = self.table("definitions")?.unwrap_or_default();
        let plain = entries.iter().filter(|entry| !entry.key.contains('['));
        plain.map(|e| Ok((e.key.clone(), self.equation(&e.value)?.ast))).collect()
    }

    /// An expression with the definitions that it uses in their places, and in these those before them.
    fn in_place(
        &self,
        equation: &Equation,
        definitions: &[(String, Ast)],
        value: &Value,
    ) -> Result<Ast, Diagnostic> {
        let mut used: HashSet<&str> = equation.ast.names().into_iter().collect();
        for (name, ast) in definitions.iter().rev() {
            if used.contains(name.as_str()) {
                used.extend(ast.names());
            }
        }
        let mut named: Vec<(String, Ast)> = Vec::new();
        let too_many = || {
            let message = "with its definitions this expression has too many parts";
            self.at(&value.at, format!("{message}; {MAX_NODES} are the most"))
        };
        for (name, ast) in definitions.iter().filter(|(name, _)| used.contains(name.as_str())) {
            named.push((name.clone(), ast.with(&named, MAX_NODES).ok_or_else(too_many)?));
        }
        equation.ast.with(&named, MAX_NODES).ok_or_else(too_many)
    }

    /// What a value says that is an expression.
    fn law(
        &self,
        value: &Value,
        states: &[String],
        definitions: &[(String, Ast)],
        inputs: &mut Vec<(String, InputRule)>,
    ) -> Result<Spread, Diagnostic> {
        if !matches!(value.kind, Kind::Text(..)) {
            return Ok(Spread::AsWritten);
        }
        let written = self.equation(value)?;
        let equation =
            Equation { ast: self.in_place(&written, definitions, value)?, ..written.clone() };
        let constant = |name: &str| {
            ["pi", "e", "inf"].contains(&name) || self.parameters.iter().any(|p| p.0 == name)
        };
        let varying: Vec<&str> =
            equation.ast.names().into_iter().filter(|name| !constant(name)).collect();
        if varying.is_empty() {
            let as_written = written.ast == equation.ast;
            return match as_written {
                true => Ok(Spread::AsWritten),
                false => self.value_of(&equation, value).map(Spread::Constant),
            };
        }
        for name in varying {
            let bare = |state: &&String| **state == name || state.starts_with(&format!("{name}["));
            if let Some(state) = states.iter().find(bare) {
                let message = format!("noise cannot depend on a state, and `{state}` is one");
                let help = "it may depend on t, dt, k, inputs, definitions of these and columns of the table";
                return Err(self.at(&value.at, message).help(help));
            }
            if let Some(entry) = self
                .table("definitions")?
                .unwrap_or_default()
                .iter()
                .find(|e| split_name(&e.key).0 == name)
            {
                let message = format!("`{}` has an index, and noise is over none", entry.key);
                return Err(self.at(&value.at, message).help("name a part without an index"));
            }
            if RESERVED.contains(&name) || inputs.iter().any(|(input, _)| input == name) {
                continue;
            }
            let known: Vec<&str> = self.parameters.iter().map(|p| p.0.as_str()).collect();
            let known = known.into_iter().chain(inputs.iter().map(|(name, _)| name.as_str()));
            if let Some(near) = closest(name, known) {
                let message = format!("unknown name `{name}`");
                let error = self.at(&value.at, message);
                return Err(error.help(format!("did you mean `{near}`?")));
            }
            if let Some(near) = closest(name, states.iter().map(String::as_str)) {
                let message = format!(
                    "unknown name `{name}`; it looks like the state `{near}`, which noise cannot depend on"
                );
                let help = "noise may depend on t, dt, k, inputs and columns of the table; a column of such a name stands in [inputs]";
                return Err(self.at(&value.at, message).help(help));
            }
            self.check_name(name, &value.at)?;
            let rule = InputRule { missing: Missing::Hold, default: None };
            inputs.push((name.to_owned(), rule));
        }
        let names: Vec<String> = inputs.iter().map(|(name, _)| name.clone()).collect();
        let scope = Scope::constants(&self.parameters).with_states(&[], &[]).with_inputs(&names);
        self.check_equation(&scope, value, &equation)?;
        Ok(Spread::Varies(equation))
    }

    /// The inputs with what to make of missing ones: a list of names, or a table of names and rules.
    pub(super) fn read_inputs(&self) -> Result<Vec<(String, InputRule)>, Diagnostic> {
        let Some(Entry { value: Value { kind: Kind::Table(entries), .. }, .. }) =
            self.get("inputs")
        else {
            let names = self.names("inputs")?;
            return Ok(names.into_iter().map(|name| (name, InputRule::default())).collect());
        };
        let mut inputs: Vec<(String, InputRule)> = Vec::new();
        for entry in entries {
            self.check_name(&entry.key, &entry.key_at)?;
            let rule = match &entry.value.kind {
                Kind::Table(rules) => {
                    let known = ["hold", "interpolate", "default"];
                    self.check_keys(rules, &known, &format!("inputs.{}", entry.key))?;
                    self.read_rule(rules)?
                }
                _ => {
                    let names: Vec<String> = entries.iter().map(|e| e.key.clone()).collect();
                    let message = format!("[inputs] gives each of {} a table", list(&names));
                    let help = format!("write {} = {{ hold = \"next\" }} or {{}}", entry.key);
                    return Err(self.at(&entry.value.at, message).help(help));
                }
            };
            inputs.push((entry.key.clone(), rule));
        }
        Ok(inputs)
    }

    /// What to make of an input where it is missing.
    fn read_rule(&self, rules: &[Entry]) -> Result<InputRule, Diagnostic> {
        let mut found = InputRule::default();
        for rule in rules {
            let missing = match (rule.key.as_str(), &rule.value.kind) {
                ("default", _) => {
                    found.default = Some(self.finite(&rule.value)?);
                    continue;
                }
                ("hold", Kind::Text(..)) => {
                    let known = ["previous", "next", "mean"];
                    match self.choice(&rule.value, &known, "way to hold an input")?.as_str() {
                        "previous" => Missing::Previous,
                        "next" => Missing::Next,
                        _ => Missing::Mean,
                    }
                }
                _ if !self.flag(&rule.value)? => continue,
                ("hold", _) => Missing::Hold,
                _ => Missing::Interpolate,
            };
            if found.missing != Missing::Refuse {
                let message = "an input is held or interpolated, not both";
                return Err(self.at(&rule.key_at, message));
            }
            found.missing = missing;
        }
        Ok(found)
    }

    /// Refuses a value over a step where a measurement reads the one at its row.
    pub(super) fn check_rules(&self, spec: &ModelSpec) -> Result<(), Diagnostic> {
        let over_step =
            |rule: &InputRule| matches!(rule.missing, Missing::Previous | Missing::Mean);
        let mut named = spec.inputs.iter().zip(&spec.input_rules);
        let wrong = named.find(|(u, r)| over_step(r) && spec.is_read_by_measurements(u));
        let (Some((name, _)), Ok(Some(entries))) = (wrong, self.table("inputs")) else {
            return Ok(());
        };
        let Some(entry) = entries.iter().find(|e| e.key == *name) else { return Ok(()) };
        let message = format!("`{name}` is held over steps, and a measurement reads it at its row");
        let help = format!(
            "give its column a second name for measurements: {name}_now = {{}} under [inputs] and {name}_now = \"{}\" under [columns]",
            spec.column(name)
        );
        Err(self.at(&entry.key_at, message).help(help))
    }
}
