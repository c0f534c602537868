//! The chains on all cores: one chain per core, a particle filter on all of them.

use super::backend::{Backend, Board, Job, Unit};
use super::error::YearbookError;
use super::method::{Beyond, LONG, LR, Rule, YearbookMethod as Method};
use super::seed::{Seed, batch};
use super::split::Part;
use super::store::YearResult;
use crate::protocol::Protocol;
use crate::published::yearbook::{BestParticle, noisy_walk};
use optfilter::optim::Adam;
use optfilter_nn::Evaluator;
use optfilter_nn::filter::{ImplicitMap, Particle, Static, Transition, Variational, WeightFilter};
use rayon::prelude::*;

/// All cores.
pub(super) struct Cpu;

impl Backend for Cpu {
    fn run(&self, job: &Job<'_>, board: &Board<'_>) -> Result<(), YearbookError> {
        let work = |unit: &Unit| unit.method.work(job.particles);
        let one = |unit: &Unit| {
            if board.stopped() {
                return Ok(());
            }
            match follow(job, unit, &|| board.worked(work(unit), unit))? {
                Some(results) => board.finished(unit, &results),
                None => Ok(()),
            }
        };
        let (particle, mut single): (Vec<&Unit>, Vec<&Unit>) =
            job.pending.iter().partition(|u| matches!(u.method, Method::Particle(_)));
        // The longest first, one after the other from the queue, so that the cores end together.
        single.sort_by(|a, b| work(b).total_cmp(&work(a)));
        single.par_iter().with_max_len(1).try_for_each(|unit| one(unit))?;
        // A particle filter fills all cores by itself, and holds 113 MB: one at a time.
        particle.into_iter().try_for_each(one)
    }
}

/// The filter of a chain.
fn filter(
    unit: &Unit,
    seed: &Seed,
    particles: usize,
) -> Result<Box<dyn WeightFilter<f32> + Send>, YearbookError> {
    let (adam, weights) = (Adam::new(LR)?, seed.pretrained.clone());
    Ok(match (unit.method, unit.protocol()) {
        (Method::Static, _) => Box::new(Static(weights)),
        (Method::ImplicitMap(k), _) => Box::new(ImplicitMap::new(adam, k, weights)),
        (Method::DirectFit, _) => Box::new(ImplicitMap::direct_fit(adam, weights)),
        (Method::Variational(sigma2), Protocol::Specified) => {
            Box::new(Variational::new(adam, LONG, sigma2, weights)?)
        }
        (Method::Variational(sigma2), Protocol::Published) => Box::new(
            Variational::new(adam, LONG, sigma2, weights)?
                .with_transition(noisy_walk(sigma2, seed.seed)),
        ),
        (Method::Particle(sigma2), Protocol::Specified) => {
            Box::new(Particle::new(particles, sigma2, weights, seed.seed)?)
        }
        (Method::Particle(sigma2), Protocol::Published) => {
            Box::new(BestParticle::new(particles, sigma2, weights, seed.seed))
        }
        (Method::Beyond(beyond), _) => {
            let Beyond { rule, steps, window, memory, average, decay: rate, .. } = beyond;
            let (adam, reference) = (beyond.adam()?, seed.pretrained.clone());
            let transition = match rate > 0.0 {
                true => Transition::Decay { reference, rate },
                false => Transition::Identity,
            };
            match rule {
                Rule::Variational(sigma2) => Box::new(
                    Variational::new(adam, steps, sigma2, weights)?
                        .with_transition(transition)
                        .with_window(window)
                        .with_memory(memory),
                ),
                Rule::ImplicitMap | Rule::DirectFit => Box::new(
                    ImplicitMap::new(adam, steps, weights)
                        .with_transition(transition)
                        .with_window(window)
                        .with_memory(memory)
                        .with_average(average),
                ),
            }
        }
    })
}

/// Percent of the images whose class the weights name; none for no images.
fn accuracy(evaluator: &mut Evaluator<f32>, weights: &[f32], part: &Part) -> Option<f64> {
    let mut z = vec![0.0; part.labels.len()];
    if !z.is_empty() {
        evaluator.predict(weights, &part.images, &mut z);
    }
    part.percent_right(&z)
}

/// Follows a chain through the years; `year_done` is called after each and may end the chain by returning false.
fn follow(
    job: &Job<'_>,
    unit: &Unit,
    year_done: &dyn Fn() -> bool,
) -> Result<Option<Vec<YearResult>>, YearbookError> {
    let seed = &job.seeds[job.seed_of(unit)?];
    let mut evaluator = Evaluator::new(job.network);
    let mut filter = filter(unit, seed, job.particles)?;
    let mut results = Vec::new();
    for split in &seed.years {
        filter.predict();
        let train = split.train(job.data);
        if !train.labels.is_empty() {
            filter.update(&mut evaluator, &batch(job.network, &train)?);
        }
        let mut judge = |part: Part| accuracy(&mut evaluator, filter.weights(), &part);
        if let Some(accuracy) = judge(split.test(job.data)) {
            let val_accuracy = judge(split.validation(job.data));
            let (year, n_test) = (split.year, split.n_test());
            results.push(YearResult { year, accuracy, val_accuracy, n_test });
        }
        if !year_done() {
            return Ok(None);
        }
    }
    Ok(Some(results))
}
