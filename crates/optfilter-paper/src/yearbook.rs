//! The Yearbook experiment in the report: its table, Figures 6 to 8, and its rows of `cells.csv`.
//!
//! The experiment itself is computed elsewhere (network weights are the business of `optfilter-nn`); this
//! module only takes its numbers and adds them to a finished folder: [`add_to_report`].

use crate::cells::{Verdict, printed};
use crate::figure::{Picture, untitled};
use crate::report;
use crate::runner::{RunError, save, save_figure};
use core::fmt::Write;
use optfilter_plot::color::PALETTE;
use optfilter_plot::{Axis, Mark, Panel, Theme, escape};
use std::path::Path;

/// Mean and half-width of a cell, percent.
pub type Interval = (f64, f64);

/// One configuration of one method.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// `published` or `specified`.
    pub protocol: String,
    /// The method, spelled as in the paper's table.
    pub method: String,
    /// Optimizer steps per year, where the method has them.
    pub steps: Option<u32>,
    /// sigma^2, where the method has it.
    pub sigma2: Option<f64>,
    /// The years to 1970.
    pub validation: Interval,
    /// The years from 1971 on.
    pub test: Interval,
    /// Whether it is its method's best on the validation images.
    pub selected: bool,
}

/// Accuracy over the years for several configurations.
#[derive(Clone, Debug)]
pub struct Curves {
    /// Number in the paper: 6, 7 or 8.
    pub number: u32,
    /// `published` or `specified`.
    pub protocol: String,
    /// What it shows.
    pub title: String,
    /// Label, and (year, accuracy in percent).
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// What the experiment gave.
#[derive(Clone, Debug)]
pub struct Results {
    /// The data's name.
    pub data_name: String,
    /// Whether the data were made up.
    pub generated: bool,
    /// Number of images.
    pub images: usize,
    /// Number of seeds.
    pub seeds: u64,
    /// The table.
    pub table: Vec<TableRow>,
    /// The figures.
    pub figures: Vec<Curves>,
}

impl Results {
    /// Spelled as in the paper's table, or so that made-up data cannot be taken for the photographs.
    fn system(&self) -> &'static str {
        if self.generated { "yearbook-generated" } else { "yearbook" }
    }
}

/// Adds table, figures and cells to the folder of a run; what an earlier call added is replaced.
pub fn add_to_report(out: &Path, results: &Results) -> Result<(), RunError> {
    let figures: Vec<Picture> = results.figures.iter().map(picture).collect();
    for figure in &figures {
        save_figure(out, figure)?;
    }
    let path = out.join("cells.csv");
    let old = std::fs::read_to_string(&path).unwrap_or_default();
    save(&path, cells(&old, results)?.as_bytes())?;
    let path = out.join("index.html");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| report::empty_page());
    let page = report::with_appendix(&page, &section(results, &figures));
    save(&path, page.as_bytes())
}

/// The rows of `cells.csv`, those of other systems kept.
fn cells(old: &str, results: &Results) -> Result<String, RunError> {
    let mut out = String::from(
        "table,system,q,r,alpha,dynamics,protocol,method,steps,lr,decay,value,ci,paper_value,paper_ci,verdict\n",
    );
    for line in old.lines().skip(1).filter(|l| !l.starts_with("yearbook_table,")) {
        out.push_str(line);
        out.push('\n');
    }
    for cell in printed()?.iter().filter(|c| c.system == "yearbook") {
        let ours = results.table.iter().filter(|row| row.selected && row.method == cell.method);
        for row in ours {
            let (value, ci) = if cell.dynamics == "test" { row.test } else { row.validation };
            let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
            // Other random numbers than the paper's: digits cannot agree, intervals can.
            let close = (value - number(&cell.value)).abs() <= ci + number(&cell.ci);
            let verdict = if close { Verdict::Fragile } else { Verdict::Differs };
            // Made-up images have nothing to be compared with.
            let (paper_value, paper_ci, verdict) = match results.generated {
                true => ("", "", "generated"),
                false => (cell.value.as_str(), cell.ci.as_str(), verdict.name()),
            };
            let steps = row.steps.map(|k| k.to_string()).unwrap_or_default();
            let _ = writeln!(
                out,
                "{},{},,,,{},{},{},{steps},{},,{value:?},{ci:?},{paper_value},{paper_ci},{verdict}",
                cell.table,
                results.system(),
                cell.dynamics,
                row.protocol,
                cell.method,
                cell.lr,
            );
        }
    }
    Ok(out)
}

/// The section of the page.
fn section(results: &Results, figures: &[Picture]) -> String {
    let mut out =
        String::from("<section id=\"yearbook\"><h2>Yearbook: network weights as the state</h2>");
    let made_up = if results.generated {
        " <b>These images were generated by the program</b>, with a drift of their own, because no photographs were given \
         (<code>--data</code>): the numbers show that the methods work, and cannot be compared with the paper's."
    } else {
        ""
    };
    let _ = write!(
        out,
        "<p>28,193 weights of a convolutional network follow 80 years of images, 32 labelled ones a year. Data: {}, {} images; {} seeds.{made_up} \
         Accuracy in percent, mean ± 95 % half-width over the years of a block; the configuration chosen on the validation images of the first 40 years is marked.</p>",
        escape(&results.data_name),
        results.images,
        results.seeds
    );
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th class=\"l\">Protocol</th><th class=\"l\">Method</th><th class=\"l\">Configuration</th>\
         <th>1931–1970</th><th>1971–2010</th><th>Paper</th></tr></thead><tbody>",
    );
    let paper = printed().unwrap_or_default();
    for row in &results.table {
        let cell = |(mean, half): Interval| match (mean.is_finite(), half.is_finite()) {
            (true, true) => format!("{mean:.3} ± {half:.3}"),
            (true, false) => format!("{mean:.3}"),
            _ => "–".to_owned(),
        };
        let steps = row.steps.map(|k| format!("K = {k}"));
        let sigma2 = row.sigma2.map(|s| format!("σ² = {s}"));
        let configuration: Vec<String> = steps.into_iter().chain(sigma2).collect();
        let theirs: Vec<String> = paper
            .iter()
            .filter(|c| c.system == "yearbook" && c.method == row.method)
            .filter(|_| row.selected && !results.generated)
            .map(|c| format!("{} ± {}", c.value, c.ci))
            .collect();
        let name = escape(&row.method);
        let name = if row.selected { format!("<b>{name}</b>") } else { name };
        let _ = write!(
            out,
            "<tr><td class=\"l\">{}</td><td class=\"l\">{name}</td><td class=\"l\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            row.protocol,
            configuration.join(", "),
            cell(row.validation),
            cell(row.test),
            theirs.join(" / ")
        );
    }
    out.push_str("</tbody></table></div>");
    for figure in figures {
        let _ = write!(
            out,
            "<figure>{}<figcaption>{}</figcaption></figure>",
            figure.figure.svg(Theme::Auto),
            escape(&figure.caption)
        );
    }
    out.push_str("</section>");
    out
}

/// Accuracy against the year, one curve per configuration.
fn picture(curves: &Curves) -> Picture {
    let title = format!("Figure {}: {} ({})", curves.number, curves.title, curves.protocol);
    let low =
        curves.lines.iter().flat_map(|(_, points)| points).fold(100.0_f64, |low, p| low.min(p.1));
    let y = Axis::linear("accuracy on test images, %").range((low - 3.0).max(0.0), 101.0);
    let mut panel = Panel::new(&title, Axis::linear("year"), y);
    for ((label, points), color) in curves.lines.iter().zip(PALETTE.into_iter().cycle()) {
        panel.marks.push(Mark::line(points.iter().copied()).color(color).size(1.6).named(label));
    }
    let figure = untitled(&title, 1, 300.0).with(panel);
    let name = match (curves.number, curves.protocol.as_str()) {
        (6, "published") => "figure-6-yearbook-imap",
        (6, _) => "figure-6-yearbook-imap-specified",
        (7, "published") => "figure-7-yearbook-particles",
        (7, _) => "figure-7-yearbook-particles-specified",
        (_, "published") => "figure-8-yearbook-variational",
        _ => "figure-8-yearbook-variational-specified",
    };
    Picture { name, caption: format!("{title}. Mean over the seeds for each year."), figure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let row = |protocol: &str, method: &str, steps| TableRow {
            protocol: protocol.into(),
            method: method.into(),
            steps,
            sigma2: None,
            validation: (95.0, 0.8),
            test: (84.5, 2.0),
            selected: true,
        };
        Results {
            data_name: "a <test>".into(),
            generated: false,
            images: 3,
            seeds: 1,
            table: vec![row("published", "IMAP-Adam", Some(50)), row("published", "static", None)],
            figures: Vec::new(),
        }
    }

    #[test]
    fn rows_of_other_systems_stay_and_earlier_ones_of_this_are_replaced() {
        let old = "header\nsupp_1,toy,1,2,,,published,EKF,,,,1,1,1,1,exact\nyearbook_table,yearbook,old\n";
        let csv = cells(old, &results()).unwrap();
        assert_eq!(csv.lines().count(), 1 + 1 + 4);
        assert!(csv.contains("supp_1,toy") && !csv.contains(",old"));
        assert!(csv.contains("yearbook_table,yearbook,,,,test,published,IMAP-Adam,50,0.001,,84.5,2.0,84.747,2.030,fragile"));
        // 95 against 82 for static weights is not within the intervals.
        assert!(
            csv.lines()
                .any(|l| l.contains(",validation,published,static,") && l.ends_with("differs"))
        );
    }

    #[test]
    fn made_up_data_are_called_so_in_both_outputs() {
        let made_up = Results { generated: true, ..results() };
        let csv = cells("", &made_up).unwrap();
        assert!(csv.contains("yearbook-generated") && csv.contains(",84.5,2.0,,,generated"));
        assert!(!csv.contains("84.747") && !section(&made_up, &[]).contains("84.747"));
        assert!(section(&made_up, &[]).contains("generated by the program"));
        assert!(section(&made_up, &[]).contains("a &lt;test&gt;"));
    }
}
