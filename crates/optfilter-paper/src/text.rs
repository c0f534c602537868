//! The tables as text for a terminal.

use crate::cells::Verdict;
use crate::outcome::{Cell, Outcome};
use crate::protocol::Protocol;
use core::fmt::Write;

/// Titles of the paper's tables, in its order.
pub const TABLES: [(&str, &str); 11] = [
    ("experiment_1_table", "Toy system, R = 2"),
    ("experiment_1_table1", "Toy system, R = 1"),
    ("experiment_1_table3", "Toy system, R = 3"),
    ("experiment_2_table", "Lorenz attractor, alpha = 10"),
    ("experiment_2_q1", "Lorenz attractor, alpha = 1"),
    ("experiment_2_q5", "Lorenz attractor, alpha = 5"),
    ("experiment_2_q20", "Lorenz attractor, alpha = 20"),
    ("supp_1_table", "Toy system, Q = 3, R = 2: twenty optimizers"),
    ("supp_3_table", "Toy system, Q = 3, R = 2: Adam by number of steps"),
    ("supp_2_table", "Lorenz attractor, alpha = 10: twenty optimizers"),
    ("supp_4_table", "Lorenz attractor, alpha = 10, RK4: gradient descent by number of steps"),
];

/// The column of its table a cell stands in, such as `Q = 3` or `rk4`.
pub fn column(cell: &Cell) -> String {
    if cell.printed.system == "toy" {
        format!("Q = {}", cell.printed.q)
    } else {
        cell.printed.dynamics.clone()
    }
}

/// The method with its configuration, such as `IMAP-Adam (50, 0.1, 0.1)`.
pub fn method(cell: &Cell) -> String {
    let parameters = cell.row.method.parameters();
    let given: Vec<&str> =
        parameters.iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
    if given.is_empty() {
        cell.printed.method.clone()
    } else if cell.printed.q_search == "yes" {
        format!("{} (q = {})", cell.printed.method, given.join(", "))
    } else {
        format!("{} ({})", cell.printed.method, given.join(", "))
    }
}

/// Mean and half-width as the paper prints them.
pub fn value(cell: &Cell) -> String {
    let s = &cell.row.summary;
    if s.diverged > 0 {
        return format!("{} runs diverged", s.diverged);
    }
    format!("{:.3} ± {:.3}", s.rmse, s.ci)
}

/// All tables of one protocol.
pub fn tables(outcome: &Outcome, protocol: Protocol) -> String {
    let mut out = String::new();
    for (table, title) in TABLES {
        let cells =
            outcome.cells.iter().filter(|c| c.protocol == protocol && c.printed.table == table);
        let mut columns: Vec<String> = Vec::new();
        for cell in cells.clone() {
            let name = column(cell);
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        if columns.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{title} ({})", protocol.name());
        for name in columns {
            let _ = writeln!(out, "  {name:<31} {:>17}  {:>17}", "ours", "paper");
            for cell in cells.clone().filter(|c| column(c) == name) {
                let paper = format!("{} ± {}", cell.printed.value, cell.printed.ci);
                let mark = match protocol {
                    Protocol::Published => cell.verdict.mark(),
                    Protocol::Specified => ' ',
                };
                let ours = value(cell);
                let _ = writeln!(out, "    {:<29} {ours:>17}  {paper:>17} {mark}", method(cell));
            }
        }
    }
    if protocol == Protocol::Published && !out.is_empty() {
        out.push_str("\n= agrees to the last digit   m the paper's misprint   ~ numerically chaotic cell   ! differs\n");
    }
    out
}

/// The exceptions among the published cells, each with its reason, and the last line of the program.
pub fn verdict(outcome: &Outcome, runs: usize) -> String {
    let mut out = String::new();
    let (exact, all) = outcome.exact();
    if all == 0 {
        return out;
    }
    if runs != 100 {
        let _ = write!(
            out,
            "published: {all} cells of {runs} runs each; the paper's have 100, so their digits are not compared"
        );
        return out;
    }
    let published = outcome.cells.iter().filter(|c| c.protocol == Protocol::Published);
    for cell in published.filter(|c| c.verdict != Verdict::Exact) {
        let reason = if cell.reason.is_empty() { "no explanation" } else { &cell.reason };
        let p = &cell.printed;
        let _ = writeln!(
            out,
            "{:<8} {} {} {}: {}, paper {} ± {}: {reason}",
            cell.verdict.name(),
            p.table,
            column(cell),
            method(cell),
            value(cell),
            p.value,
            p.ci
        );
    }
    let _ = write!(out, "published: {exact} of {all} cells agree to the last digit");
    out
}

/// Where the time went.
pub fn timings(outcome: &Outcome) -> String {
    let mut out = String::new();
    let total: f64 = outcome.phases.iter().map(|p| p.time.as_secs_f64()).sum();
    let configurations: usize = outcome.phases.iter().map(|p| p.configurations).sum();
    let _ =
        writeln!(out, "\n{:<32} {:>9} {:>7} {:>15}", "phase", "seconds", "share", "cells/second");
    for phase in &outcome.phases {
        let seconds = phase.time.as_secs_f64();
        let _ = writeln!(
            out,
            "{:<32} {seconds:>9.2} {:>6.1}% {:>15.1}",
            phase.name,
            100.0 * seconds / total,
            phase.configurations as f64 / seconds.max(1e-9)
        );
    }
    let all = outcome.time.as_secs_f64();
    let _ = writeln!(
        out,
        "{:<32} {all:>9.2} {:>7} {:>15.1}",
        "all",
        "",
        configurations as f64 / all.max(1e-9)
    );
    out
}

/// What both protocols say about the paper's conclusions; empty where the specified one was not run.
pub fn summary(outcome: &Outcome) -> String {
    let all = crate::conclusions::conclusions(outcome);
    let mut out = String::new();
    if all.iter().all(|c| c.specified.1 == 0) {
        return out;
    }
    out.push_str("\nWhere the paper's conclusions hold (systems in which the statement is true)\n");
    for c in all {
        let _ = writeln!(
            out,
            "  {}\n      published {} of {}, specified {} of {}: {}",
            c.claim,
            c.published.0,
            c.published.1,
            c.specified.0,
            c.specified.1,
            c.verdict()
        );
    }
    out
}
