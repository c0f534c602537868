//! `optfilter explain`: the prior that an optimizer and a number of steps imply.

use crate::failure::Failure;
use crate::files;
use crate::matrix::{matrix_rows, write_matrix};
use crate::reading::ReadingFlags;
use crate::settings::{FilterFlags, positive};
use crate::{steady, style};
use nalgebra::DMatrix;
use optfilter::equivalence::{self, EquivalenceError};
use optfilter::model::{Dynamics, Observation, Step, linearize_transition};
use optfilter_model::ModelSpec;
use optfilter_model::run::typical_states;
use optfilter_run::{CG, Estimate, FilterSpec, Linearized, Method};
use std::fmt::Write;
use std::path::PathBuf;

/// Show the prior that an optimizer and a number of steps imply, or the gain of a classical filter
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter explain nile.toml nile.csv --optimizer gd --steps 3 --lr 1000
  optfilter explain pendulum --optimizer gd --steps 5 --lr 0.01 --gain 0.3
  optfilter explain model.toml data.csv --optimizer adam --steps 10 --lr 0.05
  optfilter explain nile.toml --method kf

With --method kf, ekf, iekf, ukf or pf: the covariance and the gain at which the filter settles. K steps of gradient \
descent on the likelihood alone are a Kalman update with some prior covariance (Santos 1996; Section 3 of the paper). \
The model is linearised at the state the data are typically in, or at the initial mean without data.")]
pub struct Args {
    /// Model file (TOML), or the name of a built-in system
    model: PathBuf,
    /// Table with the measurements, to linearise at their typical state
    data: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingFlags,
    /// Which settings give this gain (between 0 and 1, along the best-seen direction)?
    #[arg(long, value_name = "G", value_parser = positive)]
    gain: Option<f64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterFlags,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.gain.is_some_and(|g| g >= 1.0) {
        return Err(Failure::usage("--gain is a number between 0 and 1"));
    }
    let (_, spec) = args.reading.model(&args.model)?;
    let filter = args.filter.or_imap(args.gain.is_some()).prepare(spec.clone())?.filter;
    let (state, step, u) = typical(&args, &spec)?;
    let at = Linearized::at(&spec.problem()?, &state, &step, &u)?;
    if !filter.method().optimizes() {
        return files::print(&steady::page(&spec, &filter, &at, (&step, &u), args.json)?);
    }
    let past = filter.window();
    if past > 0 && args.gain.is_some() {
        return Err(Failure::usage("--gain is for filters without a window"));
    }
    if past * spec.observations.len() > MAX_ROWS {
        return Err(Failure::usage(format!(
            "--window {past} has too many measurements to be explained ({} of at most {MAX_ROWS}); try a shorter one",
            past * spec.observations.len()
        )));
    }
    let (_, f) = linearize_transition(&spec.compile(), &state, &u, &step);
    let over = at.over_window(&f, past, filter.discount());
    let (row, at) = (at, over);
    let largest = 1.0 / at.curvature();
    let weak = filter.is_windowed() && filter.is_weak();
    let strong = filter.method() == Method::Imap && !weak;
    let prior = match filter.optimizer() {
        "gd" if strong => {
            Some(equivalence::implied_prior_of_rate(filter.lr(), &at.h, &at.r, filter.steps()))
        }
        "momentum" | "nesterov" if strong => {
            let rule = filter.rule()?;
            Some(equivalence::implied_prior_of_rule(&rule, &at.h, &at.r, filter.steps()))
        }
        _ => None,
    };
    let gain = match &prior {
        // Of the newest measurement on the newest state.
        Some(Ok(prior)) => at.gain(prior).map(|gain| {
            let m = spec.observations.len();
            let newest = gain.columns(past * m, m).into_owned();
            (0..past).fold(newest, |gain, _| &f * gain)
        }),
        _ => measured_gain(&spec, &filter, &row, &step, &u),
    };
    let wanted = args.gain.map(|g| rates_for_gain(g, &at));
    let page = Page {
        spec: &spec,
        filter: &filter,
        at: &at,
        largest,
        prior,
        gain,
        wanted,
        asked: args.gain,
    };
    files::print(&if args.json { format!("{}\n", page.json()) } else { page.text() })
}

/// The typical state of the data (the middle one), or the initial mean.
fn typical(args: &Args, spec: &ModelSpec) -> Result<(Vec<f64>, Step, Vec<f64>), Failure> {
    let Some(path) = &args.data else {
        let u = vec![0.0; spec.inputs.len()];
        return Ok((spec.initial_mean.clone(), Step { time: 0.0, ..Step::even(1, spec.dt) }, u));
    };
    let data = args.reading.one_series(path, spec, &[], spec.filter.predict_first())?.data;
    let states = typical_states(spec, &data, 101, data.len());
    let n = spec.states.len();
    let middle: Vec<f64> = (0..n)
        .map(|i| {
            let mut values: Vec<f64> = states.iter().map(|(s, _)| s[i]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        })
        .collect();
    // The row whose state is nearest to the middle in every component, so that it is a real one.
    let distance =
        |s: &[f64]| -> f64 { s.iter().zip(&middle).map(|(a, b)| (a - b) * (a - b)).sum() };
    let best = states.iter().min_by(|a, b| distance(&a.0).total_cmp(&distance(&b.0)));
    let (state, row) = best.cloned().unwrap_or((middle, 0));
    Ok((state, data.steps[row], data.input(row).to_vec()))
}

/// Measurements in a window beyond which its prior would take long.
const MAX_ROWS: usize = 2500;

/// dx/dy of the update, with nothing surprising in the rows before it, by central differences with steps of one deviation
/// of the measurement: the rules that adapt are not linear, so the gain depends on the size of the surprise.
fn measured_gain(
    spec: &ModelSpec,
    filter: &FilterSpec,
    at: &Linearized,
    step: &Step,
    u: &[f64],
) -> Option<DMatrix<f64>> {
    let (n, m) = (spec.states.len(), spec.observations.len());
    let mut start = spec.clone();
    start.initial_mean = at.state.clone();
    let filter = FilterSpec { error_bars: Some(false), ..filter.clone() };
    let runner = start.runner(&filter).ok()?;
    let model = spec.compile();
    let mut rows: Vec<(Step, Vec<f64>)> = Vec::new();
    let mut state = at.state.clone();
    for k in 0..=filter.window() {
        let time = step.time + k as f64 * step.dt;
        let step = Step { time, ..Step::even(k as u64 + 1, step.dt) };
        if k > 0 {
            let mut next = vec![0.0; n];
            model.transition(&state, u, &step, &mut next);
            state = next;
        }
        let mut y = vec![0.0; m];
        model.observe(&state, u, &step, &mut y);
        rows.push((step, y));
    }
    let (last, expected) = rows.pop()?;
    let update = |y: &[f64]| {
        let mut out = Estimate::default();
        let mut live = runner.start(runner.default_start()).ok()?;
        for (k, (step, y)) in rows.iter().enumerate() {
            live.step(k > 0, step, u, y, &mut out).ok()?;
        }
        live.step(!rows.is_empty(), &last, u, y, &mut out).ok()?;
        Some(out.mean)
    };
    let mut gain = DMatrix::zeros(n, m);
    for j in 0..m {
        let h = at.r[(j, j)].sqrt();
        let shifted = |by: f64| {
            let mut y = expected.clone();
            y[j] += by;
            y
        };
        let (up, down) = (update(&shifted(h))?, update(&shifted(-h))?);
        for i in 0..n {
            gain[(i, j)] = (up[i] - down[i]) / (2.0 * h);
        }
    }
    Some(gain)
}

/// Learning rates of plain gradient descent that give a gain along the direction seen best:
/// 1 - (1 - lr s)^K = gain.
fn rates_for_gain(gain: f64, at: &Linearized) -> Vec<(u32, f64)> {
    let s = at.curvature();
    [1u32, 2, 3, 5, 10, 25, 50]
        .into_iter()
        .map(|k| (k, (1.0 - (1.0 - gain).powf(1.0 / f64::from(k))) / s))
        .collect()
}

struct Page<'a> {
    spec: &'a ModelSpec,
    filter: &'a FilterSpec,
    at: &'a Linearized,
    largest: f64,
    /// The prior, or why there is none; `None` for rules that are not linear in the data.
    prior: Option<Result<DMatrix<f64>, EquivalenceError>>,
    gain: Option<DMatrix<f64>>,
    wanted: Option<Vec<(u32, f64)>>,
    asked: Option<f64>,
}

impl Page<'_> {
    fn admissible(&self) -> Option<bool> {
        let too_large = |error: &EquivalenceError| {
            use EquivalenceError::{LearningRateTooLarge, Overshoot};
            matches!(error, LearningRateTooLarge { .. } | Overshoot { .. })
        };
        self.prior.as_ref().map(|prior| !prior.as_ref().is_err_and(too_large))
    }

    fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Page { spec, filter, at, .. } = self;
        writeln!(out, "{}\n{}\n", spec.name, filter.flags())?;
        let state: Vec<String> = spec
            .states
            .iter()
            .zip(&at.state)
            .map(|(n, v)| format!("{n} = {}", style::short(*v)))
            .collect();
        writeln!(out, "Linearised at {}\n", state.join(", "))?;
        writeln!(out, "Learning rate")?;
        match self.admissible() {
            Some(_) if filter.optimizer() != "gd" => match &self.prior {
                Some(Err(error)) => writeln!(out, "  {error}\n")?,
                _ => writeln!(
                    out,
                    "  {} is admissible: {} is linear in what it sees, and its steps end short of the minimum\n",
                    filter.lr(),
                    filter.optimizer()
                )?,
            },
            Some(true) if filter.lr() >= self.largest => writeln!(
                out,
                "  {} is admissible: each step overshoots, since it is not below {}, one over the curvature of the\n  \
                 likelihood, but an even number of steps ends on the side where it began\n",
                filter.lr(),
                style::short(self.largest)
            )?,
            Some(true) => writeln!(
                out,
                "  {} is admissible: it is below {}, one over the curvature of the likelihood\n",
                filter.lr(),
                style::short(self.largest)
            )?,
            Some(false) => writeln!(
                out,
                "  {} is not admissible: no prior implies it, since it is not below {}, one over the\n  \
                 curvature of the likelihood; each step overshoots, and from twice that on they diverge\n  \
                 (below twice that an even number of steps implies a prior)\n",
                filter.lr(),
                style::short(self.largest)
            )?,
            None if filter.optimizer() == CG => writeln!(
                out,
                "  cg has none, and how far it goes depends on the data: no one prior describes it\n"
            )?,
            None if filter.is_windowed() && filter.is_weak() => writeln!(
                out,
                "  the path may bend at every row, so no prior of one state describes it\n"
            )?,
            None => writeln!(
                out,
                "  {} adapts its steps, so no one prior describes it (for gd: below {})\n",
                filter.optimizer(),
                style::short(self.largest)
            )?,
        }
        if let Some(Err(error @ EquivalenceError::PriorTooWide { .. })) = &self.prior {
            writeln!(out, "  {error}\n")?;
        }
        if let Some(Ok(prior)) = &self.prior {
            let of = match filter.window() {
                0 => String::new(),
                past => format!(", of the state {past} rows ago"),
            };
            writeln!(out, "Prior covariance implied by {} steps{of}", filter.steps())?;
            write_matrix(out, prior, &spec.states, &spec.states)?;
            writeln!(
                out,
                "  (standard deviations {})\n",
                (0..prior.nrows())
                    .map(|i| format!("{} {}", spec.states[i], style::short(prior[(i, i)].sqrt())))
                    .collect::<Vec<_>>()
                    .join(", ")
            )?;
            let unseen: Vec<&str> = (0..spec.states.len())
                .filter(|&j| at.h.column(j).iter().all(|v| *v == 0.0))
                .map(|j| spec.states[j].as_str())
                .collect();
            if !unseen.is_empty() {
                writeln!(
                    out,
                    "  The measurement does not depend on {} here, so no step moves it, whatever its prior.\n",
                    unseen.join(", ")
                )?;
            }
        }
        match (&self.gain, matches!(self.prior, Some(Ok(_)))) {
            (Some(gain), exact) => {
                writeln!(
                    out,
                    "Equivalent gain (change of the state per unit of surprise){}",
                    if exact { "" } else { ", for a surprise of one standard deviation" }
                )?;
                write_matrix(out, gain, &spec.states, &spec.observations)?;
            }
            (None, _) => writeln!(out, "The update diverges here, so it has no gain")?,
        }
        if let (Some(rates), Some(gain)) = (&self.wanted, self.asked) {
            writeln!(out, "\nSettings with a gain of {gain} along the direction seen best")?;
            for (steps, rate) in rates {
                writeln!(out, "  --optimizer gd --steps {steps} --lr {}", style::short(*rate))?;
            }
        }
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let rows = matrix_rows;
        serde_json::json!({
            "settings": self.filter.filled(),
            "state": self.at.state,
            "observation_matrix": rows(&self.at.h),
            "measurement_cov": rows(&self.at.r),
            "largest_rate": self.largest,
            "admissible": self.admissible(),
            "implied_prior": self.prior.as_ref().and_then(|p| p.as_ref().ok()).map(rows),
            "gain": self.gain.as_ref().map(rows),
            "rates_for_gain": self.wanted.as_ref().map(|w| {
                w.iter().map(|(k, lr)| serde_json::json!({"steps": k, "lr": lr})).collect::<Vec<_>>()
            }),
            "method": self.filter.method(),
        })
    }
}
