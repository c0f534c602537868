//! What `optfilter adapt` shows: tables, scores for scripts, and a picture.

use crate::style;
use optfilter_nn::adapt::{Labels, Score, Tuned, level, mean_loss};
use optfilter_plot::color::PALETTE;
use optfilter_plot::{Axis, Figure, Mark, Panel};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A method that was run, and how each time step was predicted.
pub struct Run {
    pub name: String,
    pub scores: Vec<Score>,
}

/// The best configurations that were tried.
pub fn tuning(tried: &[Tuned], steps: usize) -> String {
    let mut rows = vec![vec![
        "K".to_owned(),
        "lr".into(),
        format!("mean prequential loss over {steps} time steps"),
    ]];
    for t in tried.iter().take(5) {
        let loss = if t.loss.is_finite() { style::short(t.loss) } else { "diverged".into() };
        rows.push(vec![t.steps.to_string(), t.lr.to_string(), loss]);
    }
    format!("{}\n", style::table(&rows))
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
    let mut rows = vec![vec![
        "method".to_owned(),
        what.to_owned(),
        "first third".into(),
        "middle third".into(),
        "last third".into(),
        "mean loss".into(),
    ]];
    for run in runs {
        let n = run.scores.len();
        let mut row = vec![run.name.clone(), style::short(level(&run.scores, labels))];
        for third in 0..3 {
            row.push(style::short(level(&run.scores[third * n / 3..(third + 1) * n / 3], labels)));
        }
        row.push(style::short(mean_loss(&run.scores)));
        rows.push(row);
    }
    let steps = runs.first().map_or(0, |r| r.scores.len());
    format!(
        "{}\n{what} over {steps} time steps, each predicted before its labels were used.\n",
        style::table(&rows)
    )
}

/// The same numbers for scripts.
pub fn summary_json(runs: &[Run], labels: &Labels) -> Value {
    let score = column(labels);
    let rows = runs.iter().map(|run| {
        json!({
            "method": run.name, "steps": run.scores.len(), score: level(&run.scores, labels),
            "mean_loss": mean_loss(&run.scores),
        })
    });
    rows.collect()
}

/// The scores of every time step.
pub fn csv(runs: &[Run], labels: &Labels) -> String {
    let score = column(labels);
    let mut text = format!("method,time,n,{score},loss\n");
    for run in runs {
        for s in &run.scores {
            let value = level(std::slice::from_ref(s), labels);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\"{}\",{},{},{value},{}", run.name, s.time, s.n, s.loss);
        }
    }
    text
}

/// A running score over about a fiftieth of the stream, so that the curve shows the drift and not the noise.
pub fn figure(runs: &[Run], labels: &Labels, title: String) -> Figure {
    let what = match labels {
        Labels::Classes { .. } => "accuracy, percent (running)",
        Labels::Values(_) => "root mean squared error (running)",
    };
    let mut panel = Panel::new(what, Axis::linear("time"), Axis::linear(""));
    for (run, color) in runs.iter().zip(PALETTE.into_iter().cycle()) {
        let width = (run.scores.len() / 50).max(1);
        let points = (width..=run.scores.len())
            .step_by((run.scores.len() / 1000).max(1))
            .map(|end| (run.scores[end - 1].time, level(&run.scores[end - width..end], labels)));
        panel.marks.push(Mark::line(points).color(color).named(run.name.as_str()));
    }
    Figure::new(title).with(panel)
}
