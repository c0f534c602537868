//! `optfilter smooth`: what all rows, also later ones, say of each row.

mod lag;

use crate::failure::Failure;
use crate::plot::time_axis;
use crate::settings::with_form;
use crate::style;
use crate::tables::{SummaryFlags, TableFlags};
use crate::whole::{self, Row, Whole};
use optfilter_model::ModelSpec;
use optfilter_model::run::Layout;
use optfilter_model::table::{Format, OutputColumn};
use optfilter_plot::color::{BLUE, GREY, ORANGE};
use optfilter_plot::{Axis, Figure, Mark, Panel, Thinner};
use optfilter_run::{FilterSpec, Runner, Search, Smoothed, Watch, smooth_from};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// Smooth a table of measurements: estimates by all rows, earlier and later
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter smooth nile.toml nile.csv --out smoothed.csv --plot smoothed.svg
  optfilter smooth model.toml data.csv --method ukf --both
  optfilter smooth model.toml sensors.csv --by sensor --out smoothed.parquet
  sensor | optfilter smooth model.toml - --lag 20 --follow | consumer

The result has the time, each state and each state's standard deviation (NAME_std) given the whole table; with --both \
also what the filter had said (NAME_filtered, NAME_filtered_std).

kf, ekf, iekf and ukf are smoothed by Rauch, Tung and Striebel; pf by trajectories drawn backwards; imap takes the \
whole table as one window, which may bend as far as the process noise says. Where measurements do not scatter by a Gaussian \
(student-t, huber, counts), all but pf look for the path of the highest posterior density, in passes that weigh the \
measurements anew; the summary says whether it is known to be the best of all. The table is held in memory, unless --lag \
N says that each row waits for N rows of its series only: what they say of it is exact for kf, ekf, iekf and ukf \
(imap: what its window says, without deviations), and any number of rows fits.")]
#[derive(Clone)]
pub struct Args {
    /// Also write the estimates of the filter (NAME_filtered, NAME_filtered_std)
    #[arg(long)]
    both: bool,
    /// Smooth each row by the N rows after it only, in constant memory; rows come N rows late
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    lag: Option<u32>,
    /// With --lag: write each row as soon as it is known
    #[arg(long, requires = "lag")]
    follow: bool,
    #[command(flatten)]
    summary: SummaryFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    args.tables.each()?.into_iter().try_for_each(|tables| one(&Args { tables, ..args.clone() }))
}

/// One table of results.
fn one(args: &Args) -> Result<(), Failure> {
    let tables = &args.tables;
    let asked = tables.check(&[])?;
    let spec = &asked.spec;
    if let Some(rows) = args.lag {
        return lag::run(args, &asked, rows as usize);
    }
    let series = tables.source(&asked).read(spec)?;
    let begun = Instant::now();
    let first = spec.smoothing(&asked.filter, series[0].data.len())?;
    let runner = spec.runner(&first)?;
    let smooth = |series: &Whole| -> Result<Done, Failure> {
        // A window as long as the series is another filter for every length.
        let filter = spec.smoothing(&asked.filter, series.data.len())?;
        let runner = if filter == first { runner.clone() } else { spec.runner(&filter)? };
        let failed = |error| series.failure(spec, &filter, error);
        let watch = Watch { stride: 64, stop: &whole::asked_to_end };
        let data = series.data.series(spec, &filter).map_err(|e| failed(e.into()))?;
        let smoothed =
            smooth_from(&*runner, runner.default_start(), &data, &watch).map_err(failed)?;
        Ok(Done::new(args, spec, series, smoothed))
    };
    let done: Vec<Done> = series.par_iter().map(smooth).collect::<Result<_, _>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    let summary = Summary::new(spec, &first, runner.form(), &done, seconds);
    if let (Some(_), [only]) = (&tables.plot.path, &done[..]) {
        let figure = figure(spec, &runner, &series[0], &only.smoothed)?;
        tables.plot.write(&summary.text(), || figure)?;
    }
    write(args, spec, &asked.out_format, &series, done)?;
    args.summary.say(tables, || summary.text(), || summary.json())
}

/// What is kept of a series that was smoothed.
struct Done {
    rows: Vec<Row>,
    /// Sums of standard deviations, of the smoother and of the filter; empty without any.
    stds: [Vec<f64>; 2],
    search: Option<Search>,
    /// For a picture; else empty.
    smoothed: Smoothed,
}

impl Done {
    fn new(args: &Args, spec: &ModelSpec, series: &Whole, smoothed: Smoothed) -> Self {
        let n = spec.states.len();
        let row = |k: usize| {
            let mut values = vec![series.data.time(k)];
            let mut push = |means: &[f64], covs: &[f64]| {
                values.extend_from_slice(&means[k * n..][..n]);
                values.extend((0..n).map(|i| std(covs, n, k, i)));
            };
            push(&smoothed.means, &smoothed.covs);
            if args.both {
                push(&smoothed.filtered_means, &smoothed.filtered_covs);
            }
            (values, series.rows.time_text(k).map(<[u8]>::to_vec))
        };
        let rows = (0..series.data.len()).map(row).collect();
        let sums = |covs: &[f64]| match covs.is_empty() {
            true => Vec::new(),
            false => {
                (0..n).map(|i| (0..series.data.len()).map(|k| std(covs, n, k, i)).sum()).collect()
            }
        };
        let stds = [sums(&smoothed.covs), sums(&smoothed.filtered_covs)];
        let drawn = args.tables.plot.path.is_some();
        let search = smoothed.search;
        Self { rows, stds, search, smoothed: if drawn { smoothed } else { Smoothed::default() } }
    }
}

/// The standard deviation of state `i` at row `k`; NaN where there is none.
fn std(covs: &[f64], n: usize, k: usize, i: usize) -> f64 {
    covs.get(k * n * n + i * (n + 1)).map_or(f64::NAN, |&v| if v < 0.0 { 0.0 } else { v.sqrt() })
}

/// The columns of the results.
fn columns(args: &Args, spec: &ModelSpec, layout: &Layout) -> Vec<OutputColumn> {
    let mut columns = vec![OutputColumn::Time(layout.time.clone().unwrap_or_else(|| "t".into()))];
    columns.extend(layout.by.clone().map(OutputColumn::Label));
    let endings: &[&str] =
        if args.both { &["", "_std", "_filtered", "_filtered_std"] } else { &["", "_std"] };
    for ending in endings {
        let name = |state: &String| OutputColumn::Number(format!("{state}{ending}"));
        columns.extend(spec.states.iter().map(name));
    }
    columns
}

/// Writes all series, rows in the order in which they were read.
fn write(
    args: &Args,
    spec: &ModelSpec,
    format: &Format,
    series: &[Whole],
    done: Vec<Done>,
) -> Result<(), Failure> {
    let layout = &series[0].layout;
    let mut rows: Vec<Row> = vec![Row::default(); done.iter().map(|done| done.rows.len()).sum()];
    for (number, (series, done)) in series.iter().zip(done).enumerate() {
        for (place, (mut values, time)) in series.places.iter().zip(done.rows) {
            if layout.by.is_some() {
                values.insert(1, number as f64);
            }
            rows[*place] = (values, time);
        }
    }
    let labels: Vec<String> = series.iter().map(|series| series.key.clone()).collect();
    let columns = columns(args, spec, layout);
    whole::write_table(&args.tables.out, *format, columns, &labels, rows.into_iter())
}

/// What there is to say of a run.
struct Summary<'a> {
    spec: &'a ModelSpec,
    filter: &'a FilterSpec,
    series: usize,
    rows: usize,
    /// Mean standard deviations, of the smoother and of the filter; NaN without any.
    stds: [Vec<f64>; 2],
    seconds: f64,
    form: Option<String>,
    searches: Vec<Search>,
}

impl<'a> Summary<'a> {
    fn new(
        spec: &'a ModelSpec,
        filter: &'a FilterSpec,
        form: Option<&str>,
        done: &[Done],
        seconds: f64,
    ) -> Self {
        let rows = done.iter().map(|done| done.rows.len()).sum::<usize>();
        let mean = |which: usize| {
            let of = |done: &Done, i: usize| done.stds[which].get(i).copied().unwrap_or(f64::NAN);
            let sum = |i: usize| done.iter().map(|done| of(done, i)).sum::<f64>();
            (0..spec.states.len()).map(|i| sum(i) / rows as f64).collect()
        };
        Self {
            spec,
            filter,
            series: done.len(),
            rows,
            stds: [mean(0), mean(1)],
            seconds,
            form: form.map(str::to_owned),
            searches: done.iter().filter_map(|done| done.search).collect(),
        }
    }

    /// The most passes that a path took, and whether all are the best there are; `None` where no path was looked for.
    fn search(&self) -> Option<(u32, bool)> {
        let most = self.searches.iter().map(|search| search.passes).max()?;
        Some((most, self.searches.iter().all(|search| search.global)))
    }

    fn text(&self) -> String {
        let Self { filter, series, rows, stds: [after, before], seconds, .. } = self;
        let several = if *series > 1 { format!("{series} series, ") } else { String::new() };
        let flags = with_form(&filter.flags(), self.form.as_deref());
        let mut out = format!("{flags}\n{several}{rows} rows in {seconds:.2} s\n");
        if let Some((passes, global)) = self.search() {
            let kind = if global { "the best of all" } else { "a local optimum" };
            out.push_str(&format!(
                "path of the highest posterior density: {kind}, after {passes} passes\n"
            ));
        }
        if after.iter().all(|std| std.is_nan()) {
            out.push_str("no standard deviations: this window has none\n");
            return out;
        }
        for (i, name) in self.spec.states.iter().enumerate() {
            out.push_str(&format!("{name}: mean standard deviation {}", style::short(after[i])));
            if before[i].is_finite() {
                out.push_str(&format!(", of the filter {}", style::short(before[i])));
            }
            out.push('\n');
        }
        out
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "model": self.spec.name,
            "settings": self.filter.filled(),
            "series": self.series,
            "rows": self.rows,
            "mean_std": self.stds[0],
            "mean_filtered_std": self.stds[1],
            "seconds": self.seconds,
            "form": self.form,
            "passes": self.search().map(|(passes, _)| passes),
            "optimum": self.search().map(|(_, global)| if global { "global" } else { "local" }),
            "loss": self.searches.iter().map(|search| search.loss).sum::<f64>(),
        })
    }
}

/// The most states and the most observations that have a panel.
const MOST: usize = 24;

/// One panel for each state with both bands, and one for each observation with what the smoothed states expect.
fn figure(
    spec: &ModelSpec,
    runner: &Arc<dyn Runner>,
    table: &Whole,
    smoothed: &Smoothed,
) -> Result<Figure, Failure> {
    let (n, m) = (spec.states.len(), spec.observations.len());
    let data = &table.data;
    let panel = |name: &str| {
        let axis = time_axis(data.origin.map(|_| spec.seconds_per_unit));
        Panel::new(name, axis, Axis::linear(""))
    };
    let mut figure = Figure::new(format!("{}, smoothed", spec.name));
    figure.shared_x = true;
    for (i, name) in spec.states.iter().enumerate().take(MOST) {
        let mut panel = panel(name);
        let both = [
            (&smoothed.filtered_means, &smoothed.filtered_covs, ORANGE, "filtered"),
            (&smoothed.means, &smoothed.covs, BLUE, "smoothed"),
        ];
        let (mut bands, mut lines) = (Vec::new(), Vec::new());
        for (means, covs, color, name) in both {
            let (mut line, mut band) = (Thinner::default(), Thinner::default());
            for k in 0..data.len() {
                let (mean, std) = (means[k * n + i], std(covs, n, k, i));
                line.push(data.time(k), mean);
                band.push_band(data.time(k), mean - 2.0 * std, mean + 2.0 * std);
            }
            if !band.is_empty() {
                bands.push(Mark::band(band.band()).color(color));
            }
            let width = if name == "smoothed" { 1.8 } else { 1.2 };
            let label = format!("{name}, two standard deviations");
            let label = if covs.is_empty() { name.to_owned() } else { label };
            lines.push(Mark::line(line.line()).color(color).size(width).named(label));
        }
        panel.marks.extend(bands.into_iter().chain(lines));
        figure.panels.push(panel);
    }
    let live = runner.start(runner.default_start()).map_err(Failure::other)?;
    let mut expected = vec![0.0; m];
    let mut strips = vec![(Thinner::default(), Thinner::default()); m];
    for k in 0..data.len() {
        let state = &smoothed.means[k * n..][..n];
        live.expected(state, data.input(k), &data.steps[k], &mut expected);
        for ((measured, line), (y, h)) in
            strips.iter_mut().zip(data.output(k).iter().zip(&expected))
        {
            measured.push(data.time(k), *y);
            line.push(data.time(k), *h);
        }
    }
    for (name, (measured, line)) in spec.observations.iter().zip(&strips).take(MOST) {
        let measured = Mark::points(measured.points()).color(GREY).named("measured");
        let line = Mark::line(line.line()).color(BLUE).named("of the smoothed states");
        figure.panels.push(panel(name).with(measured).with(line));
    }
    Ok(figure)
}
