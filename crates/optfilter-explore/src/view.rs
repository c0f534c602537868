//! The part of a run that a page shows: lines, bands and points, thinned so that every extreme stays.

use crate::fault::Fault;
use crate::pack::Pack;
use crate::run::Run;
use crate::subject::Subject;
use optfilter_plot::Thinner;
use optfilter_run::{Flag, Forecast};
use serde::Deserialize;
use serde_json::json;
use std::ops::Range;

/// The most states and observations that are shown at once.
pub const MAX_PANELS: usize = 24;

/// What is to be seen: a stretch of time, and which states and observations by number.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct View {
    /// From this time on; the first row if missing.
    pub from: Option<f64>,
    /// Up to this time; the last row if missing.
    pub to: Option<f64>,
    /// The states.
    pub states: Vec<usize>,
    /// The observations.
    pub observations: Vec<usize>,
}

impl View {
    /// Refuses what the model does not have.
    pub fn check(&self, subject: &Subject) -> Result<(), Fault> {
        let (n, m) = (subject.spec.states.len(), subject.spec.observations.len());
        let few = self.states.len() <= MAX_PANELS && self.observations.len() <= MAX_PANELS;
        if !few || self.states.iter().any(|&i| i >= n) || self.observations.iter().any(|&i| i >= m)
        {
            return Err(Fault::Request("the model has no such state or observation".into()));
        }
        Ok(())
    }

    /// The rows in view, and one more to each side so that lines reach the edges.
    pub fn rows(&self, subject: &Subject) -> Range<usize> {
        let data = &subject.data;
        let before = |t: f64| data.steps.partition_point(|s| s.time + origin(subject) < t);
        let start = self.from.map_or(0, |t| before(t).saturating_sub(1));
        let end = self.to.map_or(data.len(), |t| (before(t) + 2).min(data.len()));
        start.min(end)..end
    }
}

fn origin(subject: &Subject) -> f64 {
    subject.data.origin.unwrap_or(0.0)
}

/// Measurements and truth, which do not depend on a filter.
pub fn data(subject: &Subject, view: &View, pack: &mut Pack) {
    let (data, n) = (&subject.data, subject.spec.states.len());
    let rows = view.rows(subject);
    for &i in &view.observations {
        let mut measured = Thinner::default();
        rows.clone().for_each(|k| measured.push(data.time(k), data.output(k)[i]));
        pack.pairs(
            json!({"of": "observation", "index": i, "what": "measured"}),
            "points",
            &measured.points(),
        );
    }
    for &i in view.states.iter().filter(|&&i| subject.known[i]) {
        let mut truth = Thinner::default();
        rows.clone().for_each(|k| truth.push(data.time(k), data.truth[k * n + i]));
        pack.pairs(json!({"of": "state", "index": i, "what": "truth"}), "line", &truth.line());
    }
}

/// Estimates with bands, predictions, and flags.
pub fn estimates(subject: &Subject, run: &Run, view: &View, pack: &mut Pack) {
    let (data, spec) = (&subject.data, &subject.spec);
    let (n, m) = (spec.states.len(), spec.observations.len());
    let rows = view.rows(subject);
    for &i in &view.states {
        moments(subject, (&run.means, &run.stds), (i, n), &rows, "estimate", pack);
    }
    for &i in &view.observations {
        let mut predicted = Thinner::default();
        let mut flagged = [Thinner::default(), Thinner::default()];
        for k in rows.clone() {
            let (t, y) = (data.time(k), data.output(k)[i]);
            let expected = y - run.innovations[k * m + i];
            predicted.push(t, expected);
            let is = |flag: Flag| run.flags[k] == f64::from(flag as u8);
            if is(Flag::Outlier) || is(Flag::Lost) {
                flagged[0].push(t, y);
            } else if is(Flag::Runaway) {
                flagged[1].push(t, y);
            }
        }
        let name = |what: &str| json!({"of": "observation", "index": i, "what": what});
        pack.pairs(name("predicted"), "line", &predicted.line());
        for (thinner, what) in flagged.iter().zip(["outlier", "runaway"]) {
            if !thinner.is_empty() {
                pack.pairs(name(what), "points", &thinner.points());
            }
        }
    }
}

/// One state's mean, and its band of two standard deviations.
pub fn moments(
    subject: &Subject,
    (means, stds): (&[f64], &[f64]),
    (i, n): (usize, usize),
    rows: &Range<usize>,
    what: &str,
    pack: &mut Pack,
) {
    let (mut line, mut band) = (Thinner::default(), Thinner::default());
    for k in rows.clone() {
        let (t, mean) = (subject.data.time(k), means[k * n + i]);
        line.push(t, mean);
        if let Some(std) = stds.get(k * n + i) {
            band.push_band(t, mean - 2.0 * std, mean + 2.0 * std);
        }
    }
    let name = json!({"of": "state", "index": i, "what": what});
    if !band.is_empty() {
        pack.band(name.clone(), "band", &band.band());
    }
    pack.pairs(name, "line", &line.line());
}

/// What comes after the last row: means, and the intervals of 80 %.
pub fn ahead(subject: &Subject, forecast: &Forecast, view: &View, pack: &mut Pack) {
    let time = |k: usize| forecast.steps[k].time + origin(subject);
    let rows = 0..forecast.steps.len();
    let chosen = view.states.iter().map(|&i| ("state", i, &forecast.states));
    let observed = view.observations.iter().map(|&i| ("observation", i, &forecast.measurements));
    for (of, i, spreads) in chosen.chain(observed) {
        let name = json!({"of": of, "index": i, "what": "forecast"});
        let line: Vec<_> = rows.clone().map(|k| (time(k), spreads[k][i].mean)).collect();
        let (low, high): (Vec<_>, Vec<_>) =
            rows.clone().map(|k| spreads[k][i].intervals[1]).unzip();
        let band: Vec<_> = rows.clone().map(|k| (time(k), low[k], high[k])).collect();
        if low.iter().any(|v| !v.is_nan()) {
            pack.band(name.clone(), "band", &band);
        }
        pack.pairs(name, "line", &line);
    }
}
