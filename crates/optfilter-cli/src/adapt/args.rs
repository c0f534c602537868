//! What `optfilter adapt` is asked.

use crate::plot::PlotFlags;
use clap::ValueEnum;
use optfilter_nn::adapt::Setup;
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
    pub(super) data: PathBuf,
    /// cnn, linear, mlp:64,64, or layers, as in "conv:8,5,2 relu maxpool dense:16 tanh" [default: mlp:64,64].
    #[arg(long)]
    pub(super) network: Option<String>,
    /// How the weights are kept up to date [default: auto; imap where one of its settings is given].
    #[arg(long, value_enum)]
    pub(super) method: Option<MethodName>,
    /// A bank of settings, mixed by how well they have predicted lately, so that nothing has to be chosen: --method auto.
    #[arg(long, conflicts_with = "method")]
    pub(super) auto: bool,
    /// gd, momentum, nesterov, adagrad, adadelta, rmsprop or adam [default: adam].
    #[arg(long)]
    pub(super) optimizer: Option<String>,
    /// Optimizer steps per time step (K) [default: 50; ivon 1].
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) steps: Option<u32>,
    /// Learning rate; acts on the loss summed over the samples of a time step [default: 0.001; ivon 0.1].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) lr: Option<f64>,
    /// Carry the optimizer's memory from one time step to the next instead of restarting it.
    #[arg(long)]
    pub(super) carry: bool,
    /// Past time steps that each update looks at besides the newest (L; imap, vkf, direct) [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) window: Option<usize>,
    /// What a time step in the window weighs relative to the next one, above 0 and at most 1 [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) discount: Option<f64>,
    /// Share of the way back to the initial weights at each time step [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) decay: Option<f64>,
    /// Variance of the weights' random walk per time step [default: vkf and pf 0.01; ekf, vdekf, bong and lofi 1e-5].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) sigma2: Option<f64>,
    /// Number of particles (pf) [default: 1000].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) particles: Option<usize>,
    /// Directions of the low-rank part (lofi; with it bong is low-rank, which are the equations of lofi) [default: 10].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) rank: Option<usize>,
    /// Take gradients at so many draws of the weights for each sample instead of the linearised network (bong).
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) samples: Option<u32>,
    /// Variance of each weight at the start (ekf, vdekf, bong, lofi) [default: 0.1].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) prior: Option<f64>,
    /// Variance of a label that is a number, in units of its scale (ekf, vdekf, bong, lofi) [default: 0.1].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) noise: Option<f64>,
    /// Count outliers less, beyond about this many deviations (WoLF; ekf, vdekf, bong, lofi).
    #[arg(long, allow_negative_numbers = true)]
    pub(super) robust: Option<f64>,
    /// Effective sample size: the larger, the narrower the belief (ivon) [default: 10000].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) ivon_size: Option<f64>,
    /// Curvature at the start, by which the rate is scaled (ivon) [default: 0.1].
    #[arg(long, value_name = "H0", allow_negative_numbers = true)]
    pub(super) ivon_curvature: Option<f64>,
    /// How much of momentum and of curvature is kept at each step (ivon) [default: 0.9,0.999].
    #[arg(long, value_name = "B1,B2", allow_hyphen_values = true, value_parser = pair)]
    pub(super) ivon_betas: Option<(f64, f64)>,
    /// Weight decay, the precision that the belief has without data (ivon) [default: 0.0001].
    #[arg(long, value_name = "D", allow_negative_numbers = true)]
    pub(super) ivon_decay: Option<f64>,
    /// Time steps at the beginning to fit the network to before it is judged [default: 1, with --weights of --save 0].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) pretrain: Option<usize>,
    /// Start from these weights instead of fitting (Flax or PyTorch layout). Those of --save bring their settings, scaling
    /// of features and classes; flags come before them.
    #[arg(long)]
    pub(super) weights: Option<PathBuf>,
    /// Save the final weights here (safetensors), with settings, scaling of features and classes.
    #[arg(long)]
    pub(super) save: Option<PathBuf>,
    /// Run static weights and direct fit as well.
    #[arg(long)]
    pub(super) compare: bool,
    /// Choose K and the learning rate in ten windows, each time by the prequential loss in the window before; scores are for the
    /// nine windows after the first. Says where a change of the world made a choice void.
    #[arg(long)]
    pub(super) tune: bool,
    /// Read the table as it comes, in constant memory (always so from standard input and for large files): features are scaled
    /// as the stream goes, nothing is pre-trained on.
    #[arg(long)]
    pub(super) stream: bool,
    /// Labels become known this many time steps late (in a stream) [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) delay: Option<usize>,
    /// Keep the state of a stream here, and go on from it when it is there.
    #[arg(long)]
    pub(super) checkpoint: Option<PathBuf>,
    /// Rows between two checkpoints.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) checkpoint_every: u64,
    /// On going on from a checkpoint, also skip the rows of standard input that were seen (a file's always are).
    #[arg(long, requires = "checkpoint")]
    pub(super) skip: bool,
    /// After DATA, serve JSON lines from standard input: {"x": [...], "y": label}, y optional.
    #[arg(long)]
    pub(super) follow: bool,
    /// Column of the label (CSV) [default: y, label, class or target, else the last].
    #[arg(long)]
    pub(super) label: Option<String>,
    /// Column of the time (CSV) [default: time, t or date, else the row].
    #[arg(long)]
    pub(super) time: Option<String>,
    /// Take this many rows as one time step.
    #[arg(long, allow_negative_numbers = true)]
    pub(super) every: Option<usize>,
    /// Columns to leave out (CSV).
    #[arg(long, value_delimiter = ',')]
    pub(super) ignore: Vec<String>,
    /// Whether labels are classes or numbers [default: as they look].
    #[arg(long, value_enum)]
    pub(super) task: Option<Task>,
    /// Write the scores of every time step here (CSV).
    #[arg(long)]
    pub(super) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(super) plot: PlotFlags,
    /// For initial weights, particles and draws [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    pub(super) seed: Option<u64>,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum MethodName {
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
pub(super) enum Task {
    /// Labels are classes.
    Classify,
    /// Labels are numbers.
    Regress,
}

pub(super) fn title(args: &Args, setup: &Setup) -> String {
    let file = args.data.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    format!("{file}: {}", setup.network)
}

/// Two numbers with a comma between them.
fn pair(text: &str) -> Result<(f64, f64), String> {
    let two = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    two.ok_or_else(|| "two numbers are needed, as in 0.9,0.999".into())
}
