//! `fit --each`: a model for each series, and their estimates as a table.

use super::answer::{as_json, failure};
use super::args::Args;
use super::beside;
use crate::failure::Failure;
use crate::files;
use crate::style;
use crate::whole::{self, Row, Whole};
use optfilter_model::ModelSpec;
use optfilter_model::fit::{Fit, Options, Watch, fit_watched};
use optfilter_model::table::{Format, OutputColumn};
use optfilter_run::FilterSpec;
use rayon::prelude::*;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A series with what was found of it, or why nothing was.
struct Each<'a> {
    name: &'a str,
    rows: usize,
    found: Result<Fit, Failure>,
}

pub(super) fn run(
    args: &Args,
    spec: &ModelSpec,
    filter: &FilterSpec,
    series: &[Whole],
    options: &Options,
) -> Result<(), Failure> {
    let by = series.first().and_then(|series| series.layout.by.clone());
    let by = by.unwrap_or_else(|| "series".into());
    let done = AtomicUsize::new(0);
    let so_far =
        |_: &Watch| format!("{} of {} series fitted", done.load(Ordering::Relaxed), series.len());
    let all: Vec<Each<'_>> = beside::run(so_far, |watch| {
        let each = series.par_iter().map(|series| {
            let here = std::slice::from_ref(series);
            let found =
                fit_watched(watch, spec, filter, std::slice::from_ref(&series.data), options);
            let found = found.map_err(|e| failure(e, here, (spec, filter)));
            done.fetch_add(1, Ordering::Relaxed);
            Each { name: &series.key, rows: series.data.len(), found }
        });
        each.collect()
    })?;
    let Some(names) = all.iter().find_map(|each| each.found.as_ref().ok()).map(names) else {
        // What no series can be fitted with is said once.
        let measured = all.into_iter().zip(series).filter(|(_, series)| series.is_measured());
        let failed = measured.into_iter().find_map(|(each, _)| each.found.err());
        return Err(failed.unwrap_or_else(|| Failure::data("there is no series to fit")));
    };
    if args.json {
        let series: Vec<Value> = all.iter().map(Each::json).collect();
        return files::print(&format!("{}\n", json!({ "by": by, "series": series })));
    }
    if let Some(out) = &args.out {
        let format = files::out_format(out, None, Format::Csv)?;
        let (rows, labels): (Vec<Row>, Vec<String>) = all
            .iter()
            .enumerate()
            .map(|(number, each)| ((each.row(number, names.len()), None), each.name.to_owned()))
            .unzip();
        whole::write_table(out, format, columns(&by, &names), &labels, rows.into_iter())?;
        for each in &all {
            if let Some(remark) = each.remark() {
                files::remark(&format!("note: {remark}"));
            }
        }
        return Ok(());
    }
    files::print(&page(&spec.name, &by, &names, &all))
}

/// The names of the estimates, the same for every series.
fn names(fit: &Fit) -> Vec<String> {
    fit.estimates.iter().map(|estimate| estimate.name.clone()).collect()
}

/// The columns of the table.
fn columns(by: &str, names: &[String]) -> Vec<OutputColumn> {
    let mut columns = vec![OutputColumn::Label(by.to_owned())];
    for name in names {
        columns.push(OutputColumn::Number(name.clone()));
        columns.push(OutputColumn::Number(format!("{name}_std_error")));
    }
    let rest = ["log_likelihood", "aic", "bic", "rows", "measured", "converged"];
    columns.extend(rest.map(|name| OutputColumn::Number(name.into())));
    columns
}

/// The table for people.
fn page(model: &str, by: &str, names: &[String], all: &[Each<'_>]) -> String {
    let mut head = vec![by.to_owned()];
    for name in names {
        head.extend([name.clone(), "std. error".into()]);
    }
    head.push("log-likelihood".into());
    let mut rows = vec![head];
    let mut remarks = String::new();
    for each in all {
        let mut row = vec![each.name.to_owned()];
        if let Ok(fit) = &each.found {
            for estimate in &fit.estimates {
                row.push(style::short(estimate.value));
                row.push(estimate.std_error.map_or_else(|| "-".into(), style::short));
            }
            row.push(style::short(fit.log_likelihood));
        }
        rows.push(row);
        if let Some(remark) = each.remark() {
            remarks.push_str(&format!("{remark}\n"));
        }
    }
    format!("{model}, fitted to each of {} series\n\n{}\n{remarks}", all.len(), style::table(&rows))
}

impl Each<'_> {
    /// Its row of the table; empty cells where nothing was found.
    fn row(&self, number: usize, estimates: usize) -> Vec<f64> {
        let mut row = vec![number as f64];
        match &self.found {
            Ok(fit) => {
                for estimate in &fit.estimates {
                    row.extend([estimate.value, estimate.std_error.unwrap_or(f64::NAN)]);
                }
                row.extend([fit.log_likelihood, fit.aic, fit.bic]);
                row.extend([fit.rows as f64, fit.measured as f64]);
                row.push(f64::from(u8::from(fit.converged)));
            }
            Err(_) => {
                row.extend(vec![f64::NAN; 2 * estimates + 3]);
                row.extend([self.rows as f64, f64::NAN, 0.0]);
            }
        }
        row
    }

    fn json(&self) -> Value {
        let mut value = match &self.found {
            Ok(fit) => as_json(fit),
            Err(failure) => json!({ "error": failure.message, "rows": self.rows }),
        };
        value["name"] = self.name.into();
        value
    }

    /// What to know before relying on it.
    fn remark(&self) -> Option<String> {
        match &self.found {
            Err(failure) => Some(failure.message.clone()),
            Ok(fit) if fit.warnings.is_empty() => None,
            Ok(fit) => Some(format!("series {:?}: {}", self.name, fit.warnings.join("; "))),
        }
    }
}
