//! `index.html`: everything on one self-contained page.

mod tables;

use crate::cells::Verdict;
use crate::conclusions::conclusions;
use crate::figure::Picture;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::protocol::Protocol;
use core::fmt::Write;
use optfilter_plot::{Theme, escape};

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

/// The page with `section` among its appendices, in place of the one with that `id`.
pub(crate) fn with_appendix(page: &str, id: &str, section: &str) -> String {
    let (body, others) = page.split_once(APPENDIX).unwrap_or((page, ""));
    let body = body.strip_suffix(END).unwrap_or(body);
    let others = others.strip_suffix(END).unwrap_or(others);
    let begin = format!("<section id=\"{id}\">");
    let kept = others.split_inclusive("</section>").filter(|s| !s.starts_with(&begin));
    format!("{body}{APPENDIX}{}{section}{END}", kept.collect::<String>())
}

/// The page.
pub fn page(options: &Options, outcome: &Outcome, figures: &[Picture]) -> String {
    let mut out = begin();
    header(&mut out, options, outcome);
    summary_of_cells(&mut out, options, outcome);
    conclusion_table(&mut out, outcome);
    tables::without_truth(&mut out, outcome);
    tables::printed(&mut out, outcome);
    tables::quirks(&mut out, outcome);
    tables::exceptions(&mut out, options, outcome);
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
    if options.runs != 100 || options.seed != 0 {
        let _ = write!(
            out,
            "<section><h2>The published tables</h2><p class=\"note\">{all} cells. The paper's have 100 runs from seed 0; with other \
             settings the digits are not compared.</p></section>"
        );
        return;
    }
    let _ = write!(
        out,
        "<section><h2>The published tables, digit for digit</h2><p class=\"big\">{exact} of {all} cells agree to the last digit</p>\
         <p>{} are misprints of the paper (ours is what its program gives), {} are numerically chaotic and lie within their tolerance, {} differ.</p>",
        count(Verdict::Misprint),
        count(Verdict::Fragile),
        count(Verdict::Differs)
    );
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

/// The paper's numbers 1 to 5; 6 to 8 are its Yearbook figures, so ours have letters.
const NUMBERS: [&str; 7] = ["1", "2", "3", "4", "5", "A", "B"];

fn figure_section(out: &mut String, figures: &[Picture]) {
    out.push_str("<section><h2>Figures</h2>");
    for (i, figure) in figures.iter().enumerate() {
        let _ = write!(
            out,
            "<figure id=\"figure-{0}\">{1}<figcaption><b>Figure {0}.</b> {2}</figcaption></figure>",
            NUMBERS[i.min(NUMBERS.len() - 1)],
            figure.figure.svg(Theme::Auto),
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
