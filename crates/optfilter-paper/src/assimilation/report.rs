//! The contest in the report: its tables, three figures, `assimilation.csv` and, of the whole table, `assimilation-lorenz63.csv` and `assimilation-sizes.csv`.

use super::outcome::{Outcome, Score};
use super::settings::{ITERATIONS, LOCAL};
use super::size::Size;
use crate::error::RunError;
use crate::figure::{Picture, untitled};
use crate::files::{save, save_figure};
use crate::report::{empty_page, with_appendix};
use crate::stats::Summary;
use core::fmt::Write;
use optfilter_plot::color::PALETTE;
use optfilter_plot::{Axis, Cell, Color, Mark, Panel, Theme, escape};
use std::path::Path;

/// Where DAPPER's own numbers come from: lines of setting, method, seed and error, beside its arrays.
const THEIRS: &str = "dapper.csv";

impl Outcome {
    /// The tables as text.
    pub fn text(&self) -> String {
        let mut out = String::from("\nData assimilation, Lorenz '96: mean RMSE\n");
        for score in &self.scores {
            let _ = writeln!(
                out,
                "  {:14} {:45} {:.4}   needs {}",
                score.setting,
                score.contender.name(),
                score.mean(),
                score.contender.needs()
            );
        }
        if let Some(seconds) = self.local {
            let _ =
                writeln!(out, "  {}: {:.3} ms a cycle, one thread", LOCAL.name(), 1e3 * seconds);
        }
        if !self.attractor.is_empty() {
            let _ = writeln!(out, "{ATTRACTOR}");
        }
        for of in &self.attractor {
            let [kalman, strong, weak] = [of.kalman.0, of.strong.0, of.weak.0].map(shown);
            let ([a, b], settings) = (of.ratios(), &of.strong.1);
            let _ = writeln!(
                out,
                "  {:24} EKF {kalman}   window {strong} ({a:.3}, {settings})   weak {weak} ({b:.3})",
                of.name
            );
        }
        let _ = writeln!(out, "{SIZES}");
        for size in self.sizes.iter().flatten() {
            let [states, filter, error, cycle, steps, over, vectors] = cells(size);
            let _ = writeln!(
                out,
                "  D = {states:8} {filter:27} RMSE {error:6} {cycle:>10} ms = {steps:>8} bare steps, {over:>5} of the count, {vectors} vectors",
            );
        }
        out
    }

    fn csv(&self) -> String {
        let mut out = String::from("setting,method,scene,rmse\n");
        for score in &self.scores {
            for (scene, error) in score.errors.iter().enumerate() {
                let name = score.contender.name();
                let _ = writeln!(out, "{},\"{name}\",{scene},{error:?}", score.setting);
            }
        }
        out
    }

    fn attractor_csv(&self) -> String {
        let mut out = String::from(
            "setting,ekf,ekf_half_width,q,window,window_half_width,window_settings,weak,weak_half_width,weak_settings\n",
        );
        for of in &self.attractor {
            let (kalman, q) = &of.kalman;
            let _ = write!(out, "\"{}\",{:?},{:?},{q:?}", of.name, kalman.rmse, kalman.ci);
            for (summary, settings) in [&of.strong, &of.weak] {
                let _ = write!(out, ",{:?},{:?},{settings}", summary.rmse, summary.ci);
            }
            out.push('\n');
        }
        out
    }

    fn sizes_csv(&self) -> String {
        let mut out =
            String::from("states,filter,cycles,rmse,seconds,bare_step_seconds,count,vectors\n");
        for s in self.sizes.iter().flatten() {
            let held = s.vectors.map_or(String::new(), |held| format!("{held:?}"));
            let _ = writeln!(
                out,
                "{},\"{}\",{},{:?},{:?},{:?},{:?},{held}",
                s.states, s.filter, s.cycles, s.rmse, s.cycle, s.step, s.count
            );
        }
        out
    }
}

const ATTRACTOR: &str = "Lorenz '63, the text's protocol: an extended Kalman filter with the best Q, a window without Q and R, a weakly constrained one with both";
const SIZES: &str = "Error and cost against size, one thread: bare model steps, and over a count in which tangents and backward steps are two";

fn shown(summary: Summary) -> String {
    format!("{:.4} ± {:.4}", summary.rmse, summary.ci)
}

/// States, filter, error, milliseconds, bare steps, those over the count, and vectors of memory.
fn cells(size: &Size) -> [String; 7] {
    [
        size.states.to_string(),
        size.filter.clone(),
        size.error().map_or(String::new(), |error| format!("{error:.4}")),
        format!("{:.4}", 1e3 * size.cycle),
        format!("{:.2}", size.steps()),
        format!("{:.2}", size.steps() / size.count),
        size.vectors.map_or(String::new(), |held| format!("{held:.0}")),
    ]
}

/// Adds tables and figures to the folder of a run; what an earlier call added is replaced.
pub fn add_to_report(out: &Path, arrays: Option<&Path>, outcome: &Outcome) -> Result<(), RunError> {
    let figures: Vec<Picture> =
        [by_length(outcome), by_size(outcome), hovmoller(outcome)].into_iter().flatten().collect();
    for figure in &figures {
        save_figure(out, figure)?;
    }
    if !outcome.attractor.is_empty() {
        save(&out.join("assimilation-lorenz63.csv"), outcome.attractor_csv().as_bytes())?;
    }
    save(&out.join("assimilation-sizes.csv"), outcome.sizes_csv().as_bytes())?;
    save(&out.join("assimilation.csv"), outcome.csv().as_bytes())?;
    let theirs = arrays.and_then(|dir| std::fs::read_to_string(dir.join(THEIRS)).ok());
    let path = out.join("index.html");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|_| empty_page());
    let section = section(outcome, theirs.as_deref().unwrap_or_default(), &figures);
    save(&path, with_appendix(&page, "assimilation", &section).as_bytes())
}

/// Whether the folder of a run has the section already.
pub fn is_in_report(out: &Path) -> bool {
    let page = std::fs::read_to_string(out.join("index.html"));
    page.is_ok_and(|page| page.contains("<section id=\"assimilation\">"))
}

/// What the section shows or speaks of, and the command that makes it.
const COMMANDS: [(&str, &str); 6] = [
    ("these tables and figures, on simulations of our own", "optfilter-reproduce assimilation"),
    (
        "with half of the states measured, Lorenz '63, and errors and costs from 1,000 to 100,000 states",
        "optfilter-reproduce assimilation --full",
    ),
    (
        "of a million states (hours on one thread)",
        "optfilter-reproduce assimilation --full --states 1000000",
    ),
    (
        "on DAPPER's truth and measurements",
        "python bench/dapper/export.py DIR; optfilter-reproduce assimilation --arrays DIR",
    ),
    ("DAPPER's filters on them", "python bench/dapper/rivals.py DIR TUNING"),
    ("the speed of ensemble filters beside DAPPER's", "python bench/dapper/compare.py DIR"),
];

/// Mean errors of DAPPER's own filters in a setting, from its lines.
fn theirs(lines: &str, setting: &str) -> Vec<(String, f64)> {
    let mut found: Vec<(String, Vec<f64>)> = Vec::new();
    for line in lines.lines().skip(1) {
        let mut cells = line.rsplitn(3, ',');
        let (Some(error), Some(_seed), Some(rest)) = (cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let Some((of, method)) = rest.split_once(',') else { continue };
        let (Ok(error), true) = (error.trim().parse::<f64>(), of == setting) else { continue };
        let method = method.trim_matches('"').to_owned();
        match found.iter_mut().find(|(name, _)| *name == method) {
            Some((_, errors)) => errors.push(error),
            None => found.push((method, vec![error])),
        }
    }
    found.into_iter().map(|(m, e)| (m, e.iter().sum::<f64>() / e.len() as f64)).collect()
}

fn section(outcome: &Outcome, lines: &str, figures: &[Picture]) -> String {
    let mut out = String::from(
        "<section id=\"assimilation\"><h2>Beyond the paper: a window on Lorenz '96</h2><p>An optimizer, a number of steps K and a number of past rows L: \
         no covariance, no ensemble, no Q, no R. Mean over cycles of the root mean squared error over the states; measurements have an error of one \
         unless the setting says otherwise. Settings were chosen on other seeds.</p>",
    );
    out.push_str(
        "<div class=\"scroll\"><table><thead><tr><th class=\"l\">Setting</th><th class=\"l\">Method</th><th class=\"l\">Must be told</th>\
         <th>RMSE</th><th>by scene</th></tr></thead><tbody>",
    );
    let row = |out: &mut String, cells: [&str; 5]| {
        let [setting, method, needs, mean, each] = cells.map(escape);
        let _ = write!(
            out,
            "<tr><td class=\"l\">{setting}</td><td class=\"l\">{method}</td><td class=\"l\">{needs}</td><td>{mean}</td><td>{each}</td></tr>"
        );
    };
    let mut last = "";
    let rest = |out: &mut String, setting: &str| {
        for (method, mean) in theirs(lines, setting) {
            let name = format!("DAPPER: {method}");
            row(out, [setting, &name, "", &format!("{mean:.4}"), ""]);
        }
    };
    for score @ Score { setting, contender, errors } in &outcome.scores {
        if last != setting && !last.is_empty() {
            rest(&mut out, last);
        }
        last = setting;
        let each: Vec<String> = errors.iter().map(|e| format!("{e:.3}")).collect();
        let mean = format!("{:.4}", score.mean());
        row(&mut out, [setting, &contender.name(), contender.needs(), &mean, &each.join(" ")]);
    }
    rest(&mut out, last);
    out.push_str("</tbody></table></div>");
    if let Some(seconds) = outcome.local {
        let _ = write!(
            out,
            "<p class=\"note\">{}: {:.3} ms a cycle on one thread of the machine that made this report.</p>",
            escape(&LOCAL.name()),
            1e3 * seconds
        );
    }
    if !outcome.attractor.is_empty() {
        let head = ["Setting", "EKF", "Window", "of the EKF's", "Chosen", "Weak", "of the EKF's"];
        let rows = outcome.attractor.iter().map(|of| {
            let [strong, weak] = of.ratios().map(|ratio| format!("{ratio:.3}"));
            let [a, b, c] = [of.kalman.0, of.strong.0, of.weak.0].map(shown);
            [of.name.clone(), a, b, strong, of.strong.1.clone(), c, weak]
        });
        table(&mut out, ATTRACTOR, head, rows);
    }
    let head = ["States", "Filter", "RMSE", "ms", "Bare steps", "Over the count", "Vectors held"];
    table(&mut out, SIZES, head, outcome.sizes.iter().flatten().map(cells));
    out.push_str("<p class=\"note\">How each number is made:</p><ul>");
    for (what, command) in COMMANDS {
        let _ = write!(out, "<li>{}: <code>{}</code></li>", escape(what), escape(command));
    }
    out.push_str("</ul>");
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

/// A table with a sentence above it.
fn table<const N: usize>(
    out: &mut String,
    caption: &str,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) {
    let line = |out: &mut String, tag: &str, cells: &[String]| {
        out.push_str("<tr>");
        for cell in cells {
            let _ = write!(out, "<{tag} class=\"l\">{}</{tag}>", escape(cell));
        }
        out.push_str("</tr>");
    };
    let _ = write!(out, "<p>{}.</p><div class=\"scroll\"><table><thead>", escape(caption));
    line(out, "th", &head.map(str::to_owned));
    out.push_str("</thead><tbody>");
    rows.for_each(|cells| line(out, "td", &cells));
    out.push_str("</tbody></table></div>");
}

/// Error against the length of the window.
fn by_length(outcome: &Outcome) -> Option<Picture> {
    let cycles = outcome.swept;
    outcome.sweep.first()?;
    let mut figure = untitled("RMSE against the length of the window", 1, 260.0);
    let mut panel =
        Panel::new("", Axis::linear("past rows L in the window"), Axis::log("mean RMSE"));
    for (k, color) in ITERATIONS.into_iter().zip(PALETTE) {
        let of_k = outcome.sweep.iter().filter(|s| s.1 == k);
        let points: Vec<(f64, f64)> = of_k.map(|s| (s.0 as f64, s.2)).collect();
        panel.marks.push(Mark::points(points.clone()).color(color).size(3.0));
        panel.marks.push(Mark::line(points).color(color).size(1.8).named(format!("K = {k}")));
    }
    figure.panels.push(panel);
    Some(Picture {
        name: "assimilation-rmse-by-length",
        caption: format!(
            "Lorenz '96, 40 states, all measured with unit variance: mean RMSE over {cycles} cycles of a window with K conjugate-gradient iterations per \
             measurement. Longer windows need more iterations; L = 0 with K = 1 repeats the measurement."
        ),
        figure,
    })
}

/// Cost against size.
fn by_size(outcome: &Outcome) -> Option<Picture> {
    let [_, window] = outcome.sizes.first()?;
    let name = window.filter.clone();
    let mut figure = untitled("Cost of a cycle against the size of the state", 1, 240.0);
    let of = |f: fn(&[Size; 2]) -> f64| -> Vec<(f64, f64)> {
        outcome.sizes.iter().map(|both| (both[0].states as f64, 1e3 * f(both))).collect()
    };
    let mut panel = Panel::new("", Axis::log("states D"), Axis::log("milliseconds"));
    for (points, name, color) in [
        (of(|[_, window]| window.cycle), format!("a cycle, {name}"), PALETTE[0]),
        (of(|[one, _]| one.cycle), "a cycle of one gradient step".to_owned(), PALETTE[2]),
        (of(|[_, window]| window.step), "a bare model step".to_owned(), PALETTE[1]),
    ] {
        panel.marks.push(Mark::points(points.clone()).color(color).size(3.0));
        panel.marks.push(Mark::line(points).color(color).size(1.8).named(name));
    }
    figure.panels.push(panel);
    Some(Picture {
        name: "assimilation-cost-by-size",
        caption: "A cycle of a window costs a fixed number of model steps, whatever the size of the state (one thread of the machine that made this report)."
            .into(),
        figure,
    })
}

/// Truth, estimate and error over space and time.
fn hovmoller(outcome: &Outcome) -> Option<Picture> {
    const BEGIN: usize = 100;
    const CYCLES: usize = 150;
    let (scene, estimates) = outcome.shown.as_ref()?;
    let n = scene.start.len();
    let mut figure = untitled("Truth, estimate and error over space and time", 3, 300.0);
    // From blue over white to orange.
    let shade = |v: f64| {
        let [cold, pale, warm] = [0x0c_4a_82, 0xf6_f6_f0, 0xd5_5e_00];
        match v < 0.0 {
            true => Color::mix(pale, cold, (-v).min(1.0)),
            false => Color::mix(pale, warm, v.min(1.0)),
        }
    };
    type Value<'a> = Box<dyn Fn(usize) -> f64 + 'a>;
    let panels: [(&str, f64, Value<'_>); 3] = [
        ("truth", 12.0, Box::new(|i| scene.truth[i])),
        ("estimate", 12.0, Box::new(|i| estimates[i])),
        ("error, ten times as strong", 1.2, Box::new(|i| estimates[i] - scene.truth[i])),
    ];
    for (name, range, value) in panels {
        let x = Axis::linear("state").range(0.0, n as f64).without_grid();
        let label = if figure.panels.is_empty() { "cycle" } else { "" };
        let y = Axis::linear(label).range(0.0, CYCLES as f64).without_grid();
        let cells = (0..CYCLES).flat_map(|t| (0..n).map(move |i| (t, i))).map(|(t, i)| Cell {
            x: (i as f64, i as f64 + 1.0),
            y: (t as f64, t as f64 + 1.0),
            color: shade(value((BEGIN + t) * n + i) / range),
            text: String::new(),
            text_color: Color::fixed(0),
        });
        figure.panels.push(Panel::new(name, x, y).with(Mark::cells(cells)));
    }
    Some(Picture {
        name: "assimilation-hovmoller",
        caption: "Lorenz '96 over space (across) and time (upwards): the truth, the estimate of a window of 56 rows, and its error, in colours ten times as strong."
            .into(),
        figure,
    })
}
