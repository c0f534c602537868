//! A filter over a whole table, by the one engine, watched so that a newer request ends it; and what was run of late.

use crate::fault::Fault;
use crate::limits::{self, MAX_AT_ONCE, MAX_NUMBERS, Patience};
use crate::subject::{Subject, number_of};
use optfilter::filter::FilterError;
use optfilter::model::Step;
use optfilter_run::{
    CancelCheck, DynFilter, Estimate, FilterSpec, Forecast, Method, OutputBuffers, RunError,
    forecast, smooth_from, walk,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// States that a forecast draws for each row.
const CLOUD: f64 = 2000.0;
/// Runs that are kept, for views of them.
const KEPT: usize = 6;

/// What a filter made of a table.
#[derive(Debug, Default)]
pub struct Run {
    /// T x n
    pub means: Vec<f64>,
    /// T x n; empty without.
    pub stds: Vec<f64>,
    /// T x m
    pub innovations: Vec<f64>,
    log_likelihoods: Vec<f64>,
    nis: Vec<f64>,
    /// T, each a flag by number.
    pub flags: Vec<f64>,
    /// Rows that the filter came through.
    pub done: usize,
    /// Why it did not come through all.
    pub failed: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What whoever runs it should know.
    pub word: Option<String>,
}

impl Run {
    /// The log-likelihood of a row; NaN where there is none.
    pub fn log_likelihood(&self, row: usize) -> f64 {
        self.log_likelihoods.get(row).copied().unwrap_or(f64::NAN)
    }

    /// The normalised innovation squared of a row; NaN where there is none.
    pub fn nis(&self, row: usize) -> f64 {
        self.nis.get(row).copied().unwrap_or(f64::NAN)
    }
}

/// The settings that a page asked for, less what the filter does not read.
pub fn settled(subject: &Subject, asked: &FilterSpec, bars: bool) -> Result<FilterSpec, Fault> {
    let fitted = subject.spec.fitted(asked)?;
    let bars = if bars { asked.error_bars } else { Some(false) };
    let filter = FilterSpec { error_bars: bars, ..fitted.essential() };
    filter.validate()?;
    limits::check(&subject.spec, &filter)?;
    Ok(filter)
}

/// Runs a filter over the whole table.
pub fn run(subject: &Subject, filter: &FilterSpec, patience: &Patience<'_>) -> Result<Run, Fault> {
    let runner = subject.spec.runner(filter)?;
    let (n, m, _) = runner.dims();
    let rows = subject.data.len();
    let numbers = rows.saturating_mul(n * n);
    let covs = if runner.has_cov() && numbers <= MAX_NUMBERS { numbers } else { 0 };
    let wanted = if runner.has_cov() { rows } else { 0 };
    let mut covs = vec![0.0; covs];
    let mut out = Run {
        means: vec![0.0; rows * n],
        innovations: vec![0.0; rows * m],
        log_likelihoods: vec![0.0; wanted],
        nis: vec![0.0; wanted],
        flags: vec![0.0; rows],
        word: runner.warning().map(str::to_owned),
        ..Run::default()
    };
    let mut into = OutputBuffers {
        means: &mut out.means,
        covs: &mut covs,
        innovations: &mut out.innovations,
        log_likelihoods: &mut out.log_likelihoods,
        nis: &mut out.nis,
        flags: &mut out.flags,
        ..OutputBuffers::default()
    };
    let series = subject.data.series(&subject.spec, filter)?;
    let begun = Instant::now();
    let stride = limits::stride(&subject.spec, filter);
    let watch = CancelCheck { stride, stop: &|| patience.is_over() };
    let done = runner.run(runner.default_start(), &series, &mut into, &watch);
    out.seconds = begun.elapsed().as_secs_f64();
    out.done = rows;
    match done {
        Ok(()) => {}
        Err(FilterError::Empty { argument: "watch" }) => return Err(patience.fault()),
        Err(error @ FilterError::Uneven { .. }) => return Err(error.into()),
        Err(error) => {
            out.done = out.flags.iter().position(|f| f.is_nan()).unwrap_or(rows);
            out.failed = Some(error.to_string());
        }
    }
    out.stds = deviations(&covs, n);
    Ok(out)
}

/// Standard deviations from covariances (T x n x n).
fn deviations(covs: &[f64], n: usize) -> Vec<f64> {
    let mut estimate = Estimate { mean: vec![0.0; n], ..Estimate::default() };
    let mut out = Vec::with_capacity(covs.len() / n.max(1));
    for cov in covs.chunks_exact(n * n) {
        estimate.cov.clear();
        estimate.cov.extend_from_slice(cov);
        out.extend((0..n).map(|i| estimate.std(i)));
    }
    out
}

/// Smoothed means and standard deviations (T x n each), by the settings that smoothing asks for.
pub fn smoothed(
    subject: &Subject,
    filter: &FilterSpec,
    patience: &Patience<'_>,
) -> Result<(Vec<f64>, Vec<f64>), Fault> {
    let filter = subject.spec.smoothing(filter, subject.data.len())?;
    limits::check(&subject.spec, &filter)?;
    let n = subject.spec.states.len();
    let points = if filter.method() == Method::Pf { filter.particles() as usize } else { 0 };
    too_many(subject.data.len(), n.saturating_mul(n.max(points)))?;
    let runner = subject.spec.runner(&filter)?;
    let series = subject.data.series(&subject.spec, &filter)?;
    let stride = limits::stride(&subject.spec, &filter);
    let watch = CancelCheck { stride, stop: &|| patience.is_over() };
    let out = smooth_from(&*runner, runner.default_start(), &series, &watch).map_err(|error| {
        match Fault::from(error) {
            Fault::Stopped => patience.fault(),
            fault => fault,
        }
    })?;
    Ok((out.means, deviations(&out.covs, n)))
}

/// An error where rows of so many numbers each are more than is kept at once.
fn too_many(rows: usize, each: usize) -> Result<(), Fault> {
    if rows.saturating_mul(each) > MAX_NUMBERS {
        return Err(Fault::Limit(format!(
            "{rows} rows of {each} numbers are too many for the page"
        )));
    }
    Ok(())
}

/// What comes after the last row, at the mean interval of the rows.
pub fn ahead(
    subject: &Subject,
    filter: &FilterSpec,
    rows: usize,
    patience: &Patience<'_>,
) -> Result<Forecast, Fault> {
    let data = &subject.data;
    if !subject.spec.inputs.is_empty() {
        return Err(Fault::Filter("", "a forecast needs the inputs of the rows to come".into()));
    }
    let (n, m) = (subject.spec.states.len(), subject.spec.observations.len());
    too_many(rows, n * n + m * m)?;
    // Nobody looks whether a forecast should end. Where densities are no Gaussians it draws a cloud for each row.
    let each =
        limits::row_work(&subject.spec, filter).max(CLOUD * limits::model_work(&subject.spec));
    if rows as f64 * each > MAX_AT_ONCE {
        return Err(Fault::Limit(format!("{rows} rows ahead would take too long; ask for fewer")));
    }
    let stride = limits::stride(&subject.spec, filter);
    let runner: Arc<dyn DynFilter> = subject.spec.runner(filter)?;
    let mut live = runner.start(runner.default_start())?;
    walk(&mut *live, &data.rows(0..data.len(), filter), |row, _, _| match row % stride {
        0 => patience.check(),
        _ => Ok(()),
    })?;
    let (Some(first), Some(last)) = (data.steps.first(), data.steps.last()) else {
        return Err(Fault::Data("the table has no rows".into()));
    };
    let gaps = (data.len() - 1).max(1) as f64;
    let dt = if data.len() > 1 { (last.time - first.time) / gaps } else { subject.spec.dt };
    let step = |k: usize| {
        let index = last.index + k as u64;
        Step { time: last.time + k as f64 * dt, ..Step::even(index, dt) }
    };
    let steps: Vec<Step> = (1..=rows).map(step).collect();
    forecast(&*runner, &mut *live, &steps, &[]).map_err(|e: RunError| e.into())
}

/// Runs that were made of late.
#[derive(Default)]
pub struct Recent(Mutex<Vec<(u64, Arc<Run>)>>);

impl Recent {
    /// A run, made now or before.
    pub fn run(
        &self,
        subject: &Subject,
        filter: &FilterSpec,
        patience: &Patience<'_>,
    ) -> Result<Arc<Run>, Fault> {
        let key = number_of(&(subject.key, settings(filter).to_string()));
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, run)) = kept().iter().find(|(k, _)| *k == key) {
            return Ok(run.clone());
        }
        let made = Arc::new(run(subject, filter, patience)?);
        let mut kept = kept();
        kept.push((key, made.clone()));
        if kept.len() > KEPT {
            kept.remove(0);
        }
        Ok(made)
    }
}

/// The settings that are given.
pub fn settings(filter: &FilterSpec) -> Value {
    serde_json::to_value(filter).unwrap_or_else(|_| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Bookmarks;
    use crate::subject::{Named, Shelf};
    use std::time::Duration;

    fn lorenz() -> Arc<Subject> {
        let model = "system = \"lorenz63\"".into();
        let named = Named { model, name: String::new(), table: "lorenz63".into() };
        Shelf::default().subject(&named).unwrap()
    }

    fn filter(text: &str) -> FilterSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn everything_that_goes_over_a_table_ends_in_time() {
        let (subject, ekf) = (lorenz(), filter(r#"{"method":"ekf"}"#));
        let short = || Patience::new(Duration::from_nanos(1), &|| false);
        let late =
            |done: Option<Fault>| matches!(done, Some(Fault::Limit(m)) if m.contains("longer"));
        assert!(late(run(&subject, &ekf, &short()).err()));
        assert!(late(smoothed(&subject, &ekf, &short()).err()));
        assert!(late(ahead(&subject, &ekf, 5, &short()).err()));
        assert!(late(Bookmarks::default().open(&subject, &ekf, 400, &[0], &short()).err()));
    }

    /// Rows that take long are looked at one by one: of 500 of them no 64 pass before the end is seen.
    #[test]
    fn slow_rows_do_not_keep_a_run_from_ending() {
        let subject = lorenz();
        let slow = filter(r#"{"method":"imap","optimizer":"gd","lr":0.3,"steps":10000}"#);
        let looks = std::sync::atomic::AtomicUsize::new(0);
        let stop = || looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
        let done = run(&subject, &slow, &Patience::new(Duration::from_secs(600), &stop));
        assert_eq!(done.err(), Some(Fault::Stopped));
        assert!(limits::stride(&subject.spec, &slow) <= 4);
    }
}
