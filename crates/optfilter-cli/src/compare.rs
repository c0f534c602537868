//! `optfilter compare`: every filter that fits the model, side by side.

use crate::failure::Failure;
use crate::files;
use crate::plot::time_axis;
use crate::reading::LookFlags;
use crate::settings::unmoved_text;
use crate::style;
use optfilter_model::ModelSpec;
use optfilter_model::run::{Dataset, Prepared, Score};
use optfilter_plot::color::PALETTE;
use optfilter_plot::{Axis, Figure, Mark, Panel, Thinner};
use optfilter_run::{FilterSpec, Method, Session};
use std::time::Instant;

/// Run every applicable filter side by side
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter compare nile.toml nile.csv --plot compare.svg
  optfilter compare model.toml data.csv --methods imap,ekf,ukf --truth x,v

Prediction errors are relative to repeating the measurement before, on the same rows. NIS per component is 1 for a \
filter whose error bars are right, above 1 for one that trusts itself too much. Flags and the model's [filter] table \
set imap (and the method the file names); the other filters run as the model states.")]
pub struct Args {
    /// Filters to run [default: all that fit the model]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Method::NAMES)]
    methods: Vec<String>,
    /// Columns with true states: STATE or STATE=COLUMN, separated by commas
    #[arg(long, value_name = "COLS", value_delimiter = ',')]
    truth: Vec<String>,
    #[command(flatten)]
    look: LookFlags,
}

struct Row {
    filter: FilterSpec,
    /// States that no measurement moves.
    unmoved: Vec<String>,
    result: Result<(Score, f64, usize), String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let look = &args.look;
    let spec = look.check()?;
    let truth = crate::tune::truth_columns(&spec, &args.truth)?;
    let data = look.series(&spec, &truth, spec.filter.predict_first())?.data;
    let asked = !args.methods.is_empty();
    let methods: Vec<Method> = Method::ALL
        .into_iter()
        .filter(|m| !asked || args.methods.iter().any(|n| n == m.name()))
        .collect();
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for method in methods {
        match look.filter.of(method).prepare(spec.clone()) {
            Ok(prepared) => rows.push(measure(prepared, &data)),
            Err(failure) => left_out.push((method, failure.message)),
        }
    }
    if rows.iter().all(|r| r.result.is_err()) {
        let failed =
            rows.iter().filter_map(|r| Some((r.filter.method(), r.result.as_ref().err()?)));
        let unfit = left_out.iter().map(|(method, why)| (*method, why));
        let reasons: Vec<String> =
            failed.chain(unfit).map(|(method, why)| format!("{}: {why}", method.name())).collect();
        return Err(Failure {
            code: if rows.is_empty() { 2 } else { 4 },
            message: format!("no filter came through: {}", reasons.join("; ")),
        });
    }
    let mut text = report(&spec, &rows, !truth.is_empty());
    for (method, why) in &left_out {
        text.push_str(&format!("{} is left out: {why}\n", method.name()));
    }
    look.plot.write(&text, || figure(&spec, &data, &rows))?;
    if look.json {
        let mut rows = json(&rows);
        rows.extend(
            left_out
                .iter()
                .map(|(method, why)| serde_json::json!({ "method": method, "left_out": why })),
        );
        return files::print(&format!("{}\n", serde_json::Value::from(rows)));
    }
    files::print(&text)
}

fn measure(prepared: Prepared, data: &Dataset) -> Row {
    let Prepared { spec, filter, runner, .. } = &prepared;
    let begun = Instant::now();
    let yard = data.yardstick(spec, 0, data.len());
    let done = data.trace(spec, filter, &yard, data.len());
    let per_row = begun.elapsed().as_secs_f64() / data.len() as f64;
    let result = match done {
        Ok(trace) if trace.failed.is_none() => {
            let session = Session::new(&**runner, filter, spec.dt).ok();
            let memory = session.map_or(0, |s| s.memory());
            Ok((trace.score(0..data.len()), per_row, memory))
        }
        Ok(trace) => Err(trace.failed.map_or_else(String::new, |(_, e)| e.to_string())),
        Err(e) => Err(e.to_string()),
    };
    let unmoved = prepared.unmoved().into_iter().map(str::to_owned).collect();
    Row { filter: prepared.filter, unmoved, result }
}

fn report(spec: &ModelSpec, rows: &[Row], with_truth: bool) -> String {
    let mut head = vec!["method", "prediction error"];
    if with_truth {
        head.push("error");
    }
    head.extend(["log-likelihood", "NIS per component", "µs per row", "bytes kept", "settings"]);
    let mut table = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for row in rows {
        let mut cells = vec![row.filter.method().name().to_owned()];
        match &row.result {
            Ok((score, per_row, memory)) => {
                cells.push(style::short(score.prediction));
                if with_truth {
                    cells.push(style::short(score.truth));
                }
                cells.push(style::short(score.log_likelihood));
                cells.push(style::short(score.nis));
                cells.push(style::short(1e6 * per_row));
                cells.push(memory.to_string());
                cells.push(row.filter.flags());
            }
            Err(reason) => cells.push(reason.clone()),
        }
        table.push(cells);
    }
    let mut text = format!("{}\n\n{}", spec.name, style::table(&table));
    for row in rows {
        let states: Vec<&str> = row.unmoved.iter().map(String::as_str).collect();
        if let Some(warning) = unmoved_text(&states, &row.filter) {
            text.push_str(&format!("{}: {warning}\n", row.filter.method().name()));
        }
    }
    text
}

fn json(rows: &[Row]) -> Vec<serde_json::Value> {
    rows.iter()
        .map(|row| match &row.result {
            Ok((score, per_row, memory)) => serde_json::json!({
                "method": row.filter.method(), "settings": row.filter.filled(), "score": score,
                "seconds_per_row": per_row, "bytes": memory, "unmoved": row.unmoved,
            }),
            Err(reason) => serde_json::json!({
                "method": row.filter.method(), "settings": row.filter.filled(), "failed": reason,
            }),
        })
        .collect()
}

/// One panel for each state, a line for each filter.
fn figure(spec: &ModelSpec, data: &Dataset, rows: &[Row]) -> Figure {
    let n = spec.states.len();
    let axis = || time_axis(data.origin.map(|_| spec.seconds_per_unit));
    let mut figure = Figure::new(format!("{}: every filter", spec.name));
    figure.shared_x = true;
    figure.panels =
        spec.states.iter().map(|name| Panel::new(name, axis(), Axis::linear(""))).collect();
    if !data.truth.is_empty() {
        for (i, panel) in figure.panels.iter_mut().enumerate() {
            let mut truth = Thinner::default();
            truth.extend((0..data.len()).map(|r| (data.time(r), data.truth[r * n + i])));
            panel.marks.push(Mark::points(truth.points()).named("truth"));
        }
    }
    for (row, color) in rows.iter().filter(|r| r.result.is_ok()).zip(PALETTE.into_iter().cycle()) {
        let mut lines = vec![Thinner::default(); n];
        let done = data.run(spec, &row.filter, data.len(), |r, estimate| {
            for (line, mean) in lines.iter_mut().zip(&estimate.mean) {
                line.push(data.time(r), *mean);
            }
        });
        if matches!(done, Ok(Ok(()))) {
            for (panel, line) in figure.panels.iter_mut().zip(lines) {
                let mark = Mark::line(line.line()).color(color).size(1.3);
                panel.marks.push(mark.named(row.filter.method().name()));
            }
        }
    }
    figure
}
