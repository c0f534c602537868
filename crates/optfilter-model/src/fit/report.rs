//! A fit in words and in a table.

use super::uncertain::Knowledge;
use super::{Criterion, Fit};
use crate::file::ModelSpec;

/// What to know before relying on a fit.
pub(super) fn warnings(
    fit: &Fit,
    known: &Knowledge,
    spec: &ModelSpec,
    given: usize,
) -> Vec<String> {
    let mut out = Vec::new();
    for estimate in &fit.estimates {
        if let Some(bound) = estimate.at_bound {
            out.push(format!(
                "{} is at its bound {bound}: it has no standard error, and those of the others take it as given",
                estimate.name
            ));
        }
    }
    let named = |of: &[usize]| -> String {
        let names: Vec<&str> = of.iter().map(|&i| fit.estimates[i].name.as_str()).collect();
        names.join(", ")
    };
    match known.flat.as_slice() {
        [] => {}
        [one] => out.push(format!(
            "the likelihood is flat in {}: the series does not tell it; fix it, or give it bounds",
            named(&[*one])
        )),
        many => out.push(format!(
            "the likelihood is flat in {}: the series does not tell them apart; fix one of them, or give it bounds",
            named(many)
        )),
    }
    if let Some((rise, along)) = &known.rising {
        let by = if rise.is_finite() { format!(" by about {rise:.1e}") } else { String::new() };
        out.push(format!(
            "the search has not converged: the likelihood still rises{by} along {}; try more starts, \
             start from other values, or give them bounds",
            named(along)
        ));
    }
    if fit.rows < given {
        out.push(format!("only the first {} of {given} rows were fitted", fit.rows));
    }
    let reached = fit.climbs.iter().flatten().filter(|v| **v > fit.log_likelihood - 1e-3).count();
    if fit.climbs.len() > 1 && reached == 1 {
        out.push(format!(
            "only one of {} starts reached this likelihood; try more of them",
            fit.climbs.len()
        ));
    }
    let noisy = |i: usize| spec.process_noise.as_ref().is_some_and(|q| q.cov.variance(i) > 0.0);
    if fit.criterion == Criterion::Window && (0..spec.states.len()).any(noisy) {
        let message = "the path through a window has no process noise; where the model needs it, standard errors are too small";
        out.push(message.into());
    }
    if spec.bounds.is_some() {
        out.push("[bounds] of the states are not part of the likelihood".into());
    }
    out
}

/// A number with six significant digits.
fn number(v: f64) -> String {
    let size = v.abs().log10().floor();
    if v == 0.0 || (-4.0..7.0).contains(&size) {
        let digits = if v == 0.0 { 0 } else { (5.0 - size).max(0.0) as usize };
        return format!("{v:.digits$}");
    }
    format!("{v:.5e}")
}

/// Columns side by side, the first to the left, the others to the right.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c].saturating_sub(cell.chars().count()));
            line += &if c == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

impl Fit {
    /// The fit as text: what was fitted, the estimates, how they hang together, what to beware of.
    pub fn summary(&self, title: &str) -> String {
        let many = match self.series {
            1 => String::new(),
            n => format!(" in {n} series"),
        };
        let gaps = match self.rows - self.measured {
            0 => String::new(),
            n => format!(", {n} without a measurement"),
        };
        let diffuse = match self.diffuse {
            0 => String::new(),
            1 => ", one state diffuse at the start".into(),
            n => format!(", {n} states diffuse at the start"),
        };
        let windows = match self.windows {
            None => String::new(),
            Some((1, _)) => ", one window".into(),
            Some((n, rows)) => format!(", {n} windows of up to {rows} rows"),
        };
        let mut out = format!(
            "{title}: {} {}\n{} rows{many}{gaps}{diffuse}{windows}\n\n",
            match self.criterion {
                Criterion::Likelihood => "maximum likelihood by",
                Criterion::Window => "maximum likelihood of windows of",
                Criterion::Prediction => "best one-step predictions of",
            },
            self.method.name(),
            self.rows
        );
        let head = ["", "estimate", "std. error", "in the file"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for estimate in &self.estimates {
            rows.push(vec![
                estimate.name.clone(),
                number(estimate.value),
                estimate.std_error.map_or("n/a".into(), number),
                number(estimate.start),
            ]);
        }
        out += &columns(&rows);
        out += "\n";
        out += &columns(&[
            vec!["log-likelihood".into(), format!("{:.4}", self.log_likelihood)],
            vec!["AIC".into(), format!("{:.4}", self.aic)],
            vec!["BIC".into(), format!("{:.4}", self.bic)],
        ]);
        let shown: Vec<usize> =
            (0..self.estimates.len()).filter(|&i| self.estimates[i].std_error.is_some()).collect();
        if (2..=12).contains(&shown.len()) {
            out += "\nCorrelations of the estimates:\n";
            let mut rows = Vec::new();
            for (place, &i) in shown.iter().enumerate() {
                let mut row = vec![self.estimates[i].name.clone()];
                let with = &shown[..=place];
                row.extend(with.iter().map(|&j| format!("{:.2}", self.correlations[i][j])));
                rows.push(row);
            }
            out += &columns(&rows);
        }
        for warning in &self.warnings {
            out += &format!("\nWarning: {warning}.\n");
        }
        out
    }
}
