//! What `optfilter adapt` shows: tables, scores for scripts, and a picture.

use crate::style;
use optfilter_nn::adapt::{Choice, Follower, Labels, Piece, Rolling, Score, Tally, Tuned, level};
use optfilter_plot::color::PALETTE;
use optfilter_plot::{Axis, Figure, Mark, Panel};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A method that was run, and how well it predicted.
pub struct Run {
    pub name: String,
    pub tally: Tally,
}

/// What was chosen in each window, and where that was a mistake.
pub fn rolling(rolling: &Rolling) -> String {
    let head = ["from time", "K", "lr", "mean loss", "best here", "its loss", ""];
    let mut rows = vec![head.map(String::from).to_vec()];
    for choice in &rolling.choices {
        let Choice { time, chosen, best } = choice;
        rows.push(vec![
            style::short(*time),
            chosen.steps.to_string(),
            chosen.lr.to_string(),
            style::short(chosen.loss),
            format!("K={} lr={}", best.steps, best.lr),
            style::short(best.loss),
            match choice.is_void() {
                true if chosen.loss.is_infinite() => {
                    "void: it diverges here; scored is the next best of before".into()
                }
                true => "void: something else did much better here".into(),
                false => String::new(),
            },
        ]);
    }
    let next = &rolling.next;
    format!(
        "{}\nFor what comes next: --steps {} --lr {}\n\n",
        style::table(&rows),
        next.steps,
        next.lr
    )
}

/// The same for scripts, added to the result of the run.
pub fn rolling_json(rolling: &Rolling, summary: &mut Value) {
    let tried = |t: &Tuned| json!({ "steps": t.steps, "lr": t.lr, "mean_loss": t.loss });
    let windows = rolling.choices.iter().map(|choice| {
        json!({
            "from": choice.time, "chosen": tried(&choice.chosen), "best": tried(&choice.best),
            "void": choice.is_void(),
        })
    });
    summary[0]["windows"] = windows.collect();
    summary[0]["next"] = json!({ "steps": rolling.next.steps, "lr": rolling.next.lr });
}

fn measure(labels: &Labels) -> &'static str {
    match labels {
        Labels::Classes { .. } => "accuracy %",
        Labels::Values(_) => "RMSE",
    }
}

/// The score's name in files.
fn column(labels: &Labels) -> &'static str {
    match labels {
        Labels::Classes { .. } => "accuracy",
        Labels::Values(_) => "rmse",
    }
}

/// The table on the terminal.
pub fn summary(runs: &[Run], labels: &Labels) -> String {
    let what = measure(labels);
    let classes = matches!(labels, Labels::Classes { .. });
    let mut head = vec!["method".to_owned(), what.to_owned()];
    head.extend(["first third", "middle third", "last third", "mean loss"].map(String::from));
    if classes {
        head.extend(["balanced %", "ECE %"].map(String::from));
    }
    let mut rows = vec![head];
    for run in runs {
        let tally = &run.tally;
        let mut row = vec![run.name.clone(), style::short(tally.level(classes))];
        row.extend((0..3).map(|third| style::short(tally.third(third).level(classes))));
        row.push(style::short(tally.mean_loss()));
        if classes {
            row.push(style::short(tally.balanced_accuracy()));
            row.push(style::short(tally.calibration_error()));
        }
        rows.push(row);
    }
    let steps = runs.first().map_or(0, |r| r.tally.steps);
    let missing = runs.first().map_or(0, |r| r.tally.unlabelled);
    let missing = match missing {
        0 => String::new(),
        n => format!(" {n} samples without a label were predicted only."),
    };
    format!(
        "{}\n{what} over {steps} time steps, each predicted before its labels were used.{missing}\n",
        style::table(&rows)
    )
}

/// The settings that a bank listens to at the end of the stream.
pub fn shares(follower: &Follower) -> String {
    let all = follower.shares();
    if all.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = all
        .iter()
        .filter(|(_, share)| *share > 0.01)
        .map(|(setting, share)| format!("{} ({:.0} %)", setting.label(), 100.0 * share))
        .collect();
    format!("At the end it listened to {}.\n", shown.join(", "))
}

/// The same numbers for scripts.
pub fn summary_json(runs: &[Run], labels: &Labels) -> Value {
    let score = column(labels);
    let classes = matches!(labels, Labels::Classes { .. });
    let rows = runs.iter().map(|run| {
        let tally = &run.tally;
        let mut row = json!({
            "method": run.name, "steps": tally.steps, score: tally.level(classes),
            "mean_loss": tally.mean_loss(), "samples": tally.total.n as u64,
            "unlabelled": tally.unlabelled,
        });
        if classes {
            row["balanced_accuracy"] = json!(tally.balanced_accuracy());
            row["calibration_error"] = json!(tally.calibration_error());
        }
        row
    });
    rows.collect()
}

/// The first line of the scores of every time step.
pub fn csv_head(labels: &Labels) -> String {
    format!("method,time,n,{},loss\n", column(labels))
}

/// The scores of every time step of one method.
pub fn csv(text: &mut String, name: &str, scores: &[Score], labels: &Labels) {
    for s in scores.iter().filter(|s| s.n > 0) {
        let value = level(std::slice::from_ref(s), labels);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\"{name}\",{},{},{value},{}", s.time, s.n, s.loss);
    }
}

/// A running score over about a fiftieth of the stream, so that the curve shows the drift and not the noise.
pub fn figure(runs: &[Run], labels: &Labels, title: String) -> Figure {
    let what = match labels {
        Labels::Classes { .. } => "accuracy, percent (running)",
        Labels::Values(_) => "root mean squared error (running)",
    };
    let mut panel = Panel::new(what, Axis::linear("time"), Axis::linear(""));
    let classes = matches!(labels, Labels::Classes { .. });
    for (run, color) in runs.iter().zip(PALETTE.into_iter().cycle()) {
        let pieces: Vec<_> = run.tally.course().copied().collect();
        let width = (pieces.len() / 50).max(1);
        let running = |end: usize| {
            let part = &pieces[end - width..end];
            let sum = |f: fn(&Piece) -> f64| part.iter().map(f).sum::<f64>();
            let all = Piece {
                time: part[width - 1].time,
                n: sum(|p| p.n),
                right: sum(|p| p.right),
                squared_error: sum(|p| p.squared_error),
                loss: sum(|p| p.loss),
            };
            (all.time, all.level(classes))
        };
        let points = (width..=pieces.len()).map(running);
        panel.marks.push(Mark::line(points).color(color).named(run.name.as_str()));
    }
    Figure::new(title).with(panel)
}
