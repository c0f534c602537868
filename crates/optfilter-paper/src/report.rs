//! `index.html`: everything on one self-contained page.

use crate::cells::Verdict;
use crate::conclusions::conclusions;
use crate::figure::Figure;
use crate::figure::canvas::escape;
use crate::grid::GridMethod;
use crate::options::Options;
use crate::outcome::{Cell, Outcome, SystemRows};
use crate::protocol::Protocol;
use crate::published::quirks::QUIRKS;
use crate::row::Row;
use crate::stats::Summary;
use crate::text::{self, TABLES};
use core::fmt::Write;

const STYLE: &str = include_str!("report.css");

/// Where other experiments add their sections.
const APPENDIX: &str = "<!-- appendix -->";
const END: &str = "</main></body></html>\n";

fn begin() -> String {
    let mut out =
        String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    let _ = writeln!(
        out,
        "<title>Implicit MAP filtering: the paper reproduced</title>\n<style>{STYLE}</style></head><body><main>"
    );
    out
}

/// A page with nothing but room for an appendix.
pub(crate) fn empty_page() -> String {
    format!(
        "{}<header><h1>Implicit Maximum a Posteriori Filtering, reproduced</h1></header>{APPENDIX}{END}",
        begin()
    )
}

/// The page with `section` as its appendix, in place of any it had.
pub(crate) fn with_appendix(page: &str, section: &str) -> String {
    let body = page.split_once(APPENDIX).map_or(page, |(body, _)| body);
    let body = body.strip_suffix(END).unwrap_or(body);
    format!("{body}{APPENDIX}{section}{END}")
}

/// The page.
pub fn page(options: &Options, outcome: &Outcome, figures: &[Figure]) -> String {
    let mut out = begin();
    header(&mut out, options, outcome);
    summary_of_cells(&mut out, options, outcome);
    conclusion_table(&mut out, outcome);
    without_truth(&mut out, outcome);
    tables(&mut out, outcome);
    quirks(&mut out, outcome);
    exceptions(&mut out, options, outcome);
    figure_section(&mut out, figures);
    timing_section(&mut out, outcome);
    out.push_str(APPENDIX);
    out.push_str(END);
    out
}

fn header(out: &mut String, options: &Options, outcome: &Outcome) {
    let _ = write!(
        out,
        "<header><h1>Implicit Maximum a Posteriori Filtering, reproduced</h1>\
         <p>The nonlinear experiments of Bencomo, Snell and Griffiths in two protocols that are never mixed: \
         <b>published</b> is the program that made the paper's tables, with everything in which it departs from the text; \
         <b>specified</b> is what the text says, with the library's own filters and optimizers.</p>\
         <dl class=\"facts\"><div><dt>Command</dt><dd><code>{}</code></dd></div>\
         <div><dt>Time</dt><dd>{:.1} s{}</dd></div><div><dt>Runs</dt><dd>{}, first seed {}</dd></div>\
         <div><dt>Program</dt><dd>optfilter {}</dd></div></dl></header>",
        escape(&options.command),
        outcome.time.as_secs_f64(),
        match outcome.taken_over {
            0 => String::new(),
            n => format!(" ({n} pieces taken over from an earlier run)"),
        },
        options.runs,
        options.seed,
        env!("CARGO_PKG_VERSION"),
    );
}

fn summary_of_cells(out: &mut String, options: &Options, outcome: &Outcome) {
    let (exact, all) = outcome.exact();
    if all == 0 {
        return;
    }
    let count = |verdict: Verdict| {
        let cells = outcome.cells.iter();
        cells.filter(|c| c.protocol == Protocol::Published && c.verdict == verdict).count()
    };
    let _ = write!(
        out,
        "<section><h2>The published tables, digit for digit</h2><p class=\"big\">{exact} of {all} cells agree to the last digit</p>\
         <p>{} are misprints of the paper (ours is what its program gives), {} are numerically chaotic and lie within their tolerance, {} differ.</p>",
        count(Verdict::Misprint),
        count(Verdict::Fragile),
        count(Verdict::Differs)
    );
    if options.runs != 100 || options.seed != 0 {
        out.push_str("<p class=\"note\">The tables have 100 runs from seed 0; with other settings the digits cannot agree.</p>");
    }
    out.push_str("</section>");
}

fn conclusion_table(out: &mut String, outcome: &Outcome) {
    let all = conclusions(outcome);
    if all.is_empty() {
        return;
    }
    out.push_str(
        "<section><h2>Where the paper's conclusions hold</h2><p>In how many systems each statement is true. A difference counts only where the 95 % intervals do not \
         overlap; the last column is about the specified protocol.</p><div class=\"scroll\"><table><thead><tr><th class=\"l\">Statement</th><th>published</th>\
         <th>specified</th><th class=\"l\"></th></tr></thead><tbody>",
    );
    for c in all {
        let of = |(yes, all): (usize, usize)| {
            if all == 0 { "–".to_owned() } else { format!("{yes} of {all}") }
        };
        let _ = write!(
            out,
            "<tr><td class=\"l wrap\">{}</td><td>{}</td><td>{}</td><td class=\"l\"><b>{}</b></td></tr>",
            escape(c.claim),
            of(c.published),
            of(c.specified),
            c.verdict()
        );
    }
    out.push_str("</tbody></table></div></section>");
}

fn plain(s: &Summary) -> String {
    if s.diverged > 0 {
        format!("{} diverged", s.diverged)
    } else if s.rmse >= 1e5 {
        format!("{:.1e}", s.rmse)
    } else {
        format!("{:.3} ± {:.3}", s.rmse, s.ci)
    }
}

fn configuration(method: &GridMethod) -> String {
    let given: Vec<String> = method.parameters().into_iter().filter(|p| !p.is_empty()).collect();
    given.join(", ")
}

/// Choosing hyper-parameters with and without the true states.
fn without_truth(out: &mut String, outcome: &Outcome) {
    let specified: Vec<&SystemRows> =
        outcome.grid.iter().filter(|s| s.protocol == Protocol::Specified).collect();
    if specified.is_empty() {
        return;
    }
    out.push_str(
        "<section><h2>Choosing without ground truth</h2><p>The paper chooses hyper-parameters by the error against the true states of five runs. A practitioner does not have \
         those; the one-step-ahead prediction error of the measurements is all there is. Both choices are made on the same five tuning runs and reported on the others \
         (specified protocol): the implicit filter among all 287 optimizers, and the EKF among the 500 values of Q.</p><div class=\"scroll\"><table><thead><tr>\
         <th class=\"l\">System</th><th class=\"l\">Implicit, by truth</th><th>RMSE</th><th class=\"l\">Implicit, by prediction</th><th>RMSE</th>\
         <th>EKF, own Q</th><th>EKF, q by truth</th><th>EKF, q by prediction</th></tr></thead><tbody>",
    );
    for system in specified {
        let choose = |wanted: fn(&GridMethod) -> bool, score: fn(&Row) -> Option<f64>| {
            let rows = system.rows.iter().filter(|row| wanted(&row.method));
            let scored = rows.filter_map(|row| Some((row, score(row).filter(|s| s.is_finite())?)));
            scored.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
        };
        let truth: fn(&Row) -> Option<f64> = |row| Some(row.tuning?.rmse);
        let prediction: fn(&Row) -> Option<f64> = |row| Some(row.tuning?.prediction);
        let implicit: fn(&GridMethod) -> bool = |m| matches!(m, GridMethod::Imap(_));
        let search: fn(&GridMethod) -> bool = |m| matches!(m, GridMethod::EkfSearch { .. });
        let own = system.rows.iter().find(|row| row.method == GridMethod::Ekf);
        let named = |row: Option<&Row>| match row {
            Some(row) => format!(
                "<td class=\"l\">{} ({})</td><td>{}</td>",
                row.method.name().trim_start_matches("IMAP-"),
                configuration(&row.method),
                plain(&row.summary)
            ),
            None => "<td></td><td></td>".into(),
        };
        let valued = |row: Option<&Row>| match row {
            Some(row) => {
                let q = configuration(&row.method);
                let q = if q.is_empty() { q } else { format!(" (q = {q})") };
                format!("<td>{}{q}</td>", plain(&row.summary))
            }
            None => "<td>–</td>".into(),
        };
        let _ = write!(
            out,
            "<tr><td class=\"l\">{}</td>{}{}{}{}{}</tr>",
            system.system,
            named(choose(implicit, truth)),
            named(choose(implicit, prediction)),
            valued(own),
            valued(choose(search, truth)),
            valued(choose(search, prediction))
        );
    }
    out.push_str("</tbody></table></div></section>");
}

/// The paper's tables: printed, published and specified side by side.
fn tables(out: &mut String, outcome: &Outcome) {
    out.push_str(
        "<section><h2>The tables</h2><p>Configurations are (steps K, learning rate, decay). In the specified protocol a tuned row shows the configuration that five separate runs \
         choose. Marks: <span class=\"mark exact\">=</span> every digit agrees, <span class=\"mark misprint\">m</span> misprint, <span class=\"mark fragile\">~</span> chaotic \
         cell, <span class=\"mark differs\">!</span> differs.</p>",
    );
    for (table, title) in TABLES {
        let of = |protocol: Protocol| -> Vec<&Cell> {
            let cells = outcome.cells.iter();
            cells.filter(|c| c.protocol == protocol && c.printed.table == table).collect()
        };
        let (published, specified) = (of(Protocol::Published), of(Protocol::Specified));
        let keys = if published.is_empty() { &specified } else { &published };
        if keys.is_empty() {
            continue;
        }
        let _ = write!(out, "<h3>{title}</h3>");
        let mut columns: Vec<String> = Vec::new();
        for cell in keys {
            let name = text::column(cell);
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        out.push_str("<div class=\"columns\">");
        for column in columns {
            let _ = write!(
                out,
                "<div class=\"scroll\"><table><caption>{column}</caption><thead><tr><th class=\"l\">GridMethod</th><th>paper</th><th>published</th><th></th><th>specified</th></tr></thead><tbody>"
            );
            for (i, cell) in keys.iter().enumerate().filter(|(_, c)| text::column(c) == column) {
                let p = &cell.printed;
                let parameters: Vec<&str> = [&p.steps, &p.lr, &p.decay]
                    .into_iter()
                    .map(String::as_str)
                    .filter(|t| !t.is_empty())
                    .collect();
                let name = if parameters.is_empty() {
                    p.method.clone()
                } else {
                    format!("{} ({})", p.method, parameters.join(", "))
                };
                let ours = published.get(i).map_or_else(
                    || "<td>–</td><td></td>".into(),
                    |c| {
                        let title = if c.reason.is_empty() {
                            c.verdict.name().to_owned()
                        } else {
                            escape(&c.reason)
                        };
                        format!(
                            "<td>{}</td><td><span class=\"mark {}\" title=\"{title}\">{}</span></td>",
                            plain(&c.row.summary),
                            c.verdict.name(),
                            c.verdict.mark()
                        )
                    },
                );
                let theirs = specified.get(i).map_or_else(
                    || "<td>–</td>".into(),
                    |c| {
                        let chosen = if p.is_tuned() {
                            format!("<br><small>({})</small>", configuration(&c.row.method))
                        } else {
                            String::new()
                        };
                        format!("<td>{}{chosen}</td>", plain(&c.row.summary))
                    },
                );
                let _ = write!(
                    out,
                    "<tr><td class=\"l\">{name}</td><td>{} ± {}</td>{ours}{theirs}</tr>",
                    p.value, p.ci
                );
            }
            out.push_str("</tbody></table></div>");
        }
        out.push_str("</div>");
    }
    out.push_str("</section>");
}

fn quirks(out: &mut String, outcome: &Outcome) {
    if outcome.effects.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section><h2>The quirks of the published program, one by one</h2><p>Each line is the published program with one departure from the text put right and all others kept, on the \
         first {} runs of the two headline systems (toy Q = 3, R = 2; Lorenz alpha = 10 with RK4). Only cells that a quirk can reach are shown; unchanged ones are left out.</p>",
        outcome.effect_runs
    );
    out.push_str("<div class=\"scroll\"><table><thead><tr><th class=\"l\">Published program</th><th class=\"l\">Instead</th><th class=\"l\">Mean RMSE, published → without this quirk</th></tr></thead><tbody>");
    for quirk in QUIRKS {
        let mut cells: Vec<String> = Vec::new();
        let effects = outcome.effects.iter().filter(|e| e.quirk == quirk.name);
        for effect in effects {
            let show = |s: &Summary| {
                if s.diverged > 0 {
                    format!("{} diverged", s.diverged)
                } else if s.rmse >= 1e5 {
                    format!("{:.1e}", s.rmse)
                } else {
                    format!("{:.3}", s.rmse)
                }
            };
            let (before, after) = (show(&effect.published), show(&effect.without));
            if before != after {
                cells.push(format!(
                    "<span class=\"effect\">{} {}: {before} → <b>{after}</b></span>",
                    effect.cell.system,
                    effect.cell.name()
                ));
            }
        }
        if cells.is_empty() && !outcome.effects.iter().any(|e| e.quirk == quirk.name) {
            continue; // its system was not run
        }
        let text =
            if cells.is_empty() { "no change in three decimals".into() } else { cells.join(" ") };
        let _ = write!(
            out,
            "<tr><td class=\"l wrap\">{}<br><code>{}</code></td><td class=\"l wrap\">{}</td><td class=\"l wrap\">{text}</td></tr>",
            escape(quirk.published),
            quirk.name,
            escape(quirk.instead)
        );
    }
    out.push_str("</tbody></table></div></section>");
}

fn exceptions(out: &mut String, options: &Options, outcome: &Outcome) {
    let found: Vec<&Cell> = outcome
        .cells
        .iter()
        .filter(|c| c.protocol == Protocol::Published && c.verdict != Verdict::Exact)
        .collect();
    if found.is_empty() || options.runs != 100 {
        return;
    }
    out.push_str(
        "<section><h2>Misprints and chaotic cells</h2><div class=\"scroll\"><table><thead><tr><th class=\"l\">Table</th><th class=\"l\">Cell</th><th>paper</th><th>ours</th><th></th>\
         <th class=\"l\">Why</th></tr></thead><tbody>",
    );
    for cell in found {
        let p = &cell.printed;
        let _ = write!(
            out,
            "<tr><td class=\"l\">{}</td><td class=\"l\">{}, {}</td><td>{} ± {}</td><td>{}</td><td><span class=\"mark {}\">{}</span></td><td class=\"l wrap\">{}</td></tr>",
            p.table,
            text::column(cell),
            text::method(cell),
            p.value,
            p.ci,
            plain(&cell.row.summary),
            cell.verdict.name(),
            cell.verdict.mark(),
            escape(&cell.reason)
        );
    }
    out.push_str("</tbody></table></div></section>");
}

/// The paper's numbers 1 to 5; 6 to 8 are its Yearbook figures, so ours have letters.
const NUMBERS: [&str; 7] = ["1", "2", "3", "4", "5", "A", "B"];

fn figure_section(out: &mut String, figures: &[Figure]) {
    out.push_str("<section><h2>Figures</h2>");
    for (i, figure) in figures.iter().enumerate() {
        let _ = write!(
            out,
            "<figure id=\"figure-{0}\">{1}<figcaption><b>Figure {0}.</b> {2}</figcaption></figure>",
            NUMBERS[i.min(NUMBERS.len() - 1)],
            figure.svg,
            escape(&figure.caption)
        );
    }
    out.push_str("</section>");
}

fn timing_section(out: &mut String, outcome: &Outcome) {
    if outcome.phases.is_empty() {
        return;
    }
    out.push_str("<section><h2>Where the time went</h2><div class=\"scroll\"><table><thead><tr><th class=\"l\">Phase</th><th>seconds</th><th>configurations</th></tr></thead><tbody>");
    for phase in &outcome.phases {
        let _ = write!(
            out,
            "<tr><td class=\"l\">{}</td><td>{:.2}</td><td>{}</td></tr>",
            phase.name,
            phase.time.as_secs_f64(),
            phase.configurations
        );
    }
    out.push_str("</tbody></table></div><p class=\"note\">Pieces taken over from an earlier, interrupted run are not in this list.</p></section>");
}
