//! `optfilter forecast`: what comes after the last measurement, with intervals.

mod ahead;
mod args;
mod figure;

pub use args::Args;

use crate::failure::Failure;
use crate::files;
use crate::style;
use crate::tables::Asked;
use crate::whole::{self, Row, Whole};
use ahead::Ahead;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Prepared, forecast_names};
use optfilter_model::table::OutputColumn;
use optfilter_run::forecast::{LEVEL_NAMES, LEVELS};
use optfilter_run::{DynFilter, FilterSpec, Forecast, ForecastSummary, forecast, walk};
use rayon::prelude::*;
use serde_json::{Map, Value, json};
use std::io::Write;

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    args.tables.each()?.into_iter().try_for_each(|tables| one(&Args { tables, ..args.clone() }))
}

/// One table of results.
fn one(args: &Args) -> Result<(), Failure> {
    let tables = &args.tables;
    let asked = tables.check(&[])?;
    let Prepared { spec, filter, runner, .. } = &asked.prepared;
    tables.filter.check_discount(filter)?;
    let series = tables.source(&asked).read(spec)?;
    let look = |series: &Whole| -> Result<Done, Failure> {
        Done::new(args, &asked.prepared, series).map_err(|failure| failure.of_series(&series.key))
    };
    let done: Vec<Done> = series.par_iter().map(look).collect::<Result<_, _>>()?;
    let names = forecast_names(spec);
    if !(args.json && files::is_standard(&tables.out)) {
        write(args, &asked, &series, &done, &names)?;
    }
    let text = describe(spec, filter, &**runner, &done, &names);
    if let ([series], [only]) = (&series[..], &done[..]) {
        let Done { ahead, past, found } = only;
        tables.plot.write(&text, || figure::figure(spec, series, ahead, past, found))?;
    }
    if args.json {
        let mut json = json!({
            "model": spec.name,
            "settings": filter.filled(),
            "levels": LEVELS,
        });
        match (asked.many, &done[..]) {
            (false, [only]) => {
                json["rows"] = only.ahead.first.into();
                json["forecast"] = only.json(spec).into();
            }
            _ => {
                let one = |(series, done): (&Whole, &Done)| json!({ "name": series.key, "rows": done.ahead.first, "forecast": done.json(spec) });
                json["series"] = series.iter().zip(&done).map(one).collect();
            }
        }
        return files::print(&format!("{json}\n"));
    }
    if !args.quiet {
        let _ = std::io::stderr().write_all(tables.titled(text).as_bytes());
    }
    Ok(())
}

/// The forecast of a series.
struct Done {
    ahead: Ahead,
    /// The estimates of the rows before it, for a picture; else empty.
    past: Vec<f64>,
    found: Forecast,
}

impl Done {
    fn new(args: &Args, prepared: &Prepared, series: &Whole) -> Result<Self, Failure> {
        let Prepared { spec, filter, runner, .. } = prepared;
        let data = &series.data;
        let ahead = Ahead::new(args, spec, series)?;
        let failed = |error| series.failure(spec, filter, error);
        let mut live = runner.start(runner.default_start()).map_err(|e| failed(e.into()))?;
        let mut past = Vec::new();
        let drawn = args.tables.plot.path.is_some();
        let done = walk(&mut *live, &data.rows(0..ahead.first, filter), |row, _, estimate| {
            if drawn {
                past.extend_from_slice(&estimate.mean);
            }
            Ok(whole::WHEN_ASKED.check(row)?)
        });
        done.map_err(failed)?;
        let inputs = &data.inputs[ahead.first * spec.inputs.len()..];
        let found = forecast(&**runner, &mut *live, &ahead.steps, inputs).map_err(failed)?;
        Ok(Self { ahead, past, found })
    }

    /// A row of the results.
    fn row(&self, row: usize, series: Option<usize>) -> Row {
        let mut values = vec![self.ahead.times[row]];
        values.extend(series.map(|number| number as f64));
        for spread in both(&self.found, row) {
            values.extend([spread.mean, spread.std]);
            values.extend(spread.intervals.iter().rev().map(|i| i.0));
            values.extend(spread.intervals.iter().map(|i| i.1));
        }
        (values, self.ahead.texts[row].clone())
    }

    fn json(&self, spec: &ModelSpec) -> Vec<Value> {
        let one = |spread: &ForecastSummary| {
            let intervals: Map<String, Value> = LEVEL_NAMES
                .iter()
                .zip(&spread.intervals)
                .map(|(level, (low, high))| ((*level).to_owned(), json!([low, high])))
                .collect();
            json!({ "mean": spread.mean, "std": spread.std, "intervals": intervals })
        };
        let named = |names: &[String], spreads: &[ForecastSummary]| -> Map<String, Value> {
            names.iter().zip(spreads).map(|(name, spread)| (name.clone(), one(spread))).collect()
        };
        let Self { ahead, found, .. } = self;
        (0..found.steps.len())
            .map(|row| {
                let text = ahead.texts[row].as_ref().and_then(|t| std::str::from_utf8(t).ok());
                let time = match text.filter(|text| text.parse::<f64>().is_err()) {
                    Some(text) => json!(text),
                    None => json!(ahead.times[row]),
                };
                json!({
                    "time": time,
                    "states": named(&spec.states, &found.states[row]),
                    "measurements": named(&spec.observations, &found.measurements[row]),
                })
            })
            .collect()
    }
}

/// States and measurements of a row, in the order of [`forecast_names`].
fn both(found: &Forecast, row: usize) -> impl Iterator<Item = &ForecastSummary> {
    found.states[row].iter().chain(&found.measurements[row])
}

/// Writes all series, one after the other.
fn write(
    args: &Args,
    asked: &Asked,
    series: &[Whole],
    done: &[Done],
    names: &[String],
) -> Result<(), Failure> {
    let layout = &series[0].layout;
    let mut columns = vec![OutputColumn::Time(layout.time.clone().unwrap_or_else(|| "t".into()))];
    columns.extend(layout.by.clone().map(OutputColumn::Label));
    for name in names {
        let low = LEVEL_NAMES.iter().rev().map(|level| format!("{name}_lo{level}"));
        let high = LEVEL_NAMES.iter().map(|level| format!("{name}_hi{level}"));
        let all = [name.clone(), format!("{name}_std")].into_iter().chain(low).chain(high);
        columns.extend(all.map(OutputColumn::Number));
    }
    let rows = done.iter().enumerate().flat_map(|(number, done)| {
        let number = layout.by.as_ref().map(|_| number);
        (0..done.found.steps.len()).map(move |row| done.row(row, number))
    });
    let labels: Vec<String> = series.iter().map(|series| series.key.clone()).collect();
    whole::write_table(&args.tables.out, asked.out_format, columns, &labels, rows)
}

fn describe(
    spec: &ModelSpec,
    filter: &FilterSpec,
    runner: &dyn DynFilter,
    done: &[Done],
    names: &[String],
) -> String {
    // --steps are rows here.
    let flags = filter.flags().replace("--steps", "--optimizer-steps");
    let rows: usize = done.iter().map(|done| done.found.steps.len()).sum();
    let several = if done.len() > 1 { format!("{} series, ", done.len()) } else { String::new() };
    let mut out = format!("{flags}\n{several}{rows} rows ahead\n");
    let lasts = || done.iter().map(|done| (&done.found, done.found.steps.len() - 1));
    // Of one series; the last rows of many are no summary.
    let only = lasts().filter(|_| done.len() == 1).flat_map(|(found, last)| both(found, last));
    for (name, spread) in names.iter().zip(only) {
        out.push_str(&format!("{name} at the last: {}", style::short(spread.mean)));
        let (low, high) = spread.intervals[2];
        if low.is_finite() {
            out.push_str(&format!(", 95 % {} to {}", style::short(low), style::short(high)));
        }
        out.push('\n');
    }
    if lasts().flat_map(|(found, last)| both(found, last)).any(|spread| spread.std.is_nan()) {
        let why = match () {
            () if spec.process_noise.is_none() || spec.measurement_cov.is_none() => {
                "the model file does not state all noise"
            }
            () if !runner.has_cov() => {
                "this filter has no standard deviations; kf, ekf, ukf and pf do"
            }
            () => "the filter has lost its standard deviations",
        };
        out.push_str(&format!("no intervals: {why}\n"));
    }
    out
}
