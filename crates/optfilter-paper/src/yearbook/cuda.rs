//! The Yearbook experiment on the card: all chains side by side, year by year.
//!
//! The chains that take optimizer steps go through the years in lockstep, those with most steps first, so that in step k
//! the chains still at work are the first ones. Chains with a window go together where window, steps and memory are the same
//! (`cuda_windows.rs`). Particle filters go one configuration at a time, all seeds together.

use super::backend::{Backend, Board, Job, Unit};
use super::error::YearbookError;
use super::method::{LR, YearbookMethod};
use super::seed::Seed;
use super::split::Part;
use super::store::YearResult;
use crate::protocol::Protocol;
use crate::published::yearbook::{best, noise_std};
use optfilter::filter::{Scheme, resample};
use optfilter::optim::Adam;
use optfilter::rng::Stream;
use optfilter_nn::cuda::{Card, Chains, CudaError, Particles, noise_key};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[path = "cuda_windows.rs"]
mod windows;

/// Most images a chain learns from in a year.
const CAPACITY: usize = 32;

/// The first card of the machine.
pub(super) struct Cuda;

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

impl Backend for Cuda {
    fn run(&self, job: &Job<'_>, board: &Board<'_>) -> Result<(), YearbookError> {
        if job.pending.is_empty() {
            return Ok(());
        }
        let card = Card::open(job.network)?;
        let mut phases = Phases::new(&card);
        let (clouds, points): (Vec<&Unit>, Vec<&Unit>) =
            job.pending.iter().partition(|u| matches!(u.method, YearbookMethod::Particle(_)));
        let (beyond, mut points): (Vec<&Unit>, Vec<&Unit>) =
            points.into_iter().partition(|u| matches!(u.method, YearbookMethod::Beyond(_)));
        points.sort_by_key(|u| std::cmp::Reverse(u.method.steps()));
        if !points.is_empty() && !descend(&mut phases, job, &points, board)? {
            return Ok(());
        }
        if !windows::run(&mut phases, job, beyond, board)? {
            return Ok(());
        }
        let mut rest = clouds;
        while let Some(first) = rest.first() {
            let (method, protocol) = (first.method, first.protocol());
            let (now, later) =
                rest.into_iter().partition(|u| u.method == method && u.protocol() == protocol);
            rest = later;
            if !cloud(&mut phases, job, &now, board)? {
                return Ok(());
            }
        }
        phases.print();
        Ok(())
    }
}

/// Validation and test images of a year for each seed, validation first.
fn held_out(job: &Job<'_>, seeds: &[Seed], year: usize) -> Vec<(Part, Part)> {
    let both = |s: &Seed| (s.years[year].validation(job.data), s.years[year].test(job.data));
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
        test.percent_right(second).map(|accuracy| YearResult {
            year,
            accuracy,
            val_accuracy: validation.percent_right(first),
            n_test: test.labels.len(),
        })
    });
    Ok(results.collect())
}

/// Notes what a year gave each chain; false when told to stop.
fn note(
    job: &Job<'_>,
    units: &[&Unit],
    results: &mut [Vec<YearResult>],
    judged: Vec<Option<YearResult>>,
    board: &Board<'_>,
) -> bool {
    units.iter().zip(results).zip(judged).all(|((unit, results), now)| {
        results.extend(now);
        board.worked(unit.method.work(job.particles), unit)
    })
}

/// Static weights, implicit MAP, direct fit and the variational filter; false when told to stop.
fn descend(
    phases: &mut Phases<'_>,
    job: &Job<'_>,
    units: &[&Unit],
    board: &Board<'_>,
) -> Result<bool, YearbookError> {
    let seeds = job.seeds;
    let set_of: Vec<usize> = units.iter().map(|u| job.seed_of(u)).collect::<Result<_, _>>()?;
    let start: Vec<Vec<f32>> = set_of.iter().map(|s| seeds[*s].pretrained.clone()).collect();
    let mut chains = Chains::new(phases.card, &start, &set_of, CAPACITY)?;
    let adam = Adam::new(LR)?;
    let stds: Vec<f32> = units
        .iter()
        .map(|u| match (u.method, u.protocol()) {
            (YearbookMethod::Variational(sigma2), Protocol::Published) => noise_std(sigma2) as f32,
            _ => 0.0,
        })
        .collect();
    let keys: Vec<u32> =
        units.iter().flat_map(|u| noise_key(u.seed, "variational noise")).collect();
    let mut results: Vec<Vec<YearResult>> = vec![Vec::new(); units.len()];
    for year in 0..seeds[0].years.len() {
        if stds.iter().any(|s| *s > 0.0) {
            chains.disturb(&stds, &keys, year as u32)?;
        }
        let train: Vec<Part> = seeds.iter().map(|s| s.years[year].train(job.data)).collect();
        let n = train.iter().map(|t| t.labels.len()).max().unwrap_or(0);
        if n > 0 {
            chains.set_images(
                &train.iter().map(|t| (&t.images[..], &t.labels[..])).collect::<Vec<_>>(),
            )?;
            let objective = units.iter().map(|u| match u.method {
                YearbookMethod::Variational(sigma2) => {
                    (1.0 / n as f32, (1.0 / (n as f64 * sigma2)) as f32)
                }
                _ => (1.0, 0.0),
            });
            let (scales, pulls): (Vec<f32>, Vec<f32>) = objective.unzip();
            chains.set_objective(&scales, &pulls)?;
            chains.restart()?;
            phases.end("chains: noise, images, restart")?;
            let most = units.first().and_then(|u| u.method.steps()).unwrap_or(0);
            for k in 0..most {
                let active = units.partition_point(|u| u.method.steps().unwrap_or(0) > k);
                chains.step(active, k, &adam)?;
            }
            phases.end("chains: steps")?;
        }
        let held = held_out(job, seeds, year);
        let judged = judge(&chains, &held, &set_of, seeds[0].years[year].year)?;
        phases.end("chains: predictions")?;
        if !note(job, units, &mut results, judged, board) {
            return Ok(false);
        }
    }
    for (unit, results) in units.iter().zip(&results) {
        board.finished(unit, results)?;
    }
    Ok(true)
}

/// Likelihood weights of all particles, and whom each particle of the next year descends from.
fn weigh(losses: &[f32], units: &[&Unit], count: usize, year: u64) -> (Vec<f32>, Vec<i32>) {
    let (mut p, mut parents) = (Vec::new(), Vec::new());
    for (losses, unit) in losses.chunks_exact(count).zip(units) {
        let least = losses.iter().copied().filter(|l| l.is_finite()).fold(f32::INFINITY, f32::min);
        if !least.is_finite() {
            // No particle explains the labels: all stay, with equal weights.
            p.extend(vec![1.0 / count as f32; count]);
            parents.extend(0..count as i32);
            continue;
        }
        let finite = |l: &f32| if l.is_finite() { f64::from(least - l).exp() } else { 0.0 };
        let raw: Vec<f64> = losses.iter().map(finite).collect();
        let sum: f64 = raw.iter().sum();
        p.extend(raw.iter().map(|v| (v / sum) as f32));
        let mut stream = Stream::new(unit.seed, year, "resampling");
        let drawn = resample(Scheme::Multinomial, &raw, &mut stream);
        parents.extend(drawn.into_iter().map(|i| i as i32));
    }
    (p, parents)
}

/// One configuration of the particle filter for all its seeds; false when told to stop.
fn cloud(
    phases: &mut Phases<'_>,
    job: &Job<'_>,
    units: &[&Unit],
    board: &Board<'_>,
) -> Result<bool, YearbookError> {
    let mine: Vec<Seed> = units
        .iter()
        .map(|u| job.seed_of(u).map(|s| job.seeds[s].clone()))
        .collect::<Result<_, _>>()?;
    let count = job.particles;
    let start: Vec<Vec<f32>> = mine.iter().map(|s| s.pretrained.clone()).collect();
    let mut particles = Particles::new(phases.card, &start, count, CAPACITY)?;
    let set_of: Vec<usize> = (0..units.len()).collect();
    let mut chains = Chains::new(phases.card, &start, &set_of, 1)?; // for the estimates' predictions
    phases.end("particles: start")?;
    let (protocol, sigma2) = (units[0].protocol(), units[0].method.sigma2().unwrap_or(0.0));
    let std = match protocol {
        Protocol::Published => noise_std(sigma2),
        Protocol::Specified => sigma2.sqrt(),
    };
    let stds = vec![std as f32; units.len()];
    let keys: Vec<u32> = units.iter().flat_map(|u| noise_key(u.seed, "particle noise")).collect();
    let mut results: Vec<Vec<YearResult>> = vec![Vec::new(); units.len()];
    let mut estimates = start;
    for year in 0..mine[0].years.len() {
        particles.disturb(&stds, &keys, year as u32)?;
        phases.end("particles: noise")?;
        let train: Vec<Part> = mine.iter().map(|s| s.years[year].train(job.data)).collect();
        if train.iter().any(|t| !t.labels.is_empty()) {
            let sets: Vec<_> = train.iter().map(|t| (&t.images[..], &t.labels[..])).collect();
            let losses = particles.losses(&sets)?;
            phases.end("particles: losses")?;
            match protocol {
                Protocol::Published => {
                    for (c, losses) in losses.chunks_exact(count).enumerate() {
                        if let Some(index) = best(losses) {
                            estimates[c] = particles.particle(c, index)?;
                        }
                    }
                }
                Protocol::Specified => {
                    let (p, parents) = weigh(&losses, units, count, year as u64);
                    estimates = particles.average(&p)?;
                    particles.resample(&parents)?;
                }
            }
            phases.end("particles: estimates, resampling")?;
        }
        chains.set_weights(&estimates)?;
        let judged =
            judge(&chains, &held_out(job, &mine, year), &set_of, mine[0].years[year].year)?;
        phases.end("particles: predictions")?;
        if !note(job, units, &mut results, judged, board) {
            return Ok(false);
        }
    }
    for (unit, results) in units.iter().zip(&results) {
        board.finished(unit, results)?;
    }
    Ok(true)
}
