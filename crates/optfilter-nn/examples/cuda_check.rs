//! Checks the card against the CPU and times it: gradients, ten chains' Adam step, the forward pass of 1000 particles.
//!
//! `cargo run --release -p optfilter-nn --features cuda --example cuda_check`
//!
//! With `stages`, and `OPTFILTER_CUDA_OPTIONS=-DSTAGES` in the environment, only the cycles of one gradient's stages are printed.

use optfilter::optim::{Adam, Optimizer};
use optfilter::rng::Stream;
use optfilter_nn::cuda::{Card, Chains, Particles};
use optfilter_nn::{Evaluator, Loss, Minibatch, Network, Reduction, Targets};
use std::time::Instant;

fn main() {
    if let Err(e) = check() {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
}

fn check() -> Result<(), Box<dyn std::error::Error>> {
    let network = Network::paper_cnn();
    let start = Instant::now();
    let card = Card::open(&network)?;
    println!("{}; opened and compiled in {:.2} s", card.name(), start.elapsed().as_secs_f64());

    // Ten chains with images, labels and weights of their own.
    let chains = 10;
    let mut stream = Stream::new(1, 0, "check");
    let sets: Vec<(Vec<f32>, Vec<u32>)> = (0..chains)
        .map(|_| {
            let labels: Vec<u32> = (0..32).map(|_| u32::from(stream.uniform() < 0.5)).collect();
            let image = |y: &u32, stream: &mut Stream| {
                let phase = std::f64::consts::TAU * stream.uniform();
                (0..1024)
                    .map(|i| {
                        (0.5 + 0.4
                            * (0.3 * f64::from(i / 32) * f64::from(1 + y)
                                + 0.2 * f64::from(i % 32)
                                + phase)
                                .sin()
                            + 0.05 * stream.normal()) as f32
                    })
                    .collect::<Vec<f32>>()
            };
            let images = labels.iter().flat_map(|y| image(y, &mut stream)).collect();
            (images, labels)
        })
        .collect();
    let weights: Vec<Vec<f32>> = (0..chains)
        .map(|c| {
            let mut w: Vec<f32> = network.init(&mut Stream::new(c, 0, "weights"));
            w.iter_mut().for_each(|w| *w += 0.01 * stream.normal() as f32);
            w
        })
        .collect();
    let borrowed: Vec<(&[f32], &[u32])> = sets.iter().map(|(x, y)| (&x[..], &y[..])).collect();
    let set_of: Vec<usize> = (0..weights.len()).collect();

    let mut on_card = Chains::new(&card, &weights, &set_of, 32)?;
    on_card.set_images(&borrowed)?;
    let (loss, gradient) = on_card.gradient()?;
    if std::env::args().any(|word| word == "stages") {
        return Ok(());
    }
    let mut evaluator = Evaluator::<f32>::new(&network);
    let (mut worst_loss, mut worst_gradient) = (0.0f64, 0.0f64);
    let mut g = vec![0.0; network.len()];
    for c in 0..weights.len() {
        let targets = Targets::Classes(&sets[c].1);
        let batch = Minibatch::new(
            &network,
            &sets[c].0,
            targets,
            Loss::BinaryCrossEntropy,
            Reduction::Sum,
        )?;
        let value = evaluator.gradient(&weights[c], &batch, &mut g);
        worst_loss = worst_loss.max(f64::from((value - loss[c]) / value).abs());
        let length: f64 = g.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
        let off: f64 =
            g.iter().zip(&gradient[c]).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt();
        worst_gradient = worst_gradient.max(off / length);
    }
    let verdict = |ok: bool| if ok { "ok" } else { "FAILED" };
    println!(
        "loss against the CPU, worst of {chains}: {worst_loss:.2e} {}",
        verdict(worst_loss < 1e-5)
    );
    println!(
        "gradient against the CPU, worst of {chains}: {worst_gradient:.2e} {}",
        verdict(worst_gradient < 1e-4)
    );

    // Twenty Adam steps, with the usual memory and with others, beside the CPU's rule on the card's derivatives. (With its own derivatives it
    // would not stay beside it: a weight whose derivative is nothing but rounding moves as far as any other.)
    let distance = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>().sqrt()
    };
    let adam = Adam::new(1e-3)?;
    for rule in [adam, Adam::with_decay(1e-3, 0.9, 0.99)?, Adam::with_decay(1e-3, 0.0, 0.99)?] {
        on_card.set_weights(&weights)?;
        on_card.restart()?;
        let mut from = weights[0].clone();
        let mut state = rule.init(&from);
        let mut off = 0.0f64;
        for k in 0..20 {
            let (_, derivatives) = on_card.gradient()?;
            on_card.step(weights.len(), k, &rule)?;
            let there = on_card.weights()?.swap_remove(0);
            let mut here = from.clone();
            rule.step(&mut here, &derivatives[0], &mut state);
            off = off.max(distance(&here, &there) / distance(&there, &from));
            from = there;
        }
        println!(
            "Adam steps (b1 = {}, b2 = {}) against the CPU, worst of 20: {off:.2e} of a step {}",
            rule.beta1,
            rule.beta2,
            verdict(off < 1e-4)
        );
    }
    let before = on_card.weights()?;
    on_card.set_decay(&weights, &vec![0.25; weights.len()])?;
    on_card.pass_time()?;
    let kept = distance(&on_card.weights()?[0], &weights[0]) / distance(&before[0], &weights[0]);
    println!(
        "kept of a way that decays by 0.25: {kept:.6} {}",
        verdict((kept - 0.75).abs() < 1e-4)
    );

    println!("\n| what | ms | target |\n|---|---|---|");
    for (count, target) in [(1, ""), (10, "0.2"), (40, ""), (110, "")] {
        let many: Vec<Vec<f32>> = (0..count).map(|c| weights[c % weights.len()].clone()).collect();
        let set_of: Vec<usize> = (0..count).map(|c| c % weights.len()).collect();
        let mut chains = Chains::new(&card, &many, &set_of, 32)?;
        chains.set_images(&borrowed[..count.min(weights.len())])?;
        chains.restart()?;
        let mut times = Vec::new();
        for round in 0..6 {
            card.wait()?;
            let start = Instant::now();
            for k in 0..100 {
                chains.step(count, round * 100 + k, &adam)?;
            }
            card.wait()?;
            times.push(start.elapsed().as_secs_f64() * 10.0);
        }
        times.sort_by(f64::total_cmp);
        println!("| Adam step, {count} chains, batch 32 | {:.4} | {target} |", times[2]);
    }
    let particles = Particles::new(&card, &weights[..1], 1000, 32)?;
    for (exact, target) in [(false, "2"), (true, "")] {
        let mut times = Vec::new();
        for _ in 0..7 {
            card.wait()?;
            let start = Instant::now();
            if exact {
                particles.losses_exact(&borrowed[..1])?
            } else {
                particles.losses(&borrowed[..1])?
            };
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let how = if exact { "single precision" } else { "half precision" };
        println!(
            "| losses of 1000 particles, 32 images, {how} (copies included) | {:.3} | {target} |",
            times[3]
        );
    }
    let (rounded, exact) =
        (particles.losses(&borrowed[..1])?, particles.losses_exact(&borrowed[..1])?);
    let (targets, kind) = (Targets::Classes(&sets[0].1), Loss::BinaryCrossEntropy);
    let batch = Minibatch::new(&network, &sets[0].0, targets, kind, Reduction::Sum)?;
    let by_cpu = evaluator.loss(&weights[0], &batch);
    let off = |loss: f32| (loss - by_cpu).abs() / by_cpu;
    println!(
        "\nparticle loss against the CPU: {:.2e} {}",
        off(exact[999]),
        verdict(off(exact[999]) < 1e-5)
    );
    println!("in half precision: {:.2e} {}", off(rounded[999]), verdict(off(rounded[999]) < 2e-3));
    let mut cloud = Particles::new(&card, &weights[..2], 100, 32)?;
    cloud.disturb(&[0.0, 0.5], &[1, 2, 3, 4], 0)?;
    let spread = |c: usize, i: usize| -> Result<f64, Box<dyn std::error::Error>> {
        let w = cloud.particle(c, i)?;
        Ok(w.iter().zip(&weights[c]).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
            / w.len() as f64)
    };
    let (still, moved) = (spread(0, 7)?, spread(1, 7)?);
    println!(
        "noise variance {still} (0) and {moved:.4} (0.25) {}",
        verdict(still == 0.0 && (moved - 0.25).abs() < 0.02)
    );
    Ok(())
}
