//! `optfilter smooth`: what all rows, also later ones, say of each row.

mod args;
mod columns;
mod done;
mod lag;
mod summary;

pub use args::Args;

use crate::failure::Failure;
use crate::plot::time_axis;
use crate::whole::{self, Row, Whole};
use columns::{columns, std};
use done::Done;
use optfilter_model::ModelSpec;
use optfilter_model::run::Prepared;
use optfilter_model::table::Format;
use optfilter_plot::color::{BLUE, GREY, ORANGE};
use optfilter_plot::{Axis, Figure, Mark, Panel, Thinner};
use optfilter_run::{CancelCheck, DynFilter, Smoothed, smooth_from};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;
use summary::Summary;

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    args.tables.each()?.into_iter().try_for_each(|tables| one(&Args { tables, ..args.clone() }))
}

/// One table of results.
fn one(args: &Args) -> Result<(), Failure> {
    let tables = &args.tables;
    let asked = tables.check(&[])?;
    let spec = &asked.prepared.spec;
    if let Some(rows) = args.lag {
        return lag::run(args, &asked, rows as usize);
    }
    let series = tables.source(&asked).read(spec)?;
    let begun = Instant::now();
    let first = asked.prepared.smoothing(series[0].data.len())?;
    let series_len = series[0].data.len();
    let smooth = |series: &Whole| -> Result<Done, Failure> {
        // A window as long as the series is another filter for every length.
        let Prepared { filter, runner, .. } = match series.data.len() == series_len {
            true => first.clone(),
            false => asked.prepared.smoothing(series.data.len())?,
        };
        let failed = |error| series.failure(spec, &filter, error);
        let watch = CancelCheck { stride: 64, stop: &whole::asked_to_end };
        let data = series.data.series(spec, &filter).map_err(|e| failed(e.into()))?;
        let smoothed =
            smooth_from(&*runner, runner.default_start(), &data, &watch).map_err(failed)?;
        Ok(Done::new(args, spec, series, smoothed))
    };
    let done: Vec<Done> = series.par_iter().map(smooth).collect::<Result<_, _>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    let summary = Summary::new(spec, &first.filter, first.runner.form(), &done, seconds);
    if let (Some(_), [only]) = (&tables.plot.path, &done[..]) {
        let figure = figure(spec, &first.runner, &series[0], &only.smoothed)?;
        tables.plot.write(&summary.text(), || figure)?;
    }
    write(args, spec, &asked.out_format, &series, done)?;
    args.summary.say(tables, || summary.text(), || summary.json())
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

/// The most states and the most observations that have a panel.
const MOST: usize = 24;

/// One panel for each state with both bands, and one for each observation with what the smoothed states expect.
fn figure(
    spec: &ModelSpec,
    runner: &Arc<dyn DynFilter>,
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
