//! `optfilter fit`: the parameters, noise and start under which a series is most likely.

mod beside;
mod each;

use crate::failure::{Failure, INTERRUPTED};
use crate::feed;
use crate::files;
use crate::reading::SeriesFlags;
use crate::whole::Whole;
use optfilter_model::ModelSpec;
use optfilter_model::fit::{
    Criterion, Fit, FitError, Options, check_independent, fit_watched, plan, with_estimates,
};
use optfilter_model::run::Dataset;
use optfilter_run::FilterSpec;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Estimate parameters, noise and start by maximum likelihood, along windows, or by predictions
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter fit nile.toml nile.csv
  optfilter fit pendulum.toml swing.csv --free g,measurement_noise --save fitted.toml
  optfilter fit model.toml monday.csv tuesday.csv --free process_noise --json
  optfilter fit counts.toml counts.csv --criterion window
  optfilter fit model.toml data.csv --method imap --criterion prediction --free g
  optfilter fit model.toml sensors.csv --by sensor                          (one model for all)
  optfilter fit model.toml sensors.csv --by sensor --each --out fits.csv    (one for each)

What is free: parameters by their names, process_noise.STATE and measurement_noise.OUTPUT as variances, \
initial.mean.STATE; a group's name (parameters, process_noise, measurement_noise, initial.mean) frees all of it. \
Without --free it is what [fit] of the model file says, else all noise (all parameters for imap and vkf).

By what (--criterion): likelihood, that of kf, ekf, iekf or ukf; window, that of paths which follow from the first state of each \
window, found with the rest, for measurements of any kind (counts, say); prediction, how well imap or vkf as it is predicts the \
next row. Neither window nor prediction says what process noise is. Without --criterion it is the likelihood of a Gaussian filter; \
imap is fitted by its window where it has one, or where no filter is named and measurements are not Gaussian, else by prediction.

Several tables, a folder of them, or the names in a column (--by) are several series: of one model, or with --each of one \
model for each, whose estimates are a table: NAME and NAME_std_error, log_likelihood, aic, bic, rows, measured and \
converged (1 or 0). [initial] diffuse = true takes the start as unknown, exactly, in linear models.")]
pub struct Args {
    #[command(flatten)]
    series: SeriesFlags,
    /// Fit each series by itself
    #[arg(long, conflicts_with = "save")]
    each: bool,
    /// Where the table of --each goes [default: a table to read on standard output]
    #[arg(long, short, value_name = "FILE", requires = "each", conflicts_with = "json")]
    out: Option<PathBuf>,
    /// What to estimate, separated by commas; may be repeated [default: the model file's, else all noise, or
    /// all parameters for imap and vkf]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    free: Vec<String>,
    /// kf, ekf, iekf and ukf by their likelihood; imap by windows or predictions, vkf by predictions [default: the model
    /// file's, else kf or ekf, or imap where measurements are not Gaussian]
    #[arg(long, value_name = "NAME", value_parser = ["kf", "ekf", "iekf", "ukf", "imap", "vkf"])]
    method: Option<String>,
    /// What is maximised [default: what suits the filter, see below]
    #[arg(long, value_name = "NAME", value_parser = Criterion::NAMES)]
    criterion: Option<String>,
    /// Past rows of a window besides its newest [default: the model file's, else a series is one window]
    #[arg(long, value_name = "L")]
    window: Option<u32>,
    /// Climbs: from the model's values in the units of the rows, from what the rows say, and from around both
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    starts: u16,
    /// Seed of the other starts
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Fit the first N rows of each series
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_rows: Option<u64>,
    /// Write the estimates into the model file, or the model with them into a new file
    #[arg(long, value_name = "MODEL")]
    save: Option<Option<PathBuf>>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let (text, spec) = args.series.model()?;
    let model = &args.series.model;
    let save = args.save.as_ref().map(|path| path.as_ref().unwrap_or(model));
    if let Some(path) = save {
        files::check_save(path, model, "--json prints the estimates")?;
    }
    let flags = match &args.method {
        Some(name) => FilterSpec::of(name)?,
        None => FilterSpec::default(),
    };
    let filter = flags.over(&spec.filter);
    let criterion = args.criterion.as_deref().map(Criterion::from_name).transpose()?;
    let options = Options {
        free: args.free.clone(),
        starts: args.starts.into(),
        seed: args.seed,
        criterion,
        window: args.window,
        max_rows: args.max_rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)),
    };
    let planned = plan(&spec, &filter, &options).map_err(|e| match e {
        FitError::Free(e) => Failure::usage(format!("--free: {e}")),
        other => failure(other, &[], (&spec, &filter)),
    })?;
    check_independent(&text, &spec, &planned.free).map_err(Failure::usage)?;
    let tables = feed::expand(&args.series.data)?;
    if let Some(out) = &args.out {
        let inputs: Vec<&Path> =
            std::iter::once(model).chain(&tables).map(PathBuf::as_path).collect();
        files::check_outputs(&inputs, &[("--out", out)])?;
    }
    let source = args.series.source(&tables, filter.predict_first());
    let series = source.read(&spec)?;
    if args.each {
        return each::run(&args, &spec, &filter, &series, &options);
    }
    let (series, silent): (Vec<Whole>, Vec<Whole>) =
        series.into_iter().partition(Whole::is_measured);
    for Whole { key, .. } in &silent {
        files::remark(&format!("note: series {key:?} has no measurement and is left out"));
    }
    let data: Vec<Dataset> = series.iter().map(|series| series.data.clone()).collect();
    let rows = data.iter().map(|data| data.len().min(options.max_rows.unwrap_or(usize::MAX))).sum();
    let found = beside::run(
        |watch| beside::of_rows(watch, rows),
        |watch| fit_watched(watch, &spec, &filter, &data, &options),
    )?
    .map_err(|e| failure(e, &series, (&spec, &filter)))?;
    let saved = save.map_or(Ok(()), |path| {
        let after = with_estimates(&text, &spec, &found).map_err(Failure::usage)?;
        files::save(path, &after)
    });
    // What was found is shown even if it could not be saved.
    let out = match (args.json, save) {
        (true, _) => format!("{}\n", as_json(&found)),
        (false, Some(path)) if saved.is_ok() => {
            format!("{}\nSaved to {}.\n", found.summary(&spec.name), path.display())
        }
        (false, _) => found.summary(&spec.name),
    };
    files::print(&out).and(saved)
}

/// In the words of the command line.
fn failure(
    error: FitError,
    series: &[Whole],
    (spec, filter): (&ModelSpec, &FilterSpec),
) -> Failure {
    match error {
        FitError::Spec(error) => error.into(),
        FitError::Free(error) => Failure::usage(error),
        FitError::Filter { series: at, error } => match series.get(at) {
            None => Failure { code: 4, message: error.to_string() },
            Some(series) => {
                let Failure { code, message } = series.failure(spec, filter, error.into());
                let help = if code == 4 { ", or start the model from other values" } else { "" };
                Failure { code, message: format!("{message}{help}") }
            }
        },
        stopped @ FitError::Stopped => Failure { code: INTERRUPTED, message: stopped.to_string() },
        FitError::Empty { series: at } => {
            let key = series.get(at).map_or("", |series| series.key.as_str());
            Failure::data("there is no measurement").of_series(key)
        }
        other => Failure::data(other),
    }
}

fn as_json(found: &Fit) -> Value {
    let parameters: Map<String, Value> = found
        .estimates
        .iter()
        .map(|e| {
            let value = json!({
                "estimate": e.value,
                "std_error": e.std_error,
                "start": e.start,
                "at_bound": e.at_bound,
            });
            (e.name.clone(), value)
        })
        .collect();
    json!({
        "method": found.method.name(),
        "criterion": found.criterion.name(),
        "log_likelihood": found.log_likelihood,
        "aic": found.aic,
        "bic": found.bic,
        "parameters": parameters,
        "correlations": found.correlations,
        "series": found.series,
        "rows": found.rows,
        "measured": found.measured,
        "diffuse": found.diffuse,
        "windows": found.windows.map(|(count, _)| count),
        "first_states": found.first_states,
        "climbs": found.climbs,
        "converged": found.converged,
        "warnings": found.warnings,
    })
}
