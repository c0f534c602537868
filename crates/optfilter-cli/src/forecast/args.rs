//! What `optfilter forecast` is asked.

use crate::tables::TableFlags;

/// Predict states and measurements beyond the last row, with intervals
#[derive(clap::Args)]
#[command(mut_arg("steps", |arg| arg.long("optimizer-steps")), after_help = "\
Examples:
  optfilter forecast nile.toml nile.csv --steps 12 --out ahead.csv --plot ahead.svg
  optfilter forecast co2.toml co2.csv --until 2003-12-27
  optfilter forecast shop.toml sales.csv --by shop --steps 14 --out ahead.csv
  optfilter forecast heater.toml plan.csv             (rows at the end: inputs, and empty measurements)

The result has a row for each time ahead: the time, and for each state and each observation its mean (NAME), standard \
deviation (NAME_std) and intervals of 50, 80 and 95 % (NAME_lo95, NAME_lo80, NAME_lo50, NAME_hi50, NAME_hi80, \
NAME_hi95). An observation that is called like a state is NAME_measured.

Rows at the end of the table in which nothing is measured come first; --steps and --until count beyond the table, at \
the table's own step if that is regular (also if it is a month or a year), else at the model's dt. A model with inputs \
needs them in the table. Intervals are Gaussian where the filter is, and quantiles of draws (--seed) for pf and for \
measurements that are not Gaussian. Several series (--by, several tables) are forecast one after the other, each \
beyond its own end.")]
#[derive(Clone)]
pub struct Args {
    /// Rows to predict beyond the table
    #[arg(long = "steps", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) ahead: Option<u32>,
    /// The last time to predict: a date, or a number where times are numbers
    #[arg(long, value_name = "TIME", conflicts_with = "ahead", allow_negative_numbers = true)]
    pub(super) until: Option<String>,
    /// Print the forecast as JSON on standard output; a table only goes to a file of --out
    #[arg(long)]
    pub(super) json: bool,
    /// Print no summary
    #[arg(long, short)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) tables: TableFlags,
}
