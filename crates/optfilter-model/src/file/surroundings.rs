//! What a model file says around its equations: noise, start, bounds, time, columns, settings of the filter.

use super::LikelihoodKind;
use super::access::Reader;
use super::fields::places;
use super::tree::{Kind, Value};
use crate::diagnostic::Diagnostic;
use optfilter_run::{Covariance, FilterSpec, ProcessNoise, Setting};
use optfilter_table::TimeStyle;

impl Reader {
    pub(super) fn read_process_noise(
        &self,
        states: &[String],
    ) -> Result<Option<ProcessNoise>, Diagnostic> {
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

    pub(super) fn read_measurement_noise(
        &self,
        observations: &[String],
        likelihoods: &[LikelihoodKind],
    ) -> Result<Option<Covariance>, Diagnostic> {
        let Some(entry) = self.get("measurement_noise") else { return Ok(None) };
        if let Some(entries) = self.table("measurement_noise").ok().flatten() {
            self.check_keys(entries, &["std", "var"], "measurement_noise")?;
        }
        let any_free = likelihoods.iter().any(|l| !l.needs_noise());
        let cov = self.covariance(entry, observations, any_free.then_some(0.0))?;
        let all_free = likelihoods.iter().all(|l| !l.needs_noise());
        for (i, likelihood) in likelihoods.iter().enumerate() {
            // A Gaussian measurement may be exact; heavy tails need a size, and beside counts a zero is one left out.
            let exact = *likelihood == LikelihoodKind::Gaussian && !any_free;
            if (likelihood.needs_noise() || all_free) && !exact && cov.variance(i) <= 0.0 {
                let message =
                    format!("the measurement noise of `{}` must be positive", observations[i]);
                return Err(self.at(&entry.value.at, message));
            }
        }
        Ok(Some(cov))
    }

    pub(super) fn read_initial(
        &self,
        states: &[String],
    ) -> Result<(Vec<f64>, Covariance), Diagnostic> {
        let Some(entry) = self.get("initial") else {
            let help = "add [initial] with mean = ... and std = ...";
            return Err(self.missing("the table [initial] is missing").help(help));
        };
        let entries = self.table("initial")?.unwrap_or_default();
        self.check_keys(entries, &["mean", "std", "var", "diffuse"], "initial")?;
        let Some(mean) = entries.iter().find(|e| e.key == "mean") else {
            let message = "[initial] has no `mean`";
            return Err(self.at(&entry.key_at, message).help("add mean = ..."));
        };
        let mean = self.vector(&mean.value, states, None, "entries")?;
        Ok((mean, self.covariance(entry, states, None)?))
    }

    pub(super) fn read_bounds(
        &self,
        states: &[String],
    ) -> Result<Option<Vec<(f64, f64)>>, Diagnostic> {
        let Some(entries) = self.table("bounds")? else { return Ok(None) };
        let mut bounds = vec![(f64::NEG_INFINITY, f64::INFINITY); states.len()];
        for entry in entries {
            let places = places(states, &entry.key);
            if places.is_empty() {
                return Err(self.unknown(entry, states, "states"));
            }
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
            places.into_iter().for_each(|i| bounds[i] = pair);
        }
        Ok(Some(bounds))
    }

    #[allow(clippy::type_complexity)] // four things of one table
    pub(super) fn read_time(&self) -> Result<(f64, Option<String>, f64, TimeStyle), Diagnostic> {
        let (mut dt, mut column, mut unit) = (1.0, None, 1.0);
        let mut style = TimeStyle::default();
        let entries = self.table("time")?.unwrap_or_default();
        self.check_keys(entries, &["dt", "column", "unit", "format", "epoch"], "time")?;
        for entry in entries {
            match entry.key.as_str() {
                "dt" => dt = self.positive(&entry.value)?,
                "column" => column = Some(self.text(&entry.value)?.to_owned()),
                "format" => {
                    let pattern = self.text(&entry.value)?;
                    TimeStyle::check_pattern(pattern).map_err(|why| {
                        let message = format!("times cannot be read by this format: {why}");
                        self.at(&entry.value.at, message).help("as in \"%d.%m.%Y %H:%M\"")
                    })?;
                    style.pattern = Some(pattern.to_owned());
                }
                "epoch" => {
                    let names = TimeStyle::EPOCHS.map(|(name, _)| name);
                    let name = self.choice(&entry.value, &names, "epoch")?;
                    style.epoch =
                        TimeStyle::EPOCHS.iter().find(|(n, _)| *n == name).map(|(_, unit)| *unit);
                }
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
        Ok((dt, column, unit, style))
    }

    pub(super) fn read_columns(
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

    pub(super) fn read_filter(&self) -> Result<FilterSpec, Diagnostic> {
        let entries = self.table("filter")?.unwrap_or_default();
        self.check_keys(entries, FilterSpec::KEYS, "filter")?;
        let mut spec = FilterSpec::default();
        for entry in entries {
            let value = &entry.value;
            // One setting at a time, so that an error stands where it was made.
            let Some(setting) = Setting::of(&entry.key) else { continue };
            let plain = match (&value.kind, setting.kind) {
                (_, optfilter_run::Kind::Choice(known)) => {
                    toml::Value::String(self.choice(value, known, &entry.key)?)
                }
                (Kind::Flag(on), _) => toml::Value::Boolean(*on),
                _ => self.numbers_of(value)?,
            };
            if let toml::Value::Integer(_) | toml::Value::Float(_) = plain {
                let v = self.finite(value)?;
                if !setting.range.holds(v) {
                    let message = format!(
                        "{}: {v} is not allowed; {}",
                        entry.key,
                        setting.range.complaint(v)
                    );
                    return Err(self.at(&value.at, message));
                }
            }
            let wrong = |message: String| {
                let first = message.lines().next().unwrap_or_default();
                self.at(&value.at, format!("{}: {first}", entry.key))
            };
            let one = toml::Table::from_iter([(entry.key.clone(), plain)]);
            let one: FilterSpec =
                one.try_into().map_err(|e: toml::de::Error| wrong(e.message().into()))?;
            spec = one.over(&spec);
        }
        // Of all together, since some need others; the message stands at the one to change.
        spec.validate().map_err(|e| {
            let entry = entries.iter().find(|entry| entry.key == e.key);
            match entry.or_else(|| self.get("filter")) {
                Some(entry) => self.at(&entry.value.at, e.to_string()),
                None => self.missing(e.to_string()),
            }
        })?;
        Ok(spec)
    }
    /// A finite number, or lists of such.
    fn numbers_of(&self, value: &Value) -> Result<toml::Value, Diagnostic> {
        if let Kind::List(items) = &value.kind {
            return items
                .iter()
                .map(|item| self.numbers_of(item))
                .collect::<Result<_, _>>()
                .map(toml::Value::Array);
        }
        let v = self.finite(value)?;
        let whole = v.fract() == 0.0 && v.abs() < 9e15;
        Ok(if whole { toml::Value::Integer(v as i64) } else { toml::Value::Float(v) })
    }
}
