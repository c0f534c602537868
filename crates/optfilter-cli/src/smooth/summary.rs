//! What there is to say of a run.

use super::done::Done;
use crate::settings::with_form;
use crate::style;
use optfilter_model::ModelSpec;
use optfilter_run::{FilterSpec, Search};

/// What there is to say of a run.
pub(super) struct Summary<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) filter: &'a FilterSpec,
    pub(super) series: usize,
    pub(super) rows: usize,
    /// Mean standard deviations, of the smoother and of the filter; NaN without any.
    pub(super) stds: [Vec<f64>; 2],
    pub(super) seconds: f64,
    pub(super) form: Option<String>,
    pub(super) searches: Vec<Search>,
}

impl<'a> Summary<'a> {
    pub(super) fn new(
        spec: &'a ModelSpec,
        filter: &'a FilterSpec,
        form: Option<&str>,
        done: &[Done],
        seconds: f64,
    ) -> Self {
        let rows = done.iter().map(|done| done.rows.len()).sum::<usize>();
        let mean = |which: usize| {
            let of = |done: &Done, i: usize| done.stds[which].get(i).copied().unwrap_or(f64::NAN);
            let sum = |i: usize| done.iter().map(|done| of(done, i)).sum::<f64>();
            (0..spec.states.len()).map(|i| sum(i) / rows as f64).collect()
        };
        Self {
            spec,
            filter,
            series: done.len(),
            rows,
            stds: [mean(0), mean(1)],
            seconds,
            form: form.map(str::to_owned),
            searches: done.iter().filter_map(|done| done.search).collect(),
        }
    }

    /// The most passes that a path took, and whether all are the best there are; `None` where no path was looked for.
    fn search(&self) -> Option<(u32, bool)> {
        let most = self.searches.iter().map(|search| search.passes).max()?;
        Some((most, self.searches.iter().all(|search| search.global)))
    }

    /// What the paths that were looked for cost.
    fn loss(&self) -> Option<f64> {
        let found = !self.searches.is_empty();
        found.then(|| self.searches.iter().map(|search| search.loss).sum())
    }

    pub(super) fn text(&self) -> String {
        let Self { filter, series, rows, stds: [after, before], seconds, .. } = self;
        let several = if *series > 1 { format!("{series} series, ") } else { String::new() };
        let flags = with_form(&filter.flags(), self.form.as_deref());
        let mut out = format!("{flags}\n{several}{rows} rows in {seconds:.2} s\n");
        if let Some((passes, global)) = self.search() {
            let kind = if global { "the best of all" } else { "a local optimum" };
            out.push_str(&format!(
                "path of the highest posterior density: {kind}, after {passes} passes\n"
            ));
        }
        if after.iter().all(|std| std.is_nan()) {
            out.push_str("no standard deviations: this window has none\n");
            return out;
        }
        for (i, name) in self.spec.states.iter().enumerate() {
            out.push_str(&format!("{name}: mean standard deviation {}", style::short(after[i])));
            if before[i].is_finite() {
                out.push_str(&format!(", of the filter {}", style::short(before[i])));
            }
            out.push('\n');
        }
        out
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "model": self.spec.name,
            "settings": self.filter.filled(),
            "series": self.series,
            "rows": self.rows,
            "mean_std": self.stds[0],
            "mean_filtered_std": self.stds[1],
            "seconds": self.seconds,
            "form": self.form,
            "passes": self.search().map(|(passes, _)| passes),
            "optimum": self.search().map(|(_, global)| if global { "global" } else { "local" }),
            "loss": self.loss(),
        })
    }
}
