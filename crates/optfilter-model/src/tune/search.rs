//! Grid, random and successive-halving search over settings, on all cores.
//!
//! Successive halving (Jamieson and Talwalkar 2016): all settings see a ninth of the rows, the best
//! third of them a third, the best third of those all. Then the leaders' neighbours get a look.
//!
//! Of a Kalman filter only the ratio of Q and R matters to the means, and how large both are to the likelihood
//! alone. So the grid is over the ratio, each setting is ranked by what it promises with its noise at the best size
//! (which its own run tells), and the leaders are run again at that size.

use super::parts::Parts;
use super::space;
use super::verdict::clearly_worse;
use super::{Baseline, Entry, Metric, Tuned, Window};
use crate::ModelSpec;
use crate::run::{Dataset, Trace, Yardstick};
use optfilter::rng::Stream;
use optfilter_run::{FilterSpec, Method, SpecError};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// How settings are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Every setting of the grid on all rows, up to the budget.
    Grid,
    /// As many as the budget allows, drawn at random, on all rows.
    Random,
    /// Many on few rows, few on all.
    Halving,
}

/// A search to be made.
#[derive(Clone, Debug)]
pub struct Search {
    /// What is compared.
    pub metric: Metric,
    /// How.
    pub strategy: Strategy,
    /// The most settings to try.
    pub budget: usize,
    /// The filters to consider.
    pub methods: Vec<Method>,
    /// Seed of the random draws.
    pub seed: u64,
}

/// News from a running search.
#[derive(Clone, Debug)]
pub struct News {
    /// Runs done.
    pub done: usize,
    /// Runs planned.
    pub planned: usize,
    /// The best so far on the rows now in use, best first.
    pub leaders: Vec<(FilterSpec, f64)>,
}

struct Board<'a> {
    spec: &'a ModelSpec,
    data: &'a Dataset,
    search: &'a Search,
    yard: &'a Yardstick,
    stop: &'a AtomicBool,
    news: Mutex<(News, &'a mut (dyn FnMut(&News) + Send))>,
}

/// A setting that came through the rows in use.
struct Ranked {
    plan: FilterSpec,
    value: f64,
    /// The factor on a Kalman filter's noise that suits it best, and the value with it.
    factor: f64,
    promise: f64,
}

impl Board<'_> {
    /// Scores plans on rows up to `end`, in parallel; best first, those that diverge left out.
    fn rank(&self, plans: Vec<FilterSpec>, end: usize) -> Vec<Ranked> {
        let rows = self.yard.settle.min(end / 2)..end;
        let metric = self.search.metric;
        let one = |plan: FilterSpec| {
            // A setting that the model refuses is one that does not run.
            let run = || self.data.trace(self.spec, &plan, self.yard, end).ok();
            let trace = (!self.stop.load(Ordering::Relaxed)).then(run).flatten();
            let value = trace.as_ref().map_or(f64::INFINITY, |t| metric.value(t, rows.clone()));
            self.tell(&plan, value);
            let (factor, fall) = match &trace {
                Some(trace) if space::is_kalman(plan.method()) => trace.calibration(rows.clone()),
                _ => (1.0, 0.0),
            };
            let fall = if metric == Metric::Likelihood && fall > 0.0 { fall } else { 0.0 };
            Ranked { plan, value, factor, promise: value - fall }
        };
        let mut ranked: Vec<Ranked> = plans.into_par_iter().map(one).collect();
        ranked.retain(|r| r.value.is_finite());
        ranked.sort_by(|a, b| a.promise.total_cmp(&b.promise));
        ranked
    }

    fn tell(&self, plan: &FilterSpec, v: f64) {
        let Ok(mut news) = self.news.lock() else { return };
        let (progress, listen) = &mut *news;
        progress.done += 1;
        if v.is_finite() {
            let at = progress.leaders.partition_point(|(_, w)| *w <= v);
            if at < 5 {
                progress.leaders.insert(at, (plan.clone(), v));
                progress.leaders.truncate(5);
            }
        }
        listen(progress);
    }

    fn new_round(&self, runs: usize) {
        if let Ok(mut news) = self.news.lock() {
            news.0.planned = news.0.done + runs;
            news.0.leaders.clear();
        }
    }
}

/// Searches the settings of a model for a series.
pub fn tune(
    spec: &ModelSpec,
    data: &Dataset,
    search: &Search,
    listen: &mut (dyn FnMut(&News) + Send),
) -> Result<Tuned, SpecError> {
    tune_until(spec, data, search, listen, &AtomicBool::new(false))
}

/// [`tune`] that ends soon after `stop` is raised; whoever raises it throws the result away.
pub fn tune_until(
    spec: &ModelSpec,
    data: &Dataset,
    search: &Search,
    listen: &mut (dyn FnMut(&News) + Send),
    stop: &AtomicBool,
) -> Result<Tuned, SpecError> {
    let parts = Parts::new(data);
    let end = parts.first();
    let (mut methods, mut left_out) = (Vec::new(), Vec::new());
    for &method in &search.methods {
        match spec.runner(&space::base(spec, method)) {
            Ok(_) => methods.push(method),
            Err(why) => left_out.push((method, why.to_string())),
        }
    }
    let mut plans = choose(space::candidates(spec, data, &methods, end), search);
    // What the model has already takes part to the end.
    let default = spec.fitted(&FilterSpec { method: None, ..space::base(spec, Method::Kf) })?;
    let settings = FilterSpec { error_bars: Some(false), ..spec.filter.clone() };
    // Of the methods that are asked for: where its default is none of them, the Kalman filter that it stands in for.
    let own = [spec.fitted(&settings)?, spec.classical(&settings)?]
        .into_iter()
        .find(|own| methods.contains(&own.method()) && spec.runner(own).is_ok());
    plans.extend(own.clone().filter(|own| !plans.contains(own)));
    if plans.is_empty() {
        let why: Vec<String> = left_out.iter().map(|(_, why)| why.clone()).collect();
        let message = format!("none of these methods fits the model: {}", why.join("; "));
        return Err(SpecError::new(message));
    }
    if (parts.settle..end).all(|row| data.output(row).iter().all(|y| y.is_nan())) {
        let message = format!("nothing is measured in rows {} to {end}", parts.settle + 1);
        return Err(SpecError::new(message));
    }
    let tried = plans.len();
    let progress = News { done: 0, planned: 0, leaders: Vec::new() };
    let yard = data.yardstick(spec, parts.settle, end);
    let board =
        Board { spec, data, search, yard: &yard, stop, news: Mutex::new((progress, listen)) };
    let mut diverged = 0;
    // Short series are not cut any shorter: a ninth of fewer than 1000 rows ranks by luck.
    let rungs: &[usize] = match search.strategy {
        Strategy::Halving if end >= 9000 => &[9, 3, 1],
        Strategy::Halving if end >= 3000 => &[3, 1],
        _ => &[1],
    };
    let mut ranked = Vec::new();
    for (i, share) in rungs.iter().enumerate() {
        board.new_round(plans.len());
        let before = plans.len();
        ranked = board.rank(std::mem::take(&mut plans), end / share);
        if i == 0 {
            diverged = before - ranked.len();
        }
        if i + 1 < rungs.len() {
            let keep = (ranked.len() / 3).max(12).min(ranked.len());
            plans = ranked[..keep].iter().map(|r| r.plan.clone()).collect();
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Err(SpecError::new("the search was told to end"));
    }
    if ranked.is_empty() {
        return Err(SpecError::new(format!("all {tried} settings diverged on this series")));
    }
    let near = closer(spec, &ranked);
    board.new_round(near.len());
    let refined = near.len();
    ranked.extend(board.rank(near, end));
    ranked.sort_by(|a, b| a.value.total_cmp(&b.value));
    let pool = pool(ranked.into_iter().map(|r| r.plan), own);
    let traced = |plan: FilterSpec| {
        let trace = data.trace(spec, &plan, &yard, data.len())?;
        Ok((plan, trace))
    };
    let pool: Vec<(FilterSpec, Trace)> =
        pool.into_par_iter().map(traced).collect::<Result<_, SpecError>>()?;
    let default = traced(default)?;
    let judged = judge(search, &parts, pool, default);
    Ok(Tuned { tried: tried + refined, diverged, left_out, ..judged })
}

/// What to look at closer: around the leader and around the best of each other method; Kalman filters with their
/// noise at the size that suits them.
fn closer(spec: &ModelSpec, ranked: &[Ranked]) -> Vec<FilterSpec> {
    let mut near: Vec<FilterSpec> = Vec::new();
    for (i, leader) in ranked.iter().enumerate() {
        let method = leader.plan.method();
        let place = ranked[..i].iter().filter(|r| r.plan.method() == method).count();
        let kalman = space::is_kalman(method) && leader.factor > 0.0 && leader.factor.is_finite();
        let plan = match kalman {
            true => space::calibrated(&leader.plan, leader.factor),
            false => leader.plan.clone(),
        };
        if place == 0 || i == 1 {
            near.extend(space::neighbours(spec, &plan));
        }
        if kalman && place < 3 {
            near.push(plan);
        }
    }
    near
}

/// The ten best, the best of every method, and what the model had: best first, each once.
fn pool(ranked: impl Iterator<Item = FilterSpec>, own: Option<FilterSpec>) -> Vec<FilterSpec> {
    // Settings are the same where they say the same, written out or left to the default.
    let contains = |pool: &[FilterSpec], plan: &FilterSpec| {
        pool.iter().any(|p| p.essential() == plan.essential())
    };
    let mut pool: Vec<FilterSpec> = Vec::new();
    for plan in ranked {
        let first = !pool.iter().any(|p| p.method() == plan.method());
        if (pool.len() < 10 || first) && !contains(&pool, &plan) {
            pool.push(plan);
        }
    }
    pool.extend(own.filter(|own| !contains(&pool, own)));
    pool
}

/// As many candidates as the budget allows: all filters that have few settings, and a random or even
/// selection of the others.
fn choose(plans: Vec<FilterSpec>, search: &Search) -> Vec<FilterSpec> {
    if plans.len() <= search.budget {
        return plans;
    }
    let (classical, mut optimized): (Vec<FilterSpec>, Vec<FilterSpec>) =
        plans.into_iter().partition(|p| p.method() != Method::Imap);
    let room = search.budget.saturating_sub(classical.len()).max(search.budget / 2).max(1);
    if search.strategy == Strategy::Grid {
        let every = optimized.len() as f64 / room as f64;
        let keep = |i: usize| (i as f64 / every).floor() != ((i as f64 + 1.0) / every).floor();
        let mut i = 0;
        optimized.retain(|_| {
            i += 1;
            keep(i - 1)
        });
    } else {
        let mut stream = Stream::new(search.seed, 0, "tuning");
        for i in (1..optimized.len()).rev() {
            optimized.swap(i, (stream.uniform() * (i + 1) as f64) as usize);
        }
        optimized.truncate(room);
    }
    let mut all = classical;
    all.truncate(search.budget.saturating_sub(optimized.len()).max(1));
    all.extend(optimized);
    all
}

/// Chooses before each window and judges on it.
fn judge(
    search: &Search,
    parts: &Parts,
    pool: Vec<(FilterSpec, Trace)>,
    (default, default_trace): (FilterSpec, Trace),
) -> Tuned {
    let metric = search.metric;
    let score = |trace: &Trace, rows: &Range<usize>| {
        trace.reaches(rows.end).then(|| trace.score(rows.clone()))
    };
    let failed = |trace: &Trace| trace.failed.as_ref().map(|(row, _)| *row);
    let rows = default_trace.losses.len();
    let (mut by_choice, mut by_default) = (Trace::empty(rows), Trace::empty(rows));
    let mut windows = Vec::new();
    for window in &parts.windows {
        let (filter, trace) = &pool[pick(metric, &pool, parts.before(window))];
        let score = score(trace, window);
        if score.is_some() {
            by_choice.take(trace, window.clone());
            by_default.take(&default_trace, window.clone());
        }
        let diverged_at = failed(trace).filter(|_| score.is_none());
        windows.push(Window { rows: window.clone(), filter: filter.clone(), score, diverged_at });
    }
    let judging = parts.first()..rows;
    let judged = windows.iter().any(|w| w.score.is_some());
    let last = parts.last();
    let chosen_on = parts.before(last);
    let winner = pick(metric, &pool, chosen_on.clone());
    let losses: Vec<Vec<f64>> =
        pool.iter().map(|(_, trace)| metric.losses(trace, chosen_on.clone())).collect();
    let worse = clearly_worse(&losses, winner);
    let value = |i: &usize| metric.value(&pool[*i].1, chosen_on.clone());
    let mut others: Vec<usize> = (0..pool.len()).filter(|i| *i != winner).collect();
    others.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let entry = |i: usize| Entry {
        filter: pool[i].0.clone(),
        chosen: score(&pool[i].1, &chosen_on),
        judged: score(&pool[i].1, last),
        diverged_at: failed(&pool[i].1),
        clearly_worse: worse[i],
    };
    Tuned {
        board: std::iter::once(winner).chain(others).map(entry).collect(),
        windows,
        judged: judged.then(|| by_choice.score(judging.clone())),
        default: Baseline {
            filter: default,
            score: (judged && default_trace.reaches(rows)).then(|| by_default.score(judging)),
        },
        tried: 0,
        diverged: 0,
        left_out: Vec::new(),
        chosen_on,
    }
}

/// The best on some rows. Where something else than the likelihood is asked for, those that it cannot tell from the
/// best, at most 2 % off, are told apart by the likelihood: a proper score of the whole predicted distribution, where
/// an error looks at its mean only.
fn pick(metric: Metric, pool: &[(FilterSpec, Trace)], rows: Range<usize>) -> usize {
    let values: Vec<f64> = pool.iter().map(|(_, t)| metric.value(t, rows.clone())).collect();
    let least = |values: &[f64]| {
        (0..values.len()).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
    };
    let best = least(&values);
    if metric == Metric::Likelihood {
        return best;
    }
    let losses: Vec<Vec<f64>> = pool.iter().map(|(_, t)| metric.losses(t, rows.clone())).collect();
    let worse = clearly_worse(&losses, best);
    // Values are mean squares.
    let tied = |i: usize| i == best || (!worse[i] && values[i] <= 1.02 * 1.02 * values[best]);
    let likelihood = |(i, (_, trace)): (usize, &(FilterSpec, Trace))| match tied(i) {
        true => Metric::Likelihood.value(trace, rows.clone()),
        false => f64::INFINITY,
    };
    let likelihoods: Vec<f64> = pool.iter().enumerate().map(likelihood).collect();
    let likeliest = least(&likelihoods);
    if likelihoods[likeliest].is_finite() { likeliest } else { best }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with these mean errors, errors against the truth, and losses, all with a little noise.
    fn trace(error: f64, truth: f64, loss: f64, seed: u64) -> (FilterSpec, Trace) {
        let mut out = Trace::empty(200);
        let mut stream = Stream::new(seed, 0, "trace");
        for row in 0..200 {
            out.repeats[row] = 1.0;
            out.errors[row] = error + 0.05 * stream.normal();
            out.truth[row] = truth + 0.05 * stream.normal();
            out.losses[row] = loss + 0.05 * stream.normal();
        }
        (FilterSpec { seed: Some(seed), ..FilterSpec::default() }, out)
    }

    #[test]
    fn among_equals_in_prediction_the_likeliest_is_picked() {
        let pool =
            vec![trace(1.0, 1.0, 9.0, 1), trace(1.003, 1.0, 1.0, 2), trace(1.5, 1.0, 0.0, 3)];
        let picked = |metric| pick(metric, &pool, 20..180);
        assert_eq!(picked(Metric::Prediction), 1);
        assert_eq!(picked(Metric::Likelihood), 2);
    }

    #[test]
    fn settings_are_tested_by_what_they_are_compared_by() {
        let parts = Parts { settle: 20, windows: vec![120..160, 160..200] };
        let worse = |metric| {
            let search = Search {
                metric,
                strategy: Strategy::Grid,
                budget: 1,
                methods: Vec::new(),
                seed: 0,
            };
            let pool = vec![trace(1.0, 1.0, 1.0, 1), trace(1.0, 2.0, 1.0, 2)];
            let done = judge(&search, &parts, pool, trace(1.0, 1.0, 1.0, 3));
            done.board[1].clearly_worse
        };
        assert!(worse(Metric::Truth));
        assert!(!worse(Metric::Prediction) && !worse(Metric::Likelihood));
    }

    #[test]
    fn what_the_model_has_stays_in_the_pool() {
        let plan = |k: u32| FilterSpec { steps: Some(k), ..FilterSpec::default() };
        let pool = pool((0..50).map(plan), Some(plan(40)));
        assert_eq!(pool.len(), 11);
        assert_eq!(pool[10], plan(40));
    }
}
