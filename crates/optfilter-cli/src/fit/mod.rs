//! `optfilter fit`: the parameters, noise and start under which a series is most likely.

mod answer;
mod args;
mod beside;
mod each;

pub use args::Args;

use crate::failure::Failure;
use crate::feed;
use crate::files;
use crate::whole::Whole;
use answer::{as_json, failure};
use optfilter_model::fit::{
    Criterion, FitError, Options, check_independent, fit_watched, plan, with_estimates,
};
use optfilter_model::run::Dataset;
use optfilter_run::FilterSpec;
use std::path::{Path, PathBuf};

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
