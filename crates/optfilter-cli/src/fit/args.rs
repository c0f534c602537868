//! What `optfilter fit` is asked.

use crate::reading::SeriesFlags;
use optfilter_model::fit::Criterion;
use std::path::PathBuf;

/// Estimate parameters, noise and start by maximum likelihood, along windows, or by predictions
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  optfilter fit nile.toml nile.csv
  optfilter fit pendulum.toml swing.csv --free g,measurement_noise --save fitted.toml
  optfilter fit model.toml monday.csv tuesday.csv --free process_noise --json
  optfilter fit counts.toml counts.csv --criterion window
  optfilter fit model.toml data.csv --method imap --criterion prediction --free g
  optfilter fit model.toml sensors.csv --by sensor                          (one model for all)
  optfilter fit model.toml sensors.csv --by sensor --each --out fits.csv    (one for each)

What is free: parameters by their names, process_noise.STATE and measurement_noise.OUTPUT as variances, \
initial.mean.STATE; a group's name (parameters, process_noise, measurement_noise, initial.mean) frees all of it. \
Without --free it is what [fit] of the model file says, else all noise (all parameters for imap and vkf).

By what (--criterion): likelihood, that of kf, ekf, iekf or ukf; window, that of paths which follow from the first state of each \
window, found with the rest, for measurements of any kind (counts, say); prediction, how well imap or vkf as it is predicts the \
next row. Neither window nor prediction says what process noise is. Without --criterion it is the likelihood of a Gaussian filter; \
imap is fitted by its window where it has one, or where no filter is named and measurements are not Gaussian, else by prediction.

Several tables, a folder of them, or the names in a column (--by) are several series: of one model, or with --each of one \
model for each, whose estimates are a table: NAME and NAME_std_error, log_likelihood, aic, bic, rows, measured and \
converged (1 or 0). [initial] diffuse = true takes the start as unknown, exactly, in linear models.")]
pub struct Args {
    #[command(flatten)]
    pub(super) series: SeriesFlags,
    /// Fit each series by itself
    #[arg(long, conflicts_with = "save")]
    pub(super) each: bool,
    /// Where the table of --each goes [default: a table to read on standard output]
    #[arg(long, short, value_name = "FILE", requires = "each", conflicts_with = "json")]
    pub(super) out: Option<PathBuf>,
    /// What to estimate, separated by commas; may be repeated [default: the model file's, else all noise, or
    /// all parameters for imap and vkf]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) free: Vec<String>,
    /// kf, ekf, iekf and ukf by their likelihood; imap by windows or predictions, vkf by predictions [default: the model
    /// file's, else kf or ekf, or imap where measurements are not Gaussian]
    #[arg(long, value_name = "NAME", value_parser = ["kf", "ekf", "iekf", "ukf", "imap", "vkf"])]
    pub(super) method: Option<String>,
    /// What is maximised [default: what suits the filter, see below]
    #[arg(long, value_name = "NAME", value_parser = Criterion::NAMES)]
    pub(super) criterion: Option<String>,
    /// Past rows of a window besides its newest [default: the model file's, else a series is one window]
    #[arg(long, value_name = "L")]
    pub(super) window: Option<u32>,
    /// Climbs: from the model's values in the units of the rows, from what the rows say, and from around both
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) starts: u16,
    /// Seed of the other starts
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(super) seed: u64,
    /// Fit the first N rows of each series
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_rows: Option<u64>,
    /// Write the estimates into the model file, or the model with them into a new file
    #[arg(long, value_name = "MODEL")]
    pub(super) save: Option<Option<PathBuf>>,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}
