//! The program `optfilter-reproduce`: the paper's tables and figures, in both protocols.
//!
//! A program of its own, so that nobody who filters their own data compiles the paper.

mod assimilation;
mod bar;
mod failure;
mod yearbook;

use assimilation::AssimilationArgs;
use bar::Bar;
use clap::{Parser, ValueEnum};
use failure::{Failure, remark};
use optfilter_paper::systems::System;
use optfilter_paper::{Options, Protocol, RunError, text};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use yearbook::YearbookArgs;

/// Re-create the paper's experiments and compare them with its tables
#[derive(Debug, Parser)]
#[command(
    name = "optfilter-reproduce",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  optfilter-reproduce
  optfilter-reproduce --quick
  optfilter-reproduce toy lorenz --protocol published
  optfilter-reproduce yearbook --data yearbook32.npz --full
  optfilter-reproduce assimilation --full
  optfilter-reproduce assimilation --arrays dapper-arrays
Without arguments: toy and Lorenz systems in both protocols, a demonstration of Yearbook and windows on Lorenz '96, in about three minutes on two cores.
Results for scripts are in the folder of --out: cells.csv, grid.csv, yearbook.csv, assimilation*.csv."
)]
struct Args {
    /// What to run [default: everything]
    #[arg(value_name = "SYSTEM")]
    systems: Vec<Family>,
    /// What was run, what the text says, or both
    #[arg(long, value_enum, default_value_t = ProtocolChoice::Both)]
    protocol: ProtocolChoice,
    /// Folder for the results; the same command continues an interrupted run from there
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,
    /// Monte Carlo runs per cell [default: 100, as in the paper]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    runs: Option<u32>,
    /// Seed of the first run; the paper has 0
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u32,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Five runs instead of a hundred: seconds, to see that everything works
    #[arg(long)]
    quick: bool,
    /// Print where the time went
    #[arg(long)]
    timings: bool,
    /// Print a summary as JSON instead of the tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    yearbook: YearbookArgs,
    #[command(flatten)]
    assimilation: AssimilationArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    /// The one-dimensional toy system, nine noise levels
    Toy,
    /// The stochastic Lorenz attractor, four noise levels, three integrators
    Lorenz,
    /// The yearbook portraits
    Yearbook,
    /// Beyond the paper: windows beside ensemble filters on Lorenz '96
    Assimilation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolChoice {
    /// What was really run: agrees with the tables to the last digit
    Published,
    /// What the paper's text says
    Specified,
    /// Both, side by side
    Both,
}

impl Args {
    fn wants(&self, family: Family) -> bool {
        self.systems.is_empty() || self.systems.contains(&family)
    }

    fn options(&self) -> Options {
        let mut systems = Vec::new();
        if self.wants(Family::Toy) {
            systems.extend(System::toy());
        }
        if self.wants(Family::Lorenz) {
            systems.extend(System::lorenz());
        }
        let protocols = match self.protocol {
            ProtocolChoice::Published => vec![Protocol::Published],
            ProtocolChoice::Specified => vec![Protocol::Specified],
            ProtocolChoice::Both => vec![Protocol::Published, Protocol::Specified],
        };
        let default_runs = if self.quick { 5 } else { 100 };
        Options {
            systems,
            protocols,
            out: self.out.clone(),
            runs: self.runs.unwrap_or(default_runs) as usize,
            seed: self.seed,
            threads: self.threads.map(|n| n as usize),
            command: command_line(),
        }
    }
}

/// The command as typed, without the program's folder.
fn command_line() -> String {
    let arguments = std::env::args().skip(1).map(|a| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=,:".contains(c);
        if !a.is_empty() && a.chars().all(plain) {
            a
        } else {
            format!("'{}'", a.replace('\'', "'\\''"))
        }
    });
    std::iter::once("optfilter-reproduce".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn main() -> ExitCode {
    let args = Args::parse();
    // Asked once, work ends in order; asked twice, at once.
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let _ = ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::Relaxed) {
            std::process::exit(failure::INTERRUPTED.into());
        }
    });
    match run(&args, &stop) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            remark(&format!("error: {message}"));
            ExitCode::from(code)
        }
    }
}

fn run(args: &Args, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let options = args.options();
    let mut report = String::new();
    let mut verdict = String::new();
    let mut summary = serde_json::json!({ "command": options.command, "runs": options.runs });
    if !options.systems.is_empty() {
        let bar = Bar::new("{bar:32} {percent:>3} %  {elapsed} so far, about {eta} left  {msg}");
        let hear = |event| bar.event(event, stop.load(Ordering::Relaxed));
        let outcome = optfilter_paper::run(&options, stop, &hear);
        bar.finish();
        let outcome = outcome.map_err(|error| match error {
            RunError::Stopped => Failure::interrupted(error),
            other => Failure::other(other),
        })?;
        let (exact, cells) = outcome.exact();
        summary["published"] = serde_json::json!({
            "cells": cells, "exact": (options.runs == 100).then_some(exact),
        });
        summary["seconds"] = outcome.time.as_secs_f64().into();
        for &protocol in &options.protocols {
            report.push_str(&text::tables(&outcome, protocol));
        }
        report.push_str(&text::summary(&outcome));
        if args.timings {
            report.push_str(&text::timings(&outcome));
        }
        verdict = text::verdict(&outcome, options.runs);
        // What is finished is shown before the long Yearbook run begins.
        if !args.json {
            let _ = write!(std::io::stdout(), "{report}");
        }
        report.clear();
    }
    if args.wants(Family::Yearbook) {
        let protocols = options.protocols.clone();
        let done = yearbook::run(&args.yearbook, protocols, args.quick, &options.out, stop)?;
        summary["yearbook"] = yearbook::json(&done);
        report = done.text();
    }
    if args.wants(Family::Assimilation) {
        let size = (args.quick, args.yearbook.full);
        let done = assimilation::run(&args.assimilation, size, &options.out, stop)?;
        summary["assimilation"] = assimilation::json(&done);
        report.push_str(&done.text());
    }
    let page = options.out.join("index.html");
    if args.json {
        summary["report"] = page.display().to_string().into();
        return match writeln!(std::io::stdout(), "{summary}") {
            // A closed pipe (`| head`) is no error of ours.
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::other(format!("cannot write standard output: {e}")))
            }
            _ => Ok(()),
        };
    }
    report.push_str(&format!("\nReport: {}\n", page.display()));
    report.push_str(&verdict);
    // A closed pipe (`| head`) is no error of ours.
    let _ = writeln!(std::io::stdout(), "{}", report.trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn nothing_given_is_everything_in_both_protocols() {
        let options = parse("reproduce").unwrap().options();
        assert_eq!(options.systems.len(), 21);
        assert_eq!(options.protocols, [Protocol::Published, Protocol::Specified]);
        assert_eq!((options.runs, options.seed), (100, 0));
        assert_eq!(options.out, PathBuf::from("reproduction"));
    }

    #[test]
    fn flags_are_the_documented_ones() {
        let line = "reproduce toy lorenz --protocol published --out x --seed 3 --threads 2 --quick --timings";
        let options = parse(line).unwrap().options();
        assert_eq!((options.runs, options.seed, options.threads), (5, 3, Some(2)));
        assert_eq!(parse("reproduce toy --quick --runs 7").unwrap().options().runs, 7);
        assert_eq!(parse("reproduce toy").unwrap().options().systems.len(), 9);
        assert!(parse("reproduce --runs 0").is_err());
        assert!(parse("reproduce moon").is_err());
    }
}
