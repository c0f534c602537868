//! Grid, random and successive-halving search over settings, on all cores.
//!
//! Successive halving (Jamieson and Talwalkar 2016): all settings see a ninth of the rows, the best
//! third of them a third, the best third of those all. Then the leaders' neighbours get a look.

use super::{Entry, Metric, Tuned, evaluate, parts, space, value};
use crate::ModelSpec;
use crate::run::{Dataset, Score};
use optfilter::rng::Stream;
use optfilter_run::{FilterSpec, Method, SpecError};
use rayon::prelude::*;
use std::sync::Mutex;

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
    news: Mutex<(News, &'a mut (dyn FnMut(&News) + Send))>,
}

impl Board<'_> {
    /// Scores plans on rows up to `end`, in parallel; best first, those that diverge left out.
    fn rank(
        &self,
        plans: Vec<FilterSpec>,
        end: usize,
    ) -> Result<Vec<(FilterSpec, f64)>, SpecError> {
        let (from, _) = parts(self.data.len());
        let from = from.min(end / 2);
        let mut scored: Vec<(FilterSpec, f64)> = plans
            .into_par_iter()
            .map(|plan| {
                let score = evaluate(self.spec, self.data, &plan, from, end)?;
                let v = score.map_or(f64::INFINITY, |s| value(&s, self.search.metric));
                self.tell(&plan, v);
                Ok((plan, v))
            })
            .collect::<Result<_, SpecError>>()?;
        scored.retain(|(_, v)| v.is_finite());
        scored.sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(scored)
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
    let (from, end) = parts(data.len());
    let mut plans = space::candidates(spec, data, &search.methods);
    if plans.is_empty() {
        return Err(SpecError::new("none of these methods can run on the model"));
    }
    plans = choose(plans, search);
    // What the file says already takes part, so that the choice is never worse than it on the rows that choose.
    let own = FilterSpec { error_bars: Some(false), ..spec.filter.clone() };
    let asked = spec.filter != FilterSpec::default() && search.methods.contains(&own.method());
    if asked && spec.runner(&own).is_ok() && !plans.contains(&own) {
        plans.push(own);
    }
    let tried = plans.len();
    let progress = News { done: 0, planned: 0, leaders: Vec::new() };
    let board = Board { spec, data, search, news: Mutex::new((progress, listen)) };
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
        ranked = board.rank(std::mem::take(&mut plans), end / share)?;
        if i == 0 {
            diverged = before - ranked.len();
        }
        if i + 1 < rungs.len() {
            let keep = (ranked.len() / 3).max(12).min(ranked.len());
            plans = ranked[..keep].iter().map(|r| r.0.clone()).collect();
        }
    }
    if ranked.is_empty() {
        return Err(SpecError::new(format!("all {tried} settings diverged on this series")));
    }
    // Around the leader and around the best of each other method.
    let mut near: Vec<FilterSpec> = Vec::new();
    let mut seen: Vec<Method> = Vec::new();
    for (plan, _) in &ranked {
        if !seen.contains(&plan.method()) {
            seen.push(plan.method());
            near.extend(space::neighbours(plan));
        }
    }
    near.extend(ranked.get(1).map(|r| space::neighbours(&r.0)).unwrap_or_default());
    board.new_round(near.len());
    let refined = near.len();
    ranked.extend(board.rank(near, end)?);
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    ranked.dedup_by(|a, b| a.0 == b.0);
    finish(spec, data, ranked, (from, end), tried + refined, diverged)
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

fn finish(
    spec: &ModelSpec,
    data: &Dataset,
    ranked: Vec<(FilterSpec, f64)>,
    (from, end): (usize, usize),
    tried: usize,
    diverged: usize,
) -> Result<Tuned, SpecError> {
    // The board shows the ten best and the best of every method.
    let mut shown: Vec<(FilterSpec, f64)> = Vec::new();
    for (i, entry) in ranked.into_iter().enumerate() {
        if i < 10 || !shown.iter().any(|(p, _)| p.method() == entry.0.method()) {
            shown.push(entry);
        }
    }
    let on_choosing_rows = |plan: &FilterSpec| evaluate(spec, data, plan, from, end);
    let best = on_choosing_rows(&shown[0].0)?;
    let mut board = Vec::new();
    for (plan, chosen_by) in shown {
        let judged = evaluate(spec, data, &plan, end, data.len())?;
        let (Some(judged), Some(score)) = (judged, on_choosing_rows(&plan)?) else { continue };
        let clearly_worse = best.as_ref().is_some_and(|best| differs(best, &score, from, end));
        board
            .push((Entry { filter: plan, chosen_by, judged, clearly_worse }, score.log_likelihood));
    }
    let board = break_ties(board);
    if board.is_empty() {
        return Err(SpecError::new("the best settings diverged on the last rows of the series"));
    }
    let default = FilterSpec { error_bars: Some(false), ..FilterSpec::default() };
    let default = match spec.runner(&default) {
        Ok(_) => evaluate(spec, data, &default, end, data.len())?,
        Err(_) => None,
    };
    Ok(Tuned { board, default, tried, diverged, chosen_on: (from, end) })
}

/// Moves the entry to the top that, among those that prediction cannot tell from the best, gives the
/// measurements the highest likelihood: a proper score of the whole predicted distribution, where the
/// prediction error looks at its mean only. Filters without a likelihood neither win nor lose by this.
fn break_ties(mut board: Vec<(Entry, f64)>) -> Vec<Entry> {
    let best =
        board.first().map_or(
            f64::NAN,
            |(e, likelihood)| {
                if likelihood.is_nan() { f64::NAN } else { e.chosen_by }
            },
        );
    let mut top = 0;
    for i in 1..board.len() {
        let (entry, likelihood) = &board[i];
        // At most 2 % off in prediction, so that many noisy blocks do not excuse a bad filter.
        let tied = !entry.clearly_worse && entry.chosen_by <= 1.02 * best;
        if tied && *likelihood > board[top].1 {
            top = i;
        }
    }
    if top < board.len() {
        let winner = board.remove(top);
        board.insert(0, winner);
    }
    board.into_iter().map(|(entry, _)| entry).collect()
}

/// Whether two filters' prediction errors differ by more than two standard errors, over blocks of rows
/// (errors of neighbouring rows are not independent).
fn differs(best: &Score, other: &Score, from: usize, end: usize) -> bool {
    let block = ((end - from) / 20).max(1);
    let means: Vec<f64> = (from..end)
        .step_by(block)
        .filter_map(|start| {
            let pairs: Vec<f64> = (start..(start + block).min(end))
                .map(|i| other.errors[i] - best.errors[i])
                .filter(|d| !d.is_nan())
                .collect();
            (!pairs.is_empty()).then(|| pairs.iter().sum::<f64>() / pairs.len() as f64)
        })
        .collect();
    if means.len() < 5 {
        return false;
    }
    let n = means.len() as f64;
    let mean = means.iter().sum::<f64>() / n;
    let var = means.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / (n - 1.0);
    mean.abs() > 2.0 * (var / n).sqrt()
}
