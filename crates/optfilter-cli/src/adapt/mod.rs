//! `optfilter adapt`: keep a network up to date on a drifting stream of labelled samples.
//!
//! Each time step is predicted first and learnt from afterwards, so every score is one of foresight. `--compare` runs
//! static weights and direct fit beside the chosen method; `--tune` chooses K and the learning rate on the first part of
//! the stream; without any setting a bank of them is kept (`--auto`). A table from standard input, or with `--stream`, `--delay` or
//! `--checkpoint`, is read as it comes (`live.rs`); `--follow` goes on with JSON lines from standard input, one answer per line.

mod live;
mod pipe;
mod scores;
mod serve;
mod settings;
mod show;

use crate::failure::Failure;
use crate::files;
use crate::plot::PlotFlags;
use clap::ValueEnum;
use optfilter_nn::adapt::{
    AdaptError, CsvOptions, Follower, Labels, Saved, Score, Setup, Stream, Tally, WeightMethod,
    prequential, prequential_into, read_csv, read_npz, tune_rolling,
};
use optfilter_nn::safetensors;
use settings::setup;
use show::Run;
use std::path::PathBuf;

/// Follow a drifting stream of labelled samples with a network.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    optfilter adapt electricity.csv\n  \
    optfilter adapt electricity.csv --time date --network linear --steps 1 --lr 1 --optimizer gd --compare\n  \
    producer | optfilter adapt - --delay 48 --checkpoint follow.ckpt --csv scores.csv\n\
    DATA is an npz with x, y and time, or a table with a label and a time column. Samples of equal time are one time step. A label \
    that is empty, ?, ., NA, N/A, nan, null or none is missing: such a sample is predicted and not learnt from. A file with missing labels \
    is read as a stream, by itself where nothing needs the whole of it (--tune, --compare, --follow, --pretrain).")]
pub struct Args {
    /// The stream: .npz (x, y, time; images have 3 or 4 axes) or a table with a head; - for CSV from standard input.
    data: PathBuf,
    /// cnn, linear, mlp:64,64, or layers, as in "conv:8,5,2 relu maxpool dense:16 tanh" [default: mlp:64,64].
    #[arg(long)]
    network: Option<String>,
    /// How the weights are kept up to date [default: auto; imap where one of its settings is given].
    #[arg(long, value_enum)]
    method: Option<MethodName>,
    /// A bank of settings, mixed by how well they have predicted lately, so that nothing has to be chosen: --method auto.
    #[arg(long, conflicts_with = "method")]
    auto: bool,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop or adam [default: adam].
    #[arg(long)]
    optimizer: Option<String>,
    /// Optimizer steps per time step (K) [default: 50; ivon 1].
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Learning rate; acts on the loss summed over the samples of a time step [default: 0.001; ivon 0.1].
    #[arg(long, allow_negative_numbers = true)]
    lr: Option<f64>,
    /// Carry the optimizer's memory from one time step to the next instead of restarting it.
    #[arg(long)]
    carry: bool,
    /// Past time steps that each update looks at besides the newest (L; imap, vkf, direct) [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    window: Option<usize>,
    /// What a time step in the window weighs relative to the next one, above 0 and at most 1 [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    discount: Option<f64>,
    /// Share of the way back to the initial weights at each time step [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    decay: Option<f64>,
    /// Variance of the weights' random walk per time step [default: vkf and pf 0.01; ekf, vdekf, bong and lofi 1e-5].
    #[arg(long, allow_negative_numbers = true)]
    sigma2: Option<f64>,
    /// Number of particles (pf) [default: 1000].
    #[arg(long, allow_negative_numbers = true)]
    particles: Option<usize>,
    /// Directions of the low-rank part (lofi; with it bong is low-rank, which are the equations of lofi) [default: 10].
    #[arg(long, allow_negative_numbers = true)]
    rank: Option<usize>,
    /// Take gradients at so many draws of the weights for each sample instead of the linearised network (bong).
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Variance of each weight at the start (ekf, vdekf, bong, lofi) [default: 0.1].
    #[arg(long, allow_negative_numbers = true)]
    prior: Option<f64>,
    /// Variance of a label that is a number, in units of its scale (ekf, vdekf, bong, lofi) [default: 0.1].
    #[arg(long, allow_negative_numbers = true)]
    noise: Option<f64>,
    /// Count outliers less, beyond about this many deviations (WoLF; ekf, vdekf, bong, lofi).
    #[arg(long, allow_negative_numbers = true)]
    robust: Option<f64>,
    /// Effective sample size: the larger, the narrower the belief (ivon) [default: 10000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    ivon_size: Option<f64>,
    /// Curvature at the start, by which the rate is scaled (ivon) [default: 0.1].
    #[arg(long, value_name = "H0", allow_negative_numbers = true)]
    ivon_curvature: Option<f64>,
    /// How much of momentum and of curvature is kept at each step (ivon) [default: 0.9,0.999].
    #[arg(long, value_name = "B1,B2", allow_hyphen_values = true, value_parser = settings::pair)]
    ivon_betas: Option<(f64, f64)>,
    /// Weight decay, the precision that the belief has without data (ivon) [default: 0.0001].
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    ivon_decay: Option<f64>,
    /// Time steps at the beginning to fit the network to before it is judged [default: 1, with --weights of --save 0].
    #[arg(long, allow_negative_numbers = true)]
    pretrain: Option<usize>,
    /// Start from these weights instead of fitting (Flax or PyTorch layout). Those of --save bring their settings, scaling
    /// of features and classes; flags come before them.
    #[arg(long)]
    weights: Option<PathBuf>,
    /// Save the final weights here (safetensors), with settings, scaling of features and classes.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Run static weights and direct fit as well.
    #[arg(long)]
    compare: bool,
    /// Choose K and the learning rate in ten windows, each time by the prequential loss in the window before; scores are for the
    /// nine windows after the first. Says where a change of the world made a choice void.
    #[arg(long)]
    tune: bool,
    /// Read the table as it comes, in constant memory (always so from standard input and for large files): features are scaled
    /// as the stream goes, nothing is pre-trained on.
    #[arg(long)]
    stream: bool,
    /// Labels become known this many time steps late (in a stream) [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    delay: Option<usize>,
    /// Keep the state of a stream here, and go on from it when it is there.
    #[arg(long)]
    checkpoint: Option<PathBuf>,
    /// Rows between two checkpoints.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// On going on from a checkpoint, also skip the rows of standard input that were seen (a file's always are).
    #[arg(long, requires = "checkpoint")]
    skip: bool,
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
    #[arg(long, allow_negative_numbers = true)]
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
    /// For initial weights, particles and draws [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
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
    /// A bank of settings.
    Auto,
    /// Extended Kalman filter with a diagonal belief, fully decoupled.
    Ekf,
    /// The same, variational.
    Vdekf,
    /// Low-rank extended Kalman filter (LoFi).
    Lofi,
    /// Bayesian online natural gradient, diagonal and linearised; with --rank low-rank, with --samples at draws of the weights.
    Bong,
    /// Variational online Newton (IVON), K = --steps; --ivon-size and so on.
    Ivon,
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
            AdaptError::Checkpoint(_) => Self::other(e),
            AdaptError::File { .. }
            | AdaptError::MissingLabel { .. }
            | AdaptError::Npz(_)
            | AdaptError::Data(_) => Self::data(e),
            AdaptError::Network(_) | AdaptError::Optimizer(_) | AdaptError::Setting(_) => {
                Self::usage(e)
            }
            _ => Self::other(e),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<(), Failure> {
    let outputs = [
        ("--csv", &args.csv),
        ("--plot", &args.plot.path),
        ("--save", &args.save),
        ("--checkpoint", &args.checkpoint),
    ];
    let outputs: Vec<_> = outputs.iter().filter_map(|(f, p)| Some((*f, p.as_deref()?))).collect();
    files::check_outputs(&[&args.data], &outputs)?;
    args.plot.check()?;
    let saved = args.weights.as_deref().map(Saved::read).transpose()?.flatten();
    if args.every == Some(0) {
        return Err(Failure::usage("--every needs at least one row"));
    }
    if live::wanted(&args) {
        let setup = setup(&args, saved.as_ref().map(|s| s.setup.clone()))?;
        return live::run(&args, &setup, saved.as_ref());
    }
    let stream = match read(&args, saved.as_ref()) {
        Err(AdaptError::MissingLabel { path, reason }) if live::possible(&args) => {
            files::remark(&format!(
                "{path}: {reason}; it is read as a stream (--stream): features are scaled as it goes, nothing is pre-trained on"
            ));
            let setup = setup(&args, saved.as_ref().map(|s| s.setup.clone()))?;
            return live::run(&args, &setup, saved.as_ref());
        }
        read => read?,
    };
    let setup = setup(&args, saved.map(|s| s.setup))?;
    let weights = match &args.weights {
        Some(path) => {
            let probe = Follower::new(
                &stream,
                &Setup { method: WeightMethod::Static, pretrain: 0, ..setup.clone() },
                None,
            )?;
            Some(
                safetensors::load_classes(probe.network(), probe.classes(), path)
                    .map_err(|e| Failure::data(format!("{}: {e}", path.display())))?,
            )
        }
        None => None,
    };
    describe(&stream);

    let first = setup.pretrain;
    if args.tune {
        if !matches!(setup.method, WeightMethod::ImplicitMap { .. }) {
            return Err(Failure::usage("--tune chooses K and the learning rate of --method imap"));
        }
        return tuned(&args, &stream, &setup, weights.as_ref());
    }

    // The steps before `first` are learnt from but not judged, by every method alike.
    let follow_one = |setup: &Setup| -> Result<(Follower, Run, Vec<Score>), Failure> {
        let mut follower = Follower::new(&stream, setup, weights.clone())?;
        let start = follower.first();
        prequential(&mut follower, &stream, start..first)?;
        let mut tally = Tally::default();
        let scores = prequential_into(&mut follower, &stream, first..stream.steps(), &mut tally)?;
        Ok((follower, Run { name: setup.label(), tally }, scores))
    };
    let (follower, run, scores) = follow_one(&setup)?;
    if run.tally.steps == 0 && first < stream.steps() {
        let name = files::display(&args.data);
        let reason = "all labels are the same: there is nothing to learn";
        return Err(Failure::data(format!("{name}: {reason}")));
    }
    let mut csv = show::csv_head(stream.labels());
    show::csv(&mut csv, &run.name, &scores, stream.labels());
    let mut runs = vec![run];
    if args.compare {
        for other in [WeightMethod::Static, WeightMethod::DirectFit] {
            if other != setup.method {
                // The rate of variational Newton steps is none of an optimizer.
                let own = matches!(setup.method, WeightMethod::Ivon { .. }) && args.lr.is_none();
                let lr = if own { Setup::default().lr } else { setup.lr };
                let setup = Setup { method: other, lr, ..setup.clone() };
                let (_, run, scores) = follow_one(&setup)?;
                show::csv(&mut csv, &run.name, &scores, stream.labels());
                runs.push(run);
            }
        }
    }
    if args.json {
        files::print(&format!("{}\n", show::summary_json(&runs, stream.labels())))?;
    } else {
        files::print(&(show::summary(&runs, stream.labels()) + &show::shares(&follower)))?;
    }
    if let Some(path) = &args.csv {
        files::write(path, csv)?;
    }
    let (samples, steps) = (stream.len(), stream.steps());
    let note =
        format!("{samples} samples in {steps} time steps; predicted first, learnt afterwards.");
    args.plot.write(&note, || show::figure(&runs, stream.labels(), title(&args, &setup)))?;
    if let Some(path) = &args.save {
        Saved::write(&follower, &setup, stream.labels(), path).map_err(Failure::other)?;
    }
    if args.follow {
        let mut follower = follower.carefully();
        serve::serve(&mut follower, &stream)?;
        if let Some(path) = &args.save {
            Saved::write(&follower, &setup, stream.labels(), path).map_err(Failure::other)?;
        }
    }
    Ok(())
}

/// `--tune`: K and the learning rate are chosen again and again, each time by the window of time steps before.
fn tuned(
    args: &Args,
    stream: &Stream,
    setup: &Setup,
    weights: Option<&Vec<f32>>,
) -> Result<(), Failure> {
    if args.compare || args.follow || args.save.is_some() {
        return Err(Failure::usage(
            "--tune says what would have been chosen when; --compare, --follow and --save belong to a run with settings of its own",
        ));
    }
    let steps = setup.pretrain..stream.steps();
    if steps.len() < 2 {
        return Err(Failure::data("there are too few time steps to choose anything by"));
    }
    let rates = [1e1, 3e0, 1e0, 3e-1, 1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4];
    // Plain gradients bear larger rates than rules that bring them to one size.
    let rates = if setup.optimizer == "gd" { &rates[..] } else { &rates[3..] };
    let rolling = tune_rolling(stream, setup, weights, steps, (&[1, 3, 10, 30], rates), 10)?;
    if !rolling.next.loss.is_finite() {
        return Err(Failure { code: 4, message: "every configuration diverged".into() });
    }
    let name = format!("chosen by the window before, {}", setup.optimizer);
    let mut csv = show::csv_head(stream.labels());
    show::csv(&mut csv, &name, &rolling.scores, stream.labels());
    let runs = [Run { name, tally: rolling.tally.clone() }];
    match args.json {
        true => {
            let mut summary = show::summary_json(&runs, stream.labels());
            show::rolling_json(&rolling, &mut summary);
            files::print(&format!("{summary}\n"))?;
        }
        false => files::print(&(show::rolling(&rolling) + &show::summary(&runs, stream.labels())))?,
    }
    if let Some(path) = &args.csv {
        files::write(path, csv)?;
    }
    let note = "Ten windows; each with the settings that were best in the one before.".to_owned();
    args.plot.write(&note, || show::figure(&runs, stream.labels(), title(args, setup)))
}

/// The stream, with the classes that the weights know.
fn read(args: &Args, saved: Option<&Saved>) -> Result<Stream, AdaptError> {
    let stream = read_file(args, saved.map(|s| s.classes.is_none()))?;
    match saved.and_then(|s| s.classes.as_ref()) {
        Some(known) => stream.with_classes(known),
        None => Ok(stream),
    }
}

fn read_file(args: &Args, usual: Option<bool>) -> Result<Stream, AdaptError> {
    let regress = args.task.map(|t| matches!(t, Task::Regress)).or(usual);
    if args.data.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz")) {
        return read_npz(&args.data, args.every, regress);
    }
    let options = CsvOptions {
        label: args.label.clone(),
        time: args.time.clone(),
        every: args.every,
        ignore: args.ignore.clone(),
        regress,
    };
    read_csv(&args.data, &options)
}

fn describe(stream: &Stream) {
    let labels = match stream.labels() {
        Labels::Classes { names, .. } => format!("classes {}", names.join(", ")),
        Labels::Values(_) => "numbers to predict".into(),
    };
    let (samples, shape, steps) = (stream.len(), stream.shape(), stream.steps());
    files::remark(&format!("{samples} samples of {shape} in {steps} time steps; {labels}"));
}

fn title(args: &Args, setup: &Setup) -> String {
    let file = args.data.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    format!("{file}: {}", setup.network)
}
