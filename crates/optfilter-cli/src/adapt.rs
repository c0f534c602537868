//! `optfilter adapt`: keep a network up to date on a drifting stream of labelled samples.
//!
//! Each time step is predicted first and learnt from afterwards, so every score is one of foresight. `--compare` runs
//! static weights and direct fit beside the chosen method; `--tune` chooses K and the learning rate on the first part of
//! the stream; `--follow` goes on with JSON lines from standard input, one answer per line.

use crate::failure::Failure;
use crate::plot::PlotFlags;
use crate::{files, style};
use clap::ValueEnum;
use optfilter_nn::adapt::{
    AdaptError, CsvOptions, Follower, Labels, Method, Prediction, Score, Setup, Stream, Tuned,
    prequential, read_csv, read_npz, tune,
};
use optfilter_nn::filter::Memory;
use optfilter_nn::safetensors;
use optfilter_plot::color::PALETTE;
use optfilter_plot::{Axis, Figure, Mark, Panel};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;

/// Follow a drifting stream of labelled samples with a network.
#[derive(clap::Args)]
#[command(
    after_help = "Example: optfilter adapt electricity.csv --time date --network mlp:64,64 --pretrain 10 --compare\n\
    DATA is an npz with x, y and time, or a CSV with a label and a time column. Samples of equal time are one time step."
)]
pub struct Args {
    /// The stream: .npz (x, y, time) or .csv with a head.
    data: PathBuf,
    /// cnn, linear or mlp:64,64.
    #[arg(long, default_value = "mlp:64,64")]
    network: String,
    /// How the weights are kept up to date.
    #[arg(long, value_enum, default_value = "imap")]
    method: MethodName,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop or adam.
    #[arg(long, default_value = "adam")]
    optimizer: String,
    /// Optimizer steps per time step (K).
    #[arg(long, default_value_t = 50)]
    steps: u32,
    /// Learning rate; acts on the loss summed over the samples of a time step.
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Carry the optimizer's memory from one time step to the next instead of restarting it.
    #[arg(long)]
    carry: bool,
    /// Share of the way back to the initial weights at each time step.
    #[arg(long, default_value_t = 0.0)]
    decay: f64,
    /// Variance of the weights' random walk per time step (vkf, pf).
    #[arg(long, default_value_t = 0.01)]
    sigma2: f64,
    /// Number of particles (pf).
    #[arg(long, default_value_t = 1000)]
    particles: usize,
    /// Time steps at the beginning to fit the network to before it is judged.
    #[arg(long, default_value_t = 1)]
    pretrain: usize,
    /// Start from these weights instead of fitting (Flax or PyTorch layout).
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Save the final weights here (safetensors).
    #[arg(long)]
    save: Option<PathBuf>,
    /// Run static weights and direct fit as well.
    #[arg(long)]
    compare: bool,
    /// Choose K and the learning rate by prequential loss on the first 30 % of the time steps; scores are for the rest.
    #[arg(long)]
    tune: bool,
    /// After DATA, serve JSON lines from standard input: {"x": [...], "y": label}, y optional.
    #[arg(long)]
    follow: bool,
    /// Column of the label (CSV) [default: y, label, class or target, else the last].
    #[arg(long)]
    label: Option<String>,
    /// Column of the time (CSV) [default: time, t or date, else the row].
    #[arg(long)]
    time: Option<String>,
    /// Take this many rows as one time step.
    #[arg(long)]
    every: Option<usize>,
    /// Columns to leave out (CSV).
    #[arg(long, value_delimiter = ',')]
    ignore: Vec<String>,
    /// Whether labels are classes or numbers [default: as they look].
    #[arg(long, value_enum)]
    task: Option<Task>,
    /// Write the scores of every time step here (CSV).
    #[arg(long)]
    csv: Option<PathBuf>,
    #[command(flatten)]
    plot: PlotFlags,
    /// For initial weights and particles.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum MethodName {
    /// Implicit MAP filter: K optimizer steps.
    Imap,
    /// Variational Kalman filter: K steps with a pull to the prediction.
    Vkf,
    /// Particle filter.
    Pf,
    /// 1000 steps: fit each time step entirely.
    Direct,
    /// Weights that never change.
    Static,
}

#[derive(Clone, Copy, ValueEnum)]
enum Task {
    /// Labels are classes.
    Classify,
    /// Labels are numbers.
    Regress,
}

impl From<AdaptError> for Failure {
    fn from(e: AdaptError) -> Self {
        match &e {
            AdaptError::Diverged { .. } => Self { code: 4, message: e.to_string() },
            AdaptError::File { .. } | AdaptError::Npz(_) | AdaptError::Data(_) => Self::data(e),
            AdaptError::Network(_) | AdaptError::Optimizer(_) | AdaptError::Setting(_) => {
                Self::usage(e)
            }
            _ => Self::other(e),
        }
    }
}

/// A method that was run, and how each time step was predicted.
struct Run {
    name: String,
    scores: Vec<Score>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let outputs = [("--csv", &args.csv), ("--plot", &args.plot.path), ("--save", &args.save)];
    let outputs: Vec<_> = outputs.iter().filter_map(|(f, p)| Some((*f, p.as_deref()?))).collect();
    files::check_outputs(&[&args.data], &outputs)?;
    args.plot.check()?;
    let stream = read(&args)?;
    let method = match args.method {
        MethodName::Imap => Method::ImplicitMap { steps: args.steps },
        MethodName::Vkf => Method::Variational { steps: args.steps, transition_var: args.sigma2 },
        MethodName::Pf => Method::Particle { count: args.particles, transition_var: args.sigma2 },
        MethodName::Direct => Method::DirectFit,
        MethodName::Static => Method::Static,
    };
    let mut setup = Setup {
        network: args.network.clone(),
        method,
        optimizer: args.optimizer.clone(),
        lr: args.lr,
        memory: if args.carry { Memory::Carry } else { Memory::Restart },
        decay: args.decay,
        pretrain: args.pretrain,
        seed: args.seed,
    };
    let weights = match &args.weights {
        Some(path) => {
            let probe = Follower::new(
                &stream,
                &Setup { method: Method::Static, pretrain: 0, ..setup.clone() },
                None,
            )?;
            Some(
                safetensors::load(probe.network(), path)
                    .map_err(|e| Failure::data(format!("{}: {e}", path.display())))?,
            )
        }
        None => None,
    };
    describe(&stream);

    let mut first = args.pretrain;
    if args.tune {
        if !matches!(args.method, MethodName::Imap) {
            return Err(Failure::usage("--tune chooses K and the learning rate of --method imap"));
        }
        let end = first + ((stream.steps().saturating_sub(first)) * 3 / 10).max(1);
        let grid = (&[1, 3, 10, 30, 100][..], &[1e-2, 3e-3, 1e-3, 3e-4, 1e-4][..]);
        let tried = tune(&stream, &setup, weights.as_ref(), first..end, grid)?;
        if !args.json {
            report_tuning(&tried, end - first)?;
        }
        let Some(best) = tried.first().filter(|t| t.loss.is_finite()) else {
            return Err(Failure { code: 4, message: "every configuration diverged".into() });
        };
        (setup.method, setup.lr) = (Method::ImplicitMap { steps: best.steps }, best.lr);
        first = end;
        if first >= stream.steps() {
            return Err(Failure::data("no time steps are left after tuning"));
        }
    }

    // The steps before `first` are learnt from but not judged, by every method alike.
    let follow_one = |setup: &Setup| -> Result<(Follower, Vec<Score>), Failure> {
        let mut follower = Follower::new(&stream, setup, weights.clone())?;
        let start = follower.first();
        let mut scores = prequential(&mut follower, &stream, start..stream.steps())?;
        scores.drain(..first - start);
        Ok((follower, scores))
    };
    let (mut follower, scores) = follow_one(&setup)?;
    let mut runs = vec![Run { name: name(&setup), scores }];
    if args.compare {
        for other in [Method::Static, Method::DirectFit] {
            if other != setup.method {
                let setup = Setup { method: other, ..setup.clone() };
                runs.push(Run { name: name(&setup), scores: follow_one(&setup)?.1 });
            }
        }
    }
    if args.json {
        files::print(&format!("{}\n", summary_json(&runs, stream.labels())))?;
    } else {
        files::print(&summary(&runs, stream.labels()))?;
    }
    if let Some(path) = &args.csv {
        files::write(path, csv(&runs, stream.labels()))?;
    }
    let (samples, steps) = (stream.len(), stream.steps());
    let note =
        format!("{samples} samples in {steps} time steps; predicted first, learnt afterwards.");
    args.plot.write(&note, || figure(&runs, stream.labels(), &args))?;
    if let Some(path) = &args.save {
        safetensors::save(follower.network(), follower.weights(), path).map_err(Failure::other)?;
    }
    if args.follow {
        serve(&mut follower, &stream)?;
        if let Some(path) = &args.save {
            safetensors::save(follower.network(), follower.weights(), path)
                .map_err(Failure::other)?;
        }
    }
    Ok(())
}

fn read(args: &Args) -> Result<Stream, Failure> {
    let regress = args.task.map(|t| matches!(t, Task::Regress));
    if args.every == Some(0) {
        return Err(Failure::usage("--every needs at least one row"));
    }
    if args.data.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz")) {
        return Ok(read_npz(&args.data, args.every, regress)?);
    }
    let options = CsvOptions {
        label: args.label.clone(),
        time: args.time.clone(),
        every: args.every,
        ignore: args.ignore.clone(),
        regress,
    };
    Ok(read_csv(&args.data, &options)?)
}

fn describe(stream: &Stream) {
    let labels = match stream.labels() {
        Labels::Classes { names, .. } => format!("classes {}", names.join(", ")),
        Labels::Values(_) => "numbers to predict".into(),
    };
    eprintln!(
        "{} samples of {} in {} time steps; {labels}",
        stream.len(),
        stream.shape(),
        stream.steps()
    );
}

fn name(setup: &Setup) -> String {
    match setup.method {
        Method::ImplicitMap { steps } => {
            format!("implicit MAP, {} K={steps} lr={}", setup.optimizer, setup.lr)
        }
        Method::DirectFit => format!("direct fit, {} K=1000 lr={}", setup.optimizer, setup.lr),
        Method::Variational { steps, transition_var } => {
            format!("variational, K={steps} sigma2={transition_var}")
        }
        Method::Particle { count, transition_var } => {
            format!("particle, {count} particles sigma2={transition_var}")
        }
        Method::Static => "static weights".into(),
    }
}

fn report_tuning(tried: &[Tuned], steps: usize) -> Result<(), Failure> {
    let mut rows = vec![vec![
        "K".to_owned(),
        "lr".into(),
        format!("mean prequential loss over {steps} time steps"),
    ]];
    for t in tried.iter().take(5) {
        let loss = if t.loss.is_finite() { style::short(t.loss) } else { "diverged".into() };
        rows.push(vec![t.steps.to_string(), t.lr.to_string(), loss]);
    }
    files::print(&format!("{}\n", style::table(&rows)))
}

/// Percent right, or root mean squared error, over some time steps.
fn level(scores: &[Score], labels: &Labels) -> f64 {
    let n: f64 = scores.iter().map(|s| s.n as f64).sum();
    match labels {
        Labels::Classes { .. } => 100.0 * scores.iter().map(|s| s.right as f64).sum::<f64>() / n,
        Labels::Values(_) => (scores.iter().map(|s| s.squared_error).sum::<f64>() / n).sqrt(),
    }
}

fn measure(labels: &Labels) -> &'static str {
    match labels {
        Labels::Classes { .. } => "accuracy %",
        Labels::Values(_) => "RMSE",
    }
}

fn summary(runs: &[Run], labels: &Labels) -> String {
    let what = measure(labels);
    let mut rows = vec![vec![
        "method".to_owned(),
        what.to_owned(),
        "first third".into(),
        "middle third".into(),
        "last third".into(),
        "mean loss".into(),
    ]];
    for run in runs {
        let n = run.scores.len();
        let total: f64 = run.scores.iter().map(|s| s.n as f64).sum();
        let loss = run.scores.iter().map(|s| s.loss * s.n as f64).sum::<f64>() / total;
        let mut row = vec![run.name.clone(), style::short(level(&run.scores, labels))];
        for third in 0..3 {
            row.push(style::short(level(&run.scores[third * n / 3..(third + 1) * n / 3], labels)));
        }
        row.push(style::short(loss));
        rows.push(row);
    }
    let steps = runs.first().map_or(0, |r| r.scores.len());
    format!(
        "{}\n{what} over {steps} time steps, each predicted before its labels were used.\n",
        style::table(&rows)
    )
}

/// The same numbers for scripts.
fn summary_json(runs: &[Run], labels: &Labels) -> Value {
    let score = match labels {
        Labels::Classes { .. } => "accuracy",
        Labels::Values(_) => "rmse",
    };
    let rows = runs.iter().map(|run| {
        let total: f64 = run.scores.iter().map(|s| s.n as f64).sum();
        let loss = run.scores.iter().map(|s| s.loss * s.n as f64).sum::<f64>() / total;
        json!({
            "method": run.name, "steps": run.scores.len(), score: level(&run.scores, labels),
            "mean_loss": loss,
        })
    });
    rows.collect()
}

fn csv(runs: &[Run], labels: &Labels) -> String {
    let score = match labels {
        Labels::Classes { .. } => "accuracy",
        Labels::Values(_) => "rmse",
    };
    let mut text = format!("method,time,n,{score},loss\n");
    for run in runs {
        for s in &run.scores {
            let value = level(std::slice::from_ref(s), labels);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\"{}\",{},{},{value},{}", run.name, s.time, s.n, s.loss);
        }
    }
    text
}

/// A running score over about a fiftieth of the stream, so that the curve shows the drift and not the noise.
fn figure(runs: &[Run], labels: &Labels, args: &Args) -> Figure {
    let what = match labels {
        Labels::Classes { .. } => "accuracy, percent (running)",
        Labels::Values(_) => "root mean squared error (running)",
    };
    let mut panel = Panel::new(what, Axis::linear("time"), Axis::linear(""));
    for (run, color) in runs.iter().zip(PALETTE.into_iter().cycle()) {
        let width = (run.scores.len() / 50).max(1);
        let points = (width..=run.scores.len())
            .step_by((run.scores.len() / 1000).max(1))
            .map(|end| (run.scores[end - 1].time, level(&run.scores[end - width..end], labels)));
        panel.marks.push(Mark::line(points).color(color).named(run.name.as_str()));
    }
    let data = args.data.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    Figure::new(format!("{data}: {}", args.network)).with(panel)
}

/// Answers each line of standard input: the prediction, and then the labels are learnt from.
fn serve(follower: &mut Follower, stream: &Stream) -> Result<(), Failure> {
    let width = stream.shape().len();
    let mut out = std::io::stdout().lock();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|e| Failure::data(format!("standard input: {e}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = match answer(follower, stream.labels(), width, &line) {
            Ok(answer) => answer,
            Err(reason) => json!({ "line": number + 1, "error": reason }),
        };
        // A line that cannot be read is answered as such, and the next one is served.
        writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .map_err(|e| Failure::write("standard output", &e))?;
    }
    Ok(())
}

fn answer(
    follower: &mut Follower,
    known: &Labels,
    width: usize,
    line: &str,
) -> Result<Value, String> {
    let line: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let numbers =
        |v: &Value| -> Option<Vec<f64>> { v.as_array()?.iter().map(Value::as_f64).collect() };
    let x = line.get("x").ok_or("there is no x")?;
    // One sample, or several.
    let rows = match numbers(x) {
        Some(row) => vec![row],
        None => x
            .as_array()
            .and_then(|a| a.iter().map(numbers).collect())
            .ok_or("x must be numbers or rows of numbers")?,
    };
    if let Some(row) = rows.iter().find(|r| r.len() != width) {
        return Err(format!("a sample has {} numbers; the network takes {width}", row.len()));
    }
    let x: Vec<f64> = rows.concat();
    let mut answer = serde_json::Map::new();
    if let Some(time) = line.get("time") {
        answer.insert("time".into(), time.clone());
    }
    match (follower.predict(&x), known) {
        (Prediction::Classes(p), Labels::Classes { names, .. }) => {
            let best =
                |row: &Vec<f64>| (0..row.len()).fold(0, |b, i| if row[i] > row[b] { i } else { b });
            answer.insert(
                "prediction".into(),
                p.iter().map(|row| names[best(row)].clone()).collect::<Vec<_>>().into(),
            );
            answer.insert("probabilities".into(), json!(p));
        }
        (Prediction::Values(v), _) => {
            answer.insert("prediction".into(), json!(v));
        }
        _ => {}
    }
    if let Some(y) = line.get("y").filter(|y| !y.is_null()) {
        let given = y.as_array().cloned().unwrap_or_else(|| vec![y.clone()]);
        if given.len() != rows.len() {
            return Err(format!("{} labels for {} samples", given.len(), rows.len()));
        }
        let labels = match known {
            Labels::Values(_) => Labels::Values(
                given
                    .iter()
                    .map(Value::as_f64)
                    .collect::<Option<_>>()
                    .ok_or("y must be numbers")?,
            ),
            Labels::Classes { names, .. } => {
                let class = |y: &Value| {
                    let text = y.as_str().map_or_else(|| y.to_string(), str::to_owned);
                    let found = names.iter().position(|n| *n == text);
                    found.map(|c| c as u32).ok_or_else(|| {
                        format!("there is no class {text:?}; there are {}", names.join(", "))
                    })
                };
                Labels::Classes {
                    of: given.iter().map(class).collect::<Result<_, _>>()?,
                    names: names.clone(),
                }
            }
        };
        follower.learn_from(&x, &labels).map_err(|e| e.to_string())?;
        answer.insert("learnt".into(), rows.len().into());
    }
    Ok(Value::Object(answer))
}
