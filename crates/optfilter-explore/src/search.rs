//! What takes longer than a moment: the map of scores over two settings, and the leader-board of `tune`, told as they come.

use crate::fault::Fault;
use crate::limits::{self, MAX_AT_ONCE, Patience};
use crate::subject::Subject;
use optfilter_model::run::{Score, Trace};
use optfilter_model::tune::{Metric, News, Search, Strategy, clearly_worse, tune_until};
use optfilter_run::{FilterSpec, Method};
use rayon::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most values of each setting.
const MAX_SIDE: usize = 40;
/// Rows that a map looks at, and the search of `tune`.
const MAX_ROWS: usize = 2000;
/// Cells between two words to the page.
const BATCH: usize = 32;
/// How long a map may take.
const LONGEST: Duration = Duration::from_secs(600);

/// A map to be made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapAsk {
    /// The setting along x, and its values.
    pub x: (String, Vec<f64>),
    /// The setting along y, and its values.
    pub y: (String, Vec<f64>),
}

/// The filter with a setting of that name.
fn with(filter: &FilterSpec, key: &str, value: f64) -> Result<FilterSpec, Fault> {
    let whole = value.max(0.0).round() as u32;
    let base = filter.clone();
    Ok(match key {
        "lr" => FilterSpec { lr: Some(value), ..base },
        "steps" => FilterSpec { steps: Some(whole), ..base },
        "window" => FilterSpec { window: Some(whole), ..base },
        "discount" => FilterSpec { discount: Some(value), ..base },
        "process_scale" => FilterSpec { process_scale: Some(value), ..base },
        "measurement_scale" => FilterSpec { measurement_scale: Some(value), ..base },
        "decay" => FilterSpec { decay: Some(value), ..base },
        _ => return Err(Fault::Request(format!("there is no map over {key:?}"))),
    })
}

/// Scores every cell, a coarse grid first, and tells of each batch; the last word names the best and what cannot be told from it.
pub fn map(
    subject: &Subject,
    filter: &FilterSpec,
    ask: &MapAsk,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Value) -> bool,
) -> Result<(), Fault> {
    let (width, height) = (ask.x.1.len(), ask.y.1.len());
    if !(1..=MAX_SIDE).contains(&width) || !(1..=MAX_SIDE).contains(&height) {
        return Err(Fault::Request(format!("a map has between 1 and {MAX_SIDE} values to a side")));
    }
    let end = subject.data.len().min(MAX_ROWS);
    let settle = end / 10;
    let yard = subject.data.yardstick(&subject.spec, settle, end);
    let filter = FilterSpec { error_bars: Some(false), ..filter.clone() };
    let mut plans = Vec::new();
    for y in &ask.y.1 {
        for x in &ask.x.1 {
            let plan = with(&with(&filter, &ask.x.0, *x)?, &ask.y.0, *y)?;
            limits::check(&subject.spec, &plan)?;
            // Nobody looks whether a cell should end.
            if end as f64 * limits::row_work(&subject.spec, &plan) > MAX_AT_ONCE {
                let message = "one cell of this map would take too long; ask for fewer steps or a shorter window";
                return Err(Fault::Limit(message.into()));
            }
            plans.push(plan);
        }
    }
    let stopped = || stop.load(Ordering::Relaxed);
    let patience = Patience::new(LONGEST, &stopped);
    let score = |cell: usize| -> (usize, Option<(Score, Trace)>) {
        if patience.is_over() {
            return (cell, None);
        }
        let trace = subject.data.trace(&subject.spec, &plans[cell], &yard, end).ok();
        let came = trace.filter(|t| t.reaches(end));
        (cell, came.map(|t| (t.score(settle..end), t)))
    };
    let mut losses: Vec<Option<Vec<f64>>> = vec![None; plans.len()];
    let mut best: Option<(usize, f64)> = None;
    let order = coarse_first(width, height);
    let (mut at, mut done) = (0, 0);
    while at < order.len() {
        // The first, coarse words are short, so that something is to be seen at once.
        let size = if at == 0 { 16 } else { BATCH };
        let batch = &order[at..(at + size).min(order.len())];
        at += batch.len();
        let scored: Vec<_> = batch.par_iter().map(|&cell| score(cell)).collect();
        patience.check()?;
        let mut cells = Vec::new();
        for (cell, result) in scored {
            done += 1;
            let value = result.as_ref().map(|(s, _)| s.prediction).filter(|v| v.is_finite());
            cells.push(json!([cell, value]));
            if let (Some(value), Some((_, trace))) = (value, result) {
                losses[cell] = Some(trace.errors[settle..end].to_vec());
                if best.is_none_or(|(_, b)| value < b) {
                    best = Some((cell, value));
                }
            }
        }
        let going = tell(json!({
            "cells": cells, "done": done, "of": order.len(), "best": best.map(|b| b.0), "rows": [settle + 1, end],
        }));
        if !going {
            return Err(Fault::Stopped);
        }
    }
    let kept: Vec<usize> = (0..plans.len()).filter(|&c| losses[c].is_some()).collect();
    let of_kept: Vec<Vec<f64>> = kept.iter().filter_map(|&c| losses[c].take()).collect();
    let place = best.and_then(|(cell, _)| kept.iter().position(|&c| c == cell));
    let ties: Vec<usize> = match place {
        None => Vec::new(),
        Some(place) => {
            let worse = clearly_worse(&of_kept, place);
            kept.iter().zip(worse).filter(|(_, worse)| !worse).map(|(cell, _)| *cell).collect()
        }
    };
    tell(json!({"finished": true, "best": best.map(|b| b.0), "ties": ties}));
    Ok(())
}

/// All cells, those of coarse grids before those between them.
fn coarse_first(width: usize, height: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(width * height);
    let mut taken = vec![false; width * height];
    for stride in [6, 3, 2, 1] {
        for y in (stride / 2..height).step_by(stride) {
            for x in (stride / 2..width).step_by(stride) {
                if !std::mem::replace(&mut taken[y * width + x], true) {
                    order.push(y * width + x);
                }
            }
        }
    }
    order
}

/// Searches settings as `optfilter tune` does, telling of the leaders as they change.
pub fn board(
    subject: &Subject,
    budget: usize,
    stop: &AtomicBool,
    tell: &mut (dyn FnMut(Value) -> bool + Send),
) -> Result<(), Fault> {
    let mut data = subject.data.clone();
    data.truncate(MAX_ROWS);
    if data.len() < 30 {
        return Err(Fault::Data("30 rows are needed to choose a filter".into()));
    }
    // The filter of the model file takes part.
    limits::check(&subject.spec, &subject.spec.fitted(&subject.spec.filter)?)?;
    let methods = vec![Method::Imap, Method::Kf, Method::Ekf, Method::Ukf, Method::Pf];
    let search = Search {
        metric: Metric::Likelihood,
        strategy: Strategy::Halving,
        budget: budget.clamp(10, 1000),
        methods,
        seed: 0,
    };
    let entry = |filter: &FilterSpec| {
        let essential = filter.essential();
        json!({"settings": crate::run::settings(&essential), "flags": essential.flags()})
    };
    // The first news are told at once, further ones not too often.
    let mut said: Option<Instant> = None;
    let mut listen = |news: &News| {
        if said.is_none_or(|at| at.elapsed().as_millis() > 100) {
            said = Some(Instant::now());
            let leaders: Vec<Value> = news
                .leaders
                .iter()
                .map(|(filter, value)| json!({"filter": entry(filter), "log_score": -value}))
                .collect();
            if !tell(json!({"done": news.done, "of": news.planned, "leaders": leaders})) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    let tuned = tune_until(&subject.spec, &data, &search, &mut listen, stop);
    if stop.load(Ordering::Relaxed) {
        return Err(Fault::Stopped);
    }
    let tuned = tuned?;
    let leaders: Vec<Value> = tuned
        .board
        .iter()
        .map(|e| {
            json!({
                "filter": entry(&e.filter), "clearly_worse": e.clearly_worse,
                "log_score": e.chosen.map(|s| s.log_score), "prediction": e.chosen.map(|s| s.prediction),
                "judged": e.judged.map(|s| s.prediction), "diverged_at": e.diverged_at,
            })
        })
        .collect();
    tell(json!({
        "finished": true, "leaders": leaders, "tried": tuned.tried, "diverged": tuned.diverged,
        "rows": [tuned.chosen_on.start + 1, tuned.chosen_on.end],
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_comes_once_and_the_coarse_ones_first() {
        let order = coarse_first(20, 13);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..260).collect::<Vec<_>>());
        let coarse: Vec<_> = order[..6].iter().map(|c| (c % 20, c / 20)).collect();
        assert!(coarse.iter().all(|(x, y)| x % 6 == 3 && y % 6 == 3), "{coarse:?}");
    }
}
