//! `optfilter model`: check a model file, start a new one, list the built-in systems.

use crate::failure::Failure;
use crate::settings::warn_of_unmoved;
use crate::{files, style};
use optfilter_model::{ModelSpec, Time};
use optfilter_run::RunModel;
use std::path::PathBuf;

/// Check model files, start new ones, list the built-in systems
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter model new tracker > tracker.toml
  optfilter model new mine --from lorenz63 --out mine.toml
  optfilter model check tracker.toml
  optfilter model list")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check a model file and print it in mathematical notation
    #[command(after_help = "Example: optfilter model check tracker.toml")]
    Check {
        /// Model file (TOML), or the name of a built-in system
        file: PathBuf,
        /// Print dimensions and names as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a commented model file to start from
    #[command(after_help = "Example: optfilter model new tracker > tracker.toml")]
    New {
        /// A name for the model
        name: String,
        /// Start from this built-in system instead of the template
        #[arg(long, value_name = "SYSTEM")]
        from: Option<String>,
        /// Where it goes; `-` is standard output
        #[arg(long, short, value_name = "FILE", default_value = "-")]
        out: PathBuf,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
        /// Print name, file and text as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the built-in systems
    #[command(after_help = "Example: optfilter model list --json")]
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

const TEMPLATE: &str = include_str!("template.toml");

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Check { file, json } => check(&file, json),
        Command::New { name, from, out, force, json } => {
            new(&name, from.as_deref(), &out, force, json)
        }
        Command::List { json } => list(json),
    }
}

fn check(path: &std::path::Path, json: bool) -> Result<(), Failure> {
    let (_, spec) = files::model(path)?;
    let filter = spec.fitted(&spec.filter)?;
    let unmoved = spec.unmoved(&filter);
    if !json {
        warn_of_unmoved(&unmoved, &filter);
        return files::print(&format!("{}\nFilter\n  {}\n", spec.describe(), filter.flags()));
    }
    let value = serde_json::json!({
        "name": spec.name,
        "states": spec.states,
        "inputs": spec.inputs,
        "observations": spec.observations,
        "parameters": spec.parameters.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "continuous": spec.time != Time::Discrete,
        "linear": spec.compile().is_linear(),
        "settings": filter,
        "unmoved": unmoved,
    });
    files::print(&format!("{value}\n"))
}

fn new(
    name: &str,
    from: Option<&str>,
    out: &std::path::Path,
    force: bool,
    json: bool,
) -> Result<(), Failure> {
    let title = format!("{name:?}");
    let text = match from {
        None => TEMPLATE.replacen("\"A new model\"", &title, 1),
        Some(system) => {
            let Some((_, text)) = ModelSpec::built_ins().find(|(known, _)| *known == system) else {
                let known: Vec<&str> = ModelSpec::built_ins().map(|s| s.0).collect();
                return Err(Failure::usage(format!(
                    "there is no built-in system `{system}`; there are {}",
                    known.join(", ")
                )));
            };
            let rest = text.split_once('\n').map_or(text, |(_, rest)| rest);
            format!("name = {title}\n{rest}")
        }
    };
    if !force && !files::is_standard(out) && out.exists() {
        return Err(Failure::usage(format!("{} exists; use --force to replace it", out.display())));
    }
    let file = (!files::is_standard(out)).then_some(out);
    if file.is_some() || !json {
        files::write(out, &text)?;
    }
    if json {
        let about = serde_json::json!({ "name": name, "file": file, "text": text });
        files::print(&format!("{about}\n"))?;
    }
    Ok(())
}

fn list(json: bool) -> Result<(), Failure> {
    let mut rows = vec![vec!["name".into(), "states".into(), "observations".into(), "what".into()]];
    let mut values = Vec::new();
    for (name, _) in ModelSpec::built_ins() {
        let spec = ModelSpec::parse(name, &format!("system = {name:?}")).map_err(Failure::other)?;
        values.push(serde_json::json!({
            "name": name, "title": spec.name, "states": spec.states, "observations": spec.observations,
            "inputs": spec.inputs,
        }));
        rows.push(vec![
            name.to_owned(),
            spec.states.len().to_string(),
            spec.observations.len().to_string(),
            spec.name,
        ]);
    }
    if json {
        return files::print(&format!("{}\n", serde_json::Value::from(values)));
    }
    files::print(&style::table(&rows))
}
