//! `optfilter smooth`: what all rows, also later ones, say of each row.

use crate::failure::Failure;
use crate::plot::time_axis;
use crate::style;
use crate::tables::{Asked, TableFlags};
use crate::whole::{self, Whole};
use optfilter_model::ModelSpec;
use optfilter_model::table::{Format, OutputColumn};
use optfilter_plot::color::{BLUE, GREY, ORANGE};
use optfilter_plot::{Axis, Figure, Mark, Panel, Thinner};
use optfilter_run::{FilterSpec, Runner, Smoothed, Watch, smooth_from};
use std::io::Write;
use std::time::Instant;

/// Smooth a table of measurements: estimates by all rows, earlier and later
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter smooth nile.toml nile.csv --out smoothed.csv --plot smoothed.svg
  optfilter smooth model.toml data.csv --method ukf --both

The result has the time, each state and each state's standard deviation (NAME_std) given the whole table; with --both also
what the filter had said (NAME_filtered, NAME_filtered_std).

kf, ekf, iekf and ukf are smoothed by Rauch, Tung and Striebel; pf by trajectories drawn backwards; imap takes the whole table as
one window, which may bend as far as the process noise says. The table is held in memory.")]
pub struct Args {
    #[command(flatten)]
    tables: TableFlags,
    /// Also write the estimates of the filter (NAME_filtered, NAME_filtered_std)
    #[arg(long)]
    both: bool,
    /// Print the summary as JSON (to standard output if --out is a file, else to standard error)
    #[arg(long)]
    json: bool,
    /// Print no summary
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let Args { tables, .. } = &args;
    let Asked { spec, filter, out_format, .. } = tables.check(&[])?;
    let table = Whole::read(tables, &spec, &filter)?;
    let filter = filter.smoothing(&spec.problem()?, table.data.len())?;
    let runner = spec.runner(&filter)?;
    let begun = Instant::now();
    let watch = Watch { stride: 64, stop: &whole::asked_to_end };
    let failed = |error| table.failure(&spec, &filter, error);
    let series = table.data.series(&spec, &filter).map_err(|e| failed(e.into()))?;
    let smoothed =
        smooth_from(&*runner, runner.default_start(), &series, &watch).map_err(failed)?;
    let seconds = begun.elapsed().as_secs_f64();
    write(&args, &spec, &table, &smoothed, out_format)?;
    let text = describe(&spec, &filter, &smoothed, seconds);
    if tables.plot.path.is_some() {
        let figure = figure(&spec, &*runner, &table, &smoothed)?;
        tables.plot.write(&text, || figure)?;
    }
    if args.json {
        return tables.say_json(&json(&spec, &filter, &smoothed, seconds));
    }
    if !args.quiet {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(())
}

/// The standard deviation of state `i` at row `k`; NaN where there is none.
fn std(covs: &[f64], n: usize, k: usize, i: usize) -> f64 {
    covs.get(k * n * n + i * (n + 1)).map_or(f64::NAN, |&v| if v < 0.0 { 0.0 } else { v.sqrt() })
}

fn write(
    args: &Args,
    spec: &ModelSpec,
    table: &Whole,
    smoothed: &Smoothed,
    format: Format,
) -> Result<(), Failure> {
    let n = spec.states.len();
    let time = table.layout.time.clone().unwrap_or_else(|| "t".into());
    let mut columns = vec![OutputColumn::Time(time)];
    let endings: &[&str] =
        if args.both { &["", "_std", "_filtered", "_filtered_std"] } else { &["", "_std"] };
    for ending in endings {
        let name = |state: &String| OutputColumn::Number(format!("{state}{ending}"));
        columns.extend(spec.states.iter().map(name));
    }
    let rows = (0..table.data.len()).map(|k| {
        let mut values = vec![table.data.time(k)];
        let mut push = |means: &[f64], covs: &[f64]| {
            values.extend_from_slice(&means[k * n..][..n]);
            values.extend((0..n).map(|i| std(covs, n, k, i)));
        };
        push(&smoothed.means, &smoothed.covs);
        if args.both {
            push(&smoothed.filtered_means, &smoothed.filtered_covs);
        }
        (values, table.rows.time_text(k).map(<[u8]>::to_vec))
    });
    whole::write_table(&args.tables.out, format, columns, rows)
}

/// The mean standard deviation of each state.
fn mean_stds(covs: &[f64], n: usize) -> Vec<f64> {
    let rows = covs.len() / (n * n);
    (0..n).map(|i| (0..rows).map(|k| std(covs, n, k, i)).sum::<f64>() / rows as f64).collect()
}

fn describe(spec: &ModelSpec, filter: &FilterSpec, smoothed: &Smoothed, seconds: f64) -> String {
    let n = spec.states.len();
    let rows = smoothed.means.len() / n;
    let mut out = format!("{}\n{rows} rows in {seconds:.2} s\n", filter.flags());
    if smoothed.covs.is_empty() {
        out.push_str("no standard deviations: this window has none\n");
        return out;
    }
    let (after, before) = (mean_stds(&smoothed.covs, n), mean_stds(&smoothed.filtered_covs, n));
    for (i, name) in spec.states.iter().enumerate() {
        out.push_str(&format!("{name}: mean standard deviation {}", style::short(after[i])));
        if before[i].is_finite() {
            out.push_str(&format!(", of the filter {}", style::short(before[i])));
        }
        out.push('\n');
    }
    out
}

fn json(
    spec: &ModelSpec,
    filter: &FilterSpec,
    smoothed: &Smoothed,
    seconds: f64,
) -> serde_json::Value {
    let n = spec.states.len();
    serde_json::json!({
        "model": spec.name,
        "settings": filter.filled(),
        "rows": smoothed.means.len() / n,
        "mean_std": mean_stds(&smoothed.covs, n),
        "mean_filtered_std": mean_stds(&smoothed.filtered_covs, n),
        "seconds": seconds,
    })
}

/// The most states and the most observations that have a panel.
const MOST: usize = 24;

/// One panel for each state with both bands, and one for each observation with what the smoothed states expect.
fn figure(
    spec: &ModelSpec,
    runner: &dyn Runner,
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
