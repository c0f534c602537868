//! The Yearbook experiment on the card: all chains side by side, year by year.
//!
//! The chains that take optimizer steps go through the years in lockstep, those with most steps first, so that in step k
//! the chains still at work are the first ones. Particle filters go one configuration at a time, all seeds together.

use super::{Card, Chains, CudaError, Particles, noise_key};
use crate::network::Network;
use crate::yearbook::chain::{LR, Method, Seed, YearResult};
use crate::yearbook::run::{Board, Unit};
use crate::yearbook::split::Part;
use crate::yearbook::{Dataset, Protocol, YearbookError};
use optfilter::filter::{Scheme, resample};
use optfilter::rng::Stream;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most images a chain learns from in a year.
const CAPACITY: usize = 32;

impl From<CudaError> for YearbookError {
    fn from(e: CudaError) -> Self {
        Self::Cuda(e.to_string())
    }
}

/// Where the time goes: printed to standard error at the end if the environment has `OPTFILTER_TIMES`.
struct Phases<'a> {
    card: &'a Card,
    on: bool,
    since: Instant,
    spent: BTreeMap<&'static str, Duration>,
}

impl<'a> Phases<'a> {
    fn new(card: &'a Card) -> Self {
        let on = std::env::var_os("OPTFILTER_TIMES").is_some();
        Self { card, on, since: Instant::now(), spent: BTreeMap::new() }
    }

    /// Books the time since the last call.
    fn end(&mut self, name: &'static str) -> Result<(), CudaError> {
        if self.on {
            self.card.wait()?; // otherwise the time would be booked where the program happens to wait
            *self.spent.entry(name).or_default() += self.since.elapsed();
            self.since = Instant::now();
        }
        Ok(())
    }

    fn print(&self) {
        for (name, spent) in &self.spent {
            eprintln!("{:8.2} s {name}", spent.as_secs_f64());
        }
    }
}

/// Runs the pending chains.
pub(crate) fn run(
    data: &Dataset,
    network: &Network,
    seeds: &[Seed],
    pending: &[Unit],
    particles: usize,
    board: &Board<'_>,
) -> Result<(), YearbookError> {
    if pending.is_empty() {
        return Ok(());
    }
    let card = Card::open(network)?;
    let mut phases = Phases::new(&card);
    let (clouds, mut points): (Vec<&Unit>, Vec<&Unit>) =
        pending.iter().partition(|u| matches!(u.method, Method::Particle(_)));
    points.sort_by_key(|u| std::cmp::Reverse(u.method.steps()));
    if !points.is_empty() && !descend(&mut phases, data, seeds, &points, board)? {
        return Ok(());
    }
    let mut rest = clouds;
    while let Some(first) = rest.first() {
        let (method, protocol) = (first.method, first.protocols.clone());
        let (now, later) =
            rest.into_iter().partition(|u| u.method == method && u.protocols == protocol);
        rest = later;
        if !cloud(&mut phases, data, seeds, &now, particles, board)? {
            return Ok(());
        }
    }
    phases.print();
    Ok(())
}

fn seed_of(seeds: &[Seed], unit: &Unit) -> Result<usize, YearbookError> {
    let found = seeds.iter().position(|s| s.seed == unit.seed as u64);
    found.ok_or_else(|| YearbookError::Cuda(format!("seed {} was not prepared", unit.seed)))
}

fn published(unit: &Unit) -> bool {
    unit.protocols.first() == Some(&Protocol::Published)
}

/// Percent right among some outputs, and of which part.
fn percent(z: &[f32], labels: &[u32]) -> Option<f64> {
    let right = z.iter().zip(labels).filter(|(z, y)| (**z > 0.0) == (**y == 1)).count();
    (!labels.is_empty()).then(|| 100.0 * right as f64 / labels.len() as f64)
}

/// Validation and test images of a year for each seed, validation first.
fn held_out(data: &Dataset, seeds: &[Seed], year: usize) -> Vec<(Part, Part)> {
    let both = |s: &Seed| (s.years[year].validation(data), s.years[year].test(data));
    seeds.par_iter().map(both).collect()
}

/// Accuracies of every chain in a year.
fn judge(
    chains: &Chains<'_>,
    held: &[(Part, Part)],
    set_of: &[usize],
    year: i32,
) -> Result<Vec<Option<YearResult>>, YearbookError> {
    // Splits depend on the number of images of the year alone, so every seed has as many.
    let count = held.iter().map(|(v, t)| v.labels.len() + t.labels.len()).max().unwrap_or(0);
    if count == 0 {
        return Ok(vec![None; set_of.len()]);
    }
    let mut images = Vec::with_capacity(held.len() * count * 1024);
    for (validation, test) in held {
        images.extend_from_slice(&validation.images);
        images.extend_from_slice(&test.images);
    }
    let z = chains.predict(&images, count)?;
    let results = z.chunks_exact(count).zip(set_of).map(|(z, set)| {
        let (validation, test) = &held[*set];
        let (first, second) = z.split_at(validation.labels.len());
        percent(second, &test.labels).map(|accuracy| YearResult {
            year,
            accuracy,
            val_accuracy: percent(first, &validation.labels),
            n_test: test.labels.len(),
        })
    });
    Ok(results.collect())
}

/// Static weights, implicit MAP, direct fit and the variational filter; false when told to stop.
fn descend(
    phases: &mut Phases<'_>,
    data: &Dataset,
    seeds: &[Seed],
    units: &[&Unit],
    board: &Board<'_>,
) -> Result<bool, YearbookError> {
    let set_of: Vec<usize> = units.iter().map(|u| seed_of(seeds, u)).collect::<Result<_, _>>()?;
    let start: Vec<Vec<f32>> = set_of.iter().map(|s| seeds[*s].pretrained.clone()).collect();
    let mut chains = Chains::new(phases.card, &start, &set_of, CAPACITY)?;
    let stds: Vec<f32> = units
        .iter()
        .map(|u| match u.method {
            Method::Variational(sigma2) if published(u) => sigma2 as f32,
            _ => 0.0,
        })
        .collect();
    let keys: Vec<u32> =
        units.iter().flat_map(|u| noise_key(u.seed as u64, "variational noise")).collect();
    let mut results: Vec<Vec<YearResult>> = vec![Vec::new(); units.len()];
    for year in 0..seeds[0].years.len() {
        if stds.iter().any(|s| *s > 0.0) {
            chains.disturb(&stds, &keys, year as u32)?;
        }
        let train: Vec<Part> = seeds.iter().map(|s| s.years[year].train(data)).collect();
        let n = train.iter().map(|t| t.labels.len()).max().unwrap_or(0);
        if n > 0 {
            chains.set_images(
                &train.iter().map(|t| (&t.images[..], &t.labels[..])).collect::<Vec<_>>(),
            )?;
            let objective = units.iter().map(|u| match u.method {
                Method::Variational(sigma2) => (1.0 / n as f32, (1.0 / (n as f64 * sigma2)) as f32),
                _ => (1.0, 0.0),
            });
            let (scales, pulls): (Vec<f32>, Vec<f32>) = objective.unzip();
            chains.set_objective(&scales, &pulls)?;
            chains.restart()?;
            phases.end("chains: noise, images, restart")?;
            let most = units.first().and_then(|u| u.method.steps()).unwrap_or(0);
            for k in 0..most {
                let active = units.partition_point(|u| u.method.steps().unwrap_or(0) > k);
                chains.step(active, k, LR)?;
            }
            phases.end("chains: steps")?;
        }
        let held = held_out(data, seeds, year);
        let judged = judge(&chains, &held, &set_of, seeds[0].years[year].year)?;
        phases.end("chains: predictions")?;
        for ((unit, results), now) in units.iter().zip(&mut results).zip(judged) {
            results.extend(now);
            if !board.worked(unit.method.work(0), unit) {
                return Ok(false);
            }
        }
    }
    for (unit, results) in units.iter().zip(&results) {
        board.finished(unit, results)?;
    }
    Ok(true)
}

/// One configuration of the particle filter for all its seeds; false when told to stop.
fn cloud(
    phases: &mut Phases<'_>,
    data: &Dataset,
    seeds: &[Seed],
    units: &[&Unit],
    count: usize,
    board: &Board<'_>,
) -> Result<bool, YearbookError> {
    let mine: Vec<Seed> = units
        .iter()
        .map(|u| seed_of(seeds, u).map(|s| seeds[s].clone()))
        .collect::<Result<_, _>>()?;
    let start: Vec<Vec<f32>> = mine.iter().map(|s| s.pretrained.clone()).collect();
    let mut particles = Particles::new(phases.card, &start, count, CAPACITY)?;
    let set_of: Vec<usize> = (0..units.len()).collect();
    let mut chains = Chains::new(phases.card, &start, &set_of, 1)?; // for the estimates' predictions
    phases.end("particles: start")?;
    let quirks = published(units[0]);
    let sigma2 = units[0].method.sigma2().unwrap_or(0.0);
    let std = if quirks { sigma2 } else { sigma2.sqrt() };
    let stds = vec![std as f32; units.len()];
    let keys: Vec<u32> =
        units.iter().flat_map(|u| noise_key(u.seed as u64, "particle noise")).collect();
    let mut results: Vec<Vec<YearResult>> = vec![Vec::new(); units.len()];
    let mut estimates = start;
    for year in 0..mine[0].years.len() {
        particles.disturb(&stds, &keys, year as u32)?;
        phases.end("particles: noise")?;
        let train: Vec<Part> = mine.iter().map(|s| s.years[year].train(data)).collect();
        if train.iter().any(|t| !t.labels.is_empty()) {
            let sets: Vec<_> = train.iter().map(|t| (&t.images[..], &t.labels[..])).collect();
            let losses = particles.losses(&sets)?;
            phases.end("particles: losses")?;
            let (mut p, mut parents) = (Vec::new(), Vec::new());
            for (c, losses) in losses.chunks_exact(count).enumerate() {
                let best = losses
                    .iter()
                    .enumerate()
                    .filter(|l| l.1.is_finite())
                    .min_by(|a, b| a.1.total_cmp(b.1));
                let Some((index, least)) = best else {
                    // No particle explains the labels: all stay, with equal weights.
                    p.extend(vec![1.0 / count as f32; count]);
                    parents.extend(0..count as i32);
                    continue;
                };
                if quirks {
                    estimates[c] = particles.particle(c, index)?;
                    continue;
                }
                let finite = |l: &f32| if l.is_finite() { f64::from(least - l).exp() } else { 0.0 };
                let raw: Vec<f64> = losses.iter().map(finite).collect();
                let sum: f64 = raw.iter().sum();
                p.extend(raw.iter().map(|v| (v / sum) as f32));
                let mut stream = Stream::new(units[c].seed as u64, year as u64, "resampling");
                parents.extend(
                    resample(Scheme::Multinomial, &raw, &mut stream).into_iter().map(|i| i as i32),
                );
            }
            if !quirks {
                estimates = particles.average(&p)?;
                particles.resample(&parents)?;
            }
            phases.end("particles: estimates, resampling")?;
        }
        chains.set_weights(&estimates)?;
        let judged =
            judge(&chains, &held_out(data, &mine, year), &set_of, mine[0].years[year].year)?;
        phases.end("particles: predictions")?;
        for ((unit, results), now) in units.iter().zip(&mut results).zip(judged) {
            results.extend(now);
            if !board.worked(unit.method.work(count), unit) {
                return Ok(false);
            }
        }
    }
    for (unit, results) in units.iter().zip(&results) {
        board.finished(unit, results)?;
    }
    Ok(true)
}
