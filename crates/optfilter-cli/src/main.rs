//! The program `optfilter`: filter, tune and understand state-space models from the command line.
//!
//! One file per command; each has a `Args` (clap) and a `run` that returns a [`Failure`] with the exit
//! code to end with. Results go to standard output or a file, remarks to standard error, so that every
//! command works in a pipe.

#[cfg(feature = "adapt")]
mod adapt;
mod checksum;
mod compare;
mod completions;
mod defect;
mod diagnose;
mod explain;
mod explore;
mod failure;
mod feed;
mod files;
mod filter;
mod fit;
mod forecast;
mod interrupt;
mod join;
mod lock;
mod matrix;
mod model;
mod pipeline;
mod plane;
mod plot;
mod reading;
mod refused;
mod schema;
mod settings;
mod simulate;
mod smooth;
mod steady;
mod style;
mod tables;
mod tune;
mod whole;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Bayesian filtering in which an optimizer and a number of steps are the filter.
#[derive(Parser)]
#[command(name = "optfilter", version, about, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 other failure, 2 usage or model file, 3 data, 4 the filter diverged, \
    130 interrupted.\n`-` stands for standard input or output. Tables may be CSV, TSV, JSON lines, Parquet or NumPy arrays.";

#[derive(Subcommand)]
enum Command {
    Filter(filter::Args),
    Fit(fit::Args),
    Smooth(smooth::Args),
    Forecast(forecast::Args),
    Tune(tune::Args),
    Compare(compare::Args),
    Simulate(simulate::Args),
    Diagnose(diagnose::Args),
    Explain(explain::Args),
    Explore(explore::Args),
    Model(model::Args),
    #[cfg(feature = "adapt")]
    Adapt(adapt::Args),
    Schema(schema::Args),
    Completions(completions::Args),
}

fn main() -> ExitCode {
    defect::report_in_one_line();
    let cli = Cli::parse();
    interrupt::listen();
    let done = defect::caught(|| match cli.command {
        Command::Filter(args) => filter::run(args),
        Command::Fit(args) => fit::run(args),
        Command::Smooth(args) => smooth::run(args),
        Command::Forecast(args) => forecast::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Diagnose(args) => diagnose::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Explore(args) => explore::run(args),
        Command::Model(args) => model::run(args),
        #[cfg(feature = "adapt")]
        Command::Adapt(args) => adapt::run(args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => {
            completions::run(&args, &mut <Cli as clap::CommandFactory>::command())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            if !message.is_empty() {
                files::remark(&format!("{} {message}", style::error("error:")));
            }
            ExitCode::from(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optfilter_model::made;

    /// Model compiled and filter built once, whatever a command does with them.
    #[test]
    fn a_command_makes_its_model_and_its_filter_once() {
        let folder = std::env::temp_dir().join(format!("optfilter-once-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let (model, data, out) = (path("m.toml"), path("d.csv"), path("out.csv"));
        let text = "system = \"local-level\"\n[filter]\nmethod = \"kf\"\n";
        std::fs::write(&model, text).unwrap();
        std::fs::write(&data, format!("y\n{}", "1\n2\n".repeat(40))).unwrap();
        for command in ["filter", "smooth", "forecast", "diagnose"] {
            let before = made::counts();
            let mut args = vec!["optfilter", command, &model, &data];
            match command {
                "diagnose" => {}
                "forecast" => args.extend(["--steps", "3", "-q", "--out", &out]),
                _ => args.extend(["-q", "--out", &out]),
            }
            match Cli::try_parse_from(args).unwrap().command {
                Command::Filter(args) => filter::run(args),
                Command::Smooth(args) => smooth::run(args),
                Command::Forecast(args) => forecast::run(args),
                Command::Diagnose(args) => diagnose::run(args),
                _ => unreachable!(),
            }
            .unwrap();
            let after = made::counts();
            assert_eq!([after[0] - before[0], after[1] - before[1]], [1, 1], "{command}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
