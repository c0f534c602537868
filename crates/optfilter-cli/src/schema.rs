//! `optfilter schema`: what a model file may say, as a JSON Schema, so that editors complete and check it.

use crate::failure::Failure;
use optfilter_run::{Kind, SETTINGS, Setting};
use serde_json::{Value, json};

/// Print a JSON Schema of model files, for editors
#[derive(clap::Args)]
#[command(
    after_help = "Example: optfilter schema > optfilter.schema.json, and as the first line of a model file \
    `#:schema ./optfilter.schema.json`"
)]
pub struct Args {
    /// Print JSON, which it is in any case
    #[arg(long)]
    json: bool,
}

/// Prints the schema.
pub fn run(Args { json: _ }: &Args) -> Result<(), Failure> {
    let schema = schema().map_err(|e| Failure::usage(format!("the schema: {e}")))?;
    crate::files::print(&format!("{schema:#}\n"))
}

/// The schema: its tables as they stand beside this file, and the filter's settings from theirs.
fn schema() -> Result<Value, serde_json::Error> {
    let mut schema: Value = serde_json::from_str(include_str!("schema.json"))?;
    for setting in SETTINGS {
        schema["properties"]["filter"]["properties"][setting.name] = property(setting);
    }
    Ok(schema)
}

fn property(setting: &Setting) -> Value {
    // Numbers may be constant expressions.
    let or_text = |number: Value| json!({"anyOf": [number, {"type": "string"}]});
    let numbers = json!({"type": "array", "items": or_text(json!({"type": "number"}))});
    let mut number =
        json!({"type": if setting.kind == Kind::Whole { "integer" } else { "number" }});
    let ends = [
        (setting.range.low, "minimum", "exclusiveMinimum"),
        (setting.range.high, "maximum", "exclusiveMaximum"),
    ];
    for ((end, belongs), with, without) in ends {
        if end.is_finite() {
            number[if belongs { with } else { without }] = json!(end);
        }
    }
    let mut out = match setting.kind {
        Kind::Number | Kind::Whole => or_text(number),
        Kind::Switch => json!({"type": "boolean"}),
        Kind::Choice(names) => json!({"enum": names}),
        Kind::List => numbers,
        Kind::Table => json!({"type": "array", "items": numbers}),
    };
    let readers = setting.readers();
    out["description"] = json!(match setting.default {
        "" => format!("{} ({readers})", setting.help),
        default => format!("{} ({readers}; {default} unless given)", setting.help),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a value keeps to the parts of a schema that this one is made of.
    fn fits(value: &toml::Value, schema: &Value, root: &Value) -> bool {
        if let Some(path) = schema["$ref"].as_str() {
            return fits(value, root.pointer(path.trim_start_matches('#')).unwrap(), root);
        }
        let has = |one: &Value| {
            let mut keys = one["required"].as_array().into_iter().flatten();
            keys.all(|key| value.get(key.as_str().unwrap()).is_some())
        };
        let any = schema["anyOf"].as_array();
        if !has(schema) || schema["type"] == "object" && any.is_some_and(|any| !any.iter().any(has))
        {
            return false;
        }
        if let (Some(any), false) = (any, schema["type"] == "object") {
            return any.iter().any(|one| fits(value, one, root));
        }
        if let Some(known) = schema["enum"].as_array() {
            return known.iter().any(|one| *one == serde_json::to_value(value).unwrap());
        }
        let end = |key: &str| schema[key].as_f64();
        let lies = |v: f64| {
            end("minimum").is_none_or(|low| v >= low)
                && end("exclusiveMinimum").is_none_or(|low| v > low)
                && end("maximum").is_none_or(|high| v <= high)
                && end("exclusiveMaximum").is_none_or(|high| v < high)
        };
        let named = |kind: &str| schema["type"] == kind;
        match value {
            toml::Value::Table(entries) => {
                let one = |(key, value): (&String, &toml::Value)| match &schema["properties"][key] {
                    Value::Null => match &schema["additionalProperties"] {
                        Value::Null => true,
                        Value::Bool(any) => *any,
                        other => fits(value, other, root),
                    },
                    known => fits(value, known, root),
                };
                named("object") && entries.iter().all(one)
            }
            toml::Value::Array(items) => {
                let each = &schema["items"];
                named("array") && (each.is_null() || items.iter().all(|v| fits(v, each, root)))
            }
            toml::Value::String(_) => named("string"),
            toml::Value::Boolean(_) => named("boolean"),
            toml::Value::Integer(v) => (named("number") || named("integer")) && lies(*v as f64),
            toml::Value::Float(v) => named("number") && lies(*v),
            toml::Value::Datetime(_) => false,
        }
    }

    #[test]
    fn models_keep_to_the_schema_and_mistakes_do_not() {
        let schema = schema().unwrap();
        let keeps =
            |text: &str| fits(&text.parse::<toml::Table>().unwrap().into(), &schema, &schema);
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut folders = vec![root.join("crates/optfilter-model/systems"), root.join("examples")];
        let mut found = 0;
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "toml") {
                    assert!(keeps(&std::fs::read_to_string(&path).unwrap()), "{}", path.display());
                    found += 1;
                }
            }
        }
        assert!(found > 15, "{found}");
        for wrong in [
            "state = [\"x\"]",
            "[filter]\nlearning_rate = 1",
            "[filter]\nmethod = \"kalman\"",
            "[time]\nunit = \"s\"",
            "[time]\nepoch = \"day\"",
            "[filter]\nlr = -1",
            "angles = [\"x\"]",
            "[initial]\nmean = 1",
            "[measurement_noise]\nvar = 1\nper = \"time\"",
        ] {
            assert!(!keeps(wrong), "{wrong}");
        }
    }

    #[test]
    fn every_key_of_the_reader_is_in_the_schema() {
        let schema = schema().unwrap();
        let refused =
            optfilter_model::ModelSpec::parse("m", "nothing = 1").unwrap_err().to_string();
        let known = refused.split("there are ").nth(1).unwrap().lines().next().unwrap();
        let known: Vec<&str> = known.split(", ").map(str::trim).collect();
        let ours: Vec<&str> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known.len(), ours.len());
        assert!(known.iter().all(|key| ours.contains(key)), "{known:?} {ours:?}");
    }
}
