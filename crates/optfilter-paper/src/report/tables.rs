//! The tables of the page.

use crate::cells::Verdict;
use crate::grid::GridMethod;
use crate::options::Options;
use crate::outcome::{Cell, Outcome, SystemRows};
use crate::protocol::Protocol;
use crate::published::quirks::QUIRKS;
use crate::row::Row;
use crate::stats::Summary;
use crate::text::{self, TABLES};
use core::fmt::Write;
use optfilter_plot::escape;

/// A mean, or why there is none.
fn mean(s: &Summary) -> String {
    if s.diverged > 0 {
        format!("{} diverged", s.diverged)
    } else if s.rmse >= 1e5 {
        format!("{:.1e}", s.rmse)
    } else {
        format!("{:.3}", s.rmse)
    }
}

/// The same with its half-width.
fn plain(s: &Summary) -> String {
    let whole = s.diverged > 0 || s.rmse >= 1e5;
    if whole { mean(s) } else { format!("{} ± {:.3}", mean(s), s.ci) }
}

fn configuration(method: &GridMethod) -> String {
    let given: Vec<String> = method.parameters().into_iter().filter(|p| !p.is_empty()).collect();
    given.join(", ")
}

/// Choosing hyper-parameters with and without the true states.
pub(super) fn without_truth(out: &mut String, outcome: &Outcome) {
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
pub(super) fn printed(out: &mut String, outcome: &Outcome) {
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
                "<div class=\"scroll\"><table><caption>{column}</caption><thead><tr><th class=\"l\">Method</th><th>paper</th><th>published</th><th></th><th>specified</th></tr></thead><tbody>"
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

/// What each quirk alone does to the headline cells.
pub(super) fn quirks(out: &mut String, outcome: &Outcome) {
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
            let (before, after) = (mean(&effect.published), mean(&effect.without));
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

/// The cells that do not agree, each with its reason.
pub(super) fn exceptions(out: &mut String, options: &Options, outcome: &Outcome) {
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
