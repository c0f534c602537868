//! `optfilter forecast`: what comes after the last measurement, with intervals.

use crate::failure::Failure;
use crate::files;
use crate::plot::time_axis;
use crate::style;
use crate::tables::{Asked, TableFlags};
use crate::whole::{self, Whole};
use optfilter::model::Step;
use optfilter_model::ModelSpec;
use optfilter_model::table::{
    Format, OutputColumn, after_months, format_time, months_between, parse_time,
};
use optfilter_plot::color::GREY;
use optfilter_plot::{Axis, Figure, Mark, Panel};
use optfilter_run::forecast::{LEVEL_NAMES, LEVELS};
use optfilter_run::{Estimate, FilterSpec, Forecast, Runner, Spread, forecast};
use serde_json::{Map, Value, json};
use std::io::Write;

/// Predict states and measurements beyond the last row, with intervals
#[derive(clap::Args)]
#[command(mut_arg("steps", |arg| arg.long("optimizer-steps")), after_help = "\
Examples:
  optfilter forecast nile.toml nile.csv --steps 12 --out ahead.csv --plot ahead.svg
  optfilter forecast co2.toml co2.csv --until 2003-12-27
  optfilter forecast heater.toml plan.csv             (rows at the end: inputs, and empty measurements)

The result has a row for each time ahead: the time, and for each state and each observation its mean (NAME), standard
deviation (NAME_std) and intervals of 50, 80 and 95 % (NAME_lo95, NAME_lo80, NAME_lo50, NAME_hi50, NAME_hi80, NAME_hi95). An
observation that is called like a state is NAME_measured.

Rows at the end of the table in which nothing is measured come first; --steps and --until count beyond the table, at the
table's own step if that is regular (also if it is a month or a year), else at the model's dt. A model with inputs needs
them in the table. Intervals are Gaussian where the filter is, and quantiles of draws (--seed) for pf and for measurements
that are not Gaussian.")]
pub struct Args {
    #[command(flatten)]
    tables: TableFlags,
    /// Rows to predict beyond the table
    #[arg(long = "steps", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ahead: Option<u32>,
    /// The last time to predict: a date, or a number where times are numbers
    #[arg(long, value_name = "TIME", conflicts_with = "ahead", allow_negative_numbers = true)]
    until: Option<String>,
    /// Print the forecast as JSON on standard output; a table only goes to a file of --out
    #[arg(long)]
    json: bool,
    /// Print no summary
    #[arg(long, short)]
    quiet: bool,
}

/// More rows than anybody waits for: --until a date of another century in steps of seconds.
const MOST_AHEAD: usize = 1_000_000;

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let Args { tables, .. } = &args;
    let Asked { spec, filter, out_format, .. } = tables.check(&[])?;
    let table = Whole::read(tables, &spec, &filter)?;
    let ahead = Ahead::new(&args, &spec, &table)?;
    let runner = spec.runner(&filter)?;
    let failed = |error| table.failure(&spec, &filter, error);
    let data = &table.data;
    let mut live = runner.start(runner.default_start()).map_err(|e| failed(e.into()))?;
    let (mut estimate, mut past) = (Estimate::default(), Vec::new());
    for row in 0..ahead.first {
        let (step, predict) = (&data.steps[row], row > 0 || filter.predict_first());
        live.step(predict, step, data.input(row), data.output(row), &mut estimate)
            .map_err(|e| failed(e.into()))?;
        past.extend_from_slice(&estimate.mean);
        if whole::asked_to_end() {
            return Err(Failure::interrupted(""));
        }
    }
    let inputs = &data.inputs[ahead.first * spec.inputs.len()..];
    let found = forecast(&*runner, &mut *live, &ahead.steps, inputs).map_err(failed)?;
    let names = names(&spec);
    if !(args.json && files::is_standard(&tables.out)) {
        write(&args, &table, &ahead, &found, &names, out_format)?;
    }
    let text = describe(&spec, &filter, &*runner, &found, &names);
    tables.plot.write(&text, || figure(&spec, &table, &ahead, &past, &found))?;
    if args.json {
        return files::print(&(json_of(&spec, &filter, &ahead, &found).to_string() + "\n"));
    }
    if !args.quiet {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(())
}

/// Which rows are ahead.
struct Ahead {
    /// The number of rows up to the last measurement.
    first: usize,
    steps: Vec<Step>,
    /// Times as the table has them, from its origin or not, and as text where they are of the calendar.
    times: Vec<f64>,
    texts: Vec<Option<Vec<u8>>>,
}

impl Ahead {
    fn new(args: &Args, spec: &ModelSpec, table: &Whole) -> Result<Self, Failure> {
        let (data, rows) = (&table.data, table.data.len());
        let measured = |row: &usize| data.output(*row).iter().any(|y| !y.is_nan());
        let first = (0..rows).rev().find(measured).map_or(0, |row| row + 1);
        let mut out = Self {
            first,
            steps: data.steps[first..].to_vec(),
            times: (first..rows).map(|row| data.time(row)).collect(),
            texts: (first..rows).map(|row| table.rows.time_text(row).map(<[u8]>::to_vec)).collect(),
        };
        let beyond = args.ahead.is_some() || args.until.is_some();
        if beyond && !spec.inputs.is_empty() {
            return Err(Failure::usage(format!(
                "the model reads {}, which nobody knows beyond the table; add rows with {} and empty measurements to its \
                 end and leave out --steps and --until",
                spec.inputs.join(", "),
                if spec.inputs.len() == 1 { "it" } else { "them" },
            )));
        }
        if !beyond && out.steps.is_empty() {
            let how = if spec.inputs.is_empty() {
                "say how far: --steps N or --until TIME"
            } else {
                "add rows with the inputs to come and empty measurements to the end of the table"
            };
            return Err(Failure::usage(format!("nothing to predict; {how}")));
        }
        let until = args.until.as_deref().map(|text| until(text, spec, table)).transpose()?;
        let pace = Pace::of(spec, table);
        let from = out.times.last().copied().unwrap_or_else(|| data.time(rows - 1));
        // Sums of steps are not exact.
        let beyond_it = |time: f64| until.is_some_and(|t| time > t + 1e-9 * (t - from).abs());
        let kept = out.times.partition_point(|time| !beyond_it(*time));
        out.steps.truncate(kept);
        out.times.truncate(kept);
        out.texts.truncate(kept);
        for k in 1.. {
            if args.ahead.is_none_or(|n| k > n as usize) && until.is_none() {
                break;
            }
            let Some(time) = pace.after(data.time(rows - 1), k, spec) else {
                return Err(Failure::usage("the calendar ends before the forecast does"));
            };
            if beyond_it(time) {
                break;
            }
            if k > MOST_AHEAD {
                let flag = if until.is_some() { "--until" } else { "--steps" };
                let message = format!("{flag}: that is more than {MOST_AHEAD} rows ahead");
                return Err(Failure::usage(message));
            }
            out.push(time, rows + k, &pace, spec, table);
        }
        if let Some(until) = until.filter(|_| out.steps.is_empty()) {
            let message = format!("--until: {until} is not after the last row of the table");
            return Err(Failure::usage(message));
        }
        Ok(out)
    }

    fn push(&mut self, time: f64, index: usize, pace: &Pace, spec: &ModelSpec, table: &Whole) {
        let data = &table.data;
        let before = self.times.last().copied().unwrap_or_else(|| data.time(data.len() - 1));
        let dt = if let Pace::Even(dt) = pace { *dt } else { time - before };
        let at = time - data.origin.unwrap_or(0.0);
        self.steps.push(Step { time: at, ..Step::even(index as u64, dt) });
        self.times.push(time);
        self.texts.push(data.origin.map(|_| {
            let text = format_time(time * spec.seconds_per_unit);
            // Dates where the table has dates, and a date is all there is to say.
            let dates = table.rows.time_text(0).is_some_and(|text| text.len() == 10);
            let date = text.strip_suffix("T00:00:00Z").filter(|_| dates);
            date.unwrap_or(&text).as_bytes().to_vec()
        }));
    }
}

/// The time of `--until` in the table's unit.
fn until(text: &str, spec: &ModelSpec, table: &Whole) -> Result<f64, Failure> {
    let calendar = table.data.origin.is_some();
    let time = if calendar {
        parse_time(text).map(|seconds| seconds / spec.seconds_per_unit)
    } else {
        text.parse().ok().filter(|t: &f64| t.is_finite())
    };
    let what =
        if calendar { "a date like 2026-11-15" } else { "a number, as the table's times are" };
    time.ok_or_else(|| Failure::usage(format!("--until: {text:?} is not {what}")))
}

/// How rows go on beyond a table.
enum Pace {
    Even(f64),
    Months(i32),
}

impl Pace {
    /// The table's own step, if it is regular; else the model's.
    fn of(spec: &ModelSpec, table: &Whole) -> Self {
        let data = &table.data;
        if !data.is_timed() || data.len() < 2 {
            return Self::Even(spec.dt);
        }
        if data.origin.is_some() {
            let unit = spec.seconds_per_unit;
            let months = |row: usize| {
                months_between(data.time(row - 1) * unit, data.time(row) * unit).filter(|m| *m > 0)
            };
            if let Some(usual) = months(1)
                && (2..data.len()).all(|row| months(row) == Some(usual))
            {
                return Self::Months(usual);
            }
        }
        let mut lengths: Vec<f64> =
            data.steps[1..].iter().map(|s| s.dt).filter(|dt| *dt > 0.0).collect();
        lengths.sort_by(f64::total_cmp);
        let Some(&usual) = lengths.get(lengths.len() / 2) else { return Self::Even(spec.dt) };
        // Most of them alike: a row that is missing does not make a table irregular.
        let alike = lengths.iter().filter(|dt| (*dt - usual).abs() <= 1e-6 * usual).count();
        Self::Even(if 10 * alike >= 9 * lengths.len() { usual } else { spec.dt })
    }

    /// The time `k` rows after another, in the table's unit.
    fn after(&self, last: f64, k: usize, spec: &ModelSpec) -> Option<f64> {
        match self {
            Self::Even(dt) => Some(last + k as f64 * dt),
            Self::Months(months) => {
                let unit = spec.seconds_per_unit;
                let months = months.checked_mul(i32::try_from(k).ok()?)?;
                Some(after_months(last * unit, months)? / unit)
            }
        }
    }
}

/// What the columns of states and observations begin with.
fn names(spec: &ModelSpec) -> Vec<String> {
    let observed = spec
        .observations
        .iter()
        .map(|y| if spec.states.contains(y) { format!("{y}_measured") } else { y.clone() });
    spec.states.iter().cloned().chain(observed).collect()
}

/// States and measurements of a row, in the order of [`names`].
fn both(found: &Forecast, row: usize) -> impl Iterator<Item = &Spread> {
    found.states[row].iter().chain(&found.measurements[row])
}

fn write(
    args: &Args,
    table: &Whole,
    ahead: &Ahead,
    found: &Forecast,
    names: &[String],
    format: Format,
) -> Result<(), Failure> {
    let time = table.layout.time.clone().unwrap_or_else(|| "t".into());
    let mut columns = vec![OutputColumn::Time(time)];
    for name in names {
        let low = LEVEL_NAMES.iter().rev().map(|level| format!("{name}_lo{level}"));
        let high = LEVEL_NAMES.iter().map(|level| format!("{name}_hi{level}"));
        let all = [name.clone(), format!("{name}_std")].into_iter().chain(low).chain(high);
        columns.extend(all.map(OutputColumn::Number));
    }
    let rows = (0..found.steps.len()).map(|row| {
        let mut values = vec![ahead.times[row]];
        for spread in both(found, row) {
            values.extend([spread.mean, spread.std]);
            values.extend(spread.intervals.iter().rev().map(|i| i.0));
            values.extend(spread.intervals.iter().map(|i| i.1));
        }
        (values, ahead.texts[row].clone())
    });
    whole::write_table(&args.tables.out, format, columns, rows)
}

fn describe(
    spec: &ModelSpec,
    filter: &FilterSpec,
    runner: &dyn Runner,
    found: &Forecast,
    names: &[String],
) -> String {
    let last = found.steps.len() - 1;
    // --steps are rows here.
    let flags = filter.flags().replace("--steps", "--optimizer-steps");
    let mut out = format!("{flags}\n{} rows ahead\n", last + 1);
    for (name, spread) in names.iter().zip(both(found, last)) {
        out.push_str(&format!("{name} at the last: {}", style::short(spread.mean)));
        let (low, high) = spread.intervals[2];
        if low.is_finite() {
            out.push_str(&format!(", 95 % {} to {}", style::short(low), style::short(high)));
        }
        out.push('\n');
    }
    if both(found, last).any(|spread| spread.std.is_nan()) {
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

fn json_of(spec: &ModelSpec, filter: &FilterSpec, ahead: &Ahead, found: &Forecast) -> Value {
    let one = |spread: &Spread| {
        let intervals: Map<String, Value> = LEVEL_NAMES
            .iter()
            .zip(&spread.intervals)
            .map(|(level, (low, high))| ((*level).to_owned(), json!([low, high])))
            .collect();
        json!({ "mean": spread.mean, "std": spread.std, "intervals": intervals })
    };
    let named = |names: &[String], spreads: &[Spread]| -> Map<String, Value> {
        names.iter().zip(spreads).map(|(name, spread)| (name.clone(), one(spread))).collect()
    };
    let rows: Vec<Value> = (0..found.steps.len())
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
        .collect();
    json!({
        "model": spec.name,
        "settings": filter.filled(),
        "rows": ahead.first,
        "levels": LEVELS,
        "forecast": rows,
    })
}

/// The most states and the most observations that have a panel.
const MOST: usize = 24;

/// A fan for each state and each observation, behind the end of its past.
fn figure(
    spec: &ModelSpec,
    table: &Whole,
    ahead: &Ahead,
    past: &[f64],
    found: &Forecast,
) -> Figure {
    let (data, n) = (&table.data, spec.states.len());
    // As much of the past as puts the fan into the last third or so.
    let from = ahead.first.saturating_sub((3 * found.steps.len()).max(60));
    let mut figure = Figure::new(format!("{}, forecast", spec.name));
    figure.shared_x = true;
    let panel = |name: &str| {
        let axis = time_axis(data.origin.map(|_| spec.seconds_per_unit));
        Panel::new(name, axis, Axis::linear(""))
    };
    let with_fan = |mut panel: Panel, of: &dyn Fn(usize) -> Spread| {
        for (level, opacity) in [(2, 0.14), (1, 0.2), (0, 0.3)] {
            let band = ahead.times.iter().enumerate().map(|(row, time)| {
                let (low, high) = of(row).intervals[level];
                (*time, low, high)
            });
            // One entry in the legend: it shows colours, not how deep they are.
            let name = if level == 2 { "50, 80 and 95 %" } else { "" };
            panel.marks.push(Mark::band(band).opacity(opacity).named(name));
        }
        let line = ahead.times.iter().enumerate().map(|(row, time)| (*time, of(row).mean));
        panel.marks.push(Mark::line(line).size(1.8).named("forecast"));
        panel
    };
    for (i, name) in spec.states.iter().enumerate().take(MOST) {
        let line = (from..ahead.first).map(|row| (data.time(row), past[row * n + i]));
        let panel = panel(name).with(Mark::line(line).color(GREY).named("estimate"));
        figure.panels.push(with_fan(panel, &|row| found.states[row][i]));
    }
    for (i, name) in spec.observations.iter().enumerate().take(MOST) {
        let points = (from..ahead.first).map(|row| (data.time(row), data.output(row)[i]));
        let panel = panel(name).with(Mark::points(points).color(GREY).named("measured"));
        figure.panels.push(with_fan(panel, &|row| found.measurements[row][i]));
    }
    figure
}
