//! What a model file says about estimating it: the `[fit]` table, and states that start wholly unknown.

use super::access::Reader;
use super::fields::places;
use super::spec::{FitTable, ModelSpec};
use super::tree::{Entry, Kind, Value};
use crate::diagnostic::Diagnostic;
use crate::fit::{FreeError, quantities};

impl Reader {
    /// The names in a text or a list of texts.
    fn words<'a>(&self, value: &'a Value) -> Result<Vec<&'a str>, Diagnostic> {
        match &value.kind {
            Kind::List(items) => items.iter().map(|item| self.text(item)).collect(),
            _ => Ok(vec![self.text(value)?]),
        }
    }

    pub(super) fn read_diffuse(&self, states: &[String]) -> Result<Vec<bool>, Diagnostic> {
        let mut diffuse = vec![false; states.len()];
        let entries = self.table("initial")?.unwrap_or_default();
        let Some(entry) = entries.iter().find(|e| e.key == "diffuse") else { return Ok(diffuse) };
        if let Kind::Flag(all) = entry.value.kind {
            diffuse.fill(all);
            return Ok(diffuse);
        }
        if !matches!(entry.value.kind, Kind::Text(..) | Kind::List(_)) {
            let message = "diffuse is true, false or a list of states";
            return Err(self.at(&entry.value.at, message));
        }
        for name in self.words(&entry.value)? {
            let places = places(states, name);
            if places.is_empty() {
                let message = format!("`{name}` is not among the states");
                let error = self.at(&entry.value.at, message);
                return Err(error.suggest(name, states.iter().map(String::as_str)));
            }
            places.into_iter().for_each(|i| diffuse[i] = true);
        }
        Ok(diffuse)
    }

    pub(super) fn read_fit(&self) -> Result<FitTable, Diagnostic> {
        let entries = self.table("fit")?.unwrap_or_default();
        self.check_keys(entries, &["free", "bounds"], "fit")?;
        let mut out = FitTable::default();
        for entry in entries {
            match &entry.value.kind {
                Kind::Table(inner) if entry.key == "bounds" => {
                    self.read_fit_bounds("", inner, &mut out.bounds)?;
                }
                _ if entry.key == "bounds" => {
                    let message = "bounds are a table of pairs, as in g = [0, inf]";
                    return Err(self.at(&entry.value.at, message));
                }
                _ => out.free = self.words(&entry.value)?.into_iter().map(Into::into).collect(),
            }
        }
        Ok(out)
    }

    /// Pairs by name; a dot in a name may be written with or without quotes.
    fn read_fit_bounds(
        &self,
        prefix: &str,
        entries: &[Entry],
        out: &mut Vec<(String, (f64, f64))>,
    ) -> Result<(), Diagnostic> {
        for entry in entries {
            let name = format!("{prefix}{}", entry.key);
            match &entry.value.kind {
                Kind::Table(inner) => self.read_fit_bounds(&format!("{name}."), inner, out)?,
                Kind::List(items) if items.len() == 2 => {
                    let pair = (self.number(&items[0])?, self.number(&items[1])?);
                    if pair.0 >= pair.1 {
                        let message = "the lower bound is not below the upper one";
                        return Err(self.at(&entry.value.at, message));
                    }
                    out.push((name, pair));
                }
                _ => {
                    let message = "bounds are a pair, as in [0, inf]";
                    return Err(self.at(&entry.value.at, message));
                }
            }
        }
        Ok(())
    }

    /// Names of the `[fit]` table that mean nothing in the model are found when it is read.
    pub(super) fn check_fit(&self, spec: &ModelSpec) -> Result<(), Diagnostic> {
        let entries = self.table("fit")?.unwrap_or_default();
        let Some(entry) = entries.iter().find(|e| e.key == "free") else { return Ok(()) };
        let Err(FreeError { name, message, help }) = quantities(spec, &spec.fit.free) else {
            return Ok(());
        };
        let places: Vec<&Value> = match &entry.value.kind {
            Kind::List(items) => items.iter().collect(),
            _ => vec![&entry.value],
        };
        let is_it = |v: &&&Value| matches!(&v.kind, Kind::Text(text, _) if *text == name);
        let place = places.iter().find(is_it).map_or(&entry.value.at, |v| &v.at);
        let error = self.at(place, message);
        Err(match help {
            Some(help) => error.help(help),
            None => error,
        })
    }
}
