//! What `--help` says: flags that several commands have are explained alike, in the section where one looks for them.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod common;

use common::{Folder, ok, run};

/// The commands that read a table by the columns of a model.
const READ: [&str; 8] =
    ["filter", "fit", "smooth", "forecast", "diagnose", "tune", "compare", "explain"];

/// The words on a flag, up to the next one.
fn words<'a>(help: &'a str, flag: &str) -> &'a str {
    let begin = help.find(&format!("\n      {flag} ")).unwrap_or_else(|| panic!("no {flag}"));
    let rest = &help[begin + 1..];
    let end = ["\n      --", "\n  -", "\n\n\n"].iter().filter_map(|e| rest.find(e)).min();
    rest[..end.unwrap_or(rest.len())].trim_end()
}

#[test]
fn every_command_that_reads_a_table_reads_it_alike() {
    let first = ok(&["filter", "--help"]);
    for command in READ {
        let help = ok(&[command, "--help"]);
        for flag in ["--time", "--date-format", "--epoch", "--format"] {
            assert_eq!(words(&help, flag), words(&first, flag), "{command}");
        }
    }
}

#[test]
fn flags_of_a_filter_are_a_section_of_their_own() {
    for command in READ.into_iter().chain(["explore"]) {
        let help = ok(&[command, "--help"]);
        let Some((_, section)) = help.split_once("\nFilter:\n") else {
            assert!(["fit", "tune"].contains(&command), "{command} has no section");
            continue;
        };
        assert!(section.contains("--method <NAME>"), "{command}");
        for other in ["--out", "--plot", "--json", "--time", "--truth", "--export"] {
            assert!(!section.contains(&format!("\n      {other} ")), "{command}: {other}");
        }
    }
}

/// The lines of a page are as long as the terminal that clap takes for given, so that none is broken twice.
#[test]
fn no_line_is_broken_twice() {
    let commands = ["simulate", "adapt", "completions", "model", "explore"];
    for command in READ.into_iter().chain(commands) {
        let help = ok(&[command, "--help"]);
        let (_, after) = help.split_once("\nExamples:\n").unwrap_or(("", ""));
        let lines: Vec<&str> = after.lines().collect();
        for pair in lines.windows(2) {
            let (before, line) = (pair[0], pair[1]);
            let (short, begun) = (line.len() < 60, before.len() > 80);
            let ends = line.ends_with('.') || line.is_empty() || line.starts_with(' ');
            assert!(!(short && begun) || ends, "{command}: {before:?} goes on in {line:?}");
        }
    }
}

/// `explain` reads dates of any pattern, too.
#[test]
fn explain_reads_dates_by_pattern() {
    let folder = Folder::new();
    let model = folder.write(
        "level.toml",
        "states = [\"x\"]\n[dynamics]\nx = \"x\"\n[observation]\ny = \"x\"\n[process_noise]\nvar = 1\n\
         [measurement_noise]\nvar = 1\n[initial]\nmean = 0\nstd = 1\n[time]\ncolumn = \"day\"\nunit = \"day\"\n",
    );
    let rows: String = (1..=28).map(|day| format!("{day:02}.02.2026;{day}\n")).collect();
    let table = folder.write("table.csv", &format!("day;y\n{rows}"));
    let refused = run(&["explain", &model, &table]);
    assert_eq!(refused.status.code(), Some(3));
    ok(&["explain", &model, &table, "--date-format", "%d.%m.%Y"]);
}
