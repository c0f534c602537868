//! `optfilter filter`: estimates with error bars from a table of measurements.

use crate::failure::Failure;
use crate::files;
use crate::pipeline::{self, Job, Outcome};
use crate::settings::{warn_of_unmoved, with_form};
use crate::style;
use crate::tables::{Asked, SummaryFlags, TableFlags};
use optfilter_model::ModelSpec;
use optfilter_model::run::Prepared;
use optfilter_model::table::is_gzip;
use optfilter_run::{CG, Method, lost_track};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Filter a table of measurements
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter filter nile.toml nile.csv --out estimates.csv --plot nile.svg
  optfilter filter model.toml data.csv --optimizer gd --steps 3 --lr 0.05
  optfilter filter lorenz63 data.jsonl --method ekf > estimates.csv
  sensor | optfilter filter model.toml - --follow | consumer
  optfilter filter model.toml big.csv --out big-out.csv --checkpoint big.ckpt
  optfilter filter model.toml sensors.csv --by sensor --out estimates.parquet
  optfilter filter gps.toml fixes.csv --gate 0.999 --plot track.svg --plot-xy east,north
  optfilter filter model.toml monday.csv tuesday.csv --out both.csv     (a column `file` says which)
  optfilter filter model.toml recordings/ --out estimates/              (a table for each table)

The result has the time, each state, each state's standard deviation (NAME_std), each observation less its prediction \
(NAME_innovation) and a flag: ok, missing, partial (some observations missing), outlier (an innovation beyond the 99.9 \
% point, or a sensor beyond --gate), lost (the gate rejected too many rows in a row, or the filter starts anew here), bound (a state at its bound) or runaway (an estimate far beyond all measurements so far). --horizon H adds, \
for h from 1 to H, each state and each observation h steps of the model's dt after the row (NAME_ahead_h, \
NAME_ahead_h_std, NAME_ahead_h_lo95, NAME_ahead_h_hi95; with --full also the intervals of 50 and 80 %).")]
#[derive(Clone)]
pub struct Args {
    /// Rows may come this much later than their neighbours, as 0.5s, 2min or 1h; they are put in their place
    #[arg(long, value_name = "TIME", value_parser = duration)]
    late: Option<f64>,
    /// Draw two states against one another in --plot, as x,y; with what was measured of them
    #[arg(long, value_name = "X,Y", requires = "path")]
    plot_xy: Option<String>,
    /// Also write standard deviations of innovations, log-likelihoods and NIS
    #[arg(long)]
    full: bool,
    /// Also write what the rows after it have made of each estimate (NAME_lagged), as far as --window reaches;
    /// rows then come that many rows of their series late
    #[arg(long)]
    lagged: bool,
    /// Also write forecasts from every row: states and measurements 1 to H steps of the model's dt ahead
    #[arg(long, value_name = "H", value_parser = clap::value_parser!(u16).range(1..=1000))]
    horizon: Option<u16>,
    /// Write each estimate as soon as its measurement arrives
    #[arg(long)]
    follow: bool,
    /// Save the state here at intervals and at the end; go on from it if it exists
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Rows between two checkpoints (default: 100000, or more where saving would take over a tenth of the time)
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: Option<u64>,
    /// On going on from a checkpoint, also skip filtered rows of standard input (a file's always are)
    #[arg(long)]
    skip_done: bool,
    #[command(flatten)]
    summary: SummaryFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Seconds of a length of time such as 0.5s.
fn duration(text: &str) -> Result<f64, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split).unwrap_or((text, ""));
    let seconds = match unit {
        "s" | "" => 1.0,
        "ms" => 1e-3,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("{unit:?} is not one of ms, s, min, h, d")),
    };
    match number.trim().parse::<f64>() {
        Ok(v) if v >= 0.0 && v.is_finite() => Ok(v * seconds),
        _ => Err("a length of time is a number with ms, s, min, h or d, as in 0.5s".into()),
    }
}

/// Measurements whose prediction errors are shown one by one.
const MAX_LINES: usize = 12;

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let each = args.tables.each()?;
    if each.len() > 1 && args.checkpoint.is_some() {
        return Err(Failure::usage(
            "--checkpoint is for one table of results; give --out the name of a file",
        ));
    }
    each.into_iter().try_for_each(|tables| one(&Args { tables, ..args.clone() }))
}

/// One table of results.
fn one(args: &Args) -> Result<(), Failure> {
    let tables = &args.tables;
    let asked = tables.check(&[("--checkpoint", args.checkpoint.as_deref())])?;
    let Asked { prepared, format, out_format, .. } = &asked;
    let Prepared { spec, filter, runner, .. } = prepared;
    tables.filter.check_discount(filter)?;
    let SummaryFlags { json, quiet } = args.summary;
    let layout = tables.layout(spec, &asked.tables)?;
    if args.follow && !(format.is_text() && asked.tables.len() == 1) {
        return Err(Failure::usage(
            "only one stream of text can be followed: CSV, TSV or JSON lines",
        ));
    }
    if args.follow {
        files::check_follow(spec)?;
    }
    // Tables that are put in order together do not grow, and are read again from their beginning.
    let grows = args.late.unwrap_or(0.0) == 0.0 && !layout.joined;
    if let (Some(_), Some(name), true) = (&args.checkpoint, spec.waits(), grows) {
        return Err(Failure::usage(format!(
            "rows wait for the next value of input `{name}`, and those at the end of a table that grows would not be the same again; \
             leave out --checkpoint, or write {name} = {{ hold = \"previous\" }} in [inputs]"
        )));
    }
    if !out_format.is_text() && (args.follow || args.checkpoint.is_some()) {
        return Err(Failure::usage(
            "only text can be written row by row; use CSV, TSV or JSON lines for --out",
        ));
    }
    if is_gzip(&tables.out) && args.checkpoint.is_some() {
        return Err(Failure::usage("a compressed file cannot be gone on with; leave out .gz"));
    }
    if args.late.is_some() && asked.many {
        return Err(Failure::usage(
            "--late is for one series, of one table or of several joined by time",
        ));
    }
    if args.late.is_some() && layout.time.is_none() {
        return Err(Failure::usage("--late needs times; name their column by --time"));
    }
    if args.late.is_some() && args.follow {
        return Err(Failure::usage(
            "--follow answers every row at once; --late would have it wait",
        ));
    }
    if args.lagged && runner.lag().is_none() {
        return Err(Failure::usage("--lagged needs imap with --window (or --optimizer cg)"));
    }
    let job = Job {
        prepared,
        layout: layout.horizon(args.horizon.unwrap_or(0).into()),
        tables: &asked.tables,
        by: tables.series.by.is_some(),
        format: tables.format(),
        out: &tables.out,
        out_format: *out_format,
        as_data: asked.as_data,
        full: args.full,
        lagged: args.lagged,
        follow: args.follow,
        checkpoint: args.checkpoint.clone(),
        checkpoint_every: args.checkpoint_every,
        skip_done: args.skip_done,
        plot: tables.plot.path.is_some(),
        plane: args.plot_xy.as_deref(),
        late: args.late.map_or(0.0, |seconds| seconds / spec.seconds_per_unit),
        progress: !quiet && pipeline::progress_is_wanted(files::is_standard(&tables.out)),
    };
    let unmoved = prepared.unmoved();
    if args.horizon.is_some() && !spec.inputs.is_empty() && !quiet {
        files::remark(
            "note: forecasts of --horizon take the inputs of their row to stay as they are",
        );
    }
    if !quiet && !json {
        warn_of_unmoved(&unmoved, filter);
        if let Some(word) = runner.warning() {
            let _ = writeln!(std::io::stderr(), "note: {word}");
        }
    }
    let begun = Instant::now();
    let outcome = pipeline::run(&job)?;
    let seconds = begun.elapsed().as_secs_f64();
    let text = describe(prepared, &outcome, seconds);
    if let Some(chart) = &outcome.plot {
        tables.plot.write(&text, || chart.figure())?;
    }
    let as_json = || {
        let mut json = as_json(prepared, &outcome, seconds);
        json["unmoved"] = unmoved.into();
        json
    };
    args.summary.say(tables, || text, as_json)
}

/// Angles that are read as radians and go far beyond a turn either way.
fn degrees_note(spec: &ModelSpec, largest: &[f64]) -> String {
    let radians =
        |i: usize| spec.observation_angles[i] && spec.observation_turns[i] == std::f64::consts::TAU;
    let suspicious = |(i, v): &(usize, &f64)| radians(*i) && **v > 2.0 * std::f64::consts::TAU;
    let note = |(i, v): (usize, &f64)| {
        let name = &spec.observations[i];
        format!(
            "{name} is an angle in radians and reaches {}; if it is in degrees, write angle = \"degrees\"\n",
            style::short(*v)
        )
    };
    largest.iter().enumerate().filter(suspicious).map(note).collect()
}

fn describe(prepared: &Prepared, outcome: &Outcome, seconds: f64) -> String {
    let Prepared { spec, filter, runner, .. } = prepared;
    let tally = &outcome.tally;
    let rows = tally.rows - outcome.resumed_at;
    let mut out = format!("{}\n", with_form(&filter.flags(), runner.form()));
    if outcome.resumed_at > 0 {
        out.push_str(&format!("resumed after row {}\n", outcome.resumed_at));
    }
    let rate = rows as f64 / seconds.max(1e-9);
    if outcome.series > 1 {
        out.push_str(&format!("{} series, ", outcome.series));
    }
    out.push_str(&format!("{rows} rows in {seconds:.2} s ({rate:.0} rows/s)"));
    if outcome.resumed_at > 0 {
        out.push_str(&format!("; of all {} rows so far", tally.rows));
    }
    for (count, what) in [
        (tally.missing, "missing"),
        (tally.partial, "partly missing"),
        (tally.outliers, if tally.outliers == 1 { "outlier" } else { "outliers" }),
        (tally.runaways, "run away from every measurement"),
    ] {
        if count > 0 {
            out.push_str(&format!(", {count} {what}"));
        }
    }
    out.push('\n');
    if let Some(row) = tally.lost_at {
        out.push_str(&format!("{}\n", lost_track(tally.lost, row)));
    }
    let errors = tally.prediction_errors();
    let each = spec.observations.iter().zip(&errors).zip(tally.repeat_errors());
    for (i, ((name, error), repeat)) in each.enumerate() {
        if i == MAX_LINES {
            let more = errors.len() - i;
            out.push_str(&format!(
                "{more} more measurements: --json has the prediction error of each\n"
            ));
            break;
        }
        if error.is_finite() {
            let beside = match repeat {
                // Nothing is a share of no error at all.
                0.0 => "the measurement before is repeated exactly".to_owned(),
                _ => format!("{:.0} % of repeating the measurement before", 100.0 * error / repeat),
            };
            let error = style::short(*error);
            out.push_str(&format!("{name}: one-step prediction error {error} ({beside})\n"));
        }
    }
    // That they were left out for their cost was said before.
    let left_out = runner.warning().is_some() && !runner.has_cov();
    if let Some(row) = tally.bars_lost.filter(|_| {
        !left_out
            && filter.method() == Method::Imap
            && !filter.carry()
            && filter.error_bars != Some(false)
    }) {
        let has_noise = spec.process_noise.is_some() && spec.measurement_cov.is_some();
        let less = if filter.optimizer() == CG { "fewer --steps" } else { "a smaller --lr" };
        out.push_str(&if has_noise {
            format!(
                "no standard deviations from row {row} on: these steps enlarge errors; try {less}\n"
            )
        } else {
            "no standard deviations: the model file states no noise\n".to_owned()
        });
    }
    if tally.log_likelihood.is_finite() {
        out.push_str(&format!(
            "log-likelihood {}, mean NIS per component {} (1 is consistent)\n",
            style::short(tally.log_likelihood),
            style::short(tally.mean_nis())
        ));
    }
    if 100 * tally.lonely > tally.rows {
        out.push_str(&format!(
            "hardly one of {} particles counts in {} of {} rows: the estimate follows single particles; more --particles, a larger \
             --process-scale, a narrower start, or ekf or ukf\n",
            filter.particles(),
            tally.lonely,
            tally.rows
        ));
    }
    out.push_str(&degrees_note(spec, &tally.largest));
    out
}

fn as_json(prepared: &Prepared, outcome: &Outcome, seconds: f64) -> serde_json::Value {
    let Prepared { spec, filter, runner, .. } = prepared;
    let tally = &outcome.tally;
    serde_json::json!({
        "model": spec.name,
        "settings": filter.filled(),
        "form": runner.form(),
        "rows": tally.rows,
        "series": outcome.series,
        "resumed_at": outcome.resumed_at,
        "missing": tally.missing,
        "partial": tally.partial,
        "outliers": tally.outliers,
        "runaways": tally.runaways,
        "lost": tally.lost,
        "lost_at": tally.lost_at,
        "bars_lost_at": tally.bars_lost,
        "lonely": tally.lonely,
        "least_effective": tally.least_effective,
        "prediction_error": tally.prediction_errors(),
        "repeat_error": tally.repeat_errors(),
        "log_likelihood": tally.log_likelihood,
        "mean_nis": tally.mean_nis(),
        "seconds": seconds,
    })
}
