//! One step of a filter, opened up: what is descended, from where, over which points, to where; and the priors that stand
//! behind it (the paper's Figures 1 and 4, and its Section 3).
//!
//! Nothing is filtered a second time here. The belief before the row is saved, and the same filter with 1, 2, ..., K steps is let
//! loose on it: where it ends after j steps is the j-th point of the path, and the last one is the estimate.

use crate::fault::Fault;
use crate::limits::{self, Patience};
use crate::subject::Subject;
use nalgebra::{DMatrix, Dyn};
use optfilter::equivalence::implied_prior_of_rate;
use optfilter::model::likelihood::Observed;
use optfilter::model::{Likelihood, Observation};
use optfilter_model::run::build_text;
use optfilter_run::{
    DynFilter, Estimate, FilterSpec, Linearized, Loss, Method, OnlineFilter, walk,
};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The most points of a path.
const MAX_POINTS: u32 = 60;
/// Points along one state, and along each of two.
const LINE: usize = 161;
const PLANE: usize = 49;

/// States up to which covariances are looked at here.
const MAX_STATES: usize = 60;

/// A Gaussian over the states that are looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bell {
    /// Whose it is.
    pub who: &'static str,
    /// `prior` or `posterior`.
    pub when: &'static str,
    /// Its mean.
    pub mean: Vec<f64>,
    /// Its covariance, row by row.
    pub cov: Vec<f64>,
}

/// A step, opened up, along one or two states.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Opened {
    /// The row, from 0.
    pub row: usize,
    /// Its time.
    pub time: f64,
    /// The measurements.
    pub y: Vec<f64>,
    /// Whether something was measured.
    pub measured: bool,
    /// All states after 0, 1, ... steps; the first is the prediction and the last the estimate.
    pub path: Vec<Vec<f64>>,
    /// How many steps lead to each.
    pub steps: Vec<u32>,
    /// The loss at each of them.
    pub losses: Vec<f64>,
    /// Where the loss is drawn: from, to, for each state looked at.
    pub ranges: Vec<[f64; 2]>,
    /// The loss: along the one state, or row by row over the second.
    pub loss: Vec<f64>,
    /// The priors and posteriors.
    pub bells: Vec<Bell>,
    /// What is to be said of it.
    pub notes: Vec<String>,
}

/// The last beliefs that were needed: playing through time goes on from them.
#[derive(Default)]
pub struct Bookmarks(Mutex<Vec<(String, usize, Vec<u8>)>>);

impl Bookmarks {
    /// A filter that has taken the rows before `row`.
    fn reach(
        &self,
        subject: &Subject,
        filter: &FilterSpec,
        row: usize,
        patience: &Patience<'_>,
    ) -> Result<(Arc<dyn DynFilter>, Box<dyn OnlineFilter>), Fault> {
        let runner = subject.spec.runner(filter)?;
        let name = format!("{} {}", subject.key, crate::run::settings(filter));
        let marks = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks().iter().rfind(|(n, at, _)| *n == name && *at <= row).cloned();
        let (from, mut live) = match mark.map(|(_, at, bytes)| (at, runner.load(&bytes))) {
            Some((at, Ok(live))) => (at, live),
            _ => (0, runner.start(runner.default_start())?),
        };
        let stride = limits::stride(&subject.spec, filter);
        walk(&mut *live, &subject.data.rows(from..row, filter), |k, _, _| match k % stride {
            0 => patience.check(),
            _ => Ok(()),
        })?;
        if let Ok(bytes) = live.save() {
            let mut marks = marks();
            marks.retain(|(n, at, _)| *n != name || *at != row);
            marks.push((name, row, bytes));
            if marks.len() > 16 {
                marks.remove(0);
            }
        }
        Ok((runner, live))
    }

    /// Opens the step of a row along the states `along` (one or two of them).
    pub fn open(
        &self,
        subject: &Subject,
        filter: &FilterSpec,
        row: usize,
        along: &[usize],
        patience: &Patience<'_>,
    ) -> Result<Opened, Fault> {
        let (spec, data) = (&subject.spec, &subject.data);
        let n = spec.states.len();
        if row >= data.len() || along.is_empty() || along.len() > 2 || along.iter().any(|&i| i >= n)
        {
            return Err(Fault::Request("there is no such row or state".into()));
        }
        let filter = match filter.method() {
            Method::Imap | Method::Vkf => FilterSpec { error_bars: Some(false), ..filter.clone() },
            _ => filter.clone(),
        };
        let (step, u, y) = (&data.steps[row], data.input(row), data.output(row));
        let mut out = Opened {
            row,
            time: data.time(row),
            y: y.to_vec(),
            measured: y.iter().any(|v| !v.is_nan()),
            ..Opened::default()
        };
        let (_, mut live) = self.reach(subject, &filter, row, patience)?;
        data.row(row, &filter).predict(&mut *live)?;
        let mut at = Estimate::default();
        live.estimate(&mut at);
        let start = at.mean.clone();
        let own_prior = at.cov.clone();
        let saved = live.save().map_err(|e| Fault::Filter("", e.to_string()))?;
        out.path.push(start.clone());
        out.steps.push(0);
        let problem = spec.problem()?;
        for steps in points(&filter) {
            patience.check()?;
            let fewer = FilterSpec { steps, ..filter.clone() };
            let runner = build_text(&fewer, &problem, None, false)?;
            let mut live = runner.load(&saved).map_err(|e| Fault::Filter("", e.to_string()))?;
            live.update(y, u, step, &mut at)?;
            out.path.push(at.mean.clone());
            out.steps.push(steps.unwrap_or(1));
        }
        let end = at.mean.clone();
        if !own_prior.is_empty() && !filter.method().optimizes() {
            out.bells.push(bell(filter.method().name(), "prior", &start, &own_prior, along));
            out.bells.push(bell(filter.method().name(), "posterior", &end, &at.cov, along));
        }
        self.implied(subject, &filter, (row, &start, &end), along, &mut out)?;
        self.kalman(subject, &filter, row, along, &mut out, patience);
        // The loss, where anything is to be seen of it.
        let scaled = match filter.measurement_scale {
            Some(k) => problem.with_measurement_scale(k)?,
            None => problem,
        };
        let m = y.len();
        let likelihood = scaled.likelihood(Dyn(m), filter.loss == Some(Loss::Squared))?;
        let mask: Vec<bool> = y.iter().map(|v| !v.is_nan()).collect();
        let mut eta = vec![0.0; m];
        let mut loss = |x: &[f64]| {
            scaled.model.observe(x, u, step, &mut eta);
            likelihood.loss(y, &eta, Observed::Some(&mask))
        };
        out.losses = out.path.iter().map(|x| loss(x)).collect();
        out.ranges = along.iter().enumerate().map(|(k, &i)| range(&out, k, i)).collect();
        let across = |[low, high]: [f64; 2], k: usize, count: usize| {
            low + (high - low) * k as f64 / (count - 1) as f64
        };
        let mut x = end.clone();
        match (along, out.ranges.as_slice()) {
            ([i], [range]) => {
                for k in 0..LINE {
                    x[*i] = across(*range, k, LINE);
                    out.loss.push(loss(&x));
                }
            }
            ([i, j], [first, second]) => {
                for b in 0..PLANE {
                    for a in 0..PLANE {
                        x[*i] = across(*first, a, PLANE);
                        x[*j] = across(*second, b, PLANE);
                        out.loss.push(loss(&x));
                    }
                }
            }
            _ => {}
        }
        if filter.window() > 0 {
            let note = "the loss shown is that of the newest row; the filter descends that of its whole window";
            out.notes.push(note.into());
        }
        if !out.measured {
            out.notes.push("nothing was measured here: the estimate is the prediction".into());
        }
        Ok(out)
    }

    /// The prior that the optimizer and its number of steps imply, where theory has one.
    fn implied(
        &self,
        subject: &Subject,
        filter: &FilterSpec,
        (row, start, end): (usize, &[f64], &[f64]),
        along: &[usize],
        out: &mut Opened,
    ) -> Result<(), Fault> {
        if filter.method() != Method::Imap {
            return Ok(());
        }
        if start.len() > MAX_STATES {
            out.notes.push(format!("priors are shown up to {MAX_STATES} states"));
            return Ok(());
        }
        if filter.optimizer() != "gd" || filter.window() > 0 {
            out.notes.push(match filter.window() {
                0 => format!("{} adapts its steps, so no one prior describes them; gd has one", filter.optimizer()),
                _ => "over a window the implied prior is of its oldest state; `optfilter explain` shows it".into(),
            });
            return Ok(());
        }
        let mut problem = subject.spec.problem()?;
        if let Some(k) = filter.measurement_scale {
            problem = problem.with_measurement_scale(k)?;
        }
        if filter.loss == Some(Loss::Squared) {
            problem.measurement = None;
        }
        let (step, u) = (&subject.data.steps[row], subject.data.input(row));
        let at = Linearized::at(&problem, start, step, u)?;
        match implied_prior_of_rate(filter.lr(), &at.h, &at.r, filter.steps()) {
            Ok(prior) => {
                out.bells.push(bell("implied", "prior", start, prior.as_slice(), along));
                if let Some(gain) = at.gain(&prior).filter(|_| out.measured) {
                    let posterior = &prior - gain * &at.h * &prior;
                    out.bells.push(bell("implied", "posterior", end, posterior.as_slice(), along));
                }
            }
            Err(error) => out.notes.push(format!("no prior implies these steps: {error}")),
        }
        Ok(())
    }

    /// The Kalman filter's own prior and posterior, where it can run.
    fn kalman(
        &self,
        subject: &Subject,
        filter: &FilterSpec,
        row: usize,
        along: &[usize],
        out: &mut Opened,
        patience: &Patience<'_>,
    ) {
        let Ok(problem) = subject.spec.problem() else { return };
        let linear = problem.model.is_linear() && problem.is_gaussian();
        let method = if linear { Method::Kf } else { Method::Ekf };
        if filter.method() == method || subject.spec.states.len() > MAX_STATES {
            return;
        }
        let reference = FilterSpec {
            method: Some(method),
            process_scale: filter.process_scale,
            measurement_scale: filter.measurement_scale,
            predict_first: filter.predict_first,
            irregular: filter.irregular,
            ..FilterSpec::default()
        };
        let data = &subject.data;
        let (step, u, y) = (&data.steps[row], data.input(row), data.output(row));
        if limits::check(&subject.spec, &reference).is_err() {
            return;
        }
        let Ok((_, mut live)) = self.reach(subject, &reference, row, patience) else { return };
        if data.row(row, filter).predict(&mut *live).is_err() {
            return;
        }
        let mut at = Estimate::default();
        live.estimate(&mut at);
        out.bells.push(bell(method.name(), "prior", &at.mean, &at.cov, along));
        if live.update(y, u, step, &mut at).is_ok() {
            out.bells.push(bell(method.name(), "posterior", &at.mean, &at.cov, along));
        }
    }
}

/// After how many steps the path is looked at; a filter without steps has one way only.
fn points(filter: &FilterSpec) -> Vec<Option<u32>> {
    if !filter.method().optimizes() && filter.method() != Method::Iekf {
        return vec![filter.steps];
    }
    let last = filter.steps();
    if last <= MAX_POINTS {
        return (1..=last).map(Some).collect();
    }
    let at =
        |k: u32| (f64::from(last).powf(f64::from(k) / f64::from(MAX_POINTS - 1))).round() as u32;
    let mut all: Vec<u32> = (0..MAX_POINTS).map(at).collect();
    all.dedup();
    all.into_iter().map(Some).collect()
}

/// The part of a Gaussian that concerns the states looked at.
fn bell(who: &'static str, when: &'static str, mean: &[f64], cov: &[f64], along: &[usize]) -> Bell {
    let n = mean.len();
    let cov = DMatrix::from_fn(along.len(), along.len(), |a, b| {
        cov.get(along[a] + n * along[b]).copied().unwrap_or(f64::NAN)
    });
    let mean = along.iter().map(|&i| mean[i]).collect();
    Bell { who, when, mean, cov: cov.as_slice().to_vec() }
}

/// What to draw of state `i`, the `k`-th one looked at: the path, and the Gaussians as far as they are not far wider.
fn range(out: &Opened, k: usize, i: usize) -> [f64; 2] {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    let mut take = |v: f64| {
        if v.is_finite() {
            (low, high) = (low.min(v), high.max(v));
        }
    };
    out.path.iter().for_each(|x| take(x[i]));
    let size = |b: &Bell| b.cov.get(k * (b.mean.len() + 1)).map_or(f64::NAN, |v| v.sqrt());
    let smallest = out.bells.iter().map(size).filter(|s| *s > 0.0).fold(f64::INFINITY, f64::min);
    for b in &out.bells {
        let reach = 3.0 * size(b).min(6.0 * smallest);
        take(b.mean[k] - reach);
        take(b.mean[k] + reach);
    }
    let width = high - low;
    let margin = if width > 0.0 { 0.15 * width } else { 1.0_f64.max(0.5 * low.abs()) };
    [low - margin, high + margin]
}
