//! `optfilter diagnose`: whether a filter and its data agree, in numbers, words and a picture.

use crate::failure::Failure;
use crate::files;
use crate::plot::time_axis;
use crate::reading::LookFlags;
use crate::settings::{warn_of_unmoved, with_form};
use crate::style;
use crate::whole::{WHEN_ASKED, Whole};
use optfilter::filter::Followed;
use optfilter::scalar::Scalar;
use optfilter_model::ModelSpec;
use optfilter_model::run::Prepared;
use optfilter_plot::color::{BLUE, GREY};
use optfilter_plot::{Axis, Figure, Mark, Panel, Thinner};
use optfilter_run::{Diagnosis, FilterSpec, InnovationRecord, InnovationScale, Residuals, walk};
use serde_json::json;
use std::fmt::Write;

/// Say whether a filter and its data agree: error bars, whiteness, outliers, particles
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter diagnose nile.toml nile.csv
  optfilter diagnose model.toml data.csv --method ukf --plot residuals.svg
  optfilter diagnose model.toml data.csv --json

Innovations over their own standard deviations should be independent standard normal numbers. Mean NIS is compared \
with its 95 % band, their independence is tested by Ljung and Box, their normality by Jarque and Bera; a test speaks \
up below 1 %. Lags count from measurement to measurement: a gap is stepped over. The last lines say what is wrong, and what helps. The table is held in memory.")]
pub struct Args {
    #[command(flatten)]
    look: LookFlags,
}

/// Runs the command.
pub fn run(Args { look }: Args) -> Result<(), Failure> {
    let prepared = look.filter.prepare(look.check()?)?;
    let Prepared { spec, filter, runner, .. } = &prepared;
    look.filter.check_discount(filter)?;
    let series = look.series(spec, &[], filter.predict_first())?;
    let rows = run_through(&prepared, &series)?;
    let found =
        Diagnosis::new(&rows, spec.observations.len(), filter.particles() as usize, &spec.heavy())
            .gated(filter.gate.is_some());
    let unmoved = prepared.unmoved();
    let text = describe(spec, (filter, runner.form()), &found);
    look.plot.write(&text, || figure(spec, &series, &rows, &found))?;
    if look.json {
        let mut json = json(spec, filter, &found);
        json["unmoved"] = unmoved.into();
        return files::print(&format!("{json}\n"));
    }
    warn_of_unmoved(&unmoved, filter);
    files::print(&text)
}

/// Filters the rows, keeping what a diagnosis reads.
fn run_through(prepared: &Prepared, series: &Whole) -> Result<Vec<InnovationRecord>, Failure> {
    let Prepared { spec, filter, runner, .. } = prepared;
    let mut live = runner.start(runner.default_start()).map_err(Failure::other)?;
    let data = &series.data;
    let mut rows = Vec::with_capacity(data.len());
    let done = walk(&mut *live, &data.rows(0..data.len(), filter), |row, _, estimate| {
        let outputs = estimate.innovation.len();
        rows.push(InnovationRecord {
            innovation: estimate.innovation.clone(),
            std: (0..outputs).map(|i| estimate.innovation_std(i)).collect(),
            nis: estimate.nis,
            log_likelihood: estimate.log_likelihood,
            observed: estimate.observed,
            effective: estimate.effective,
            lost: estimate.followed != Followed::OnTrack,
        });
        Ok(WHEN_ASKED.check(row)?)
    });
    done.map_err(|error| series.failure(spec, filter, error))?;
    Ok(rows)
}

fn describe(
    spec: &ModelSpec,
    (filter, form): (&FilterSpec, Option<&str>),
    found: &Diagnosis,
) -> String {
    let mut out = format!("{}\n", with_form(&filter.flags(), form));
    let _ = write!(out, "{} rows", found.rows);
    if found.missing > 0 {
        let _ = write!(out, ", {} without a measurement", found.missing);
    }
    if let Some(sum) = found.log_likelihood {
        let _ = write!(out, ", log-likelihood {}", style::short(sum));
    }
    out.push('\n');
    if let Some((mean, (low, high))) = found.nis {
        let _ = writeln!(out, "mean NIS {mean:.3} (95 % band {low:.3} to {high:.3})");
    }
    if let Some(e) = found.effective {
        let _ = writeln!(
            out,
            "{:.0} of {} particles count on average, {:.0} in row {}",
            e.mean, e.particles, e.least, e.row
        );
    }
    let head = [
        "innovations of",
        "count",
        "mean",
        "std",
        "skewness",
        "kurtosis",
        "lag 1",
        "white p",
        "normal p",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, r) in spec.observations.iter().zip(&found.residuals) {
        let lag1 = r.autocorrelations.first().copied().unwrap_or(f64::NAN);
        let numbers = [r.mean, r.std, r.skewness, r.kurtosis, lag1, r.ljung_box.1, r.jarque_bera.1];
        let mut row = vec![name.clone(), r.count.to_string()];
        row.extend(numbers.map(|v| format!("{v:.3}")));
        rows.push(row);
    }
    let _ = write!(out, "\n{}", style::table(&rows));
    let raw = found.residuals.iter().any(|r| r.sequence == InnovationScale::Raw);
    out.push_str(match raw {
        true => "in units of the measurements: the filter has no standard deviations of them",
        false => "in their own standard deviations",
    });
    // A gap is no row of this sequence: what comes after it is one lag from what came before.
    let gaps = found.residuals.iter().any(|r| r.count < found.rows);
    out.push_str(if gaps {
        "; lags from measurement to measurement, over gaps\n\n"
    } else {
        "\n\n"
    });
    let remarks = found.remarks(&spec.observations);
    if remarks.is_empty() {
        let _ = writeln!(out, "{}", style::good("The filter and the data agree."));
    }
    for remark in remarks {
        let _ = writeln!(out, "- {remark}");
    }
    out
}

fn json(spec: &ModelSpec, filter: &FilterSpec, found: &Diagnosis) -> serde_json::Value {
    let residuals = spec.observations.iter().zip(&found.residuals).map(|(name, r)| {
        let value = json!({
            "count": r.count, "mean": r.mean, "std": r.std, "skewness": r.skewness, "kurtosis": r.kurtosis,
            "scaled": r.sequence == InnovationScale::Standardized,
            "jarque_bera": r.jarque_bera.0, "jarque_bera_p": r.jarque_bera.1,
            "ljung_box": r.ljung_box.0, "ljung_box_p": r.ljung_box.1,
            "autocorrelations": r.autocorrelations,
        });
        (name.clone(), value)
    });
    let remarks = found.remarks(&spec.observations);
    json!({
        "filter": filter.flags(),
        "rows": found.rows,
        "missing": found.missing,
        "log_likelihood": found.log_likelihood,
        "nis": found.nis.map(|(mean, (low, high))| json!({ "mean": mean, "low": low, "high": high })),
        "effective": found.effective.map(|e| json!({
            "particles": e.particles, "mean": e.mean, "least": e.least, "row": e.row,
        })),
        "lost": found.lost.map_or(0, |(rows, _)| rows),
        "lost_at": found.lost.map(|(_, first)| first),
        "residuals": residuals.collect::<serde_json::Map<_, _>>(),
        "agrees": remarks.is_empty(),
        "remarks": remarks,
    })
}

/// Three panels for each measurement: over time, against normal quantiles, and their autocorrelation.
fn figure(
    spec: &ModelSpec,
    series: &Whole,
    rows: &[InnovationRecord],
    found: &Diagnosis,
) -> Figure {
    let mut figure = Figure::new(format!("Innovations of {}", spec.name));
    figure.columns = 3;
    let calendar = series.data.origin.map(|_| spec.seconds_per_unit);
    for (i, (name, residuals)) in
        spec.observations.iter().zip(&found.residuals).enumerate().take(MOST)
    {
        let value = |row: &InnovationRecord| match residuals.sequence {
            InnovationScale::Standardized => row.innovation[i] / row.std[i],
            InnovationScale::Raw => (row.innovation[i] - residuals.mean) / residuals.std,
        };
        let (mut thin, mut z) = (Thinner::default(), Vec::new());
        for (k, row) in rows.iter().enumerate().filter(|(_, row)| value(row).is_finite()) {
            thin.push(series.data.time(k), value(row));
            z.push(value(row));
        }
        let ends = [0, rows.len() - 1].map(|k| series.data.time(k));
        let level = |v: f64| Mark::line(ends.map(|t| (t, v))).color(GREY).dashed();
        figure.panels.push(
            Panel::new(name.as_str(), time_axis(calendar), Axis::linear("standard deviations"))
                .with(Mark::points(thin.points()).color(BLUE))
                .with(level(1.96))
                .with(level(-1.96)),
        );
        figure.panels.push(quantiles(name, z));
        figure.panels.push(correlations(name, residuals));
    }
    figure
}

/// The most measurements that are drawn.
const MOST: usize = 8;

fn quantiles(name: &str, mut z: Vec<f64>) -> Panel {
    z.sort_by(f64::total_cmp);
    let count = z.len() as f64;
    let points = z.iter().enumerate().map(|(k, v)| (normal_quantile((k as f64 + 0.5) / count), *v));
    let points: Vec<_> = points.collect();
    let reach = points.last().map_or(3.0, |p| p.0.abs());
    Panel::new(
        format!("{name}, against normal quantiles"),
        Axis::linear("normal quantile"),
        Axis::linear("standard deviations"),
    )
    .with(Mark::line([(-reach, -reach), (reach, reach)]).color(GREY).dashed())
    .with(Mark::points(points).color(BLUE))
}

fn correlations(name: &str, residuals: &Residuals) -> Panel {
    let band = residuals.correlation_band();
    let last = residuals.autocorrelations.len() as f64 + 0.6;
    let level = |v: f64| Mark::line([(0.4, v), (last, v)]).color(GREY).dashed();
    let bars = residuals.autocorrelations.iter().zip(1u32..).map(|(r, lag)| (f64::from(lag), *r));
    Panel::new(
        format!("{name}, autocorrelation"),
        Axis::linear("lag"),
        Axis::linear("").range(-1.0, 1.0),
    )
    .with(Mark::bars(bars, 0.6, BLUE))
    .with(level(band))
    .with(level(-band))
}

/// The value below which a standard normal number lies with this probability.
fn normal_quantile(probability: f64) -> f64 {
    let square = optfilter::chi_square::quantile((2.0 * probability - 1.0).abs(), 1);
    Scalar::sqrt(square).copysign(probability - 0.5)
}
