//! Chains with a window of past years on the card.
//!
//! Chains of one window length, number of steps and treatment of memory go through the years together: they share the images of
//! their seed, and differ in how much an image counts for each of them (its discount).

use super::{CAPACITY, Phases, held_out, judge, note};
use crate::yearbook::backend::{Board, Job, Unit};
use crate::yearbook::error::YearbookError;
use crate::yearbook::method::{Beyond, Rule, YearbookMethod};
use crate::yearbook::split::Part;
use crate::yearbook::store::YearResult;
use optfilter_nn::cuda::Chains;
use optfilter_nn::filter::Memory;
use std::collections::VecDeque;

/// All groups, one after the other; false when told to stop.
pub(super) fn run(
    phases: &mut Phases<'_>,
    job: &Job<'_>,
    units: Vec<&Unit>,
    board: &Board<'_>,
) -> Result<bool, YearbookError> {
    let mut rest: Vec<(&Unit, Beyond)> = units
        .into_iter()
        .filter_map(|u| match u.method {
            YearbookMethod::Beyond(beyond) => Some((u, beyond)),
            _ => None,
        })
        .collect();
    while let Some((_, first)) = rest.first().copied() {
        let kin = |b: &Beyond| {
            b.window.length() == first.window.length()
                && b.steps == first.steps
                && b.memory == first.memory
                && b.betas == first.betas
                && (b.average > 0.0) == (first.average > 0.0)
        };
        let (now, later) = rest.into_iter().partition(|(_, b)| kin(b));
        rest = later;
        if !group(phases, job, &now, board)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Chains that differ in seed, discount, average, decay and objective alone.
fn group(
    phases: &mut Phases<'_>,
    job: &Job<'_>,
    members: &[(&Unit, Beyond)],
    board: &Board<'_>,
) -> Result<bool, YearbookError> {
    let seeds = job.seeds;
    let units: Vec<&Unit> = members.iter().map(|(unit, _)| *unit).collect();
    let Some(first) = members.first().map(|(_, beyond)| *beyond) else { return Ok(true) };
    let set_of: Vec<usize> = units.iter().map(|u| job.seed_of(u)).collect::<Result<_, _>>()?;
    let start: Vec<Vec<f32>> = set_of.iter().map(|s| seeds[*s].pretrained.clone()).collect();
    let capacity = CAPACITY * (first.window.length() + 1);
    let mut chains = Chains::new(phases.card, &start, &set_of, capacity)?;
    if members.iter().any(|(_, b)| b.average > 0.0) {
        let decays: Vec<f32> = members.iter().map(|(_, b)| b.average as f32).collect();
        chains.keep_averages(&decays)?;
    }
    if members.iter().any(|(_, b)| b.decay > 0.0) {
        let shares: Vec<f32> = members.iter().map(|(_, b)| b.decay as f32).collect();
        chains.set_decay(&start, &shares)?;
    }
    let adam = first.adam()?;
    // The years in the window, the newest first; images of each seed.
    let mut past: VecDeque<Vec<Part>> = VecDeque::new();
    let mut results: Vec<Vec<YearResult>> = vec![Vec::new(); units.len()];
    let mut taken = 0;
    for year in 0..seeds[0].years.len() {
        past.push_front(seeds.iter().map(|s| s.years[year].train(job.data)).collect());
        past.truncate(first.window.length() + 1);
        chains.pass_time()?;
        // Splits depend on the number of images of the year alone, so every seed has as many.
        let counts: Vec<usize> =
            past.iter().map(|p| p.iter().map(|t| t.labels.len()).max().unwrap_or(0)).collect();
        if counts.first().is_some_and(|n| *n > 0) {
            let whole = |seed: usize| {
                let parts = || past.iter().filter_map(|p| p.get(seed));
                let images: Vec<f32> = parts().flat_map(|p| p.images.iter().copied()).collect();
                let labels: Vec<u32> = parts().flat_map(|p| p.labels.iter().copied()).collect();
                (images, labels)
            };
            let sets: Vec<(Vec<f32>, Vec<u32>)> = (0..seeds.len()).map(whole).collect();
            chains.set_images(&sets.iter().map(|(x, y)| (&x[..], &y[..])).collect::<Vec<_>>())?;
            let mut factors = vec![0.0; units.len() * capacity];
            let (mut scales, mut pulls) = (Vec::new(), Vec::new());
            for ((_, beyond), row) in members.iter().zip(factors.chunks_exact_mut(capacity)) {
                let weigh = |age: usize| beyond.window.discount().powf(age as f64);
                let aged = counts.iter().enumerate();
                let all = aged.clone().flat_map(|(age, n)| vec![weigh(age) as f32; *n]);
                row.iter_mut().zip(all).for_each(|(to, factor)| *to = factor);
                let n: f64 = aged.map(|(age, n)| weigh(age) * *n as f64).sum();
                let (scale, pull) = match beyond.rule {
                    Rule::Variational(sigma2) => ((1.0 / n) as f32, (1.0 / (n * sigma2)) as f32),
                    Rule::ImplicitMap | Rule::DirectFit => (1.0, 0.0),
                };
                scales.push(scale);
                pulls.push(pull);
            }
            chains.set_factors(&factors)?;
            chains.set_objective(&scales, &pulls)?;
            match first.memory {
                Memory::Carry => chains.carry_on()?,
                _ => {
                    chains.restart()?;
                    taken = 0;
                }
            }
            phases.end("windows: images, restart")?;
            for _ in 0..first.steps {
                chains.step(units.len(), taken, &adam)?;
                taken += 1;
            }
            phases.end("windows: steps")?;
        }
        chains.exchange_averages()?;
        let held = held_out(job, seeds, year);
        let judged = judge(&chains, &held, &set_of, seeds[0].years[year].year)?;
        chains.exchange_averages()?;
        phases.end("windows: predictions")?;
        if !note(job, &units, &mut results, judged, board) {
            return Ok(false);
        }
    }
    for (unit, results) in units.iter().zip(&results) {
        board.finished(unit, results)?;
    }
    Ok(true)
}
