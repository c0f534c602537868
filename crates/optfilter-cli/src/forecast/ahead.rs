//! Which rows are ahead of a series, and at which times.

use super::args::Args;
use crate::failure::Failure;
use crate::whole::Whole;
use optfilter::model::Step;
use optfilter_model::ModelSpec;
use optfilter_model::table::{Monthly, format_time, parse_time};

/// More rows than anybody waits for: --until a date of another century in steps of seconds.
const MAX_AHEAD: usize = 1_000_000;

/// Which rows are ahead.
pub(super) struct Ahead {
    /// The number of rows up to the last measurement.
    pub(super) first: usize,
    pub(super) steps: Vec<Step>,
    /// Times as the table has them, from its origin or not, and as text where they are of the calendar.
    pub(super) times: Vec<f64>,
    pub(super) texts: Vec<Option<Vec<u8>>>,
}

impl Ahead {
    pub(super) fn new(args: &Args, spec: &ModelSpec, table: &Whole) -> Result<Self, Failure> {
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
            if k > MAX_AHEAD {
                let flag = if until.is_some() { "--until" } else { "--steps" };
                let message = format!("{flag}: that is more than {MAX_AHEAD} rows ahead");
                return Err(Failure::usage(message));
            }
            out.push(time, rows + k, &pace, table);
        }
        if let (Some(text), true) = (&args.until, out.steps.is_empty()) {
            let (last, next) = (first.saturating_sub(1), first);
            let shown = |row: usize| words_of(spec, table, row);
            let message = match next < rows {
                false => format!("--until: {text} is not after the last row, {}", shown(last)),
                true => format!(
                    "--until: {text} is before {}, the first row after the last measurement",
                    shown(next)
                ),
            };
            return Err(Failure::usage(message));
        }
        let beyond = out.times.get(out.texts.len()..).unwrap_or(&[]);
        out.texts.extend(words(beyond, spec, table));
        Ok(out)
    }

    /// A row beyond the table; how its time is written is known when all are.
    fn push(&mut self, time: f64, index: usize, pace: &Pace, table: &Whole) {
        let data = &table.data;
        let before = self.times.last().copied().unwrap_or_else(|| data.time(data.len() - 1));
        let dt = if let Pace::Even(dt) = pace { *dt } else { time - before };
        let at = time - data.origin.unwrap_or(0.0);
        self.steps.push(Step { time: at, ..Step::even(index as u64, dt) });
        self.times.push(time);
    }
}

/// Times beyond a table in its own words, all of them alike; none where they are numbers of the model's unit.
fn words(times: &[f64], spec: &ModelSpec, table: &Whole) -> Vec<Option<Vec<u8>>> {
    if table.data.origin.is_none() {
        return vec![None; times.len()];
    }
    let style = &spec.time_style;
    let seconds: Vec<f64> = times.iter().map(|time| time * spec.seconds_per_unit).collect();
    let mut texts: Vec<String> = seconds.iter().map(|s| style.write(*s)).collect();
    // A pattern without the time of day has no words for half a day.
    let kept = |(text, s): (&String, &f64)| style.parse(text).is_some_and(|t| (t - s).abs() < 1e-3);
    if style.epoch.is_none() && !texts.iter().zip(&seconds).all(kept) {
        texts = seconds.iter().map(|s| format_time(*s)).collect();
    }
    // Dates where the table has dates, and dates are all there is to say.
    if table.rows.time_text(0).is_some_and(|text| text.len() == 10) {
        let dates = texts.iter().map(|t| t.strip_suffix("T00:00:00Z").map(str::to_owned));
        texts = dates.collect::<Option<_>>().unwrap_or(texts);
    }
    texts.into_iter().map(|text| Some(text.into_bytes())).collect()
}

/// The time of a row of the table, for messages.
fn words_of(spec: &ModelSpec, table: &Whole, row: usize) -> String {
    let text = table.rows.time_text(row).map(|text| String::from_utf8_lossy(text).into_owned());
    let time = table.data.time(row);
    match table.data.origin {
        Some(_) => text.unwrap_or_else(|| format_time(time * spec.seconds_per_unit)),
        None => time.to_string(),
    }
}

/// The time of `--until` in the table's unit.
fn until(text: &str, spec: &ModelSpec, table: &Whole) -> Result<f64, Failure> {
    let calendar = table.data.origin.is_some();
    let time = if calendar {
        let seconds = spec.time_style.parse(text).or_else(|| parse_time(text));
        seconds.map(|seconds| seconds / spec.seconds_per_unit)
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
    Months(Monthly),
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
            let times = (0..data.len()).map(|row| data.time(row) * unit);
            if let Some(monthly) = Monthly::of(times) {
                return Self::Months(monthly);
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
                Some(months.after(last * unit, i32::try_from(k).ok()?)? / unit)
            }
        }
    }
}
