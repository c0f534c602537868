//! What `optfilter smooth` is asked.

use crate::tables::{SummaryFlags, TableFlags};

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
    pub(super) both: bool,
    /// Smooth each row by the N rows after it only, in constant memory; rows come N rows late
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) lag: Option<u32>,
    /// With --lag: write each row as soon as it is known
    #[arg(long, requires = "lag")]
    pub(super) follow: bool,
    #[command(flatten)]
    pub(super) summary: SummaryFlags,
    #[command(flatten)]
    pub(super) tables: TableFlags,
}
