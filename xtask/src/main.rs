//! `cargo xtask check`: everything that CI runs, cheapest first. It stops at the first failure.

mod beside;
mod circles;
mod fuzz;
mod imports;
mod instructions;
mod licences;
mod packages;
mod page;
mod prose;

use beside::Beside;
use std::process::{Command, ExitCode};
use std::time::Instant;

const HELP: &str = "\
Usage: cargo xtask <TASK> [--no-python]

Tasks:
  check      every check: format, licences, circles, prose, lints, no_std build, documentation, all tests
  licences   only: are the licences of all dependencies on the allowed list?
  circles    only: does any file import another one that imports it?
  instructions  only: instructions of a row in each kernel, against bench/instructions.txt (--write: record them)
  packages   only: every crate packed, and a program built and run from the packages alone
  prose      only: words and sentence lengths of every hand-written page, and banned words
  peers      what check leaves out: heavy installs (burn; Ray, Dask, Spark, JAX, optax, Flax, PyTorch and river from Python),
             the Python package compiled from its source package and the command line, both with the release profile that users get;
             a window tuned on forty states, and the photographs
  fuzz       only: the fuzz targets, a minute each, side by side (or: fuzz [SECONDS] [--runs N] [TARGET]...)
  storm      only: random models through every filter (or: cargo xtask storm --models 1000000 --seed 2)

Options:
  --no-python   leave out the Python package (it needs python3 with venv, and a package index)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let python = !args.iter().any(|a| a == "--no-python");
    let outcome = match args.first().map(String::as_str) {
        Some("check") => check(python),
        Some("licences") => licences::check(),
        Some("circles") => circles::check(),
        Some("packages") => packages::check(),
        Some("prose") => prose::check(),
        Some("instructions") => instructions::check(args.iter().any(|a| a == "--write")),
        Some("peers") => peers(),
        Some("fuzz") => fuzz::Plan::parse(&args[1..]).and_then(|plan| fuzz::fuzz(&plan)),
        Some("storm") => storm(&args[1..]),
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("\nxtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn check(python: bool) -> Result<(), String> {
    let start = Instant::now();
    cargo(&["fmt", "--all", "--check"], &[])?;
    licences::check()?;
    circles::check()?;
    prose::check()?;
    cargo(&["check", "--locked", "-p", "optfilter", "--no-default-features"], &[])?;
    // The code for the card is read, too; it runs only where there is one.
    cargo(
        &[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--features",
            "optfilter-paper/cuda",
            "--",
            "-D",
            "warnings",
        ],
        &[],
    )?;
    cargo(&["check", "--locked", "--manifest-path", "bench/Cargo.toml", "--all-targets"], &[])?;
    // Tests, and what Python's tests and the storm need, in one go: no core waits for the last of one to begin the other. (`cargo test`
    // takes over what was built; other examples were read above.)
    let targets = ["--tests", "--bin", "optfilter", "--example", "doors", "--example", "storm"];
    cargo(&[["build", "--locked", "--workspace", "--lib"].as_slice(), &targets].concat(), &[])?;
    // Python's tests keep one core busy, as do most of the tests that follow.
    let beside = python
        .then(|| Beside::start("python", "sh", &["python/run_tests.sh"], &[("PEERS", "0")]))
        .transpose()?;
    cargo(&["test", "--locked", "--workspace", "--tests"], &[])?;
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let has_compiler = Command::new(&compiler).arg("--version").output().is_ok();
    if has_compiler {
        let kernels = ["--test", "cuda_kernels", "--", "--ignored"];
        cargo(&[["test", "--locked", "--workspace"].as_slice(), &kernels].concat(), &[])?;
    }
    cargo(&["test", "--locked", "--workspace", "--doc"], &[])?;
    // The program and the library share a name, and so would their pages: libraries only.
    cargo(
        &["doc", "--locked", "--workspace", "--no-deps", "--lib"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    storm(&[])?;
    instructions::check(false)?;
    let browser = page::check()?;
    let packed = packages::check();
    // Left alone, a browser would stay behind.
    browser.map_or(Ok(()), Beside::finish)?;
    packed?;
    let targets = fuzz::CHECKED.map(str::to_owned).to_vec();
    fuzz::fuzz(&fuzz::Plan { targets, seconds: Some(20), ..fuzz::Plan::default() })?;
    if let Some(beside) = beside {
        beside.finish()?;
    }
    println!("\nall checks passed in {:.0} s", start.elapsed().as_secs_f64());
    println!(
        "not part of this check: what `cargo xtask peers` does (burn; Ray, Dask, Spark, JAX, optax, Flax, PyTorch and river,"
    );
    println!(
        "  so also that native, PyTorch's and JAX's networks are one filter; Yearbook on the photographs; a window tuned on forty states;"
    );
    println!(
        "  the Python package compiled from its source package instead of packed from what the workspace compiled),"
    );
    println!(
        "  the other fuzz targets (`cargo xtask fuzz`), anything on a card (`cargo run --release -p optfilter-nn --features cuda --example cuda_check`), benchmarks"
    );
    if !has_compiler {
        println!(
            "  and, without a C++ compiler ({compiler}), the card's kernels compiled for the processor"
        );
    }
    if !python {
        println!("  and, as asked, the Python package");
    }
    Ok(())
}

/// Random models through every filter, 10^4 of them unless told otherwise; compiled as the tests are, with overflow
/// checks and debug assertions.
fn storm(args: &[String]) -> Result<(), String> {
    // Of the whole workspace: a package alone has other features and would be compiled again.
    cargo(&["build", "--quiet", "--locked", "--workspace", "--example", "storm"], &[])?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(&format!("{target}/debug/examples/storm"), &args, &[])
}

/// What needs heavy installs or data that are not here.
fn peers() -> Result<(), String> {
    let start = Instant::now();
    cargo(&["test", "--locked", "--manifest-path", "crates/optfilter-nn/burn/Cargo.toml"], &[])?;
    run("sh", &["python/run_tests.sh"], &[("PEERS", "1"), ("PROFILE", "release")])?;
    let tuning = ["test", "--locked", "--workspace", "--test", "tuning", "--", "--ignored"];
    cargo(&tuning, &[])?;
    if std::path::Path::new("../shared/yearbook/yearbook32.npz").is_file() {
        let test = ["test", "--locked", "-p", "optfilter-paper", "--test", "yearbook"];
        cargo(&[test.as_slice(), &["--", "--ignored"]].concat(), &[])?;
    } else {
        println!("\nthe photographs are not here: Yearbook was not run on them");
    }
    println!("\npeers: all passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(args: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    run(&cargo, args, variables)
}

fn run(program: &str, args: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let shown = shown(program, args);
    println!("\n--- {shown}");
    let start = Instant::now();
    let status = Command::new(program)
        .args(args)
        .envs(variables.iter().copied())
        .status()
        .map_err(|e| format!("{shown}: cannot be started: {e}"))?;
    if !status.success() {
        return Err(format!("failed: {shown}"));
    }
    println!("--- {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// A command as a person would write it.
fn shown(program: &str, args: &[&str]) -> String {
    format!("{} {}", program.rsplit('/').next().unwrap_or(program), args.join(" "))
}
