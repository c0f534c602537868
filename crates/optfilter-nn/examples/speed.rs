//! Times the paper's network: one Adam step at batch 32, and the forward pass of many particles.
//!
//! `cargo run --release -p optfilter-nn --example speed`

use optfilter::optim::{Adam, Optimizer, descend};
use optfilter::rng::Stream;
use optfilter_nn::kernel::Level;
use optfilter_nn::{Batch, Evaluator, Loss, Network, NetworkObjective, Reduction, Targets};
use std::time::Instant;

/// Multiply-adds of one forward pass of one image, times two.
const FLOP: f64 = 2.0 * 9.0 * 32.0 * (1024.0 + 32.0 * (256.0 + 64.0 + 16.0)) + 256.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let network = Network::paper_cnn();
    let mut stream = Stream::new(1, 0, "weights");
    let x: Vec<f32> = (0..32 * 1024).map(|i| ((i * 37 % 101) as f32) / 101.0).collect();
    let y: Vec<u32> = (0..32).map(|i| i % 2).collect();
    let batch =
        Batch::new(&network, &x, Targets::Classes(&y), Loss::BinaryCrossEntropy, Reduction::Sum)?;
    let adam = Adam::new(1e-3)?;
    for level in Level::available() {
        let mut evaluator = Evaluator::at_level(&network, level);
        let mut w: Vec<f32> = network.init(&mut stream);
        let mut state = adam.init(&w);
        let mut steps = Vec::new();
        for _ in 0..10 {
            let mut objective = NetworkObjective::new(&mut evaluator, batch);
            let start = Instant::now();
            descend(&adam, &mut objective, &mut w, &mut state, 20);
            steps.push(start.elapsed().as_secs_f64() / 20.0 * 1e3);
        }
        let mut z = [0.0; 32];
        let mut passes = Vec::new();
        for _ in 0..10 {
            let start = Instant::now();
            for _ in 0..10 {
                evaluator.predict(&w, &x, &mut z);
            }
            passes.push(start.elapsed().as_secs_f64() / 10.0 * 1e3);
        }
        steps.sort_by(f64::total_cmp);
        passes.sort_by(f64::total_cmp);
        println!(
            "{level:?}: Adam step {:.3} ms (best {:.3}); forward {:.3} ms (best {:.3}), {:.1} GFLOP/s",
            steps[5],
            steps[0],
            passes[5],
            passes[0],
            32.0 * FLOP / passes[0] / 1e6
        );
    }
    Ok(())
}
