//! `optfilter explain`.
use crate::failure::Failure;
/// Not there yet
#[derive(clap::Args)]
pub struct Args {}
/// Runs the command.
pub fn run(_args: Args) -> Result<(), Failure> {
    Err(Failure::usage("not there yet"))
}
